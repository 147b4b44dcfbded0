/**
 * The table of models: functions, how far to trust them, and what they predict at a point.
 *
 * @import { Models, Ranked } from "./scaling_models.js"
 * @import { Column } from "./table.js"
 *
 * @typedef {Object} TableNeeds  what the page around it gives
 * @property {(value: number) => string} amount
 * @property {(m: number) => string} colour  of a model that is drawn, else empty
 * @property {() => void} changed  called when the order changed
 * @property {(m: number, more: boolean) => void} picked
 * @property {() => string} unknown  why judgements are missing
 */

import { percent } from "./format.js";
import { csv, save } from "./saving.js";
import { lastOf, notation } from "./scaling_text.js";
import { matcher } from "./store.js";
import { Table } from "./table.js";

const TRUST = ["poor", "fair", "good"];
const KEYS = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", "Enter", " "];
const HEADER = [
  "callpath",
  "metric",
  "function",
  "order",
  "smape",
  "ar2",
  "re",
  "prediction",
  "low",
  "high",
  "share",
  "trust",
  "reason",
];

export class ModelTable {
  #table;
  #needs;
  /** @type {number[]} */
  shown = [];
  sortBy = "share";
  descending = true;
  /** @type {Ranked} */
  ranked = { values: [], shares: [], places: [], judged: [], unknown: 0 };

