/**
 * What devices did: how busy each was and with what, why it waited; kernels, copies and calls as tables.
 *
 * @import { BarData } from "./bars.js"
 * @import { Surface, Theme } from "./canvas.js"
 * @import { DevicesData, Doing, Fact, GpuData, SummaryColumn, SummaryData } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Fits, Store } from "./store.js"
 * @import { Column } from "./table.js"
 *
 * @typedef {Object} Row  of a device, or of all of them
 * @property {string} name
 * @property {number} span  ns
 * @property {number} busy  ns
 * @property {(one: Doing) => number} ns
 * @property {number} most  operations at once; 0 where that is not known
 *
 * @typedef {{ k: number, y: number, high: number, width: number, theme: Theme }} Band  where a row is drawn
 */

import { Bars } from "./bars.js";
import { fitting, Picture, themeColours } from "./canvas.js";
import { CATEGORIES, inkOn, mixed, OTHER } from "./colours.js";
import { button, element, switches, takeKey } from "./dom.js";
import { count, countRows, durationNs, percent, si } from "./format.js";
import { csv, save } from "./saving.js";
import { matcher } from "./store.js";
import { Table } from "./table.js";
import { tooltip } from "./tooltip.js";

const OVERVIEW = "overview";
const N_BARS = 8;
const ROW = 22;
const CROWD = 40; // devices from which on their rows are thin
const THIN = 8;
const [LEFT, LEFT_OF_RUNS, RIGHT] = [94, 130, 92]; // pixels beside the bars of devices
const IDLE = "idle";
const SINCE = "from the first operation of each to the end of its last";
const CARDS = [
  ["kernels", "Kernels", "total time"],
  ["copies", "Copies", "total time and rate"],
  ["gaps", "Why devices waited", "time between operations"],
  ["longest-gaps", "Longest gaps", ""],
  ["api", "Calls", "total time on the host"],
  ["markers", "Markers", "total time"],
  ["regions", "Regions", "total time"],
];

/**
 * @param {HTMLElement} place
 * @param {GpuData} data
 * @param {Store} view
 */
export function drawGpu(place, data, view) {
  const frame = element("div", { class: "table-frame" });
  const said = element("span", { class: "match", attributes: { role: "status" } });
  /** @type {SummaryTable | null} */
  let table = null;
  const saver = element("div", { class: "savers" }, [
    button("CSV", "Save this table as CSV", () => table && saveCsv(table.section)),
  ]);
  /** @type {Option[]} */
  const names = [OVERVIEW, ...data.sections.map((section) => section.name)].map((name) => [name, name]);
  const sections = switches("Section", names, OVERVIEW, open).root;
  place.append(element("div", { class: "toolbar" }, [sections, said, element("span", { class: "gap" }), saver]), frame);

  /** @param {string} name */
  function open(name) {
    tooltip.hide();
    const section = data.sections.find((one) => one.name === name);
    table = section ? new SummaryTable(section) : null;
    saver.hidden = !table;
    said.textContent = "";
    frame.replaceChildren(table ? table.root : overviewOf(data, view));
    refresh();
  }

  function refresh() {
    if (!table) return;
    const { left } = table.section;
    const n = table.search(matcher(view.get("search")));
    said.textContent = `${countRows(n)}${left ? `; ${count(left)} more are not in this page` : ""}`;
  }

  view.watch("search", refresh);
  open(OVERVIEW);
}

/**
 * What all devices did, in one bar.
 * @param {HTMLElement} place
 * @param {GpuData} data
 * @param {Store} view
 */
export function drawDevices(place, data, view) {
  const picture = new DevicePicture({ ...data.devices, rank: [] });
  const more = button("More", "Kernels, copies, calls, and why devices waited", () => view.set("tab", "GPU"));
  more.className = "more";
  const all = data.n_devices > 1 ? `all ${count(data.n_devices)} together, ` : "";
  place.append(card("Devices", `${all}${SINCE}`, picture, more));
}

/**
 * A picture with its title.
 * @param {string} title
 * @param {string} hint
 * @param {{ root: HTMLElement, buttons: HTMLElement }} picture
 * @param {HTMLElement | null} [more]
 */
function card(title, hint, picture, more = null) {
  const head = [element("h2", { text: title }), element("span", { class: "hint", text: hint }), more, picture.buttons];
  return element("section", { class: "card" }, [element("div", { class: "card-head" }, head), picture.root]);
}

