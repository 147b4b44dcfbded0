/**
 * Models as numbers: what they predict at a point, how far to trust that, what fits nearly as well, what was measured.
 *
 * Functions are evaluated here, at any point. Intervals and trust come of all the measurements: those at stops are in
 * the page, those of other points are asked for where there is somebody to ask (`ModelSource`), else unknown.
 *
 * @import { Judgements, Look, NearEquals, Provider, Repetitions, ScalingData } from "./documents.js"
 * @import { Band } from "./plot.js"
 * @import { Store } from "./store.js"
 *
 * @typedef {Object} Judgement  of one model at one point
 * @property {number} low  of the interval of 90%, not a number where there is none
 * @property {number} high
 * @property {string} trust
 * @property {string} reason
 * @property {boolean} apart  whether nothing should be concluded from it
 *
 * @typedef {Object} Ranked  all models at a point
 * @property {number[]} values
 * @property {number[]} shares  of the sum of the metric there; not a number where there is none, or it is unknown
 * @property {number[]} places  by cost; those that stand apart come last, by what was measured of them
 * @property {(Judgement | null)[]} judged  null where it is unknown
 * @property {number} unknown  models without a judgement
 *
 * @typedef {{ short: string, smape: number, at: (point: ArrayLike<number>) => number }} Near
 */

import { valueAt } from "./functions.js";

/** The models of a page. */
export class Models {
  /** @type {Map<string, Judgements>} */
  #asked = new Map(); // of all models, by point
  /** @type {Map<string, Band[]>} */
  #bands = new Map();
  /** @type {NearEquals[]} */
  #near;
  /** @type {Repetitions[]} */
  #repeated;

  /** @param {ScalingData} data */
  constructor(data) {
    const { callpath, parameters, points, stops } = data;
    this.data = data;
    this.nPoints = points.length / parameters.length;
    this.every = Array.from(callpath, (_, m) => m);
    this.measured = parameters.map((_, p) => sorted(Array.from({ length: this.nPoints }, (__, k) => this.point(k)[p])));
    this.nStops = stops.points.length / parameters.length;
    this.stops = parameters.map((_, p) =>
      sorted(Array.from({ length: this.nStops }, (__, k) => stops.points[k * parameters.length + p])),
    );
    this.rowOfStop = new Map(Array.from({ length: this.nStops }, (_, k) => [keyOf(this.stop(k)), k]));
    this.rowOfModel = new Map(Array.from(stops.models, (m, row) => [m, row]));
    this.#near = [data.near];
    this.#repeated = [data.repeated];
  }

  /**
   * The coordinates of a point that was measured.
   * @param {number} k
   */
  point(k) {
    const n = this.data.parameters.length;
    return Array.from({ length: n }, (_, p) => this.data.points[k * n + p]);
  }

  /** @param {number} k */
  stop(k) {
    const n = this.data.parameters.length;
    return Array.from({ length: n }, (_, p) => this.data.stops.points[k * n + p]);
  }

  /**
   * @param {number} m
   * @param {ArrayLike<number>} point
   */
  valueAt(m, point) {
    return valueAt(this.data.functions, m, point);
  }

  // -- judgements -----------------------------------------------------------------------------------------------------

  /**
   * Whether everything about all models is known at a point.
   * @param {number[]} point
   */
  isComplete(point) {
    return this.every.every((m) => this.judgement(m, point));
  }

  /**
   * @param {number[]} point
   * @param {Judgements} answer
   */
  learn(point, answer) {
    this.#asked.set(keyOf(point), answer);
  }

  /**
   * What to think of a model at a point; null where that is unknown.
   * @param {number} m
   * @param {number[]} point
   * @returns {Judgement | null}
   */
  judgement(m, point) {
    const { data } = this;
    const key = keyOf(point);
    const answer = this.#asked.get(key);
    if (answer) return entry(answer, m);
    const [row, stop] = [this.rowOfModel.get(m), this.rowOfStop.get(key)];
    if (row !== undefined && stop !== undefined) return entry(data.stops, row * this.nStops + stop);
    if (key !== keyOf(data.target)) return null;
    const { interval_low: low, interval_high: high, trust, reason, apart } = data;
    return { low: low[m], high: high[m], trust: trust[m], reason: reason[m], apart: Boolean(apart[m]) };
  }

