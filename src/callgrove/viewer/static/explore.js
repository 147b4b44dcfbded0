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

import { breakable, button, choice, element, switches } from "./dom.js";
import { LazyRows } from "./explore_rows.js";
import { amountOf, count, countRows, isFormula, percent, shortName, whereabouts, widthOf } from "./format.js";
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
  groups = choice("by", GROUPS, "function", (by) => this.turn({ ...this.shape, by }));
  views = switches("View", VIEWS, "tree", (kind) =>
    this.turn({ ...this.shape, view: /** @type {View["view"]} */ (kind) }),
  );
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
    this.shape = this.shapeOf(view.get("at").shows ?? "");
    this.columns = view.get("columns").filter((name) => name !== view.get("metric"));
    this.system = new SystemPane(provider, () => this.look(), view, data.topologies);
    this.rows = this.rowsOf();
    this.table = this.tableOf();
    this.build(place);
    view.watch("search", () => this.search());
    view.watch("step", (step) => step && this.step(step.by));
    view.watch("reveal", () => this.reveal());
    view.watch("at", () => this.follow());
    view.watch("columns", (columns) => columns !== this.columns && this.setColumns(columns));
  }

  /**
   * The rows that a word of the address names: tree, callers, or flat with a kind of group.
   * @param {string} word
   * @returns {View}
   */
  shapeOf(word) {
    const [kind, by = "function"] = word.split(".");
    const view = VIEWS.map(([key]) => key).find((key) => key === kind && (key !== "callers" || this.data.has_callers));
    return {
      view: /** @type {View["view"]} */ (view ?? "tree"),
      by: GROUPS.some(([one]) => one === by) ? by : "function",
    };
  }

  /** Show the rows and the row that the address names. */
  async follow() {
    const { shows = "", row = "" } = this.view.get("at");
    const shape = this.shapeOf(shows);
    if (shape.view !== this.shape.view || shape.by !== this.shape.by) {
      this.shape = shape;
      this.views.set(shape.view);
      this.groups.set(shape.by);
      this.groups.root.hidden = shape.view !== "flat";
      await this.show();
    } else if (row !== (this.rows.rows[this.chosen]?.key ?? "")) await this.go(row);
  }

  /**
   * Open the way to a row, and choose it.
   * @param {string} key
   */
  async go(key) {
    const rows = this.rows;
    const at = key ? await rows.reveal(await this.wayTo(key)) : -1;
    if (rows !== this.rows) return;
    this.choose(at);
    this.update();
    if (at >= 0) this.table.seek((i) => i === at, 1, true);
  }

  /**
   * Keys of the rows that lead to one.
   * @param {string} key
   */
  async wayTo(key) {
    if (this.shape.view === "tree") return (await this.provider.get("path", { ...this.look(), node: key })).key;
    const words = key.split(".");
    return words.map((_, i) => words.slice(0, i + 1).join("."));
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
    const { groups, views } = this;
    groups.set(this.shape.by);
    views.set(this.shape.view);
    groups.root.hidden = this.shape.view !== "flat";
    if (!this.data.has_callers) views.root.querySelector('[data-value="callers"]')?.remove();
    const hot = button("Hot path", "Open the rows along the costliest calls", () =>
      this.wait(this.rows, this.rows.openHot()),
    );
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
      const known = Number.isFinite(value[i]);
      const amount = known ? amountOf(unit[i], isFormula(kind[i]))(value[i]) : "–";
      const exact = known ? `${value[i]} ${unit[i]}`.trim() : "no value";
      const line = button(text, `Show ${text}`, () => this.view.set("metric", text));
      line.replaceChildren(...breakable(text, /(?<=[_#:./])/));
      line.setAttribute("role", "option");
      line.disabled = !this.view.get("metrics").includes(text); // such as a mean, which has no sum to show
      line.setAttribute("aria-selected", String(is));
      line.style.paddingLeft = `${8 + Math.min(depth[i], 12) * 12}px`;
      const box = element("input", { attributes: { type: "checkbox", "aria-label": `Column of ${text}` } });
      box.checked = this.columns.includes(text);
      box.disabled = is;
      box.addEventListener("change", () => this.setColumn(text, box.checked));
      return element("div", { class: is ? "metric chosen" : "metric" }, [
        box,
        line,
        element("span", { text: amount, attributes: { title: exact } }),
      ]);
    });
    this.metrics.replaceChildren(element("h2", { text: "Metrics" }), ...rows);
  }

  /**
   * Show a metric as a further column, or do so no more.
   * @param {string} metric
   * @param {boolean} is
   */
  setColumn(metric, is) {
    this.setColumns(is ? [...this.columns, metric].slice(-6) : this.columns.filter((one) => one !== metric));
  }

  /** @param {string[]} columns */
  setColumns(columns) {
    this.columns = columns;
    this.view.set("columns", columns);
    this.listMetrics();
    this.show();
  }

  /**
   * Show other rows.
   * @param {View} shape
   */
  turn({ view, by }) {
    this.view.mark({
      shows: view === "tree" ? "" : view === "flat" && by !== "function" ? `flat.${by}` : view,
      row: "",
    });
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
    this.choose(-1, false);
    const { row = "" } = this.view.get("at");
    if (row) await this.go(row).catch((error) => (this.said.textContent = messageOf(error)));
    else if (this.view.get("search").trim()) await this.search();
    await this.reveal();
  }

  /** Go to the row that another view leads to, once. */
  async reveal() {
    const wanted = this.view.get("reveal");
    if (!wanted || !this.rows.roots.length) return;
    this.view.set("reveal", null);
    if (this.shape.view !== "tree") {
      this.turn({ ...this.shape, view: "tree" });
      this.view.set("reveal", wanted);
      return;
    }
    const { rows } = this;
    const hit = await rows.revealNearest(wanted.path);
    if (rows !== this.rows) return;
    this.hit = hit;
    this.update();
    if (this.hit < 0) this.said.textContent = "That call has no cost in this metric, so no row";
    else {
      this.table.seek((i) => i === this.hit, 1, true);
      this.choose(this.hit);
    }
  }

  /** @param {boolean} [stay] */
  update(stay = true) {
    const visible = this.rows.visible();
    this.table.setRows(visible, stay);
    this.said.textContent = countRows(visible.length);
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
        width: `${widthOf(unit, derived !== "", 132)}px`,
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
    const { rows, chosen } = this;
    const before = rows.rows[chosen]?.key;
    [rows.sort, rows.down] = [key, down];
    await this.wait(rows, rows.load(), false);
    if (rows !== this.rows) return;
    [this.chosen, this.hit] = [before ? rows.rows.findIndex((row) => row.key === before) : -1, -1];
    this.update(false);
  }

  /** @param {number} i */
  toggle(i) {
    return this.wait(this.rows, this.rows.toggle(i));
  }

  /**
   * Show rows once what was asked for is there, unless others are shown by then.
   * @param {LazyRows} rows
   * @param {Promise<unknown>} asked
   * @param {boolean} [stay]
   */
  async wait(rows, asked, stay = true) {
    try {
      await asked;
      if (rows === this.rows) this.update(stay);
    } catch (error) {
      if (rows === this.rows) this.said.textContent = messageOf(error);
    }
  }

  /**
   * Show where the cost of a row is; -1 is everything.
   * @param {number} i
   * @param {boolean} [linked]  the address says so
   */
  choose(i, linked = true) {
    const row = this.rows.rows[i];
    if (i >= 0 && !row?.key) return;
    this.chosen = i;
    if (linked) this.view.mark({ row: row?.key ?? "" });
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
    const { rows } = this;
    const hit = await rows.reveal(this.paths[this.at]);
    if (rows !== this.rows) return;
    this.hit = hit;
    this.update();
    this.table.seek((i) => i === this.hit, 1, true);
    this.choose(this.hit);
  }

  async saveCsv() {
    await this.rows.settled; // what was asked for belongs to it
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
