/**
 * The cost of one row in every rank, thread, GPU or node: as bars, as a box plot, as a map of ranks and
 * threads, or as the topology that the file has.
 *
 * @import { Surface } from "./canvas.js"
 * @import { CellsData, EntitiesData, Look, Provider, TopologyData, View } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Store } from "./store.js"
 * @import { Cell, CellMap } from "./system_cells.js"
 */

import { fitting, OFTEN_ALIKE, Picture, themeColours } from "./canvas.js";
import { CATEGORIES, scale } from "./colours.js";
import { button, choice, element, switches, takeKey } from "./dom.js";
import { amountOf, count, percent, si } from "./format.js";
import { csv, save } from "./saving.js";
import { BELOW, BELOW_MAP, cellAt, gridMap, LEFT, nextCell, topologyMap } from "./system_cells.js";
import { tooltip } from "./tooltip.js";

/** @typedef {"bars" | "box" | "map" | "topology"} Way */

/** @type {Option[]} */
const WAYS = [
  ["bars", "Bars"],
  ["box", "Box plot"],
  ["map", "Map"],
];
/** @type {Record<string, string>} */
const WORDS = { gpu: "GPU" }; // how sentences call what costs are spread over
const HEIGHT = 190;
const MOST_BESIDE = 0.4; // of the width, for labels of an axis
const RAMP = 30; // steps of what colours mean

/** What is drawn lies between two numbers, of which 0 is one unless costs lie on both sides of it. */
class Axis {
  /**
   * @param {number} low
   * @param {number} high
   * @param {number} top
   * @param {number} bottom
   */
  constructor(low, high, top, bottom) {
    this.low = Math.min(low, 0);
    this.high = Math.max(high, this.low + (high > this.low ? 0 : 1));
    this.top = top;
    this.bottom = bottom;
  }

  /** The values that are marked. */
  get marks() {
    return [this.low, (this.low + this.high) / 2, this.high];
  }

  /** @param {number} value */
  y(value) {
    return this.bottom - ((value - this.low) / (this.high - this.low)) * (this.bottom - this.top);
  }
}

export class SystemPane {
  /** @type {Way} */
  way = "bars";
  over = "";
  number = 0; // of the topology
  /** @type {View & { node: string }} */
  node = { view: "tree", by: "function", node: "" };
  /** @type {EntitiesData | null} */
  data = null;
  /** @type {CellsData | null} */
  grid = null;
  /** @type {TopologyData | null} */
  topology = null;
  left = LEFT; // where bars begin: as far to the right as labels need
  cursor = -1; // the cell that the keyboard is at
  asked = new AbortController();
  title = element("h2", { text: "" });
  facts = element("p", { class: "match", attributes: { role: "status" } });
  kinds = element("span");
  picture = new Picture({
    name: "spread",
    label: "The cost of the chosen row by rank, thread or GPU",
    height: () => HEIGHT,
    draw: (surface, width, height) => this.draw(surface, width, height),
    caption: () => [{ text: `${this.title.textContent}: ${this.facts.textContent}` }],
  });
  root = element("section", { class: "card system", attributes: { "aria-label": "System" } });

