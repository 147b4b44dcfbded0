/**
 * Rows of a view that come from the server as they are opened: children of one row at a time, some hundred of them.
 *
 * @import { Look, Provider, RowsData, View } from "./documents.js"
 *
 * @typedef {Object} Row
 * @property {string} key  empty: stands for siblings that were not asked for yet
 * @property {number} parent  -1: none
 * @property {number} depth
 * @property {string} name
 * @property {string} kind
 * @property {string} file
 * @property {number} line
 * @property {string} module
 * @property {boolean} opens
 * @property {boolean} open
 * @property {number[] | null} children  null: not asked for yet
 * @property {number} left  siblings that it stands for
 * @property {[exclusive: number, inclusive: number][]} costs  by metric
 */

const MOST = 500; // rows of a request
const DEEPEST = 100; // rows of a path that are opened at once
const MOST_ASKED = 40; // requests for one row among its siblings
const MOST_ALONE = 10; // rows without siblings that are opened at first, each by a request

/** All rows that were asked for, and which of them are in sight. */
export class LazyRows {
  /** @type {Row[]} */
  rows = [];
  /** @type {number[]} */
  roots = [];
  /** @type {RowsData["metrics"]} */
  metrics = [];
  sort = "";
  down = true;

  /**
   * @param {Provider} provider
   * @param {() => Look} look
   * @param {View} view
   * @param {() => string[]} columns  further metrics
   */
  constructor(provider, look, view, columns) {
    this.provider = provider;
    this.look = look;
    this.view = view;
    this.columns = columns;
  }

  // -- what is asked for comes one after the other: rows must not be others when what is below them comes

  /** @type {Promise<unknown>} */
  settled = Promise.resolve();

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(work) {
    const done = this.settled.then(work);
    this.settled = done.catch(() => {}); // whoever asked hears of it
    return done;
  }

