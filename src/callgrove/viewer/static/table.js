/**
 * A table of any length: only the rows in sight exist. Sorted by clicking a heading, walked through with the arrow
 * keys; rows of trees open and close.
 *
 * @import { Numbers } from "./documents.js"
 *
 * @typedef {Object} Column
 * @property {string} key
 * @property {string} title
 * @property {string} [about]  what it is, where the title is short
 * @property {string} width  of CSS grid
 * @property {boolean} [numeric]
 * @property {(row: number) => string} text
 * @property {(row: number) => number} [share]  of 1: a bar beside the text
 * @property {(row: number) => string} [barClass]  of the bar
 * @property {(row: number) => string} [hint]
 * @property {(row: number) => string} [mark]  the colour of a mark before the text, empty for a hollow one
 *
 * @typedef {Object} TableOptions
 * @property {string} label
 * @property {Column[]} columns
 * @property {string} sortBy
 * @property {boolean} [descending]
 * @property {(key: string, descending: boolean) => void} onSort
 * @property {(row: number) => number} [depth]
 * @property {(row: number) => boolean | null} [opened]  null: nothing below it
 * @property {(row: number) => void} [onToggle]
 * @property {(row: number) => void} [onSelect]  where rows are chosen; then only their marks open them with the mouse
 * @property {(row: number) => string} [rowClass]
 * @property {(row: number) => boolean} [selected]  where several rows are chosen at once
 */

import { element, takeKey } from "./dom.js";

const ROW = 25;
const SPARE = 8;

/** Rows by number, in the order that they were given in. */
export class Table {
  #options;
  #grid;
  #isTree;
  #body = element("div", { class: "table-body" });
  #spacer = element("div", { class: "table-spacer" }, [this.#body]);
  #head = element("div", { class: "table-head", attributes: { role: "row" } });
  /** @type {Numbers} */
  #rows = [];
  #cursor = 0;
  #sortBy;
  #descending;
  #headings;

