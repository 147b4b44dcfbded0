/**
 * The cost of one row in every rank, thread, GPU or node: as bars, as a box plot, or as a map of ranks and threads.
 *
 * @import { Surface } from "./canvas.js"
 * @import { CellsData, EntitiesData, Look, Provider, View } from "./documents.js"
 * @import { Store } from "./store.js"
 */

import { Picture, themeColours } from "./canvas.js";
import { CATEGORIES, scale } from "./colours.js";
import { choice, element, switches } from "./dom.js";
import { amountOf, count, percent } from "./format.js";
import { tooltip } from "./tooltip.js";

/** @typedef {"bars" | "box" | "map"} Way */

const HEIGHT = 190;
const LEFT = 64; // pixels for the numbers at the axis
const BELOW = 20;

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

  /** @param {number} value */
  y(value) {
    return this.bottom - ((value - this.low) / (this.high - this.low)) * (this.bottom - this.top);
  }
}

export class SystemPane {
  /** @type {Way} */
  way = "bars";
  over = "";
  /** @type {View & { node: string }} */
  node = { view: "tree", by: "function", node: "" };
  /** @type {EntitiesData | null} */
  data = null;
  /** @type {CellsData | null} */
  cells = null;
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
   */
  constructor(provider, look, view) {
    this.provider = provider;
    this.look = look;
    this.view = view;
    const ways = switches(
      "Drawn as",
      [
        ["bars", "Bars"],
        ["box", "Box plot"],
        ["map", "Map"],
      ],
      this.way,
      (way) => {
        this.way = /** @type {Way} */ (way);
        this.load();
      },
    );
    this.root.append(
      this.title,
      element("div", { class: "toolbar" }, [
        ways.root,
        this.kinds,
        element("span", { class: "gap" }),
        this.picture.buttons,
      ]),
      this.picture.root,
      this.facts,
    );
    const { canvas } = this.picture;
    canvas.addEventListener("mousemove", (event) => this.hovered(event));
    canvas.addEventListener("mouseleave", () => tooltip.hide());
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
    try {
      const parameters = { ...this.look(), ...this.node };
      const data = await this.provider.get("spread", { ...parameters, over: this.over }, signal);
      const cells = this.way === "map" ? await this.provider.get("grid", parameters, signal) : null;
      if (signal.aborted) return;
      [this.data, this.cells] = [data, cells];
      this.say(data);
    } catch (error) {
      if (signal.aborted) return;
      [this.data, this.cells] = [null, null];
      this.facts.textContent = error instanceof Error ? error.message : String(error);
    }
    this.picture.redraw();
  }

