/**
 * How costs scale: the models of all series as a table, one of them as a plot with what was measured.
 *
 * @import { Point } from "./canvas.js"
 * @import { Fact, ScalingData } from "./documents.js"
 * @import { Band, Measured, PlotData } from "./plot.js"
 * @import { Store } from "./store.js"
 */

import { button, choice, element } from "./dom.js";
import { amountOf, count, number, percent } from "./format.js";
import { valueAt } from "./functions.js";
import { axisSwitch, Plot } from "./plot.js";
import { csv, save } from "./saving.js";
import { brief, lastOf, notation } from "./scaling_text.js";
import { matcher } from "./store.js";
import { Table } from "./table.js";

const SAMPLES = 160; // of a curve
const MOST_MARKS = 16;
const TRUST = ["poor", "fair", "good"];
const WIDE = 8; // the largest value by the smallest, from which on an axis begins logarithmic

/**
 * @param {HTMLElement} place
 * @param {ScalingData} data
 * @param {Store} view
 */
export function drawScaling(place, data, view) {
  new Scaling(place, data, view).update(false);
}

/** Models by number; `chosen` is the one that is plotted, -1 is none. */
class Scaling {
  title = element("h2", { class: "scaling-title" });
  formula = element("span", { class: "hint mono" });
  cautions = element("div", { class: "match", attributes: { role: "status" } });
  fixers = element("span", { class: "opening" });
  targets = element("span", { class: "opening" });
  axes = element("span", { class: "opening" });
  said = element("span", { class: "match", attributes: { role: "status" } });
  /** @type {number[]} */
  values = []; // of models at the target
  /** @type {number[]} */
  shares = [];
  /** @type {number[]} */
  places = []; // of models by cost; those that stand apart come last, by what was measured of them
  along = 0; // the parameter of the plot; the others are fixed
  logY = false;
  sortBy = "share";
  descending = true;
  plot = new Plot(
    "scaling",
    () => Math.max(190, Math.min(300, (this.place.clientHeight || 560) * 0.46)),
    () => this.plotted(),
  );

  /**
   * @param {HTMLElement} place
   * @param {ScalingData} data
   * @param {Store} view
   */
  constructor(place, data, view) {
    const { metric_names: names, first_metric: first } = data;
    this.place = place;
    this.data = data;
    this.view = view;
    this.nPoints = data.points.length / data.parameters.length;
    this.every = Array.from(data.callpath, (_, m) => m);
    this.target = Array.from(data.target); // where to predict
    const wanted = names.indexOf(view.get("metric"));
    this.metric = Math.max(0, wanted >= 0 ? wanted : names.indexOf(first));
    this.fixed = data.parameters.map((_, p) => Math.max(...this.valuesOf(p)));
    this.logX = isWide(this.valuesOf(0));
    this.predict();
    this.chosen = view.get("model") ?? this.best();
    this.shown = this.every;
    this.fix();
    this.table = this.createTable();
    this.metrics = choice(
      "Models of",
      names.map((name, k) => [String(k), name || "<default>"]),
      String(this.metric),
      (value) => this.choose(Number(value)),
    );
    this.build();
    this.listen();
  }

  build() {
    const { metric_names: names, parameters } = this.data;
    const along = choice(
      "Along",
      parameters.map((name, p) => [String(p), name]),
      "0",
      (value) => this.turn(Number(value)),
    );
    this.place.append(
      element("div", { class: "toolbar" }, [
        names.every((name) => this.view.get("metrics").includes(name)) ? null : this.metrics.root,
        parameters.length > 1 ? along.root : null,
        this.fixers,
        this.targets,
        this.said,
        element("span", { class: "gap" }),
        element("div", { class: "savers" }, [button("CSV", "Save this table as CSV", () => this.saveCsv())]),
        this.plot.buttons,
      ]),
      element("section", { class: "card" }, [
        element("div", { class: "card-head" }, [
          this.title,
          this.formula,
          element("span", { class: "gap" }),
          this.axes,
        ]),
        this.plot.root,
        this.cautions,
      ]),
      element("div", { class: "table-frame" }, [this.table.root]),
    );
  }

