/** Where the cost is, at a glance: the functions with the highest cost of their own, and the hot path. */

import { createBars } from "./bars.js";
import { LESS, MORE } from "./colours.js";
import { element } from "./dom.js";
import { amountOf, count, percent, shortName, whereabouts } from "./format.js";

const N_TOP = 10;
const [LONGEST, FIRST, LAST] = [14, 4, 9]; // rows of a hot path, and which of a longer one

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawHotspots(place, data, view) {
  const { labels, metrics, top, paths } = data;
  let metric = Math.max(
    0,
    metrics.findIndex((one) => one.name === view.get("metric")),
  );
  const nameOf = (label) => shortName(labels.name[label], labels.kind[label]);
  const sizeOf = (cost) => (metrics[metric].signed ? Math.abs(cost) : cost);
  const titles = () =>
    metrics[metric].signed
      ? {
          functions: "Largest changes",
          path: "Path of the largest changes",
          hint: "inclusive cost, from the root along what changed most",
        }
      : {
          functions: "Hottest functions",
          path: "Hot path",
          hint: "inclusive cost, from the root along the costliest calls",
        };

  const picking = "click to see it in the flame graph";
  const functions = createBars(
    "top-functions",
    "Functions with the highest exclusive cost. Up and down go from bar to bar, Enter shows it in the flame graph.",
    () => {
      const costs = top.exclusive[metric];
      const order = Array.from(costs, (_, i) => i).filter((i) => Number.isFinite(costs[i]) && sizeOf(costs[i]) > 0);
      order.sort((a, b) => sizeOf(costs[b]) - sizeOf(costs[a]) || a - b);
      return {
        rows: order.slice(0, N_TOP).map((i) => row(top.label[i], costs[i], top.inclusive[metric][i], costs[i])),
        more: 0,
        caption: `${titles().functions}: exclusive ${metrics[metric].name}`,
      };
    },
    picking,
  );
  const path = createBars(
    "hot-path",
    "Hot path: inclusive cost from the root down. Up and down go from bar to bar, Enter shows it in the flame graph.",
    () => {
      const found = paths[metric];
      const all = Array.from(found.label, (label, i) =>
        row(label, found.inclusive[i], found.inclusive[i], found.exclusive[i]),
      ).filter((one) => Number.isFinite(one.value));
      const gap = { ...all[0], gap: `… ${all.length - FIRST - LAST} more levels`, text: "" };
      const shown = all.length > LONGEST ? [...all.slice(0, FIRST), gap, ...all.slice(-LAST)] : all;
      return {
        rows: shown.map((one, depth) => ({ ...one, depth })),
        more: 0,
        caption: `${titles().path}: inclusive ${metrics[metric].name}`,
      }; // steps of a stair: real depths leave no room to read
    },
    picking,
  );

  /** Where it is in the flame graph. */
  function find(name) {
    view.set("search", name);
    view.set("tab", "Flame graph");
  }

  function row(label, cost, inclusive, exclusive) {
    const { unit, whole, additive, name, signed } = metrics[metric];
    const amount = amountOf(unit);
    const share = additive && whole ? cost / whole : NaN;
    return {
      name: nameOf(label),
      value: sizeOf(cost),
      colour: signed ? (cost < 0 ? LESS : MORE) : undefined,
      text: `${amount(cost)}${Number.isFinite(share) ? `  ${percent(share)}` : ""}`,
      pick: () => find(labels.name[label]),
      details: {
        title: labels.name[label],
        rows: /** @type {[string, string][]} */ ([
          ["metric", name],
          ["exclusive", amount(exclusive)],
          ["inclusive", amount(inclusive)],
          ["kind", labels.kind[label]],
          ["where", whereabouts(labels.file[label], labels.line[label], "")],
          ["module", labels.module[label]],
        ]),
      },
    };
  }

  const tiles = element("div", { class: "tiles" });
  const functionTitle = element("h2");
  const pathTitle = element("h2");
  const pathHint = element("span", { class: "hint" });
  place.append(
    tiles,
    element("section", { class: "card" }, [
      element("div", { class: "card-head" }, [
        functionTitle,
        element("span", { class: "hint", text: "exclusive cost" }),
        functions.buttons,
      ]),
      functions.root,
    ]),
    element("section", { class: "card" }, [
      element("div", { class: "card-head" }, [pathTitle, pathHint, path.buttons]),
      path.root,
    ]),
  );
  refreshTiles();
  view.watch("metric", (name) => {
    metric = Math.max(
      0,
      metrics.findIndex((one) => one.name === name),
    );
    functions.refresh();
    path.refresh();
    refreshTiles();
  });

  /** The whole in a few numbers. */
  function refreshTiles() {
    const { name, unit, total, whole, additive, signed, gain, loss } = metrics[metric];
    const amount = amountOf(unit);
    const costs = top.exclusive[metric];
    const hottest = costs.reduce((best, cost, i) => (sizeOf(cost) > sizeOf(costs[best] ?? 0) ? i : best), -1);
    const imbalance = data.imbalance[name];
    const said = titles();
    [functionTitle.textContent, pathTitle.textContent, pathHint.textContent] = [said.functions, said.path, said.hint];
    const runs = data.n_runs > 1 ? `${count(data.n_runs)} runs added up` : "";
    const find_ = hottest >= 0 ? () => find(labels.name[top.label[hottest]]) : undefined;
    tiles.replaceChildren(
      additive && Number.isFinite(total)
        ? tile(
            amount(total),
            signed ? `difference of ${name}` : `${name} ${runs ? `of ${runs}` : "in total"}`,
            runs && data.has_spread ? () => view.set("tab", "Spread") : undefined,
            runs ? "--run chooses one of them" : "of all profiles together",
          )
        : "",
      signed ? tile(amount(gain), "more", undefined, "where costs lie above zero") : "",
      signed ? tile(amount(loss), "less", undefined, "where costs lie below zero") : "",
      additive && whole > 0 && hottest >= 0
        ? tile(
            percent(sizeOf(costs[hottest]) / whole),
            `in ${nameOf(top.label[hottest])}`,
            find_,
            signed ? "of all changes by their sizes" : undefined,
          )
        : "",
      !(Number.isFinite(imbalance) && imbalance >= 0)
        ? ""
        : tile(
            `+${percent(imbalance)}`,
            "imbalance of profiles",
            () => view.set("tab", "Spread"),
            "how much more than the mean the busiest profile has",
          ),
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
