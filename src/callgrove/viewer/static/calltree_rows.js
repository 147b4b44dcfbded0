/**
 * Rows of the three tables of calls. Each answers, by the number of a row, what it is called, where it is and what it
 * costs; and knows which rows are to be seen, in which order.
 *
 * @import { CallersData, FlatData, Labels, Metric, Numbers } from "./documents.js"
 * @import { Fits } from "./store.js"
 * @import { Compare, Shape, Tree } from "./tree.js"
 *
 * @typedef {Object} Cells  of a row
 * @property {(i: number) => string} name
 * @property {(i: number) => string} kind
 * @property {(i: number) => string} file
 * @property {(i: number) => number} line
 * @property {(i: number) => string} module
 * @property {(i: number) => number} inclusive
 * @property {(i: number) => number} exclusive
 * @property {boolean} signed  costs are differences
 *
 * @typedef {Object} TreeCells  of a row of a tree
 * @property {(i: number) => number} depth
 * @property {(i: number) => number | null} context
 * @property {(i: number) => boolean} isMore  it stands for folded ones
 * @property {(i: number) => boolean} has  any cost
 * @property {(i: number) => number} weight  what it is as large as
 *
 * @typedef {(key: string, down: boolean) => Int32Array} ChildrenBy  children of all rows, sorted by a column
 */

import { matcher } from "./store.js";
import { childrenOf, sortedChildren } from "./tree.js";

/**
 * How rows compare by a column; what has no number comes last. Differences compare by their sizes.
 * @param {Cells} cells
 * @param {string} key
 * @param {boolean} down
 * @returns {Compare}
 */