  createTable() {
    const { data } = this;
    return new Table({
      label: "Models",
      columns: [
        {
          key: "callpath",
          title: "call path",
          width: "minmax(220px, 1.2fr)",
          text: (m) => lastOf(data.callpath[m]),
          hint: (m) => data.callpath[m],
        },
        { key: "order", title: "growth", width: "minmax(130px, 0.6fr)", text: (m) => notation(data.order[m]) },
        {
          key: "short",
          title: "function",
          width: "minmax(220px, 1fr)",
          text: (m) => notation(data.short[m]),
          hint: (m) => data.function[m],
        },
        {
          key: "smape",
          title: "SMAPE",
          width: "84px",
          numeric: true,
          text: (m) => errorText(data.smape[m]),
          hint: () => "mean difference between model and measurement, in percent of both",
        },
        {
          key: "trust",
          title: "trust",
          width: "minmax(76px, 0.7fr)",
          text: (m) => `${data.trust[m]}: ${data.reason[m]}`,
          hint: (m) => `${data.trust[m]} at ${this.pointText(data.target)}: ${data.reason[m]}`,
        },
        {
          key: "share",
          title: "share at target",
          width: "150px",
          numeric: true,
          text: (m) => percent(this.shares[m]),
          share: (m) => this.shares[m],
          hint: (m) => `${this.amount(this.values[m])} at ${this.pointText(this.target)}`,
        },
      ],
      sortBy: this.sortBy,
      descending: this.descending,
      onSort: (key, down) => {
        [this.sortBy, this.descending] = [key, down];
        this.update();
      },
      rowClass: (m) => (m === this.chosen ? "found" : ""),
    });
  }

  listen() {
    const { root } = this.table;
    /** @param {Element} row */
    const numberOf = (row) => this.shown[Number(row.getAttribute("aria-rowindex")) - 2];
    root.addEventListener("click", (event) => {
      const row = event.target instanceof Element ? event.target.closest(".row") : null;
      if (row) this.draw(numberOf(row));
    });
    root.addEventListener("keydown", (event) => {
      const row = root.querySelector(".row.cursor");
      if (row && event.target === root) this.draw(numberOf(row));
    });
    this.view.watch("search", () => this.update(false));
    this.view.watch("model", (m) => {
      if (m === null) return;
      this.metric = this.data.metric[m];
      this.metrics.set(String(this.metric));
      this.chosen = m;
      this.fix();
      this.update(false);
    });
    this.view.watch("metric", (name) => {
      if (this.data.metric_names.includes(name)) this.choose(this.data.metric_names.indexOf(name));
    });
  }

  // -- numbers --------------------------------------------------------------------------------------------------------

  /** @param {number} k */
  point(k) {
    const { points, parameters } = this.data;
    return Array.from(parameters, (_, p) => points[k * parameters.length + p]);
  }

  /**
   * The values that a parameter has, in order.
   * @param {number} p
   */
  valuesOf(p) {
    return [...new Set(Array.from({ length: this.nPoints }, (_, k) => this.point(k)[p]))].sort((a, b) => a - b);
  }

  /** @param {number} value */
  amount(value) {
    const unit = this.data.units[this.metric];
    if (unit) return amountOf(unit, !this.data.adds_up[this.metric])(value);
    return number(value);
  }

  /** @param {ArrayLike<number>} at */
  pointText(at) {
    return this.data.parameters.map((name, p) => `${name} = ${brief(at[p])}`).join(", ");
  }

