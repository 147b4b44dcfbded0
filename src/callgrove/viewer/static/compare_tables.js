/**
 * Call paths and functions with what both sides have, side by side.
 *
 * @import { Cells, TreeCells } from "./calltree_rows.js"
 * @import { Figures, Scope } from "./compare_costs.js"
 * @import { ComparedMetric, ComparedTablesData } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Store } from "./store.js"
 * @import { Column } from "./table.js"
 * @import { Compare } from "./tree.js"
 *
 * @typedef {keyof Figures} Figure
 */

import { OpenRows } from "./calltree_rows.js";
import { ComparedTree, comparedTreeOf, ratioText } from "./compare_costs.js";
import { button, choice, element, switches } from "./dom.js";
import { amountOf, countRows, percent, shortName, widthOf } from "./format.js";
import { csv, save } from "./saving.js";
import { Table } from "./table.js";

/** @type {Option[]} */
const WAYS = [
  ["tree", "Call tree"],
  ["functions", "Functions"],
];
/** @type {Option[]} */
const SCOPES = [
  ["inclusive", "Inclusive"],
  ["exclusive", "Exclusive"],
];
const LONGEST = 14; // letters of a name in a heading
/** @type {Figure[]} */
const FIGURES = ["left", "right", "difference", "ratio"];
/** @type {Figure[]} */
const OF_SCALING = ["loss", "speedup", "efficiency"];

/**
 * @param {HTMLElement} place
 * @param {ComparedTablesData} data
 * @param {Store} view
 */
export function drawComparedTables(place, data, view) {
  new ComparedTables(place, data, view);
}

/** One of the two tables, in a metric and a scope. */
class ComparedTables {
  way = "tree";
  /** @type {Scope} */
  scope = "inclusive";
  only = "";
  said = element("span", { class: "match", attributes: { role: "status" } });
  frame = element("div", { class: "table-frame" });
  opening = element("span", { class: "opening" }, [
    button("Expand all", "Open every row", () => this.open(() => this.rows.openAll(true))),
    button("Collapse all", "Close every row", () => this.open(() => this.rows.openAll(false))),
    button("Largest change", "Open the rows along the largest changes", () => this.open(() => this.rows.openHot())),
  ]);

  /**
   * @param {HTMLElement} place
   * @param {ComparedTablesData} data
   * @param {Store} view
   */
  constructor(place, data, view) {
    this.data = data;
    this.view = view;
    this.way = data.tree ? "tree" : "functions";
    this.metric = this.numberOf(view.get("metric"));
    this.tree = this.treeOf();
    this.rows = this.rowsOf();
    this.table = this.tableOf();
    this.build(place);
    this.listen();
    this.fill();
  }

  /** @param {string} name */
  numberOf(name) {
    return Math.max(
      0,
      this.data.metrics.findIndex((one) => one.name === name),
    );
  }

  treeOf() {
    const { tree, functions } = this.data;
    return comparedTreeOf((this.way === "tree" && tree) || functions, this.data);
  }

  /** @param {HTMLElement} place */
  build(place) {
    const { data } = this;
    const [left, right] = data.sides;
    const ways = switches("View", WAYS, this.way, (value) => this.change({ way: value }));
    const scopes = switches("Scope", SCOPES, this.scope, (value) =>
      this.change({ scope: value === "exclusive" ? "exclusive" : "inclusive" }),
    );
    const only = choice(
      "Show",
      [
        ["", "everything"],
        ["both", "in both"],
        ["left", `only in ${left}`],
        ["right", `only in ${right}`],
      ],
      this.only,
      (value) => this.change({ only: value }),
    );
    place.append(
      element("div", { class: "toolbar" }, [
        data.tree ? ways.root : null,
        scopes.root,
        only.root,
        this.opening,
        this.said,
        element("span", { class: "gap" }),
        element("div", { class: "savers" }, [button("CSV", "Save this table as CSV", () => this.saveCsv())]),
      ]),
      this.frame,
    );
  }

  listen() {
    this.view.watch("metric", (name) => this.change({ metric: this.numberOf(name) }));
    this.view.watch("search", (text) => {
      this.rows.search(text);
      this.update(false);
      this.table.seek((i) => this.rows.found(i), 1, true);
    });
    this.view.watch("step", (step) => step && this.table.seek((i) => this.rows.found(i), step.by));
  }

  /**
   * Draw another table.
   * @param {{ way?: string, scope?: Scope, only?: string, metric?: number }} how
   */
  change(how) {
    Object.assign(this, how);
    this.tree = this.treeOf();
    this.rows = this.rowsOf();
    this.table = this.tableOf();
    this.fill();
  }