  /**
   * @param {Models} models
   * @param {TableNeeds} needs
   */
  constructor(models, needs) {
    this.models = models;
    this.#needs = needs;
    this.#table = new Table({
      label: "Models; Space draws the one at the cursor together with others",
      columns: [...this.#ofFunctions(), ...this.#ofPoint()],
      sortBy: this.sortBy,
      descending: this.descending,
      onSort: (key, down) => {
        [this.sortBy, this.descending] = [key, down];
        needs.changed();
      },
      rowClass: (m) => (needs.colour(m) ? "found" : ""),
      selected: (m) => needs.colour(m) !== "",
    });
    this.root = this.#table.root;
    this.#listen();
  }

  /** @returns {Column[]} */
  #ofFunctions() {
    const { data } = this.models;
    return [
      {
        key: "callpath",
        title: "call path",
        width: "minmax(190px, 1.2fr)",
        text: (m) => lastOf(data.callpath[m]),
        hint: (m) => data.callpath[m],
        mark: (m) => this.#needs.colour(m),
      },
      { key: "order", title: "growth", width: "minmax(96px, 0.5fr)", text: (m) => notation(data.order[m]) },
      {
        key: "short",
        title: "function",
        width: "minmax(150px, 0.9fr)",
        text: (m) => notation(data.short[m]),
        hint: (m) => data.function[m],
      },
      {
        key: "smape",
        title: "SMAPE",
        width: "72px",
        numeric: true,
        text: (m) => errorText(data.smape[m]),
        hint: () => "mean difference between model and measurement, in percent of both",
      },
    ];
  }

  /** @returns {Column[]} */
  #ofPoint() {
    const { amount, unknown } = this.#needs;
    return [
      {
        key: "trust",
        title: "trust",
        width: "minmax(110px, 0.8fr)",
        text: (m) => this.#trustOf(m),
        hint: (m) => this.#trustOf(m) || unknown(),
      },
      {
        key: "prediction",
        title: "prediction",
        width: "96px",
        numeric: true,
        text: (m) => amount(this.ranked.values[m]),
        hint: (m) => String(this.ranked.values[m]),
      },
      {
        key: "interval",
        title: "90% interval",
        width: "minmax(140px, 0.5fr)",
        numeric: true,
        text: (m) => this.#intervalOf(m),
        hint: (m) => (this.ranked.judged[m] ? this.#intervalOf(m) || "no interval is known" : unknown()),
      },
      {
        key: "share",
        title: "share",
        about: "rank: what can be trusted by its prediction, then the rest",
        width: "104px",
        numeric: true,
        text: (m) => percent(this.ranked.shares[m]),
        share: (m) => this.ranked.shares[m],
        hint: (m) => percent(this.ranked.shares[m]) || (this.ranked.unknown ? unknown() : "stands apart"),
      },
    ];
  }

  /** @param {number} m */
  #trustOf(m) {
    const one = this.ranked.judged[m];
    return one ? `${one.trust}: ${one.reason}` : "";
  }

  /** @param {number} m */
  #intervalOf(m) {
    const one = this.ranked.judged[m];
    const { amount } = this.#needs;
    return one && Number.isFinite(one.low) && Number.isFinite(one.high)
      ? `${amount(one.low)} – ${amount(one.high)}`
      : "";
  }

  #listen() {
    const { root } = this;
    /** @param {Element} row */
    const numberOf = (row) => this.shown[Number(row.getAttribute("aria-rowindex")) - 2];
    root.addEventListener("click", (event) => {
      const { target } = event;
      const row = target instanceof Element ? target.closest(".row") : null;
      if (!(target instanceof Element) || !row) return;
      const isMark = target.classList.contains("row-mark");
      this.#needs.picked(numberOf(row), isMark || event.ctrlKey || event.metaKey || event.shiftKey);
    });
    root.addEventListener("keydown", (event) => {
      const row = root.querySelector(".row.cursor");
      if (!row || event.target !== root || !KEYS.includes(event.key)) return;
      this.#needs.picked(numberOf(row), event.key === " " || event.key === "Enter");
    });
  }

  /**
   * Show the models of a metric that a search finds, and return how many they are.
   * @param {Ranked} ranked
   * @param {number} metric
   * @param {string} search
   * @param {boolean} stay
   */
  show(ranked, metric, search, stay) {
    const { data, every } = this.models;
    this.ranked = ranked;
    const fits = matcher(search);
    this.shown = every.filter((m) => data.metric[m] === metric && (!fits || fits(data.callpath[m])));
    const key = this.#sortKey();
    this.shown.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (this.descending ? -1 : 1) || a - b);
    this.#table.setRows(this.shown, stay);
    return this.shown.length;
  }

  redraw() {
    this.#table.redraw();
  }

  /**
   * What models are sorted by; what is not a number comes last.
   * @returns {(m: number) => string | number}
   */
  #sortKey() {
    const { callpath, order, short, smape } = this.models.data;
    const { judged, places, values } = this.ranked;
    if (this.sortBy === "callpath") return (m) => callpath[m];
    if (this.sortBy === "order") return (m) => order[m];
    if (this.sortBy === "short") return (m) => short[m];
    if (this.sortBy === "trust") return (m) => TRUST.indexOf(judged[m]?.trust ?? "");
    if (this.sortBy === "prediction") return (m) => orLeast(values[m]);
    if (this.sortBy === "interval") return (m) => orLeast((judged[m]?.high ?? NaN) / (judged[m]?.low ?? NaN));
    if (this.sortBy === "share") return (m) => -places[m];
    return (m) => orLeast(smape[m]);
  }

  /**
   * Save what is shown; where nothing is known, nothing is said.
   * @param {string} metric
   * @param {string} at  the point
   */
  save(metric, at) {
    const { data } = this.models;
    const { judged, shares, values } = this.ranked;
    const rows = this.shown.map((m) => [
      data.callpath[m],
      metric,
      data.function[m],
      data.order[m],
      data.smape[m],
      data.ar2[m],
      data.re[m],
      values[m],
      finite(judged[m]?.low),
      finite(judged[m]?.high),
      finite(100 * shares[m]),
      judged[m]?.trust ?? null,
      judged[m]?.reason ?? null,
    ]);
    save(`models ${at}.csv`, new Blob([csv(HEADER, rows)], { type: "text/csv" }));
  }
}

/** @param {number | undefined} value */
const finite = (value) => (value !== undefined && Number.isFinite(value) ? value : null);
/** @param {number} value */
const orLeast = (value) => (Number.isFinite(value) ? value : -Infinity);
/** @param {number} value */
const errorText = (value) => (Number.isFinite(value) ? `${value < 10 ? value.toFixed(1) : value.toFixed(0)}%` : "");
