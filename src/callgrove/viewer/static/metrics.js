/**
 * The tree of metrics with shares: time > execution > mpi > ...; the same numbers as `callgrove tree --metrics`.
 *
 * @import { MetricTreeData } from "./documents.js"
 */

import { element } from "./dom.js";
import { amountOf, isFormula, percent, widthOf } from "./format.js";
import { Table } from "./table.js";

const NO_VALUE = "–";

/**
 * @param {HTMLElement} place
 * @param {MetricTreeData} data
 */
export function drawMetrics(place, data) {
  const tree = new MetricTree(data);
  place.append(element("div", { class: "table-frame" }, [tree.table.root]));
  tree.show();
}

/** Rows in preorder; what lies below a closed one is hidden. Siblings are in the order of a column. */
class MetricTree {
  /** @type {Set<number>} */
  #closed = new Set();
  /** @type {number[][]} */
  #below;
  /** @type {number[]} */
  #roots = [];
  #data;

  /** @param {MetricTreeData} data */
  constructor(data) {
    this.#data = data;
    this.#below = data.name.map(() => []);
    /** @type {number[]} */
    const open = [];
    data.name.forEach((_, row) => {
      open.length = data.depth[row];
      (row && open.length ? this.#below[open[open.length - 1]] : this.#roots).push(row);
      open.push(row);
    });
    this.table = this.#makeTable();
  }

  #makeTable() {
    const { name, depth, unit, value, without_children: alone, percent: share, kind } = this.#data;
    const write = unit.map((one, row) => amountOf(one, isFormula(kind[row])));
    const amount = (/** @type {ArrayLike<number>} */ column) => (/** @type {number} */ row) =>
      Number.isNaN(column[row]) ? NO_VALUE : write[row](column[row]);
    const widest = (/** @type {number} */ least) =>
      `${unit.reduce((most, one, row) => Math.max(most, widthOf(one, isFormula(kind[row]), least)), least)}px`;
    const exact = (/** @type {ArrayLike<number>} */ column) => (/** @type {number} */ row) =>
      Number.isNaN(column[row]) ? "" : `${column[row]} ${unit[row]}`.trim();
    const part = (/** @type {number} */ row) => share[row] / 100;
    return new Table({
      label: "Metrics",
      columns: [
        { key: "name", title: "Metric", width: "minmax(220px, 3fr)", text: (row) => name[row] },
        { key: "value", title: "Value", width: widest(110), numeric: true, text: amount(value), hint: exact(value) },
        {
          key: "alone",
          title: "Without children",
          width: widest(140),
          numeric: true,
          text: amount(alone),
          hint: exact(alone),
        },
        {
          key: "percent",
          title: "Share",
          width: "160px",
          numeric: true,
          text: (row) => percent(part(row)),
          share: part,
        },
        { key: "kind", title: "How it came about", width: "200px", text: (row) => kind[row] },
      ],
      sortBy: "",
      onSort: (key, descending) => this.#sort(key, descending),
      depth: (row) => depth[row],
      opened: (row) => (this.#below[row].length ? !this.#closed.has(row) : null),
      onToggle: (row) => this.#toggle(row),
    });
  }

  /**
   * @param {string} key
   * @param {boolean} descending
   */
  #sort(key, descending) {
    const { name, value, without_children: alone, percent: share, kind } = this.#data;
    /** @type {Record<string, ArrayLike<string | number>>} */
    const columns = { name, value, alone, percent: share, kind };
    const column = columns[key];
    const sign = descending ? -1 : 1;
    const before = (/** @type {number} */ a, /** @type {number} */ b) => {
      if (column[a] === column[b]) return a - b;
      return column[a] < column[b] ? -sign : column[a] > column[b] ? sign : a - b;
    };
    for (const siblings of [this.#roots, ...this.#below]) siblings.sort(before);
    this.show();
  }

  /** @param {number} row */
  #toggle(row) {
    if (!this.#closed.delete(row)) this.#closed.add(row);
    this.show();
  }

  show() {
    const rows = [];
    const waiting = [...this.#roots].reverse();
    for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
      rows.push(row);
      if (!this.#closed.has(row)) waiting.push(...[...this.#below[row]].reverse());
    }
    this.table.setRows(rows);
  }
}
