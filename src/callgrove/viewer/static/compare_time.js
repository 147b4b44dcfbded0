/**
 * The timelines of both sides, one above the other on one time scale: zooming and moving one of them zooms and moves
 * the other. A name has the same colour in both.
 *
 * @import { ComparedTimeData, TimelineData } from "./documents.js"
 * @import { Store } from "./store.js"
 * @import { Colouring } from "./timeline_colours.js"
 */

import { element } from "./dom.js";
import { Timeline } from "./timeline.js";
import { legendOf } from "./timeline_colours.js";

/**
 * @param {HTMLElement} place
 * @param {ComparedTimeData} data
 * @param {Store} view
 */
export function drawComparedTime(place, data, view) {
  const longest = Math.max(...data.pair.map((side) => side.timeline?.length_ns ?? 0));
  /** @type {Timeline[]} */
  const drawn = [];
  const sides = data.pair.flatMap(({ timeline }) => (timeline ? [timeline] : []));
  const order = (/** @type {number} */ deepest, /** @type {Colouring} */ by) => orderOf(sides, deepest, by);
  for (const { name, timeline } of data.pair) {
    const half = element("section", { class: "half", attributes: { "aria-label": name } });
    half.append(element("h2", { text: name }));
    place.append(half);
    if (timeline) drawn.push(new Timeline(half, { ...timeline, length_ns: longest, order }, view));
    else half.append(element("p", { class: "reason", text: "There are no traces in this input." }));
  }
  for (const one of drawn) one.linked = drawn.filter((other) => other !== one);
  for (const one of drawn) one.refresh();
}

/**
 * Names or kinds in the order of their largest share on any side: those that come first have strong colours.
 * @param {TimelineData[]} sides
 * @param {number} deepest
 * @param {Colouring} by
 */
function orderOf(sides, deepest, by) {
  /** @type {Map<string, number>} */
  const largest = new Map();
  for (const side of sides) {
    const { text, share } = legendOf(side, deepest, by);
    text.forEach((name, k) => largest.set(name, Math.max(largest.get(name) ?? 0, share[k])));
  }
  return [...largest].sort(([, a], [, b]) => b - a).map(([name]) => name);
}
