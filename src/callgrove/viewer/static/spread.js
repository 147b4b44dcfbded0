/** The spread over profiles: a heat map by rank and thread, and the same costs in descending order. */

import { createBars } from "./bars.js";
import { createPicture, fitting, themeColours } from "./canvas.js";
import { CATEGORIES, LESS, MORE, scale } from "./colours.js";
import { button, choice, element } from "./dom.js";
import { amountOf, count, percent } from "./format.js";
import { csv, save } from "./saving.js";
import { descending, laidOut, mapHeight, WIDEST } from "./spread_layout.js";
import { tooltip } from "./tooltip.js";

const LEFT = 70; // pixels beside the sorted bars
const ABOVE = 22; // over the highest
const BROADEST = 90; // the widest bar
const MOST_RUNS = 100;
const HINTS = {
  std: "standard deviation over profiles",
  imbalance: "how much more than the mean the largest is",
  "none in": "profiles without any of this cost",
};

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawSpread(place, data, view) {
  const { grid, labels, metrics } = data;
  const known = (name) => data.rows.some((row) => row.metric === name);
  let metric = known(view.get("metric")) ? view.get("metric") : data.rows[0].metric;
  let row = 0;
  let cursor = 0; // the cell that the keyboard is at
  let rung = -1; // the bar
  const statistics = element("div", { class: "statistics", attributes: { role: "status" } });
  const chooser = element("span");
  const layout = laidOut(grid);
  const map = createPicture({
    name: "spread",
    label: "Heat map of cost by rank and thread. Arrow keys walk through it.",
    height: (width) => mapHeight(width, layout),
    draw: drawMap,
    caption,
  });
  const sorted = createPicture({
    name: "spread-sorted",
    label: "Cost of each profile in descending order. Left and right go from bar to bar.",
    height: () => 190,
    draw: drawSorted,
    caption,
  });
  const rowsOf = () => data.rows.filter((one) => one.metric === metric);
  const current = () => rowsOf()[row];
  const unit = () => metrics.find((one) => one.name === metric)?.unit ?? "";
  const nameOf = (one) => (one.label < 0 ? "everything" : labels.name[one.label]);
  const isSigned = () => Boolean(metrics.find((one) => one.name === metric)?.signed);
  const runs = data.runs ? createBars("runs", "Cost of each run. Up and down go from bar to bar.", runBars, "") : null;
  place.append(
    element("div", { class: "toolbar" }, [
      chooser,
      statistics,
      element("span", { class: "gap" }),
      element("div", { class: "savers" }, [button("CSV", "Save these numbers as CSV", saveCsv)]),
    ]),
    element("div", { class: "scrolling" }, [
      runs
        ? element("section", { class: "card" }, [
            element("div", { class: "card-head" }, [
              element("h2", { text: "Run by run" }),
              element("span", {
                class: "hint",
                text: "all profiles of each together; imbalance is how much more than their mean the largest has",
              }),
              runs.buttons,
            ]),
            runs.root,
          ])
        : null,
      element("section", { class: "card" }, [
        element("div", { class: "card-head" }, [
          element("h2", { text: "By rank and thread" }),
          element("span", { class: "hint", text: layout.hint }),
          map.buttons,
        ]),
        map.root,
      ]),
      element("section", { class: "card" }, [
        element("div", { class: "card-head" }, [element("h2", { text: "In descending order" }), sorted.buttons]),
        sorted.root,
      ]),
    ]),
  );

  function caption() {
    const parts = grid.n_joined > 1 ? `, the mean of up to ${grid.n_joined} in a row` : "";
    return [{ text: `exclusive ${metric} of ${nameOf(current())}, by rank and thread${parts}` }];
  }

  function refresh() {
    chooser.replaceChildren(
      choice(
        "Cost of",
        rowsOf().map((one, i) => [String(i), nameOf(one)]),
        String(row),
        (value) => {
          row = Number(value);
          refresh();
        },
      ).root,
    );
    const one = current();
    const amount = amountOf(unit());
    const facts = [
      ["min", amount(one.all_min)],
      ["mean", amount(one.all_mean)],
      ["max", amount(one.all_max)],
      ["std", amount(one.all_std)],
      ["imbalance", percent(one.all_imbalance)],
    ];
    if (one.all_none) facts.push(["none in", `${count(one.all_none)} of ${count(data.n_profiles)} profiles`]);
    statistics.replaceChildren(
      ...facts
        .filter(([, text]) => text)
        .map(([word, text]) =>
          element("span", { class: "fact", attributes: { title: HINTS[word] ?? word } }, [
            element("b", { text: word }),
            element("span", { text }),
          ]),
        ),
    );
    map.redraw();
    sorted.redraw();
    runs?.refresh();
  }

  /** Runs side by side: what each costs, and how unevenly its own profiles share it. */
  function runBars() {
    const one = current();
    const amount = amountOf(unit());
    const uneven = (i) =>
      Number.isFinite(one.run_imbalance[i]) && one.run_mean[i] > 0 && one.run_imbalance[i] > 0
        ? `  +${percent(one.run_imbalance[i])} imbalance`
        : "";
    const rows = data.runs.map((name, i) => ({
      name,
      value: Math.abs(one.run_sum[i]),
      colour: isSigned() ? (one.run_sum[i] < 0 ? LESS : MORE) : undefined,
      text: `${amount(one.run_sum[i])}${isSigned() ? "" : uneven(i)}`,
      details: {
        title: name,
        rows: /** @type {[string, string][]} */ ([
          ["sum", amount(one.run_sum[i])],
          ["mean of profiles", amount(one.run_mean[i])],
          ["largest", amount(one.run_max[i])],
          ["of", nameOf(one)],
          ["metric", metric],
        ]),
      },
    }));
    return {
      rows: rows.slice(0, MOST_RUNS),
      more: rows.length - MOST_RUNS,
      caption: `${metric} of ${nameOf(one)}, run by run`,
    };
  }

  function boxes(width) {
    const left = layout.named ? Math.min(Math.max(...layout.rowNames.map((name) => name.length)) * 6.6 + 16, 190) : 8;
    const cell = Math.max((width - left - 8) / layout.nColumns, 0.5);
    const tall = (mapHeight(width, layout) - 46) / layout.nRows;
    return { left, cell: Math.min(cell, WIDEST), tall };
  }

  function drawMap(surface, width) {
    const theme = themeColours();
    const one = current();
    const { left, cell, tall } = boxes(width);
    const [low, high] = [one.all_min, one.all_max];
    const gap = cell > 5 && tall > 5 ? 1 : 0;
    for (let i = 0; i < one.mean.length; i++) {
      const share = high > low ? (one.mean[i] - low) / (high - low) : 0.5;
      surface.rect(
        left + layout.x[i] * cell,
        layout.y[i] * tall,
        Math.max(cell - gap, 0.5),
        Math.max(tall - gap, 0.5),
        one.mean[i] && Number.isFinite(one.mean[i]) ? scale(share) : theme.faint,
      );
    }
    layout.rowNames.forEach((name, i) => {
      if (layout.named && (tall >= 12 || i % Math.ceil(14 / tall) === 0))
        surface.text(left - 6, (i + 0.5) * tall, fitting(surface, name, left - 8, { size: 11 }), {
          size: 11,
          fill: theme.muted,
          anchor: "end",
        });
    });
    const y = layout.nRows * tall;
    drawColumnNames(surface, left, cell, y + 9, width, theme);
    drawRamp(surface, left, y + 24, low, high, one.all_none > 0, theme);
    if (document.activeElement === map.canvas)
      surface.rect(
        left + layout.x[cursor] * cell,
        layout.y[cursor] * tall,
        Math.max(cell - gap, 2),
        Math.max(tall - gap, 2),
        "",
        theme.accent,
      );
  }

  function drawColumnNames(surface, left, cell, y, width, theme) {
    let free = -Infinity;
    layout.columnNames.forEach((name, i) => {
      const text = layout.short ? name.replace(/^rank (\d+)$/, "$1") : name;
      const middle = left + (i + 0.5) * cell;
      const half = surface.measure(text, { size: 11 }) / 2;
      if (middle - half < free || middle + half > width) return;
      surface.text(middle, y, text, { size: 11, fill: theme.muted, anchor: "middle" });
      free = middle + half + 8;
    });
  }

  /** What colours mean. Where the ends look the same, their difference is said. */
  function drawRamp(surface, left, y, low, high, none, theme) {
    const amount = amountOf(unit());
    const style = { size: 11, fill: theme.muted };
    const from = amount(low);
    const to = amount(high) === from && high > low ? `${from} (+${amount(high - low)})` : amount(high);
    const start = Math.round(left + surface.measure(from, style) + 6);
    surface.text(left, y + 6, from, style);
    for (let i = 0; i < 40; i++) surface.rect(start + i * 4, y, 4, 12, scale(i / 39));
    surface.text(start + 166, y + 6, to, style);
    if (!none) return;
    const beside = start + 166 + surface.measure(to, style) + 18;
    surface.rect(beside, y, 12, 12, theme.faint);
    surface.text(beside + 18, y + 6, "none", style);
  }

  /** How wide a bar of the sorted costs is, with the gap beside it. */
  const barWidth = (width) => Math.min((width - LEFT - 8) / current().mean.length, BROADEST);
  const nameOfCell = (i) =>
    `${grid.columns[grid.column[i]]} ${grid.lanes.length > 1 || grid.lanes[0] !== "process" ? grid.lanes[grid.lane[i]] : ""}`.trim();

  function drawSorted(surface, width, height) {
    const theme = themeColours();
    const one = current();
    const amount = amountOf(unit());
    const order = descending(one.mean);
    const least = Math.min(one.all_min, 0); // null, which is no number, counts as 0
    const most = Math.max(one.all_max, 0) || (least < 0 ? 0 : 1);
    const bottom = height - 22;
    const wide = barWidth(width);
    const bar = Math.max(wide - (wide > 40 ? 8 : wide > 3 ? 1 : 0), 0.5);
    const named = wide > 30 && order.every((i) => surface.measure(nameOfCell(i), { size: 11 }) < wide - 4);
    const y = (value) => bottom - (((Number.isFinite(value) ? value : 0) - least) / (most - least)) * (bottom - ABOVE);
    for (const mark of new Set([least, least < 0 ? 0 : most / 2, most])) {
      surface.line(
        [
          [LEFT, y(mark)],
          [width - 8, y(mark)],
        ],
        theme.faint,
      );
      surface.text(LEFT - 6, y(mark), amount(mark), { size: 11, fill: theme.muted, anchor: "end" });
    }
    order.forEach((i, k) => {
      const x = LEFT + k * wide;
      const [high, low] = [Math.min(y(one.mean[i]), y(0)), Math.max(y(one.mean[i]), y(0))];
      surface.rect(x, high, bar, low - high, CATEGORIES[4]);
      if (one.low)
        surface.line(
          [
            [x + bar / 2, y(one.low[i])],
            [x + bar / 2, y(one.high[i])],
          ],
          theme.muted,
          0.7,
        );
      if (named)
        surface.text(x + bar / 2, height - 9, nameOfCell(i), { size: 11, fill: theme.muted, anchor: "middle" });
      if (k === rung && document.activeElement === sorted.canvas)
        surface.rect(x, ABOVE - 4, bar, bottom - ABOVE + 4, "", theme.accent);
    });
    const mean = y(one.all_mean);
    if (one.all_mean !== null)
      surface.line(
        [
          [LEFT, mean],
          [width - 8, mean],
        ],
        CATEGORIES[5],
        1.5,
        true,
      );
    if (one.all_mean !== null)
      surface.text(width - 10, mean - 8, `mean ${amount(one.all_mean)}`, { size: 11, fill: theme.ink, anchor: "end" });
    if (one.all_mean === null)
      surface.text(width / 2, height / 2, "some values are not numbers", {
        size: 12,
        fill: theme.muted,
        anchor: "middle",
      });
    if (!named) surface.text(LEFT, height - 9, `${count(data.n_profiles)} profiles`, { size: 11, fill: theme.muted });
  }

  function details(i) {
    const one = current();
    const amount = amountOf(unit());
    const far = one.all_mean ? one.mean[i] / one.all_mean - 1 : 0;
    return {
      title: nameOfCell(i),
      rows: /** @type {[string, string][]} */ ([
        [one.low ? "mean" : "cost", amount(one.mean[i])],
        ["against the mean", Number.isFinite(far) ? `${far >= 0 ? "+" : ""}${(100 * far).toFixed(1)}%` : ""],
        ["of", nameOf(one)],
        ["metric", metric],
        ["profiles", one.low ? String(grid.n_profiles[i]) : ""],
        ["smallest", one.low ? amount(one.low[i]) : ""],
        ["largest", one.low ? amount(one.high[i]) : ""],
      ]),
    };
  }

  map.canvas.addEventListener("mousemove", (event) => {
    const { left, cell, tall } = boxes(map.size().width);
    const hit = layout.at(Math.floor((event.offsetX - left) / cell), Math.floor(event.offsetY / tall));
    if (hit >= 0) tooltip.show(details(hit), event.clientX, event.clientY);
    else tooltip.hide();
  });
  sorted.canvas.addEventListener("mousemove", (event) => {
    const order = descending(current().mean);
    const hit = order[Math.floor((event.offsetX - LEFT) / barWidth(sorted.size().width))];
    if (hit !== undefined) tooltip.show(details(hit), event.clientX, event.clientY);
    else tooltip.hide();
  });
  map.canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = layout.at(layout.x[cursor] + step[0], layout.y[cursor] + step[1]);
    if (next >= 0) cursor = next;
    const { left, cell, tall } = boxes(map.size().width);
    const box = map.canvas.getBoundingClientRect();
    tooltip.show(details(cursor), box.left + left + layout.x[cursor] * cell, box.top + layout.y[cursor] * tall);
    map.redraw();
  });
  sorted.canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const order = descending(current().mean);
    rung = Math.min(Math.max(rung + step, 0), order.length - 1);
    const box = sorted.canvas.getBoundingClientRect();
    tooltip.show(details(order[rung]), box.left + LEFT + rung * barWidth(sorted.size().width), box.top + 20);
    sorted.redraw();
  });
  for (const picture of [map, sorted]) {
    picture.canvas.addEventListener("mouseleave", () => tooltip.hide());
    picture.canvas.addEventListener("blur", () => {
      tooltip.hide();
      picture.redraw();
    });
    picture.canvas.addEventListener("focus", () => picture.redraw());
  }

  function saveCsv() {
    const header = [
      "rank",
      "lane",
      "profiles",
      "metric",
      "of",
      "mean",
      ...(current().low ? ["smallest", "largest"] : []),
    ];
    const lines = rowsOf().flatMap((one) =>
      Array.from(one.mean, (mean, i) => [
        grid.columns[grid.column[i]],
        grid.lanes[grid.lane[i]],
        grid.n_profiles[i],
        metric,
        nameOf(one),
        mean,
        ...(one.low ? [one.low[i], one.high[i]] : []),
      ]),
    );
    save("spread.csv", new Blob([csv(header, lines)], { type: "text/csv" }));
  }

  view.watch("metric", (name) => {
    if (!known(name)) return;
    metric = name;
    row = 0;
    refresh();
  });
  refresh();
}