  /**
   * All models at a point, as `predict` ranks them. What is below 0 counts as nothing; shares are those of the whole
   * metric, and unknown where it is not known of all models whether they stand apart.
   * @param {number[]} point
   * @returns {Ranked}
   */
  rank(point) {
    const { adds_up: addsUp, metric, metric_names: names, rest, run_share: runShare } = this.data;
    const values = this.every.map((m) => this.valueAt(m, point));
    const judged = this.every.map((m) => this.judgement(m, point));
    const atTarget = keyOf(point) === keyOf(this.data.target);
    const isWhole = names.map((_, k) => atTarget || rest[k] === 0); // nothing is left out of the page
    const total = names.map((_, k) => (atTarget ? rest[k] : 0));
    this.every.forEach((m) => {
      const one = judged[m];
      if (!one) isWhole[metric[m]] = false;
      else if (values[m] > 0 && !one.apart) total[metric[m]] += values[m];
    });
    const shares = values.map((value, m) => {
      const has = addsUp[metric[m]] && isWhole[metric[m]] && judged[m] && !judged[m].apart;
      return has ? value / (total[metric[m]] || NaN) : NaN;
    });
    const isApart = judged.map((one) => Number(one?.apart ?? false));
    const size = values.map((value, m) => orLeast(isApart[m] ? runShare[m] : value));
    const ranked = [...this.every].sort((a, b) => isApart[a] - isApart[b] || compare(size[b], size[a]) || a - b);
    /** @type {number[]} */
    const places = [];
    ranked.forEach((m, place) => (places[m] = place));
    return { values, shares, places, judged, unknown: judged.filter((one) => !one).length };
  }

  /**
   * Where the curve of a model lies along a parameter, with a probability of 90%: at the points where it is known.
   * @param {number} m
   * @param {number} along
   * @param {number[]} fixed  the others
   * @returns {Band[]}
   */
  band(m, along, fixed) {
    const asked = this.#bands.get(bandKey(m, along, fixed));
    if (asked) return asked;
    const row = this.rowOfModel.get(m);
    if (row === undefined) return [];
    const found = this.stops[along].flatMap((x) => {
      const stop = this.rowOfStop.get(keyOf(fixed.map((one, p) => (p === along ? x : one))));
      return stop === undefined ? [] : [{ x, ...entry(this.data.stops, row * this.nStops + stop) }];
    });
    return found.filter((one) => Number.isFinite(one.low) && Number.isFinite(one.high));
  }

  /**
   * @param {number} m
   * @param {number} along
   * @param {number[]} fixed
   * @param {Band[]} band
   */
  learnBand(m, along, fixed, band) {
    this.#bands.set(bandKey(m, along, fixed), band);
  }

  // -- near equals and measurements -----------------------------------------------------------------------------------

  /**
   * @param {NearEquals} near
   * @param {Repetitions} repeated
   */
  learnMore(near, repeated) {
    if (near.models.length) this.#near.push(near);
    if (repeated.models.length) this.#repeated.push(repeated);
  }

  /**
   * Whether near equals and repetitions of a model are known.
   * @param {number} m
   */
  isDetailed(m) {
    return this.#repeated.some((one) => Array.from(one.models).includes(m));
  }

  /**
   * Functions that fit a model's measurements nearly as well.
   * @param {number} m
   * @returns {Near[]}
   */
  near(m) {
    for (const { models, bounds, smape, short, functions } of this.#near) {
      const row = Array.from(models).indexOf(m);
      if (row < 0) continue;
      return Array.from({ length: bounds[row + 1] - bounds[row] }, (_, k) => {
        const n = bounds[row] + k;
        return {
          short: short[n],
          smape: smape[n],
          at: (/** @type {ArrayLike<number>} */ at) => valueAt(functions, n, at),
        };
      });
    }
    return [];
  }

  /**
   * What was measured of a model at a point, each time; nothing where it was measured once.
   * @param {number} m
   * @param {number} k
   */
  repetitions(m, k) {
    for (const { models, bounds, values } of this.#repeated) {
      const row = Array.from(models).indexOf(m);
      if (row < 0) continue;
      const at = row * this.nPoints + k;
      return Array.from({ length: bounds[at + 1] - bounds[at] }, (_, n) => values[bounds[at] + n]);
    }
    return [];
  }
}

