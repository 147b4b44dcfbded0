/**
 * How costs scale: the models of all series as a table, those chosen as curves with what was measured, or over two
 * parameters as a map or surfaces, and what all of them predict at a point that can be moved.
 *
 * @import { Provider, ScalingData } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Scene } from "./scaling_views.js"
 * @import { Store } from "./store.js"
 *
 * @typedef {"curves" | "map" | "surface" | "largest"} Shape
 */

import { button, choice, element, switches } from "./dom.js";
import { amountOf, count, number } from "./format.js";
import { axisSwitch, Plot } from "./plot.js";
import { readPlace, writePlace } from "./scaling_address.js";
import { GroundMap } from "./scaling_map.js";
import { Models, ModelSource } from "./scaling_models.js";
import { beyondText, PointBar } from "./scaling_point.js";
import { FRONT, GroundSurface } from "./scaling_surface.js";
import { ModelTable } from "./scaling_table.js";
import { brief, lastOf, notation } from "./scaling_text.js";
import { colourOfChoice, groundOf, overtakingTexts, plotOf, pointText } from "./scaling_views.js";

/** @type {Option[]} */
const SHAPES = [
  ["curves", "Curves"],
  ["map", "Heat map"],
  ["surface", "Surface"],
  ["largest", "Largest"],
];
const MOST_CHOSEN = 7; // colours that can be told apart
const MOST_TEXTS = 3; // sentences below a picture
const WIDE = 8; // the largest value by the smallest, from which on an axis begins logarithmic

/**
 * @param {HTMLElement} place
 * @param {ScalingData} data
 * @param {Store} view
 * @param {Provider} provider
 */
export function drawScaling(place, data, view, provider) {
  new Scaling(place, data, view, provider).update(false);
}

/** Models by number; `current` is the one at the cursor of the table, -1 is none, `pinned` are those that stay. */
class Scaling {
  title = element("h2", { class: "scaling-title" });
  formula = element("span", { class: "hint mono" });
  chips = element("span", { class: "chosen-models" });
  cautions = element("div", { class: "match", attributes: { role: "status" } });
  parameters = element("span", { class: "opening" });
  fixers = element("span", { class: "opening" });
  axes = element("span", { class: "opening" });
  said = element("span", { class: "match", attributes: { role: "status" } });
  stage = element("div");
  savers = element("span");
  /** @type {number[]} */
  pinned = [];
  along = 0;
  across = 1;
  logY = false;
  near = false;
  problem = ""; // of the latest question
  controls = ""; // what lists and switches were made for
  /** @type {Shape} */
  shape = "curves";

  /**
   * @param {HTMLElement} place
   * @param {ScalingData} data
   * @param {Store} view
   * @param {Provider} provider
   */
  constructor(place, data, view, provider) {
    const { metric_names: names, first_metric: first } = data;
    this.place = place;
    this.data = data;
    this.view = view;
    this.models = new Models(data);
    this.source = new ModelSource(this.models, view, provider, (problem) => {
      this.problem = problem;
      this.refresh();
    });
    const wanted = names.indexOf(view.get("metric"));
    this.metric = Math.max(0, wanted >= 0 ? wanted : names.indexOf(first));
    this.point = Array.from(data.target);
    this.fixed = this.models.measured.map((values) => values[values.length - 1]);
    this.logX = isWide(this.models.measured[0]);
    this.ranked = this.models.rank(this.point);
    this.current = view.get("model") ?? this.best();
    this.fix();
    this.createPictures();
    this.bar = new PointBar(this.models, (p, value) => this.movePoint(p, value));
    this.metrics = choice("Models of", numbered(names), String(this.metric), (value) => this.choose(Number(value)));
    this.shapes = switches("Draw as", SHAPES, this.shape, (value) => this.reshape(/** @type {Shape} */ (value)));
    this.table = new ModelTable(this.models, {
      amount: (value) => this.amount(value),
      colour: (m) => (this.chosen.includes(m) ? colourOfChoice(this.chosen.indexOf(m)) : ""),
      changed: () => this.update(),
      picked: (m, more) => this.pick(m, more),
      unknown: () => this.unknownText(),
    });
    this.build();
    this.listen();
    this.follow();
  }

