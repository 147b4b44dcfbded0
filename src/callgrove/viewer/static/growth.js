/**
 * Where costs go as a program grows, at a glance: the costliest call paths at a larger scale, and those that grow most.
 *
 * @import { Bar, BarData } from "./bars.js"
 * @import { ScalingData } from "./documents.js"
 * @import { Store } from "./store.js"
 *
 * @typedef {Object} Model  of the metric, with its values at the largest point and at the target
 * @property {number} m
 * @property {number} now
 * @property {number} then
 * @property {number} share  of what all models come to at the target
 * @property {number} growth  times as much as now; NaN where that is nothing
 *
 * @typedef {Object} Ranking
 * @property {string} name  of saved files
 * @property {string} title
 * @property {() => string} hint  of the metric that is shown
 * @property {"then" | "growth"} key  the largest first
 * @property {(one: Model) => boolean} fits
 * @property {(one: Model) => string} words
 * @property {string} empty  what to say where no model fits
 */

import { Bars } from "./bars.js";
import { element } from "./dom.js";
import { amountOf, number, percent } from "./format.js";
import { brief, lastOf, notation } from "./scaling_text.js";
import { valueAt } from "./functions.js";

const N_BARS = 8;
const LEAST = 0.01; // share at the target from which on growth matters
const GROWS = 1.0005; // times as much as before, from which on it shows in what is written
const MOST_NAMED = 3; // parameters whose values are all said

/**
 * @param {HTMLElement} place
 * @param {ScalingData} data
 * @param {Store} view
 */
export function drawGrowth(place, data, view) {
  const growth = new Growth(data, view);
  const cards = growth.rankings().map((one) => growth.card(place, one));
  view.watch("metric", (name) => {
    growth.metric = metricOf(data, name);
    for (const refresh of cards) refresh();
  });
}

/** Models of one metric, from the largest point that was measured to the target. */
class Growth {
  /**
   * @param {ScalingData} data
   * @param {Store} view
   */
  constructor(data, view) {
    const { parameters, points, target } = data;
    this.data = data;
    this.view = view;
    this.metric = metricOf(data, view.get("metric"));
    this.largest = parameters.map((_, p) =>
      Math.max(...Array.from(points).filter((__, k) => k % parameters.length === p)),
    );
    this.every = parameters.map((_, p) => p);
    this.moved = this.every.filter((p) => target[p] !== this.largest[p]);
  }

  /**
   * @param {ArrayLike<number>} at
   * @param {number[]} which  parameters
   */
  pointText(at, which) {
    return which.map((p) => `${this.data.parameters[p]} = ${brief(at[p])}`).join(", ");
  }

  /** Whether values of the metric have shares of their sum. */
  get addsUp() {
    return Boolean(this.data.adds_up[this.metric]);
  }

  /** @param {number} value */
  amount(value) {
    const unit = this.data.units[this.metric];
    return unit ? amountOf(unit, !this.addsUp)(value) : number(value);
  }

  /** @returns {Model[]} */
  models() {
    const { callpath, metric, functions, target, rest } = this.data;
    const ofMetric = Array.from(callpath, (_, m) => m).filter((m) => metric[m] === this.metric);
    const positive = ofMetric
      .map((m) => ({ m, now: valueAt(functions, m, this.largest), then: valueAt(functions, m, target) }))
      .filter((one) => one.then > 0 && !this.data.apart[one.m]);
    const total = positive.reduce((sum, one) => sum + one.then, rest[this.metric]);
    return positive.map((one) => ({
      ...one,
      share: this.addsUp ? one.then / total : NaN,
      growth: one.now > 0 ? one.then / one.now : NaN,
    }));
  }

  /** @returns {Ranking[]} */
  rankings() {
    const { target, order } = this.data;
    const to = this.pointText(target, this.moved);
    return [
      {
        name: "costliest",
        title: `Costliest at ${target.length > MOST_NAMED ? to : this.pointText(target, this.every)}`,
        hint: () => `what the models predict${this.addsUp ? ", and its share of them all" : ""}`,
        key: "then",
        fits: () => true,
        words: (one) => `${this.amount(one.then)}  ${percent(one.share)}`.trimEnd(),
        empty: "no model that can be trusted has a value above 0 there",
      },
      {
        name: "growing",
        title: `Grows most from ${this.pointText(this.largest, this.moved)} to ${to}`,
        hint: () => (this.addsUp ? `of all with ${percent(LEAST)} or more there` : ""),
        key: "growth",
        fits: (one) => !(one.share < LEAST) && one.growth > GROWS,
        words: (one) => `× ${number(one.growth)}  ${notation(order[one.m])}`,
        empty: "nothing grows",
      },
    ];
  }

  /**
   * @param {HTMLElement} place
   * @param {Ranking} ranking
   * @returns {() => void}  what draws it again for another metric
   */
  card(place, ranking) {
    const { name, title, hint } = ranking;
    const bars = new Bars(
      name,
      `${title}. Up and down go from bar to bar, Enter shows its plot.`,
      () => this.barsOf(ranking),
      "click to see it over its parameters",
    );
    const words = element("span", { class: "hint", text: hint() });
    const head = [element("h2", { text: title }), words, bars.buttons];
    place.append(element("section", { class: "card" }, [element("div", { class: "card-head" }, head), bars.root]));
    return () => {
      words.textContent = hint();
      bars.refresh();
    };
  }

  /**
   * @param {Ranking} ranking
   * @returns {BarData}
   */
  barsOf({ title, key, fits, words, empty }) {
    const models = this.models().filter(fits);
    models.sort((a, b) => b[key] - a[key] || a.m - b.m);
    return {
      rows: models.slice(0, N_BARS).map((one) => this.bar(one, one[key], words(one))),
      more: models.length - N_BARS,
      empty,
      caption: `${title}: ${this.data.metric_names[this.metric]}`,
    };
  }

  /**
   * @param {Model} one
   * @param {number} value
   * @param {string} text
   * @returns {Bar}
   */
  bar(one, value, text) {
    const { callpath, metric_names: names, target, order, short, trust, reason } = this.data;
    const share = Number.isFinite(one.share) ? ` (${percent(one.share)})` : "";
    return {
      name: lastOf(callpath[one.m]),
      value,
      text,
      pick: () => {
        this.view.set("model", one.m);
        this.view.set("tab", "Scaling");
      },
      details: {
        title: callpath[one.m],
        rows: [
          ["metric", names[this.metric]],
          [`at ${this.pointText(this.largest, this.moved)}`, this.amount(one.now)],
          [`at ${this.pointText(target, this.moved)}`, this.amount(one.then) + share],
          ["trust", `${trust[one.m]}: ${reason[one.m]}`],
          ["growth", notation(order[one.m])],
          ["function", notation(short[one.m])],
        ],
      },
    };
  }
}

/**
 * The metric of that name, else the first one.
 * @param {ScalingData} data
 * @param {string} name
 */
function metricOf(data, name) {
  const wanted = data.metric_names.indexOf(name);
  return wanted >= 0 ? wanted : Math.max(0, data.metric_names.indexOf(data.first_metric));
}
