/**
 * Coupled panes: a metric, the rows of a view in it, and where the cost of the chosen row is: in which ranks, threads
 * and devices, and on which lines of its source. Rows are asked for as they are opened.
 *
 * @import { ExploreData, Look, Provider, View } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Row } from "./explore_rows.js"
 * @import { Store } from "./store.js"
 * @import { Column } from "./table.js"
 */

import { button, choice, element, switches } from "./dom.js";
import { LazyRows } from "./explore_rows.js";
import { amountOf, count, percent, shortName, whereabouts } from "./format.js";
import { csv, save } from "./saving.js";
import { drawSource } from "./source.js";
import { SystemPane } from "./system.js";
import { Table } from "./table.js";

/** @type {Option[]} */
const VIEWS = [
  ["tree", "Top-down"],
  ["callers", "Callers"],
  ["flat", "Flat"],
];
/** @type {Option[]} */
const GROUPS = ["function", "line", "loop", "file", "module"].map((by) => [by, by]);

/**
 * @param {HTMLElement} place
 * @param {ExploreData} data
 * @param {Store} view
 * @param {Provider} provider
 */
export function drawExplore(place, data, view, provider) {
  new Explore(place, data, view, provider).show();
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

class Explore {
  /** @type {View} */
  shape;
  /** @type {string[]} */
  columns;
  said = element("span", { class: "match", attributes: { role: "status" } });
  frame = element("div", { class: "table-frame" });
  metrics = element("div", { class: "metric-list", attributes: { role: "listbox", "aria-label": "Metrics" } });
  source = element("section", { class: "card source", attributes: { "aria-label": "Source" } });
  chosen = -1;
  hit = -1;
  /** @type {string[][]} */
  paths = [];

  /**
   * @param {HTMLElement} place
   * @param {ExploreData} data
   * @param {Store} view
   * @param {Provider} provider
   */
  constructor(place, data, view, provider) {
    this.data = data;
    this.view = view;
    this.provider = provider;
    this.shape = view.get("rows");
    if (this.shape.view === "callers" && !data.has_callers) this.shape = { ...this.shape, view: "tree" };
    this.columns = view.get("columns").filter((name) => name !== view.get("metric"));
    this.system = new SystemPane(provider, () => this.look(), view);
    this.rows = this.rowsOf();
    this.table = this.tableOf();
    this.build(place);
    view.watch("search", () => this.search());
    view.watch("step", (step) => step && this.step(step.by));
  }

  /** @returns {Look} */
  look() {
    const { view } = this;
    return {
      input: view.get("input"),
      metric: view.get("metric"),
      derive: view.get("derive"),
      filter: view.get("filter"),
    };
  }

  // -- building -------------------------------------------------------------------------------------------------------

  /** @param {HTMLElement} place */
  build(place) {
    const groups = choice("by", GROUPS, this.shape.by, (by) => this.turn({ ...this.shape, by }));
    groups.root.hidden = this.shape.view !== "flat";
    const views = switches("View", VIEWS, this.shape.view, (kind) => {
      groups.root.hidden = kind !== "flat";
      this.turn({ ...this.shape, view: /** @type {View["view"]} */ (kind) });
    });
    if (!this.data.has_callers) views.root.querySelector('[data-value="callers"]')?.remove();
    const hot = button("Hot path", "Open the rows along the costliest calls", async () => {
      await this.rows.openHot();
      this.update();
    });
    place.append(
      element("div", { class: "toolbar" }, [
        views.root,
        groups.root,
        hot,
        this.said,
        element("span", { class: "gap" }),
        element("div", { class: "savers" }, [button("CSV", "Save the rows in sight as CSV", () => this.saveCsv())]),
      ]),
      element("div", { class: "panes" }, [
        this.metrics,
        this.frame,
        element("div", { class: "side" }, [this.system.root, this.source]),
      ]),
    );
    this.listMetrics();
  }

  listMetrics() {
    const { name, depth, unit, value, kind } = this.data.metric_tree;
    const now = this.view.get("metric");
    const rows = name.map((text, i) => {
      const is = text === now;
      const amount = Number.isFinite(value[i]) ? amountOf(unit[i], kind[i] === "derived")(value[i]) : "–";
      const line = button(text, `Show ${text}`, () => this.view.set("metric", text));
      line.setAttribute("role", "option");
      line.setAttribute("aria-selected", String(is));
      line.style.paddingLeft = `${8 + Math.min(depth[i], 12) * 12}px`;
      const box = element("input", { attributes: { type: "checkbox", "aria-label": `Column of ${text}` } });
      box.checked = this.columns.includes(text);
      box.disabled = is;
      box.addEventListener("change", () => this.setColumn(text, box.checked));
      return element("div", { class: is ? "metric chosen" : "metric" }, [box, line, element("span", { text: amount })]);
    });
    this.metrics.replaceChildren(element("h2", { text: "Metrics" }), ...rows);
  }

  /**
   * Show a metric as a further column, or do so no more.
   * @param {string} metric
   * @param {boolean} is
   */
  setColumn(metric, is) {
    this.columns = is ? [...this.columns, metric].slice(-6) : this.columns.filter((one) => one !== metric);
    this.view.set("columns", this.columns);
    this.listMetrics();
    this.show();
  }

  /** @param {View} shape */
  turn(shape) {
    this.shape = shape;
    this.view.set("rows", shape);
    this.show();
  }

  // -- rows -----------------------------------------------------------------------------------------------------------

  rowsOf() {
    return new LazyRows(
      this.provider,
      () => this.look(),
      this.shape,
      () => this.columns,
    );
  }

  /** Ask for the first rows, and show them. */
  async show() {
    const rows = this.rowsOf();
    this.rows = rows;
    this.chosen = -1;
    try {
      await rows.load();
    } catch (error) {
      this.said.textContent = messageOf(error);
      return;
    }
    if (this.rows !== rows) return; // something else is shown by now
    this.table = this.tableOf();
    this.frame.replaceChildren(this.table.root);
    this.update(false);
    this.choose(-1);
    if (this.view.get("search").trim()) await this.search();
  }

  /** @param {boolean} [stay] */
  update(stay = true) {
    const visible = this.rows.visible();
    this.table.setRows(visible, stay);
    this.said.textContent = `${count(visible.length)} rows`;
  }

  tableOf() {
    const { rows } = this;
    /** @param {number} i */
    const row = (i) => rows.rows[i];
    return new Table({
      label: `${this.shape.view} ${this.view.get("metric")}`,
      columns: [nameColumn(row), ...rows.metrics.flatMap((_, m) => this.costColumns(row, m)), whereColumn(row)],
      sortBy: rows.sort || (this.shape.view === "tree" ? "inclusive" : "exclusive"),
      onSort: (key, down) => this.sort(key, down),
      depth: (i) => row(i).depth,
      opened: (i) => (row(i).opens ? row(i).open : null),
      onToggle: (i) => this.toggle(i),
      onSelect: (i) => this.choose(i),
      rowClass: (i) => (!row(i).key ? "more" : i === this.hit ? "found" : i === this.chosen ? "chosen" : ""),
    });
  }

  /**
   * The inclusive and exclusive cost in one metric.
   * @param {(i: number) => Row} row
   * @param {number} m
   * @returns {Column[]}
   */
  costColumns(row, m) {
    const { name, unit, derived, whole, additive } = this.rows.metrics[m];
    const amount = amountOf(unit, derived !== "");
    const first = m === 0;
    return /** @type {["inclusive", "exclusive"]} */ (["inclusive", "exclusive"]).map((scope) => {
      /** @param {number} i */
      const cost = (i) => row(i).costs[m]?.[scope === "inclusive" ? 1 : 0] ?? NaN;
      const share = additive && whole ? (/** @type {number} */ i) => Math.abs(cost(i)) / whole : undefined;
      return {
        key: first ? scope : `${scope} ${name}`,
        title: first ? scope : `${name} ${scope}`,
        width: "132px",
        numeric: true,
        text: (i) => (Number.isFinite(cost(i)) ? amount(cost(i)) : row(i).key && derived ? "–" : ""),
        share: first ? share : undefined,
        hint: (i) =>
          Number.isFinite(cost(i)) ? `${cost(i)} ${unit} ${share ? percent(share(i)) : ""} of ${name}`.trim() : "",
      };
    });
  }

  /**
   * @param {string} key
   * @param {boolean} down
   */
  async sort(key, down) {
    const known = ["inclusive", "exclusive", "name"].includes(key);
    if (!known) {
      this.said.textContent = `Rows are sorted by ${this.view.get("metric")}; choose the metric of that column first`;
      return;
    }
    [this.rows.sort, this.rows.down] = [key, down];
    await this.rows.load();
    this.update(false);
  }

  /** @param {number} i */
  async toggle(i) {
    try {
      await this.rows.toggle(i);
      this.update();
    } catch (error) {
      this.said.textContent = messageOf(error);
    }
  }

  /**
   * Show where the cost of a row is; -1 is everything.
   * @param {number} i
   */
  choose(i) {
    const row = this.rows.rows[i];
    if (i >= 0 && !row?.key) return;
    this.chosen = i;
    const node = { ...this.shape, node: row?.key ?? "" };
    this.system.show(node, row?.name ?? "everything");
    drawSource(this.source, this.provider, row ? { ...this.look(), ...node } : null);
  }

  // -- searching ------------------------------------------------------------------------------------------------------

  async search() {
    const text = this.view.get("search").trim();
    [this.hit, this.paths] = [-1, []];
    if (!this.rows.roots.length) return; // it is searched when the first rows are there
    if (!text || this.shape.view !== "tree") {
      this.update();
      return;
    }
    try {
      const { n, share, paths } = await this.provider.get("search", { ...this.look(), text });
      if (text !== this.view.get("search").trim()) return;
      this.paths = paths;
      const part = share === null ? "" : `, ${percent(share)} of ${this.view.get("metric")}`;
      await this.step(0);
      this.said.textContent = `“${text}”: ${count(n)} calls${part}`;
    } catch (error) {
      this.said.textContent = messageOf(error);
    }
  }

  at = 0;

  /**
   * Go to another of the rows that were found, the costliest first.
   * @param {number} by
   */
  async step(by) {
    if (!this.paths.length) return;
    const n = this.paths.length;
    this.at = by === 0 ? 0 : (this.at + by + n) % n;
    this.hit = await this.rows.reveal(this.paths[this.at]);
    this.update();
    this.table.seek((i) => i === this.hit, 1, true);
    this.choose(this.hit);
  }

  saveCsv() {
    const names = this.rows.metrics.map((one) => one.name);
    const header = ["key", "depth", "name", "kind", "file", "line", "module"];
    const cells = names.flatMap((name) => [`exclusive ${name}`, `inclusive ${name}`]);
    const lines = this.rows
      .visible()
      .map((i) => this.rows.rows[i])
      .filter((row) => row.key)
      .map((row) => [
        ...[row.key, row.depth, row.name, row.kind, row.file, row.line >= 0 ? row.line : null, row.module],
        ...row.costs.flat().map((cost) => (Number.isFinite(cost) ? cost : null)),
      ]);
    save(`${this.shape.view}.csv`, new Blob([csv([...header, ...cells], lines)], { type: "text/csv" }));
  }
}

/**
 * @param {(i: number) => Row} row
 * @returns {Column}
 */
function nameColumn(row) {
  return {
    key: "name",
    title: "name",
    width: "minmax(200px, 1fr)",
    text: (i) => (row(i).key ? shortName(row(i).name, row(i).kind) : `… ${count(row(i).left)} more`),
    hint: (i) => row(i).name || "Show further rows",
  };
}

/**
 * @param {(i: number) => Row} row
 * @returns {Column}
 */
function whereColumn(row) {
  return {
    key: "where",
    title: "where",
    width: "minmax(70px, 0.3fr)",
    text: (i) => whereabouts(row(i).file, row(i).line, row(i).module),
    hint: (i) => [row(i).file && `${row(i).file}:${row(i).line}`, row(i).module].filter(Boolean).join("\n"),
  };
}
