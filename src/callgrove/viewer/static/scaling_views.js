/**
 * What the pictures of the scaling page show: chosen models along one parameter, or over two.
 *
 * @import { Point } from "./canvas.js"
 * @import { Fact } from "./documents.js"
 * @import { Band, Measured, PlotCurve, PlotData } from "./plot.js"
 * @import { Models } from "./scaling_models.js"
 * @import { Ground } from "./scaling_map.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {Object} Scene
 * @property {Models} models
 * @property {number} metric
 * @property {number[]} chosen  models, in the order of their colours
 * @property {number} current
 * @property {number} along  a parameter
 * @property {number} across  the other one, of pictures of two
 * @property {number[]} fixed  values of all parameters; those of the picture's own do not matter
 * @property {number[]} point  of prediction
 * @property {boolean} logX
 * @property {boolean} logY
 * @property {boolean} near  whether functions that fit nearly as well are drawn
 * @property {(value: number) => string} amount
 */

import { CATEGORIES, mixed } from "./colours.js";
import { gridAxis, valuesOn } from "./scaling_grid.js";
import { brief, lastOf, notation } from "./scaling_text.js";

const SAMPLES = 160; // of a curve
const MOST_MARKS = 16;
const MOST_CROSSINGS = 12;
const HALVINGS = 60; // of a step, to find where curves cross

/**
 * The colour of the n-th chosen model.
 * @param {number} n
 */
export const colourOfChoice = (n) => mixed(CATEGORIES[n % CATEGORIES.length], "#ffffff", 0.15); // on dark ground too

/**
 * @param {Models} models
 * @param {ArrayLike<number>} at
 * @param {number[]} [which]  parameters, all unless told
 */
export function pointText({ data }, at, which) {
  const shown = which ?? data.parameters.map((_, p) => p);
  return shown.map((p) => `${data.parameters[p]} = ${brief(at[p])}`).join(", ");
}

/**
 * Values of the parameters that a picture is not along.
 * @param {Scene} scene
 * @param {number[]} own
 */
function othersText({ models, fixed }, own) {
  return pointText(
    models,
    fixed,
    models.data.parameters.map((_, p) => p).filter((p) => !own.includes(p)),
  );
}

/**
 * What the chosen models say at a point: values, and intervals where they are known.
 * @param {Scene} scene
 * @param {number[]} point
 * @returns {Details}
 */
function detailsAt({ models, chosen, near, amount }, point) {
  /** @type {Fact[]} */
  const rows = chosen.flatMap((m) => {
    const one = models.judgement(m, point);
    const name = chosen.length > 1 ? lastOf(models.data.callpath[m]) : "model";
    const known = one && Number.isFinite(one.low) && Number.isFinite(one.high);
    /** @type {Fact[]} */
    const facts = [[name, amount(models.valueAt(m, point))]];
    if (known) facts.push(["interval of 90%", `${amount(one.low)} to ${amount(one.high)}`]);
    if (one) facts.push(["trust", `${one.trust}: ${one.reason}`]);
    if (near && chosen.length === 1)
      for (const other of models.near(m)) facts.push([notation(other.short), amount(other.at(point))]);
    return facts;
  });
  return { title: pointText(models, point), rows };
}

/**
 * What was measured of a model at a point.
 * @param {Scene} scene
 * @param {number} m
 * @param {number} k  the point
 * @returns {Details}
 */
function detailsOfPoint({ models, chosen, amount }, m, k) {
  const { data, nPoints } = models;
  const [value, low, high] = [data.value, data.low, data.high].map((column) => column[m * nPoints + k]);
  const model = models.valueAt(m, models.point(k));
  const repeated = models.repetitions(m, k);
  return {
    title: pointText(models, models.point(k)),
    rows: [
      ["call path", chosen.length > 1 ? lastOf(data.callpath[m]) : ""],
      [data.measure, amount(value)],
      ["smallest", low < high ? amount(low) : ""],
      ["largest", low < high ? amount(high) : ""],
      ["measured", repeated.length ? `${repeated.length} times` : ""],
      ["model", amount(model)],
      ["difference", value ? `${model >= value ? "+" : ""}${(100 * (model / value - 1)).toFixed(1)}%` : ""],
    ],
  };
}

/**
 * Points of a model that were measured where the other parameters are as they are fixed.
 * @param {Scene} scene
 * @param {number} m
 * @param {number[]} own  parameters of the picture
 */
function measuredAt({ models, fixed }, m, own) {
  return Array.from({ length: models.nPoints }, (_, k) => k).filter(
    (k) =>
      Number.isFinite(models.data.value[m * models.nPoints + k]) &&
      models.point(k).every((one, p) => own.includes(p) || one === fixed[p]),
  );
}

