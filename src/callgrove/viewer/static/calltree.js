/** The call tree as a table: top-down, bottom-up (who called the costly functions), or flat. */

import { button, choice, element, switches } from "./dom.js";
import { amountOf, count, percent, shortName, whereabouts } from "./format.js";
import { csv, save } from "./saving.js";
import { matcher } from "./store.js";
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
      : way === "bottom-up" ? callerRows(data.callers[metric], labels)
        : flatRows(data.flat.find((one) => one.by === by), labels, metric, metrics[metric].additive);
    const { unit, total, additive, name } = metrics[metric];
    const amount = amountOf(unit);
    const cost = (key, title) => ({
      key, title, width: "150px", numeric: true,
      text: (i) => (Number.isFinite(rows[key](i)) ? amount(rows[key](i)) : ""),
      share: additive && total ? (i) => rows[key](i) / total : undefined,
      hint: (i) => `${rows[key](i)} ${unit}`.trim(),
    });
    const shared = way === "top-down" ? "inclusive" : "exclusive";
    table = createTable({
      label: `${way} ${name}`,
      columns: [
        { key: "name", title: "name", width: "minmax(260px, 1fr)", text: (i) => shortName(rows.name(i), rows.kind(i)), hint: (i) => rows.name(i) },
        cost("inclusive", "inclusive"),
        cost("exclusive", "exclusive"),
        { key: "percent", title: "percent", width: "74px", numeric: true, text: (i) => (additive ? percent(rows[shared](i) / (total || NaN)) : ""), hint: () => `of ${shared} cost` },
        { key: "where", title: "where", width: "minmax(90px, 0.35fr)", text: (i) => whereabouts(rows.file(i), rows.line(i), rows.module(i)), hint: (i) => [rows.file(i) && `${rows.file(i)}:${rows.line(i)}`, rows.module(i)].filter(Boolean).join("\n") },
        { key: "kind", title: "kind", width: "96px", text: (i) => rows.kind(i) },
      ],
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
    const left = rows.left ? `; ${count(rows.left)} more with less cost are not in this page` : "";
    const search = view.get("search").trim();
    said.textContent = `${count(shown.length)} rows${search ? ` for “${search}”` : ""}${left}`;
  }

  function saveCsv() {
    const { total, additive } = metrics[metric];
    const shared = way === "top-down" ? "inclusive" : "exclusive";
    const header = [...(way === "flat" ? [] : ["context", "depth"]), "name", "kind", "file", "line", "module", "exclusive", "inclusive", "percent"];
    const all = rows.all();
    save(`${way}.csv`, new Blob([csv(header, Array.from(all, (i) => [
      ...(way === "flat" ? [] : [rows.context(i), rows.depth(i)]),
      rows.name(i), rows.kind(i), rows.file(i), rows.line(i) >= 0 ? rows.line(i) : null, rows.module(i),
      finite(rows.exclusive(i)), finite(rows.inclusive(i)), additive && total ? (100 * rows[shared](i)) / total : null,
    ]))], { type: "text/csv" }));
  }

  view.watch("metric", (name) => { metric = metricNumber(metrics, name); show(); });
  view.watch("search", (text) => { rows.search(text); update(false); });
  if (!data.callers.some(Boolean)) ways.root.querySelector('[data-value="bottom-up"]')?.remove();
  show();
}

const finite = (value) => (Number.isFinite(value) ? value : null);

function metricNumber(metrics, name) {
  return Math.max(0, metrics.findIndex((one) => one.name === name));
}