/**
 * Cards side by side.
 * @param {GpuData} data
 * @param {Store} view
 */
function overviewOf(data, view) {
  const root = element("div", { class: "scrolling" });
  const grid = element("div", {});
  Object.assign(grid.style, {
    display: "grid",
    gridTemplateColumns: "repeat(auto-fit, minmax(480px, 1fr))",
    gap: "12px",
    alignItems: "start",
  });
  if (data.n_devices) grid.append(card("Devices", SINCE, new DevicePicture(data.devices)));
  for (const [name, title, hint] of CARDS) {
    const section = data.sections.find((one) => one.name === name);
    if (!section) continue;
    const bars = new Bars(
      name,
      `${title} by time. Up and down go from bar to bar, Enter shows it in the timeline.`,
      () => ({ ...barsOf(section, view), caption: [title, hint].filter(Boolean).join(": ") }),
      "click to see it in the timeline",
    );
    grid.append(card(title, hint, bars));
  }
  root.append(grid);
  root.style.flex = "1";
  return root;
}

/**
 * The rows of a section with the most time. What has a place in the timeline can be seen there.
 * @param {SummaryData} section
 * @param {Store} view
 * @returns {Omit<BarData, "caption">}
 */
function barsOf(section, view) {
  const total = numbersOf(section, "total_ns");
  const share = numbersOf(section, "percent");
  const rate = numbersOf(section, "bytes_per_second");
  const starts = columnOf(section, "start_ns");
  const order = section.rows.map((_, i) => i).sort((a, b) => total[b] - total[a] || a - b);
  /** @param {number} i */
  const pick = (i) => {
    if (starts) view.set("window", { start: String(starts[i]), length: total[i] });
    else view.set("search", section.rows[i]);
    view.set("tab", "Timeline");
  };
  /** @param {number} i */
  const text = (i) => [
    durationNs(total[i]),
    share.length ? percent(share[i] / 100) : "",
    Number.isFinite(rate[i]) ? `${si(rate[i], "B")}/s` : "",
  ];
  const rows = order.slice(0, N_BARS).map((i) => ({
    pick: section.name === "gaps" ? undefined : () => pick(i),
    name: nameOf(section, i),
    value: total[i],
    text: text(i).filter(Boolean).join("  "),
    details: {
      title: section.rows[i],
      rows: section.columns.map(({ name, values }) => factOf(name, values[i])),
    },
  }));
  return { rows, more: section.rows.length + section.left - rows.length };
}

/**
 * @param {string} name  of a column
 * @param {string | number} value
 * @returns {Fact}
 */
function factOf(name, value) {
  return [heading(name), cellText(name, value)];
}

/**
 * @param {SummaryData} section
 * @param {number} i
 */
function nameOf(section, i) {
  if (section.name !== "longest-gaps") return section.rows[i];
  const [run, rank, agent] = ["run", "rank", "agent"].map((name) => numbersOf(section, name)[i]);
  return `${deviceName(run, rank, agent)}: ${section.rows[i]}`;
}

/**
 * What a device is called; what is not known, or the same of all, is left out.
 * @param {number} run
 * @param {number} rank
 * @param {number} agent
 */
function deviceName(run, rank, agent) {
  const before = [run >= 0 ? `run ${run} ` : "", rank >= 0 ? `rank ${rank} ` : ""];
  return `${before.join("")}GPU${agent >= 0 ? ` ${agent}` : ""}`;
}

/** A bar for each device, divided by what went on at once; the first one is all of them. */
class DevicePicture {
  cursor = -1;
  picture = new Picture({
    name: "devices",
    label: "How busy devices were, and with what. Up and down go from bar to bar.",
    height: () => this.top(this.rows.length) + 4,
    draw: (surface, width) => this.draw(surface, width),
    caption: () => this.caption(),
  });
  buttons = this.picture.buttons;

