/** What devices did: how busy each was and with what, why it waited; kernels, copies and calls as tables. */

import { createBars } from "./bars.js";
import { createPicture, fitting, themeColours } from "./canvas.js";
import { CATEGORIES, inkOn, mixed } from "./colours.js";
import { button, element, switches } from "./dom.js";
import { count, durationNs, percent, si } from "./format.js";
import { csv, save } from "./saving.js";
import { matcher } from "./store.js";
import { createTable } from "./table.js";
import { tooltip } from "./tooltip.js";

const OVERVIEW = "overview";
const N_BARS = 8;
const ROW = 22;
const IDLE = "idle";

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawGpu(place, data, view) {
  const frame = element("div", { class: "table-frame" });
  const said = element("span", { class: "match", attributes: { role: "status" } });
  const saver = element("div", { class: "savers" }, [button("CSV", "Save this table as CSV", () => current && saveCsv(current))]);
  const names = [OVERVIEW, ...data.sections.map((section) => section.name)];
  let current = /** @type {any} */ (null);
  let refresh = () => {};
  place.append(element("div", { class: "toolbar" }, [
    switches("Section", names.map((name) => [name, name]), OVERVIEW, open).root, said, element("span", { class: "gap" }), saver,
  ]), frame);

  function open(name) {
    tooltip.hide();
    current = data.sections.find((section) => section.name === name) ?? null;
    saver.hidden = !current;
    said.textContent = "";
    refresh = () => {};
    if (!current) {
      frame.replaceChildren(overviewOf(data, view));
      return;
    }
    const table = sectionTable(current);
    refresh = () => {
      const n = table.search(matcher(view.get("search") ?? ""));
      said.textContent = `${count(n)} rows${current.left ? `; ${count(current.left)} more are not in this page` : ""}`;
    };
    frame.replaceChildren(table.root);
    refresh();
  }

  view.watch("search", () => refresh());
  open(OVERVIEW);
}

/**
 * What all devices did, in one bar.
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawDevices(place, data, view) {
  const picture = devicePicture({ ...data, devices: { ...data.devices, rank: [] } });
  const more = button("More", "Kernels, copies, calls, and why devices waited", () => view.set("tab", "GPU"));
  more.className = "more";
  place.append(card("Devices", `${data.n_devices > 1 ? `all ${count(data.n_devices)} together, ` : ""}from the first operation of each to the end of its last`, picture, more));
}

/** A picture with its title. */
function card(title, hint, picture, more = null) {
  return element("section", { class: "card" }, [
    element("div", { class: "card-head" }, [element("h2", { text: title }), element("span", { class: "hint", text: hint }), more, picture.buttons ?? null]), picture.root,
  ]);
}

/**
 * Cards side by side.
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
function overviewOf(data, view) {
  const root = element("div", { class: "scrolling" });
  const grid = element("div", {});
  Object.assign(grid.style, { display: "grid", gridTemplateColumns: "repeat(auto-fit, minmax(480px, 1fr))", gap: "12px", alignItems: "start" });
  if (data.n_devices) grid.append(card("Devices", "from the first operation of each to the end of its last", devicePicture(data)));
  for (const [name, title, hint] of [["kernels", "Kernels", "total time"], ["copies", "Copies", "total time and rate"], ["gaps", "Why devices waited", "time between operations"], ["longest-gaps", "Longest gaps", ""], ["api", "Calls", "total time on the host"], ["markers", "Markers", "total time"], ["regions", "Regions", "total time"]]) {
    const section = data.sections.find((one) => one.name === name);
    if (section) grid.append(card(title, hint, createBars(name, `${title} by time. Up and down go from bar to bar, Enter shows it in the timeline.`, () => ({ ...barsOf(section, view), caption: [title, hint].filter(Boolean).join(": ") }), "click to see it in the timeline")));
  }
  root.append(grid);
  root.style.flex = "1";
  return root;
}

/**
 * The rows of a section with the most time. What has a place in the timeline can be seen there.
 * @param {any} section
 * @param {import("./store.js").Store} view
 */
