/**
 * Where the cost is, at a glance: the functions with the highest cost of their own, and the hot path.
 *
 * @import { Bar, BarData } from "./bars.js"
 * @import { HotspotsData } from "./documents.js"
 * @import { Store } from "./store.js"
 */

import { Bars } from "./bars.js";
import { LESS, MORE } from "./colours.js";
import { element } from "./dom.js";
import { amountOf, count, percent, shortName, whereabouts } from "./format.js";

const N_TOP = 10;
const [LONGEST, FIRST, LAST] = [14, 4, 9]; // rows of a hot path, and which of a longer one
const PICKING = "click to see it in the flame graph";
const KEYS = "Up and down go from bar to bar, Enter shows it in the flame graph.";
const COSTS = {
  functions: "Hottest functions",
  path: "Hot path",
  hint: "inclusive cost, from the root along the costliest calls",
};
const VALUES = {
  functions: "Highest values",
  path: "Hot path",
  hint: "",
};
const CHANGES = {
  functions: "Largest changes",
  path: "Path of the largest changes",
  hint: "inclusive cost, from the root along what changed most",
};

/**
 * @param {HTMLElement} place
 * @param {HotspotsData} data
 * @param {Store} view
 */
export function drawHotspots(place, data, view) {
  new Hotspots(place, data, view);
}

/** Tiles with a few numbers, and two cards of bars. */
class Hotspots {
  tiles = element("div", { class: "tiles" });
  functionTitle = element("h2");
  pathTitle = element("h2");
  pathHint = element("span", { class: "hint" });

  /**
   * @param {HTMLElement} place
   * @param {HotspotsData} data
   * @param {Store} view
   */
  constructor(place, data, view) {
    this.data = data;
    this.view = view;
    this.metric = this.numberOf(view.get("metric"));
    const functions = new Bars(
      "top-functions",
      `Functions with the highest exclusive cost. ${KEYS}`,
      () => this.topFunctions(),
      PICKING,
    );
    const path = new Bars(
      "hot-path",
      `Hot path: inclusive cost from the root down. ${KEYS}`,
      () => this.hotPath(),
      PICKING,
    );
    const functionHint = element("span", { class: "hint", text: "exclusive cost" });
    place.append(
      this.tiles,
      card([this.functionTitle, functionHint], functions),
      card([this.pathTitle, this.pathHint], path),
    );
    this.refresh();
    view.watch("metric", (name) => {
      this.metric = this.numberOf(name);
      functions.refresh();
      path.refresh();
      this.refresh();
    });
  }

  /** @param {string} name */
  numberOf(name) {
    const number = this.data.metrics.findIndex((one) => one.name === name);
    return Math.max(0, number);
  }

  shown() {
    return this.data.metrics[this.metric];
  }

  titles() {
    const { signed, derived, additive } = this.shown();
    if (signed) return CHANGES;
    return derived && !additive ? VALUES : COSTS;
  }

  /** @param {number} label */
  nameOf(label) {
    const { name, kind } = this.data.labels;
    return shortName(name[label], kind[label]);
  }

  /** @param {number} cost */
  sizeOf(cost) {
    return this.shown().signed ? Math.abs(cost) : cost;
  }

  /** @returns {BarData} */
  topFunctions() {
    const { label, exclusive, inclusive } = this.data.top;
    const costs = exclusive[this.metric];
    const order = Array.from(costs, (_, i) => i).filter((i) => Number.isFinite(costs[i]) && this.sizeOf(costs[i]) > 0);
    order.sort((a, b) => this.sizeOf(costs[b]) - this.sizeOf(costs[a]) || a - b);
    const rows = order.slice(0, N_TOP).map((i) => this.bar(label[i], costs[i], inclusive[this.metric][i], costs[i]));
    return { rows, more: 0, caption: `${this.titles().functions}: exclusive ${this.shown().name}` };
  }

  /**
   * Steps of a stair: real depths leave no room to read.
   * @returns {BarData}
   */
  hotPath() {
    const caption = `${this.titles().path}: inclusive ${this.shown().name}`;
    const path = this.data.paths[this.metric];
    if (!path) return { rows: [], more: 0, caption, empty: `no call has a share of ${this.shown().name} to follow` };
    const { label, inclusive, exclusive } = path;
    const all = Array.from(label, (one, i) => this.bar(one, inclusive[i], inclusive[i], exclusive[i])).filter((one) =>
      Number.isFinite(one.value),
    );
    const gap = { ...all[0], gap: `… ${all.length - FIRST - LAST} more levels`, text: "" };
    const shown = all.length > LONGEST ? [...all.slice(0, FIRST), gap, ...all.slice(-LAST)] : all;
    const rows = shown.map((one, depth) => ({ ...one, depth }));
    return { rows, more: 0, caption };
  }