// -- along one parameter ----------------------------------------------------------------------------------------------

/**
 * @param {Scene} scene
 * @returns {PlotData}
 */
export function plotOf(scene) {
  const { models, along, chosen, point, metric, amount } = scene;
  const { data } = models;
  const measured = models.measured[along];
  const inside = /** @type {[number, number]} */ ([measured[0], measured[measured.length - 1]]);
  const ends = [...measured, point[along]].filter(Number.isFinite).sort((a, b) => a - b);
  const logX = scene.logX && ends[0] > 0;
  const xs = [...stepsOf(ends, logX), ...inside].sort((a, b) => a - b);
  const curves = chosen.map((m, n) => curveOf(scene, m, colourOfChoice(n), xs));
  const others = othersText(scene, [along]);
  const isEmpty = curves.every(({ points }) => !points.length);
  return {
    xTitle: data.parameters[along],
    yTitle: `${data.metric_names[metric] || "value"} (${data.measure})${others && `, at ${others}`}`,
    logX,
    logY: scene.logY,
    xMarks: ends.length <= MOST_MARKS ? [...new Set(ends)] : [],
    xText: brief,
    yText: amount,
    empty: chosen.length ? "" : "there is no model to show",
    curves,
    inside,
    crossings: crossingsOf(scene, xs),
    snaps: [...new Set([...ends, ...models.stops[along]])],
    detailsAt: (x) => detailsAt(scene, movedTo(scene, along, x)),
    said: chosen.length && isEmpty ? `nothing was measured at ${others}` : "",
    caption: captionOf(scene, others),
  };
}

/**
 * @param {Scene} scene
 * @param {string} others
 */
function captionOf({ models, chosen }, others) {
  const { callpath, short } = models.data;
  const keys = chosen.map((m, n) => ({
    text: `${lastOf(callpath[m])}: ${notation(short[m])}`,
    ...(chosen.length > 1 && { colour: colourOfChoice(n) }),
  }));
  if (keys.length === 1 && others) return [{ text: `${keys[0].text}, at ${others}` }];
  return others && keys.length ? [...keys, { text: `at ${others}` }] : keys;
}

/**
 * @param {Scene} scene
 * @param {number} p
 * @param {number} x
 */
const movedTo = ({ fixed }, p, x) => fixed.map((one, q) => (q === p ? x : one));

/**
 * @param {Scene} scene
 * @param {number} m
 * @param {string} colour
 * @param {number[]} xs
 * @returns {PlotCurve}
 */
function curveOf(scene, m, colour, xs) {
  const { models, along, fixed, near, point, amount, chosen } = scene;
  /** @type {(at: (point: number[]) => number) => Point[]} */
  const lineOf = (at) => xs.map((x) => [x, at(movedTo(scene, along, x))]);
  const target = point[along];
  const predicted = models.valueAt(m, movedTo(scene, along, target));
  const isBeyond = target > models.measured[along][models.measured[along].length - 1];
  return {
    colour,
    line: lineOf((at) => models.valueAt(m, at)),
    near: near ? models.near(m).map((other) => lineOf(other.at)) : [],
    band: models.band(m, along, fixed),
    bandLine: betweenStops(
      models.band(m, along, fixed).map((one) => ({ ...one, y: models.valueAt(m, movedTo(scene, along, one.x)) })),
      xs,
      (x) => models.valueAt(m, movedTo(scene, along, x)),
    ),
    points: measuredAt(scene, m, [along]).map((k) => pointOf(scene, m, k)),
    target: isBeyond ? { x: target, y: predicted, text: chosen.length > 3 ? "" : amount(predicted) } : null,
  };
}

/**
 * A band as it is drawn: between places at which it is known, its bounds by the curve change evenly.
 * @param {(Band & { y: number })[]} known  in order
 * @param {number[]} xs
 * @param {(x: number) => number} valueAt
 * @returns {Band[]}
 */
function betweenStops(known, xs, valueAt) {
  if (!known.every(({ low, y }) => low > 0 && y > 0)) return known;
  return xs.flatMap((x) => {
    const next = known.findIndex((one) => one.x >= x);
    const [a, b, y] = [known[Math.max(next - 1, 0)], known[next], valueAt(x)];
    if (!b || (next === 0 && b.x > x) || !(y > 0)) return [];
    const part = b.x > a.x ? (x - a.x) / (b.x - a.x) : 0;
    const between = (/** @type {number} */ from, /** @type {number} */ to) => y * from ** (1 - part) * to ** part;
    return [{ x, low: between(a.low / a.y, b.low / b.y), high: between(a.high / a.y, b.high / b.y) }];
  });
}

/**
 * @param {Scene} scene
 * @param {number} m
 * @param {number} k
 * @returns {Measured}
 */
