/**
 * The time of names in part of a timeline, as a legend and as a tooltip show it.
 *
 * @import { LegendData, TimeLegend, TimePicture } from "./documents.js"
 */

import { count, durationNs, percent } from "./format.js";

const OVERHEAD = "overhead"; // the kind of what the profiler itself did

/**
 * Exact shares of a cell.
 * @param {TimeLegend} legend
 * @param {string} where
 * @param {{ from: number, to: number }} window
 */
export function sharesOf(legend, where, { from, to }) {
  const whole = Math.max(Number(legend.window_ns), 1);
  const shares = legend.names.text.map(
    (text, i) => /** @type {[string, string]} */ ([percent(Number(legend.time_ns[i]) / whole), text]),
  );
  const idle = 1 - Number(legend.total_ns) / whole;
  const more = legend.n - shares.length;
  /** @type {[string, string][]} */
  const rows = [
    ["where", where],
    ["time", `${durationNs(from)} to ${durationNs(to)}`],
    ...shares,
    ["", more > 0 ? `and ${count(more)} more names` : ""],
    ["idle", idle > 0.0005 ? percent(idle) : ""],
  ];
  return { title: legend.names.text[0] ?? "idle", rows };
}

/**
 * Shares of names and kinds in what the program did: what the profiler itself took is told apart.
 * @param {TimeLegend} legend
 * @returns {{ name: LegendData, kind: LegendData }}
 */
export function legendsOf(legend) {
  const overhead = Number(overheadOf(legend));
  const total = Math.max(Number(legend.total_ns) - overhead, 1);
  /**
   * @param {string[]} text
   * @param {string[]} times
   * @param {string[]} kinds
   * @param {number} n
   * @returns {LegendData}
   */
  const made = (text, times, kinds, n) => {
    /** @type {Map<string, number>} */
    const sums = new Map();
    text.forEach((one, i) => {
      if (kinds[i] !== OVERHEAD) sums.set(one, (sums.get(one) ?? 0) + Number(times[i]));
    });
    const order = [...sums].sort((a, b) => b[1] - a[1]);
    const share = order.map(([, ns]) => ns / total);
    const left = n - kinds.filter((kind) => kind === OVERHEAD).length;
    return { text: order.map(([one]) => one), share, n: left, rest: 1 - share.reduce((all, one) => all + one, 0) };
  };
  return {
    name: made(legend.names.text, legend.time_ns, legend.names.kind, legend.n),
    kind: made(legend.kinds, legend.kinds_ns, legend.kinds, legend.kinds.length),
  };
}

/**
 * How long the profiler itself was at work, in ns.
 * @param {TimeLegend} legend
 */
export function overheadOf({ kinds, kinds_ns: times }) {
  const at = kinds.indexOf(OVERHEAD);
  return at < 0 ? "0" : times[at];
}

/**
 * Which names a picture has most of: of what was read so far there are no sums.
 * @param {TimePicture} picture
 * @returns {{ name: LegendData, kind: LegendData }}
 */
export function roughLegendsOf({ cell, names }) {
  const n = new Array(names.text.length + 1).fill(0);
  for (let i = 0; i < cell.length; i++) n[cell[i]]++;
  /** @param {string[]} texts */
  const made = (texts) => {
    /** @type {Map<string, number>} */
    const sums = new Map();
    texts.forEach((one, i) => sums.set(one, (sums.get(one) ?? 0) + n[i + 1]));
    const text = [...sums].sort((a, b) => b[1] - a[1]).map(([one]) => one);
    return { text, share: text.map(() => 0), n: text.length, rest: 0 };
  };
  return { name: made(names.text), kind: made(names.kind) };
}