  /** Ask for the first rows; of a call tree, down to where it branches. */
  load() {
    return this.#inTurn(async () => {
      [this.rows, this.roots] = [[], []];
      await this.#more(-1, this.roots);
      if (this.view.view === "tree") await this.#openAlone();
    });
  }

  /**
   * Open or close a row; one that stands for others is replaced by them.
   * @param {number} i
   */
  toggle(i) {
    return this.#inTurn(() => this.#toggle(i));
  }

  /**
   * Open the rows that lead to one, by their keys from the outermost on; returns that row, or -1.
   * @param {string[]} keys
   */
  reveal(keys) {
    return this.#inTurn(() => this.#reveal(keys));
  }

  /**
   * Open the rows that lead to a call, by the keys of all contexts above it; returns the last of them that has a row.
   * @param {string[]} keys
   */
  revealNearest(keys) {
    return this.#inTurn(() => this.#revealNearest(keys));
  }

  /** Open the rows along the costliest calls. */
  openHot() {
    return this.#inTurn(() => this.#openHot());
  }

  // -- asking

  /**
   * Ask for further children of a row.
   * @param {number} parent
   * @param {number[]} siblings  those that are there already, which it adds to
   */
  async #more(parent, siblings) {
    const last = siblings.at(-1);
    const first = last !== undefined && !this.rows[last].key ? siblings.length - 1 : siblings.length;
    const data = await this.provider.get("rows", {
      ...this.look(),
      ...this.view,
      node: parent < 0 ? "" : this.rows[parent].key,
      down: this.down ? 1 : 0,
      first,
      count: MOST,
      columns: this.view.view === "callers" ? [] : this.columns(),
      ...(this.sort && { sort: this.sort }),
    });
    this.metrics = data.metrics;
    siblings.length = first;
    for (let i = 0; i < data.key.length; i++) siblings.push(this.#add(parent, data, i));
    const left = data.n - siblings.length;
    if (left > 0) siblings.push(this.#addMore(parent, left));
  }

  /**
   * @param {number} parent
   * @param {RowsData} data
   * @param {number} i
   */
  #add(parent, data, i) {
    const depth = parent < 0 ? 0 : this.rows[parent].depth + 1;
    const { key, name, kind, file, line, module, opens, metrics } = data;
    return (
      this.rows.push({
        ...{ key: key[i], parent, depth, name: name[i], kind: kind[i], file: file[i], line: line[i] },
        ...{ module: module[i], opens: Boolean(opens[i]), open: false, children: null, left: 0 },
        costs: metrics.map(({ exclusive, inclusive }) => [exclusive[i], inclusive[i]]),
      }) - 1
    );
  }

  /**
   * @param {number} parent
   * @param {number} left
   */
  #addMore(parent, left) {
    const depth = parent < 0 ? 0 : this.rows[parent].depth + 1;
    const nothing = { key: "", name: "", kind: "", file: "", line: -1, module: "" };
    return this.rows.push({ ...nothing, parent, depth, opens: true, open: false, children: null, left, costs: [] }) - 1;
  }

  /** @param {number} i */
  async #toggle(i) {
    const row = this.rows[i];
    if (!row) return; // it was there before rows were sorted in another order
    if (!row.key) {
      const siblings = row.parent < 0 ? this.roots : this.rows[row.parent].children;
      if (siblings) await this.#more(row.parent, siblings);
      return;
    }
    if (!row.opens) return;
    if (!row.children) {
      row.children = [];
      await this.#more(i, row.children);
    }
    row.open = !row.open;
  }

  /** @param {string[]} keys */
  async #reveal(keys) {
    let siblings = this.roots;
    let at = -1;
    for (const key of keys) {
      at = await this.#seek(key, at, siblings);
      if (at < 0) return -1;
      if (key === keys.at(-1)) return at;
      if (!this.rows[at].open) await this.#toggle(at);
      siblings = this.rows[at].children ?? [];
    }
    return at;
  }

  /**
   * The row of a key among siblings, of which further ones are asked for until it is there.
   * @param {string} key
   * @param {number} parent
   * @param {number[]} siblings
   */
  async #seek(key, parent, siblings) {
    for (let asked = 0; asked < MOST_ASKED; asked++) {
      const at = siblings.find((one) => this.rows[one].key === key);
      if (at !== undefined) return at;
      const last = siblings.at(-1);
      if (last === undefined || this.rows[last].key) break;
      await this.#more(parent, siblings);
    }
    return -1;
  }

  /** @param {string[]} keys */
  async #revealNearest(keys) {
    let siblings = this.roots;
    let last = -1;
    for (const key of keys) {
      const at = siblings.find((one) => this.rows[one].key === key);
      if (at === undefined) continue; // it has no row of its own: what is below it stands among these
      if (last >= 0 && !this.rows[last].open) this.rows[last].open = true;
      last = at;
      const row = this.rows[at];
      if (row.opens && !row.children) {
        row.children = [];
        await this.#more(at, row.children);
      }
      siblings = row.children ?? [];
    }
    return last;
  }

  async #openAlone() {
    let siblings = this.roots;
    for (let depth = 0; depth < MOST_ALONE && siblings.length === 1; depth++) {
      await this.#toggle(siblings[0]);
      siblings = this.rows[siblings[0]].children ?? [];
    }
  }

  async #openHot() {
    let siblings = this.roots;
    for (let depth = 0; depth < DEEPEST && siblings.length && this.rows[siblings[0]].opens; depth++) {
      if (!this.rows[siblings[0]].open) await this.#toggle(siblings[0]);
      siblings = this.rows[siblings[0]].children ?? [];
    }
  }

  /** The rows in sight, from the first to the last. */
  visible() {
    /** @type {number[]} */
    const shown = [];
    const stack = [...this.roots].reverse();
    for (let i = stack.pop(); i !== undefined; i = stack.pop()) {
      shown.push(i);
      const { open, children } = this.rows[i];
      if (open && children) stack.push(...[...children].reverse());
    }
    return shown;
  }
}
