/**
 * Numbers with units, for people: the same words as on the command line (render/units.py).
 *
 * @import { Finite } from "./documents.js"
 */

const PREFIXES = new Map([
  [-4, "p"],
  [-3, "n"],
  [-2, "u"],
  [-1, "m"],
  [0, ""],
  [1, "k"],
  [2, "M"],
  [3, "G"],
  [4, "T"],
  [5, "P"],
  [6, "E"],
]);
const PREFIXED = /^(?:\p{L}+|#|\d+\^-?\d+ \w+)$/u; // a unit that can have prefixes, as far as anybody knows
/** @type {Record<string, string>} */
const SYMBOLS = { sec: "s", seconds: "s", bytes: "B", byte: "B" };
/** @type {Record<string, number>} */
const TIME_UNITS = { sec: 1, s: 1, ms: 1e-3, us: 1e-6, usec: 1e-6, ns: 1e-9, nsec: 1e-9 };

const LONGEST_NUMBER = 12; // characters of five digits, with a space: "-7.9893e-05 "
const WIDEST = 260; // pixels

/** How profilers call what has no unit. */
const COUNTED = ["occ", "#"];

/**
 * A number with the prefix that leaves one to three digits before the point: `45.1 ms`, `12.3 k`.
 * @param {Finite} value
 * @param {string} [unit]
 * @returns {string}
 */
export function si(value, unit = "") {
  if (value === null) return ""; // what was not a number came as null
  unit = SYMBOLS[unit] ?? unit;
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "" : `${value > 0 ? "inf" : "-inf"} ${unit}`.trimEnd();
  const power = powerOf(value, unit);
  const number = power === 0 && Number.isInteger(value) ? value.toFixed(0) : threeDigits(value / 1000 ** power);
  return `${number} ${PREFIXES.get(power)}${unit}`.trimEnd();
}

/**
 * @param {number} value
 * @param {string} unit
 */
function powerOf(value, unit) {
  if (value === 0) return 0;
  const digits = Math.floor(Math.log10(rounded(value)) + 1e-12);
  const lowest = unit === "" || unit === "B" ? 0 : -4;
  const highest = unit === "s" ? 0 : 6;
  return Math.min(Math.max(Math.floor(digits / 3), lowest), highest);
}

/** @param {number} value */
function rounded(value) {
  return Math.abs(Number(value.toExponential(2)));
}

/** @param {number} value */
function threeDigits(value) {
  const size = rounded(value);
  if (size >= 100) return fixed(value, 0);
  if (size >= 10) return fixed(value, 1);
  if (size >= 1) return fixed(value, 2);
  const [mantissa, exponent] = value.toExponential(2).split("e");
  if (Number(exponent) >= -4) return String(Number(fixed(value, 2 - Number(exponent))));
  return `${Number(mantissa)}e-${exponent.slice(1).padStart(2, "0")}`;
}

/**
 * So many digits after the point. Of two that are equally near the even one is taken, as everywhere but in toFixed.
 * @param {number} value
 * @param {number} digits
 */
function fixed(value, digits) {
  const up = Math.abs(value).toFixed(digits);
  const exact = Math.abs(value).toFixed(Math.min(digits + 60, 100));
  const rest = exact.slice(exact.indexOf(".") + 1 + digits);
  const text =
    /^50*$/.test(rest) && Number(up.at(-1)) % 2 ? exact.slice(0, exact.indexOf(".") + (digits ? 1 + digits : 0)) : up;
  return value < 0 && Number(text) !== 0 ? `-${text}` : text;
}

/**
 * A number for people in five digits, without a prefix: `0.26933`, `7.9904e-05`.
 * @param {number} value
 */
function fiveDigits(value) {
  const size = Math.abs(value);
  if (size >= 99999.5 && size < 1e15) return value.toFixed(0);
  const [mantissa, exponent] = value.toExponential(4).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < 5) return String(Number(value.toPrecision(5)));
  return `${Number(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

/**
 * How costs of a unit are written: times in seconds with prefixes, all else in its own unit. Units that a formula made
 * are not given prefixes.
 * @param {string} unit
 * @param {boolean} [derived]
 * @returns {(value: Finite) => string}
 */
export function amountOf(unit, derived = false) {
  if (derived && !PREFIXED.test(unit))
    return (value) =>
      value === null || !Number.isFinite(value) ? si(value) : `${fiveDigits(value)} ${unit}`.trimEnd();
  const seconds = TIME_UNITS[unit.trim().toLowerCase()];
  const word = COUNTED.includes(unit.trim()) ? "" : unit;
  return seconds === undefined
    ? (value) => si(value, word)
    : (value) => si(value === null ? null : value * seconds, "s");
}

/**
 * Pixels of a column for values of a unit: a unit that a formula made stands behind all their digits.
 * @param {string} unit
 * @param {boolean} derived
 * @param {number} least
 */
export function widthOf(unit, derived, least) {
  if (!derived || PREFIXED.test(unit)) return least;
  return Math.min(Math.max(least, 24 + 8 * (LONGEST_NUMBER + unit.length)), WIDEST);
}

/**
 * Did a metric come of a formula?
 * @param {string} kind  as the tree of metrics says it: "measured", "computed in part", "postderived, hidden"
 */
export function isFormula(kind) {
  return !/^(measured|computed)/.test(kind);
}

/**
 * A share of 1 in percent; what is there but rounds to nothing is `<0.1%`, or `-<0.1%` below zero.
 * @param {Finite} share
 * @returns {string}
 */
export function percent(share) {
  if (share === null || !Number.isFinite(share)) return "";
  if (share && Math.abs(share) < 0.0005) return share > 0 ? "<0.1%" : "-<0.1%";
  return `${fixed(100 * share, 1)}%`;
}

/**
 * A count with separators: `12,345`.
 * @param {number} value
 * @returns {string}
 */
export function count(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/**
 * How many rows there are.
 * @param {number} n
 */
export function countRows(n) {
  return `${count(n)} ${n === 1 ? "row" : "rows"}`;
}

/**
 * A number without a unit, in four digits: `0.2345`, `341,400`, `4.1e+9`.
 * @param {number} value
 * @returns {string}
 */
export function number(value) {
  if (!Number.isFinite(value)) return "";
  const four = Number(value.toPrecision(4));
  const size = Math.abs(four);
  if (size >= 1e7 || (size > 0 && size < 1e-4))
    return String(Number(four.toExponential(3))).includes("e")
      ? String(four)
      : four.toExponential(3).replace(/\.?0+e/, "e");
  const [whole, part] = String(four).split(".");
  return (size >= 1e4 ? count(Number(whole)) : whole) + (part ? `.${part}` : "");
}

/**
 * A duration given in nanoseconds.
 * @param {number} time_ns
 * @returns {string}
 */
export function durationNs(time_ns) {
  if (!Number.isFinite(time_ns) || Math.abs(time_ns) < 120e9) return si(time_ns / 1e9, "s");
  const sign = time_ns < 0 ? "-" : "";
  const seconds = Math.round(Math.abs(time_ns) / 1e9);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours ? `${sign}${hours} h ${minutes} min` : `${sign}${minutes} min ${seconds % 60} s`;
}

/**
 * The last part of a path, which tells files of one program apart.
 * @param {string} path
 * @returns {string}
 */
export function basename(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

/**
 * Where something is, briefly: `stencil.c:84`, or its module.
 * @param {string} file
 * @param {number} line
 * @param {string} module
 * @returns {string}
 */
export function whereabouts(file, line, module) {
  if (file) return line > 0 ? `${basename(file)}:${line}` : basename(file);
  return module ? `[${basename(module)}]` : "";
}

/**
 * A name as it is shown where room is scarce: places lose the folders they lie in.
 * @param {string} name
 * @param {string} kind
 * @returns {string}
 */
export function shortName(name, kind) {
  if (!["line", "loop", "instruction", "call", "file", "module"].includes(kind)) return name;
  const what = name.startsWith("loop at ") ? "loop at " : "";
  return what + basename(name.slice(what.length));
}