  /** @param {TableOptions} options */
  constructor(options) {
    const { columns } = options;
    this.#options = options;
    this.#isTree = options.opened !== undefined;
    this.#sortBy = options.sortBy;
    this.#descending = options.descending ?? true;
    this.#grid = columns.map((column) => column.width).join(" ");
    this.#head.style.gridTemplateColumns = this.#grid;
    this.#headings = columns.map((column) => this.#heading(column));
    this.#head.append(...this.#headings);
    const role = this.#isTree ? "treegrid" : "grid";
    this.root = element("div", { class: "table", attributes: { role, tabindex: "0", "aria-label": options.label } }, [
      this.#head,
      this.#spacer,
    ]);
    if (options.selected) this.root.setAttribute("aria-multiselectable", "true");
    this.root.addEventListener("keydown", (event) => this.#pressed(event));
    this.#spacer.addEventListener("click", (event) => this.#clicked(event));
    this.root.addEventListener("scroll", () => requestAnimationFrame(() => this.redraw()), { passive: true });
    new ResizeObserver(() => this.redraw()).observe(this.root);
    this.#markSorted();
  }

  /**
   * @param {Numbers} rows
   * @param {boolean} [stay]  where the cursor is
   */
  setRows(rows, stay = true) {
    this.#rows = rows;
    if (!stay) {
      this.#cursor = 0;
      this.root.scrollTop = 0;
    }
    this.#cursor = Math.min(this.#cursor, Math.max(rows.length - 1, 0));
    this.redraw();
  }

  /**
   * Go to the next row that is wanted, downwards (1) or upwards (-1), and round the end.
   * @param {(row: number) => boolean} wanted
   * @param {number} step
   * @param {boolean} [here]  the row at the cursor counts too
   */
  seek(wanted, step, here = false) {
    const n = this.#rows.length;
    for (let k = here ? 0 : 1; k <= n; k++) {
      const at = (((this.#cursor + step * k) % n) + n) % n;
      if (wanted(this.#rows[at])) {
        this.#moveTo(at);
        return;
      }
    }
  }

  // -- sorting --------------------------------------------------------------------------------------------------------

  /** @param {Column} column */
  #heading(column) {
    const made = element("button", {
      class: column.numeric ? "heading numeric" : "heading",
      text: column.title,
      attributes: { type: "button", role: "columnheader", title: `Sort by ${column.about ?? column.title}` },
      on: { click: () => this.#sort(column) },
    });
    made.dataset.key = column.key;
    return made;
  }

  /** @param {Column} column */
  #sort({ key, numeric = false }) {
    this.#descending = this.#sortBy === key ? !this.#descending : numeric;
    this.#sortBy = key;
    this.#options.onSort(key, this.#descending);
    this.#markSorted();
  }

  #markSorted() {
    const order = this.#descending ? "descending" : "ascending";
    for (const made of this.#headings)
      made.setAttribute("aria-sort", made.dataset.key === this.#sortBy ? order : "none");
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  redraw() {
    const { root } = this;
    if (!root.isConnected) return; // the last event of a table that was replaced
    const n = this.#rows.length;
    this.#spacer.style.height = `${n * ROW}px`;
    root.setAttribute("aria-rowcount", String(n + 1));
    const first = Math.max(0, Math.floor(root.scrollTop / ROW) - SPARE);
    const last = Math.min(n, Math.ceil((root.scrollTop + root.clientHeight) / ROW) + SPARE);
    this.#body.style.transform = `translateY(${first * ROW}px)`;
    const made = [];
    for (let at = first; at < last; at++) made.push(this.#row(at));
    this.#body.replaceChildren(...made);
  }

  /** @param {number} at */
  #row(at) {
    const { depth: depthOf, rowClass, columns, selected } = this.#options;
    const row = this.#rows[at];
    const depth = depthOf?.(row) ?? 0;
    const open = this.#opened(at);
    const line = element("div", {
      class: `row ${rowClass?.(row) ?? ""}`,
      attributes: { role: "row", "aria-rowindex": String(at + 2) },
    });
    line.style.gridTemplateColumns = this.#grid;
    if (this.#isTree) {
      line.setAttribute("aria-level", String(depth + 1));
      if (open !== null) line.setAttribute("aria-expanded", String(open));
    }
    if (selected) line.setAttribute("aria-selected", String(selected(row)));
    if (at === this.#cursor) line.classList.add("cursor");
    line.append(...columns.map((column) => cellOf(column, row)));
    if (this.#isTree) addTwist(/** @type {HTMLElement} */ (line.firstElementChild), depth, open);
    return line;
  }

  /**
   * Is a row open? Null where nothing is below it.
   * @param {number} at
   */
  #opened(at) {
    return this.#options.opened?.(this.#rows[at]) ?? null;
  }

  // -- mouse and keyboard ---------------------------------------------------------------------------------------------

  /** @param {number} next */
  #moveTo(next) {
    const { root } = this;
    this.#cursor = Math.min(Math.max(next, 0), this.#rows.length - 1);
    const top = this.#cursor * ROW;
    const room = root.clientHeight - this.#head.offsetHeight;
    if (top < root.scrollTop) root.scrollTop = top;
    else if (top + ROW > root.scrollTop + room) root.scrollTop = top + ROW - room;
    this.redraw();
    this.#options.onSelect?.(this.#rows[this.#cursor]);
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const n = this.#rows.length;
    if (event.target !== this.root || !n) return;
    const page = Math.max(1, Math.floor(this.root.clientHeight / ROW) - 2);
    const by = (/** @type {number} */ step) => () => this.#moveTo(this.#cursor + step);
    const open = this.#opened(this.#cursor);
    const toggle = () => this.#options.onToggle?.(this.#rows[this.#cursor]);
    const either = () => open !== null && toggle();
    takeKey(event, {
      ArrowDown: by(1),
      ArrowUp: by(-1),
      PageDown: by(page),
      PageUp: by(-page),
      Home: by(-n),
      End: by(n),
      Enter: either,
      " ": either,
      ...(this.#isTree && {
        ArrowRight: () => (open === false ? toggle() : this.#moveTo(this.#cursor + 1)),
        ArrowLeft: () => (open ? toggle() : this.#moveTo(this.#parentOf(this.#cursor))),
      }),
    })?.();
  }

  /** @param {number} at */
  #parentOf(at) {
    const depthAt = (/** @type {number} */ one) => this.#options.depth?.(this.#rows[one]) ?? 0;
    const depth = depthAt(at);
    let above = at;
    while (above > 0 && depthAt(above) >= depth && depth > 0) above--;
    return above;
  }

  /**
   * By place: rows come and go.
   * @param {MouseEvent} event
   */
  #clicked(event) {
    const at = Math.floor((event.clientY - this.#spacer.getBoundingClientRect().top) / ROW);
    if (at < 0 || at >= this.#rows.length) return;
    this.#cursor = at;
    const { onSelect, onToggle } = this.#options;
    onSelect?.(this.#rows[at]);
    const onMark = event.target instanceof HTMLElement && event.target.classList.contains("twist");
    if (this.#opened(at) !== null && (!onSelect || onMark || event.detail > 1)) onToggle?.(this.#rows[at]);
    else this.redraw();
  }
}

/**
 * @param {Column} column
 * @param {number} row
 */
function cellOf(column, row) {
  const text = column.text(row);
  const cell = element("div", { class: column.numeric ? "cell numeric" : "cell", attributes: { role: "gridcell" } });
  const hint = column.hint ? column.hint(row) : text;
  if (hint) cell.title = hint;
  const share = column.share?.(row);
  if (share !== undefined) {
    const inner = element("span");
    inner.style.width = `${Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1) * 100}%`;
    const name = `bar ${column.barClass?.(row) ?? ""}`.trim();
    cell.append(element("span", { class: name, attributes: { "aria-hidden": "true" } }, [inner]));
  }
  if (column.mark) {
    const mark = element("span", { class: "row-mark", attributes: { "aria-hidden": "true" } });
    mark.style.background = column.mark(row);
    cell.append(mark);
  }
  cell.append(element("span", { class: "cell-text", text }));
  return cell;
}

/**
 * The mark of what can be opened, as deep as the row.
 * @param {HTMLElement} cell
 * @param {number} depth
 * @param {boolean | null} open
 */
function addTwist(cell, depth, open) {
  const text = open === null ? "" : open ? "▾" : "▸";
  cell.style.paddingLeft = `${8 + Math.min(depth, 40) * 14}px`;
  cell.prepend(element("span", { class: "twist", text, attributes: { "aria-hidden": "true" } }));
}
