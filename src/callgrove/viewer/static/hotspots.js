/** Where the cost is, at a glance: the functions with the highest cost of their own, and the hot path. */

import { createBars } from "./bars.js";
import { element } from "./dom.js";
import { amountOf, percent, shortName, whereabouts } from "./format.js";

const N_TOP = 10;
const [LONGEST, FIRST, LAST] = [14, 4, 9]; // rows of a hot path, and which of a longer one

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawHotspots(place, data, view) {
  const { labels, metrics, top, paths } = data;
  let metric = Math.max(0, metrics.findIndex((one) => one.name === view.get("metric")));
  const nameOf = (label) => shortName(labels.name[label], labels.kind[label]);

  const picking = "click to see it in the flame graph";
  const functions = createBars("top-functions", "Functions with the highest exclusive cost. Up and down go from bar to bar, Enter shows it in the flame graph.", () => {
    const costs = top.exclusive[metric];
    const order = Array.from(costs, (_, i) => i).filter((i) => Number.isFinite(costs[i]) && costs[i] > 0);
    order.sort((a, b) => costs[b] - costs[a] || a - b);
    return { rows: order.slice(0, N_TOP).map((i) => row(top.label[i], costs[i], top.inclusive[metric][i], costs[i])), more: 0, caption: `Hottest functions: exclusive ${metrics[metric].name}` };
  }, picking);
  const path = createBars("hot-path", "Hot path: inclusive cost from the root down. Up and down go from bar to bar, Enter shows it in the flame graph.", () => {
    const found = paths[metric];
    const all = Array.from(found.label, (label, i) => row(label, found.inclusive[i], found.inclusive[i], found.exclusive[i])).filter((one) => Number.isFinite(one.value));
    const gap = { ...all[0], gap: `… ${all.length - FIRST - LAST} more levels`, text: "" };
    const shown = all.length > LONGEST ? [...all.slice(0, FIRST), gap, ...all.slice(-LAST)] : all;
    return { rows: shown.map((one, depth) => ({ ...one, depth })), more: 0, caption: `Hot path: inclusive ${metrics[metric].name}` }; // steps of a stair: real depths leave no room to read
  }, picking);

  /** Where it is in the flame graph. */
  function find(name) {
    view.set("search", name);
    view.set("tab", "Flame graph");
  }

  function row(label, cost, inclusive, exclusive) {
    const { unit, total, additive, name } = metrics[metric];
    const amount = amountOf(unit);
    const share = additive && total ? cost / total : NaN;
    return {
      name: nameOf(label), value: cost, text: `${amount(cost)}${Number.isFinite(share) ? `  ${percent(share)}` : ""}`, pick: () => find(labels.name[label]),
      details: {
        title: labels.name[label],
        rows: /** @type {[string, string][]} */ ([
          ["metric", name], ["exclusive", amount(exclusive)], ["inclusive", amount(inclusive)], ["kind", labels.kind[label]],
          ["where", whereabouts(labels.file[label], labels.line[label], "")], ["module", labels.module[label]],
        ]),
      },
    };
  }

  const tiles = element("div", { class: "tiles" });
  const functionTitle = element("h2", { text: "Hottest functions" });
  const pathTitle = element("h2", { text: "Hot path" });
  place.append(
    tiles,
    element("section", { class: "card" }, [element("div", { class: "card-head" }, [functionTitle, element("span", { class: "hint", text: "exclusive cost" }), functions.buttons]), functions.root]),
    element("section", { class: "card" }, [element("div", { class: "card-head" }, [pathTitle, element("span", { class: "hint", text: "inclusive cost, from the root along the costliest calls" }), path.buttons]), path.root]),
  );
  refreshTiles();
  view.watch("metric", (name) => {
    metric = Math.max(0, metrics.findIndex((one) => one.name === name));
    functions.refresh();
    path.refresh();
    refreshTiles();
  });

  /** The whole in a few numbers. */
  function refreshTiles() {
    const { name, unit, total, additive } = metrics[metric];
    const costs = top.exclusive[metric];
    const hottest = costs.reduce((best, cost, i) => (cost > (costs[best] ?? 0) ? i : best), -1);
    const imbalance = data.imbalance[name];
    tiles.replaceChildren(
      additive && Number.isFinite(total) ? tile(amountOf(unit)(total), `${name} in total`, undefined, "of all profiles together") : "",
      additive && total > 0 && hottest >= 0 ? tile(percent(costs[hottest] / total), `in ${nameOf(top.label[hottest])}`, () => find(labels.name[top.label[hottest]])) : "",
      !(Number.isFinite(imbalance) && imbalance >= 0) ? "" : tile(`+${percent(imbalance)}`, "imbalance of profiles", () => view.set("tab", "Spread"), "how much more than the mean the busiest profile has"),
    );
  }
}

/** A number and what it is; some lead to where more is said of it. */
function tile(number, text, go, title = text) {
  const parts = [element("strong", { text: number }), element("span", { text })];
  return go
    ? element("button", { class: "tile", attributes: { type: "button", title }, on: { click: go } }, parts)
    : element("div", { class: "tile", attributes: { title } }, parts);
}
