/**
 * The flame graph, roots at the top (an icicle) or at the bottom: as wide as the inclusive cost. A click zooms, so do
 * the wheel and the keyboard; a search marks what it finds and says what share of the cost that is.
 *
 * @import { Surface, Theme } from "./canvas.js"
 * @import { FlameData, Metric } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Colours } from "./flame_colours.js"
 * @import { Store } from "./store.js"
 * @import { Details } from "./tooltip.js"
 * @import { Order, Tree } from "./tree.js"
 *
 * @typedef {Object} Subject  what a flame graph is of; metrics are numbers of those of the tree
 * @property {Tree} tree
 * @property {(name: string) => number} metricOf  the one to draw where that name is chosen
 * @property {(metric: number) => Option[]} colourings  the first is the default
 * @property {(metric: number, by: string) => Colours} colours
 * @property {(i: number, metric: number) => Details} details
 * @property {(metric: number) => string} width  what boxes are as wide as
 * @property {Option[]} orders  of siblings; the first is the default
 * @property {boolean} [upside]  roots at the bottom or not, where that is not for the reader to say
 * @property {HTMLElement[]} controls  beside those that every flame graph has
 */

import { fitting, Picture, themeColours } from "./canvas.js";
import { inkOn, mixed } from "./colours.js";
import { button, choice, element, switches, takeKey } from "./dom.js";
import { colourer, drawLegend } from "./flame_colours.js";
import { callAt, layOut, searched, visit } from "./flame_layout.js";
import { amountOf, count, percent, shortName } from "./format.js";
import { tooltip } from "./tooltip.js";
import { treeOf } from "./tree.js";

const LOWEST = 22; // pixels of a box; in shallow trees they are higher
const HIGHEST = 30;
const MAP = 26; // height of the map of everything
const TOP = MAP + 8; // where the first box begins
const PADDING = 8; // of the element around the picture
const NARROWEST = 0.7; // pixels; narrower boxes are not drawn
/** @type {Option[]} */
const COLOURINGS = [
  ["name", "name"],
  ["module", "module"],
  ["kind", "kind"],
  ["exclusive", "exclusive cost"],
  ["inclusive", "inclusive cost"],
];

/** @type {Option[]} */
export const ORDERS = [
  ["cost", "largest first"],
  ["name", "by name"],
];

/**
 * @param {HTMLElement} place
 * @param {FlameData} data
 * @param {Store} view
 */
export function drawFlame(place, data, view) {
  new FlameGraph(place, subjectOf(data), view).refresh();
}

/**
 * What a flame graph of some data is of.
 * @param {FlameData} data
 * @returns {Subject}
 */
export function subjectOf(data) {
  const tree = treeOf(data.tree, data.labels);
  const signed = data.metrics.some((one) => one.signed);
  /** @type {Option[]} */
  const withChange = [["change", "change"], ...COLOURINGS];
  return {
    tree,
    metricOf: (/** @type {string} */ name) => chosenMetric(tree.metrics, name),
    colourings: (/** @type {number} */ metric) =>
      signed && !tree.metrics[metric].signed ? [...COLOURINGS, withChange[0]] : signed ? withChange : COLOURINGS,
    colours: (/** @type {number} */ metric, /** @type {string} */ by) => colourer(tree, metric, by),
    details: (/** @type {number} */ i, /** @type {number} */ metric) => tree.details(i, metric),
    width: (/** @type {number} */ metric) => `inclusive ${tree.metrics[metric].name}`,
    orders: ORDERS,
    controls: [],
  };
}

/** What is in sight is a part of the whole, from `from` to `to`; `focus` is the call that was zoomed to, -1 is none. */
export class FlameGraph {
  crumbs = element("nav", { class: "crumbs", attributes: { "aria-label": "Path of the zoomed call" } });
  share = element("span", { class: "match", attributes: { role: "status" } });
  legend = element("div", { class: "legend" });
  picture = new Picture({
    name: "flame-graph",
    label: "Flame graph. Arrow keys walk through calls, Enter zooms in, Escape out, slash searches.",
    draw: (surface, width, height) => this.draw(surface, width, height),
    height: () => this.scroller.clientHeight - PADDING,
    used: (tall) => (this.upside ? tall : TOP + (this.layout.deepest + 1) * this.row + 4),
    caption: () => this.caption(),
  });
  /** @type {HTMLElement} */
  spacer = element("div", { class: "flame-spacer" }, [this.picture.root]);
  /** @type {HTMLElement} */
  scroller = element("div", { class: "flame-scroller" }, [this.spacer]);
  upside = false; // roots at the bottom
  row = LOWEST;
  /** @type {Order} */
  order = "cost";
  cursor = -1; // the call that the keyboard is at
  focus = -1;
  from = 0;
  to = 1;

