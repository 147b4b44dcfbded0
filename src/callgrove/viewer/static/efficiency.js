/**
 * Efficiencies of runs, in the table that auditors know. Colours go with numbers and words, and never stand alone.
 *
 * @import { EfficiencyData, EfficiencyFigure, Grade } from "./documents.js"
 * @import { Cell } from "./saving.js"
 */

import { button, element } from "./dom.js";
import { count, percent, si } from "./format.js";
import { csv, save } from "./saving.js";

/** @type {Record<Grade, string>} */
const MARKS = { good: "", fair: "!", poor: "!!" };

/**
 * @param {HTMLElement} place
 * @param {EfficiencyData} data
 */
export function drawEfficiency(place, data) {
  const headings = ["figure", ...data.runs.map((run) => run.name)].map((text, k) =>
    element("th", { text, class: k ? "numeric" : "", attributes: { scope: "col" } }),
  );
  const table = element("table", { class: "efficiencies", attributes: { "aria-label": "Efficiencies" } }, [
    element("thead", {}, [element("tr", {}, headings)]),
    element(
      "tbody",
      {},
      data.figures.map((figure, k) => rowOf(figure, k, data)),
    ),
  ]);
  const saver = element("div", { class: "savers" }, [
    button("CSV", "Save this table as CSV", () => save("efficiency.csv", csvOf(data))),
  ]);
  place.append(
    element("div", { class: "toolbar" }, [legend(data), element("span", { class: "gap" }), saver]),
    element("div", { class: "scrolling" }, [table]),
  );
}

/**
 * @param {EfficiencyFigure} figure
 * @param {number} k
 * @param {EfficiencyData} data
 */
function rowOf(figure, k, data) {
  const heading = element("th", { text: figure.name, attributes: { scope: "row" } });
  heading.style.paddingLeft = `${12 + 18 * figure.depth}px`;
  const cells = data.runs.map((run) => {
    const [value, grade] = [run.values[k], run.grades[k]];
    if (value === null) return element("td", { class: "numeric", text: "–", attributes: { title: figure.missing } });
    const mark = grade && MARKS[grade] ? element("b", { text: ` ${MARKS[grade]}` }) : null;
    const title = grade ? `${figure.name}: ${grade}` : figure.name;
    return element("td", { class: `numeric ${grade}`, attributes: { title } }, [
      document.createTextNode(textOf(figure, value)),
      mark,
    ]);
  });
  return element("tr", {}, [heading, ...cells]);
}

/**
 * A figure as `callgrove pop` prints it.
 * @param {EfficiencyFigure} figure
 * @param {number} value
 */
function textOf(figure, value) {
  if (figure.kind === "efficiency") return value.toFixed(3);
  if (figure.kind === "share") return percent(value);
  return figure.kind === "count" ? count(value) : si(value, figure.unit);
}

/**
 * What the colours mean, in words.
 * @param {EfficiencyData} data
 */
function legend(data) {
  const words = [
    ["good", `${data.good} and more`],
    ["fair", `! ${data.fair} to ${data.good}`],
    ["poor", `!! below ${data.fair}`],
  ];
  return element(
    "div",
    { class: "legend grades" },
    words.map(([grade, text]) => element("span", { class: `key ${grade}`, text })),
  );
}

/** @param {EfficiencyData} data */
function csvOf(data) {
  const header = ["name", "depth", "unit", ...data.runs.map((run) => run.name)];
  const rows = data.figures.map((figure, k) => {
    /** @type {Cell[]} */
    const cells = [figure.name, figure.depth, figure.unit, ...data.runs.map((run) => run.values[k])];
    return cells;
  });
  return new Blob([csv(header, rows)], { type: "text/csv" });
}
