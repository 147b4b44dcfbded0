/** Where costs go as a program grows, at a glance: the costliest call paths at a larger scale, and those that grow most. */

import { createBars } from "./bars.js";
import { element } from "./dom.js";
import { amountOf, number, percent } from "./format.js";
import { brief, lastOf, notation } from "./scaling_text.js";
import { valueAt } from "./functions.js";

const N_BARS = 8;
const LEAST = 0.01; // share at the target from which on growth matters
const GROWS = 1.0005; // times as much as before, from which on it shows in what is written

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawGrowth(place, data, view) {
  const { parameters, functions, target } = data;
  const largest = parameters.map((_, p) =>
    Math.max(...Array.from(data.points).filter((__, k) => k % parameters.length === p)),
  );
  const moved = parameters.map((_, p) => p).filter((p) => target[p] !== largest[p]);
  const text = (at, which) => which.map((p) => `${parameters[p]} = ${brief(at[p])}`).join(", ");
  let metric = metricOf(data, view.get("metric"));

  /** Models of the metric with their values at the largest point and at the target. */
  function models() {
    const own = Array.from(data.callpath, (_, m) => m).filter((m) => data.metric[m] === metric);
    const found = own
      .map((m) => ({ m, now: valueAt(functions, m, largest), then: valueAt(functions, m, target) }))
      .filter((one) => one.then > 0);
    const total = found.reduce((sum, one) => sum + one.then, data.rest[metric]);
    return found.map((one) => ({ ...one, share: one.then / total, growth: one.now > 0 ? one.then / one.now : NaN }));
  }

  function bar(one, value, words) {
    const amount = data.units[metric] ? amountOf(data.units[metric]) : number;
    return {
      name: lastOf(data.callpath[one.m]),
      value,
      text: words(one, amount),
      pick: () => {
        view.set("model", one.m);
        view.set("tab", "Scaling");
      },
      details: {
        title: data.callpath[one.m],
        rows: /** @type {[string, string][]} */ ([
          ["metric", data.metric_names[metric]],
          [`at ${text(largest, moved)}`, amount(one.now)],
          [`at ${text(target, moved)}`, `${amount(one.then)} (${percent(one.share)})`],
          ["growth", notation(data.order[one.m])],
          ["function", notation(data.short[one.m])],
        ]),
      },
    };
  }

  const ranked = (key, fits, words, empty) => (title) => {
    const rows = models()
      .filter(fits)
      .sort((a, b) => b[key] - a[key] || a.m - b.m);
    return {
      rows: rows.slice(0, N_BARS).map((one) => bar(one, one[key], words)),
      more: rows.length - N_BARS,
      empty,
      caption: `${title}: ${data.metric_names[metric]}`,
    };
  };
  const picking = "click to see it over its parameters";
  const cards = [
    [
      "costliest",
      `Costliest at ${text(target, target.length > 3 ? moved : parameters.map((_, p) => p))}`,
      "what the models predict, and its share of them all",
      ranked(
        "share",
        () => true,
        (one, amount) => `${amount(one.then)}  ${percent(one.share)}`,
        "no model has a value above 0 there",
      ),
    ],
    [
      "growing",
      `Grows most from ${text(largest, moved)} to ${text(target, moved)}`,
      `of all with ${percent(LEAST)} or more there`,
      ranked(
        "growth",
        (one) => one.share >= LEAST && one.growth > GROWS,
        (one) => `× ${number(one.growth)}  ${notation(data.order[one.m])}`,
        "nothing grows",
      ),
    ],
  ].map(([name, title, hint, rows]) => {
    const picture = createBars(
      name,
      `${title}. Up and down go from bar to bar, Enter shows its plot.`,
      () => rows(title),
      picking,
    );
    place.append(
      element("section", { class: "card" }, [
        element("div", { class: "card-head" }, [
          element("h2", { text: title }),
          element("span", { class: "hint", text: hint }),
          picture.buttons,
        ]),
        picture.root,
      ]),
    );
    return picture;
  });
  view.watch("metric", (name) => {
    metric = metricOf(data, name);
    for (const card of cards) card.refresh();
  });
}

/** The metric of that name, else the first one. */
function metricOf(data, name) {
  const wanted = data.metric_names.indexOf(name);
  return wanted >= 0 ? wanted : Math.max(0, data.metric_names.indexOf(data.first_metric));
}
