/**
 * The call tree of a panel: kept contexts, then rows that stand for folded subtrees (viewer/profile_tree.py).
 *
 * @import { Labels, Metric, Numbers, TreeData } from "./documents.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {(a: number, b: number) => number} Compare  rows
 *
 * @typedef {"cost" | "name" | "time"} Order  of siblings
 *
 * @typedef {Object} Shape  of any tree of rows
 * @property {number} n
 * @property {number} root  stands above all roots
 * @property {Numbers} parent
 * @property {Int32Array} start  where the children of each row begin
 * @property {(i: number) => boolean} hasChildren
 *
 * @typedef {Metric & { exclusive: Numbers, inclusive: Numbers, weight: Numbers }} TreeMetric
 */

import { amountOf, count, percent, whereabouts } from "./format.js";

/** @type {WeakMap<Numbers, Tree>} */
const TREES = new WeakMap();
const MOST_ORDERS = 8; // that are remembered

/**
 * The tree of some data; the same data gives the same tree.
 * @param {TreeData} data
 * @param {Labels} labels
 */
export function treeOf(data, labels) {
  const known = TREES.get(data.parent) ?? new Tree(data, labels);
  TREES.set(data.parent, known);
  return known;
}

/**
 * Children of every row: those of row i, in their order, are children[start[i]] up to children[start[i + 1]]; those
 * without a parent are the children of row n.
 * @param {Numbers} parent
 */
export function childrenOf(parent) {
  const n = parent.length;
  /** @param {number} i */
  const above = (i) => (parent[i] < 0 ? n : parent[i]);
  const start = new Int32Array(n + 2);
  for (let i = 0; i < n; i++) start[above(i) + 1]++;
  for (let i = 0; i <= n; i++) start[i + 1] += start[i];
  const next = start.slice();
  const children = new Int32Array(n);
  for (let i = 0; i < n; i++) children[next[above(i)]++] = i;
  return { start, children };
}

/**
 * The same children, those of each row sorted.
 * @param {Int32Array} start
 * @param {Int32Array} children
 * @param {Compare} compare
 */
export function sortedChildren(start, children, compare) {
  const list = children.slice();
  for (let i = 0; i + 1 < start.length; i++) {
    if (start[i + 1] - start[i] < 2) continue;
    const part = Array.from(list.subarray(start[i], start[i + 1]));
    list.set(
      part.sort((a, b) => compare(a, b) || a - b),
      start[i],
    );
  }
  return list;
}

/**
 * Sums over subtrees: folded rows, which stand last, first; then contexts, which stand behind what is above them.
 * @param {Numbers} parent
 * @param {Numbers} exclusive
 */
export function summed(parent, exclusive) {
  const sums = Float64Array.from(exclusive);
  for (let i = sums.length - 1; i >= 0; i--) if (parent[i] >= 0) sums[parent[i]] += sums[i];
  return sums;
}

/**
 * Rows by number: contexts, then folded rows. Each answers what it is called, where it is, and what it costs.
 * @implements {Shape}
 */
export class Tree {
  #data;
  #labels;
  #kept;
  #children;
  /** @type {Map<string, Int32Array>} */
  #orders = new Map();

  /**
   * @param {TreeData} data
   * @param {Labels} labels
   */
  constructor(data, labels) {
    const n = data.parent.length;
    this.#data = data;
    this.#labels = labels;
    this.#kept = data.label.length;
    this.n = n;
    this.root = n;
    this.parent = data.parent;
    this.depth = new Int32Array(n);
    // parents come first, but for folded rows, which come last and are never parents
    for (let i = 0; i < n; i++) this.depth[i] = data.parent[i] < 0 ? 0 : this.depth[data.parent[i]] + 1;
    const { start, children } = childrenOf(data.parent);
    this.start = start;
    this.#children = children;
    /** @type {TreeMetric[]} */
    this.metrics = data.metrics.map((metric) => {
      const inclusive = metric.inclusive ?? summed(data.parent, metric.exclusive);
      return { ...metric, inclusive, weight: metric.weight ?? inclusive };
    });
  }