  /** @param {DevicesData} devices */
  constructor(devices) {
    const { doing, run, rank, agent, span_ns: span, busy_ns: busy, most_at_once: most } = devices;
    const active = doing.filter((one) => one.name !== IDLE);
    const total = devices.total_span_ns;
    this.doing = doing;
    this.colours = new Map(
      active.map((one, k) => [one.name, mixed(CATEGORIES[k % CATEGORIES.length], "#ffffff", 0.12)]),
    );
    this.left = run[0] >= 0 ? LEFT_OF_RUNS : LEFT;
    this.tall = rank.length > CROWD ? THIN : ROW;
    this.words = doing
      .filter((one) => one.total_ns)
      .map(({ name, total_ns }) => ({ name, text: `${name} ${percent(total_ns / (total || NaN))}` }));
    /** @type {Row[]} */
    this.rows = [
      { name: "all devices", span: total, busy: devices.total_busy_ns, ns: (one) => one.total_ns, most: 0 },
      ...Array.from(rank, (_, i) => ({
        name: deviceName(run[i], rank[i], agent[i]),
        span: span[i],
        busy: busy[i],
        ns: (/** @type {Doing} */ one) => one.ns[i],
        most: most[i],
      })),
    ];
    this.root = element("div", {}, [this.picture.root, this.legend()]);
    this.listen();
  }

  listen() {
    const { canvas } = this.picture;
    canvas.addEventListener("mousemove", (event) => {
      const row = this.rows[event.offsetY < ROW ? 0 : 1 + Math.floor((event.offsetY - ROW - 6) / this.tall)];
      if (row) this.tell(row, event.clientX, event.clientY);
      else tooltip.hide();
    });
    canvas.addEventListener("keydown", (event) => {
      const step = takeKey(event, { ArrowDown: 1, ArrowUp: -1 });
      if (!step) return;
      this.cursor = Math.min(Math.max(this.cursor + step, 0), this.rows.length - 1);
      const box = canvas.getBoundingClientRect();
      this.tell(this.rows[this.cursor], box.left + this.left, box.top + this.top(this.cursor));
    });
    for (const event of ["mouseleave", "blur"]) canvas.addEventListener(event, () => tooltip.hide());
  }

  /**
   * Where a row begins.
   * @param {number} k
   * @returns {number}
   */
  top(k) {
    return k ? ROW + 6 + (k - 1) * this.tall : 0;
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   */
  draw(surface, width) {
    const theme = themeColours();
    this.rows.forEach((row, k) => {
      const high = (k ? this.tall : ROW) - (this.isWide(k) ? 4 : 1);
      this.drawRow(surface, row, { k, y: this.top(k), high, width, theme });
    });
  }

  /**
   * Is there room for words in a row?
   * @param {number} k
   */
  isWide(k) {
    return this.tall > THIN || !k;
  }

  /**
   * @param {string} name
   * @param {Theme} theme
   */
  colourOf(name, theme) {
    return name === IDLE ? theme.faint : (this.colours.get(name) ?? OTHER);
  }

  caption() {
    const theme = themeColours();
    return this.words.map(({ name, text }) => ({ text, colour: this.colourOf(name, theme) }));
  }

  legend() {
    const keys = this.words.map(({ name, text }) => {
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = name === IDLE ? "var(--line)" : (this.colours.get(name) ?? OTHER);
      return element("span", { class: "key" }, [swatch, element("span", { text })]);
    });
    const legend = element("div", { class: "legend" }, keys);
    legend.style.marginTop = "6px";
    return legend;
  }

  /**
   * @param {Surface} surface
   * @param {Row} row
   * @param {Band} band
   */
  drawRow(surface, row, { k, y, high, width, theme }) {
    const middle = y + high / 2;
    if (this.isWide(k) || (k - 1) % 2 === 0) {
      const name = fitting(surface, row.name, this.left - 8, { size: 11.5, bold: !k });
      const fill = k ? theme.muted : theme.ink;
      surface.text(this.left - 8, middle, name, { fill, size: this.isWide(k) ? 11.5 : 9, anchor: "end", bold: !k });
    }
    let x = this.left;
    for (const one of this.doing) {
      const wide = row.span ? (row.ns(one) / row.span) * (width - this.left - RIGHT) : 0;
      if (wide <= 0) continue;
      const fill = this.colourOf(one.name, theme);
      surface.rect(x, y, Math.max(wide - (wide > 4 ? 1 : 0), 0.5), high, fill);
      const share = percent(row.ns(one) / row.span);
      const text = this.isWide(k) && one.name !== IDLE ? fitting(surface, share, wide - 6, { size: 11 }) : "";
      if (text && !text.endsWith("…")) surface.text(x + 4, middle, text, { fill: inkOn(fill), size: 11 });
      x += wide;
    }
    const busy = `busy ${percent(row.busy / (row.span || NaN))}`;
    if (this.isWide(k)) surface.text(width - RIGHT + 8, middle, busy, { fill: theme.muted, size: 11.5 });
  }

  /**
   * @param {Row} row
   * @param {number} x
   * @param {number} y
   */
  tell(row, x, y) {
    /** @type {Fact[]} */
    const doing = this.doing
      .filter((one) => row.ns(one))
      .map((one) => [one.name, `${durationNs(row.ns(one))} (${percent(row.ns(one) / row.span)})`]);
    /** @type {Fact[]} */
    const rows = [
      ["busy", `${durationNs(row.busy)} of ${durationNs(row.span)}`],
      ...doing,
      ["at once", row.most ? `at most ${row.most} operations` : ""],
    ];
    tooltip.show({ title: row.name, rows }, x, y);
  }
}

/**
 * @param {SummaryData} section
 * @param {string} name
 */
function columnOf(section, name) {
  return section.columns.find((column) => column.name === name)?.values ?? null;
}

/**
 * A column as numbers; none where the section has no such column.
 * @param {SummaryData} section
 * @param {string} name
 */
function numbersOf(section, name) {
  /** @type {Iterable<string | number>} */
  const values = columnOf(section, name) ?? [];
  return Array.from(values, (value) => (value === "" ? NaN : Number(value)));
}

/** A section as a table that can be sorted and searched. */
class SummaryTable {
  descending = true;
  /** @type {Fits | null} */
  fits = null;