  /**
   * @param {number} label
   * @param {number} cost
   * @param {number} inclusive
   * @param {number} exclusive
   * @returns {Bar}
   */
  bar(label, cost, inclusive, exclusive) {
    const { labels } = this.data;
    const { unit, whole, additive, name, signed, derived } = this.shown();
    const amount = amountOf(unit, derived !== "");
    const share = additive && whole ? cost / whole : NaN;
    return {
      name: this.nameOf(label),
      value: this.sizeOf(cost),
      colour: signed ? (cost < 0 ? LESS : MORE) : undefined,
      text: `${amount(cost)}${Number.isFinite(share) ? `  ${percent(share)}` : ""}`,
      pick: () => this.find(labels.name[label]),
      details: {
        title: labels.name[label],
        rows: [
          ["metric", name],
          ["exclusive", amount(exclusive)],
          ["inclusive", amount(inclusive)],
          ["kind", labels.kind[label]],
          ["where", whereabouts(labels.file[label], labels.line[label], "")],
          ["module", labels.module[label]],
        ],
      },
    };
  }

  /**
   * Show where it is in the flame graph.
   * @param {string} name
   */
  find(name) {
    this.view.set("search", name);
    this.view.set("tab", "Flame graph");
  }

  refresh() {
    const said = this.titles();
    this.functionTitle.textContent = said.functions;
    this.pathTitle.textContent = said.path;
    this.pathHint.textContent = said.hint;
    const tiles = [this.totalTile(), ...this.changeTiles(), this.hottestTile(), this.imbalanceTile()];
    this.tiles.replaceChildren(...tiles.filter((one) => one !== null));
  }

  // -- the whole in a few numbers -------------------------------------------------------------------------------------

  totalTile() {
    const { name, unit, total, additive, signed, derived } = this.shown();
    const { n_runs: nRuns, has_spread: hasSpread } = this.data;
    if (!additive || total === null) return null;
    const runs = nRuns > 1 ? `${count(nRuns)} runs added up` : "";
    return tile(
      amountOf(unit, derived !== "")(total),
      signed ? `difference of ${name}` : `${name} ${runs ? `of ${runs}` : "in total"}`,
      runs && hasSpread ? () => this.view.set("tab", "Spread") : undefined,
      runs ? "--run chooses one of them" : "of all profiles together",
    );
  }

  changeTiles() {
    const { unit, signed, gain, loss, derived } = this.shown();
    if (!signed) return [];
    const amount = amountOf(unit, derived !== "");
    return [
      tile(amount(gain), "more", undefined, "where costs lie above zero"),
      tile(amount(loss), "less", undefined, "where costs lie below zero"),
    ];
  }

  hottestTile() {
    const { whole, additive, signed } = this.shown();
    const { label, exclusive } = this.data.top;
    const costs = Array.from(exclusive[this.metric]);
    const hottest = costs.reduce((best, cost, i) => (this.sizeOf(cost) > this.sizeOf(costs[best] ?? 0) ? i : best), -1);
    if (!additive || whole === null || whole <= 0 || hottest < 0) return null;
    return tile(
      percent(this.sizeOf(costs[hottest]) / whole),
      `in ${this.nameOf(label[hottest])}`,
      () => this.find(this.data.labels.name[label[hottest]]),
      signed ? "of all changes by their sizes" : undefined,
    );
  }

  imbalanceTile() {
    const imbalance = this.data.imbalance[this.shown().name] ?? null;
    if (imbalance === null || imbalance < 0) return null;
    return tile(
      `+${percent(imbalance)}`,
      "imbalance of profiles",
      () => this.view.set("tab", "Spread"),
      "how much more than the mean the busiest profile has",
    );
  }
}

/**
 * @param {HTMLElement[]} head
 * @param {Bars} bars
 */
export function card(head, bars) {
  return element("section", { class: "card" }, [
    element("div", { class: "card-head" }, [...head, bars.buttons]),
    bars.root,
  ]);
}

/**
 * A number and what it is; some lead to where more is said of it.
 * @param {string} number
 * @param {string} text
 * @param {() => void} [go]
 * @param {string} [title]
 */
export function tile(number, text, go, title = text) {
  const parts = [element("strong", { text: number }), element("span", { text })];
  return go
    ? element("button", { class: "tile", attributes: { type: "button", title }, on: { click: go } }, parts)
    : element("div", { class: "tile", attributes: { title } }, parts);
}
