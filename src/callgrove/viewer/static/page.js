/**
 * The page around panels: a title, sections, tabs, and what all panels of a section agree on. What a tab shows is asked
 * for when it is first opened.
 *
 * @import { Kind, Look, Outline, Panel, PanelData, Provider, SectionOutline, TabOutline } from "./documents.js"
 *
 * @typedef {(section: Tabs) => HTMLElement} Bar  what a section has below its tabs
 *
 * @typedef {Object} Page
 * @property {Tabs[]} sections
 * @property {number} shown  which of them
 * @property {(number: number) => Promise<void>} show
 * @property {() => void} onShow  called when another one is shown
 *
 * @typedef {Object} Tab
 * @property {string} name
 * @property {boolean} hasMetric
 * @property {HTMLElement} tab
 * @property {HTMLElement} panel
 * @property {string} drawn  the look that it shows
 * @property {AbortController} asked  ends a request that nobody waits for any more
 * @property {Store | null} view  of the panels that are drawn
 */

/**
 * Who draws panels.
 * @template {Kind} [N=Kind]
 * @typedef {{ [K in N]: (place: HTMLElement, data: PanelData[K], view: Store, provider: Provider) => void }} Drawers
 */

import { button, choice, element } from "./dom.js";
import { drawFacts, explanation } from "./facts.js";
import { OVERVIEW } from "./provider.js";
import { Store } from "./store.js";
import { tooltip } from "./tooltip.js";

const WITHOUT_PICTURES = [OVERVIEW, "SQL"]; // tabs that every input has
const WAITING_MS = 300; // until a tab that is still empty says so

/**
 * @param {HTMLElement} body
 * @param {Provider} provider
 * @param {Partial<Drawers>} drawers
 * @param {Bar} [bar]
 */
export async function drawPage(body, provider, drawers, bar) {
  const main = element("main");
  const outline = await provider.outline();
  const sections = outline.sections.map((section, input) => new Tabs(section, input, provider, drawers, bar));
  /** @type {Page} */
  const page = {
    sections,
    shown: 0,
    onShow: () => {},
    show: async (number) => {
      tooltip.hide();
      page.shown = number;
      header.choose(number);
      main.replaceChildren(sections[number].root);
      await sections[number].shown();
      page.onShow();
    },
  };
  const header = headerOf(body, outline, page.show);
  body.append(header.root, main);
  document.addEventListener("keydown", (event) => pressed(event, body, sections));
  if (sections.length) await page.show(0);
  return page;
}

/**
 * @param {HTMLElement} body
 * @param {Outline} outline
 * @param {(number: number) => void} show  a section
 */
function headerOf(body, { title, sections }, show) {
  const format = sections[0]?.facts.find(([word]) => word === "format")?.[1] ?? "";
  const inputs = choice(
    "Input",
    sections.map((section, i) => [String(i), nameOf(section, i)]),
    "0",
    (value) => show(Number(value)),
  );
  const root = element("header", { class: "top" }, [
    element("span", { class: "brand", text: "callgrove" }),
    element("h1", { text: title }),
    sections.length === 1 ? element("span", { class: "chip", text: format }) : null,
    sections.length > 1 ? inputs.root : null,
    element("span", { class: "gap" }),
    button("Keys", "Which keys do what (?)", () => toggleHelp(body)),
    button("Theme", "Light or dark", toggleTheme),
  ]);
  return { root, choose: (/** @type {number} */ number) => inputs.set(String(number)) };
}

/**
 * Does whoever presses a key there type a text?
 * @param {EventTarget | null} target
 */
function typing(target) {
  const kinds = [HTMLInputElement, HTMLSelectElement, HTMLTextAreaElement];
  return kinds.some((kind) => target instanceof kind);
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement} body
 * @param {Tabs[]} sections
 */
function pressed(event, body, sections) {
  if (event.key === "Escape") body.querySelector(".help")?.remove();
  if (typing(event.target)) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const shown = sections.find((section) => section.root.isConnected);
  if (event.key === "?") toggleHelp(body);
  else if (event.key === "/") {
    event.preventDefault();
    shown?.focusSearch();
  } else if (/^[1-9]$/.test(event.key)) shown?.open(Number(event.key) - 1, true);
}

/**
 * @param {SectionOutline} section
 * @param {number} i
 */
function nameOf(section, i) {
  const path = section.facts.find(([word]) => word === "opened")?.[1] ?? "";
  return `${i + 1}: ${section.title || path}`;
}

/** One input: its tabs, each drawn when first opened. */
export class Tabs {
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
   * @param {SectionOutline} section
   * @param {number} input  its number
   * @param {Provider} provider
   * @param {Partial<Drawers>} drawers
   * @param {Bar} [bar]
   */
  constructor(section, input, provider, drawers, bar) {
    const { metrics, first_metric } = section;
    this.section = section;
    this.input = input;
    this.provider = provider;
    this.drawers = drawers;
    this.view = new Store({
      input,
      metrics,
      metric: first_metric,
      search: "",
      step: null,
      tab: OVERVIEW,
      window: null,
      time: null,
      reveal: null,
      model: null,
      derive: [],
      filter: "",
      columns: [],
      at: {},
      named: "",
    });
    this.metric = this.metricChoice(metrics, first_metric);
    this.tabs = section.tabs.map((tab, i) => this.tabOf(tab, i));
    this.build(bar);
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
   * Offer other metrics, and show one of them.
   * @param {string[]} names
   * @param {string} metric
   */
  setMetrics(names, metric) {
    const made = this.metricChoice(names, metric);
    made.hidden = this.metric.hidden;
    this.metric.replaceWith(made);
    this.metric = made;
    this.view.set("metrics", names);
    this.view.set("metric", metric);
    this.shown();
  }

  /**
   * @param {TabOutline} outline
   * @param {number} i
   * @returns {Tab}
   */
  tabOf({ title: name, has_metric: hasMetric }, i) {
    const id = `panel-${name.toLowerCase().replace(/\W+/g, "-")}`;
    const tab = element("button", {
      class: "tab",
      text: name,
      attributes: { type: "button", role: "tab", "aria-controls": id, title: `${name} (${i + 1})` },
      on: { click: () => this.open(i) },
    });
    const panel = element("div", { class: `panel ${id}`, attributes: { role: "tabpanel", id, hidden: "" } });
    return { name, hasMetric, tab, panel, drawn: "", asked: new AbortController(), view: null };
  }

  /** @param {Bar} [below] */
  build(below) {
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
        this.partButton(),
        element("span", { class: "gap" }),
        this.metric,
        section.tabs.length > 1 || section.metrics.length ? this.search : null,
      ]),
      ...(below ? [below(this)] : []),
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

