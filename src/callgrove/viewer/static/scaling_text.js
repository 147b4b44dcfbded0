/** Words and formulas of models. */

const ARROW = "->";
const SUPERSCRIPTS = ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];

/**
 * The end of a call path: what is meant, and who called it.
 * @param {string} path
 */
export const lastOf = (path) => path.split(ARROW).slice(-2).join(" › ");

/**
 * The value of a parameter.
 * @param {number} value
 */
export const brief = (value) => String(Number(value.toPrecision(6)));

/**
 * Extra-P's notation as people write it: `2 * p^(2) * log2(p)^(1)` is `2·p²·log₂(p)`.
 * @param {string} text
 * @returns {string}
 */
export function notation(text) {
  return text
    .replaceAll(/\^\(1\)/g, "")
    .replaceAll(/\^\((\d+)\)/g, (_, digits) => [...digits].map((digit) => SUPERSCRIPTS[Number(digit)]).join(""))
    .replaceAll("log2(", "log₂(")
    .replaceAll(" * ", "·");
}
