/**
 * This input beside others: the views of a comparison with one of them, or what functions cost in all of them.
 *
 * @import { CompareData, Panel, Provider, SectionOutline, SideBySide } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Store } from "./store.js"
 * @import { Column } from "./table.js"
 */

import { drawChanges } from "./compare_overview.js";
import { button, choice, element, switches } from "./dom.js";
import { amountOf, count, percent, widthOf } from "./format.js";
import { lookOf } from "./live_flame.js";
import { PANELS } from "./panels.js";
import { csv, save } from "./saving.js";
import { Table } from "./table.js";

const LONGEST = 20; // letters of a heading
export const SIDE_BY_SIDE = "Side by side";
/** @type {Option[]} */
const SCOPES = [
  ["exclusive", "Exclusive"],
  ["inclusive", "Inclusive"],
];

/**
 * @param {HTMLElement} place
 * @param {CompareData} data
 * @param {Store} view
 * @param {Provider} provider
 */
export function drawCompare(place, data, view, provider) {
  new ComparePane(place, data, view, provider).start();
}

class ComparePane {
  bar = element("div", { class: "toolbar" });
  body = element("div", { class: "compare-body" });
  said = element("p", { class: "problem", attributes: { role: "alert" } });
  shown = "";
  /** @type {{ number: number, section: SectionOutline }[]} */
  others = [];
  asked = new AbortController();
  /** @type {Store | null} */
  drawn = null;

  /**
   * @param {HTMLElement} place
   * @param {CompareData} data
   * @param {Store} view
   * @param {Provider} provider
   */
  constructor(place, data, view, provider) {
    this.parts = [...data.parts, SIDE_BY_SIDE];
    this.view = view;
    this.provider = provider;
    place.append(this.bar, this.said, this.body);
  }

  async start() {
    const { sections } = await this.provider.outline();
    this.others = sections
      .map((section, number) => ({ number, section }))
      .filter(({ number, section }) => section.has_contexts && number !== this.view.get("input"));
    this.view.watch("at", () => this.follow());
    this.build();
    await this.follow();
  }

  /** The input and the view that the address names. */
  place() {
    const { with: other = "", part = "" } = this.view.get("at");
    const number = this.others.find((one) => String(one.number) === other)?.number ?? this.others[0].number;
    return { number, part: this.parts.includes(part) ? part : this.parts[0] };
  }

  build() {
    const { number, part } = this.place();
    /** @type {Option[]} */
    const named = this.others.map(({ number: k, section }) => [String(k), `${k + 1}: ${section.title}`]);
    const other = choice("With", named, String(number), (value) => this.view.mark({ with: value }));
    /** @type {Option[]} */
    const offered = this.parts.map((name) => [name, name]);
    const parts = switches("View", offered, part, (value) => this.open(value));
    this.set = () => {
      const now = this.place();
      other.set(String(now.number));
      parts.set(now.part);
      other.root.hidden = now.part === SIDE_BY_SIDE;
    };
    this.bar.replaceChildren(other.root, parts.root);
  }

  set = () => {};

  /** @param {string} part */
  open(part) {
    this.view.mark({ part: part === this.parts[0] ? "" : part });
  }