  /** All models at the target, and their parts of what the metric comes to there; what is below 0 counts as nothing. */
  predict() {
    const { functions, metric, metric_names: names } = this.data;
    this.values = this.every.map((m) => valueAt(functions, m, this.target));
    const first = this.target.every((value, p) => value === this.data.target[p]);
    const total = names.map((_, m) => (first ? this.data.rest[m] : 0)); // of models that are not in this page
    const { adds_up: addsUp, apart, run_share: runShare } = this.data;
    this.values.forEach((value, m) => {
      if (value > 0 && !apart[m]) total[metric[m]] += value;
    });
    this.shares = this.values.map((value, m) =>
      addsUp[metric[m]] && !apart[m] ? value / (total[metric[m]] || NaN) : NaN,
    );
    const size = this.values.map((value, m) => orLeast(apart[m] ? runShare[m] : value));
    const ranked = [...this.every].sort(
      (a, b) => Number(apart[a]) - Number(apart[b]) || (size[a] < size[b] ? 1 : size[a] > size[b] ? -1 : a - b),
    );
    ranked.forEach((m, place) => (this.places[m] = place));
  }

  /** The model with the largest prediction of those that can be trusted. */
  best() {
    const own = this.every.filter((m) => this.data.metric[m] === this.metric);
    return own.reduce((a, b) => (a < 0 || this.places[b] < this.places[a] ? b : a), -1);
  }

  // -- what is shown --------------------------------------------------------------------------------------------------

  /**
   * Another metric.
   * @param {number} metric
   */
  choose(metric) {
    this.metric = metric;
    this.metrics.set(String(metric));
    this.chosen = this.best();
    this.fix();
    this.update(false);
  }

  /**
   * Along another parameter.
   * @param {number} along
   */
  turn(along) {
    this.along = along;
    this.logX = isWide(this.valuesOf(along));
    this.fix();
    this.update();
  }

  /** Fix the other parameters where most was measured: where they are, if that is as much, else as large as can be. */
  fix() {
    const { data, along, chosen, nPoints } = this;
    if (chosen < 0) return;
    /** @type {Map<string, { at: number[], n: number }>} */
    const lines = new Map();
    for (let k = 0; k < nPoints; k++) {
      if (!Number.isFinite(data.value[chosen * nPoints + k])) continue;
      const at = this.point(k).map((one, p) => (p === along ? this.fixed[p] : one));
      const line = lines.get(at.join()) ?? { at, n: 0 };
      lines.set(at.join(), { at, n: line.n + 1 });
    }
    const most = Math.max(...[...lines.values()].map((line) => line.n), 0);
    if (!most || lines.get(this.fixed.join())?.n === most) return;
    const best = [...lines.values()].filter((line) => line.n === most).map((line) => line.at);
    const larger = (/** @type {number[]} */ a, /** @type {number[]} */ b) =>
      a.map((one, p) => one - b[p]).find((difference) => difference !== 0) ?? 0;
    this.fixed = best.reduce((a, b) => (larger(b, a) > 0 ? b : a));
  }

