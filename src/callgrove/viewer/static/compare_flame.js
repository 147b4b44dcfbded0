/**
 * The flame graph of a comparison, in two colours: orange where the right side has more, blue where it has less, grey
 * where both have about the same. Boxes are as wide as what the right side has, the left one, both of them, or all
 * changes.
 *
 * @import { ComparedTree, Scope, Width } from "./compare_costs.js"
 * @import { ComparedFlameData } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Colours } from "./flame_colours.js"
 * @import { Store } from "./store.js"
 */

import { LESS, mixed, MORE } from "./colours.js";
import { comparedTreeOf, WIDTHS } from "./compare_costs.js";
import { element, switches } from "./dom.js";
import { chosenMetric, FlameGraph, ORDERS } from "./flame.js";
import { colourer } from "./flame_colours.js";
import { amountOf, count } from "./format.js";

const SAME = "#c9cdd2";
const NEARLY = 0.01; // of the larger side: what differs less is the same
const STEPS = 11;
/** @type {Option[]} */
const COLOURINGS = [
  ["inclusive", "difference"],
  ["exclusive", "exclusive difference"],
  ["name", "name"],
];

/**
 * @param {HTMLElement} place
 * @param {ComparedFlameData} data
 * @param {Store} view
 */
export function drawComparedFlame(place, data, view) {
  const tree = comparedTreeOf(data.tree, data);
  const [left, right] = data.sides;
  /** @type {Width} */
  let width = "right";
  /** @type {Record<Width, string>} */
  const said = { left, right, both: "Both", change: "Difference" };
  const hidden = element("span", { class: "match unseen", attributes: { role: "status" } });
  const page = (/** @type {number} */ metric) => Math.floor(metric / WIDTHS.length);
  const widths = switches(
    "Width",
    WIDTHS.map((one) => [one, said[one]]),
    width,
    (value) => {
      width = WIDTHS.find((one) => one === value) ?? "right";
      const { focus } = graph;
      graph.measure();
      graph.zoom(focus);
      tell();
    },
  );
  const label = element("span", { class: "choice", text: "Width" });
  const graph = new FlameGraph(
    place,
    {
      tree,
      metricOf: (name) => chosenMetric(tree.metrics, name) + WIDTHS.indexOf(width),
      colourings: () => COLOURINGS,
      colours: (metric, by) =>
        by === "name" ? colourer(tree, metric, by) : byDifference(tree, page(metric), scopeOf(by), data.sides),
      details: (i, metric) => tree.compared(i, page(metric)),
      width: (metric) => widthText(width, data.metrics[page(metric)].name, data.sides),
      orders: ORDERS,
      controls: [label, widths.root],
    },
    view,
  );
  const tell = () => (hidden.textContent = unseen(data, page(graph.metric), width));
  place.append(hidden);
  view.watch("metric", tell);
  tell();
  graph.refresh();
}

/**
 * @param {string} text
 * @returns {Scope}
 */
const scopeOf = (text) => (text === "exclusive" ? "exclusive" : "inclusive");

/**
 * @param {Width} width
 * @param {string} name
 * @param {[string, string]} sides
 */
function widthText(width, name, [left, right]) {
  const of = { left: ` of ${left}`, right: ` of ${right}`, both: ` of ${left} and ${right} added up`, change: "" };
  return width === "change" ? `all changes of ${name}, ${left} less ${right}` : `inclusive ${name}${of[width]}`;
}

/**
 * What has no width, since the other side has it alone.
 * @param {ComparedFlameData} data
 * @param {number} metric
 * @param {Width} width
 */
function unseen(data, metric, width) {
  if (width !== "left" && width !== "right") return "";
  const other = width === "left" ? 1 : 0;
  const { only, unit, derived } = data.metrics[metric];
  const [n, cost] = only[other];
  return n ? `not in sight: ${count(n)} only in ${data.sides[other]}, ${amountOf(unit, derived !== "")(cost)}` : "";
}

/**
 * @param {ComparedTree} tree
 * @param {number} metric  of the page
 * @param {Scope} scope
 * @param {[string, string]} sides
 * @returns {Colours}
 */
function byDifference(tree, metric, scope, [left, right]) {
  return {
    of: (i) => shade(tree.change(i, metric, scope)),
    scale: [`only in ${left}`, `only in ${right}`],
    names: [
      [`more in ${right}`, shade(0.5)],
      [`less in ${right}`, shade(-0.5)],
      ["the same within 1%", SAME],
    ],
    ramp: Array.from({ length: STEPS }, (_, k) => shade((2 * k) / (STEPS - 1) - 1)),
    meaning: `${scope} difference: stronger the more it is of the larger side`,
  };
}

/**
 * The colour of a change, as a part of the larger side. A quarter of it is half way, so that small ones can be seen.
 * @param {number} change
 */
function shade(change) {
  if (!(Math.abs(change) > NEARLY)) return SAME;
  return mixed(change < 0 ? LESS : MORE, SAME, 1 - Math.sqrt(Math.abs(change)));
}