  /**
   * @param {HTMLElement} place
   * @param {Subject} subject
   * @param {Store} view
   */
  constructor(place, subject, view) {
    this.subject = subject;
    this.view = view;
    this.tree = subject.tree;
    this.metric = subject.metricOf(view.get("metric"));
    this.colouring = subject.colourings(this.metric)[0][0];
    this.layout = layOut(this.tree, this.metric, this.order);
    this.colours = subject.colours(this.metric, this.colouring);
    this.found = searched(this.tree, this.metric, view.get("search"));
    this.build(place);
    this.listen();
  }

  /** @param {HTMLElement} place */
  build(place) {
    const direction = switches(
      "Direction",
      [
        ["down", "Roots at top"],
        ["up", "Roots at bottom"],
      ],
      "down",
      (value) => this.turn(value === "up"),
    );
    const colouring = choice("Colour by", this.subject.colourings(this.metric), this.colouring, (value) =>
      this.colour(value),
    );
    const orders = this.subject.orders;
    const order = choice("Order", orders, this.order, (value) => this.sort(/** @type {Order} */ (value)));
    place.append(
      element("div", { class: "toolbar" }, [
        ...this.subject.controls,
        this.subject.upside === undefined ? direction.root : null,
        orders.length > 1 ? order.root : null,
        colouring.root,
        button("Reset zoom", "Show everything again (Escape)", () => this.zoom(-1)),
        this.share,
        element("span", { class: "gap" }),
        this.picture.buttons,
      ]),
      this.crumbs,
      this.scroller,
      this.legend,
    );
  }

  listen() {
    const { canvas } = this.picture;
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    canvas.addEventListener("click", (event) => this.clicked(event));
    canvas.addEventListener("mousemove", (event) => this.hovered(event));
    canvas.addEventListener("mouseleave", () => tooltip.hide());
    canvas.addEventListener("blur", () => tooltip.hide());
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    this.scroller.addEventListener(
      "scroll",
      () => {
        tooltip.hide();
        this.picture.redraw();
      },
      { passive: true },
    );
    new ResizeObserver(() => this.refresh()).observe(this.scroller);
    this.view.watch("metric", () => this.measure());
    this.view.watch("search", (text) => {
      this.found = searched(this.tree, this.metric, text);
      this.refresh();
    });
    this.view.watch("step", (step) => step && this.step(step.by));
  }

  /** Draw everything anew that depends on the metric. */
  measure() {
    this.metric = this.subject.metricOf(this.view.get("metric"));
    this.layout = layOut(this.tree, this.metric, this.order);
    this.colours = this.subject.colours(this.metric, this.colouring);
    this.found = searched(this.tree, this.metric, this.view.get("search"));
    this.zoom(-1);
  }

  /** @param {boolean} upside */
  turn(upside) {
    this.upside = upside;
    this.refresh();
    this.scroller.scrollTop = upside ? this.scroller.scrollHeight : 0; // where the roots are
  }

  /**
   * Put calls of one caller into another order.
   * @param {Order} order
   */
  sort(order) {
    this.order = order;
    this.layout = layOut(this.tree, this.metric, order);
    this.zoom(this.focus);
  }

