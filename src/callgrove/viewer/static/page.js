/**
 * The page around panels: a title, sections, tabs, and what all panels of a section agree on.
 *
 * @import { Kind, Panel, PanelData, Report, Section } from "./documents.js"
 *
 * @typedef {{ [K in Kind]: (place: HTMLElement, data: PanelData[K], view: Store) => void }} Drawers  of panels
 *
 * @typedef {{ name: string, tab: HTMLElement, panel: HTMLElement, panels: Panel[], drawn: boolean }} Tab
 */

import { button, choice, element } from "./dom.js";
import { drawFacts } from "./facts.js";
import { Store } from "./store.js";
import { tooltip } from "./tooltip.js";

const OVERVIEW = "Overview";

/**
 * @param {HTMLElement} body
 * @param {Report} report
 * @param {Drawers} drawers
 */
export function drawPage(body, report, drawers) {
  const main = element("main");
  const sections = report.sections.map((section) => new Tabs(section, drawers));
  /** @param {number} number */
  const show = (number) => {
    tooltip.hide();
    main.replaceChildren(sections[number].root);
    sections[number].shown();
  };
  body.append(headerOf(body, report, show), main);
  document.addEventListener("keydown", (event) => pressed(event, body, sections));
  if (sections.length) show(0);
}

/**
 * @param {HTMLElement} body
 * @param {Report} report
 * @param {(number: number) => void} show  a section
 */
function headerOf(body, { title, sections }, show) {
  const format = sections[0]?.facts.find(([word]) => word === "format")?.[1] ?? "";
  const inputs = () =>
    choice(
      "Input",
      sections.map((section, i) => [String(i), nameOf(section, i)]),
      "0",
      (value) => show(Number(value)),
    ).root;
  return element("header", { class: "top" }, [
    element("span", { class: "brand", text: "callgrove" }),
    element("h1", { text: title }),
    sections.length === 1 ? element("span", { class: "chip", text: format }) : null,
    sections.length > 1 ? inputs() : null,
    element("span", { class: "gap" }),
    button("Keys", "Which keys do what (?)", () => toggleHelp(body)),
    button("Theme", "Light or dark", toggleTheme),
  ]);
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement} body
 * @param {Tabs[]} sections
 */
function pressed(event, body, sections) {
  if (event.key === "Escape") body.querySelector(".help")?.remove();
  if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const shown = sections.find((section) => section.root.isConnected);
  if (event.key === "?") toggleHelp(body);
  else if (event.key === "/") {
    event.preventDefault();
    shown?.focusSearch();
  } else if (/^[1-9]$/.test(event.key)) shown?.open(Number(event.key) - 1, true);
}

/**
 * @param {Section} section
 * @param {number} i
 */
