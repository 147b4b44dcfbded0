/**
 * A table of any length: only the rows in sight exist. Sorted by clicking a heading, walked through with the arrow
 * keys; rows of trees open and close.
 *
 * @typedef {Object} Column
 * @property {string} key
 * @property {string} title
 * @property {string} width  of CSS grid
 * @property {boolean} [numeric]
 * @property {function(number): string} text
 * @property {function(number): number} [share]  of 1: a bar beside the text
 * @property {function(number): string} [barClass]  of the bar
 * @property {function(number): string} [hint]
 *
 * @typedef {Object} TableOptions
 * @property {string} label
 * @property {Column[]} columns
 * @property {string} sortBy
 * @property {boolean} [descending]
 * @property {function(string, boolean): void} onSort
 * @property {function(number): number} [depth]
 * @property {function(number): boolean | null} [opened]  null: nothing below it
 * @property {function(number): void} [onToggle]
 * @property {function(number): string} [rowClass]
 */

import { element } from "./dom.js";

const ROW = 25;
const SPARE = 8;

/**
 * @param {TableOptions} options
 * @returns {{root: HTMLElement, setRows: function(ArrayLike<number>, boolean=): void, setSort: function(string, boolean): void, redraw: function(): void, seek: function(function(number): boolean, number, boolean=): void}}
 */