function barsOf(section, view) {
  const total = columnOf(section, "total_ns");
  const share = columnOf(section, "percent");
  const rate = columnOf(section, "bytes_per_second");
  const order = section.rows.map((_, i) => i).sort((a, b) => total[b] - total[a] || a - b);
  const starts = columnOf(section, "start_ns");
  const pick = (i) => () => {
    if (starts) view.set("window", { start: String(starts[i]), length: total[i] });
    else view.set("search", section.rows[i]);
    view.set("tab", "Timeline");
  };
  const rows = order.slice(0, N_BARS).map((i) => ({
    pick: section.name === "gaps" ? undefined : pick(i),
    name: nameOf(section, i), value: total[i],
    text: [durationNs(total[i]), share ? percent(share[i] / 100) : "", rate && Number.isFinite(rate[i]) ? `${si(rate[i], "B")}/s` : ""].filter(Boolean).join("  "),
    details: { title: section.rows[i], rows: section.columns.map((column) => [heading(column.name), cellText(column.name, column.values[i])]) },
  }));
  return { rows, more: section.rows.length + section.left - rows.length };
}

function nameOf(section, i) {
  if (section.name !== "longest-gaps") return section.rows[i];
  const [run, rank, agent] = ["run", "rank", "agent"].map((name) => columnOf(section, name)?.[i]);
  return `${deviceName(run, rank, agent)}: ${section.rows[i]}`;
}

/** What a device is called; what is not known, or the same of all, is left out. */
function deviceName(run, rank, agent) {
  const known = [["run", run], ["rank", rank], ["GPU", agent]].filter(([word, number]) => number >= 0 || word === "GPU");
  return known.map(([word, number]) => (number >= 0 ? `${word} ${number}` : word)).join(" ");
}

/** A bar for each device, divided by what went on at once; the first one is all of them. */
function devicePicture(data) {
  const { devices } = data;
  const colours = doingColours(devices.doing);
  const n = devices.rank.length;
  const names = Array.from({ length: n }, (_, i) => deviceName(devices.run[i], devices.rank[i], devices.agent[i]));
  const tall = n > 40 ? 8 : ROW;
  const rows = [
    { name: "all devices", span: devices.total_span_ns, busy: devices.total_busy_ns, ns: (one) => one.total_ns, most: 0 },
    ...names.map((name, i) => ({ name, span: devices.span_ns[i], busy: devices.busy_ns[i], ns: (one) => one.ns[i], most: devices.most_at_once[i] })),
  ];
  const yOf = (k) => (k ? ROW + 6 + (k - 1) * tall : 0);
  const picture = createPicture({ name: "devices", label: "How busy devices were, and with what. Up and down go from bar to bar.", height: () => yOf(rows.length) + 4, draw, caption: () => shown.map(({ name, text, colour }) => ({ text, colour: name === IDLE ? themeColours().faint : colour })) });
  const [left, right] = [devices.run[0] >= 0 ? 130 : 94, 92];
  const shown = devices.doing.filter((one) => one.total_ns).map((one) => ({ name: one.name, text: `${one.name} ${percent(one.total_ns / (devices.total_span_ns || NaN))}`, colour: colours.get(one.name) }));
  let cursor = -1;

  function draw(surface, width) {
    const theme = themeColours();
    rows.forEach((row, k) => {
      const high = (k ? tall : ROW) - (tall > 10 || !k ? 4 : 1);
      if (!k || tall > 10 || (k - 1) % 2 === 0) surface.text(left - 8, yOf(k) + high / 2, fitting(surface, row.name, left - 8, { size: 11.5, bold: !k }), { fill: k ? theme.muted : theme.ink, size: tall > 10 || !k ? 11.5 : 9, anchor: "end", bold: !k });
      let x = left;
      for (const one of devices.doing) {
        const wide = row.span ? (row.ns(one) / row.span) * (width - left - right) : 0;
        if (wide <= 0) continue;
        const fill = one.name === IDLE ? theme.faint : colours.get(one.name);
        surface.rect(x, yOf(k), Math.max(wide - (wide > 4 ? 1 : 0), 0.5), high, fill);
        const text = !k || tall > 16 ? fitting(surface, percent(row.ns(one) / row.span), wide - 6, { size: 11 }) : "";
        if (text && !text.endsWith("…") && one.name !== IDLE) surface.text(x + 4, yOf(k) + high / 2, text, { fill: inkOn(fill), size: 11 });
        x += wide;
      }
      if (tall > 10 || !k) surface.text(width - right + 8, yOf(k) + high / 2, `busy ${percent(row.busy / (row.span || NaN))}`, { fill: theme.muted, size: 11.5 });
    });
  }

  function tell(row, x, y) {
    tooltip.show({
      title: row.name,
      rows: /** @type {[string, string][]} */ ([
        ["busy", `${durationNs(row.busy)} of ${durationNs(row.span)}`],
        ...devices.doing.filter((one) => row.ns(one)).map((one) => [one.name, `${durationNs(row.ns(one))} (${percent(row.ns(one) / row.span)})`]),
        ["at once", row.most ? `at most ${row.most} operations` : ""],
      ]),
    }, x, y);
  }

  picture.canvas.addEventListener("mousemove", (event) => {
    const row = rows[event.offsetY < ROW ? 0 : 1 + Math.floor((event.offsetY - ROW - 6) / tall)];
    if (row) tell(row, event.clientX, event.clientY);
    else tooltip.hide();
  });
  picture.canvas.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    cursor = Math.min(Math.max(cursor + step, 0), rows.length - 1);
    const box = picture.canvas.getBoundingClientRect();
    tell(rows[cursor], box.left + left, box.top + yOf(cursor));
  });
  for (const event of ["mouseleave", "blur"]) picture.canvas.addEventListener(event, () => tooltip.hide());
  const legend = element("div", { class: "legend" }, shown.map(({ name, text, colour }) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = name === IDLE ? "var(--line)" : /** @type {string} */ (colour);
    return element("span", { class: "key" }, [swatch, element("span", { text })]);
  }));
  legend.style.marginTop = "6px";
  return { root: element("div", {}, [picture.root, legend]), buttons: picture.buttons };
}