  update(stay = true) {
    const { data } = this;
    const fits = matcher(this.view.get("search"));
    this.shown = this.every.filter((m) => data.metric[m] === this.metric && (!fits || fits(data.callpath[m])));
    const key = this.sortKey();
    this.shown.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (this.descending ? -1 : 1) || a - b);
    this.table.setRows(this.shown, stay);
    this.said.textContent = `${count(this.shown.length)} ${this.shown.length === 1 ? "model" : "models"}`;
    this.drawControls();
    this.draw(this.chosen);
  }

  /**
   * What models are sorted by; what is no number comes last.
   * @returns {(m: number) => string | number}
   */
  sortKey() {
    const { callpath, order, short, smape, trust } = this.data;
    if (this.sortBy === "callpath") return (m) => callpath[m];
    if (this.sortBy === "order") return (m) => order[m];
    if (this.sortBy === "short") return (m) => short[m];
    if (this.sortBy === "trust") return (m) => TRUST.indexOf(trust[m]);
    if (this.sortBy === "share") return (m) => -this.places[m];
    return (m) => orLeast(smape[m]);
  }

  /**
   * Plot a model.
   * @param {number} m
   */
  draw(m) {
    const { data } = this;
    this.chosen = m;
    const has = m >= 0;
    this.title.textContent = has ? lastOf(data.callpath[m]) : "";
    this.title.title = has ? data.callpath[m] : "";
    this.formula.textContent = has ? notation(data.short[m]) : "";
    this.formula.title = has ? data.function[m] : "";
    this.cautions.textContent = data.cautions
      .filter((one) => Array.from(one.models).includes(m))
      .map((one) => one.text)
      .join("; ");
    this.table.redraw();
    this.plot.redraw();
  }

  /** Lists of the values that other parameters have, where to predict, and the axes. */
  drawControls() {
    const { parameters, metric_names: names } = this.data;
    this.fixers.replaceChildren(
      ...parameters.map((name, p) =>
        p === this.along
          ? ""
          : choice(
              name,
              this.valuesOf(p).map((v) => [String(v), brief(v)]),
              String(this.fixed[p]),
              (value) => {
                this.fixed[p] = Number(value);
                this.plot.redraw();
              },
            ).root,
      ),
    );
    this.targets.replaceChildren(...parameters.map((name, p) => this.targetBox(name, p)));
    this.axes.replaceChildren(
      axisSwitch(`log ${parameters[this.along]}`, this.logX, (on) => {
        this.logX = on;
        this.plot.redraw();
      }),
      axisSwitch(`log ${names[this.metric] || "value"}`, this.logY, (on) => {
        this.logY = on;
        this.plot.redraw();
      }),
    );
  }

  /**
   * @param {string} name
   * @param {number} p
   */
  targetBox(name, p) {
    const box = element("input", {
      attributes: { type: "number", step: "any", value: String(this.target[p]), "aria-label": `Predict at ${name}` },
    });
    box.style.width = "92px";
    box.addEventListener("change", () => {
      if (!Number.isFinite(box.valueAsNumber)) return;
      this.target[p] = box.valueAsNumber;
      this.predict();
      this.update();
    });
    return element("label", { class: "choice" }, [element("span", { text: p ? name : `predict at ${name}` }), box]);
  }

  /**
   * The chosen model along one parameter, the others as they are fixed.
   * @returns {PlotData}
   */
  plotted() {
    const { data, along, chosen } = this;
    const has = chosen >= 0;
    const measured = this.valuesOf(along);
    const last = measured[measured.length - 1];
    const target = this.target[along];
    const ends = [...measured, target].filter(Number.isFinite).sort((a, b) => a - b);
    const logX = this.logX && ends[0] > 0;
    const points = has ? this.measuredPoints() : [];
    const others = this.fixedText();
    const name = has ? `${lastOf(data.callpath[chosen])}: ${notation(data.short[chosen])}` : "";
    return {
      xTitle: data.parameters[along],
      yTitle: `${data.metric_names[this.metric] || "value"} (${data.measure})`,
      logX,
      logY: this.logY,
      xMarks: ends.length <= MOST_MARKS ? [...new Set(ends)] : [],
      xText: brief,
      yText: (y) => this.amount(y),
      empty: has ? "" : "there is no model to show",
      curve: has ? this.curve([...stepsOf(ends, logX), last]) : [],
      beyond: last,
      band: has ? this.band() : [],
      points,
      caption: name && others ? `${name}, at ${others}` : name,
      said: has && !points.length ? `nothing was measured at ${others}` : "",
      target:
        has && target > last ? { x: target, y: this.valueAt(target), text: this.amount(this.valueAt(target)) } : null,
    };
  }

  /** The values of the parameters that the plot is not along. */
  fixedText() {
    const texts = this.data.parameters.map((name, p) => (p === this.along ? "" : `${name} = ${brief(this.fixed[p])}`));
    return texts.filter(Boolean).join(", ");
  }

  /**
   * The chosen model at a value of the parameter that the plot is along.
   * @param {number} x
   */
  valueAt(x) {
    const point = this.fixed.map((one, p) => (p === this.along ? x : one));
    return valueAt(this.data.functions, this.chosen, point);
  }

  /**
   * @param {number[]} xs
   * @returns {Point[]}
   */
  curve(xs) {
    return xs.sort((a, b) => a - b).map((x) => [x, this.valueAt(x)]);
  }

  /**
   * Where the curve of the chosen model lies, with a probability of 90 %: known where the other parameters have their
   * largest values.
   * @returns {Band[]}
   */
  band() {
    const { bands, parameters } = this.data;
    const row = Array.from(bands.models).indexOf(this.chosen);
    const atLargest = parameters.every((_, p) => p === this.along || this.fixed[p] === this.valuesOf(p).at(-1));
    if (row < 0 || !atLargest) return [];
    const n = bands.samples;
    return Array.from({ length: n }, (_, k) => {
      const at = (row * parameters.length + this.along) * n + k;
      return { x: bands.x[this.along * n + k], low: bands.low[at], high: bands.high[at] };
    }).filter((one) => Number.isFinite(one.low) && Number.isFinite(one.high));
  }

  /** What was measured of the chosen series where the other parameters are as they are fixed. */
  measuredPoints() {
    const { data, along, chosen, nPoints } = this;
    /** @type {Measured[]} */
    const found = [];
    for (let k = 0; k < nPoints; k++) {
      const point = this.point(k);
      const [value, low, high] = [data.value, data.low, data.high].map((column) => column[chosen * nPoints + k]);
      if (!Number.isFinite(value) || point.some((one, p) => p !== along && one !== this.fixed[p])) continue;
      const model = valueAt(data.functions, chosen, point);
      /** @type {Fact[]} */
      const rows = [
        [data.measure, this.amount(value)],
        ["smallest", low < high ? this.amount(low) : ""],
        ["largest", low < high ? this.amount(high) : ""],
        ["model", this.amount(model)],
        ["difference", value ? `${model >= value ? "+" : ""}${(100 * (model / value - 1)).toFixed(1)}%` : ""],
      ];
      found.push({ x: point[along], y: value, low, high, details: { title: this.pointText(point), rows } });
    }
    return found;
  }

  saveCsv() {
    const { data } = this;
    const header = [
      "callpath",
      "metric",
      "function",
      "order",
      "smape",
      "ar2",
      "re",
      "prediction",
      "share",
      "trust",
      "reason",
    ];
    const rows = this.shown.map((m) => [
      data.callpath[m],
      data.metric_names[this.metric],
      data.function[m],
      data.order[m],
      data.smape[m],
      data.ar2[m],
      data.re[m],
      this.values[m],
      Number.isFinite(this.shares[m]) ? 100 * this.shares[m] : null,
      data.trust[m],
      data.reason[m],
    ]);
    save("models.csv", new Blob([csv(header, rows)], { type: "text/csv" }));
  }
}

/**
 * Values between the first and the last, at equal distances on the axis.
 * @param {number[]} ends  in order
 * @param {boolean} logarithmic
 */
function stepsOf(ends, logarithmic) {
  const [low, high] = [ends[0], ends[ends.length - 1]];
  return Array.from({ length: SAMPLES + 1 }, (_, k) =>
    logarithmic ? low * (high / low) ** (k / SAMPLES) : low + ((high - low) * k) / SAMPLES,
  );
}

/** @param {number} value */
const orLeast = (value) => (Number.isFinite(value) ? value : -Infinity);
/** @param {number[]} values */
const isWide = (values) => values[0] > 0 && values[values.length - 1] / values[0] > WIDE;
/** @param {number} value */
const errorText = (value) => (Number.isFinite(value) ? `${value < 10 ? value.toFixed(1) : value.toFixed(0)}%` : "");