  createPictures() {
    const height = () => Math.max(190, Math.min(330, (this.place.clientHeight || 560) * 0.46));
    this.plot = new Plot("scaling", height, () => plotOf(this.scene));
    const ground = () => groundOf(this.scene);
    this.map = new GroundMap(height, ground, () => this.shape === "largest");
    this.surface = new GroundSurface(height, ground, ({ turn, tilt }) => {
      const isFront = turn === FRONT.turn && tilt === FRONT.tilt;
      this.view.mark({ turn: isFront ? "" : `${Math.round(turn)},${Math.round(tilt)}` });
    });
  }

  build() {
    const { metric_names: names, parameters } = this.data;
    this.place.append(
      element("div", { class: "toolbar" }, [
        names.every((name) => this.view.get("metrics").includes(name)) ? null : this.metrics.root,
        parameters.length > 1 ? this.shapes.root : null,
        this.parameters,
        this.fixers,
        this.axes,
        element("span", { class: "gap" }),
        this.said,
        element("div", { class: "savers" }, [button("CSV", "Save this table as CSV", () => this.saveCsv())]),
        this.savers,
      ]),
      this.bar.root,
      element("section", { class: "card scaling-card" }, [
        element("div", { class: "card-head" }, [this.title, this.formula, this.chips]),
        this.stage,
        this.cautions,
      ]),
      element("div", { class: "table-frame" }, [this.table.root]),
    );
  }

  listen() {
    this.view.watch("search", () => this.update(false));
    this.view.watch("at", () => this.follow());
    this.view.watch("model", (m) => {
      if (m === null) return;
      this.metric = this.data.metric[m];
      this.metrics.set(String(this.metric));
      this.pick(m, false);
    });
    this.view.watch("metric", (name) => {
      if (this.data.metric_names.includes(name)) this.choose(this.data.metric_names.indexOf(name));
    });
  }

  // -- numbers --------------------------------------------------------------------------------------------------------

  /** Models that are drawn. */
  get chosen() {
    const { pinned, current } = this;
    return current < 0 || pinned.includes(current) ? pinned : [...pinned, current].slice(-MOST_CHOSEN);
  }

  /** @returns {Scene} */
  get scene() {
    const { models, metric, chosen, current, along, across, fixed, point, logX, logY, near } = this;
    const amount = (/** @type {number} */ value) => this.amount(value);
    return { models, metric, chosen, current, along, across, fixed, point, logX, logY, near, amount };
  }

  /** @param {number} value */
  amount(value) {
    const unit = this.data.units[this.metric];
    if (unit) return amountOf(unit, !this.data.adds_up[this.metric])(value);
    return number(value);
  }

  /** The model with the largest prediction of those that can be trusted. */
  best() {
    const { places } = this.ranked;
    const own = this.models.every.filter((m) => this.data.metric[m] === this.metric);
    return own.reduce((a, b) => (a < 0 || places[b] < places[a] ? b : a), -1);
  }

  // -- what is shown --------------------------------------------------------------------------------------------------

  /**
   * Another metric.
   * @param {number} metric
   */
  choose(metric) {
    this.metric = metric;
    this.controls = "";
    this.metrics.set(String(metric));
    this.pinned = this.pinned.filter((m) => this.data.metric[m] === metric);
    this.current = this.best();
    this.fix();
    this.update(false);
    this.mark();
  }

  /**
   * Draw another model, or one more or less.
   * @param {number} m
   * @param {boolean} more  it stays, until it is picked so again
   */
  pick(m, more) {
    const { pinned } = this;
    if (more && pinned.includes(m)) this.pinned = pinned.filter((one) => one !== m);
    else if (more && pinned.length < MOST_CHOSEN) this.pinned = [...pinned, m];
    this.current = m;
    if (more && pinned.includes(m) && this.pinned.length) this.current = this.pinned[this.pinned.length - 1];
    this.fix();
    this.update();
    this.mark();
  }

  /**
   * Predict at another value of a parameter.
   * @param {number} p
   * @param {number} value
   */
  movePoint(p, value) {
    this.point = this.point.map((one, q) => (q === p ? value : one));
    this.problem = "";
    this.update();
    this.mark();
  }

  /** @param {Shape} shape */
  reshape(shape) {
    this.shape = shape;
    this.update();
    this.mark();
  }

