/**
 * The provider of a report: everything lies in the page already.
 *
 * @import { Outline, Panel, Provider, Report, Requests, Section, SectionOutline } from "./documents.js"
 */

export const OVERVIEW = "Overview";

/** @implements {Provider} */
export class InlinedProvider {
  live = false;

  /** @param {Report} report */
  constructor(report) {
    this.report = report;
  }

  /** @returns {Promise<Outline>} */
  async outline() {
    const { title, by, sections } = this.report;
    return { title, by, sections: sections.map(outlineOf) };
  }

  /**
   * @template {keyof Requests} N
   * @param {N} name
   * @param {Requests[N]["parameters"]} parameters
   * @returns {Promise<Requests[N]["answer"]>}
   */
  async get(name, parameters) {
    if (name !== "tab" || !("tab" in parameters)) throw new Error(`a report has no answer to ${name}`);
    const { panels } = this.report.sections[parameters.input];
    const answer = { panels: panels.filter((panel) => panel.title === parameters.tab) };
    return /** @type {Requests[N]["answer"]} */ (answer);
  }
}

/**
 * @param {Section} section
 * @returns {SectionOutline}
 */
function outlineOf({ panels, ...words }) {
  const titles = new Set([OVERVIEW, ...panels.map((panel) => panel.title)]);
  const tabs = [...titles].map((title) => ({
    title,
    has_metric: panels.some((panel) => panel.title === title && hasMetrics(panel)),
  }));
  const { names, first } = metricsOf(panels);
  return {
    ...words,
    tabs,
    metrics: names,
    first_metric: first,
    inputs: [],
    options: {},
    refused: {},
    has_contexts: false,
  };
}

/**
 * Does a panel show a metric? Others show times, whichever is chosen.
 * @param {Panel} panel
 */
function hasMetrics({ data }) {
  return "metrics" in data || "metric_names" in data;
}

/**
 * Names of the metrics to choose from, and the one shown first: those of contexts, or else those of models.
 * @param {Panel[]} panels
 */
function metricsOf(panels) {
  for (const { data } of panels) {
    if (!("metrics" in data)) continue;
    const names = data.metrics.map((one) => one.name);
    return { names, first: names[0] ?? "" };
  }
  for (const { data } of panels)
    if ("metric_names" in data) return { names: data.metric_names, first: data.first_metric };
  return { names: [], first: "" };
}