  /** @param {string} by */
  colour(by) {
    this.colouring = by;
    this.colours = this.subject.colours(this.metric, by);
    this.refresh();
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  refresh() {
    const room = this.scroller.clientHeight - PADDING;
    const levels = this.layout.deepest + 1;
    this.row = Math.floor(Math.min(Math.max((room - TOP - 4) / levels, LOWEST), HIGHEST));
    this.picture.canvas.dataset.row = String(this.row);
    this.spacer.style.height = `${Math.max(room, TOP + levels * this.row + 4)}px`;
    this.drawCrumbs();
    drawLegend(this.legend, this.colours);
    this.share.textContent = this.foundText();
    this.picture.redraw();
  }

  /** What is drawn where the metric cannot be, or what the search found. */
  foundText() {
    const { name, unit, derived } = this.tree.metrics[this.metric];
    const wanted = this.view.get("metric");
    if (!this.found) return wanted === name ? "" : `${wanted} ${this.whyNot(wanted)}: this is ${name}`;
    const { n, cost, share } = this.found;
    const calls = `${count(n)} ${n === 1 ? "call" : "calls"}`;
    const of = this.tree.metrics[this.metric].signed ? `all changes of ${name}` : name;
    const all = amountOf(unit, derived !== "")(cost);
    return `“${this.view.get("search").trim()}”: ${percent(share)} of ${of} (${all}) in ${calls}`;
  }

  /**
   * Why a metric cannot be drawn.
   * @param {string} name
   */
  whyNot(name) {
    const wanted = this.tree.metrics.find((one) => one.name === name);
    return wanted?.additive ? "lacks values, so that nothing adds up" : "has no parts that add up";
  }

  caption() {
    const { unit, total, derived } = this.tree.metrics[this.metric];
    const { names, scale, meaning } = this.colours;
    const amount = amountOf(unit, derived !== "");
    const part = this.focus < 0 ? "" : `, in ${this.tree.name(this.focus)}`;
    return [
      {
        text: `${this.subject.width(this.metric)}${Number.isFinite(total) ? `, ${amount(total)} in total` : ""}${part}`,
      },
      { text: this.foundText() },
      ...(names ?? []).map(([text, colour]) => ({ text, colour })),
      { text: meaning ?? (scale ? `${this.colouring} cost, brighter from ${scale[0]} to ${scale[1]}` : "") },
    ];
  }

  drawCrumbs() {
    const { tree } = this;
    const path = this.focus < 0 ? [] : tree.path(this.focus);
    const shown = path.length > 8 ? [...path.slice(0, 3), -1, ...path.slice(-4)] : path;
    /** @param {number} i */
    const crumb = (i) => button(shortName(tree.name(i), tree.kind(i)), tree.name(i), () => this.zoom(i));
    this.crumbs.replaceChildren(
      button("everything", "Show everything", () => this.zoom(-1)),
      ...shown.flatMap((i) => [
        element("span", { text: "›", attributes: { "aria-hidden": "true" } }),
        i < 0 ? element("span", { text: "…" }) : crumb(i),
      ]),
    );
  }

  /**
   * How far the picture is scrolled; with roots at the bottom, the end of the range is where it begins.
   * @param {number} height
   */
  scrolled(height) {
    const { scrollTop } = this.scroller;
    return this.upside ? Math.max(0, this.spacer.offsetHeight - height - scrollTop) : scrollTop;
  }

  /**
   * Where the box of a call is drawn.
   * @param {number} i
   * @param {number} width
   * @param {number} height
   */
  boxOf(i, width, height) {
    const scale = width / (this.to - this.from);
    const x = (this.layout.from[i] - this.from) * scale;
    const right = (this.layout.to[i] - this.from) * scale;
    const level = this.tree.depth[i] * this.row - this.scrolled(height);
    const y = this.upside ? height - level - this.row : TOP + level;
    return { x: Math.max(x, 0), right: Math.min(right, width), y };
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   */
  draw(surface, width, height) {
    const theme = themeColours();
    let n = 0;
    visit(this.tree, this.layout, this.from, this.to, NARROWEST / width, (i) => {
      n++;
      const { x, right, y } = this.boxOf(i, width, height);
      if (y <= height && y + this.row >= MAP) this.drawBox(surface, i, x, right - x, y, theme);
    });
    if (this.cursor >= 0) {
      const { x, right, y } = this.boxOf(this.cursor, width, height);
      if (right > x) surface.rect(x, y, Math.max(right - x, 2), this.row - 1, "", theme.ink);
    }
    this.drawMap(surface, width, theme);
    if (!n)
      surface.text(
        width / 2,
        TOP + 40,
        this.tree.metrics[this.metric].signed ? "nothing has changed here" : "nothing has a cost above 0 here",
        { fill: theme.muted, size: 13, anchor: "middle" },
      );
  }

  /**
   * @param {Surface} surface
   * @param {number} i
   * @param {number} x
   * @param {number} width
   * @param {number} y
   * @param {Theme} theme
   */
  drawBox(surface, i, x, width, y, theme) {
    let fill = this.colours.of(i);
    let ink = inkOn(fill);
    if (this.found?.is[i]) [fill, ink] = [theme.mark, inkOn(theme.mark)];
    else if (this.found) [fill, ink] = [mixed(fill, theme.ground, 0.72), theme.muted];
    else if (width < 4) fill = mixed(fill, theme.ground, 0.3); // a crowd of them must not outshine what can be read
    surface.rect(x, y, Math.max(width - (width > 3 ? 1 : 0), 0.5), this.row - 1, fill);
    const style = { fill: ink, size: 12 };
    const name = shortName(this.tree.name(i), this.tree.kind(i));
    const text = width > 24 ? fitting(surface, name, width - 10, style) : "";
    if (text) surface.text(x + 5, y + this.row / 2 - 0.5, text, style);
  }

  /**
   * Everything in small, and which part of it is in sight.
   * @param {Surface} surface
   * @param {number} width
   * @param {Theme} theme
   */
  drawMap(surface, width, theme) {
    const { layout, found } = this;
    const row = Math.min(5, MAP / (layout.deepest + 1));
    surface.rect(0, 0, width, MAP, theme.ground);
    visit(this.tree, layout, 0, 1, 1 / width, (i) => {
      const fill = found?.is[i] ? theme.mark : mixed(this.colours.of(i), theme.ground, found ? 0.7 : 0.25);
      const wide = Math.max((layout.to[i] - layout.from[i]) * width, 0.5);
      surface.rect(layout.from[i] * width, this.tree.depth[i] * row, wide, Math.max(row - 0.5, 0.5), fill);
    });
    const part = this.to - this.from;
    if (part < 1) surface.rect(this.from * width, 0, Math.max(part * width, 3), MAP, "", theme.accent);
    surface.line(
      [
        [0, MAP + 3.5],
        [width, MAP + 3.5],
      ],
      theme.faint,
    );
  }

  // -- zooming --------------------------------------------------------------------------------------------------------

  /**
   * Fill the width with a call; -1 is everything.
   * @param {number} i
   */
  zoom(i) {
    this.focus = i;
    this.show(i < 0 ? 0 : this.layout.from[i], i < 0 ? 1 : this.layout.to[i]);
  }

  /**
   * More or less of the whole, with a place of it where it is.
   * @param {number} middle
   * @param {number} factor
   */
  zoomAround(middle, factor) {
    const width = Math.min(1, Math.max((this.to - this.from) * factor, 1e-9));
    const start = middle - ((middle - this.from) / (this.to - this.from)) * width;
    if (width >= 1) this.focus = -1;
    this.showFrom(start, width);
  }

  /**
   * @param {number} start
   * @param {number} width
   */
  showFrom(start, width) {
    const from = Math.max(0, Math.min(start, 1 - width));
    this.show(from, from + width);
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    [this.from, this.to] = to > from ? [from, to] : [0, 1];
    this.refresh();
  }

  // -- mouse and keyboard ---------------------------------------------------------------------------------------------

  /**
   * The part of the whole that an event is at.
   * @param {MouseEvent} event
   */
  placeOf(event) {
    return this.from + (event.offsetX / this.picture.size().width) * (this.to - this.from);
  }

  /** @param {MouseEvent} event */
  callAt(event) {
    if (event.offsetY < MAP) return -1;
    const { height } = this.picture.size();
    const y = this.upside ? height - event.offsetY : event.offsetY - TOP;
    const level = Math.floor((y + this.scrolled(height)) / this.row);
    return callAt(this.tree, this.layout, this.placeOf(event), level);
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const { width } = this.picture.size();
    const part = this.to - this.from;
    if (event.offsetY < MAP) {
      this.showFrom(event.offsetX / width - part / 2, part);
      return;
    }
    this.cursor = this.callAt(event);
    if (this.cursor >= 0) this.zoom(this.cursor === this.focus ? this.tree.parent[this.cursor] : this.cursor);
  }

  /** @param {MouseEvent} event */
  hovered(event) {
    const hit = this.callAt(event);
    this.picture.canvas.style.cursor = hit >= 0 ? "pointer" : "default";
    if (hit >= 0) tooltip.show(this.subject.details(hit, this.metric), event.clientX, event.clientY);
    else tooltip.hide();
  }

  /** @param {WheelEvent} event */
  wheeled(event) {
    const scrolls = this.scroller.scrollHeight > this.scroller.clientHeight + 1;
    if (scrolls && !event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    this.zoomAround(this.placeOf(event), (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const middle = (this.from + this.to) / 2;
    const away = this.upside ? "ArrowUp" : "ArrowDown"; // from the roots
    const actions = {
      ArrowDown: () => this.move(away === "ArrowDown" ? this.below() : this.above()),
      ArrowUp: () => this.move(away === "ArrowUp" ? this.below() : this.above()),
      ArrowLeft: () => this.move(this.beside(-1)),
      ArrowRight: () => this.move(this.beside(1)),
      Enter: () => this.zoom(this.cursor),
      " ": () => this.zoom(this.cursor),
      Escape: () => {
        tooltip.hide();
        this.zoom(-1);
      },
      Backspace: () => this.zoom(this.focus < 0 ? -1 : this.tree.parent[this.focus]),
      "+": () => this.zoomAround(middle, 0.5),
      "=": () => this.zoomAround(middle, 0.5),
      "-": () => this.zoomAround(middle, 2),
    };
    if (!event.ctrlKey && !event.metaKey && !event.altKey) takeKey(event, actions)?.();
  }

  below() {
    const from = this.cursor < 0 ? this.tree.root : this.cursor;
    return this.tree.hasChildren(from) ? this.layout.list[this.tree.start[from]] : this.cursor;
  }

  above() {
    if (this.cursor < 0) return this.below();
    return this.tree.parent[this.cursor] < 0 ? this.cursor : this.tree.parent[this.cursor];
  }

  /** @param {number} step */
  beside(step) {
    if (this.cursor < 0) return this.below();
    const { tree } = this;
    const parent = tree.parent[this.cursor] < 0 ? tree.root : tree.parent[this.cursor];
    const siblings = this.layout.list.subarray(tree.start[parent], tree.start[parent + 1]);
    return siblings[Math.min(Math.max(siblings.indexOf(this.cursor) + step, 0), siblings.length - 1)];
  }

  /**
   * To the next of the calls that the search found, from the costliest down (1) or up (-1).
   * @param {number} by
   */
  step(by) {
    const { found, layout } = this;
    if (!found?.n || !this.picture.root.clientWidth) return; // nothing found, or another view is open
    const { weight } = this.tree.metrics[this.metric];
    const calls = Array.from(found.is.keys())
      .filter((i) => found.is[i] && layout.to[i] > layout.from[i])
      .sort((a, b) => weight[b] - weight[a] || a - b);
    const at = calls.indexOf(this.cursor);
    if (calls.length)
      this.move(calls[(at < 0 ? (by > 0 ? 0 : calls.length - 1) : at + by + calls.length) % calls.length]);
  }

  /**
   * Put the keyboard at a call, with its details, and bring it into sight.
   * @param {number} next
   */
  move(next) {
    if (next < 0) return;
    this.cursor = next;
    if (this.layout.to[next] <= this.from || this.layout.from[next] >= this.to) this.zoom(this.tree.parent[next]);
    const { width, height } = this.picture.size();
    const { y } = this.boxOf(next, width, height);
    if (y < TOP) this.scroller.scrollTop -= TOP - y;
    if (y + this.row > height) this.scroller.scrollTop += y + this.row - height + 4;
    const canvas = this.picture.canvas.getBoundingClientRect();
    const box = this.boxOf(next, width, height);
    tooltip.show(this.subject.details(next, this.metric), canvas.left + box.x, canvas.top + box.y);
    this.picture.redraw();
  }
}

/**
 * The metric of that name, if its costs add up; else the first whose costs do. Those that lack values do not.
 * @param {Metric[]} metrics
 * @param {string} name
 */
export function chosenMetric(metrics, name) {
  /** @param {Metric} one */
  const addsUp = ({ additive, missing }) => additive && !missing;
  const wanted = metrics.findIndex((one) => one.name === name && addsUp(one));
  return wanted >= 0 ? wanted : metrics.findIndex(addsUp);
}
