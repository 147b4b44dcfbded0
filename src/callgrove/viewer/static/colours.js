/**
 * Colours that colour-blind readers can tell apart: Okabe and Ito's eight for categories, a scale from blue to yellow
 * that grows lighter all the way for amounts.
 */

export const CATEGORIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
export const MORE = "#d55e00"; // of differences: what lies above zero
export const LESS = "#0072b2"; // and below it
const DARK_INK = "#16191d";
const EVEN = 0.205; // luminance at which dark ink and white have about the same contrast
export const OTHER = "#9aa3ad";
const SCALE = [
  [0, 34, 78],
  [53, 69, 108],
  [102, 105, 112],
  [148, 142, 119],
  [200, 184, 102],
  [254, 232, 56],
];

/**
 * A colour for an amount between 0 and 1.
 * @param {number} share
 * @returns {string}
 */
export function scale(share) {
  const at = Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1) * (SCALE.length - 1);
  const low = Math.min(Math.floor(at), SCALE.length - 2);
  const [from, to] = [SCALE[low], SCALE[low + 1]];
  return `rgb(${from.map((value, i) => Math.round(value + (to[i] - value) * (at - low))).join(",")})`;
}

/**
 * Black or white, whichever has the higher contrast to a colour (relative luminance of WCAG 2).
 * @param {string} colour  #rrggbb or rgb(r,g,b)
 * @returns {string}
 */
export function inkOn(colour) {
  const [r, g, b] = parsed(colour).map((value) =>
    value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > EVEN ? DARK_INK : "#ffffff";
}

/**
 * A colour mixed with another one.
 * @param {string} colour
 * @param {string} other
 * @param {number} share  of the other one
 * @returns {string}
 */
export function mixed(colour, other, share) {
  const [a, b] = [parsed(colour), parsed(other)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(",")})`;
}

/**
 * A colour through which others are seen.
 * @param {string} colour
 * @param {number} share  of it that stays
 * @returns {string}
 */
export function faded(colour, share) {
  return `rgba(${parsed(colour).slice(0, 3).join(",")},${share})`;
}

/**
 * @param {string} colour
 * @returns {number[]}
 */
export function parsed(colour) {
  if (colour.startsWith("#")) return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return (colour.match(/\d+/g) ?? ["0", "0", "0"]).map(Number);
}

/**
 * The same number for the same text, spread evenly.
 * @param {string} text
 * @returns {number}
 */
export function hashed(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/**
 * A gentle colour for a name, always the same one.
 * @param {string} name
 * @returns {string}
 */
export function colourOf(name) {
  const hash = hashed(name);
  return mixed(CATEGORIES[hash % CATEGORIES.length], "#ffffff", 0.25 + ((hash >>> 8) % 5) * 0.08);
}

/**
 * Colours for categories, the most frequent first; what is beyond the palette shares a grey.
 * @param {string[]} names
 * @returns {Map<string, string>}
 */
export function palette(names) {
  return new Map(names.map((name, i) => [name, i < CATEGORIES.length ? mixed(CATEGORIES[i], "#ffffff", 0.2) : OTHER]));
}