  /** @param {number} i */
  isMore(i) {
    return i >= this.#kept;
  }

  /**
   * The id of a context; null for a folded row.
   * @param {number} i
   */
  context(i) {
    return i < this.#kept ? this.#data.context[i] : null;
  }

  /** @param {number} i */
  label(i) {
    return i < this.#kept ? this.#data.label[i] : -1;
  }

  /** @param {number} i */
  name(i) {
    return i < this.#kept ? this.#labels.name[this.label(i)] : `… ${count(this.#data.more[i - this.#kept])} more`;
  }

  /** @param {number} i */
  kind(i) {
    return i < this.#kept ? this.#labels.kind[this.label(i)] : "folded";
  }

  /** @param {number} i */
  file(i) {
    return i < this.#kept ? this.#labels.file[this.label(i)] : "";
  }

  /** @param {number} i */
  line(i) {
    return i < this.#kept ? this.#labels.line[this.label(i)] : -1;
  }

  /** @param {number} i */
  module(i) {
    return i < this.#kept ? this.#labels.module[this.label(i)] : "";
  }

  /** @param {number} i */
  hasChildren(i) {
    return this.start[i + 1] > this.start[i];
  }

  /**
   * Children of all contexts, those of one at [start[i], start[i + 1]), sorted; a folded row stays last.
   * @param {string} key  of the order
   * @param {Compare} compare
   */
  childrenBy(key, compare) {
    const known = this.#orders.get(key);
    if (known) return known;
    const last = (/** @type {number} */ i) => Number(this.isMore(i));
    const list = sortedChildren(this.start, this.#children, (a, b) => last(a) - last(b) || compare(a, b));
    if (this.#orders.size > MOST_ORDERS) this.#orders.clear();
    this.#orders.set(key, list);
    return list;
  }

  /**
   * Children of all contexts: the largest first, from A on, or as they were first seen.
   * @param {number} metric
   * @param {Order} [order]
   */
  inOrder(metric, order = "cost") {
    const { first } = this.#data;
    if (order === "time" && first) return this.childrenBy("time", (a, b) => first[a] - first[b] || 0);
    if (order === "name")
      return this.childrenBy("name", (a, b) =>
        this.name(a) < this.name(b) ? -1 : this.name(a) > this.name(b) ? 1 : 0,
      );
    const costs = this.metrics[metric].weight;
    return this.childrenBy(`cost ${metric}`, (a, b) => costs[b] - costs[a]);
  }

  /**
   * Rows from the root down to one.
   * @param {number} i
   */
  path(i) {
    const rows = [];
    for (let at = i; at >= 0 && at < this.n; at = this.parent[at]) rows.push(at);
    return rows.reverse();
  }

  /**
   * @param {number} i
   * @param {number} metric
   * @returns {Details}
   */
  details(i, metric) {
    const { name, unit, whole, additive, inclusive, exclusive, signed, weight, derived } = this.metrics[metric];
    const amount = amountOf(unit, derived !== "");
    /** @param {number} value */
    const shared = (value) => amount(value) + (additive && whole ? ` (${percent(value / whole)})` : "");
    const more = this.isMore(i);
    return {
      title: this.name(i),
      rows: [
        ["metric", name],
        ["inclusive", shared(inclusive[i])],
        ["exclusive", more ? "" : shared(exclusive[i])],
        ["all changes", signed ? shared(weight[i]) : ""],
        ["kind", more ? "contexts folded to keep the page small" : this.kind(i)],
        ["where", more ? "" : whereabouts(this.file(i), this.line(i), "")],
        ["module", this.module(i)],
        ["context", more ? "" : String(this.context(i))],
      ],
    };
  }
}