  fill() {
    this.opening.hidden = this.way !== "tree";
    this.frame.replaceChildren(this.table.root);
    this.rows.sort("difference", true);
    this.rows.search(this.view.get("search"));
    this.update(false);
  }

  /** @param {() => void} action */
  open(action) {
    action();
    this.update();
  }

  update(stay = true) {
    const visible = this.rows.visible();
    this.table.setRows(visible, stay);
    const search = this.view.get("search").trim();
    this.said.textContent = `${countRows(visible.length)}${search ? ` for “${search}”` : ""}`;
  }

  // -- rows -----------------------------------------------------------------------------------------------------------

  /**
   * Rows with any cost in this scope, of those sides that are wanted, and what is above them.
   * @param {Figures} figures
   */
  wanted({ left, right }) {
    const { tree, metric, only } = this;
    const { additive } = this.data.metrics[metric];
    /** @param {number} value */
    const has = (value) => (additive ? value !== 0 : Number.isFinite(value));
    const wanted = new Uint8Array(tree.n);
    for (let i = tree.n - 1; i >= 0; i--) {
      const present = has(left(i)) || has(right(i)) ? tree.present(i, metric) : "";
      if (!wanted[i] && !(only ? present === only : present)) continue;
      wanted[i] = 1;
      if (tree.parent[i] >= 0) wanted[tree.parent[i]] = 1;
    }
    return wanted;
  }

  rowsOf() {
    const { tree, metric, scope } = this;
    const figures = tree.figures(metric, scope);
    const wanted = this.wanted(figures);
    const { weight } = tree.metrics[ComparedTree.numberOf(metric, "change")];
    /** @type {Cells & TreeCells} */
    const cells = {
      name: (i) => tree.name(i),
      kind: (i) => tree.kind(i),
      file: () => "",
      line: () => -1,
      module: () => "",
      context: () => null,
      isMore: (i) => tree.isMore(i),
      depth: (i) => tree.depth[i],
      inclusive: figures.difference,
      exclusive: figures.difference,
      has: (i) => Boolean(wanted[i]),
      weight: (i) => weight[i],
      signed: true,
    };
    const rows = new OpenRows(tree, cells, 0, (key, down) =>
      tree.childrenBy(`${key} ${down} ${metric} ${scope}`, comparing(tree, figures, metric, key, down)),
    );
    rows.openHot();
    return rows;
  }

  tableOf() {
    const { rows, tree, data, metric } = this;
    return new Table({
      label: `${data.metrics[metric].name} of both sides`,
      columns: this.columns(),
      sortBy: "difference",
      onSort: (key, down) => {
        rows.sort(key, down);
        this.update();
      },
      depth: (i) => tree.depth[i],
      opened: this.way === "tree" ? (i) => rows.opened(i) : undefined,
      onToggle: (i) => this.open(() => rows.toggle(i)),
      rowClass: (i) => (rows.found(i) ? "found" : tree.isMore(i) ? "more" : `present-${tree.present(i, metric)}`),
    });
  }

  /** @returns {Column[]} */
  columns() {
    const { tree, data, metric, scope } = this;
    const figures = tree.figures(metric, scope);
    const shown = data.metrics[metric];
    const [left, right] = data.sides;
    /** @type {Record<string, string>} */
    const where = { both: "in both", left: `only in ${left}`, right: `only in ${right}` };
    /** @type {Column} */
    const name = {
      key: "name",
      title: "name",
      width: "minmax(240px, 1fr)",
      text: (i) => shortName(tree.name(i), tree.kind(i)),
      hint: (i) => tree.name(i),
    };
    const absent = (/** @type {string} */ side) => (/** @type {number} */ i) => tree.present(i, metric) === side;
    return [
      name,
      costColumn("left", left, figures.left, shown, absent("right")),
      costColumn("right", right, figures.right, shown, absent("left")),
      differenceColumn(figures.difference, shown, data.sides),
      plainColumn("ratio", ratioText, figures.ratio, "left divided by right"),
      ...(data.scaling ? scalingColumns(figures) : []),
      {
        key: "present",
        title: "present",
        width: "94px",
        text: (i) => PRESENT[tree.present(i, metric)] ?? "",
        hint: (i) => where[tree.present(i, metric)] ?? "",
      },
    ];
  }

