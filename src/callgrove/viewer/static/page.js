/** The page around panels: a title, sections, tabs, and what all panels of a section agree on. */

import { button, choice, element } from "./dom.js";
import { drawFacts } from "./facts.js";
import { createStore } from "./store.js";
import { tooltip } from "./tooltip.js";

const OVERVIEW = "Overview";

/**
 * @typedef {function(HTMLElement, any, import("./store.js").Store): void} Drawer  draws data into an element
 */

/**
 * @param {HTMLElement} body
 * @param {any} report
 * @param {Object<string, Drawer>} drawers  by kind of panel
 */
export function drawPage(body, report, drawers) {
  const main = element("main");
  const sections = report.sections.map((section) => createSection(section, drawers));
  const show = (number) => {
    tooltip.hide();
    main.replaceChildren(sections[number].root);
    sections[number].shown();
  };
  const chooser =
    sections.length > 1
      ? choice(
          "Input",
          report.sections.map((section, i) => [String(i), nameOf(section, i)]),
          "0",
          (value) => show(Number(value)),
        ).root
      : null;
  const first = report.sections[0];
  const format = first?.facts.find(([word]) => word === "format")?.[1] ?? "";
  body.append(
    element("header", { class: "top" }, [
      element("span", { class: "brand", text: "callgrove" }),
      element("h1", { text: report.title }),
      sections.length === 1 ? element("span", { class: "chip", text: format }) : null,
      chooser,
      element("span", { class: "gap" }),
      button("Keys", "Which keys do what (?)", () => toggleHelp(body)),
      button("Theme", "Light or dark", toggleTheme),
    ]),
    main,
  );
  document.addEventListener("keydown", (event) => {
    const help = event.key === "Escape" && body.querySelector(".help");
    if (help) help.remove();
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const shown = sections.find((section) => section.root.isConnected);
    if (event.key === "?") toggleHelp(body);
    else if (event.key === "/") {
      event.preventDefault();
      shown?.focusSearch();
    } else if (/^[1-9]$/.test(event.key)) shown?.open(Number(event.key) - 1, true);
  });
  if (sections.length) show(0);
}

function nameOf(section, i) {
  const path = section.facts.find(([word]) => word === "opened")?.[1] ?? "";
  return `${i + 1}: ${section.title || path}`;
}

/** Does a panel show a metric? Others show times, whichever is chosen. */
function hasMetrics(panel) {
  return Boolean(panel.data.metrics || panel.data.metric_names);
}

/** Names of the metrics to choose from, and the one shown first: those of contexts, or else those of models. */
function metricsOf(panels) {
  const ofContexts = panels.find((panel) => panel.data.metrics)?.data.metrics;
  if (ofContexts) return { names: ofContexts.map((one) => one.name), first: ofContexts[0]?.name ?? "" };
  const ofModels = panels.find((panel) => panel.data.metric_names)?.data;
  return { names: ofModels?.metric_names ?? [], first: ofModels?.first_metric ?? "" };
}

/** One input: its tabs, each drawn when first opened. */
function createSection(section, drawers) {
  const names = [...new Set([OVERVIEW, ...section.panels.map((panel) => panel.title)])];
  const metrics = metricsOf(section.panels);
  const view = createStore({ metrics: metrics.names, metric: metrics.first, search: "", tab: OVERVIEW });
  const bar = element("div", { class: "tabs", attributes: { role: "tablist", "aria-label": "Views" } });
  const root = element("div", { class: "section" });
  const tabs = names.map((name, i) => {
    const id = `panel-${name.toLowerCase().replace(/\W+/g, "-")}`;
    const tab = element("button", {
      class: "tab",
      text: name,
      attributes: { type: "button", role: "tab", "aria-controls": id, title: `${name} (${i + 1})` },
      on: { click: () => open(i) },
    });
    const panel = element("div", { class: `panel ${id}`, attributes: { role: "tabpanel", id, hidden: "" } });
    bar.append(tab);
    const panels = section.panels.filter((one) => one.title === name);
    return { name, tab, panel, panels, drawn: false };
  });
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex((one) => one.tab.getAttribute("aria-selected") === "true");
    open((at + step + tabs.length) % tabs.length, true);
  });
  const search = /** @type {HTMLInputElement} */ (
    element("input", {
      attributes: {
        type: "search",
        placeholder: "Search names  /",
        "aria-label": "Search by name, or by /pattern/",
        spellcheck: "false",
      },
    })
  );
  search.addEventListener("input", () => view.set("search", search.value));
  view.watch("search", (text) => {
    if (search.value !== text) search.value = text;
  });
  view.watch("tab", (name) => open(names.indexOf(name)));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      search.value = "";
      view.set("search", "");
      search.blur();
    }
    if (event.key === "Enter") view.set("step", { by: event.shiftKey ? -1 : 1 });
  });
  const metric =
    metrics.names.length > 1
      ? choice(
          "Metric",
          metrics.names.map((name) => [name, name || "<default>"]),
          metrics.first,
          (value) => view.set("metric", value),
        ).root
      : element("span", { class: "only-metric", text: metrics.first });
  const damaged = section.warnings.find(([severity]) => severity === "damage");
  root.append(
    element("div", { class: "tabbar" }, [
      bar,
      damaged
        ? element("button", {
            class: "damaged",
            text: "damaged input",
            attributes: { type: "button", title: damaged[1] },
            on: { click: () => open(0) },
          })
        : null,
      element("span", { class: "gap" }),
      metric,
      section.panels.length ? search : null,
    ]),
    ...tabs.map((one) => one.panel),
  );

  function open(number, focus = false) {
    if (!tabs[number]) return;
    tooltip.hide();
    tabs.forEach((one, i) => {
      one.tab.setAttribute("aria-selected", String(i === number));
      one.tab.tabIndex = i === number ? 0 : -1;
      one.panel.hidden = i !== number;
    });
    metric.hidden = !tabs[number].panels.some(hasMetrics);
    if (focus) tabs[number].tab.focus();
    view.set("tab", names[number]);
    if (!tabs[number].drawn) draw(tabs[number]);
  }

  function draw(tab) {
    tab.drawn = true;
    const { panels } = tab;
    if (tab.name === OVERVIEW) {
      const side = element("div", { class: "overview-main" });
      tab.panel.append(element("div", { class: "overview" }, [element("div", { class: "overview-facts" }), side]));
      drawFacts(/** @type {HTMLElement} */ (tab.panel.querySelector(".overview-facts")), section);
      for (const panel of panels) drawers[panel.kind](side, panel.data, view);
      if (!section.panels.length)
        side.append(
          element("section", { class: "card" }, [
            element("p", {
              class: "reason",
              text: "There is nothing to draw: no context has a cost, and nothing was traced.",
            }),
          ]),
        );
    } else {
      for (const panel of panels) drawers[panel.kind](tab.panel, panel.data, view);
    }
    const notes = [...new Set(panels.flatMap((panel) => panel.notes))];
    if (notes.length)
      tab.panel.append(
        element(
          "div",
          { class: "notes" },
          notes.map((text) => element("p", { text })),
        ),
      );
  }

  return {
    root,
    open,
    shown: () =>
      open(
        Math.max(
          0,
          tabs.findIndex((one) => !one.panel.hidden),
        ),
      ),
    focusSearch: () => {
      search.focus();
      search.select();
    },
  };
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
