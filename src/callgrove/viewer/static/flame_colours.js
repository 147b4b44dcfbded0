/**
 * The colours of a flame graph: by name, module or kind, or by cost.
 *
 * @import { Tree } from "./tree.js"
 *
 * @typedef {Object} Colours  what they mean is a scale from one amount to another, some names, both or neither
 * @property {(i: number) => string} of  the colour of each call
 * @property {[from: string, to: string] | null} scale
 * @property {[name: string, colour: string][] | null} names
 * @property {string[]} [ramp]  the colours of the scale, where these are not those of amounts
 * @property {string} [meaning]  of the scale, below a picture that is saved
 */

import { CATEGORIES, colourOf, LESS, mixed, MORE, OTHER, palette, scale } from "./colours.js";
import { element } from "./dom.js";
import { amountOf, basename, percent } from "./format.js";

const BOTH = "#c9cdd2"; // where more and less about cancel out

/**
 * The colour of each call, and what the colours mean.
 * @param {Tree} tree
 * @param {number} metric
 * @param {string} by
 * @returns {Colours}
 */
export function colourer(tree, metric, by) {
  if (by === "change" && tree.metrics[metric].signed) return byChange(tree, metric);
  if (by === "exclusive" || by === "inclusive") return byCost(tree, metric, by);
  if (by === "name" || by === "change") return byName(tree);
  return byCategory(
    tree,
    metric,
    by === "module" ? (i) => basename(tree.module(i)) || "(unknown)" : (i) => tree.kind(i),
  );
}

/**
 * @param {Tree} tree
 * @param {number} metric
 * @returns {Colours}
 */
function byChange(tree, metric) {
  const { inclusive, weight, gain, loss, unit, derived } = tree.metrics[metric];
  const amount = amountOf(unit, derived !== "");
  /** @param {number} i */
  const cancelled = (i) => 1 - Math.min(Math.abs(inclusive[i]) / (weight[i] || 1), 1);
  return {
    of: (i) => mixed(inclusive[i] < 0 ? LESS : MORE, BOTH, 0.15 + 0.7 * cancelled(i)),
    scale: null,
    names: [
      [`more, ${amount(gain)} in all`, MORE],
      [`less, ${amount(loss)} in all`, LESS],
      ["paler where both are inside", BOTH],
    ],
  };
}

/**
 * @param {Tree} tree
 * @param {number} metric
 * @param {"exclusive" | "inclusive"} by
 * @returns {Colours}
 */
function byCost(tree, metric, by) {
  const { [by]: costs, total, unit, derived } = tree.metrics[metric];
  const amount = amountOf(unit, derived !== "");
  let most = 0;
  for (let i = 0; i < tree.n; i++) if (!tree.isMore(i) && costs[i] > most) most = costs[i];
  return {
    of: (i) => (tree.isMore(i) ? OTHER : scale(most ? Math.sqrt(Math.max(costs[i], 0) / most) : 0)),
    scale: ["0", `${amount(most)}${total ? ` (${percent(most / total)})` : ""}`],
    names: null,
  };
}

/**
 * @param {Tree} tree
 * @returns {Colours}
 */
function byName(tree) {
  /** @type {Map<number, string>} */
  const known = new Map();
  /** @param {number} i */
  const of = (i) => {
    const label = tree.label(i);
    const colour = known.get(label) ?? (tree.isMore(i) ? OTHER : colourOf(tree.name(i)));
    known.set(label, colour);
    return colour;
  };
  return { of, scale: null, names: null };
}

/**
 * @param {Tree} tree
 * @param {number} metric
 * @param {(i: number) => string} what  the category of a call
 * @returns {Colours}
 */
function byCategory(tree, metric, what) {
  const { exclusive } = tree.metrics[metric];
  /** @type {Map<string, number>} */
  const costs = new Map();
  for (let i = 0; i < tree.n; i++)
    if (!tree.isMore(i)) costs.set(what(i), (costs.get(what(i)) ?? 0) + Math.max(exclusive[i], 0));
  const names = [...costs].sort(([, a], [, b]) => b - a).map(([name]) => name);
  const colours = palette(names);
  /** @param {string} name */
  const colour = (name) => colours.get(name) ?? OTHER;
  return {
    of: (i) => (tree.isMore(i) ? OTHER : colour(what(i))),
    scale: null,
    names: names
      .slice(0, CATEGORIES.length + 1)
      .map((name, k) => [k < CATEGORIES.length ? name : "others", colour(name)]),
  };
}

/**
 * @param {HTMLElement} place
 * @param {Colours} colours
 */
export function drawLegend(place, colours) {
  /** @param {string} colour */
  const swatch = (colour) => {
    const made = element("span", { class: "swatch" });
    made.style.backgroundColor = colour;
    return made;
  };
  const ramp = colours.ramp ?? Array.from({ length: 12 }, (_, i) => scale(i / 11));
  const [from, to] = colours.scale ?? ["", ""];
  const steps = [
    element("span", { text: from }),
    element("span", { class: "ramp" }, ramp.map(swatch)),
    element("span", { text: to }),
  ];
  const names = (colours.names ?? []).map(([name, colour]) =>
    element("span", { class: "key" }, [swatch(colour), element("span", { text: name })]),
  );
  place.replaceChildren(...(colours.scale ? steps : []), ...names);
  place.hidden = !colours.scale && !colours.names;
}
