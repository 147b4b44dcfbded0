/**
 * What two experiments have at call paths or functions (viewer/comparison.py), and how they differ: differences,
 * ratios, losses and efficiencies as `diff` computes them (analysis/comparison).
 *
 * @import { Both, ComparedData, ComparedMetric, ComparedTreeData, Numbers } from "./documents.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {"left" | "right" | "both" | "change"} Width  what boxes of a flame graph are as wide as
 * @typedef {"inclusive" | "exclusive"} Scope
 *
 * @typedef {Object} Figures  of a row in a metric and a scope; NaN is none
 * @property {(i: number) => number} left
 * @property {(i: number) => number} right
 * @property {(i: number) => number} difference  left less right
 * @property {(i: number) => number} ratio  left divided by right
 * @property {(i: number) => number} loss
 * @property {(i: number) => number} speedup
 * @property {(i: number) => number} efficiency
 */

import { amountOf, percent } from "./format.js";
import { summed, Tree } from "./tree.js";

/** @type {Width[]} */
export const WIDTHS = ["right", "left", "both", "change"];
const NEAR = 1e-12; // relative; less is rounding
const [LEFT, RIGHT, BOTH] = [1, 2, 3];

/** @type {WeakMap<Numbers, ComparedTree>} */
const TREES = new WeakMap();

/**
 * The tree of some data; the same data gives the same tree.
 * @param {ComparedTreeData} data
 * @param {ComparedData} of
 */
export function comparedTreeOf(data, of) {
  const known = TREES.get(data.parent) ?? new ComparedTree(data, of);
  TREES.set(data.parent, known);
  return known;
}

/**
 * @param {number} left
 * @param {number} right
 */
export function differenceOf(left, right) {
  if (!Number.isFinite(left) || !Number.isFinite(right)) return NaN;
  const difference = left - right;
  return Math.abs(difference) <= NEAR * Math.max(Math.abs(left), Math.abs(right)) ? 0 : difference;
}

/**
 * @param {number} left
 * @param {number} right
 */
export function ratioOf(left, right) {
  return finite(left / right);
}

/** @param {number} value */
export function ratioText(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))) : "";
}

/** @param {number} value */
const finite = (value) => (Number.isFinite(value) ? value : NaN);

/** What both sides have of a metric. */
class Costs {
  #parent;
  /** @type {Both<Numbers> | undefined} */
  #inclusive;

  /**
   * @param {ComparedTreeData["metrics"][number]} data
   * @param {Numbers} parent
   */
  constructor({ exclusive, inclusive, present }, parent) {
    this.exclusive = exclusive;
    this.present = present;
    this.#inclusive = inclusive;
    this.#parent = parent;
  }

  /** @returns {Both<Numbers>} */
  get inclusive() {
    const [left, right] = this.exclusive;
    return (this.#inclusive ??= [summed(this.#parent, left), summed(this.#parent, right)]);
  }
}

/** Rows with what both sides have. Each metric is there four times, once for every width of a flame graph. */
export class ComparedTree extends Tree {
  #of;
  /** @type {Costs[]} */
  #costs;

  /**
   * @param {ComparedTreeData} data
   * @param {ComparedData} of
   */
  constructor(data, of) {
    super({ context: [], parent: data.parent, label: data.label, more: data.more, metrics: [] }, of.labels);
    const costs = data.metrics.map((one) => new Costs(one, data.parent));
    this.metrics = costs.flatMap((one, k) =>
      WIDTHS.map((width) => new WidthMetric(one, of.metrics[k], width, data.parent)),
    );
    this.#of = of;
    this.#costs = costs;
  }

  /**
   * Who has a cost at or below a row, in words of `diff`.
   * @param {number} i
   * @param {number} metric  of the page
   */
  present(i, metric) {
    const code = this.#costs[metric].present[i];
    return code === BOTH ? "both" : code === RIGHT ? "right" : code === LEFT ? "left" : "";
  }

  /**
   * @param {number} metric  of the page
   * @param {Scope} scope
   * @returns {Figures}
   */
  figures(metric, scope) {
    const { [scope]: sides, present } = this.#costs[metric];
    const left = (/** @type {number} */ i) => finite(sides[0][i]);
    const right = (/** @type {number} */ i) => finite(sides[1][i]);
    const total = this.#of.metrics[metric].totals[1] ?? NaN;
    const { kind, processes } = this.#of.scaling ?? { kind: "", processes: [NaN, NaN] };
    const [p, q] = processes;
    const [before, after] = kind === "strong" ? [1, 1] : [p, q];
    const inBoth = (/** @type {number} */ i, /** @type {number} */ value) =>
      present[i] === BOTH ? finite(value) : NaN;
    const speedup = (/** @type {number} */ i) => inBoth(i, left(i) / p / (right(i) / q));
    return {
      left,
      right,
      difference: (i) => differenceOf(left(i), right(i)),
      ratio: (i) => ratioOf(left(i), right(i)),
      loss: (i) => finite((100 * (right(i) / after - left(i) / before)) / (total / after)),
      speedup,
      efficiency: kind === "strong" ? (i) => inBoth(i, left(i) / right(i)) : speedup,
    };
  }

