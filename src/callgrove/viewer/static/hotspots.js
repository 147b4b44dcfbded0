/** Where the cost is, at a glance: the functions with the highest cost of their own, and the hot path. */

import { createPicture, fitting, themeColours } from "./canvas.js";
import { CATEGORIES, inkOn, mixed } from "./colours.js";
import { element } from "./dom.js";
import { amountOf, percent, shortName, whereabouts } from "./format.js";
import { tooltip } from "./tooltip.js";

const N_TOP = 10;
const ROW = 23;
const STEP = 8;

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawHotspots(place, data, view) {
  const { labels, metrics, top, paths } = data;
  let metric = Math.max(0, metrics.findIndex((one) => one.name === view.get("metric")));
  const nameOf = (label) => shortName(labels.name[label], labels.kind[label]);

  const functions = bars("top-functions", "Functions with the highest exclusive cost", () => {
    const costs = top.exclusive[metric];
    const order = Array.from(costs, (_, i) => i).filter((i) => Number.isFinite(costs[i]) && costs[i] > 0);
    order.sort((a, b) => costs[b] - costs[a] || a - b);
    return order.slice(0, N_TOP).map((i) => row(top.label[i], costs[i], top.inclusive[metric][i], costs[i], 0));
  }, find);
  const path = bars("hot-path", "Hot path: inclusive cost from the root down", () => {
    const found = paths[metric];
    const all = Array.from(found.label, (label, i) => row(label, found.inclusive[i], found.inclusive[i], found.exclusive[i], found.depth[i]));
    const shown = all.length > 14 ? [...all.slice(0, 4), { gap: all.length - 13 }, ...all.slice(-9)] : all;
    return shown.map((one, i) => ({ ...one, depth: i })); // steps of a stair: real depths leave no room to read
  }, find);

  /** Where it is in the flame graph. */
  function find(name) {
    view.set("search", name);
    view.set("tab", "Flame graph");
  }

  function row(label, cost, inclusive, exclusive, depth) {
    const { unit, total, additive, name } = metrics[metric];
    const amount = amountOf(unit);
    const share = additive && total ? cost / total : NaN;
    return {
      name: nameOf(label), cost, text: `${amount(cost)}${Number.isFinite(share) ? `  ${percent(share)}` : ""}`, share, depth,
      details: {
        title: labels.name[label],
        rows: /** @type {[string, string][]} */ ([
          ["metric", name], ["exclusive", amount(exclusive)], ["inclusive", amount(inclusive)], ["kind", labels.kind[label]],
          ["where", whereabouts(labels.file[label], labels.line[label], "")], ["module", labels.module[label]],
        ]),
      },
    };
  }

  const functionTitle = element("h2", { text: "Hottest functions" });
  const pathTitle = element("h2", { text: "Hot path" });
  place.append(
    element("section", { class: "card" }, [element("div", { class: "card-head" }, [functionTitle, element("span", { class: "hint", text: "exclusive cost" }), functions.buttons]), functions.root]),
    element("section", { class: "card" }, [element("div", { class: "card-head" }, [pathTitle, element("span", { class: "hint", text: "inclusive cost, from the root along the costliest calls" }), path.buttons]), path.root]),
  );
  view.watch("metric", (name) => {
    metric = Math.max(0, metrics.findIndex((one) => one.name === name));
    functions.refresh();
    path.refresh();
  });
}

/** Horizontal bars with their names inside or beside them; a click chooses one. */
function bars(name, label, rowsOf, chosen) {
  let rows = rowsOf();
  const picture = createPicture({ name, label, height: () => Math.max(rows.length, 1) * ROW + 4, draw });
  function draw(surface, width) {
    const theme = themeColours();
    if (!rows.length) surface.text(4, ROW / 2, "nothing has a cost here", { fill: theme.muted });
    const most = Math.max(...rows.map((one) => (one.gap ? 0 : one.cost)), 0) || 1;
    const widest = Math.max(...rows.map((one) => (one.gap ? 0 : surface.measure(one.text, { size: 12 }))), 0) + 10;
    const room = Math.max(width - widest, 80);
    const deepest = Math.min(Math.max(...rows.map((one) => one.depth ?? 0), 0) * STEP, room * 0.3);
    rows.forEach((one, i) => drawRow(surface, one, i * ROW + 2, most, room, deepest, width, theme));
  }
  function drawRow(surface, one, y, most, room, deepest, width, theme) {
    if (one.gap) {
      surface.text(one.depth * STEP + 6, y + ROW / 2 - 1, `… ${one.gap} more levels`, { fill: theme.muted, size: 12 });
      return;
    }
    const indent = Math.min(one.depth * STEP, deepest);
    const length = Math.max(((room - deepest) * Math.max(one.cost, 0)) / most, 2);
    const fill = mixed(CATEGORIES[0], theme.ground, 0.62 - 0.5 * Math.min(one.cost / most, 1));
    surface.rect(indent, y, length, ROW - 4, fill);
    const inside = fitting(surface, one.name, length - 10, { size: 12 });
    if (inside === one.name) surface.text(indent + 6, y + (ROW - 4) / 2, inside, { fill: inkOn(fill), size: 12 });
    else surface.text(indent + length + 6, y + (ROW - 4) / 2, fitting(surface, one.name, room - indent - length - 12, { size: 12 }) || inside, { fill: theme.ink, size: 12 });
    surface.text(width - 2, y + (ROW - 4) / 2, one.text, { fill: theme.muted, size: 12, anchor: "end" });
  }
  const rowAt = (event) => {
    const one = rows[Math.floor(event.offsetY / ROW)];
    return one && !one.gap ? one : null;
  };
  picture.canvas.addEventListener("mousemove", (event) => {
    const one = rowAt(event);
    picture.canvas.style.cursor = one ? "pointer" : "default";
    if (one) tooltip.show(one.details, event.clientX, event.clientY);
    else tooltip.hide();
  });
  picture.canvas.addEventListener("click", (event) => {
    const one = rowAt(event);
    if (one) chosen(one.details.title);
  });
  picture.canvas.addEventListener("mouseleave", () => tooltip.hide());
  return { root: picture.root, buttons: picture.buttons, refresh: () => { rows = rowsOf(); picture.redraw(); } };
}