  /**
   * @param {Provider} provider
   * @param {() => Look} look
   * @param {Store} view
   * @param {string[]} topologies
   */
  constructor(provider, look, view, topologies) {
    this.provider = provider;
    this.look = look;
    this.view = view;
    this.topologies = topologies;
    this.ways = switches("Drawn as", topologies.length ? [...WAYS, ["topology", "Topology"]] : WAYS, this.way, (way) =>
      view.mark({ drawn: way === "bars" ? "" : way }),
    );
    view.watch("at", () => this.follow());
    this.follow();
    this.root.append(
      this.title,
      element("div", { class: "toolbar" }, [
        this.ways.root,
        this.kinds,
        element("span", { class: "gap" }),
        this.picture.buttons,
        element("div", { class: "savers" }, [button("CSV", "Save these numbers as CSV", () => this.saveCsv())]),
      ]),
      this.picture.root,
      this.facts,
    );
    const { canvas } = this.picture;
    canvas.addEventListener("mousemove", (event) => this.hovered(event));
    canvas.addEventListener("mouseleave", () => tooltip.hide());
    canvas.addEventListener("blur", () => tooltip.hide());
    canvas.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** Draw as the address says. */
  follow() {
    const { drawn = "bars", over = "", topology = "0" } = this.view.get("at");
    const offered = ["bars", "box", "map", ...(this.topologies.length ? ["topology"] : [])];
    const way = /** @type {Way} */ (offered.includes(drawn) ? drawn : "bars");
    const number = Math.min(Math.max(Number(topology) || 0, 0), Math.max(this.topologies.length - 1, 0));
    if (way === this.way && over === this.over && number === this.number) return;
    [this.way, this.over, this.number, this.cursor] = [way, over, number, -1];
    this.ways.set(way);
    if (this.data) this.load();
  }

  /**
   * @param {View & { node: string }} node
   * @param {string} name
   */
  show(node, name) {
    this.node = node;
    this.title.textContent = name;
    this.load();
  }

  async load() {
    this.asked.abort();
    const { signal } = (this.asked = new AbortController());
    this.root.setAttribute("aria-busy", "true"); // what is drawn is still that of another row
    try {
      const parameters = { ...this.look(), ...this.node };
      const data = await this.provider.get("spread", { ...parameters, over: this.over }, signal);
      const grid = this.way === "map" && !data.reason ? await this.provider.get("grid", parameters, signal) : null;
      const places = { ...parameters, topology: this.number };
      const topology =
        this.way === "topology" && !data.reason ? await this.provider.get("topology", places, signal) : null;
      if (signal.aborted) return;
      [this.data, this.grid, this.topology] = [data, grid, topology];
      this.say(data);
    } catch (error) {
      if (signal.aborted) return;
      [this.data, this.grid, this.topology] = [null, null, null];
      this.facts.textContent = error instanceof Error ? error.message : String(error);
    }
    this.root.removeAttribute("aria-busy");
    this.picture.redraw();
  }

  /** @param {EntitiesData} data */
  say({ over, kinds, n, n_joined, metric, scope, statistics, reason }) {
    this.offer(kinds, over);
    const amount = amountOf(metric.unit, metric.derived !== "");
    if (!statistics) {
      this.facts.textContent = reason || "nothing has a value here";
      return;
    }
    const cells = this.way === "map" ? this.grid : this.way === "topology" ? this.topology : null;
    if (cells) {
      this.facts.textContent = `${scope} ${metric.name} ${cellsText(cells, this.way === "map", amount)}`;
      return;
    }
    const { min, median, mean, max, imbalance } = statistics;
    const kind = WORDS[over] ?? over;
    const uneven = metric.additive && !metric.signed && imbalance !== null ? `, imbalance ${percent(imbalance)}` : "";
    const joined = n_joined > 1 ? `; each bar is the mean of ${n_joined} neighbours` : "";
    this.facts.textContent =
      `${scope} ${metric.name} over ${count(n)} ${kind}${n === 1 ? "" : "s"}: min ${amount(min ?? NaN)}, ` +
      `median ${amount(median)}, mean ${amount(mean ?? NaN)}, max ${amount(max ?? NaN)}${uneven}${joined}`;
  }

  /**
   * Let the reader choose what costs are spread over, or which topology is drawn.
   * @param {string[]} kinds
   * @param {string} over
   */
  offer(kinds, over) {
    const options = kinds.map((kind) => /** @type {Option} */ ([kind, kind]));
    const entities = choice("over", options, over, (kind) => this.view.mark({ over: kind }));
    const named = this.topologies.map((name, k) => /** @type {Option} */ ([String(k), name]));
    const topologies = choice("of", named, String(this.number), (k) =>
      this.view.mark({ topology: k === "0" ? "" : k }),
    );
    const isMap = this.way === "map" || this.way === "topology";
    this.kinds.replaceChildren(
      kinds.length > 1 && !isMap ? entities.root : "",
      named.length > 1 && this.way === "topology" ? topologies.root : "",
    );
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   */
  draw(surface, width, height) {
    if (!this.data?.statistics) return;
    if (this.way === "map" || this.way === "topology") this.drawMap(surface, width, height);
    else {
      const axis = this.drawAxis(surface, width, height);
      if (this.way === "bars") this.drawBars(surface, width, axis);
      else this.drawBox(surface, width, axis);
    }
    const at = this.cellMap(width, height).cells[this.cursor];
    if (at) surface.rect(at.x, at.y, Math.max(at.width, 2), Math.max(at.height, 2), "", themeColours().ink);
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   */
  drawAxis(surface, width, height) {
    const { statistics, metric } = /** @type {EntitiesData} */ (this.data);
    const theme = themeColours();
    const axis = new Axis(statistics?.min ?? 0, statistics?.max ?? 1, 8, height - BELOW);
    const amount = amountOf(metric.unit, metric.derived !== "");
    const values = axis.marks;
    /** @param {(value: number) => string} write */
    const room = (write) => Math.max(...values.map((value) => surface.measure(write(value), { size: 11 }))) + 8;
    const write = room(amount) <= MOST_BESIDE * width ? amount : si; // a long unit is said below
    this.left = Math.max(LEFT, room(write));
    for (const value of values) {
      surface.line([[this.left, axis.y(value)], [width, axis.y(value)]], theme.faint); // prettier-ignore
      surface.text(this.left - 6, axis.y(value), write(value), { fill: theme.muted, size: 11, anchor: "end" });
    }
    return axis;
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {Axis} axis
   */
  drawBars(surface, width, axis) {
    const { mean, low, high, name, n_joined } = /** @type {EntitiesData} */ (this.data);
    const theme = themeColours();
    const step = (width - this.left) / mean.length;
    for (let i = 0; i < mean.length; i++) {
      if (!Number.isFinite(mean[i])) continue;
      const [x, wide] = [this.left + i * step, Math.max(Math.min(step - (step > 3 ? 1 : 0), 60), 0.5)];
      const [from, to] = [axis.y(0), axis.y(mean[i])];
      surface.rect(x, Math.min(from, to), wide, Math.max(Math.abs(from - to), 0.5), CATEGORIES[0]);
      const at = x + wide / 2;
      if (n_joined > 1) surface.line([[at, axis.y(low[i])], [at, axis.y(high[i])]], theme.ink); // prettier-ignore
    }
    const ends = mean.length > 1 ? [0, mean.length - 1] : [0];
    const style = { fill: theme.muted, size: 11 };
    const room = (width - this.left) / ends.length - 8;
    for (const i of ends)
      surface.text(i ? width - 2 : this.left, axis.bottom + 11, fitting(surface, name[i], room, style, OFTEN_ALIKE), {
        ...style,
        anchor: i ? "end" : "start",
      });
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {Axis} axis
   */
  drawBox(surface, width, axis) {
    const { statistics } = /** @type {EntitiesData} */ (this.data);
    if (!statistics) return;
    const theme = themeColours();
    const { min, p25, median, p75, max, mean } = statistics;
    const middle = this.left + (width - this.left) / 2;
    const [left, wide] = [middle - 45, 90];
    surface.line([[middle, axis.y(min ?? 0)], [middle, axis.y(max ?? 0)]], theme.muted); // prettier-ignore
    for (const end of [min ?? 0, max ?? 0])
      surface.line([[left + 20, axis.y(end)], [left + wide - 20, axis.y(end)]], theme.muted); // prettier-ignore
    surface.rect(left, axis.y(p75), wide, Math.max(axis.y(p25) - axis.y(p75), 1), CATEGORIES[4], theme.ink);
    surface.line([[left, axis.y(median)], [left + wide, axis.y(median)]], theme.ink, 2); // prettier-ignore
    surface.circle(middle, axis.y(mean ?? 0), 3.5, theme.mark);
    surface.text(left + wide + 8, axis.y(mean ?? 0), "mean", { fill: theme.muted, size: 11 });
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   */
  drawMap(surface, width, height) {
    const theme = themeColours();
    const { metric } = /** @type {EntitiesData} */ (this.data);
    const { cells, marks } = this.cellMap(width, height);
    /** @param {number} mean */
    const isNone = (mean) => !Number.isFinite(mean) || (mean === 0 && metric.additive);
    let [lowest, highest] = [Infinity, -Infinity];
    for (const { mean } of cells)
      if (Number.isFinite(mean)) [lowest, highest] = [Math.min(lowest, mean), Math.max(highest, mean)];
    for (const { x, y, width: wide, height: tall, mean } of cells) {
      const share = highest > lowest ? (mean - lowest) / (highest - lowest) : 1;
      const gap = wide > 4 && tall > 4 ? 1 : 0;
      const fill = isNone(mean) ? theme.faint : scale(share);
      surface.rect(x, y, Math.max(wide - gap, 0.5), Math.max(tall - gap, 0.5), fill);
    }
    const style = { fill: theme.muted, size: 11 };
    for (const { x, y, text, anchor, room } of marks)
      surface.text(x, y, fitting(surface, text, room, style, OFTEN_ALIKE), { ...style, anchor });
    if (lowest <= highest)
      this.drawRamp(
        surface,
        height - BELOW_MAP + 24,
        [lowest, highest],
        cells.some(({ mean }) => isNone(mean)),
      );
  }

  /**
   * What colours mean: from the least to the most that a cell has.
   * @param {Surface} surface
   * @param {number} y
   * @param {[number, number]} ends
   * @param {boolean} hasNone  there are cells without any of the cost
   */
  drawRamp(surface, y, [lowest, highest], hasNone) {
    const { metric } = /** @type {EntitiesData} */ (this.data);
    const theme = themeColours();
    const style = { fill: theme.muted, size: 11 };
    const amount = amountOf(metric.unit, metric.derived !== "");
    let x = 0;
    /** @param {string} text */
    const write = (text) => {
      surface.text(x, y + 6, text, style);
      x += surface.measure(text, style) + 6;
    };
    if (highest > lowest) {
      write(amount(lowest));
      for (let i = 0; i < RAMP; i++, x += 2) surface.rect(x, y, 2, 12, scale(i / (RAMP - 1)));
    } else {
      surface.rect(x, y, 12, 12, highest === 0 && metric.additive ? theme.faint : scale(1));
      x += 12;
    }
    x += 6;
    write(amount(highest));
    if (!hasNone || highest === lowest) return;
    x += 8;
    surface.rect(x, y, 12, 12, theme.faint);
    x += 18;
    write("none");
  }

  // -- details --------------------------------------------------------------------------------------------------------

  /**
   * What details can be had of.
   * @param {number} width
   * @param {number} height
   * @returns {CellMap}
   */
  cellMap(width, height) {
    if (this.way === "map" && this.grid) return gridMap(this.grid, width, height);
    if (this.way === "topology" && this.topology) return topologyMap(this.topology, width, height);
    if (this.way !== "bars" || !this.data) return { cells: [], marks: [] };
    const { mean, low, high, name, n_joined } = this.data;
    const step = (width - this.left) / mean.length;
    const cells = Array.from(mean, (_, i) => ({
      ...{
        x: this.left + i * step,
        y: 0,
        width: step,
        height,
        title: name[i],
        mean: mean[i],
        low: low[i],
        high: high[i],
      },
      many: n_joined > 1,
    }));
    return { cells, marks: [] };
  }

  /** @param {MouseEvent} event */
  hovered(event) {
    const { width, height } = this.picture.size();
    const { cells } = this.cellMap(width, height);
    const hit = cellAt(cells, event.offsetX, event.offsetY);
    if (hit < 0) tooltip.hide();
    else this.tell(cells[hit], event.clientX, event.clientY);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const { width, height } = this.picture.size();
    const { cells } = this.cellMap(width, height);
    /** @type {Record<string, [number, number]>} */
    const keys = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const direction = takeKey(event, keys);
    if (!direction) return;
    this.cursor = nextCell(cells, Math.min(this.cursor, cells.length - 1), direction);
    const cell = cells[this.cursor];
    const canvas = this.picture.canvas.getBoundingClientRect();
    if (cell) this.tell(cell, canvas.left + cell.x, canvas.top + Math.min(cell.y, HEIGHT / 2));
    this.picture.redraw();
  }

  /**
   * @param {Cell} cell
   * @param {number} x
   * @param {number} y
   */
  tell({ title, mean, low, high, many }, x, y) {
    if (!this.data) return;
    const { metric } = this.data;
    const amount = amountOf(metric.unit, metric.derived !== "");
    /** @type {[string, string][]} */
    const rows = many
      ? [["mean", amount(mean)], ["min", amount(low)], ["max", amount(high)]] // prettier-ignore
      : [[metric.name, Number.isFinite(mean) ? amount(mean) : "no value"]];
    tooltip.show({ title, rows }, x, y);
  }

  saveCsv() {
    const { width, height } = this.picture.size();
    const lines = this.cellMap(width, height).cells.map(({ title, mean, low, high }) => [
      title,
      ...[mean, low, high].map(finite),
    ]);
    const statistics = Object.entries(this.data?.statistics ?? {}).map(([name, value]) => [name, value, null, null]);
    const rows = this.way === "box" ? statistics : lines;
    save(`spread-${this.way}.csv`, new Blob([csv(["name", "mean", "min", "max"], rows)], { type: "text/csv" }));
  }
}

/**
 * What the cells of a map are, and the least and the most of what they stand for.
 * @param {{ mean: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number> }} cells
 * @param {boolean} isGrid
 * @param {(value: number) => string} amount
 */
function cellsText({ mean, low, high }, isGrid, amount) {
  const of = isGrid ? "by rank and thread or stream" : "by place of the topology";
  let [n, least, most, isJoined] = [0, Infinity, -Infinity, false];
  for (let i = 0; i < mean.length; i++) {
    if (!Number.isFinite(mean[i])) continue;
    [n, least, most] = [n + 1, Math.min(least, low[i]), Math.max(most, high[i])];
    isJoined ||= low[i] !== high[i];
  }
  if (!n) return `${of}: no cell has a value`;
  const joined = isJoined ? "; cells that stand for several have the colour of their mean" : "";
  return `${of}, ${count(n)} cell${n === 1 ? "" : "s"}: min ${amount(least)}, max ${amount(most)}${joined}`;
}

/** @param {number} value */
const finite = (value) => (Number.isFinite(value) ? value : null);
