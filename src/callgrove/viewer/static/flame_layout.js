/**
 * Where the calls of a flame graph are, as parts of its width, and which of them are wanted.
 *
 * @import { Order, Tree } from "./tree.js"
 *
 * @typedef {Object} Layout
 * @property {Float64Array} from  of every call, as a part of the whole
 * @property {Float64Array} to
 * @property {number} deepest  level of a call with any width
 * @property {Int32Array} list  children of every call, in their order
 */

import { matcher } from "./store.js";

/**
 * Where every call begins and ends, as a part of the total. Calls that together exceed what called them (damaged input)
 * are made narrower; negative costs have no width, but where costs are differences: these are as wide as all changes.
 * @param {Tree} tree
 * @param {number} metric
 * @param {Order} [order]  of siblings
 * @returns {Layout}
 */
export function layOut(tree, metric, order = "cost") {
  const { weight } = tree.metrics[metric];
  const list = tree.inOrder(metric, order);
  const from = new Float64Array(tree.n + 1);
  const to = new Float64Array(tree.n + 1);
  /** @param {number} i */
  const cost = (i) => (weight[i] > 0 ? weight[i] : 0);
  let all = 0;
  let deepest = 0;
  for (let k = tree.start[tree.root]; k < tree.start[tree.root + 1]; k++) all += cost(list[k]);
  to[tree.root] = 1;
  const stack = [tree.root];
  for (let above = stack.pop(); above !== undefined; above = stack.pop()) {
    const own = above === tree.root ? all : cost(above);
    let below = 0;
    for (let k = tree.start[above]; k < tree.start[above + 1]; k++) below += cost(list[k]);
    const width = (to[above] - from[above]) / (Math.max(own, below) || 1);
    let x = from[above];
    for (let k = tree.start[above]; k < tree.start[above + 1]; k++) {
      const i = list[k];
      from[i] = x;
      x += cost(i) * width;
      to[i] = x;
      if (to[i] > from[i]) deepest = Math.max(deepest, tree.depth[i]);
      if (tree.hasChildren(i)) stack.push(i);
    }
  }
  return { from, to, deepest, list };
}

/**
 * Calls that are wide enough and in sight, callers first.
 * @param {Tree} tree
 * @param {Layout} layout
 * @param {number} from  the part of the whole that is in sight
 * @param {number} to
 * @param {number} narrowest  as a part of what is in sight
 * @param {(i: number) => void} action
 */
export function visit(tree, layout, from, to, narrowest, action) {
  const { list } = layout;
  const least = narrowest * (to - from);
  const stack = [tree.root];
  for (let above = stack.pop(); above !== undefined; above = stack.pop()) {
    for (let k = tree.start[above]; k < tree.start[above + 1]; k++) {
      const i = list[k];
      if (layout.to[i] - layout.from[i] < least || layout.to[i] <= from || layout.from[i] >= to) continue;
      action(i);
      if (tree.hasChildren(i)) stack.push(i);
    }
  }
}

/**
 * The call at a place of the whole and at a level from the root; -1 where there is none.
 * @param {Tree} tree
 * @param {Layout} layout
 * @param {number} x
 * @param {number} level
 */
export function callAt(tree, layout, x, level) {
  const { list } = layout;
  let above = tree.root;
  for (let depth = 0; depth <= level; depth++) {
    let next = -1;
    for (let k = tree.start[above]; k < tree.start[above + 1] && next < 0; k++) {
      if (layout.from[list[k]] <= x && x < layout.to[list[k]]) next = list[k];
    }
    if (next < 0) return -1;
    above = next;
  }
  return above === tree.root ? -1 : above;
}

/**
 * What a search finds; cost is that of the outermost calls, so that nothing counts twice.
 * @param {Tree} tree
 * @param {number} metric
 * @param {string} text
 */
export function searched(tree, metric, text) {
  const fits = matcher(text);
  if (!fits) return null;
  const { weight, inclusive, whole } = tree.metrics[metric];
  const is = new Uint8Array(tree.n);
  const inside = new Uint8Array(tree.n);
  const known = new Map();
  let [cost, size, n] = [0, 0, 0];
  for (let i = 0; i < tree.n; i++) {
    const label = tree.label(i);
    if (!known.has(label)) known.set(label, label >= 0 && fits(tree.name(i)));
    const above = tree.parent[i];
    const within = above >= 0 && (inside[above] || is[above]);
    inside[i] = within ? 1 : 0;
    if (!known.get(label) || tree.isMore(i)) continue;
    is[i] = 1;
    n++;
    if (!within) [cost, size] = [cost + inclusive[i], size + weight[i]];
  }
  return { is, cost, n, share: whole ? size / whole : 0 };
}
