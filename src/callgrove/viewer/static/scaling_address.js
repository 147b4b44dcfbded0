/**
 * Where on the scaling page somebody is, as words of the address.
 *
 *     plot map          how models are drawn, curves unless told
 *     model 3           at the cursor; models 5,7: those that stay beside it
 *     point p=64,n=8    of prediction, as `predict --at` takes it
 *     over 1,0          parameters of the picture, by number
 *     fixed 32,16000    values of all parameters
 *     log xy            axes that are logarithmic; `-` for none
 *     near 1            functions that fit nearly as well are drawn
 *     turn 35,25        angles of a surface
 *
 * @import { Models } from "./scaling_models.js"
 * @import { Shape } from "./scaling.js"
 *
 * @typedef {Object} Looked
 * @property {Models} models
 * @property {Shape} shape
 * @property {number} current
 * @property {number[]} pinned
 * @property {number[]} point
 * @property {number} along
 * @property {number} across
 * @property {number[]} fixed
 * @property {boolean} logX
 * @property {boolean} logY
 * @property {boolean} near
 *
 * @typedef {Object} Place
 * @property {Shape} shape
 * @property {number | null} current
 * @property {number[]} pinned
 * @property {number[]} point
 * @property {number} along
 * @property {number} across
 * @property {number[] | null} fixed
 * @property {boolean | null} logX
 * @property {boolean} logY
 * @property {boolean} near
 * @property {number} turn
 * @property {number} tilt
 */

import { FRONT } from "./scaling_surface.js";

const SHAPES = ["curves", "map", "surface", "largest"];

/**
 * @param {Looked} looked
 * @returns {Record<string, string>}
 */
export function writePlace({ models, shape, current, pinned, point, along, across, fixed, logX, logY, near }) {
  const { parameters, target } = models.data;
  const isTarget = point.every((value, p) => value === target[p]);
  const several = parameters.length > 1;
  return {
    plot: shape === "curves" ? "" : shape,
    model: current < 0 ? "" : String(current),
    models: pinned.join(","),
    point: isTarget ? "" : parameters.map((name, p) => `${name}=${point[p]}`).join(","),
    over: several && (along !== 0 || across !== 1) ? `${along},${across}` : "",
    fixed: several ? fixed.join(",") : "",
    log: `${logX ? "x" : ""}${logY ? "y" : ""}` || "-",
    near: near ? "1" : "",
  };
}

/**
 * What an address says; what it does not say, or says wrongly, is as at the beginning.
 * @param {Readonly<Record<string, string>>} at
 * @param {Models} models
 * @param {number} metric
 * @returns {Place}
 */
export function readPlace(at, models, metric) {
  const { parameters, target, metric: metrics } = models.data;
  const isModel = (/** @type {number} */ m) => Number.isInteger(m) && metrics[m] === metric;
  const pinned = numbersOf(at.models ?? "").filter(isModel);
  const [along, across] = numbersOf(at.over ?? "");
  const hasAxes = [along, across].every((p) => Number.isInteger(p) && p >= 0 && p < parameters.length);
  const fixed = numbersOf(at.fixed ?? "");
  const [turn, tilt] = numbersOf(at.turn ?? "");
  const current = at.model ? Number(at.model) : NaN;
  return {
    shape: /** @type {Shape} */ (parameters.length > 1 && SHAPES.includes(at.plot) ? at.plot : "curves"),
    current: isModel(current) ? current : null,
    pinned: [...new Set(pinned)].slice(0, 7),
    point: pointOf(at.point ?? "", parameters) ?? Array.from(target),
    along: hasAxes && along !== across ? along : 0,
    across: hasAxes && along !== across ? across : 1,
    fixed: fixed.length === parameters.length ? fixed : null,
    logX: at.log ? at.log.includes("x") : null,
    logY: (at.log ?? "").includes("y"),
    near: at.near === "1",
    turn: Number.isFinite(turn) ? turn : FRONT.turn,
    tilt: Number.isFinite(tilt) ? tilt : FRONT.tilt,
  };
}

/**
 * @param {string} text
 * @returns {number[]}
 */
const numbersOf = (text) => (text ? text.split(",").map(Number).filter(Number.isFinite) : []);

/**
 * A value for each parameter, in their order; null where one is missing.
 * @param {string} text
 * @param {string[]} parameters
 */
function pointOf(text, parameters) {
  let rest = text;
  const values = [];
  for (const name of parameters) {
    if (!rest.startsWith(`${name}=`)) return null;
    const [word] = rest.slice(name.length + 1).split(",", 1);
    rest = rest.slice(name.length + word.length + 2);
    values.push(word ? Number(word) : NaN);
  }
  return values.every(Number.isFinite) ? values : null;
}
