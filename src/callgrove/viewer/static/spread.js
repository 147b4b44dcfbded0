/**
 * The spread over profiles: a heat map by rank and thread, and the same costs in descending order.
 *
 * @import { BarData } from "./bars.js"
 * @import { Surface, Theme } from "./canvas.js"
 * @import { Fact, Numbers, SpreadData, SpreadRow } from "./documents.js"
 * @import { Store } from "./store.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {{ sum: Numbers, mean: Numbers, max: Numbers, imbalance: Numbers }} OfRuns
 */

import { Bars } from "./bars.js";
import { drawLine, fitting, OFTEN_ALIKE, Picture, themeColours } from "./canvas.js";
import { CATEGORIES, LESS, MORE, scale } from "./colours.js";
import { button, choice, element, takeKey } from "./dom.js";
import { amountOf, count, percent, si } from "./format.js";
import { csv, save } from "./saving.js";
import { descending, laidOut, mapHeight, WIDEST } from "./spread_layout.js";
import { tooltip } from "./tooltip.js";

const LEFT = 70; // pixels beside the sorted bars
const ABOVE = 22; // over the highest
const BELOW = 22; // under the lowest
const BROADEST = 90; // the widest bar
const MOST_RUNS = 100;
/** @type {Record<string, string>} */
const HINTS = {
  std: "standard deviation over profiles",
  imbalance: "how much more than the mean the largest is",
  "none in": "profiles without any of this cost",
};
const RUNS_HINT = "all profiles of each together; imbalance is how much more than their mean the largest has";

/**
 * @param {HTMLElement} place
 * @param {SpreadData} data
 * @param {Store} view
 */
export function drawSpread(place, data, view) {
  new Spread(place, data, view).refresh();
}

/** One metric, and in it the cost of everything or of a function: `row` among those of the metric. */
class Spread {
  row = 0;
  cursor = 0; // the cell that the keyboard is at
  rung = -1; // the bar
  statistics = element("div", { class: "statistics", attributes: { role: "status" } });
  chooser = element("span");
  instead = element("span", { class: "match", attributes: { role: "status" } });
  map = new Picture({
    name: "spread",
    label: "Heat map of cost by rank and thread. Arrow keys walk through it.",
    height: (width) => mapHeight(width, this.layout),
    draw: (surface, width) => this.drawMap(surface, width),
    caption: () => this.caption(),
  });
  sorted = new Picture({
    name: "spread-sorted",
    label: "Cost of each profile in descending order. Left and right go from bar to bar.",
    height: () => 190,
    draw: (surface, width, height) => this.drawSorted(surface, width, height),
    caption: () => this.caption(),
  });

  /**
   * @param {HTMLElement} place
   * @param {SpreadData} data
   * @param {Store} view
   */
  constructor(place, data, view) {
    this.data = data;
    this.layout = laidOut(data.grid);
    this.wanted = view.get("metric");
    this.metric = this.isKnown(view.get("metric")) ? view.get("metric") : data.rows[0].metric;
    this.runs = data.runs
      ? new Bars("runs", "Cost of each run. Up and down go from bar to bar.", () => this.runBars(), "")
      : null;
    this.build(place);
    this.listen();
    view.watch("metric", (name) => {
      this.wanted = name;
      if (this.isKnown(name)) {
        this.metric = name;
        this.row = 0;
      }
      this.refresh();
    });
  }

  /** @param {HTMLElement} place */
  build(place) {
    place.append(
      element("div", { class: "toolbar" }, [
        this.chooser,
        this.statistics,
        this.instead,
        element("span", { class: "gap" }),
        element("div", { class: "savers" }, [button("CSV", "Save these numbers as CSV", () => this.saveCsv())]),
      ]),
      element("div", { class: "scrolling" }, [
        this.runs ? card("Run by run", RUNS_HINT, this.runs) : null,
        card("By rank and thread", this.layout.hint, this.map),
        card("In descending order", null, this.sorted),
      ]),
    );
  }

