/** Which colours the names of a timeline have: strong ones for those that take most time, greys for the rest. */

import { CATEGORIES, hashed, mixed } from "./colours.js";
import { element } from "./dom.js";
import { count, percent, shortName } from "./format.js";
import { ownTimes } from "./timeline_layers.js";

const GREYS = 3; // shades of what takes little time
const LONGEST = 36; // letters of a name in the legend

/**
 * @typedef {Object} Colours
 * @property {"name" | "kind"} by
 * @property {function(number, {muted: string, ground: string}): string} of  the colour of a name, in a theme
 * @property {{key: string, short: string, colour: string, share: number}[]} strong  what the strong colours mean; shares
 *     are of all time
 * @property {number} n  names, or kinds, that take any time
 */

/**
 * @param {import("./timeline_layers.js").Layer} layer
 * @param {{text: string[], kind: string[]}} names
 * @param {number} deepest  levels beyond are not in sight
 * @param {"name" | "kind"} by
 * @returns {Colours}
 */
export function coloursOf(layer, names, deepest, by) {
  const keys = by === "kind" ? names.kind : names.text;
  /** @type {Map<string, number>} */
  const times = new Map();
  ownTimes(layer, names.kind, deepest).forEach((time, i) => times.set(keys[i], (times.get(keys[i]) ?? 0) + Math.max(time, 0)));
  const order = [...times].filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
  const all = order.reduce((sum, [, time]) => sum + time, 0) || 1;
  const strong = order.slice(0, CATEGORIES.length).map(([key, time], k) => ({
    key, short: by === "kind" ? key : shortName(key, names.kind[names.text.indexOf(key)]), colour: mixed(CATEGORIES[k], "#ffffff", 0.12), share: time / all,
  }));
  const colours = new Map(strong.map(({ key, colour }) => [key, colour]));
  const grey = (i, theme) => mixed(theme.muted, theme.ground, 0.5 + 0.1 * (hashed(keys[i]) % GREYS));
  return { by, of: (i, theme) => colours.get(keys[i]) ?? grey(i, theme), strong, n: order.length };
}

/**
 * @param {HTMLElement} place
 * @param {Colours} colours
 * @param {function(string): void} picked  gets the name that was clicked
 */
export function drawLegend(place, colours, picked) {
  const keys = colours.strong.map(({ key, short: name, colour, share }) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = colour;
    const title = `${key}: ${percent(share)} of the time of all calls, without what they call`;
    const parts = [swatch, element("span", { text: `${cutName(name)} ${percent(share)}` })];
    const made = colours.by === "name"
      ? element("button", { class: "key", attributes: { type: "button", title }, on: { click: () => picked(key) } }, parts)
      : element("span", { class: "key", attributes: { title } }, parts);
    return made;
  });
  const more = moreOf(colours);
  place.replaceChildren(...keys, more ? element("span", { class: "key", text: more }) : "");
}

/** What has no strong colour. */
function moreOf(colours) {
  const more = colours.n - colours.strong.length;
  return more > 0 ? `${count(more)} more in grey` : "";
}

/**
 * The same below a picture that is saved.
 * @param {Colours} colours
 * @returns {import("./caption.js").Key[]}
 */
export function captionOf(colours) {
  return [...colours.strong.map(({ short, colour, share }) => ({ text: `${cutName(short)} ${percent(share)}`, colour })), { text: moreOf(colours) }];
}

const cutName = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);
