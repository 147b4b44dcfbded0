/**
 * What a comparison comes to: a sentence, the totals of both sides, and the functions that changed most.
 *
 * @import { Bar, BarData } from "./bars.js"
 * @import { ComparisonData } from "./documents.js"
 * @import { Store } from "./store.js"
 */

import { Bars } from "./bars.js";
import { LESS, MORE } from "./colours.js";
import { comparedTreeOf, differenceOf, ratioOf, ratioText } from "./compare_costs.js";
import { element } from "./dom.js";
import { amountOf, count, percent, shortName } from "./format.js";
import { card, tile } from "./hotspots.js";

const N_TOP = 12;
const PICKING = "click to see where it is called";

/**
 * @param {HTMLElement} place
 * @param {ComparisonData} data
 * @param {Store} view
 */
export function drawComparison(place, data, view) {
  drawChanges(place, data, view, (title) => view.set("tab", title));
}

/**
 * @param {HTMLElement} place
 * @param {ComparisonData} data
 * @param {Store} view
 * @param {(title: string) => void} open  another view of the comparison
 */
export function drawChanges(place, data, view, open) {
  new Overview(place, data, view, open);
}

/** A sentence, tiles with a few numbers, and bars. */
class Overview {
  sentence = element("p", { class: "sentence", attributes: { role: "status" } });
  tiles = element("div", { class: "tiles" });

  /**
   * @param {HTMLElement} place
   * @param {ComparisonData} data
   * @param {Store} view
   * @param {(title: string) => void} open
   */
  constructor(place, data, view, open) {
    this.data = data;
    this.view = view;
    this.open = open;
    this.tree = comparedTreeOf(data.functions, data);
    const [left, right] = data.sides;
    const bars = new Bars(
      "largest-changes",
      "Functions that changed most. Up and down go from bar to bar, Enter shows where they are called.",
      () => this.changes(),
      PICKING,
    );
    const hint = `exclusive cost, ${right} compared with ${left}: orange is more, blue is less`;
    place.append(
      element("section", { class: "card" }, [this.sentence]),
      this.tiles,
      card([element("h2", { text: "Largest changes" }), element("span", { class: "hint", text: hint })], bars),
    );
    this.refresh();
    view.watch("metric", () => {
      bars.refresh();
      this.refresh();
    });
  }

  /** The number of the metric that is chosen. */
  metric() {
    const wanted = this.view.get("metric");
    return Math.max(
      0,
      this.data.metrics.findIndex((one) => one.name === wanted),
    );
  }

  refresh() {
    const { name, sentence } = this.data.metrics[this.metric()];
    const text = sentence || `${name} has no total that could be compared: see the call tree.`;
    this.sentence.textContent = text.replaceAll(" %", "\u00a0%"); // which no line begins with
    this.tiles.replaceChildren(...this.totalTiles(), ...this.scalingTiles(), ...this.onlyTiles());
  }

  // -- the whole in a few numbers -------------------------------------------------------------------------------------

  totalTiles() {
    const { name, names, unit, derived, totals } = this.data.metrics[this.metric()];
    const [left, right] = totals;
    if (left === null || right === null) return [];
    const [first, second] = this.data.sides;
    const amount = amountOf(unit, derived !== "");
    const difference = differenceOf(left, right);
    const ratio = ratioText(ratioOf(left, right));
    return [
      tile(amount(left), `${first}: ${names[0]}`),
      tile(amount(right), `${second}: ${names[1]}`),
      tile(`${difference > 0 ? "+" : ""}${amount(difference)}`, `difference: ${first} − ${second}`, undefined, name),
      ...(ratio ? [tile(ratio, `ratio: ${first} / ${second}`)] : []),
    ];
  }

  scalingTiles() {
    const { scaling, metrics } = this.data;
    const { totals, additive } = metrics[this.metric()];
    const [left, right] = totals;
    if (!scaling || !additive || left === null || right === null) return [];
    const [p, q] = scaling.processes;
    const speedup = left / p / (right / q);
    const efficiency = scaling.kind === "strong" ? left / right : speedup;
    const loss = scaling.kind === "strong" ? (right - left) / right : (right / q - left / p) / (right / q);
    const title = `${scaling.kind} scaling from ${count(p)} to ${count(q)} processes`;
    return [
      tile(percent(loss), "scaling loss", undefined, title),
      tile(ratioText(speedup), "speed-up", undefined, title),
      tile(ratioText(efficiency), "efficiency", undefined, title),
    ];
  }

  onlyTiles() {
    const { metrics, sides, has_tree: hasTree } = this.data;
    const { only, unit, derived } = metrics[this.metric()];
    const amount = amountOf(unit, derived !== "");
    return only.flatMap(([n, cost], side) => {
      if (!n) return [];
      const what = `only in ${sides[side]}: ${count(n)} ${hasTree ? "call path" : "function"}${n === 1 ? "" : "s"}`;
      return [tile(cost === null ? count(n) : amount(cost), what, () => this.open("Call tree"))];
    });
  }

  // -- functions ------------------------------------------------------------------------------------------------------

  /** @returns {BarData} */
  changes() {
    const { tree } = this;
    const metric = this.metric();
    const { difference } = tree.figures(metric, "exclusive");
    const order = Array.from({ length: tree.n }, (_, i) => i).filter((i) => Math.abs(difference(i)) > 0);
    order.sort((a, b) => Math.abs(difference(b)) - Math.abs(difference(a)) || a - b);
    const rows = order.slice(0, N_TOP).map((i) => this.bar(i, metric, difference(i)));
    const caption = `Largest changes: exclusive ${this.data.metrics[metric].name}`;
    return { rows, more: order.length - rows.length, caption, empty: "no function has changed" };
  }

  /**
   * @param {number} i
   * @param {number} metric
   * @param {number} difference
   * @returns {Bar}
   */
  bar(i, metric, difference) {
    const { tree } = this;
    const { unit, derived } = this.data.metrics[metric];
    const amount = amountOf(unit, derived !== "");
    const { left, right } = tree.figures(metric, "exclusive");
    const side = tree.present(i, metric);
    const alone = side === "left" || side === "right" ? `only in ${this.data.sides[side === "left" ? 0 : 1]}` : "";
    const values = alone || `${amount(left(i))} → ${amount(right(i))}`;
    return {
      name: shortName(tree.name(i), tree.kind(i)),
      value: Math.abs(difference),
      colour: difference < 0 ? MORE : LESS,
      text: `${values}  ${amount(Math.abs(difference))} ${difference < 0 ? "more" : "less"}`,
      pick: tree.isMore(i) ? undefined : () => this.find(tree.name(i)),
      details: tree.compared(i, metric),
    };
  }

  /** @param {string} name */
  find(name) {
    this.view.set("search", name);
    this.open(this.data.has_tree ? "Flame graph" : "Call tree");
  }
}
