/**
 * A plot of curves and measured points over one parameter, with linear or logarithmic axes.
 *
 * @import { Point, Surface, Theme } from "./canvas.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {{ x: number, y: number, low: number, high: number, details: Details }} Measured
 *
 * @typedef {{ x: number, low: number, high: number }} Band
 *
 * @typedef {Object} PlotData
 * @property {string} xTitle
 * @property {string} yTitle
 * @property {boolean} logX
 * @property {boolean} logY
 * @property {number[]} xMarks  where the axis is marked; none: at round numbers
 * @property {(x: number) => string} xText
 * @property {(y: number) => string} yText
 * @property {Point[]} curve
 * @property {number} beyond  where the curve leaves what was measured
 * @property {Band[]} band  where the curve lies, with a probability of 90 %
 * @property {Measured[]} points
 * @property {{ x: number, y: number, text: string } | null} target
 * @property {string} empty  what to say where there is nothing to draw
 * @property {string} said  above the curve
 * @property {string} caption  below it where it is saved
 *
 * @typedef {ReturnType<typeof axisOf>} Axis
 *
 * @typedef {Object} Frame  where a plot is drawn
 * @property {Axis} x
 * @property {Axis} y
 * @property {number} left
 * @property {number} right
 * @property {number} bottom
 * @property {Theme} theme
 */

import { drawLine, fitting, Picture, themeColours } from "./canvas.js";
import { element, takeKey } from "./dom.js";
import { logTicksOf, ticksOf } from "./ticks.js";
import { tooltip } from "./tooltip.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [48, 24, 18, 40]; // LEFT at least: labels may need more
const NEAR = 14; // pixels from a point at which it is meant

/** A picture of what `plotOf` says. */
export class Plot {
  #plotOf;
  #picture;
  #cursor = -1;
  #left = LEFT; // where the vertical axis is

  /**
   * @param {string} name  of saved files
   * @param {(width: number) => number} height
   * @param {() => PlotData} plotOf
   */
  constructor(name, height, plotOf) {
    this.#plotOf = plotOf;
    this.#picture = new Picture({
      name,
      label: "Measured values and the function fitted to them. Left and right go from point to point.",
      height,
      draw: (surface, width, tall) => this.#draw(surface, width, tall),
      caption: () => [{ text: plotOf().caption }],
    });
    this.root = this.#picture.root;
    this.buttons = this.#picture.buttons;
    this.#listen();
  }

  redraw() {
    this.#picture.redraw();
  }

  /**
   * @param {PlotData} plot
   * @param {number} width
   * @param {number} tall
   * @returns {Frame}
   */
  #frame(plot, width, tall) {
    const xs = [...plot.curve.map(([x]) => x), ...plot.points.map((point) => point.x)];
    const measured = plot.points.flatMap((point) => [point.y, point.low, point.high]);
    const ys = [...plot.curve.map(([, y]) => y), ...measured].filter(Number.isFinite);
    const [left, right, bottom] = [this.#left, width - RIGHT, tall - BOTTOM];
    return {
      x: axisOf(xs, plot.logX, left, right, false),
      y: axisOf(ys, plot.logY, bottom, TOP, true),
      left,
      right,
      bottom,
      theme: themeColours(),
    };
  }

  /** The frame of what is on the screen. */
  #shownFrame() {
    const { width, height } = this.#picture.size();
    return this.#frame(this.#plotOf(), width, height);
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} tall
   */
  #draw(surface, width, tall) {
    const plot = this.#plotOf();
    if (plot.empty) {
      surface.text(LEFT, tall / 2, plot.empty, { fill: themeColours().muted, size: 13 });
      return;
    }
    const marks = this.#frame(plot, width, tall).y.marks(tall / 45);
    this.#left = Math.max(LEFT, ...marks.map((mark) => surface.measure(plot.yText(mark), { size: 11 }) + 16));
    const frame = this.#frame(plot, width, tall);
    drawAxes(surface, plot, frame, tall);
    if (plot.said)
      surface.text((frame.left + frame.right) / 2, TOP + 12, plot.said, {
        fill: frame.theme.muted,
        size: 12,
        anchor: "middle",
      });
    drawBand(surface, plot, frame);
    drawCurve(surface, plot, frame);
    drawTarget(surface, plot, frame);
    const focused = document.activeElement === this.#picture.canvas;
    plot.points.forEach((point, k) => drawPoint(surface, point, frame, k === this.#cursor && focused));
  }

  #listen() {
    const { canvas } = this.#picture;
    canvas.addEventListener("mousemove", (event) => this.#hovered(event));
    canvas.addEventListener("keydown", (event) => {
      const step = takeKey(event, { ArrowLeft: -1, ArrowRight: 1 });
      if (step) this.#move(step);
    });
    for (const event of ["mouseleave", "blur"])
      canvas.addEventListener(event, () => {
        tooltip.hide();
        this.redraw();
      });
  }

  /** @param {number} step */
  #move(step) {
    const { points } = this.#plotOf();
    this.#cursor = Math.min(Math.max(this.#cursor + step, 0), points.length - 1);
    const point = points[this.#cursor];
    const { x, y } = this.#shownFrame();
    const box = this.#picture.canvas.getBoundingClientRect();
    if (point) tooltip.show(point.details, box.left + x.place(point.x), box.top + y.place(point.y));
    this.redraw();
  }

  /** @param {MouseEvent} event */
  #hovered(event) {
    const { points } = this.#plotOf();
    const { x, y } = this.#shownFrame();
    const far = points.map((point) => Math.hypot(x.place(point.x) - event.offsetX, y.place(point.y) - event.offsetY));
    const nearest = far.indexOf(Math.min(...far));
    if (nearest >= 0 && far[nearest] < NEAR) tooltip.show(points[nearest].details, event.clientX, event.clientY);
    else tooltip.hide();
  }
}

