/**
 * SQL: the tables of the input on the side, a box for a query, and its answer as a table or as a chart.
 *
 * @import { Numbers, Provider, SqlAnswer, SqlData } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Store } from "./store.js"
 */

import { Bars } from "./bars.js";
import { button, choice, element, switches } from "./dom.js";
import { countRows } from "./format.js";
import { lookOf } from "./live_flame.js";
import { csv, save } from "./saving.js";
import { drawScatter } from "./scatter.js";
import { Table } from "./table.js";

const MOST_BARS = 100;
/** @type {Option[]} */
const WAYS = [
  ["table", "Table"],
  ["bars", "Bars"],
  ["points", "Points"],
];

/**
 * @param {HTMLElement} place
 * @param {SqlData} data
 * @param {Store} view
 * @param {Provider} provider
 */
export function drawSql(place, data, view, provider) {
  new SqlPane(place, data, view, provider).follow();
}

const NOTHING_ASKED = "Nothing was asked yet: type a query, choose an example, or open a table and press SELECT.";

class SqlPane {
  box = element("textarea", {
    attributes: {
      rows: "5",
      spellcheck: "false",
      "aria-label": "SQL query",
      placeholder: "SELECT … FROM … ;  Ctrl+Enter runs it",
    },
  });
  said = element("p", { class: "problem", attributes: { role: "alert" } });
  told = element("span", { class: "match", attributes: { role: "status" } });
  frame = element("div", { class: "sql-answer" });
  axes = element("span", { class: "toolbar" });
  /** @type {SqlAnswer | null} */
  answer = null;
  shown = ""; // the query whose answer that is
  asked = new AbortController();

  /**
   * @param {HTMLElement} place
   * @param {SqlData} data
   * @param {Store} view
   * @param {Provider} provider
   */
  constructor(place, data, view, provider) {
    this.data = data;
    this.view = view;
    this.provider = provider;
    this.ways = switches("Drawn as", WAYS, "table", (way) => view.mark({ as: way === "table" ? "" : way }));
    this.build(place);
    this.draw();
    view.watch("at", () => this.follow());
  }

  /** @param {HTMLElement} place */
  build(place) {
    const { examples, tables } = this.data;
    /** @type {Option[]} */
    const offered = [["", "…"], ...examples.map((text) => /** @type {Option} */ ([text, text]))];
    const example = choice("Examples", offered, "", (text) => {
      if (!text) return;
      this.box.value = text;
      this.run();
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
    });
    const list = element("aside", { class: "card sql-tables", attributes: { "aria-label": "Tables" } }, [
      element("h2", { text: "Tables" }),
      ...tables.map((table) => this.listed(table)),
    ]);
    const asking = [
      this.box,
      element("div", { class: "toolbar" }, [
        button("Run", "Run the query (Ctrl+Enter)", () => this.run()),
        example.root,
        this.ways.root,
        this.axes,
        this.told,
        element("span", { class: "gap" }),
        element("div", { class: "savers" }, [button("CSV", "Save these rows as CSV", () => this.saveCsv())]),
      ]),
      this.said,
      this.frame,
    ];
    place.append(element("div", { class: "sql" }, [list, element("div", { class: "sql-asking" }, asking)]));
  }

  /**
   * A table and its columns; a click puts a name into the query.
   * @param {SqlData["tables"][number]} table
   */
  listed({ name, kind, meaning, columns }) {
    const fields = columns.map(([column, type]) =>
      button(column, `${type}: put ${column} into the query`, () => this.insert(quoted(column))),
    );
    return element("details", {}, [
      element("summary", { text: name, attributes: { title: `${kind}: ${meaning}` } }),
      element("p", { class: "match", text: meaning }),
      element("div", { class: "sql-columns" }, [
        button("SELECT", `Ask for the first rows of ${name}`, () => {
          this.box.value = `SELECT * FROM ${quoted(name)} LIMIT 100`;
          this.run();
        }),
        ...fields,
      ]),
    ]);
  }

  /** @param {string} text */
  insert(text) {
    const { selectionStart: from, selectionEnd: to } = this.box;
    this.box.setRangeText(text, from, to, "end");
    this.box.focus();
  }

  run() {
    const query = this.box.value.trim();
    if (query === (this.view.get("at").query ?? "")) this.shown = ""; // once more
    this.view.mark({ query });
    this.follow();
  }