  listen() {
    const { map, sorted } = this;
    map.canvas.addEventListener("mousemove", (event) => {
      const { left, cell, tall } = this.boxes(map.size().width);
      const hit = this.layout.at(Math.floor((event.offsetX - left) / cell), Math.floor(event.offsetY / tall));
      if (hit >= 0) tooltip.show(this.details(hit), event.clientX, event.clientY);
      else tooltip.hide();
    });
    sorted.canvas.addEventListener("mousemove", (event) => {
      const order = descending(this.current().mean);
      const hit = order[Math.floor((event.offsetX - LEFT) / this.barWidth(sorted.size().width))];
      if (hit !== undefined) tooltip.show(this.details(hit), event.clientX, event.clientY);
      else tooltip.hide();
    });
    map.canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const step = takeKey(event, steps);
      if (step) this.move(step[0], step[1]);
    });
    sorted.canvas.addEventListener("keydown", (event) => {
      const step = takeKey(event, { ArrowLeft: -1, ArrowRight: 1 });
      if (step) this.climb(step);
    });
    for (const picture of [map, sorted]) {
      picture.canvas.addEventListener("mouseleave", () => tooltip.hide());
      picture.canvas.addEventListener("blur", () => {
        tooltip.hide();
        picture.redraw();
      });
      picture.canvas.addEventListener("focus", () => picture.redraw());
    }
  }

  // -- what is shown --------------------------------------------------------------------------------------------------

  /** @param {string} name */
  isKnown(name) {
    return this.data.rows.some((row) => row.metric === name);
  }

  rowsOf() {
    return this.data.rows.filter((one) => one.metric === this.metric);
  }

  current() {
    return this.rowsOf()[this.row];
  }

  shown() {
    return this.data.metrics.find((one) => one.name === this.metric);
  }

  /** How costs of the metric are written. */
  amount() {
    const { unit = "", derived = "" } = this.shown() ?? {};
    return amountOf(unit, derived !== "");
  }

  /** @param {SpreadRow} one */
  nameOf(one) {
    return one.label < 0 ? "everything" : this.data.labels.name[one.label];
  }

  /** @param {number} i */
  nameOfCell(i) {
    const { columns, column, lanes, lane } = this.data.grid;
    const beside = lanes.length > 1 || lanes[0] !== "process" ? lanes[lane[i]] : "";
    return `${columns[column[i]]} ${beside}`.trim();
  }

  caption() {
    const joined = this.data.grid.n_joined;
    const parts = joined > 1 ? `, the mean of up to ${joined} in a row` : "";
    return [{ text: `exclusive ${this.metric} of ${this.nameOf(this.current())}, by rank and thread${parts}` }];
  }

  refresh() {
    this.chooser.replaceChildren(
      choice(
        "Cost of",
        this.rowsOf().map((one, i) => [String(i), this.nameOf(one)]),
        String(this.row),
        (value) => {
          this.row = Number(value);
          this.refresh();
        },
      ).root,
    );
    this.statistics.replaceChildren(...this.facts().map(factOf));
    this.instead.textContent =
      this.wanted === this.metric ? "" : `${this.wanted} is not known profile by profile: this is ${this.metric}`;
    this.map.redraw();
    this.sorted.redraw();
    this.runs?.refresh();
  }

  facts() {
    const one = this.current();
    const amount = this.amount();
    const none = `${count(one.all_none)} of ${count(this.data.n_profiles)} profiles`;
    /** @type {Fact[]} */
    const facts = [
      ["min", amount(one.all_min)],
      ["mean", amount(one.all_mean)],
      ["max", amount(one.all_max)],
      ["std", amount(one.all_std)],
      ["imbalance", percent(one.all_imbalance)],
      ["none in", one.all_none ? none : ""],
    ];
    return facts.filter(([, text]) => text);
  }

  /**
   * Runs side by side: what each costs, and how unevenly its own profiles share it.
   * @returns {BarData}
   */
  runBars() {
    const one = this.current();
    const { runs = [] } = this.data;
    const amount = this.amount();
    const signed = Boolean(this.shown()?.signed);
    const { sum, mean, max, imbalance } = ofRuns(one);
    /** @param {number} i */
    const uneven = (i) =>
      Number.isFinite(imbalance[i]) && mean[i] > 0 && imbalance[i] > 0 ? `  +${percent(imbalance[i])} imbalance` : "";
    /**
     * @param {number} i
     * @returns {Fact[]}
     */
    const details = (i) => [
      [this.shown()?.additive ? "sum" : "of the run", amount(sum[i])],
      ["mean of profiles", amount(mean[i])],
      ["largest", amount(max[i])],
      ["of", this.nameOf(one)],
      ["metric", this.metric],
    ];
    const rows = runs.slice(0, MOST_RUNS).map((name, i) => ({
      name,
      value: Math.abs(sum[i]),
      colour: signed ? (sum[i] < 0 ? LESS : MORE) : undefined,
      text: `${amount(sum[i])}${signed ? "" : uneven(i)}`,
      details: { title: name, rows: details(i) },
    }));
    return { rows, more: runs.length - MOST_RUNS, caption: `${this.metric} of ${this.nameOf(one)}, run by run` };
  }

  /**
   * @param {number} i
   * @returns {Details}
   */
  details(i) {
    const one = this.current();
    const { low, high } = one;
    const amount = this.amount();
    const far = one.all_mean ? one.mean[i] / one.all_mean - 1 : 0;
    return {
      title: this.nameOfCell(i),
      rows: [
        [low ? "mean" : "cost", amount(one.mean[i])],
        ["against the mean", Number.isFinite(far) ? `${far >= 0 ? "+" : ""}${(100 * far).toFixed(1)}%` : ""],
        ["of", this.nameOf(one)],
        ["metric", this.metric],
        ["profiles", low ? String(this.data.grid.n_profiles[i]) : ""],
        ["smallest", low ? amount(low[i]) : ""],
        ["largest", high ? amount(high[i]) : ""],
      ],
    };
  }

  // -- the heat map ---------------------------------------------------------------------------------------------------

  /**
   * Where cells begin, and how large they are.
   * @param {number} width
   */
  boxes(width) {
    const { layout } = this;
    const left = layout.named ? Math.min(Math.max(...layout.rowNames.map((name) => name.length)) * 6.6 + 16, 190) : 8;
    const cell = Math.max((width - left - 8) / layout.nColumns, 0.5);
    const tall = (mapHeight(width, layout) - 46) / layout.nRows;
    return { left, cell: Math.min(cell, WIDEST), tall };
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   */
  drawMap(surface, width) {
    const { layout, cursor } = this;
    const theme = themeColours();
    const one = this.current();
    const { left, cell, tall } = this.boxes(width);
    const [low, high] = [one.all_min ?? 0, one.all_max ?? 0];
    const gap = cell > 5 && tall > 5 ? 1 : 0;
    /**
     * @param {number} i
     * @param {number} least  pixels
     * @param {string} fill
     * @param {string} [stroke]
     */
    const drawCell = (i, least, fill, stroke) => {
      const [across, down] = [Math.max(cell - gap, least), Math.max(tall - gap, least)];
      surface.rect(left + layout.x[i] * cell, layout.y[i] * tall, across, down, fill, stroke);
    };
    for (let i = 0; i < one.mean.length; i++) {
      const share = high > low ? (one.mean[i] - low) / (high - low) : 0.5;
      const known = Number.isFinite(one.mean[i]) && (one.mean[i] || !this.shown()?.additive);
      drawCell(i, 0.5, known ? scale(share) : theme.faint);
    }
    this.drawRowNames(surface, left, tall, theme);
    const y = layout.nRows * tall;
    this.drawColumnNames(surface, left, cell, y + 9, width, theme);
    this.drawRamp(surface, left, y + 24, one, theme);
    if (document.activeElement === this.map.canvas) drawCell(cursor, 2, "", theme.accent);
  }

  /**
   * @param {Surface} surface
   * @param {number} left
   * @param {number} tall
   * @param {Theme} theme
   */
  drawRowNames(surface, left, tall, theme) {
    if (!this.layout.named) return;
    const every = tall >= 12 ? 1 : Math.ceil(14 / tall);
    this.layout.rowNames.forEach((name, i) => {
      if (i % every) return;
      const text = fitting(surface, name, left - 8, { size: 11 }, OFTEN_ALIKE);
      surface.text(left - 6, (i + 0.5) * tall, text, { size: 11, fill: theme.muted, anchor: "end" });
    });
  }

  /**
   * @param {Surface} surface
   * @param {number} left
   * @param {number} cell
   * @param {number} y
   * @param {number} width
   * @param {Theme} theme
   */
  drawColumnNames(surface, left, cell, y, width, theme) {
    let free = -Infinity;
    this.layout.columnNames.forEach((name, i) => {
      const text = this.layout.short ? name.replace(/^rank (\d+)$/, "$1") : name;
      const middle = left + (i + 0.5) * cell;
      const half = surface.measure(text, { size: 11 }) / 2;
      if (middle - half < free || middle + half > width) return;
      surface.text(middle, y, text, { size: 11, fill: theme.muted, anchor: "middle" });
      free = middle + half + 8;
    });
  }

  /**
   * What colours mean. Where the ends look the same, their difference is said.
   * @param {Surface} surface
   * @param {number} left
   * @param {number} y
   * @param {SpreadRow} one
   * @param {Theme} theme
   */
  drawRamp(surface, left, y, { all_min: low, all_max: high, all_none: none }, theme) {
    const amount = this.amount();
    const style = { size: 11, fill: theme.muted };
    const from = amount(low);
    const more = (high ?? 0) - (low ?? 0);
    const to = amount(high) === from && more > 0 ? `${from} (+${amount(more)})` : amount(high);
    const start = Math.round(left + surface.measure(from, style) + 6);
    surface.text(left, y + 6, from, style);
    for (let i = 0; i < 40; i++) surface.rect(start + i * 4, y, 4, 12, scale(i / 39));
    surface.text(start + 166, y + 6, to, style);
    if (!none) return;
    const beside = start + 166 + surface.measure(to, style) + 18;
    surface.rect(beside, y, 12, 12, theme.faint);
    surface.text(beside + 18, y + 6, "none", style);
  }

  /**
   * @param {number} right
   * @param {number} down
   */
  move(right, down) {
    const { layout, map } = this;
    const next = layout.at(layout.x[this.cursor] + right, layout.y[this.cursor] + down);
    if (next >= 0) this.cursor = next;
    const { left, cell, tall } = this.boxes(map.size().width);
    const box = map.canvas.getBoundingClientRect();
    const [x, y] = [left + layout.x[this.cursor] * cell, layout.y[this.cursor] * tall];
    tooltip.show(this.details(this.cursor), box.left + x, box.top + y);
    map.redraw();
  }

  // -- the sorted costs -----------------------------------------------------------------------------------------------

  /**
   * How wide a bar is, with the gap beside it.
   * @param {number} width
   */
  barWidth(width) {
    return Math.min((width - LEFT - 8) / this.current().mean.length, BROADEST);
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   */
  drawSorted(surface, width, height) {
    const theme = themeColours();
    const one = this.current();
    const least = Math.min(one.all_min ?? 0, 0);
    const most = Math.max(one.all_max ?? 0, 0) || (least < 0 ? 0 : 1);
    const bottom = height - BELOW;
    /** @param {number} value */
    const y = (value) => bottom - (((Number.isFinite(value) ? value : 0) - least) / (most - least)) * (bottom - ABOVE);
    for (const mark of new Set([least, least < 0 ? 0 : most / 2, most])) {
      drawLine(surface, [LEFT, y(mark)], [width - 8, y(mark)], theme.faint);
      const text = this.amount()(mark);
      const short = surface.measure(text, { size: 11 }) < LEFT - 8 ? text : si(mark); // long units are said elsewhere
      surface.text(LEFT - 6, y(mark), short, { size: 11, fill: theme.muted, anchor: "end" });
    }
    const named = this.drawBars(surface, width, height, y, theme);
    this.drawMean(surface, width, height, y, theme);
    const profiles = `${count(this.data.n_profiles)} profiles`;
    if (!named) surface.text(LEFT, height - 9, profiles, { size: 11, fill: theme.muted });
  }

  /**
   * Draw a bar for each cell, and say whether there was room for their names.
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   * @param {(value: number) => number} y
   * @param {Theme} theme
   */
  drawBars(surface, width, height, y, theme) {
    const { mean, low: smallest, high: largest } = this.current();
    const order = descending(mean);
    const wide = this.barWidth(width);
    const bar = Math.max(wide - (wide > 40 ? 8 : wide > 3 ? 1 : 0), 0.5);
    const named = wide > 30 && order.every((i) => surface.measure(this.nameOfCell(i), { size: 11 }) < wide - 4);
    const focused = document.activeElement === this.sorted.canvas;
    order.forEach((i, k) => {
      const x = LEFT + k * wide;
      const middle = x + bar / 2;
      const [high, low] = [Math.min(y(mean[i]), y(0)), Math.max(y(mean[i]), y(0))];
      surface.rect(x, high, bar, low - high, CATEGORIES[4]);
      if (smallest && largest) drawLine(surface, [middle, y(smallest[i])], [middle, y(largest[i])], theme.muted, 0.7);
      if (named)
        surface.text(middle, height - 9, this.nameOfCell(i), { size: 11, fill: theme.muted, anchor: "middle" });
      if (k === this.rung && focused) surface.rect(x, ABOVE - 4, bar, height - BELOW - ABOVE + 4, "", theme.accent);
    });
    return named;
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   * @param {(value: number) => number} y
   * @param {Theme} theme
   */
  drawMean(surface, width, height, y, theme) {
    const { all_mean: mean } = this.current();
    if (mean === null) {
      const text = "some values are not numbers";
      surface.text(width / 2, height / 2, text, { size: 12, fill: theme.muted, anchor: "middle" });
      return;
    }
    drawLine(surface, [LEFT, y(mean)], [width - 8, y(mean)], CATEGORIES[5], 1.5, true);
    const text = `mean ${this.amount()(mean)}`;
    surface.text(width - 10, y(mean) - 8, text, { size: 11, fill: theme.ink, anchor: "end" });
  }

  /** @param {number} step */
  climb(step) {
    const { canvas } = this.sorted;
    const order = descending(this.current().mean);
    this.rung = Math.min(Math.max(this.rung + step, 0), order.length - 1);
    const box = canvas.getBoundingClientRect();
    const x = LEFT + this.rung * this.barWidth(this.sorted.size().width);
    tooltip.show(this.details(order[this.rung]), box.left + x, box.top + 20);
    this.sorted.redraw();
  }

  saveCsv() {
    const { grid } = this.data;
    const joined = Boolean(this.current().low);
    const header = ["rank", "lane", "profiles", "metric", "of", "mean", ...(joined ? ["smallest", "largest"] : [])];
    const lines = this.rowsOf().flatMap((one) =>
      Array.from(one.mean, (mean, i) => [
        grid.columns[grid.column[i]],
        grid.lanes[grid.lane[i]],
        grid.n_profiles[i],
        this.metric,
        this.nameOf(one),
        finite(mean),
        ...(one.low && one.high ? [finite(one.low[i]), finite(one.high[i])] : []),
      ]),
    );
    save("spread.csv", new Blob([csv(header, lines)], { type: "text/csv" }));
  }
}

/**
 * @param {SpreadRow} one
 * @returns {OfRuns}
 */
function ofRuns({ run_sum: sum = [], run_mean: mean = [], run_max: max = [], run_imbalance: imbalance = [] }) {
  return { sum, mean, max, imbalance };
}

/** @param {number} value */
const finite = (value) => (Number.isFinite(value) ? value : null);

/** @param {Fact} fact */
function factOf([word, text]) {
  return element("span", { class: "fact", attributes: { title: HINTS[word] ?? word } }, [
    element("b", { text: word }),
    element("span", { text }),
  ]);
}

/**
 * @param {string} title
 * @param {string | null} hint
 * @param {{ root: HTMLElement, buttons: HTMLElement }} picture
 */
function card(title, hint, picture) {
  return element("section", { class: "card" }, [
    element("div", { class: "card-head" }, [
      element("h2", { text: title }),
      hint === null ? null : element("span", { class: "hint", text: hint }),
      picture.buttons,
    ]),
    picture.root,
  ]);
}