/**
 * The axes with their marks and titles.
 * @param {Surface} surface
 * @param {PlotData} plot
 * @param {Frame} frame
 * @param {number} tall
 */
function drawAxes(surface, plot, { x, y, left, right, bottom, theme }, tall) {
  let last = -Infinity;
  for (const mark of plot.xMarks.length ? plot.xMarks : x.marks((right - left) / 80)) {
    const at = x.place(mark);
    if (at - last < 30) continue;
    last = at;
    drawLine(surface, [at, TOP], [at, bottom], theme.faint);
    surface.text(at, bottom + 12, plot.xText(mark), { fill: theme.muted, size: 11, anchor: "middle" });
  }
  for (const mark of y.marks(tall / 45)) {
    const at = y.place(mark);
    drawLine(surface, [left, at], [right, at], theme.faint);
    surface.text(left - 8, at, plot.yText(mark), { fill: theme.muted, size: 11, anchor: "end" });
  }
  /** @type {Point[]} */
  const corner = [
    [left, TOP],
    [left, bottom],
    [right, bottom],
  ];
  surface.line(corner, theme.muted);
  surface.text((left + right) / 2, tall - 10, plot.xTitle, { fill: theme.ink, size: 12, anchor: "middle" });
  surface.text(left, 7, fitting(surface, plot.yTitle, 400, { size: 12 }), { fill: theme.ink, size: 12 });
}

/**
 * The curve, dashed where nothing was measured.
 * @param {Surface} surface
 * @param {PlotData} plot
 * @param {Frame} frame
 */
function drawCurve(surface, plot, { x, y, bottom, theme }) {
  for (const beyond of [false, true]) {
    const part = plot.curve.filter(([at]) => (beyond ? at >= plot.beyond : at <= plot.beyond));
    for (const run of runs(part, x, y)) {
      /** @type {Point[]} */
      const inside = run.map(([a, b]) => [a, Math.min(Math.max(b, TOP - 2), bottom + 2)]);
      surface.line(inside, theme.accent, 2.5, beyond);
    }
  }
}

/**
 * Where the curve lies with a probability of 90 %: its bounds, and lines between them.
 * @param {Surface} surface
 * @param {PlotData} plot
 * @param {Frame} frame
 */
function drawBand(surface, { band }, { x, y, bottom, theme }) {
  /** @param {number} value */
  const inside = (value) => Math.min(Math.max(y.place(value), TOP), bottom);
  const drawn = band.filter((one) => Number.isFinite(y.place(one.low)) && Number.isFinite(y.place(one.high)));
  for (const bound of /** @type {("low" | "high")[]} */ (["low", "high"])) {
    /** @type {Point[]} */
    const line = drawn.map((one) => [x.place(one.x), inside(one[bound])]);
    if (line.length > 1) surface.line(line, theme.muted, 1, true);
  }
  for (const one of drawn)
    drawLine(surface, [x.place(one.x), inside(one.low)], [x.place(one.x), inside(one.high)], theme.faint);
}