  async follow() {
    const { number, part } = this.place();
    this.set();
    const shows = part === SIDE_BY_SIDE ? part : `${number} ${part}`;
    if (shows === this.shown) return;
    this.shown = shows;
    this.asked.abort();
    const { signal } = (this.asked = new AbortController());
    this.said.textContent = "";
    try {
      if (part === SIDE_BY_SIDE) {
        const others = this.others.map((one) => one.number);
        const data = await this.provider.get("columns", { ...lookOf(this.view), others }, signal);
        if (!signal.aborted) this.drawColumns(data, "exclusive");
      } else {
        const { panels } = await this.provider.get("compare", { ...lookOf(this.view), with: number, part }, signal);
        if (!signal.aborted) this.draw(panels);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.body.replaceChildren();
      this.said.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /** @param {Panel[]} panels */
  draw(panels) {
    this.body.replaceChildren();
    this.drawn?.dismiss();
    const view = (this.drawn = this.view.branch());
    for (const panel of panels) {
      if (panel.kind === "comparison") drawChanges(this.body, panel.data, view, (part) => this.open(part));
      else if (panel.kind === "compareflame") PANELS.compareflame(this.body, panel.data, view, this.provider);
      else if (panel.kind === "comparetree") PANELS.comparetree(this.body, panel.data, view, this.provider);
      else if (panel.kind === "comparetime") PANELS.comparetime(this.body, panel.data, view, this.provider);
      else if (panel.kind === "unavailable") PANELS.unavailable(this.body, panel.data, view, this.provider);
    }
    const notes = [...new Set(panels.flatMap((panel) => panel.notes))].map((text) => element("p", { text }));
    if (notes.length) this.body.append(element("div", { class: "notes" }, notes));
  }

  // -- a column for each input ----------------------------------------------------------------------------------------

  /**
   * @param {SideBySide} data
   * @param {"exclusive" | "inclusive"} scope
   */
  drawColumns(data, scope) {
    const values = data[scope];
    const table = new Table({
      label: `${scope} ${data.metric.name} of functions in ${count(data.sides.length)} inputs`,
      columns: columnsOf(data, scope),
      sortBy: "side 0",
      onSort: (key, down) => table.setRows(sorted(data, values, key, down)),
    });
    const scopes = switches("Scope", SCOPES, scope, (value) =>
      this.drawColumns(data, value === "inclusive" ? "inclusive" : "exclusive"),
    );
    const rest = data.left ? `${count(data.left)} more functions cost less, or nothing` : "";
    const save = button("CSV", "Save this table as CSV", () => saveColumns(data, scope));
    this.body.replaceChildren(
      element("div", { class: "toolbar" }, [
        scopes.root,
        element("span", {
          class: "match",
          text: [`${count(data.name.length)} functions`, rest].filter(Boolean).join("; "),
        }),
        element("span", { class: "gap" }),
        element("div", { class: "savers" }, [save]),
      ]),
      element("div", { class: "table-frame" }, [table.root]),
      ...data.notes.map((text) => element("p", { class: "match", text })),
    );
    table.setRows(sorted(data, values, "side 0", true));
  }
}

/**
 * @param {SideBySide} data
 * @param {"exclusive" | "inclusive"} scope
 * @returns {Column[]}
 */
function columnsOf(data, scope) {
  const { metric, sides, totals, name, [scope]: values } = data;
  const amount = amountOf(metric.unit, metric.derived !== "");
  const most = Math.max(...totals.map((total) => total ?? 0), 0);
  return [
    { key: "name", title: "name", width: "minmax(240px, 1fr)", text: (i) => name[i], hint: (i) => name[i] },
    ...sides.map((side, k) => ({
      key: `side ${k}`,
      title: side.length > LONGEST ? `${side.slice(0, 10)}…${side.slice(10 - LONGEST)}` : side,
      about: `${scope} ${metric.name} of ${side}`,
      width: `minmax(110px, ${widthOf(metric.unit, metric.derived !== "", 170)}px)`,
      numeric: true,
      text: (/** @type {number} */ i) => (Number.isFinite(values[k][i]) ? amount(values[k][i]) : "–"),
      share: most ? (/** @type {number} */ i) => Math.abs(values[k][i] || 0) / most : undefined,
      hint: (/** @type {number} */ i) =>
        `${values[k][i]} ${metric.unit} ${totals[k] ? percent(values[k][i] / totals[k]) : ""}`.trim(),
    })),
  ];
}

/**
 * Functions in the order of a column; what has no number comes last.
 * @param {SideBySide} data
 * @param {SideBySide["exclusive"]} values
 * @param {string} key
 * @param {boolean} down
 */
function sorted({ name }, values, key, down) {
  const sign = down ? -1 : 1;
  const side = values[Number(key.split(" ")[1])];
  const rows = name.map((_, i) => i);
  if (!side) return rows.sort((a, b) => sign * (name[a] < name[b] ? -1 : name[a] > name[b] ? 1 : 0));
  const known = (/** @type {number} */ i) => (Number.isFinite(side[i]) ? side[i] : -sign * -Infinity);
  return rows.sort((a, b) => (known(a) === known(b) ? a - b : sign * (known(a) - known(b))));
}

/**
 * @param {SideBySide} data
 * @param {"exclusive" | "inclusive"} scope
 */
function saveColumns(data, scope) {
  const { sides, name, [scope]: values } = data;
  const rows = name.map((text, i) => [text, ...values.map((side) => (Number.isFinite(side[i]) ? side[i] : null))]);
  save(`${scope}-side-by-side.csv`, new Blob([csv(["name", ...sides], rows)], { type: "text/csv" }));
}
