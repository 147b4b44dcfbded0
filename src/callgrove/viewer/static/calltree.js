/**
 * The call tree as a table: top-down, bottom-up (who called the costly functions), or flat.
 *
 * @import { CallTreeData, Metric } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Store } from "./store.js"
 * @import { Column } from "./table.js"
 * @import { Cells } from "./calltree_rows.js"
 *
 * @typedef {"inclusive" | "exclusive"} Cost
 */

import { callerRows, FlatRows, OpenRows, treeRows } from "./calltree_rows.js";
import { button, choice, element, switches } from "./dom.js";
import { amountOf, count, countRows, percent, shortName, whereabouts, widthOf } from "./format.js";
import { csv, save } from "./saving.js";
import { Table } from "./table.js";
import { treeOf } from "./tree.js";

/** @type {Option[]} */
const WAYS = [
  ["top-down", "Top-down"],
  ["bottom-up", "Bottom-up"],
  ["flat", "Flat"],
];
const CELLS = ["name", "kind", "file", "line", "module", "exclusive", "inclusive", "percent"];

/**
 * @param {HTMLElement} place
 * @param {CallTreeData} data
 * @param {Store} view
 */
export function drawCallTree(place, data, view) {
  new CallTree(place, data, view);
}

/**
 * @param {number} n
 * @param {string} word
 */
const counted = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

/** One of the three tables, in one metric; flat ones are by functions, files and so on. */
class CallTree {
  way = "top-down";
  by = "function";
  said = element("span", { class: "match", attributes: { role: "status" } });
  frame = element("div", { class: "table-frame" });
  opening = element("span", { class: "opening" }, [
    button("Expand all", "Open every row", () => this.open((rows) => rows.openAll(true))),
    button("Collapse all", "Close every row", () => this.open((rows) => rows.openAll(false))),
    button("Hot path", "Open the rows along the costliest calls", () => this.open((rows) => rows.openHot())),
  ]);

  /**
   * @param {HTMLElement} place
   * @param {CallTreeData} data
   * @param {Store} view
   */
  constructor(place, data, view) {
    this.data = data;
    this.view = view;
    this.metric = metricNumber(data.metrics, view.get("metric"));
    this.groups = choice(
      "by",
      data.flat.map((one) => [one.by, one.by]),
      this.by,
      (value) => {
        this.by = value;
        this.show();
      },
    ).root;
    this.rows = this.rowsOf();
    this.table = this.tableOf();
    this.build(place);
    this.listen();
    this.fill();
  }

  /** @param {HTMLElement} place */
  build(place) {
    const ways = switches("View", WAYS, this.way, (value) => {
      this.way = value;
      this.show();
    });
    if (!this.data.callers.some(Boolean)) ways.root.querySelector('[data-value="bottom-up"]')?.remove();
    place.append(
      element("div", { class: "toolbar" }, [
        ways.root,
        this.groups,
        this.opening,
        this.said,
        element("span", { class: "gap" }),
        element("div", { class: "savers" }, [button("CSV", "Save this table as CSV", () => this.saveCsv())]),
      ]),
      this.frame,
    );
  }

  listen() {
    this.view.watch("metric", (name) => {
      this.metric = metricNumber(this.data.metrics, name);
      this.show();
    });
    this.view.watch("search", (text) => {
      this.rows.search(text);
      this.update(false);
      this.table.seek((i) => this.rows.found(i), 1, true);
    });
    this.view.watch("step", (step) => step && this.table.seek((i) => this.rows.found(i), step.by));
  }

  /** The metric that is shown. */
  shown() {
    return this.data.metrics[this.metric];
  }

  /**
   * The cost that percent is of, and that rows are sorted by.
   * @returns {Cost}
   */
  shared() {
    return this.way === "top-down" ? "inclusive" : "exclusive";
  }

  rowsOf() {
    const { data, metric } = this;
    if (this.way === "top-down") return treeRows(treeOf(data.tree, data.labels), metric);
    if (this.way === "bottom-up") return callerRows(data.callers[metric], data.labels, this.shown().signed);
    const group = data.flat.find((one) => one.by === this.by) ?? data.flat[0];
    return new FlatRows(group, data.labels, metric, this.shown());
  }

  tableOf() {
    const { rows } = this;
    const shared = this.shared();
    const tree = rows instanceof OpenRows ? rows : null;
    return new Table({
      label: `${this.way} ${this.shown().name}`,
      columns: columnsOf(rows.cells, this.shown(), shared),
      sortBy: shared,
      onSort: (key, down) => {
        rows.sort(key === "percent" ? shared : key, down);
        this.update();
      },
      depth: tree?.cells.depth,
      opened: tree ? (i) => tree.opened(i) : undefined,
      onToggle: (i) => this.open((opened) => opened.toggle(i)),
      rowClass: (i) => (rows.found(i) ? "found" : tree?.cells.isMore(i) ? "more" : ""),
    });
  }

  /** Draw another table. */
  show() {
    this.rows = this.rowsOf();
    this.table = this.tableOf();
    this.fill();
  }