function nameOf(section, i) {
  const path = section.facts.find(([word]) => word === "opened")?.[1] ?? "";
  return `${i + 1}: ${section.title || path}`;
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

/** One input: its tabs, each drawn when first opened. */
class Tabs {
  root = element("div", { class: "section" });
  search = element("input", {
    attributes: {
      type: "search",
      placeholder: "Search names  /",
      "aria-label": "Search by name, or by /pattern/",
      spellcheck: "false",
    },
  });

  /**
   * @param {Section} section
   * @param {Drawers} drawers
   */
  constructor(section, drawers) {
    const { names, first } = metricsOf(section.panels);
    this.section = section;
    this.drawers = drawers;
    this.view = new Store({
      metrics: names,
      metric: first,
      search: "",
      step: null,
      tab: OVERVIEW,
      window: null,
      model: null,
    });
    this.metric = this.metricChoice(names, first);
    const titles = new Set([OVERVIEW, ...section.panels.map((panel) => panel.title)]);
    this.tabs = [...titles].map((name, i) => this.tabOf(name, i));
    this.build();
    this.listen();
  }

  /**
   * @param {string[]} names
   * @param {string} first
   */
  metricChoice(names, first) {
    if (names.length < 2) return element("span", { class: "only-metric", text: first });
    return choice(
      "Metric",
      names.map((name) => [name, name || "<default>"]),
      first,
      (value) => this.view.set("metric", value),
    ).root;
  }

  /**
   * @param {string} name
   * @param {number} i
   * @returns {Tab}
   */
  tabOf(name, i) {
    const id = `panel-${name.toLowerCase().replace(/\W+/g, "-")}`;
    const tab = element("button", {
      class: "tab",
      text: name,
      attributes: { type: "button", role: "tab", "aria-controls": id, title: `${name} (${i + 1})` },
      on: { click: () => this.open(i) },
    });
    const panel = element("div", { class: `panel ${id}`, attributes: { role: "tabpanel", id, hidden: "" } });
    const panels = this.section.panels.filter((one) => one.title === name);
    return { name, tab, panel, panels, drawn: false };
  }

  build() {
    const { section } = this;
    const bar = element(
      "div",
      { class: "tabs", attributes: { role: "tablist", "aria-label": "Views" } },
      this.tabs.map((one) => one.tab),
    );
    bar.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      if (!step) return;
      const at = this.tabs.findIndex((one) => one.tab.getAttribute("aria-selected") === "true");
      this.open((at + step + this.tabs.length) % this.tabs.length, true);
    });
    this.root.append(
      element("div", { class: "tabbar" }, [
        bar,
        this.damageButton(),
        element("span", { class: "gap" }),
        this.metric,
        section.panels.length ? this.search : null,
      ]),
      ...this.tabs.map((one) => one.panel),
    );
  }

  damageButton() {
    const damage = this.section.warnings.find(([severity]) => severity === "damage");
    if (!damage) return null;
    return element("button", {
      class: "damaged",
      text: "damaged input",
      attributes: { type: "button", title: damage[1] },
      on: { click: () => this.open(0) },
    });
  }

  listen() {
    const { search, view } = this;
    search.addEventListener("input", () => view.set("search", search.value));
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        search.value = "";
        view.set("search", "");
        search.blur();
      }
      if (event.key === "Enter") view.set("step", { by: event.shiftKey ? -1 : 1 });
    });
    view.watch("search", (text) => {
      if (search.value !== text) search.value = text;
    });
    view.watch("tab", (name) => this.open(this.tabs.findIndex((one) => one.name === name)));
  }

  /** Draw the open tab, or the first. */
  shown() {
    const at = this.tabs.findIndex((one) => !one.panel.hidden);
    this.open(Math.max(0, at));
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  /**
   * @param {number} number
   * @param {boolean} [focus]
   */
  open(number, focus = false) {
    const opened = this.tabs[number];
    if (!opened) return;
    tooltip.hide();
    for (const one of this.tabs) {
      one.tab.setAttribute("aria-selected", String(one === opened));
      one.tab.tabIndex = one === opened ? 0 : -1;
      one.panel.hidden = one !== opened;
    }
    this.metric.hidden = !opened.panels.some(hasMetrics);
    if (focus) opened.tab.focus();
    this.view.set("tab", opened.name);
    if (!opened.drawn) this.draw(opened);
  }

  /** @param {Tab} tab */
  draw(tab) {
    tab.drawn = true;
    const place = tab.name === OVERVIEW ? this.overviewOf(tab.panel) : tab.panel;
    for (const panel of tab.panels) this.drawPanel(place, panel);
    const notes = [...new Set(tab.panels.flatMap((panel) => panel.notes))].map((text) => element("p", { text }));
    if (notes.length) tab.panel.append(element("div", { class: "notes" }, notes));
  }

  /**
   * @template {Kind} K
   * @param {HTMLElement} place
   * @param {Panel<K>} panel
   */
  drawPanel(place, panel) {
    this.drawers[panel.kind](place, panel.data, this.view);
  }

  /**
   * Facts, and where panels are drawn beside them.
   * @param {HTMLElement} panel
   */
  overviewOf(panel) {
    const facts = element("div", { class: "overview-facts" });
    const side = element("div", { class: "overview-main" });
    panel.append(element("div", { class: "overview" }, [facts, side]));
    drawFacts(facts, this.section);
    const text = "There is nothing to draw: no context has a cost, and nothing was traced.";
    if (!this.section.panels.length)
      side.append(element("section", { class: "card" }, [element("p", { class: "reason", text })]));
    return side;
  }
}

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  document.dispatchEvent(new Event("callgrove-theme"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.dispatchEvent(new Event("callgrove-theme")),
);

const KEYS = [
  ["1 … 9", "open a view"],
  ["← →", "next view, while one of their names has the focus"],
  ["/", "search"],
  ["Enter", "in the search: the next call that it found; with Shift the one before"],
  ["Tab", "go to the picture or table"],
  ["arrows", "walk through calls, rows or cells"],
  ["Enter", "zoom to a call; open or close a row"],
  ["+ −", "zoom in and out"],
  ["Backspace", "zoom out to the caller"],
  ["Esc", "show everything; end the search"],
  ["wheel", "zoom; with Ctrl or Shift where the picture scrolls"],
  ["W S A D", "in a timeline: zoom in and out, move to the left and right"],
  ["Home End", "in a timeline: its beginning and end; in a table: the first and last row"],
];

/** @param {HTMLElement} body */
function toggleHelp(body) {
  const open = body.querySelector(".help");
  if (open) {
    open.remove();
    return;
  }
  const close = button("Close", "Close (Escape)", () => root.remove());
  const root = element(
    "div",
    {
      class: "help",
      attributes: { role: "dialog", "aria-label": "Keys" },
      on: {
        keydown: (event) => {
          if (event.key === "Escape") root.remove();
        },
      },
    },
    [
      element("h2", { text: "Keys" }),
      element(
        "dl",
        {},
        KEYS.flatMap(([key, text]) => [element("dt", { text: key }), element("dd", { text })]),
      ),
      close,
    ],
  );
  body.append(root);
  close.focus();
}
