/**
 * Counters below the rows of the timeline of the viewer: the mean of each column, and from its least to its largest
 * value. Until the next measurement the last value holds.
 *
 * @import { Surface, Theme } from "./canvas.js"
 * @import { TimeCurve, TimeCurves } from "./documents.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {{ from: number, to: number, below: number }} Sight  ns, and pixels of all curves
 */

import { fitting, themeColours } from "./canvas.js";
import { mixed } from "./colours.js";
import { durationNs, number } from "./format.js";
import { GUTTER, timeAt, xOf } from "./live_timeline_drawing.js";

const CURVE = 34; // pixels of a counter

/** @param {number} n */
export const heightOfCurves = (n) => n * CURVE;

/**
 * @param {Surface} surface
 * @param {number} width
 * @param {number} height
 * @param {Sight} sight
 * @param {TimeCurves} answer
 */
export function drawCurves(surface, width, height, sight, answer) {
  const theme = themeColours();
  answer.curves.forEach((curve, k) => {
    const top = height - sight.below + k * CURVE;
    const bounds = boundsOf(curve);
    if (bounds) drawCurve(surface, curve, (i) => xOf(sight, timeOf(answer, curve, i), width), top, bounds, theme);
    drawHead(surface, curve, top, bounds, theme);
    surface.rect(0, top, width, 1, theme.faint);
  });
}

/**
 * The least and the largest value, and 0; null where nothing was measured.
 * @param {TimeCurve} curve
 * @returns {[number, number] | null}
 */
function boundsOf({ minimum, maximum, before }) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of [minimum, maximum, [before ?? NaN]])
    for (const value of values) if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return low > high ? null : [Math.min(low, 0), Math.max(high, 0)];
}

/**
 * When a column begins.
 * @param {TimeCurves} answer
 * @param {TimeCurve} curve
 * @param {number} i
 */
const timeOf = ({ start_ns: start, end_ns: end }, { mean }, i) => start + (i / mean.length) * (end - start);

/**
 * @param {Surface} surface
 * @param {TimeCurve} curve
 * @param {(column: number) => number} xAt  where a column begins
 * @param {number} top
 * @param {[number, number]} bounds
 * @param {Theme} theme
 */
function drawCurve(surface, { minimum, maximum, mean, last, before }, xAt, top, [low, high], theme) {
  /** @param {number} value */
  const y = (value) => top + CURVE - 4 - ((value - low) / (high - low || 1)) * (CURVE - 8);
  const fill = mixed(theme.accent, theme.ground, 0.7);
  let held = before;
  /** @type {[number, number][]} */
  const points = held === null ? [] : [[xAt(0), y(held)]];
  for (let i = 0; i < mean.length; i++) {
    if (!Number.isFinite(mean[i])) continue;
    const [left, right, above] = [xAt(i), xAt(i + 1), y(maximum[i])];
    if (maximum[i] > minimum[i]) surface.rect(left, above, Math.max(right - left, 1), y(minimum[i]) - above, fill);
    if (held !== null) points.push([left, y(held)]);
    points.push([left, y(mean[i])], [right, y(mean[i])]);
    held = last[i];
  }
  if (held !== null) points.push([xAt(mean.length), y(held)]);
  if (points.length) surface.line(points, theme.accent, 1.4);
}

/**
 * Its name and its bounds, beside it.
 * @param {Surface} surface
 * @param {TimeCurve} curve
 * @param {number} top
 * @param {[number, number] | null} bounds
 * @param {Theme} theme
 */
function drawHead(surface, curve, top, bounds, theme) {
  surface.rect(0, top, GUTTER, CURVE, theme.ground);
  const style = { size: 10.5, fill: theme.muted };
  const [low, high] = bounds ? bounds.map(number) : ["", ""];
  for (const [text, bound, y] of /** @type {[string, string, number][]} */ ([
    [curve.name, high, top + 11],
    [curve.where, low, top + 25],
  ])) {
    surface.text(GUTTER - 8, y, bound, { ...style, anchor: "end" });
    surface.text(4, y, fitting(surface, text, GUTTER - 18 - surface.measure(bound, style), style), style);
  }
}

/**
 * What is told of a place among the curves; null where there is nothing.
 * @param {TimeCurves} answer
 * @param {Sight} sight
 * @param {number} x
 * @param {number} y  pixels below the first curve
 * @param {number} width
 * @returns {Details | null}
 */
export function tellCurve(answer, sight, x, y, width) {
  const curve = answer.curves[Math.floor(y / CURVE)];
  if (!curve || x < GUTTER) return null;
  const n = curve.mean.length;
  const i = Math.floor(((timeAt(sight, x, width) - answer.start_ns) / (answer.end_ns - answer.start_ns)) * n);
  if (i < 0 || i >= n) return null;
  const time = `${durationNs(timeOf(answer, curve, i))} to ${durationNs(timeOf(answer, curve, i + 1))}`;
  return {
    title: curve.name,
    rows: [["where", curve.where], ["time", time], ...valuesOf(curve, i)],
  };
}

/**
 * The values of a column, or the last one before it.
 * @param {TimeCurve} curve
 * @param {number} i
 * @returns {[string, string][]}
 */
function valuesOf({ minimum, maximum, mean, last, before }, i) {
  if (Number.isFinite(mean[i])) {
    if (minimum[i] === maximum[i]) return [["value", number(mean[i])]];
    return [
      ["mean", number(mean[i])],
      ["least", number(minimum[i])],
      ["largest", number(maximum[i])],
    ];
  }
  let k = i;
  while (k >= 0 && !Number.isFinite(last[k])) k--;
  const held = k < 0 ? before : last[k];
  return [["value", held === null ? "not measured yet" : `${number(held)}, measured before`]];
}
