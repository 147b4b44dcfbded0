/** How costs scale: the models of all series as a table, one of them as a plot with what was measured. */

import { button, choice, element } from "./dom.js";
import { amountOf, count, percent } from "./format.js";
import { valueAt } from "./functions.js";
import { axisSwitch, createPlot } from "./plot.js";
import { csv, save } from "./saving.js";
import { matcher } from "./store.js";
import { createTable } from "./table.js";

const SAMPLES = 160;
const ARROW = "->";
const MOST_MARKS = 16;

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawScaling(place, data, view) {
  const nPoints = data.points.length / data.parameters.length;
  const target = Array.from(data.target);
  const point = (k) => Array.from(data.parameters, (_, p) => data.points[k * data.parameters.length + p]);
  const every = Array.from(data.callpath, (_, m) => m);
  let metric = Math.max(0, data.metric_names.indexOf(data.first_metric));
  let along = 0;
  let fixed = point(0).map((_, p) => Math.max(...valuesOf(p)));
  let [logX, logY] = [spread(valuesOf(0)) > 8, false];
  let [sortBy, descending] = ["share", true];
  let shares = sharesAt();
  let chosen = best();
  let shown = every;

  const title = element("h2", { class: "scaling-title" });
  const formula = element("span", { class: "hint mono" });
  const cautions = element("div", { class: "match", attributes: { role: "status" } });
  const fixers = element("span", { class: "opening" });
  const targets = element("span", { class: "opening" });
  const said = element("span", { class: "match", attributes: { role: "status" } });
  const plot = createPlot("scaling", () => Math.max(190, Math.min(300, (place.clientHeight || 560) * 0.46)), plotted);
  const table = createTable({
    label: "Models",
    columns: [
      { key: "callpath", title: "call path", width: "minmax(220px, 1.2fr)", text: (m) => lastOf(data.callpath[m]), hint: (m) => data.callpath[m] },
      { key: "order", title: "growth", width: "minmax(130px, 0.6fr)", text: (m) => data.order[m] },
      { key: "short", title: "function", width: "minmax(220px, 1fr)", text: (m) => data.short[m], hint: (m) => data.function[m] },
      { key: "smape", title: "SMAPE", width: "84px", numeric: true, text: (m) => errorText(data.smape[m]), hint: () => "mean difference between model and measurement, in percent of both" },
      { key: "share", title: "share at target", width: "150px", numeric: true, text: (m) => percent(shares[m]), share: (m) => shares[m], hint: (m) => `${amount()(valueAt(data.functions, m, target))} at ${pointText(target)}` },
    ],
    sortBy, descending,
    onSort: (key, down) => { [sortBy, descending] = [key, down]; update(); },
    rowClass: (m) => (m === chosen ? "found" : ""),
  });
  const metrics = choice("Models of", data.metric_names.map((name, k) => [String(k), name || "<default>"]), String(metric), (value) => { metric = Number(value); chosen = best(); update(false); });
  place.append(
    element("div", { class: "toolbar" }, [
      data.metric_names.length > 1 ? metrics.root : null,
      data.parameters.length > 1 ? choice("Along", data.parameters.map((name, p) => [String(p), name]), "0", (value) => { along = Number(value); logX = spread(valuesOf(along)) > 8; controls(); update(); }).root : null,
      fixers, targets, said, element("span", { class: "gap" }),
      element("div", { class: "savers" }, [button("CSV", "Save this table as CSV", saveCsv)]), plot.buttons,
    ]),
    element("section", { class: "card" }, [
      element("div", { class: "card-head" }, [title, formula, element("span", { class: "gap" }), element("span", { class: "opening axes" })]),
      plot.root, cautions,
    ]),
    element("div", { class: "table-frame" }, [table.root]),
  );

  function valuesOf(p) {
    return [...new Set(Array.from({ length: nPoints }, (_, k) => point(k)[p]))].sort((a, b) => a - b);
  }

  function amount() {
    const unit = data.units[metric];
    return unit ? amountOf(unit) : (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "");
  }

  const pointText = (at) => data.parameters.map((name, p) => `${name} = ${brief(at[p])}`).join(", ");

  /** Of each model, its part of what its metric comes to at the target; what is below 0 counts as nothing. */
  function sharesAt() {
    const value = every.map((m) => valueAt(data.functions, m, target));
    const total = data.metric_names.map(() => 0);
    every.forEach((m) => { if (value[m] > 0) total[data.metric[m]] += value[m]; });
    return every.map((m) => value[m] / (total[data.metric[m]] || NaN));
  }

  function best() {
    return every.filter((m) => data.metric[m] === metric).reduce((a, b) => (a < 0 || shares[b] > shares[a] ? b : a), -1);
  }

  /** Lists of the values that other parameters have, and where to predict. */
  function controls() {
    fixers.replaceChildren(...data.parameters.map((name, p) => (p === along ? "" : choice(name, valuesOf(p).map((v) => [String(v), `${brief(v)}`]), String(fixed[p]), (value) => {
      fixed[p] = Number(value);
      update();
    }).root)));
    targets.replaceChildren(...data.parameters.map((name, p) => {
      const box = /** @type {HTMLInputElement} */ (element("input", { class: "target", attributes: { type: "number", step: "any", value: String(target[p]), "aria-label": `Predict at ${name}` } }));
      box.style.width = "92px";
      box.addEventListener("change", () => {
        if (!Number.isFinite(box.valueAsNumber)) return;
        target[p] = box.valueAsNumber;
        shares = sharesAt();
        update();
      });
      return element("label", { class: "choice" }, [element("span", { text: p ? name : `predict at ${name}` }), box]);
    }));
    place.querySelector(".axes")?.replaceChildren(
      axisSwitch(`log ${data.parameters[along]}`, logX, (on) => { logX = on; plot.redraw(); }),
      axisSwitch(`log ${data.metric_names[metric] || "value"}`, logY, (on) => { logY = on; plot.redraw(); }),
    );
  }

  function update(stay = true) {
    const fits = matcher(view.get("search") ?? "");
    shown = every.filter((m) => data.metric[m] === metric && (!fits || fits(data.callpath[m])));
    const keys = { smape: data.smape, share: shares };
    const compare = keys[sortBy] ? (a, b) => number(keys[sortBy][a]) - number(keys[sortBy][b]) : (a, b) => (data[sortBy][a] < data[sortBy][b] ? -1 : data[sortBy][a] > data[sortBy][b] ? 1 : 0);
    shown.sort((a, b) => (descending ? compare(b, a) : compare(a, b)) || a - b);
    table.setRows(shown, stay);
    said.textContent = `${count(shown.length)} ${shown.length === 1 ? "model" : "models"}`;
    choose(chosen);
  }

  function choose(m) {
    chosen = m;
    title.textContent = m < 0 ? "" : lastOf(data.callpath[m]);
    title.title = m < 0 ? "" : data.callpath[m];
    formula.textContent = m < 0 ? "" : data.short[m];
    formula.title = m < 0 ? "" : data.function[m];
    cautions.textContent = data.cautions.filter((one) => Array.from(one.models).includes(m)).map((one) => one.text).join("; ");
    table.redraw();
    controls();
    plot.redraw();
  }

  /** What the plot shows: the chosen model along one parameter, the others as they are fixed. */
  function plotted() {
    const here = chosen < 0 ? [] : Array.from({ length: nPoints }, (_, k) => k).filter((k) => point(k).every((value, p) => p === along || value === fixed[p]) && Number.isFinite(data.value[chosen * nPoints + k]));
    const measured = valuesOf(along);
    const ends = [...measured, target[along]].filter(Number.isFinite);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const at = (x) => fixed.map((value, p) => (p === along ? x : value));
    const write = amount();
    const xs = Array.from({ length: SAMPLES + 1 }, (_, k) => (logX && low > 0 ? low * (high / low) ** (k / SAMPLES) : low + ((high - low) * k) / SAMPLES));
    const atTarget = valueAt(data.functions, Math.max(chosen, 0), at(target[along]));
    return {
      xTitle: data.parameters[along], yTitle: `${data.metric_names[metric] || "value"} (${data.measure})`,
      logX: logX && low > 0, logY, xMarks: ends.length <= MOST_MARKS ? [...new Set(ends)].sort((a, b) => a - b) : [], xText: brief, yText: write,
      empty: chosen < 0 ? "there is no model to show" : "",
      curve: /** @type {[number, number][]} */ (chosen < 0 ? [] : [...xs, Math.max(...measured)].sort((a, b) => a - b).map((x) => [x, valueAt(data.functions, chosen, at(x))])),
      beyond: Math.max(...measured),
      points: here.map((k) => {
        const [value, least, most] = ["value", "low", "high"].map((name) => data[name][chosen * nPoints + k]);
        const model = valueAt(data.functions, chosen, point(k));
        return {
          x: point(k)[along], y: value, low: least, high: most,
          details: { title: pointText(point(k)), rows: /** @type {[string, string][]} */ ([
            [data.measure, write(value)], ["smallest", least < most ? write(least) : ""], ["largest", least < most ? write(most) : ""],
            ["model", write(model)], ["difference", value ? `${model >= value ? "+" : ""}${(100 * (model / value - 1)).toFixed(1)}%` : ""],
          ]) },
        };
      }),
      target: chosen >= 0 && target[along] > Math.max(...measured) ? { x: target[along], y: atTarget, text: write(atTarget) } : null,
    };
  }

  function saveCsv() {
    const header = ["callpath", "metric", "function", "order", "smape", "ar2", "re", "prediction", "share"];
    save("models.csv", new Blob([csv(header, shown.map((m) => [
      data.callpath[m], data.metric_names[metric], data.function[m], data.order[m], data.smape[m], data.ar2[m], data.re[m],
      valueAt(data.functions, m, target), 100 * shares[m],
    ]))], { type: "text/csv" }));
  }

  table.root.addEventListener("click", (event) => {
    const row = /** @type {HTMLElement} */ (event.target).closest(".row");
    if (row) choose(shown[Number(row.getAttribute("aria-rowindex")) - 2]);
  });
  table.root.addEventListener("keydown", (event) => {
    const row = table.root.querySelector(".row.cursor");
    if (row && event.target === table.root) choose(shown[Number(row.getAttribute("aria-rowindex")) - 2]);
  });
  view.watch("search", () => update(false));
  view.watch("metric", (name) => {
    if (!data.metric_names.includes(name)) return;
    metric = data.metric_names.indexOf(name);
    metrics.set(String(metric));
    chosen = best();
    update(false);
  });
  controls();
  update(false);
}

const number = (value) => (Number.isFinite(value) ? value : -Infinity);
const spread = (values) => (values[0] > 0 ? values[values.length - 1] / values[0] : 1);
const lastOf = (path) => path.split(ARROW).slice(-2).join(" › ");
const brief = (value) => String(Number(value.toPrecision(6)));
const errorText = (value) => (Number.isFinite(value) ? `${value < 10 ? value.toFixed(1) : value.toFixed(0)}%` : "");