function pointOf(scene, m, k) {
  const { models, along } = scene;
  const [y, low, high] = [models.data.value, models.data.low, models.data.high].map(
    (column) => column[m * models.nPoints + k],
  );
  return {
    x: models.point(k)[along],
    y,
    low,
    high,
    repeated: models.repetitions(m, k),
    details: detailsOfPoint(scene, m, k),
  };
}

/**
 * Values between the first and the last, at equal distances on the axis.
 * @param {number[]} ends  in order
 * @param {boolean} logarithmic
 */
function stepsOf(ends, logarithmic) {
  const [low, high] = [ends[0], ends[ends.length - 1]];
  return Array.from({ length: SAMPLES + 1 }, (_, k) =>
    logarithmic ? low * (high / low) ** (k / SAMPLES) : low + ((high - low) * k) / SAMPLES,
  );
}

/**
 * Where one of the chosen models overtakes another along the parameter.
 * @param {Scene} scene
 * @param {number[]} xs  in order
 * @returns {{ x: number, y: number, over: number, under: number }[]}
 */
function crossingsOf(scene, xs) {
  const { models, chosen, along } = scene;
  const at = (/** @type {number} */ m, /** @type {number} */ x) => models.valueAt(m, movedTo(scene, along, x));
  const found = [];
  for (const [n, first] of chosen.entries())
    for (const second of chosen.slice(n + 1)) {
      const difference = (/** @type {number} */ x) => at(first, x) - at(second, x);
      for (let k = 0; k + 1 < xs.length && found.length < MOST_CROSSINGS; k++) {
        const [before, after] = [difference(xs[k]), difference(xs[k + 1])];
        if (!Number.isFinite(before * after) || before * after >= 0) continue;
        const x = zeroOf(difference, xs[k], xs[k + 1]);
        found.push({ x, y: at(first, x), over: after > 0 ? first : second, under: after > 0 ? second : first });
      }
    }
  return found.sort((a, b) => a.x - b.x);
}

/**
 * @param {(x: number) => number} f  with different signs at both ends
 * @param {number} low
 * @param {number} high
 */
function zeroOf(f, low, high) {
  const rises = f(high) > 0;
  for (let k = 0; k < HALVINGS; k++) {
    const middle = (low + high) / 2;
    if (f(middle) > 0 === rises) high = middle;
    else low = middle;
  }
  return (low + high) / 2;
}

/**
 * Sentences about which of the chosen models overtakes which.
 * @param {Scene} scene
 */
export function overtakingTexts(scene) {
  const { models, along, chosen, point } = scene;
  if (chosen.length < 2) return [];
  const { callpath, parameters } = models.data;
  const ends = [...models.measured[along], point[along]].filter(Number.isFinite).sort((a, b) => a - b);
  return crossingsOf(scene, stepsOf(ends, ends[0] > 0)).map(
    ({ x, over, under }) =>
      `${lastOf(callpath[over])} overtakes ${lastOf(callpath[under])} at ${parameters[along]} ≈ ${x.toPrecision(3)}`,
  );
}

// -- over two parameters ----------------------------------------------------------------------------------------------

/**
 * @param {Scene} scene
 * @returns {Ground}
 */
export function groundOf(scene) {
  const { models, along, across, chosen, current, fixed, point, metric, amount } = scene;
  const { data } = models;
  const axes = [along, across].map((p) => gridAxis(data.parameters[p], models.measured[p], point[p], data.rules));
  const [x, y] = axes;
  const at = (/** @type {number} */ a, /** @type {number} */ b) =>
    fixed.map((one, p) => (p === along ? a : p === across ? b : one));
  const shown = chosen.slice(0, data.rules.most);
  return {
    x,
    y,
    inside: [along, across].map((p) => [models.measured[p][0], models.measured[p][models.measured[p].length - 1]]),
    point: [point[along], point[across]],
    rules: data.rules,
    metric: data.metric_names[metric] || "value",
    amount,
    shown: Math.max(shown.indexOf(current), 0),
    functions: shown.map((m, n) => ({
      name: lastOf(data.callpath[m]),
      colour: colourOfChoice(n),
      z: valuesOn(x, y, (a, b) => models.valueAt(m, at(a, b))),
      measured: measuredAt(scene, m, [along, across]).map((k) => ({
        x: models.point(k)[along],
        y: models.point(k)[across],
        z: data.value[m * models.nPoints + k],
        model: models.valueAt(m, models.point(k)),
        details: detailsOfPoint(scene, m, k),
      })),
    })),
    detailsAt: (a, b) => detailsAt(scene, at(a, b)),
    empty: shown.length ? "" : "there is no model to show",
    caption: captionOf(scene, othersText(scene, [along, across])),
  };
}