  /** Show the answer to the query in the address, in the way that it says. */
  async follow() {
    const { query = "", as = "table" } = this.view.get("at");
    this.ways.set(WAYS.some(([way]) => way === as) ? as : "table");
    if (query === this.shown) {
      this.draw();
      return;
    }
    this.shown = query;
    this.box.value = query;
    this.asked.abort();
    const { signal } = (this.asked = new AbortController());
    this.said.textContent = "";
    this.told.textContent = query ? "asking …" : "";
    this.answer = null;
    try {
      if (query) this.answer = await this.provider.get("sql", { ...lookOf(this.view), query }, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.said.textContent = error instanceof Error ? error.message : String(error);
      this.told.textContent = "";
    }
    if (!signal.aborted) this.draw();
  }

  // -- the answer -----------------------------------------------------------------------------------------------------

  draw() {
    const { answer } = this;
    this.frame.replaceChildren();
    this.axes.replaceChildren();
    if (!answer) {
      if (!this.shown) this.frame.append(element("p", { class: "match", text: NOTHING_ASKED }));
      return;
    }
    this.told.textContent = [countRows(answer.n), ...answer.notes].join(". ");
    const { as = "table" } = this.view.get("at");
    if (as === "bars" || as === "points") this.drawChart(answer, as);
    else this.drawTable(answer);
  }

  /** @param {SqlAnswer} answer */
  drawTable({ columns, n }) {
    const rows = Int32Array.from({ length: n }, (_, i) => i);
    const table = new Table({
      label: "Answer",
      sortBy: "",
      columns: columns.map(({ name, text, number }) => ({
        key: name,
        title: name,
        width: "minmax(110px, 1fr)",
        numeric: isNumeric(number, text),
        text: (i) => text[i],
        hint: (i) => text[i],
      })),
      onSort: (key, down) => {
        const column = columns.find(({ name }) => name === key);
        if (column) table.setRows([...rows].sort((a, b) => (down ? -1 : 1) * compare(column, a, b) || a - b));
      },
    });
    this.frame.replaceChildren(element("div", { class: "table-frame" }, [table.root]));
    table.setRows(rows);
  }

  /**
   * One column over another.
   * @param {SqlAnswer} answer
   * @param {"bars" | "points"} as
   */
  drawChart({ columns, n }, as) {
    const numeric = columns.filter(({ number, text }) => isNumeric(number, text));
    const named = columns.filter((one) => !numeric.includes(one));
    const { x = "", y = "" } = this.view.get("at");
    const over = columns.find(({ name }) => name === x) ?? (as === "bars" ? named[0] : numeric[0]) ?? columns[0];
    const drawn = numeric.find(({ name }) => name === y) ?? numeric.find((one) => one !== over) ?? numeric[0];
    if (!drawn || (as === "points" && !numeric.includes(over))) {
      this.frame.replaceChildren(element("p", { class: "reason", text: "A chart needs columns of numbers." }));
      return;
    }
    /** @param {SqlAnswer["columns"]} some @returns {Option[]} */
    const options = (some) => some.map(({ name }) => [name, name]);
    this.axes.replaceChildren(
      choice("over", options(as === "bars" ? columns : numeric), over.name, (value) => this.view.mark({ x: value }))
        .root,
      choice("show", options(numeric), drawn.name, (value) => this.view.mark({ y: value })).root,
    );
    const rows = Array.from({ length: n }, (_, i) => i).filter((i) => Number.isFinite(drawn.number[i]));
    if (as === "points") {
      const points = rows.map((i) => ({ x: over.number[i], y: drawn.number[i], title: columns[0].text[i] }));
      drawScatter(this.frame, { xTitle: over.name, yTitle: drawn.name, points });
      return;
    }
    const bars = new Bars("sql", `${drawn.name} by ${over.name}`, () => barsOf(over, drawn, rows), "");
    this.frame.replaceChildren(element("div", { class: "card scrolling" }, [bars.buttons, bars.root]));
    bars.refresh();
  }

  saveCsv() {
    if (!this.answer) return;
    const { columns, n } = this.answer;
    const lines = Array.from({ length: n }, (_, i) => columns.map(({ text }) => text[i]));
    save("sql.csv", new Blob([csv(columns.map(({ name }) => name), lines)], { type: "text/csv" })); // prettier-ignore
  }
}

/**
 * @param {SqlAnswer["columns"][number]} over
 * @param {SqlAnswer["columns"][number]} drawn
 * @param {number[]} rows
 */
function barsOf(over, drawn, rows) {
  return {
    rows: rows.slice(0, MOST_BARS).map((i) => ({
      name: over.text[i],
      value: drawn.number[i],
      text: drawn.text[i],
      details: { title: over.text[i], rows: [/** @type {[string, string]} */ ([drawn.name, drawn.text[i]])] },
    })),
    more: rows.length - MOST_BARS,
    caption: `${drawn.name} by ${over.name}`,
  };
}

/**
 * @param {SqlAnswer["columns"][number]} column
 * @param {number} a
 * @param {number} b
 */
function compare({ text, number }, a, b) {
  if (Number.isFinite(number[a]) && Number.isFinite(number[b])) return number[a] - number[b];
  return text[a] < text[b] ? -1 : text[a] > text[b] ? 1 : 0;
}

/**
 * Are all cells that hold anything numbers?
 * @param {Numbers} number
 * @param {string[]} text
 */
function isNumeric(number, text) {
  return text.some((_, i) => Number.isFinite(number[i])) && text.every((cell, i) => !cell || !Number.isNaN(number[i]));
}

/** @param {string} name */
const quoted = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
