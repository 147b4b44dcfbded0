/**
 * Values of fitted functions (viewer/summaries.py).
 *
 * @import { Exponents, Functions, Piece } from "./documents.js"
 */

/**
 * The value of a function at a point; NaN where it has none.
 * @param {Functions} functions
 * @param {number} m
 * @param {ArrayLike<number>} point
 * @returns {number}
 */
export function valueAt(functions, m, point) {
  let sum = functions.constant[m];
  for (let t = functions.bounds[m]; t < functions.bounds[m + 1]; t++) {
    let term = functions.coefficient[t];
    for (let p = 0; p < point.length; p++) {
      const factor = functions.factor[t * point.length + p];
      if (factor >= 0) term *= factorAt(functions.factors[factor], point[p]);
    }
    sum += term;
  }
  return sum;
}

/**
 * @param {Exponents | Piece[]} factor
 * @param {number} x
 */
function factorAt(factor, x) {
  if (isExponents(factor)) return termAt(factor[0], factor[1], x);
  const piece = factor.find((one) => (one.from ?? -Infinity) <= x && x <= (one.to ?? Infinity));
  return piece ? piece.terms.reduce((sum, [c, power, log]) => sum + c * termAt(power, log, x), piece.constant) : NaN;
}

/**
 * @param {Exponents | Piece[]} factor
 * @returns {factor is Exponents}
 */
function isExponents(factor) {
  return typeof factor[0] === "number";
}

/**
 * @param {number} power
 * @param {number} log
 * @param {number} x
 */
function termAt(power, log, x) {
  return (power ? x ** power : 1) * (log ? Math.log2(x) ** log : 1);
}