function doingColours(doing) {
  const busy = doing.filter((one) => one.name !== IDLE);
  return new Map(busy.map((one, k) => [one.name, mixed(CATEGORIES[k % CATEGORIES.length], "#ffffff", 0.12)]));
}

const columnOf = (section, name) => section.columns.find((column) => column.name === name)?.values ?? null;

/** A section as a table that can be sorted and searched. */
function sectionTable(section) {
  const order = section.rows.map((_, i) => i);
  const total = columnOf(section, "total_ns");
  let [sortBy, descending] = [total ? "total_ns" : section.columns[0]?.name ?? section.name, true];
  let fits = /** @type {any} */ (null);
  const most = total ? Math.max(...Array.from(total).filter(Number.isFinite), 0) : 0;
  const table = createTable({
    label: section.name,
    columns: [
      { key: section.name, title: "name", width: "minmax(260px, 1fr)", text: (i) => section.rows[i] },
      ...section.columns.map((column) => ({
        key: column.name, title: heading(column.name), width: column.name === "start_ns" ? "200px" : "minmax(64px, 92px)", numeric: true,
        text: (i) => cellText(column.name, column.values[i]),
        hint: (i) => (typeof column.values[i] === "string" || Number.isFinite(column.values[i]) ? String(column.values[i]) : ""),
        share: column.name === "total_ns" && most ? (i) => column.values[i] / most : undefined,
      })),
    ],
    sortBy, descending,
    onSort: (key, down) => { [sortBy, descending] = [key, down]; update(); },
  });
  function update() {
    const values = sortBy === section.name ? section.rows : columnOf(section, sortBy);
    const key = (i) => (typeof values[i] === "number" && !Number.isFinite(values[i]) ? -Infinity : values[i]);
    const shown = order.filter((i) => !fits || fits(section.rows[i]));
    shown.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (descending ? -1 : 1) || a - b);
    table.setRows(shown);
    return shown.length;
  }
  return { root: table.root, search: (next) => { fits = next; return update(); } };
}

const heading = (name) => name.replace(/_ns$/, "").replaceAll("_", " ");

function cellText(name, value) {
  if (typeof value === "string") return name === "start_ns" && value ? `@${value}` : value;
  if (!Number.isFinite(value)) return "";
  if (name.endsWith("_ns")) return durationNs(value);
  if (name.endsWith("percent")) return percent(value / 100);
  if (name === "bytes") return si(value, "B");
  if (name === "bytes_per_second") return `${si(value, "B")}/s`;
  return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(5)));
}

function saveCsv(section) {
  const header = ["section", "name", ...section.columns.map((column) => column.name)];
  const rows = section.rows.map((name, i) => [section.name, name, ...section.columns.map((column) => (typeof column.values[i] === "string" || Number.isFinite(column.values[i]) ? column.values[i] : null))]);
  save(`${section.name}.csv`, new Blob([csv(header, rows)], { type: "text/csv" }));
}