  /** @param {EntitiesData} data */
  say({ over, kinds, n, n_joined, metric, scope, statistics }) {
    const options = kinds.map((kind) => /** @type {[string, string]} */ ([kind, kind]));
    const chosen = choice("over", options, over, (kind) => {
      this.over = kind;
      this.load();
    });
    this.kinds.replaceChildren(kinds.length > 1 && this.way !== "map" ? chosen.root : "");
    const amount = amountOf(metric.unit, metric.derived !== "");
    if (!statistics) {
      this.facts.textContent = "nothing has a value here";
      return;
    }
    const { min, median, mean, max, imbalance } = statistics;
    const uneven = metric.additive && !metric.signed && imbalance !== null ? `, imbalance ${percent(imbalance)}` : "";
    const joined = n_joined > 1 ? `; each bar is the mean of ${n_joined} neighbours` : "";
    this.facts.textContent =
      `${scope} ${metric.name} over ${count(n)} ${over}${n === 1 ? "" : "s"}: min ${amount(min ?? NaN)}, ` +
      `median ${amount(median)}, mean ${amount(mean ?? NaN)}, max ${amount(max ?? NaN)}${uneven}${joined}`;
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   */
  draw(surface, width, height) {
    if (!this.data?.statistics) return;
    if (this.way === "map") this.drawMap(surface, width, height);
    else {
      const axis = this.drawAxis(surface, width, height);
      if (this.way === "bars") this.drawBars(surface, width, axis);
      else this.drawBox(surface, width, axis);
    }
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
    for (const value of [axis.low, (axis.low + axis.high) / 2, axis.high]) {
      surface.line(
        [
          [LEFT, axis.y(value)],
          [width, axis.y(value)],
        ],
        theme.faint,
      );
      surface.text(LEFT - 6, axis.y(value), amount(value), { fill: theme.muted, size: 11, anchor: "end" });
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
    const step = (width - LEFT) / mean.length;
    for (let i = 0; i < mean.length; i++) {
      if (!Number.isFinite(mean[i])) continue;
      const [x, wide] = [LEFT + i * step, Math.max(Math.min(step - (step > 3 ? 1 : 0), 60), 0.5)];
      const [from, to] = [axis.y(0), axis.y(mean[i])];
      surface.rect(x, Math.min(from, to), wide, Math.max(Math.abs(from - to), 0.5), CATEGORIES[0]);
      const at = x + wide / 2;
      if (n_joined > 1) surface.line([[at, axis.y(low[i])], [at, axis.y(high[i])]], theme.ink); // prettier-ignore
    }
    const ends = mean.length > 1 ? [0, mean.length - 1] : [0];
    for (const i of ends)
      surface.text(i ? width - 2 : LEFT, axis.bottom + 11, name[i], {
        fill: theme.muted,
        size: 11,
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
    const middle = LEFT + (width - LEFT) / 2;
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
    if (!this.cells) return;
    const { grid, mean } = this.cells;
    const theme = themeColours();
    const known = Array.from(mean).filter(Number.isFinite);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const [wide, tall] = [(width - LEFT) / grid.columns.length, (height - BELOW) / grid.lanes.length];
    for (let i = 0; i < grid.column.length; i++) {
      const share = high > low ? (mean[i] - low) / (high - low) : 1;
      const fill = Number.isFinite(mean[i]) ? scale(share) : theme.faint;
      const gap = wide > 4 ? 1 : 0;
      const size = [wide, tall].map((length) => Math.max(length - gap, 0.5));
      surface.rect(LEFT + grid.column[i] * wide, grid.lane[i] * tall, size[0], size[1], fill);
    }
    const every = Math.ceil(14 / tall);
    grid.lanes.forEach((lane, k) => {
      if (k % every) return;
      surface.text(LEFT - 6, (k + 0.5) * tall, lane, { fill: theme.muted, size: 11, anchor: "end" });
    });
    surface.text(LEFT, height - 8, grid.columns[0], { fill: theme.muted, size: 11 });
    const last = grid.columns[grid.columns.length - 1];
    if (grid.columns.length > 1)
      surface.text(width - 2, height - 8, last, { fill: theme.muted, size: 11, anchor: "end" });
  }

  // -- details --------------------------------------------------------------------------------------------------------

  /** @param {MouseEvent} event */
  hovered(event) {
    const { width, height } = this.picture.size();
    const told = this.way === "map" ? this.cellAt(event, width, height) : this.barAt(event, width);
    if (!told || !this.data) {
      tooltip.hide();
      return;
    }
    const { metric } = this.data;
    const amount = amountOf(metric.unit, metric.derived !== "");
    const { title, mean, low, high, many } = told;
    /** @type {[string, string][]} */
    const rows = many
      ? [["mean", amount(mean)], ["min", amount(low)], ["max", amount(high)]] // prettier-ignore
      : [[metric.name, Number.isFinite(mean) ? amount(mean) : "no value"]];
    tooltip.show({ title, rows }, event.clientX, event.clientY);
  }

  /**
   * @param {MouseEvent} event
   * @param {number} width
   */
  barAt(event, width) {
    if (!this.data || this.way !== "bars") return null;
    const { mean, low, high, name, n_joined } = this.data;
    const i = Math.floor(((event.offsetX - LEFT) / (width - LEFT)) * mean.length);
    if (i < 0 || i >= mean.length) return null;
    return { title: name[i], mean: mean[i], low: low[i], high: high[i], many: n_joined > 1 };
  }

  /**
   * @param {MouseEvent} event
   * @param {number} width
   * @param {number} height
   */
  cellAt(event, width, height) {
    if (!this.cells) return null;
    const { grid, mean, low, high } = this.cells;
    const column = Math.floor(((event.offsetX - LEFT) / (width - LEFT)) * grid.columns.length);
    const lane = Math.floor((event.offsetY / (height - BELOW)) * grid.lanes.length);
    for (let i = 0; i < grid.column.length; i++)
      if (grid.column[i] === column && grid.lane[i] === lane) {
        const title = `${grid.columns[column]} ${grid.lanes[lane]}`;
        return { title, mean: mean[i], low: low[i], high: high[i], many: grid.n_profiles[i] > 1 };
      }
    return null;
  }
}
