/**
 * Functions of two parameters on a grid: levels, contour lines, which function is the largest, and the lines where one
 * overtakes another. The rules are those of modeling/surfaces.py, which draws the same pictures without a browser.
 *
 * @import { SurfaceRules } from "./documents.js"
 *
 * @typedef {Object} GridAxis
 * @property {string} name
 * @property {number[]} values
 * @property {boolean} logarithmic
 * @property {number[]} marks  places with names; none: at round numbers
 * @property {(value: number) => number} part  where a value lies, from 0 to 1
 * @property {(part: number) => number} valueOf
 *
 * @typedef {Object} Scale
 * @property {number} low
 * @property {number} high
 * @property {boolean} logarithmic
 * @property {(value: number) => number} part
 * @property {number[]} levels  of contour lines
 *
 * @typedef {[x0: number, y0: number, x1: number, y1: number]} Piece  of a line, in steps of the grid
 */

const MOST_MARKS = 12;

/**
 * @param {string} name
 * @param {number[]} measured  in order
 * @param {number} target
 * @param {SurfaceRules} rules
 * @returns {GridAxis}
 */
export function gridAxis(name, measured, target, { side, wide }) {
  const ends = [...measured, target].filter(Number.isFinite);
  let [low, high] = [Math.min(...ends), Math.max(...ends)];
  if (!(low < high)) [low, high] = [low * 0.9 - 0.5, high * 1.1 + 0.5];
  const logarithmic = low > 0 && high / low > wide;
  /** @param {number} part */
  const valueOf = (part) => (logarithmic ? low * (high / low) ** part : low + (high - low) * part);
  return {
    name,
    logarithmic,
    valueOf,
    marks: ends.length <= MOST_MARKS ? [...new Set(ends)].sort((a, b) => a - b) : [],
    values: Array.from({ length: side }, (_, k) => (k === side - 1 ? high : valueOf(k / (side - 1)))),
    part: (value) => (logarithmic ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low)),
  };
}

/**
 * Values of a function on a grid, row by row of y.
 * @param {GridAxis} x
 * @param {GridAxis} y
 * @param {(x: number, y: number) => number} valueAt
 */
export function valuesOn(x, y, valueAt) {
  return Float64Array.from({ length: x.values.length * y.values.length }, (_, k) =>
    valueAt(x.values[k % x.values.length], y.values[Math.floor(k / x.values.length)]),
  );
}

/**
 * Numbers as parts of their range, evenly or by their logarithms, and the values of contour lines.
 * @param {Iterable<number>} values
 * @param {SurfaceRules} rules
 * @returns {Scale}
 */
export function scaleOf(values, { contours, span }) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low > high) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const logarithmic = low > 0 && high / low > span;
  /** @param {number} value */
  const exact = (value) =>
    logarithmic ? Math.log(Math.max(value, 1e-300) / low) / Math.log(high / low) : (value - low) / (high - low);
  const levels = Array.from({ length: contours }, (_, k) => {
    const part = (k + 1) / (contours + 1);
    return logarithmic ? low * (high / low) ** part : low + (high - low) * part;
  });
  return { low, high, logarithmic, levels, part: (value) => Math.min(Math.max(exact(value), 0), 1) };
}

/**
 * The line along which values on a grid reach a level: a piece in every cell whose corners lie on both sides.
 * @param {ArrayLike<number>} z
 * @param {number} side  points of a row
 * @param {number} level
 * @returns {Piece[]}
 */
export function contourOf(z, side, level) {
  /** @type {Piece[]} */
  const pieces = [];
  for (let row = 0; row < z.length / side - 1; row++)
    for (let column = 0; column < side - 1; column++) {
      const corners = [
        [row, column],
        [row, column + 1],
        [row + 1, column + 1],
        [row + 1, column],
      ];
      const values = corners.map(([r, c]) => z[r * side + c] - level);
      if (!values.every(Number.isFinite)) continue;
      /** @type {number[]} */
      const crossings = [];
      for (let k = 0; k < 4; k++) {
        const [a, b] = [values[k], values[(k + 1) % 4]];
        if (a < 0 === b < 0) continue;
        const part = a / (a - b);
        const [[r0, c0], [r1, c1]] = [corners[k], corners[(k + 1) % 4]];
        crossings.push(c0 + part * (c1 - c0), r0 + part * (r1 - r0));
      }
      for (let k = 0; k + 3 < crossings.length; k += 4) pieces.push(/** @type {Piece} */ (crossings.slice(k, k + 4)));
    }
  return pieces;
}

/**
 * Which of some functions is the largest at each point of a grid, -1 where none has a value.
 * @param {ArrayLike<number>[]} functions  their values
 */
export function largestOf(functions) {
  return Int8Array.from({ length: functions[0]?.length ?? 0 }, (_, k) => {
    let best = -1;
    functions.forEach((values, f) => {
      if (Number.isFinite(values[k]) && (best < 0 || values[k] > functions[best][k])) best = f;
    });
    return best;
  });
}

/**
 * The lines at which one of some functions overtakes another as the largest.
 * @param {ArrayLike<number>[]} functions
 * @param {number} side
 * @returns {{ first: number, second: number, pieces: Piece[] }[]}
 */
export function overtakingLines(functions, side) {
  const largest = largestOf(functions);
  const shown = [...new Set(largest)].filter((f) => f >= 0).sort((a, b) => a - b);
  return shown.flatMap((first, k) =>
    shown.slice(k + 1).map((second) => {
      const difference = Float64Array.from(largest, (f, at) =>
        f === first || f === second ? functions[first][at] - functions[second][at] : NaN,
      );
      return { first, second, pieces: contourOf(difference, side, 0) };
    }),
  );
}