export function createTable(options) {
  const { columns } = options;
  const grid = columns.map((column) => column.width).join(" ");
  const tree = options.opened !== undefined;
  const body = element("div", { class: "table-body" });
  const spacer = element("div", { class: "table-spacer" }, [body]);
  const head = element("div", { class: "table-head", attributes: { role: "row" } });
  const root = element(
    "div",
    { class: "table", attributes: { role: tree ? "treegrid" : "grid", tabindex: "0", "aria-label": options.label } },
    [head, spacer],
  );
  head.style.gridTemplateColumns = grid;
  /** @type {ArrayLike<number>} */
  let rows = [];
  let cursor = 0;
  let sortBy = options.sortBy;
  let descending = options.descending ?? true;

  const headings = columns.map((column) => {
    const made = element("button", {
      class: column.numeric ? "heading numeric" : "heading",
      text: column.title,
      attributes: { type: "button", role: "columnheader", title: `Sort by ${column.title}` },
      on: { click: () => sort(column.key) },
    });
    made.dataset.key = column.key;
    head.append(made);
    return made;
  });

  function sort(key) {
    descending = sortBy === key ? !descending : (columns.find((column) => column.key === key)?.numeric ?? false);
    sortBy = key;
    options.onSort(sortBy, descending);
    markSorted();
  }

  function markSorted() {
    for (const made of headings) {
      const own = made.dataset.key === sortBy;
      made.setAttribute("aria-sort", own ? (descending ? "descending" : "ascending") : "none");
    }
  }

  function draw() {
    if (!root.isConnected) return; // the last event of a table that was replaced
    spacer.style.height = `${rows.length * ROW}px`;
    root.setAttribute("aria-rowcount", String(rows.length + 1));
    const first = Math.max(0, Math.floor(root.scrollTop / ROW) - SPARE);
    const last = Math.min(rows.length, Math.ceil((root.scrollTop + root.clientHeight) / ROW) + SPARE);
    body.style.transform = `translateY(${first * ROW}px)`;
    const made = [];
    for (let at = first; at < last; at++) made.push(drawRow(at));
    body.replaceChildren(...made);
  }

  function drawRow(at) {
    const row = rows[at];
    const depth = options.depth?.(row) ?? 0;
    const open = options.opened?.(row) ?? null;
    const line = element("div", {
      class: `row ${options.rowClass?.(row) ?? ""}`,
      attributes: { role: "row", "aria-rowindex": String(at + 2) },
    });
    line.style.gridTemplateColumns = grid;
    if (tree) {
      line.setAttribute("aria-level", String(depth + 1));
      if (open !== null) line.setAttribute("aria-expanded", String(open));
    }
    if (at === cursor) line.classList.add("cursor");
    columns.forEach((column, i) => line.append(drawCell(column, row, i === 0 && tree, depth, open)));
    return line;
  }

  function drawCell(column, row, first, depth, open) {
    const text = column.text(row);
    const cell = element("div", { class: column.numeric ? "cell numeric" : "cell", attributes: { role: "gridcell" } });
    const hint = column.hint ? column.hint(row) : text;
    if (hint) cell.title = hint;
    if (first) {
      cell.style.paddingLeft = `${8 + Math.min(depth, 40) * 14}px`;
      cell.append(
        element("span", {
          class: "twist",
          text: open === null ? "" : open ? "▾" : "▸",
          attributes: { "aria-hidden": "true" },
        }),
      );
    }
    const share = column.share?.(row);
    if (share !== undefined) {
      const bar = element(
        "span",
        { class: `bar ${column.barClass?.(row) ?? ""}`.trim(), attributes: { "aria-hidden": "true" } },
        [element("span", {})],
      );
      const inner = /** @type {HTMLElement} */ (bar.firstChild);
      inner.style.width = `${Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1) * 100}%`;
      cell.append(bar);
    }
    cell.append(element("span", { class: "cell-text", text }));
    return cell;
  }

  function moveTo(next) {
    cursor = Math.min(Math.max(next, 0), rows.length - 1);
    const top = cursor * ROW;
    const room = root.clientHeight - head.offsetHeight;
    if (top < root.scrollTop) root.scrollTop = top;
    else if (top + ROW > root.scrollTop + room) root.scrollTop = top + ROW - room;
    draw();
  }

  root.addEventListener("keydown", (event) => {
    if (event.target !== root || !rows.length) return;
    const page = Math.max(1, Math.floor(root.clientHeight / ROW) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
    const row = rows[cursor];
    const open = options.opened?.(row) ?? null;
    if (event.key in moves) moveTo(cursor + moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") {
      if (open !== null) options.onToggle?.(row);
    } else if (event.key === "ArrowRight" && tree) {
      if (open === false) options.onToggle?.(row);
      else moveTo(cursor + 1);
    } else if (event.key === "ArrowLeft" && tree) {
      if (open) options.onToggle?.(row);
      else moveTo(parentOf(cursor));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function parentOf(at) {
    const depth = options.depth?.(rows[at]) ?? 0;
    let above = at;
    while (above > 0 && (options.depth?.(rows[above]) ?? 0) >= depth && depth > 0) above--;
    return above;
  }

  // by place: rows come and go
  spacer.addEventListener("click", (event) => {
    const at = Math.floor((event.clientY - spacer.getBoundingClientRect().top) / ROW);
    if (at < 0 || at >= rows.length) return;
    cursor = at;
    if ((options.opened?.(rows[at]) ?? null) !== null) options.onToggle?.(rows[at]);
    else draw();
  });
  root.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  new ResizeObserver(() => draw()).observe(root);
  markSorted();
  return {
    root,
    setRows(next, stay = true) {
      rows = next;
      if (!stay) {
        cursor = 0;
        root.scrollTop = 0;
      }
      cursor = Math.min(cursor, Math.max(rows.length - 1, 0));
      draw();
    },
    setSort(key, down) {
      sortBy = key;
      descending = down;
      markSorted();
    },
    redraw: draw,
    /** Go to the next row that is wanted, downwards (1) or upwards (-1), and round the end; `here` counts too, if asked. */
    seek(wanted, step, here = false) {
      for (let k = here ? 0 : 1; k <= rows.length; k++) {
        const at = (((cursor + step * k) % rows.length) + rows.length) % rows.length;
        if (wanted(rows[at])) {
          moveTo(at);
          return;
        }
      }
    },
  };
}
