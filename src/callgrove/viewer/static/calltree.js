/** The call tree as a table: top-down, bottom-up (who called the costly functions), or flat. */

import { callerRows, flatRows, treeRows } from "./calltree_rows.js";
import { button, choice, element, switches } from "./dom.js";
import { amountOf, count, percent, shortName, whereabouts } from "./format.js";
import { csv, save } from "./saving.js";
import { createTable } from "./table.js";
import { treeOf } from "./tree.js";

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawCallTree(place, data, view) {
  const { labels, metrics } = data;
  let metric = metricNumber(metrics, view.get("metric"));
  let way = "top-down";
  let by = "function";
  let rows = /** @type {any} */ (null);
  const said = element("span", { class: "match", attributes: { role: "status" } });
  const frame = element("div", { class: "table-frame" });
  const groups = choice("by", data.flat.map((one) => [one.by, one.by]), by, (value) => { by = value; show(); });
  const ways = switches("View", [["top-down", "Top-down"], ["bottom-up", "Bottom-up"], ["flat", "Flat"]], way, (value) => { way = value; show(); });
  const opening = element("span", { class: "opening" }, [
    button("Expand all", "Open every row", () => { rows.openAll(true); update(); }),
    button("Collapse all", "Close every row", () => { rows.openAll(false); update(); }),
    button("Hot path", "Open the rows along the costliest calls", () => { rows.openHot(); update(); }),
  ]);
  place.append(element("div", { class: "toolbar" }, [
    ways.root, groups.root, opening, said, element("span", { class: "gap" }),
    element("div", { class: "savers" }, [button("CSV", "Save this table as CSV", saveCsv)]),
  ]), frame);
  let table = /** @type {any} */ (null);

  function show() {
    groups.root.hidden = way !== "flat";
    opening.hidden = way === "flat";
    rows = way === "top-down" ? treeRows(treeOf(data.tree, labels), metric)
      : way === "bottom-up" ? callerRows(data.callers[metric], labels, metrics[metric].signed)
        : flatRows(data.flat.find((one) => one.by === by), labels, metric, metrics[metric]);
    const shared = way === "top-down" ? "inclusive" : "exclusive";
    table = createTable({
      label: `${way} ${metrics[metric].name}`,
      columns: columnsOf(rows, metrics[metric], shared),
      sortBy: shared,
      onSort: (key, down) => { rows.sort(key === "percent" ? shared : key, down); update(); },
      depth: way === "flat" ? undefined : (i) => rows.depth(i),
      opened: way === "flat" ? undefined : (i) => rows.opened(i),
      onToggle: (i) => { rows.toggle(i); update(); },
      rowClass: (i) => (rows.found(i) ? "found" : rows.isMore?.(i) ? "more" : ""),
    });
    frame.replaceChildren(table.root);
    rows.sort(shared, true);
    rows.search(view.get("search"));
    update(false);
  }

  function update(stay = true) {
    const shown = rows.visible();
    table.setRows(shown, stay);
    const left = rows.left ? `; ${leftOut(rows, metrics[metric])} are not in this page` : "";
    const search = view.get("search").trim();
    said.textContent = `${count(shown.length)} rows${search ? ` for “${search}”` : ""}${left}`;
  }

  function saveCsv() {
    const { whole, additive } = metrics[metric];
    const shared = way === "top-down" ? "inclusive" : "exclusive";
    const header = [...(way === "flat" ? [] : ["context", "depth"]), "name", "kind", "file", "line", "module", "exclusive", "inclusive", "percent"];
    const all = rows.all();
    save(`${way}.csv`, new Blob([csv(header, Array.from(all, (i) => [
      ...(way === "flat" ? [] : [rows.context(i), rows.depth(i)]),
      rows.name(i), rows.kind(i), rows.file(i), rows.line(i) >= 0 ? rows.line(i) : null, rows.module(i),
      finite(rows.exclusive(i)), finite(rows.inclusive(i)), additive && whole ? (100 * rows[shared](i)) / whole : null,
    ]))], { type: "text/csv" }));
  }

  view.watch("metric", (name) => { metric = metricNumber(metrics, name); show(); });
  view.watch("search", (text) => {
    rows.search(text);
    update(false);
    table.seek((i) => rows.found(i), 1, true);
  });
  view.watch("step", ({ by: step }) => table.seek((i) => rows.found(i), step));
  if (!data.callers.some(Boolean)) ways.root.querySelector('[data-value="bottom-up"]')?.remove();
  show();
}

/**
 * @param {any} rows
 * @param {import("./tree.js").Metric} metric
 * @param {"inclusive" | "exclusive"} shared  the cost that percent is of
 * @returns {import("./table.js").Column[]}
 */
function columnsOf(rows, { unit, whole, additive, signed }, shared) {
  const amount = amountOf(unit);
  const cost = (key) => ({
    key, title: key, width: "150px", numeric: true,
    text: (i) => (Number.isFinite(rows[key](i)) ? amount(rows[key](i)) : ""),
    share: additive && whole ? (i) => Math.abs(rows[key](i)) / whole : undefined,
    barClass: signed ? (i) => (rows[key](i) < 0 ? "" : "bar-above") : undefined,
    hint: (i) => `${rows[key](i)} ${unit}`.trim(),
  });
  const place = (i) => [rows.file(i) && `${rows.file(i)}:${rows.line(i)}`, rows.module(i)].filter(Boolean).join("\n");
  return [
    { key: "name", title: "name", width: "minmax(260px, 1fr)", text: (i) => shortName(rows.name(i), rows.kind(i)), hint: (i) => rows.name(i) },
    cost("inclusive"),
    cost("exclusive"),
    { key: "percent", title: "percent", width: "74px", numeric: true, text: (i) => (additive ? percent(rows[shared](i) / (whole || NaN)) : ""), hint: () => (signed ? "of all changes by their sizes" : `of ${shared} cost`) },
    { key: "where", title: "where", width: "minmax(90px, 0.35fr)", text: (i) => whereabouts(rows.file(i), rows.line(i), rows.module(i)), hint: place },
    { key: "kind", title: "kind", width: "96px", text: (i) => rows.kind(i) },
  ];
}

/**
 * What a page has no room for, and what it costs: rows of a flat table, or functions; callers of a function that is shown
 * divide a cost that is shown.
 * @param {any} rows
 * @param {import("./tree.js").Metric} metric
 */
function leftOut(rows, { unit, whole }) {
  const rest = Number.isFinite(rows.rest) ? ` (${amountOf(unit)(rows.rest)}${whole ? `, ${percent(rows.rest / whole)}` : ""} together)` : "";
  if (rows.functionsLeft === undefined) return `${count(rows.left)} more with less cost${rest}`;
  const callers = rows.left - rows.functionsLeft;
  const functions = rows.functionsLeft ? [`${counted(rows.functionsLeft, "more function")} with less cost${rest}`] : [];
  return [...functions, ...(callers ? [counted(callers, "more caller")] : [])].join(" and ");
}

const counted = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

const finite = (value) => (Number.isFinite(value) ? value : null);

function metricNumber(metrics, name) {
  return Math.max(0, metrics.findIndex((one) => one.name === name));
}