  /**
   * Along other parameters; the second one gives way.
   * @param {number} along
   * @param {number} across
   */
  turn(along, across) {
    if (along === across) across = along === this.along ? this.across : this.along;
    if (along === across) along = this.data.parameters.findIndex((_, p) => p !== across);
    if (along !== this.along) this.logX = isWide(this.models.measured[along]);
    [this.along, this.across] = [along, across];
    this.fix();
    this.update();
    this.mark();
  }

  /** Fix the other parameters where most was measured: where they are, if that is as much, else as large as can be. */
  fix() {
    const { data, models, current, along } = this;
    if (current < 0) return;
    /** @type {Map<string, { at: number[], n: number }>} */
    const lines = new Map();
    for (let k = 0; k < models.nPoints; k++) {
      if (!Number.isFinite(data.value[current * models.nPoints + k])) continue;
      const at = models.point(k).map((one, p) => (p === along ? this.fixed[p] : one));
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
    this.refresh(stay);
    this.ask();
  }

  refresh(stay = true) {
    this.ranked = this.models.rank(this.point);
    const shown = this.table.show(this.ranked, this.metric, this.view.get("search"), stay);
    this.said.textContent = `${count(shown)} ${shown === 1 ? "model" : "models"}`;
    this.bar.set(this.point);
    this.bar.said.textContent = this.pointWords();
    this.drawControls();
    this.draw();
  }

  /** Have the viewer told what the page does not hold. */
  ask() {
    const { along, fixed, point, models, shape } = this;
    const ends = [...models.measured[along], point[along]].filter(Number.isFinite);
    const line = { along, fixed, from: Math.min(...ends), to: Math.max(...ends) };
    this.source.want(point, this.chosen, shape === "curves" ? line : null);
  }

  /** How far the point lies beyond what was measured, and what is not known there. */
  pointWords() {
    const { data, models, point, ranked } = this;
    const beyond = data.parameters.map((name, p) => {
      const text = beyondText(models, p, point[p]);
      return text && `${name} = ${brief(point[p])}${text.replace(", ", ": ")}`;
    });
    const unknown = ranked.unknown ? this.unknownText() : "";
    return [...beyond.filter(Boolean), this.problem || unknown].filter(Boolean).join("; ");
  }

  /** Why intervals and trust are missing. */
  unknownText() {
    if (this.source.live) return this.problem || "intervals and trust are being computed";
    const at = this.data.parameters.map((name, p) => `${name}=${this.point[p]}`).join(",");
    const of = this.models.rowOfStop.has(this.point.join(",")) ? "of the largest models only" : "at the slider's stops";
    return `this report knows intervals and trust ${of}; callgrove predict --at ${at} tells them here`;
  }

  /** Draw the chosen models. */
  draw() {
    const { data, current: m, chosen, shape } = this;
    const picture = this.picture;
    const several = chosen.length > 1;
    this.title.textContent = m >= 0 ? lastOf(data.callpath[m]) : "";
    this.title.title = m >= 0 ? data.callpath[m] : "";
    this.formula.textContent = m >= 0 ? notation(data.short[m]) : "";
    this.formula.title = m >= 0 ? data.function[m] : "";
    this.chips.replaceChildren(...(several ? chosen.map((one, n) => this.chip(one, n)) : []));
    const cautions = data.cautions.filter((one) => Array.from(one.models).includes(m)).map((one) => one.text);
    const texts = shape === "curves" ? overtakingTexts(this.scene).slice(0, MOST_TEXTS) : [];
    const lonely = shape === "largest" && !several ? ["choose more models, with Space or a click on their marks"] : [];
    this.cautions.textContent = [...lonely, ...texts, ...cautions].join("; ");
    if (this.stage.firstChild !== picture.root) {
      this.stage.replaceChildren(picture.root);
      this.savers.replaceChildren(picture.buttons);
    }
    this.table.redraw();
    picture.redraw();
  }

  get picture() {
    const pictures = { curves: this.plot, map: this.map, surface: this.surface, largest: this.map };
    return /** @type {Plot | GroundMap | GroundSurface} */ (pictures[this.shape]);
  }

  /**
   * @param {number} m
   * @param {number} n
   */
  chip(m, n) {
    const name = lastOf(this.data.callpath[m]);
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = colourOfChoice(n);
    const made = button("", `Do not draw ${name}`, () => this.drop(m));
    made.className = "key";
    made.append(swatch, element("span", { text: name }));
    return made;
  }

  /** @param {number} m */
  drop(m) {
    this.pinned = this.pinned.filter((one) => one !== m);
    if (this.current === m) this.current = this.pinned[this.pinned.length - 1] ?? this.best();
    this.update();
    this.mark();
  }

  /** Which parameters the picture is over, values of the others, and the axes. */
  drawControls() {
    const { data, along, across, shape } = this;
    const key = JSON.stringify([shape, along, across, this.point, this.metric]);
    if (key === this.controls) return;
    this.controls = key;
    const names = numbered(data.parameters);
    const isCurve = shape === "curves";
    const over = choice("Along", names, String(along), (value) => this.turn(Number(value), across));
    const and = choice("and", names, String(across), (value) => this.turn(along, Number(value)));
    const lists = data.parameters.length > 1 ? [over.root, ...(isCurve ? [] : [and.root])] : [];
    this.parameters.replaceChildren(...lists);
    const own = isCurve ? [along] : [along, across];
    const others = data.parameters.map((_, p) => p).filter((p) => !own.includes(p));
    this.fixers.replaceChildren(...others.map((p) => this.fixer(p)));
    const logX = axisSwitch(`log ${data.parameters[along]}`, this.logX, (on) => this.switch({ logX: on }));
    const metric = data.metric_names[this.metric] || "value";
    const logY = axisSwitch(`log ${metric}`, this.logY, (on) => this.switch({ logY: on }));
    const near = axisSwitch("runner-ups", this.near, (on) => this.switch({ near: on }));
    near.title = "Functions that fit nearly as well: an error of at most 1.5 times that of the best";
    const hasNear = data.parameters.length === 1 && (data.near.models.length > 0 || this.source.live);
    this.axes.replaceChildren(...(isCurve ? [...(hasNear ? [near] : []), logX, logY] : []));
  }

  /** @param {{ logX?: boolean, logY?: boolean, near?: boolean }} change */
  switch(change) {
    Object.assign(this, change);
    this.picture.redraw();
    this.mark();
  }

  /**
   * A list of the values that a parameter has.
   * @param {number} p
   */
  fixer(p) {
    const values = [...new Set([...this.models.measured[p], this.point[p], this.fixed[p]])].sort((a, b) => a - b);
    const options = values.map((v) => /** @type {Option} */ ([String(v), brief(v)]));
    return choice(this.data.parameters[p], options, String(this.fixed[p]), (value) => {
      this.fixed = this.fixed.map((one, q) => (q === p ? Number(value) : one));
      this.update();
      this.mark();
    }).root;
  }

  // -- address and files ----------------------------------------------------------------------------------------------

  /** Say in the address what is looked at. */
  mark() {
    this.view.mark(writePlace(this));
  }

  /** Look at what the address says. */
  follow() {
    const place = readPlace(this.view.get("at"), this.models, this.metric);
    this.surface?.setAngles(place.turn, place.tilt);
    const before = JSON.stringify(writePlace(this));
    this.shape = place.shape;
    this.shapes.set(place.shape);
    this.pinned = place.pinned;
    this.current = place.current ?? this.view.get("model") ?? this.pinned.at(-1) ?? this.best();
    this.point = place.point;
    [this.along, this.across] = [place.along, place.across];
    this.logX = place.logX ?? isWide(this.models.measured[this.along]);
    [this.logY, this.near] = [place.logY, place.near];
    if (place.fixed) this.fixed = place.fixed;
    else this.fix();
    if (JSON.stringify(writePlace(this)) === before) return;
    this.controls = "";
    this.update();
  }

  saveCsv() {
    this.table.save(this.data.metric_names[this.metric], pointText(this.models, this.point));
  }
}

/**
 * @param {string[]} names
 * @returns {Option[]}
 */
const numbered = (names) => names.map((name, k) => [String(k), name || "<default>"]);
/** @param {number[]} values */
const isWide = (values) => values[0] > 0 && values[values.length - 1] / values[0] > WIDE;
