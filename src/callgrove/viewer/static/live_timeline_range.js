/**
 * A range of a timeline that was selected: its flat profile, its call tree, and how long its spans were. All of it is
 * of the rows in sight, but for the call tree, which is that of all rows.
 *
 * @import { TimeDurations, TimeLegend } from "./documents.js"
 * @import { LiveTimeline } from "./live_timeline.js"
 * @import { Cell } from "./saving.js"
 */

import { button, element, switches } from "./dom.js";
import { LazyRows } from "./explore_rows.js";
import { amountOf, count, durationNs, percent, shortName } from "./format.js";
import { csv, save } from "./saving.js";
import { Table } from "./table.js";

const MOST = 1_000; // names

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

export class RangePane {
  said = element("span", { class: "match", attributes: { role: "status" } });
  frame = element("div", { class: "table-frame" });
  title = element("h2", { text: "" });
  /** @type {"profile" | "tree" | "durations"} */
  way = "profile";
  /** @type {[number, number] | null} */
  range = null;
  asked = new AbortController();
  /** @type {() => string} */
  text = () => "";

  /** @param {LiveTimeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    const ways = switches(
      "Range",
      [
        ["profile", "Profile"],
        ["tree", "Call tree"],
        ["durations", "Durations"],
      ],
      this.way,
      (way) => {
        this.way = /** @type {RangePane["way"]} */ (way);
        this.refresh();
      },
    );
    this.root = element("section", { class: "card range", attributes: { "aria-label": "Range", hidden: "" } }, [
      element("div", { class: "toolbar" }, [
        this.title,
        ways.root,
        this.said,
        element("span", { class: "gap" }),
        button("Zoom", "Show this range alone (Enter)", () => this.range && this.timeline.show(...this.range)),
        button("Close", "Let go of this range (Escape)", () => this.timeline.select(null)),
        element("div", { class: "savers" }, [
          button("CSV", "Save this table as CSV", () =>
            save(`range-${this.way}.csv`, new Blob([this.text()], { type: "text/csv" })),
          ),
        ]),
      ]),
      this.frame,
    ]);
  }

  /** @param {[number, number] | null} range */
  show(range) {
    this.range = range;
    this.root.hidden = !range;
    if (range) this.refresh();
  }

  /** Ask for the table, and draw it. */
  async refresh() {
    if (!this.range) return;
    this.asked.abort();
    const { signal } = (this.asked = new AbortController());
    const [from, to] = this.range;
    this.title.textContent = `${durationNs(to - from)} from ${durationNs(from)}`;
    this.said.textContent = "…";
    this.frame.replaceChildren();
    try {
      await this[this.way](signal);
    } catch (error) {
      if (!signal.aborted) this.said.textContent = messageOf(error);
    }
  }

  place() {
    const [from, to] = /** @type {[number, number]} */ (this.range);
    return { ...this.timeline.place(), from, to };
  }

  /**
   * The time of each name, without what it calls.
   * @param {AbortSignal} signal
   */
  async profile(signal) {
    const { provider } = this.timeline;
    const legend = await provider.get("timelegend", { ...this.place(), exact: 1, most: MOST }, signal);
    if (signal.aborted) return;
    const total = Number(legend.total_ns);
    this.said.textContent = `${durationNs(total)} in ${count(legend.n)} names on ${count(legend.n_rows)} rows`;
    this.draw(
      [
        nameOf(legend.names),
        ["kind", (i) => legend.names.kind[i]],
        ["time", (i) => durationNs(Number(legend.time_ns[i])), (i) => Number(legend.time_ns[i]) / Math.max(total, 1)],
        ["share", (i) => percent(Number(legend.time_ns[i]) / Math.max(total, 1))],
      ],
      legend.time_ns.length,
      ["name", "kind", "time_ns"],
      (i) => [legend.names.text[i], legend.names.kind[i], legend.time_ns[i]],
    );
  }

  /**
   * How long the spans were that begin in it.
   * @param {AbortSignal} signal
   */
  async durations(signal) {
    const { provider } = this.timeline;
    const data = await provider.get("timedurations", this.place(), signal);
    if (signal.aborted) return;
    this.said.textContent = data.n
      ? `${count(data.n)} spans begin here`
      : "No span begins here; samples have no durations";
    const { count: counts, total_ns: total, min_ns: low, median_ns: middle, max_ns: high } = data;
    this.draw(
      [
        nameOf(data.names),
        ["count", (i) => count(counts[i])],
        ["total", (i) => durationNs(Number(total[i]))],
        ["mean", (i) => durationNs(Number(total[i]) / counts[i])],
        ["min", (i) => durationNs(low[i])],
        ["median", (i) => durationNs(middle[i])],
        ["max", (i) => durationNs(high[i])],
        ["spread", (i) => histogramText(data, i)],
      ],
      counts.length,
      ["name", "kind", "count", "total_ns", "min_ns", "median_ns", "max_ns"],
      (i) => [data.names.text[i], data.names.kind[i], counts[i], total[i], low[i], middle[i], high[i]],
    );
  }

  /**
   * Who called what, with the costs of this time.
   * @param {AbortSignal} signal
   */
  async tree(signal) {
    const { timeline } = this;
    const [from, to] = /** @type {[number, number]} */ (this.range);
    const origin = BigInt(timeline.shown?.origin ?? "0");
    const window = `@${origin + BigInt(from)}:@${origin + BigInt(to)}`;
    const rows = new LazyRows(
      timeline.provider,
      () => ({ ...timeline.look(), window }),
      { view: "tree", by: "function" },
      () => [],
    );
    await rows.load();
    await rows.openHot();
    if (signal.aborted) return;
    const [metric] = rows.metrics;
    const write = amountOf(metric.unit, metric.derived !== "");
    this.said.textContent = `${metric.name}: ${write(metric.total)}, of all rows`;
    /** @param {number} i @param {0 | 1} k */
    const cost = (i, k) => rows.rows[i].costs[0]?.[k] ?? NaN;
    const table = new Table({
      label: "Call tree of the range",
      columns: [
        {
          ...{ key: "name", title: "name", width: "minmax(200px, 1fr)" },
          text: (i) => shortName(rows.rows[i].name, rows.rows[i].kind) || `… ${count(rows.rows[i].left)} more`,
        },
        ...[1, 0].map((k) => ({
          ...{
            key: k ? "inclusive" : "exclusive",
            title: k ? "inclusive" : "exclusive",
            width: "120px",
            numeric: true,
          },
          text: (/** @type {number} */ i) => write(cost(i, k ? 1 : 0)),
          share: (/** @type {number} */ i) => (metric.whole ? Math.abs(cost(i, k ? 1 : 0)) / metric.whole : 0),
        })),
      ],
      sortBy: "inclusive",
      onSort: () => {},
      depth: (i) => rows.rows[i].depth,
      opened: (i) => (rows.rows[i].opens ? rows.rows[i].open : null),
      onToggle: (i) =>
        rows.toggle(i).then(
          () => table.setRows(rows.visible()),
          (error) => (this.said.textContent = messageOf(error)),
        ),
    });
    this.frame.replaceChildren(table.root);
    table.setRows(rows.visible(), false);
    this.text = () =>
      csv(
        ["depth", "name", "exclusive", "inclusive"],
        rows.visible().map((i) => [rows.rows[i].depth, rows.rows[i].name, cost(i, 0), cost(i, 1)]),
      );
  }

  /**
   * A table that is there as a whole.
   * @param {[title: string, text: (i: number) => string, share?: (i: number) => number][]} columns
   * @param {number} n
   * @param {string[]} header  of its CSV
   * @param {(i: number) => Cell[]} cells
   */
  draw(columns, n, header, cells) {
    const table = new Table({
      label: `${this.way} of the range`,
      columns: columns.map(([title, text, share], k) => ({
        ...{ key: title, title, text, share, numeric: k > 0 && title !== "kind" && title !== "spread" },
        width: k ? "minmax(70px, 0.35fr)" : "minmax(180px, 1fr)",
      })),
      sortBy: "time",
      onSort: () => {},
    });
    this.frame.replaceChildren(table.root);
    const every = Array.from({ length: n }, (_, i) => i);
    table.setRows(every, false);
    this.text = () => csv(header, every.map(cells));
  }
}

/**
 * @param {TimeLegend["names"]} names
 * @returns {[string, (i: number) => string]}
 */
const nameOf = (names) => ["name", (i) => shortName(names.text[i], names.kind[i])];

/**
 * How many spans have about which length, as small bars from the shortest to the longest; each is twice as long.
 * @param {TimeDurations} data
 * @param {number} i
 */
function histogramText({ histogram }, i) {
  const bins = Array.from({ length: 64 }, (_, k) => histogram[64 * i + k]);
  const first = bins.findIndex(Boolean);
  const last = 63 - [...bins].reverse().findIndex(Boolean);
  const most = Math.max(...bins);
  return bins
    .slice(first, last + 1)
    .map((n) => (n ? "▁▂▃▄▅▆▇█"[Math.min(7, Math.floor((8 * n) / (most + 1)))] : " "))
    .join("");
}