  saveCsv() {
    const { tree, metric, scope, rows, data } = this;
    const figures = tree.figures(metric, scope);
    const names = data.scaling ? [...FIGURES, ...OF_SCALING] : FIGURES;
    const path = (/** @type {number} */ i) => (this.way === "tree" ? tree.path(i) : [i]).map((at) => tree.name(at));
    const lines = rows
      .all()
      .map((i) => [
        path(i).join("->"),
        ...names.map((name) => (Number.isFinite(figures[name](i)) ? figures[name](i) : null)),
        tree.present(i, metric),
      ]);
    const text = csv(["path", ...names, "present"], lines);
    save(`comparison-${this.way}-${scope}.csv`, new Blob([text], { type: "text/csv" }));
  }
}

/** @type {Record<string, string>} */
const PRESENT = { both: "both", left: "only left", right: "only right" };

/**
 * How rows compare by a column. Differences compare by their sizes, ratios by how far they are from 1; what has no
 * number comes last.
 * @param {ComparedTree} tree
 * @param {Figures} figures
 * @param {number} metric
 * @param {string} key
 * @param {boolean} down
 * @returns {Compare}
 */
function comparing(tree, figures, metric, key, down) {
  const sign = down ? -1 : 1;
  const figure = [...FIGURES, ...OF_SCALING].find((one) => one === key);
  if (!figure) {
    const text = (/** @type {number} */ i) => (key === "present" ? tree.present(i, metric) : tree.name(i));
    return (a, b) => sign * (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0);
  }
  const size = { difference: Math.abs, ratio: (/** @type {number} */ x) => (x > 0 ? Math.abs(Math.log(x)) : NaN) };
  const sized = figure === "difference" || figure === "ratio" ? size[figure] : (/** @type {number} */ x) => x;
  const value = (/** @type {number} */ i) => {
    const known = sized(figures[figure](i));
    return Number.isFinite(known) ? known : -sign * -Infinity;
  };
  return (a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
}

/**
 * @param {Figure} key
 * @param {string} name  of the side
 * @param {(i: number) => number} cost
 * @param {ComparedMetric} metric
 * @param {(i: number) => boolean} absent  has that side nothing there?
 * @returns {Column}
 */
function costColumn(key, name, cost, { unit, derived, totals, additive }, absent) {
  const amount = amountOf(unit, derived !== "");
  const whole = Math.max(totals[0] ?? 0, totals[1] ?? 0);
  const known = (/** @type {number} */ i) => !absent(i) && Number.isFinite(cost(i));
  return {
    key,
    title: name.length > LONGEST ? key : name,
    about: `${key}, ${name}`,
    width: `minmax(96px, ${widthOf(unit, derived !== "", 150)}px)`,
    numeric: true,
    text: (i) => (known(i) ? amount(cost(i)) : "–"),
    share: additive && whole ? (i) => (known(i) ? Math.abs(cost(i)) / whole : 0) : undefined,
    barClass: () => "bar-plain",
    hint: (i) => (known(i) ? `${cost(i)} ${unit}`.trim() : "not there"),
  };
}

/**
 * @param {(i: number) => number} difference
 * @param {ComparedMetric} metric
 * @param {[string, string]} sides
 * @returns {Column}
 */
function differenceColumn(difference, { unit, derived, totals, additive }, [left, right]) {
  const amount = amountOf(unit, derived !== "");
  const whole = Math.max(totals[0] ?? 0, totals[1] ?? 0);
  const signed = (/** @type {number} */ value) => `${value > 0 ? "+" : ""}${amount(value)}`;
  return {
    key: "difference",
    title: Math.max(left.length, right.length) > LONGEST ? "left − right" : `${left} − ${right}`,
    about: `difference, ${left} less ${right}`,
    width: `minmax(100px, ${widthOf(unit, derived !== "", 190)}px)`,
    numeric: true,
    text: (i) => (Number.isFinite(difference(i)) ? signed(difference(i)) : "–"),
    share: additive && whole ? (i) => Math.abs(difference(i)) / whole : undefined,
    barClass: (i) => (difference(i) < 0 ? "bar-above" : ""),
    hint: (i) => `${difference(i)} ${unit}: ${left} less ${right}`,
  };
}

/**
 * @param {Figure} key
 * @param {(value: number) => string} write
 * @param {(i: number) => number} value
 * @param {string} hint
 * @returns {Column}
 */
function plainColumn(key, write, value, hint) {
  return { key, title: key, width: "78px", numeric: true, text: (i) => write(value(i)), hint: () => hint };
}

/**
 * @param {Figures} figures
 * @returns {Column[]}
 */
function scalingColumns(figures) {
  return [
    plainColumn("loss", (value) => percent(value / 100), figures.loss, "excess work, of the right run"),
    plainColumn("speedup", ratioText, figures.speedup, "of what a process does"),
    plainColumn("efficiency", ratioText, figures.efficiency, "1 is perfect"),
  ];
}
