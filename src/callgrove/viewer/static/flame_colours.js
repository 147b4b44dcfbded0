/** The colours of a flame graph: by name, module or kind, or by cost. */

import { CATEGORIES, colourOf, LESS, mixed, MORE, OTHER, palette, scale } from "./colours.js";
import { element } from "./dom.js";
import { amountOf, basename, percent } from "./format.js";

/**
 * The colour of each call, and what the colours mean.
 * @param {any} tree
 * @param {number} metric
 * @param {string} by
 */
export function colourer(tree, metric, by) {
  const { inclusive, exclusive, total, signed, weight, gain, loss, unit } = tree.metrics[metric];
  const folded = (i, colour) => (tree.isMore(i) ? OTHER : colour);
  if (by === "change" && signed) {
    // pale where more and less about cancel out
    const amount = amountOf(unit);
    const of = (i) =>
      mixed(
        inclusive[i] < 0 ? LESS : MORE,
        "#c9cdd2",
        0.15 + 0.7 * (1 - Math.min(Math.abs(inclusive[i]) / (weight[i] || 1), 1)),
      );
    return {
      of,
      scale: null,
      names: [
        [`more, ${amount(gain)} in all`, MORE],
        [`less, ${amount(loss)} in all`, LESS],
        ["paler where both are inside", "#c9cdd2"],
      ],
    };
  }
  if (by === "exclusive" || by === "inclusive") {
    const costs = by === "exclusive" ? exclusive : inclusive;
    let most = 0;
    for (let i = 0; i < tree.n; i++) if (!tree.isMore(i) && costs[i] > most) most = costs[i];
    const amount = amountOf(tree.metrics[metric].unit);
    return {
      of: (i) => folded(i, scale(most ? Math.sqrt(Math.max(costs[i], 0) / most) : 0)),
      scale: ["0", `${amount(most)}${total ? ` (${percent(most / total)})` : ""}`],
      names: null,
    };
  }
  if (by === "name" || by === "change") {
    const known = new Map();
    const of = (i) => {
      const label = tree.label(i);
      if (!known.has(label)) known.set(label, folded(i, colourOf(tree.name(i))));
      return known.get(label);
    };
    return { of, scale: null, names: null };
  }
  const what = by === "module" ? (i) => basename(tree.module(i)) || "(unknown)" : (i) => tree.kind(i);
  const costs = new Map();
  for (let i = 0; i < tree.n; i++)
    if (!tree.isMore(i)) costs.set(what(i), (costs.get(what(i)) ?? 0) + Math.max(exclusive[i], 0));
  const names = [...costs.keys()].sort((a, b) => costs.get(b) - costs.get(a));
  const colours = palette(names);
  return {
    of: (i) => folded(i, colours.get(what(i)) ?? OTHER),
    scale: null,
    names: names
      .slice(0, CATEGORIES.length + 1)
      .map((name, k) => [k < CATEGORIES.length ? name : "others", colours.get(name)]),
  };
}

/**
 * @param {HTMLElement} place
 * @param {{scale: string[] | null, names: string[][] | null}} colours
 */
export function drawLegend(place, colours) {
  const swatch = (colour) => {
    const made = element("span", { class: "swatch" });
    made.style.backgroundColor = colour;
    return made;
  };
  if (colours.scale) {
    const steps = Array.from({ length: 12 }, (_, i) => swatch(scale(i / 11)));
    place.replaceChildren(
      element("span", { text: colours.scale[0] }),
      element("span", { class: "ramp" }, steps),
      element("span", { text: colours.scale[1] }),
    );
  } else {
    place.replaceChildren(
      ...(colours.names ?? []).map(([name, colour]) =>
        element("span", { class: "key" }, [swatch(colour), element("span", { text: name })]),
      ),
    );
  }
  place.hidden = !colours.scale && !colours.names;
}