/**
 * Where the model predicts.
 * @param {Surface} surface
 * @param {PlotData} plot
 * @param {Frame} frame
 */
function drawTarget(surface, { target }, { x, y, bottom, theme }) {
  if (!target) return;
  const at = x.place(target.x);
  drawLine(surface, [at, TOP], [at, bottom], theme.mark, 1, true);
  const here = y.place(target.y);
  if (!Number.isFinite(here)) return;
  surface.circle(at, here, 4.5, theme.ground, theme.mark);
  const above = Math.min(Math.max(here - 10, TOP), bottom - 8);
  surface.text(at - 9, above, target.text, { fill: theme.ink, size: 12, anchor: "end", bold: true });
}

/**
 * What was measured at a place, from the smallest to the largest.
 * @param {Surface} surface
 * @param {Measured} point
 * @param {Frame} frame
 * @param {boolean} chosen
 */
function drawPoint(surface, point, { x, y, theme }, chosen) {
  const [at, here] = [x.place(point.x), y.place(point.y)];
  if (!Number.isFinite(here)) return;
  const [low, high] = [y.place(point.low), y.place(point.high)];
  if (Number.isFinite(low) && Number.isFinite(high) && Math.abs(low - high) > 1) {
    drawLine(surface, [at, low], [at, high], theme.ink, 1.2);
    for (const end of [low, high]) drawLine(surface, [at - 4, end], [at + 4, end], theme.ink, 1.2);
  }
  surface.circle(at, here, chosen ? 6 : 4, theme.ink, chosen ? theme.accent : undefined);
}

/**
 * The switch of an axis.
 * @param {string} label
 * @param {boolean} on
 * @param {(on: boolean) => void} changed
 */
export function axisSwitch(label, on, changed) {
  const box = element("input", { attributes: { type: "checkbox" }, on: { change: () => changed(box.checked) } });
  box.checked = on;
  box.style.minHeight = "auto";
  return element("label", { class: "choice" }, [box, element("span", { text: label })]);
}

/**
 * From numbers to places. A logarithmic axis has no place for what is not above 0.
 * @param {number[]} values
 * @param {boolean} logarithmic
 * @param {number} from
 * @param {number} to
 * @param {boolean} fromZero
 */
function axisOf(values, logarithmic, from, to, fromZero) {
  const usable = logarithmic ? values.filter((value) => value > 0) : values;
  let [low, high] = [Math.min(...usable), Math.max(...usable)];
  if (!usable.length) [low, high] = [1, 10];
  if (!logarithmic) {
    if (fromZero) low = Math.min(low, 0);
    if (low === high) high = low + (Math.abs(low) || 1);
    if (fromZero) high += (high - low) * 0.12; // room for words above the highest point
  } else if (fromZero) {
    [low, high] = [low / 1.25, high * 1.25];
  } else if (low === high) {
    [low, high] = [low / 2, high * 2];
  }
  /** @param {number} value */
  const scale = (value) => (!logarithmic ? value : value > 0 ? Math.log10(value) : NaN);
  const [first, last] = [scale(low), scale(high)];
  return {
    place: (/** @type {number} */ value) => from + ((scale(value) - first) / (last - first || 1)) * (to - from),
    marks: (/** @type {number} */ most) => (logarithmic ? logTicksOf(low, high, most) : ticksOf(low, high, most).marks),
  };
}

/**
 * The stretches of a curve that can be drawn, as places.
 * @param {Point[]} curve
 * @param {Axis} x
 * @param {Axis} y
 */
function runs(curve, x, y) {
  /** @type {Point[][]} */
  const found = [];
  /** @type {Point[]} */
  let run = [];
  for (const [a, b] of curve) {
    /** @type {Point} */
    const place = [x.place(a), Number.isFinite(b) ? y.place(b) : NaN];
    if (place.every(Number.isFinite)) run.push(place);
    else if (run.length) {
      found.push(run);
      run = [];
    }
  }
  if (run.length > 1) found.push(run);
  return found;
}
