/**
 * Which colours the names of a timeline have: strong ones for those that take most time, greys for the rest. Shares are
 * stored (viewer/timeline/events.py): those of all events, however few of them the page holds.
 *
 * @import { Key } from "./caption.js"
 * @import { LegendData, TimelineData } from "./documents.js"
 *
 * @typedef {"name" | "kind"} Colouring
 *
 * @typedef {Pick<TimelineData, "names" | "legend" | "kinds" | "depths" | "overhead_ns" | "order">} ColourData
 * @typedef {{ muted: string, ground: string }} Greys
 *
 * @typedef {{ key: string, short: string, colour: string, share: number }} Strong  share: of all time
 *
 * @typedef {Object} Colours
 * @property {Colouring} by
 * @property {(i: number, theme: Greys) => string} of  the colour of a name, in a theme
 * @property {Strong[]} strong  what the strong colours mean, of what is in sight
 * @property {string} key  of what has strong colours: another one means other colours
 * @property {number} n  names, or kinds, that take any time
 * @property {number} overhead  ns of the profiler
 */

import { CATEGORIES, hashed, mixed } from "./colours.js";
import { element } from "./dom.js";
import { count, durationNs, percent, shortName } from "./format.js";

const GREYS = 3; // shades of what takes little time
const LONGEST = 36; // letters of a name in the legend

/**
 * Shares where calls are cut at a depth, or where they are not.
 * @param {ColourData} data  of the timeline
 * @param {number} deepest
 * @param {Colouring} by
 * @returns {LegendData}
 */
export function legendOf(data, deepest, by) {
  const legends = data.depths[deepest] ?? data;
  return by === "kind" ? legends.kinds : legends.legend;
}

/**
 * @param {ColourData} data  of the timeline
 * @param {number} deepest  what is deeper belongs to what is there
 * @param {Colouring} by
 * @returns {Colours}
 */
export function coloursOf(data, deepest, by) {
  const { names } = data;
  const keys = by === "kind" ? names.kind : names.text;
  const legend = legendOf(data, deepest, by);
  const kinds = new Map(names.text.flatMap((text, i) => [[text, names.kind[i]]])); // of those that are known
  const places = new Map(legend.text.map((text, k) => [text, k]));
  const order = data.order?.(deepest, by) ?? legend.text;
  const colours = new Map(
    order.slice(0, CATEGORIES.length).map((key, k) => [key, mixed(CATEGORIES[k], "#ffffff", 0.12)]),
  );
  const strong = [...colours].flatMap(([key, colour]) => {
    const place = places.get(key);
    const short = by === "kind" ? key : shortName(key, kinds.get(key) ?? "");
    return place === undefined ? [] : [{ key, short, colour, share: legend.share[place] }];
  });
  /**
   * @param {number} i
   * @param {Greys} theme
   */
  const grey = (i, theme) => mixed(theme.muted, theme.ground, 0.5 + 0.1 * (hashed(keys[i]) % GREYS));
  /** @param {Greys} theme */
  const overhead = (theme) => mixed(theme.muted, theme.ground, 0.75);
  /**
   * @param {number} i
   * @param {Greys} theme
   */
  const of = (i, theme) => (names.kind[i] === "overhead" ? overhead(theme) : (colours.get(keys[i]) ?? grey(i, theme)));
  return { by, of, strong, key: [by, ...colours.keys()].join("\n"), n: legend.n, overhead: data.overhead_ns };
}

/**
 * @param {HTMLElement} place
 * @param {Colours} colours
 * @param {(name: string) => void} picked  gets the name that was clicked
 */
export function drawLegend(place, colours, picked) {
  const keys = colours.strong.map(({ key, short: name, colour, share }) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = colour;
    const title = `${key}: ${percent(share)} of the time of all calls, without what they call`;
    const parts = [swatch, element("span", { text: `${cutName(name)} ${percent(share)}` })];
    const made =
      colours.by === "name"
        ? element(
            "button",
            { class: "key", attributes: { type: "button", title }, on: { click: () => picked(key) } },
            parts,
          )
        : element("span", { class: "key", attributes: { title } }, parts);
    return made;
  });
  place.replaceChildren(...keys, ...restOf(colours).map((text) => element("span", { class: "key", text })));
}

/**
 * What has no strong colour, and what is not time of the application.
 * @param {Colours} colours
 */
function restOf(colours) {
  const more = colours.n - colours.strong.length;
  const left = 1 - colours.strong.reduce((sum, { share }) => sum + share, 0);
  return [
    more > 0 ? `${count(more)} more in grey ${percent(Math.max(left, 0))}` : "",
    colours.overhead ? `profiler overhead, ${durationNs(colours.overhead)}, is not counted` : "",
  ].filter(Boolean);
}

/**
 * The same below a picture that is saved.
 * @param {Colours} colours
 * @returns {Key[]}
 */
export function captionOf(colours) {
  return [
    ...colours.strong.map(({ short, colour, share }) => ({ text: `${cutName(short)} ${percent(share)}`, colour })),
    ...restOf(colours).map((text) => ({ text })),
  ];
}

/** @param {string} name */
const cutName = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);