/** Asks for what a page does not hold, and tells when it is there; a report has nobody to ask. */
export class ModelSource {
  #asked = ""; // the latest question, which is not asked again
  /** @type {Map<string, string>} */
  #known = new Map(); // from where to where bands were asked for
  #asking = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {Models} models
   * @param {Store} view
   * @param {Provider} provider
   * @param {(problem: string) => void} told  called when there is an answer
   */
  constructor(models, view, provider, told) {
    this.models = models;
    this.view = view;
    this.provider = provider;
    this.told = told;
  }

  get live() {
    return this.provider.live;
  }

  /**
   * Ask for what is missing at a point, and of chosen models along a parameter, soon; an earlier question is forgotten.
   * @param {number[]} point
   * @param {number[]} chosen
   * @param {{ along: number, fixed: number[], from: number, to: number } | null} line
   */
  want(point, chosen, line) {
    const question = JSON.stringify([point, chosen, line]);
    if (!this.live || question === this.#asked) return;
    this.#asked = question;
    clearTimeout(this.#timer);
    this.#asking.abort();
    const { signal } = (this.#asking = new AbortController());
    this.#timer = setTimeout(() => this.#ask(point, chosen, line, signal), WAIT_MS);
  }

  /**
   * @param {number[]} point
   * @param {number[]} chosen
   * @param {{ along: number, fixed: number[], from: number, to: number } | null} line
   * @param {AbortSignal} signal
   */
  async #ask(point, chosen, line, signal) {
    const { models, view } = this;
    const look = lookOf(view);
    const unknown = chosen.filter((m) => !models.isDetailed(m));
    try {
      if (unknown.length || !models.isComplete(point)) {
        const answer = await this.provider.get("judged", { ...look, point: keyOf(point), models: unknown }, signal);
        models.learn(point, answer);
        models.learnMore(answer.near, answer.repeated);
        if (!signal.aborted) this.told("");
      }
      for (const m of line ? chosen : [])
        await this.#askBand(m, /** @type {NonNullable<typeof line>} */ (line), signal);
    } catch (error) {
      if (!signal.aborted) this.told(error instanceof Error ? error.message : String(error));
    }
  }

  /**
   * @param {number} m
   * @param {{ along: number, fixed: number[], from: number, to: number }} line
   * @param {AbortSignal} signal
   */
  async #askBand(m, { along, fixed, from, to }, signal) {
    const [key, range] = [bandKey(m, along, fixed), `${from} ${to}`];
    if (this.#known.get(key) === range || signal.aborted) return;
    const parameters = { ...lookOf(this.view), model: m, along, point: keyOf(fixed), from, to };
    const { x, low, high } = await this.provider.get("band", parameters, signal);
    const band = Array.from(x, (at, k) => ({ x: at, low: low[k], high: high[k] }));
    this.models.learnBand(
      m,
      along,
      fixed,
      band.filter((one) => Number.isFinite(one.low) && Number.isFinite(one.high)),
    );
    this.#known.set(key, range);
    if (!signal.aborted) this.told("");
  }
}

const WAIT_MS = 120; // until a slider stands still

/**
 * @param {Store} view
 * @returns {Look}
 */
function lookOf(view) {
  return {
    input: view.get("input"),
    metric: view.get("metric"),
    derive: view.get("derive"),
    filter: view.get("filter"),
  };
}

/**
 * @param {Judgements} columns
 * @param {number} at
 * @returns {Judgement}
 */
function entry({ low, high, trust, reason, apart }, at) {
  return { low: low[at], high: high[at], trust: trust[at], reason: reason[at], apart: Boolean(apart[at]) };
}

/** @param {ArrayLike<number>} point */
const keyOf = (point) => Array.from(point).join(",");
/**
 * @param {number} m
 * @param {number} along
 * @param {number[]} fixed
 */
const bandKey = (m, along, fixed) => `${m} ${along} ${fixed.map((one, p) => (p === along ? "" : one)).join(",")}`;
/** @param {number[]} values */
const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);
/** @param {number} value */
const orLeast = (value) => (Number.isFinite(value) ? value : -Infinity);
/**
 * @param {number} a
 * @param {number} b
 */
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
