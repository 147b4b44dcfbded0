/**
 * Rows of the three tables of calls. Each kind answers, by the number of a row: name, kind, file, line, module, inclusive
 * and exclusive cost; and knows which rows are to be seen, in which order: sort, search, toggle, visible, all.
 */

import { matcher } from "./store.js";
import { childrenOf, sortedChildren } from "./tree.js";

/** How rows compare by a column; what has no number comes last. Differences compare by their sizes. */
function comparison(rows, key, down) {
  const sign = down ? -1 : 1;
  if (key === "inclusive" || key === "exclusive") {
    const size = rows.signed ? Math.abs : (value) => value;
    const value = (i) => (Number.isFinite(rows[key](i)) ? size(rows[key](i)) : down ? -Infinity : Infinity);
    return (a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  }
  const text = { name: rows.name, kind: rows.kind, where: (i) => `${rows.file(i)}\u0000${String(rows.line(i)).padStart(9, "0")}` }[key];
  return (a, b) => sign * (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0);
}

/** Rows of a tree: which are open, in which order, and which a search leaves. */
function openRows(tree, rows, childrenBy) {
  const open = new Uint8Array(tree.n + 1);
  let list = childrenBy("inclusive", true);
  /** @type {{is: Uint8Array, above: Uint8Array} | null} */
  let hits = null;
  const walk = (enter) => {
    const out = [];
    const stack = [tree.root];
    while (stack.length) {
      const at = /** @type {number} */ (stack.pop());
      if (at !== tree.root) out.push(at);
      if (at !== tree.root && !enter(at)) continue;
      for (let k = tree.start[at + 1] - 1; k >= tree.start[at]; k--) if (rows.has(list[k]) && (!hits || hits.is[list[k]] || hits.above[list[k]])) stack.push(list[k]);
    }
    return out;
  };
  Object.assign(rows, {
    opened: (i) => (tree.hasChildren(i) ? Boolean(open[i]) : null),
    toggle: (i) => { open[i] = open[i] ? 0 : 1; },
    openAll: (value) => open.fill(value ? 1 : 0),
    openHot() {
      for (let at = tree.root; tree.hasChildren(at);) {
        const children = Array.from(list.subarray(tree.start[at], tree.start[at + 1]));
        const next = children.reduce((best, one) => (rows.weight(one) > rows.weight(best) ? one : best));
        if (at !== tree.root && !(rows.weight(next) >= 0.5 * rows.weight(at))) break;
        open[next] = 1;
        at = next;
      }
    },
    sort: (key, down) => { list = childrenBy(key, down); },
    search(text) {
      const fits = matcher(text ?? "");
      hits = null;
      if (!fits) return;
      const [is, above] = [new Uint8Array(tree.n), new Uint8Array(tree.n)];
      for (let i = 0; i < tree.n; i++) {
        if (rows.isMore(i) || !rows.has(i) || !fits(rows.name(i))) continue;
        is[i] = 1;
        for (let at = tree.parent[i]; at >= 0 && !above[at]; at = tree.parent[at]) above[at] = open[at] = 1;
      }
      hits = { is, above };
    },
    found: (i) => Boolean(hits?.is[i]),
    visible: () => walk((i) => open[i]),
    all: () => { const kept = hits; hits = null; const out = walk(() => true); hits = kept; return out; },
  });
  rows.openHot();
  return rows;
}

/**
 * The call tree from its roots down.
 * @param {any} tree
 * @param {number} metric
 * @returns {any}
 */
export function treeRows(tree, metric) {
  const { inclusive, exclusive, additive, weight, signed } = tree.metrics[metric];
  const costly = new Uint8Array(tree.n); // the tree also has what costs something in other metrics only
  for (let i = tree.n - 1; i >= 0; i--) {
    if (!costly[i] && !isThere(inclusive[i], additive) && !isThere(exclusive[i], additive)) continue;
    costly[i] = 1;
    if (tree.parent[i] >= 0) costly[tree.parent[i]] = 1;
  }
  const rows = {
    left: 0,
    name: tree.name, kind: tree.kind, file: tree.file, line: tree.line, module: tree.module, context: tree.context,
    isMore: tree.isMore, depth: (i) => tree.depth[i], inclusive: (i) => inclusive[i], exclusive: (i) => exclusive[i],
    has: (i) => costly[i], weight: (i) => weight[i], signed,
  };
  return openRows(tree, rows, (key, down) => tree.childrenBy(`${key} ${down} ${metric}`, comparison(rows, key, down)));
}

/**
 * Functions with their callers below them: rows in preorder with their depths.
 * @param {any} data
 * @param {import("./tree.js").Labels} labels
 * @param {boolean} signed
 * @returns {any}
 */
export function callerRows(data, labels, signed) {
  const table = data ?? { label: [], depth: [], inclusive: [], exclusive: [], left: 0, functions_left: 0, rest: 0 };
  const n = table.label.length;
  const parent = new Int32Array(n);
  const last = [];
  for (let i = 0; i < n; i++) {
    parent[i] = table.depth[i] ? last[table.depth[i] - 1] : -1;
    last[table.depth[i]] = i;
  }
  const { start, children } = childrenOf(parent);
  const tree = { n, root: n, parent, start, hasChildren: (i) => start[i + 1] > start[i] };
  const rows = {
    ...labelled(labels, table.label),
    left: table.left, functionsLeft: table.functions_left, rest: table.rest, context: () => null, isMore: () => false, has: () => true, depth: (i) => table.depth[i],
    inclusive: (i) => table.inclusive[i], exclusive: (i) => table.exclusive[i], weight: (i) => Math.abs(table.exclusive[i]), signed,
  };
  const made = openRows(tree, rows, (key, down) => sortedChildren(start, children, comparison(rows, key, down)));
  made.openAll(false);
  return made;
}

/**
 * @param {any} data
 * @param {import("./tree.js").Labels} labels
 * @param {number} metric
 * @param {import("./tree.js").Metric} shown
 * @returns {any}
 */
export function flatRows(data, labels, metric, { additive, signed }) {
  const [inclusive, exclusive] = [data.inclusive[metric], data.exclusive[metric]];
  let hits = /** @type {(function(string): boolean) | null} */ (null);
  let order = Array.from(data.label, (_, i) => i).filter((i) => isThere(inclusive[i], additive) || isThere(exclusive[i], additive));
  const rows = {
    ...labelled(labels, data.label),
    left: data.left, rest: data.rest[metric], inclusive: (i) => inclusive[i], exclusive: (i) => exclusive[i], signed,
    sort: (key, down) => { const compare = comparison(rows, key, down); order.sort((a, b) => compare(a, b) || Math.abs(inclusive[b]) - Math.abs(inclusive[a]) || a - b); },
    search: (text) => { hits = matcher(text ?? ""); },
    found: () => false,
    visible: () => (hits ? order.filter((i) => hits?.(rows.name(i))) : order),
    all: () => order,
  };
  return rows;
}

/** Is there any cost? An absent minimum or maximum is infinite, and one of zero is there. */
const isThere = (value, additive) => (additive ? value !== 0 : Number.isFinite(value));

function labelled(labels, label) {
  return {
    name: (i) => labels.name[label[i]], kind: (i) => labels.kind[label[i]], file: (i) => labels.file[label[i]],
    line: (i) => labels.line[label[i]], module: (i) => labels.module[label[i]],
  };
}