/** How rows compare by a column; what has no number comes last. */
function comparison(rows, key, down) {
  const sign = down ? -1 : 1;
  if (key === "inclusive" || key === "exclusive") {
    const value = (i) => (Number.isFinite(rows[key](i)) ? rows[key](i) : down ? -Infinity : Infinity);
    return (a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  }
  const text = { name: rows.name, kind: rows.kind, where: (i) => `${rows.file(i)}\u0000${String(rows.line(i)).padStart(9, "0")}` }[key];
  return (a, b) => sign * (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0);
}

/** Rows of a tree: which are open, in which order, and which a search leaves. */
function openRows(tree, rows, childrenBy) {
  const open = new Uint8Array(tree.n + 1);
  let list = childrenBy("inclusive", true);
  /** @type {{is: Uint8Array, above: Uint8Array} | null} */
  let hits = null;
  const walk = (enter) => {
    const out = [];
    const stack = [tree.root];
    while (stack.length) {
      const at = /** @type {number} */ (stack.pop());
      if (at !== tree.root) out.push(at);
      if (at !== tree.root && !enter(at)) continue;
      for (let k = tree.start[at + 1] - 1; k >= tree.start[at]; k--) if (rows.has(list[k]) && (!hits || hits.is[list[k]] || hits.above[list[k]])) stack.push(list[k]);
    }
    return out;
  };
  Object.assign(rows, {
    opened: (i) => (tree.hasChildren(i) ? Boolean(open[i]) : null),
    toggle: (i) => { open[i] = open[i] ? 0 : 1; },
    openAll: (value) => open.fill(value ? 1 : 0),
    openHot() {
      for (let at = tree.root; tree.hasChildren(at);) {
        const next = list[tree.start[at]];
        if (at !== tree.root && !(rows.inclusive(next) >= 0.5 * rows.inclusive(at))) break;
        open[next] = 1;
        at = next;
      }
    },
    sort: (key, down) => { list = childrenBy(key, down); },
    search(text) {
      const fits = matcher(text ?? "");
      hits = null;
      if (!fits) return;
      const [is, above] = [new Uint8Array(tree.n), new Uint8Array(tree.n)];
      for (let i = 0; i < tree.n; i++) {
        if (rows.isMore(i) || !rows.has(i) || !fits(rows.name(i))) continue;
        is[i] = 1;
        for (let at = tree.parent[i]; at >= 0 && !above[at]; at = tree.parent[at]) above[at] = open[at] = 1;
      }
      hits = { is, above };
    },
    found: (i) => Boolean(hits?.is[i]),
    visible: () => walk((i) => open[i]),
    all: () => { const kept = hits; hits = null; const out = walk(() => true); hits = kept; return out; },
  });
  rows.openHot();
  return rows;
}

function treeRows(tree, metric) {
  const { inclusive, exclusive, additive } = tree.metrics[metric];
  const costly = new Uint8Array(tree.n); // the tree also has what costs something in other metrics only
  for (let i = tree.n - 1; i >= 0; i--) {
    if (!costly[i] && !isThere(inclusive[i], additive) && !isThere(exclusive[i], additive)) continue;
    costly[i] = 1;
    if (tree.parent[i] >= 0) costly[tree.parent[i]] = 1;
  }
  const rows = {
    left: 0,
    name: tree.name, kind: tree.kind, file: tree.file, line: tree.line, module: tree.module, context: tree.context,
    isMore: tree.isMore, depth: (i) => tree.depth[i], inclusive: (i) => inclusive[i], exclusive: (i) => exclusive[i],
    has: (i) => costly[i],
  };
  return openRows(tree, rows, (key, down) => tree.childrenBy(`${key} ${down} ${metric}`, comparison(rows, key, down)));
}

/** Rows in preorder with their depths, as a tree. */
function callerRows(data, labels) {
  const table = data ?? { label: [], depth: [], inclusive: [], exclusive: [], left: 0 };
  const n = table.label.length;
  const parent = new Int32Array(n);
  const last = [];
  for (let i = 0; i < n; i++) {
    parent[i] = table.depth[i] ? last[table.depth[i] - 1] : -1;
    last[table.depth[i]] = i;
  }
  const start = new Int32Array(n + 2);
  for (let i = 0; i < n; i++) start[(parent[i] < 0 ? n : parent[i]) + 1]++;
  for (let i = 0; i <= n; i++) start[i + 1] += start[i];
  const next = start.slice();
  const children = new Int32Array(n);
  for (let i = 0; i < n; i++) children[next[parent[i] < 0 ? n : parent[i]]++] = i;
  const tree = { n, root: n, parent, start, hasChildren: (i) => start[i + 1] > start[i] };
  const rows = {
    ...labelled(labels, table.label),
    left: table.left, context: () => null, isMore: () => false, has: () => true, depth: (i) => table.depth[i],
    inclusive: (i) => table.inclusive[i], exclusive: (i) => table.exclusive[i],
  };
  const made = openRows(tree, rows, (key, down) => {
    const list = children.slice();
    const compare = comparison(rows, key, down);
    for (let i = 0; i <= n; i++) {
      if (start[i + 1] - start[i] < 2) continue;
      list.set(Array.from(list.subarray(start[i], start[i + 1])).sort((a, b) => compare(a, b) || a - b), start[i]);
    }
    return list;
  });
  made.openAll(false);
  return made;
}

function flatRows(data, labels, metric, additive) {
  const [inclusive, exclusive] = [data.inclusive[metric], data.exclusive[metric]];
  let hits = /** @type {(function(string): boolean) | null} */ (null);
  let order = Array.from(data.label, (_, i) => i).filter((i) => isThere(inclusive[i], additive) || isThere(exclusive[i], additive));
  const rows = {
    ...labelled(labels, data.label),
    left: data.left, inclusive: (i) => inclusive[i], exclusive: (i) => exclusive[i],
    sort: (key, down) => { const compare = comparison(rows, key, down); order.sort((a, b) => compare(a, b) || inclusive[b] - inclusive[a] || a - b); },
    search: (text) => { hits = matcher(text ?? ""); },
    found: () => false,
    visible: () => (hits ? order.filter((i) => hits?.(rows.name(i))) : order),
    all: () => order,
  };
  return rows;
}

/** Is there any cost? An absent minimum or maximum is infinite, and one of zero is there. */
const isThere = (value, additive) => (additive ? value !== 0 : Number.isFinite(value));

function labelled(labels, label) {
  return {
    name: (i) => labels.name[label[i]], kind: (i) => labels.kind[label[i]], file: (i) => labels.file[label[i]],
    line: (i) => labels.line[label[i]], module: (i) => labels.module[label[i]],
  };
}