  partButton() {
    const { part } = this.section;
    if (!part) return null;
    return element("button", {
      class: "partial",
      text: "part of the input",
      attributes: { type: "button", title: part },
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
    view.watch("metric", () => this.provider.live && this.shown());
    view.watch("tab", (name) => this.open(this.tabs.findIndex((one) => one.name === name)));
  }

  /** Draw the open tab, or the first. */
  shown() {
    const at = this.tabs.findIndex((one) => !one.panel.hidden);
    return this.open(Math.max(0, at));
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
    this.metric.hidden = !opened.hasMetric;
    if (focus) opened.tab.focus();
    this.view.set("tab", opened.name);
    return this.refresh(opened);
  }

  /**
   * Draw a tab, unless it shows already what is looked at.
   * @param {Tab} tab
   */
  async refresh(tab) {
    const { input, provider, view } = this;
    const look = { input, metric: view.get("metric"), derive: view.get("derive"), filter: view.get("filter") };
    const shows = provider.live ? JSON.stringify(look) : "everything";
    if (tab.drawn === shows) return;
    tab.drawn = shows;
    tab.asked.abort();
    tab.asked = new AbortController();
    const { signal } = tab.asked;
    const waiting = setTimeout(() => sayWaiting(tab.panel), WAITING_MS);
    try {
      const { panels } = await provider.get("tab", { ...look, tab: tab.name }, signal);
      if (signal.aborted) return;
      this.draw(tab, panels);
      if (tab.name === OVERVIEW) this.explain(tab, look, signal);
    } catch (error) {
      if (signal.aborted) return;
      tab.drawn = "";
      this.draw(tab, [{ kind: "unavailable", title: tab.name, data: { reason: messageOf(error) }, notes: [] }]);
    } finally {
      clearTimeout(waiting);
    }
  }

  /**
   * @param {Tab} tab
   * @param {Panel[]} panels
   */
  draw(tab, panels) {
    tab.panel.replaceChildren();
    tab.view?.dismiss();
    const view = this.view.branch();
    tab.view = view;
    const place = tab.name === OVERVIEW ? this.overviewOf(tab.panel, panels) : tab.panel;
    for (const panel of panels) this.drawPanel(place, panel, view);
    const notes = [...new Set(panels.flatMap((panel) => panel.notes))].map((text) => element("p", { text }));
    if (notes.length) tab.panel.append(element("div", { class: "notes" }, notes));
  }

  /**
   * Say in sentences what is looked at, once pictures are there: that may take longer than they do. A report has its
   * sentences from the beginning.
   * @param {Tab} tab
   * @param {Look} look
   * @param {AbortSignal} signal
   */
  async explain(tab, look, signal) {
    if (!this.provider.live) return;
    try {
      const { explained } = await this.provider.get("explained", look, signal);
      if (!signal.aborted && explained.length)
        tab.panel.querySelector(".overview-facts")?.prepend(explanation(explained));
    } catch {
      // the pictures stay; what is wrong with the input is said when it is asked for anything else
    }
  }

  /**
   * @template {Kind} K
   * @param {HTMLElement} place
   * @param {Panel<K>} panel
   * @param {Store} view
   */
  drawPanel(place, panel, view) {
    this.drawers[panel.kind]?.(place, panel.data, view, this.provider);
  }

  /**
   * Facts, and where panels are drawn beside them.
   * @param {HTMLElement} panel
   * @param {Panel[]} panels
   */
  overviewOf(panel, panels) {
    const facts = element("div", { class: "overview-facts" });
    const side = element("div", { class: "overview-main" });
    panel.append(element("div", { class: "overview" }, [facts, side]));
    drawFacts(facts, this.section);
    const text = "There is nothing to draw: no context has a cost, and no call, operation or sample was traced.";
    if (!panels.length && this.tabs.every((one) => WITHOUT_PICTURES.includes(one.name)))
      side.append(element("section", { class: "card" }, [element("p", { class: "reason", text })]));
    return side;
  }
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
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
  ["S", "in a flame graph of the viewer: the function between its callers and what it calls"],
  ["W S A D", "in a timeline: zoom in and out, move to the left and right; Shift W, Shift S: fewer or more rows"],
  ["Shift ← →", "in a timeline: select a range; Enter zooms to it"],
  ["Space", "in the table of models: draw the one at the cursor together with others, or no more"],
  ["arrows", "in a surface of models: turn and tilt it; Home turns it back"],
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

/**
 * Say that something is on its way, where there is nothing to look at until it comes.
 * @param {HTMLElement} panel
 */
function sayWaiting(panel) {
  if (panel.childElementCount) return;
  panel.append(element("p", { class: "match", text: "Computing …", attributes: { role: "status" } }));
}
