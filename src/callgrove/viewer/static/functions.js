/**
 * Fitted functions (viewer/scaling/maker.py): sums of terms, each a coefficient times a factor for each parameter that
 * takes part.
 *
 * @typedef {Object} Functions
 * @property {ArrayLike<number>} constant
 * @property {ArrayLike<number>} bounds  function m has the terms bounds[m] to bounds[m + 1]
 * @property {ArrayLike<number>} coefficient
 * @property {ArrayLike<number>} factor  [terms x parameters]: number among factors, -1 for none
 * @property {any[][]} factors  [power, logarithm] or pieces
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

function factorAt(factor, x) {
  if (typeof factor[0] === "number") return termAt(factor[0], factor[1], x);
  const piece = factor.find((one) => (one.from ?? -Infinity) <= x && x <= (one.to ?? Infinity));
  return piece ? piece.terms.reduce((sum, [c, power, log]) => sum + c * termAt(power, log, x), piece.constant) : NaN;
}

function termAt(power, log, x) {
  return (power ? x ** power : 1) * (log ? Math.log2(x) ** log : 1);
}