function comparison(cells, key, down) {
  const sign = down ? -1 : 1;
  const value = key === "inclusive" || key === "exclusive" ? sizeOf(cells, cells[key], down) : textOf(cells, key);
  return (a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
}

/**
 * @param {Cells} cells
 * @param {(i: number) => number} cost
 * @param {boolean} down
 * @returns {(i: number) => number}
 */
function sizeOf({ signed }, cost, down) {
  const last = down ? -Infinity : Infinity;
  return (i) => (!Number.isFinite(cost(i)) ? last : signed ? Math.abs(cost(i)) : cost(i));
}

/**
 * @param {Cells} cells
 * @param {string} key
 * @returns {(i: number) => string}
 */
function textOf({ name, kind, file, line }, key) {
  if (key === "where") return (i) => `${file(i)}\u0000${String(line(i)).padStart(9, "0")}`;
  return key === "kind" ? kind : name;
}

/** Rows of a tree: which are open, in which order, and which a search leaves. */
export class OpenRows {
  #tree;
  #childrenBy;
  #list;
  #open;
  /** @type {{ is: Uint8Array, above: Uint8Array } | null} */
  #hits = null;

  /**
   * @param {Shape} tree
   * @param {Cells & TreeCells} cells
   * @param {number} left  rows that are not in the page
   * @param {ChildrenBy} childrenBy
   */
  constructor(tree, cells, left, childrenBy) {
    this.cells = cells;
    this.left = left;
    /** @type {number | null} */
    this.functionsLeft = null;
    /** @type {number | null} */
    this.rest = null;
    this.#tree = tree;
    this.#childrenBy = childrenBy;
    this.#list = childrenBy("inclusive", true);
    this.#open = new Uint8Array(tree.n + 1);
  }

  /**
   * Null where nothing is below a row.
   * @param {number} i
   */
  opened(i) {
    return this.#tree.hasChildren(i) ? Boolean(this.#open[i]) : null;
  }

  /** @param {number} i */
  toggle(i) {
    this.#open[i] = this.#open[i] ? 0 : 1;
  }

  /** @param {boolean} open */
  openAll(open) {
    this.#open.fill(open ? 1 : 0);
  }

  /** Open rows along the costliest calls. */
  openHot() {
    const { start, root } = this.#tree;
    const { weight } = this.cells;
    for (let at = root; this.#tree.hasChildren(at);) {
      const children = Array.from(this.#list.subarray(start[at], start[at + 1]));
      const next = children.reduce((best, one) => (weight(one) > weight(best) ? one : best));
      if (at !== root && !(weight(next) >= 0.5 * weight(at))) break;
      this.#open[next] = 1;
      at = next;
    }
  }

  /**
   * @param {string} key
   * @param {boolean} down
   */
  sort(key, down) {
    this.#list = this.#childrenBy(key, down);
  }

  /**
   * Leave what a search finds, and what is above it, which is opened.
   * @param {string} text
   */
  search(text) {
    const { n, parent } = this.#tree;
    const { isMore, has, name } = this.cells;
    const fits = matcher(text);
    this.#hits = null;
    if (!fits) return;
    const [is, above] = [new Uint8Array(n), new Uint8Array(n)];
    for (let i = 0; i < n; i++) {
      if (isMore(i) || !has(i) || !fits(name(i))) continue;
      is[i] = 1;
      for (let at = parent[i]; at >= 0 && !above[at]; at = parent[at]) above[at] = this.#open[at] = 1;
    }
    this.#hits = { is, above };
  }

  /** @param {number} i */
  found(i) {
    return Boolean(this.#hits?.is[i]);
  }

  visible() {
    const hits = this.#hits;
    return this.#walk(
      (i) => Boolean(this.#open[i]),
      (i) => !hits || Boolean(hits.is[i] || hits.above[i]),
    );
  }

  all() {
    return this.#walk(
      () => true,
      () => true,
    );
  }

  /**
   * @param {(i: number) => boolean} enter  what is below a row?
   * @param {(i: number) => boolean} wanted
   */
  #walk(enter, wanted) {
    const { root, start } = this.#tree;
    const rows = [];
    const stack = [root];
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (at !== root) rows.push(at);
      if (at !== root && !enter(at)) continue;
      for (let k = start[at + 1] - 1; k >= start[at]; k--)
        if (this.cells.has(this.#list[k]) && wanted(this.#list[k])) stack.push(this.#list[k]);
    }
    return rows;
  }
}

/**
 * The call tree from its roots down.
 * @param {Tree} tree
 * @param {number} metric
 */
export function treeRows(tree, metric) {
  const { inclusive, exclusive, additive, weight, signed } = tree.metrics[metric];
  const costly = new Uint8Array(tree.n); // the tree also has what costs something in other metrics only
  for (let i = tree.n - 1; i >= 0; i--) {
    if (!costly[i] && !isThere(inclusive[i], additive) && !isThere(exclusive[i], additive)) continue;
    costly[i] = 1;
    if (tree.parent[i] >= 0) costly[tree.parent[i]] = 1;
  }
  /** @type {Cells & TreeCells} */
  const cells = {
    name: (i) => tree.name(i),
    kind: (i) => tree.kind(i),
    file: (i) => tree.file(i),
    line: (i) => tree.line(i),
    module: (i) => tree.module(i),
    context: (i) => tree.context(i),
    isMore: (i) => tree.isMore(i),
    depth: (i) => tree.depth[i],
    inclusive: (i) => inclusive[i],
    exclusive: (i) => exclusive[i],
    has: (i) => Boolean(costly[i]),
    weight: (i) => weight[i],
    signed,
  };
  const rows = new OpenRows(tree, cells, 0, (key, down) =>
    tree.childrenBy(`${key} ${down} ${metric}`, comparison(cells, key, down)),
  );
  rows.openHot();
  return rows;
}

/**
 * Functions with their callers below them: rows in preorder with their depths.
 * @param {CallersData | null} data
 * @param {Labels} labels
 * @param {boolean} signed
 */
export function callerRows(data, labels, signed) {
  const table = data ?? { label: [], depth: [], inclusive: [], exclusive: [], left: 0, functions_left: 0, rest: 0 };
  const n = table.label.length;
  const parent = new Int32Array(n);
  /** @type {number[]} */
  const last = [];
  for (let i = 0; i < n; i++) {
    parent[i] = table.depth[i] ? last[table.depth[i] - 1] : -1;
    last[table.depth[i]] = i;
  }
  const { start, children } = childrenOf(parent);
  /** @type {Shape} */
  const tree = { n, root: n, parent, start, hasChildren: (i) => start[i + 1] > start[i] };
  /** @type {Cells & TreeCells} */
  const cells = {
    ...labelled(labels, table.label),
    context: () => null,
    isMore: () => false,
    has: () => true,
    depth: (i) => table.depth[i],
    inclusive: (i) => table.inclusive[i],
    exclusive: (i) => table.exclusive[i],
    weight: (i) => Math.abs(table.exclusive[i]),
    signed,
  };
  const rows = new OpenRows(tree, cells, table.left, (key, down) =>
    sortedChildren(start, children, comparison(cells, key, down)),
  );
  rows.functionsLeft = table.functions_left;
  rows.rest = table.rest;
  return rows;
}

/** Rows of a flat table. */
export class FlatRows {
  #order;
  /** @type {Fits | null} */
  #fits = null;

  /**
   * @param {FlatData} data
   * @param {Labels} labels
   * @param {number} metric
   * @param {Metric} shown
   */
  constructor(data, labels, metric, { additive, signed }) {
    const [inclusive, exclusive] = [data.inclusive[metric], data.exclusive[metric]];
    /** @type {Cells} */
    this.cells = {
      ...labelled(labels, data.label),
      inclusive: (i) => inclusive[i],
      exclusive: (i) => exclusive[i],
      signed,
    };
    this.left = data.left;
    this.rest = data.rest[metric];
    this.#order = Array.from(data.label, (_, i) => i).filter(
      (i) => isThere(inclusive[i], additive) || isThere(exclusive[i], additive),
    );
  }

  /**
   * @param {string} key
   * @param {boolean} down
   */
  sort(key, down) {
    const compare = comparison(this.cells, key, down);
    const size = (/** @type {number} */ i) => Math.abs(this.cells.inclusive(i));
    this.#order.sort((a, b) => compare(a, b) || size(b) - size(a) || a - b);
  }

  /** @param {string} text */
  search(text) {
    this.#fits = matcher(text);
  }

  found() {
    return false;
  }

  visible() {
    const fits = this.#fits;
    return fits ? this.#order.filter((i) => fits(this.cells.name(i))) : this.#order;
  }

  all() {
    return this.#order;
  }
}

/**
 * Is there any cost? An absent minimum or maximum is infinite, and one of zero is there.
 * @param {number} value
 * @param {boolean} additive
 */
function isThere(value, additive) {
  return additive ? value !== 0 : Number.isFinite(value);
}

/**
 * @param {Labels} labels
 * @param {Numbers | number[]} label  of each row
 * @returns {Pick<Cells, "name" | "kind" | "file" | "line" | "module">}
 */
function labelled(labels, label) {
  return {
    name: (i) => labels.name[label[i]],
    kind: (i) => labels.kind[label[i]],
    file: (i) => labels.file[label[i]],
    line: (i) => labels.line[label[i]],
    module: (i) => labels.module[label[i]],
  };
}