  /**
   * The number of a metric and a width among those of the tree.
   * @param {number} metric  of the page
   * @param {Width} width
   */
  static numberOf(metric, width) {
    return WIDTHS.length * metric + WIDTHS.indexOf(width);
  }

  /**
   * How much more the right side has, as a part of the larger one: from -1 (only left) to 1 (only right).
   * @param {number} i
   * @param {number} metric  of the page
   * @param {Scope} scope
   */
  change(i, metric, scope) {
    const [left, right] = this.#costs[metric][scope].map((side) => side[i]);
    const most = Math.max(Math.abs(left), Math.abs(right));
    return most ? Math.min(Math.max(-differenceOf(left, right) / most, -1), 1) : 0;
  }

  /**
   * What both sides have at a row.
   * @param {number} i
   * @param {number} metric  of the page
   * @returns {Details}
   */
  compared(i, metric) {
    const { name, unit, derived, totals, additive } = this.#of.metrics[metric];
    const amount = amountOf(unit, derived !== "");
    const [inclusive, exclusive] = [this.figures(metric, "inclusive"), this.figures(metric, "exclusive")];
    const present = this.present(i, metric);
    const [left, right] = this.#of.sides;
    /** @type {(value: number, side: number) => string} */
    const shared = (value, side) =>
      Number.isFinite(value)
        ? amount(value) + (additive && totals[side] ? ` (${percent(value / totals[side])})` : "")
        : "–";
    /** @type {(value: number) => string} */
    const said = (value) => (Number.isFinite(value) ? amount(value) : "–");
    const more = this.isMore(i);
    return {
      title: this.name(i),
      rows: [
        ["metric", name],
        [left, present === "right" ? "not there" : shared(inclusive.left(i), 0)],
        [right, present === "left" ? "not there" : shared(inclusive.right(i), 1)],
        ["difference", `${said(inclusive.difference(i))}, left less right`],
        ["ratio", ratioText(inclusive.ratio(i))],
        ["exclusive", more ? "" : `${said(exclusive.left(i))}, ${said(exclusive.right(i))}`],
        ["difference of these", more ? "" : said(exclusive.difference(i))],
        ["kind", more ? "call paths folded to keep the page small" : this.kind(i)],
      ],
    };
  }
}

/** A metric as flame graphs know it. What it holds by row is computed when it is drawn first: few widths ever are. */
class WidthMetric {
  #costs;
  #width;
  #parent;
  /** @type {Float64Array | undefined} */
  #exclusive;
  /** @type {Float64Array | undefined} */
  #inclusive;
  /** @type {Float64Array | undefined} */
  #weight;
  gain = null;
  loss = null;

  /**
   * @param {Costs} costs
   * @param {ComparedMetric} metric
   * @param {Width} width
   * @param {Numbers} parent
   */
  constructor(costs, { name, unit, description, derived, additive, missing, totals }, width, parent) {
    this.name = name;
    this.unit = unit;
    this.description = description;
    this.derived = derived;
    this.additive = additive;
    this.missing = missing;
    this.total = COMBINED[width](totals[0] ?? NaN, totals[1] ?? NaN);
    this.#costs = costs;
    this.#width = width;
    this.#parent = parent;
  }

  /** @param {Both<Numbers>} sides */
  #join([left, right]) {
    const combine = COMBINED[this.#width];
    return Float64Array.from(left, (value, i) => combine(value, right[i]));
  }

  get exclusive() {
    return (this.#exclusive ??= this.#join(this.#costs.exclusive));
  }

  get inclusive() {
    return (this.#inclusive ??= this.#join(this.#costs.inclusive));
  }

  get signed() {
    return this.exclusive.some((value) => value < 0);
  }

  /** How wide boxes are: all changes by their sizes, where more and less would cancel out. */
  get weight() {
    return (this.#weight ??= this.signed ? summed(this.#parent, this.exclusive.map(Math.abs)) : this.inclusive);
  }

  get whole() {
    const { weight } = this;
    return weight.reduce((sum, value, i) => (this.#parent[i] < 0 ? sum + value : sum), 0);
  }
}

/** @type {Record<Width, (left: number, right: number) => number>} */
const COMBINED = {
  left: (left) => left,
  right: (_, right) => right,
  both: (left, right) => left + right,
  change: differenceOf,
};