  fill() {
    this.groups.hidden = this.way !== "flat";
    this.opening.hidden = this.way === "flat";
    this.frame.replaceChildren(this.table.root);
    this.rows.sort(this.shared(), true);
    this.rows.search(this.view.get("search"));
    this.update(false);
  }

  /**
   * Open or close rows.
   * @param {(rows: OpenRows) => void} action
   */
  open(action) {
    if (this.rows instanceof OpenRows) action(this.rows);
    this.update();
  }

  update(stay = true) {
    const { rows } = this;
    const visible = rows.visible();
    this.table.setRows(visible, stay);
    const left = rows.left ? `; ${this.leftText()} are not in this page` : "";
    const search = this.view.get("search").trim();
    const divided = this.way !== "bottom-up" || this.data.callers[this.metric];
    this.said.textContent = divided
      ? `${countRows(visible.length)}${search ? ` for “${search}”` : ""}${left}`
      : `${this.shown().name} has no parts that callers could share`;
  }

  /**
   * What is not in the page, and what it costs: rows of a flat table, or functions; callers of a function that is shown
   * divide a cost that is shown.
   */
  leftText() {
    const { left, rest } = this.rows;
    const functions = this.rows instanceof OpenRows ? this.rows.functionsLeft : null;
    const { unit, whole, derived } = this.shown();
    const share = whole && rest !== null ? `, ${percent(rest / whole)}` : "";
    const cost = rest === null ? "" : ` (${amountOf(unit, derived !== "")(rest)}${share} together)`;
    if (functions === null) return `${count(left)} more with less cost${cost}`;
    const callers = left - functions;
    return [
      ...(functions ? [`${counted(functions, "more function")} with less cost${cost}`] : []),
      ...(callers ? [counted(callers, "more caller")] : []),
    ].join(" and ");
  }

  saveCsv() {
    const { rows } = this;
    const { whole, additive } = this.shown();
    const { name, kind, file, line, module, exclusive, inclusive, [this.shared()]: shared } = rows.cells;
    const tree = rows instanceof OpenRows ? rows.cells : null;
    const lines = rows
      .all()
      .map((i) => [
        ...(tree ? [tree.context(i), tree.depth(i)] : []),
        name(i),
        kind(i),
        file(i),
        line(i) >= 0 ? line(i) : null,
        module(i),
        finite(exclusive(i)),
        finite(inclusive(i)),
        additive && whole ? (100 * shared(i)) / whole : null,
      ]);
    const header = [...(tree ? ["context", "depth"] : []), ...CELLS];
    save(`${this.way}.csv`, new Blob([csv(header, lines)], { type: "text/csv" }));
  }
}

/**
 * @param {Cells} cells
 * @param {Metric} metric
 * @param {Cost} shared  the cost that percent is of
 * @returns {Column[]}
 */
function columnsOf(cells, metric, shared) {
  const { name, kind, file, line, module } = cells;
  const { whole, additive, signed } = metric;
  return [
    {
      key: "name",
      title: "name",
      width: "minmax(260px, 1fr)",
      text: (i) => shortName(name(i), kind(i)),
      hint: name,
    },
    costColumn("inclusive", cells.inclusive, metric),
    costColumn("exclusive", cells.exclusive, metric),
    {
      key: "percent",
      title: "percent",
      width: "74px",
      numeric: true,
      text: (i) => (additive ? percent(cells[shared](i) / (whole || NaN)) : ""),
      hint: () => (signed ? "of all changes by their sizes" : `of ${shared} cost`),
    },
    {
      key: "where",
      title: "where",
      width: "minmax(90px, 0.35fr)",
      text: (i) => whereabouts(file(i), line(i), module(i)),
      hint: (i) => [file(i) && `${file(i)}:${line(i)}`, module(i)].filter(Boolean).join("\n"),
    },
    { key: "kind", title: "kind", width: "96px", text: kind },
  ];
}

/**
 * @param {Cost} key
 * @param {(i: number) => number} cost
 * @param {Metric} metric
 * @returns {Column}
 */
function costColumn(key, cost, { unit, whole, additive, signed, derived }) {
  const amount = amountOf(unit, derived !== "");
  const missing = derived ? "–" : ""; // a formula without a value there
  return {
    key,
    title: key,
    width: `${widthOf(unit, derived !== "", 150)}px`,
    numeric: true,
    text: (i) => (Number.isFinite(cost(i)) ? amount(cost(i)) : missing),
    share: additive && whole ? (i) => Math.abs(cost(i)) / whole : undefined,
    barClass: signed ? (i) => (cost(i) < 0 ? "" : "bar-above") : undefined,
    hint: (i) => `${cost(i)} ${unit}`.trim(),
  };
}

/** @param {number} value */
const finite = (value) => (Number.isFinite(value) ? value : null);

/**
 * @param {Metric[]} metrics
 * @param {string} name
 */
function metricNumber(metrics, name) {
  const number = metrics.findIndex((one) => one.name === name);
  return Math.max(0, number);
}