  /** @param {SummaryData} section */
  constructor(section) {
    const { name, columns } = section;
    const total = numbersOf(section, "total_ns");
    this.section = section;
    this.sortBy = total.length ? "total_ns" : (columns[0]?.name ?? name);
    this.table = new Table({
      label: name,
      columns: [
        { key: name, title: "name", width: "minmax(260px, 1fr)", text: (i) => section.rows[i] },
        ...columns.map((column) => summaryColumn(column, total)),
      ],
      sortBy: this.sortBy,
      descending: this.descending,
      onSort: (key, down) => {
        [this.sortBy, this.descending] = [key, down];
        this.update();
      },
    });
    this.root = this.table.root;
  }

  /**
   * Show what a search leaves, and say how many rows that are.
   * @param {Fits | null} fits
   */
  search(fits) {
    this.fits = fits;
    return this.update();
  }

  update() {
    const { section, fits } = this;
    const values = (this.sortBy === section.name ? section.rows : columnOf(section, this.sortBy)) ?? [];
    /** @param {number} i */
    const key = (i) => (isAbsent(values[i]) ? -Infinity : values[i]);
    const sign = this.descending ? -1 : 1;
    const shown = section.rows.map((_, i) => i).filter((i) => !fits || fits(section.rows[i]));
    shown.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * sign || a - b);
    this.table.setRows(shown);
    return shown.length;
  }
}

/**
 * @param {SummaryColumn} column
 * @param {number[]} total  times, which have bars
 * @returns {Column}
 */
function summaryColumn({ name, values }, total) {
  const most = name === "total_ns" ? Math.max(...total.filter(Number.isFinite), 0) : 0;
  return {
    key: name,
    title: heading(name),
    width: name === "start_ns" ? "200px" : "minmax(64px, 92px)",
    numeric: true,
    text: (i) => cellText(name, values[i]),
    hint: (i) => (isAbsent(values[i]) ? "" : String(values[i])),
    share: most ? (i) => total[i] / most : undefined,
  };
}

/** @param {string | number} value */
function isAbsent(value) {
  return typeof value === "number" && !Number.isFinite(value);
}

/** @param {string} name  of a column */
function heading(name) {
  return name.replace(/_ns$/, "").replaceAll("_", " ");
}

/**
 * @param {string} name  of the column
 * @param {string | number} value
 */
function cellText(name, value) {
  if (typeof value === "string") return name === "start_ns" && value ? `@${value}` : value;
  if (!Number.isFinite(value)) return "";
  if (name.endsWith("_ns")) return durationNs(value);
  if (name.endsWith("percent")) return percent(value / 100);
  if (name === "bytes") return si(value, "B");
  if (name === "bytes_per_second") return `${si(value, "B")}/s`;
  return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(5)));
}

/** @param {SummaryData} section */
function saveCsv(section) {
  const header = ["section", "name", ...section.columns.map((column) => column.name)];
  const rows = section.rows.map((name, i) => [
    section.name,
    name,
    ...section.columns.map(({ values }) => (isAbsent(values[i]) ? null : values[i])),
  ]);
  save(`${section.name}.csv`, new Blob([csv(header, rows)], { type: "text/csv" }));
}
