/**
 * The call tree of a panel: kept contexts, then rows that stand for folded subtrees (viewer/profile/tree.py).
 *
 * @typedef {Object} Labels
 * @property {string[]} name
 * @property {string[]} kind
 * @property {string[]} file
 * @property {ArrayLike<number>} line
 * @property {string[]} module
 *
 * @typedef {Object} Metric
 * @property {string} name
 * @property {string} unit
 * @property {string} description
 * @property {boolean} additive
 * @property {number} total
 * @property {number} whole  what shares are of: the total; of signed costs the sizes of all of them together
 * @property {boolean} signed  costs are differences, and some lie below zero
 * @property {number} gain  what all costs above zero add up to
 * @property {number} loss  and all below it
 *
 * @typedef {Object} TreeData
 * @property {ArrayLike<number>} context  ids of kept contexts, as `export` gives them
 * @property {ArrayLike<number>} parent
 * @property {ArrayLike<number>} label
 * @property {ArrayLike<number>} more  how many contexts each folded row stands for
 * @property {(Metric & {exclusive: ArrayLike<number>, inclusive?: ArrayLike<number>, weight?: ArrayLike<number>})[]} metrics  inclusive
 *     cost is there where it is not the sum of exclusive cost over the subtree; weight is what signed costs are as large as
 */

import { amountOf, count, percent, whereabouts } from "./format.js";

const TREES = new WeakMap();

/**
 * The tree of some data; the same data gives the same tree.
 * @param {TreeData} data
 * @param {Labels} labels
 */
export function treeOf(data, labels) {
  if (!TREES.has(data.parent)) TREES.set(data.parent, createTree(data, labels));
  return TREES.get(data.parent);
}

/**
 * Children of every row: those of row i, in their order, are children[start[i]] up to children[start[i + 1]]; those
 * without a parent are the children of row n.
 * @param {ArrayLike<number>} parent
 */
export function childrenOf(parent) {
  const n = parent.length;
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
 * @param {function(number, number): number} compare
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

/** Sums over subtrees: folded rows, which stand last, first; then contexts, which stand behind what is above them. */
function summed(parent, exclusive) {
  const sums = Float64Array.from(exclusive);
  for (let i = sums.length - 1; i >= 0; i--) if (parent[i] >= 0) sums[parent[i]] += sums[i];
  return sums;
}

/**
 * @param {TreeData} data
 * @param {Labels} labels
 */
function createTree(data, labels) {
  const n = data.parent.length;
  const kept = data.label.length;
  const depth = new Int32Array(n);
  // parents come first, but for folded rows, which come last and are never parents
  for (let i = 0; i < n; i++) depth[i] = data.parent[i] < 0 ? 0 : depth[data.parent[i]] + 1;
  const { start, children } = childrenOf(data.parent);
  const orders = new Map();

  const tree = {
    n,
    root: n, // stands above all roots
    parent: data.parent,
    depth,
    start,
    metrics: data.metrics.map((metric) => {
      const inclusive = metric.inclusive ?? summed(data.parent, metric.exclusive);
      return { ...metric, inclusive, weight: metric.weight ?? inclusive };
    }),
    isMore: (i) => i >= kept,
    nBelow: (i) => (i >= kept ? data.more[i - kept] : 0),
    context: (i) => (i < kept ? data.context[i] : null),
    label: (i) => (i < kept ? data.label[i] : -1),
    name: (i) => (i >= kept ? `… ${count(data.more[i - kept])} more` : labels.name[data.label[i]]),
    kind: (i) => (i >= kept ? "folded" : labels.kind[data.label[i]]),
    file: (i) => (i >= kept ? "" : labels.file[data.label[i]]),
    line: (i) => (i >= kept ? -1 : labels.line[data.label[i]]),
    module: (i) => (i >= kept ? "" : labels.module[data.label[i]]),
    hasChildren: (i) => start[i + 1] > start[i],
    /** Children of all contexts, those of one at [start[i], start[i + 1]), sorted; a folded row stays last. */
    childrenBy(key, compare) {
      if (!orders.has(key)) {
        const list = sortedChildren(start, children, (a, b) => Number(a >= kept) - Number(b >= kept) || compare(a, b));
        if (orders.size > 8) orders.clear();
        orders.set(key, list);
      }
      return orders.get(key);
    },
    byCost(metric) {
      const costs = tree.metrics[metric].weight;
      return tree.childrenBy(`cost ${metric}`, (a, b) => costs[b] - costs[a]);
    },
    /** Names from the root down. */
    path(i) {
      const names = [];
      for (let at = i; at >= 0 && at < n; at = data.parent[at]) names.push(at);
      return names.reverse();
    },
    details(i, metric) {
      const { name, unit, whole, additive, inclusive, exclusive, signed, weight } = tree.metrics[metric];
      const amount = amountOf(unit);
      const share = (value) => (additive && whole ? ` (${percent(value / whole)})` : "");
      const more = i >= kept;
      return {
        title: tree.name(i),
        rows: /** @type {[string, string][]} */ ([
          ["metric", name],
          ["inclusive", amount(inclusive[i]) + share(inclusive[i])],
          ["exclusive", more ? "" : amount(exclusive[i]) + share(exclusive[i])],
          ["all changes", signed ? amount(weight[i]) + share(weight[i]) : ""],
          ["kind", more ? "contexts folded to keep the page small" : tree.kind(i)],
          ["where", more ? "" : whereabouts(tree.file(i), tree.line(i), "")],
          ["module", tree.module(i)],
          ["context", more ? "" : String(tree.context(i))],
        ]),
      };
    },
  };
  return tree;
}
