/**
 * A plot of curves and measured points over one parameter, with linear or logarithmic axes.
 *
 * @import { Point, Surface, Theme } from "./canvas.js"
 * @import { Key } from "./caption.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {{ x: number, y: number, low: number, high: number, repeated: number[], details: Details }} Measured
 *
 * @typedef {{ x: number, low: number, high: number }} Band
 *
 * @typedef {Object} PlotCurve
 * @property {string} colour
 * @property {Point[]} line
 * @property {Point[][]} near  lines of functions that fit nearly as well
 * @property {Band[]} band  where the curve lies, with a probability of 90%, at the places where that is known
 * @property {Band[]} bandLine  how it is drawn between them
 * @property {Measured[]} points
 * @property {{ x: number, y: number, text: string } | null} target
 *
 * @typedef {Object} PlotData
 * @property {string} xTitle
 * @property {string} yTitle
 * @property {boolean} logX
 * @property {boolean} logY
 * @property {number[]} xMarks  where the axis is marked; none: at round numbers
 * @property {(x: number) => string} xText
 * @property {(y: number) => string} yText
 * @property {PlotCurve[]} curves
 * @property {[number, number]} inside  the range in which anything was measured
 * @property {{ x: number, y: number }[]} crossings  where one curve overtakes another
 * @property {number[]} snaps  places that the pointer is drawn to: there everything is known
 * @property {(x: number) => Details} detailsAt
 * @property {string} empty  what to say where there is nothing to draw
 * @property {string} said  above the curve
 * @property {Key[]} caption  below it where it is saved
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
import { faded } from "./colours.js";
import { element, takeKey } from "./dom.js";
import { logTicksOf, ticksOf } from "./ticks.js";
import { tooltip } from "./tooltip.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [48, 24, 18, 40]; // LEFT at least: labels may need more
const NEAR = 10; // pixels from a point at which it is meant
const MOST_DOTS = 40; // of a band
const SNAP = 6; // pixels from a place that the pointer is drawn to

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
      label: "Measured values and the functions fitted to them. Left and right go from point to point.",
      height,
      draw: (surface, width, tall) => this.#draw(surface, width, tall),
      caption: () => plotOf().caption,
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
    const xs = plot.curves.flatMap(({ line, points }) => [...line.map(([x]) => x), ...points.map((point) => point.x)]);
    const measured = plot.curves.flatMap(({ points }) => points.flatMap((point) => [point.y, point.low, point.high]));
    const drawn = plot.curves.flatMap(({ line }) => line.map(([, y]) => y));
    const ys = [...drawn, ...measured].filter(Number.isFinite);
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
    for (const curve of plot.curves) drawBand(surface, curve, frame);
    for (const curve of plot.curves) drawCurve(surface, curve, plot.inside, frame);
    for (const { x, y } of plot.crossings) drawCrossing(surface, x, y, frame);
    for (const curve of plot.curves) drawTarget(surface, curve, frame);
    const focused = document.activeElement === this.#picture.canvas;
    pointsOf(plot).forEach(([point, colour], k) =>
      drawPoint(surface, point, colour, frame, k === this.#cursor && focused),
    );
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
    const points = pointsOf(this.#plotOf());
    this.#cursor = Math.min(Math.max(this.#cursor + step, 0), points.length - 1);
    const [point] = points[this.#cursor] ?? [];
    const { x, y } = this.#shownFrame();
    const box = this.#picture.canvas.getBoundingClientRect();
    if (point) tooltip.show(point.details, box.left + x.place(point.x), box.top + y.place(point.y));
    this.redraw();
  }

  /** @param {MouseEvent} event */
  #hovered(event) {
    const plot = this.#plotOf();
    if (plot.empty) return;
    const { x, y, left, right } = this.#shownFrame();
    const far = pointsOf(plot).map(([point]) => ({
      point,
      pixels: Math.hypot(x.place(point.x) - event.offsetX, y.place(point.y) - event.offsetY),
    }));
    const nearest = far.filter(({ pixels }) => pixels < NEAR).sort((a, b) => a.pixels - b.pixels)[0];
    const isInside = event.offsetX >= left - 1 && event.offsetX <= right + 1;
    if (nearest) tooltip.show(nearest.point.details, event.clientX, event.clientY);
    else if (isInside) tooltip.show(plot.detailsAt(valueUnder(plot, x, event.offsetX)), event.clientX, event.clientY);
    else tooltip.hide();
  }
}

/**
 * Measured points of all curves from left to right, with their colours.
 * @param {PlotData} plot
 */
function pointsOf(plot) {
  const found = plot.curves.flatMap(({ points, colour }) =>
    points.map((point) => /** @type {[Measured, string]} */ ([point, colour])),
  );
  return found.sort(([a], [b]) => a.x - b.x);
}

/**
 * The value that the pointer is at; near a place where everything is known, that.
 * @param {PlotData} plot
 * @param {Axis} x
 * @param {number} pixel
 */
function valueUnder(plot, x, pixel) {
  const far = plot.snaps.map((value) => Math.abs(x.place(value) - pixel));
  const nearest = far.indexOf(Math.min(...far));
  return far[nearest] < SNAP ? plot.snaps[nearest] : Number(x.valueOf(pixel).toPrecision(3));
}

/**
 * The axes with their marks and titles.
 * @param {Surface} surface
 * @param {PlotData} plot
 * @param {Frame} frame
 * @param {number} tall
 */
function drawAxes(surface, plot, { x, y, left, right, bottom, theme }, tall) {
  drawOutside(surface, plot, { x, y, left, right, bottom, theme });
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
 * Mark where nothing was measured.
 * @param {Surface} surface
 * @param {PlotData} plot
 * @param {Frame} frame
 */
function drawOutside(surface, { inside: [first, last] }, { x, left, right, bottom, theme }) {
  const [from, to] = [x.place(first), x.place(last)];
  const fill = faded(theme.muted, 0.1);
  if (from - left > 1) surface.rect(left, TOP, from - left, bottom - TOP, fill);
  if (!(right - to > 1)) return;
  surface.rect(to, TOP, right - to, bottom - TOP, fill);
  const text = fitting(surface, "beyond what was measured", right - to - 12, { size: 11 });
  surface.text(to + 6, TOP + 9, text, { fill: theme.muted, size: 11 });
}

/**
 * A curve, dashed where nothing was measured, and thin dashed ones that fit nearly as well.
 * @param {Surface} surface
 * @param {PlotCurve} curve
 * @param {[number, number]} inside
 * @param {Frame} frame
 */
function drawCurve(surface, { colour, line, near }, [first, last], { x, y, bottom }) {
  /** @type {(points: Point[], colour: string, width: number, dashed: boolean) => void} */
  const draw = (points, stroke, width, dashed) => {
    for (const run of runs(points, x, y)) {
      /** @type {Point[]} */
      const clamped = run.map(([a, b]) => [a, Math.min(Math.max(b, TOP - 2), bottom + 2)]);
      surface.line(clamped, stroke, width, dashed);
    }
  };
  for (const other of near) draw(other, faded(colour, 0.75), 1, true);
  for (const [low, high, dashed] of /** @type {[number, number, boolean][]} */ ([
    [-Infinity, first, true],
    [first, last, false],
    [last, Infinity, true],
  ]))
    draw(
      line.filter(([at]) => at >= low && at <= high),
      colour,
      2.5,
      dashed,
    );
}

/**
 * Where a curve lies with a probability of 90%; dots are the places at which that is known.
 * @param {Surface} surface
 * @param {PlotCurve} curve
 * @param {Frame} frame
 */
function drawBand(surface, { band, bandLine, colour }, { x, y, bottom, right }) {
  /** @param {number} value */
  const inside = (value) => Math.min(Math.max(y.place(value), TOP), bottom);
  /** @type {(bounds: Band[]) => Band[]} */
  const drawn = (bounds) =>
    bounds.filter(
      (one) => Number.isFinite(y.place(one.low)) && Number.isFinite(y.place(one.high)) && x.place(one.x) <= right + 0.5,
    );
  /** @type {(bounds: Band[], bound: "low" | "high") => Point[]} */
  const edge = (bounds, bound) => bounds.map((one) => [x.place(one.x), inside(one[bound])]);
  const shape = drawn(bandLine);
  if (shape.length < 2) return;
  surface.polygon([...edge(shape, "low"), ...edge(shape, "high").reverse()], faded(colour, 0.16));
  const known = drawn(band);
  for (const bound of /** @type {("low" | "high")[]} */ (["low", "high"])) {
    surface.line(edge(shape, bound), faded(colour, 0.5), 1);
    if (known.length < MOST_DOTS)
      for (const [a, b] of edge(known, bound)) surface.circle(a, b, 1.7, faded(colour, 0.8));
  }
}

/**
 * Where one curve overtakes another.
 * @param {Surface} surface
 * @param {number} at
 * @param {number} value
 * @param {Frame} frame
 */
function drawCrossing(surface, at, value, { x, y, bottom, theme }) {
  const [a, b] = [x.place(at), y.place(value)];
  if (!Number.isFinite(a) || !Number.isFinite(b)) return;
  drawLine(surface, [a, b], [a, bottom], theme.muted, 1, true);
  surface.circle(a, b, 5, "", theme.ink);
}

/**
 * Where the model predicts.
 * @param {Surface} surface
 * @param {PlotCurve} curve
 * @param {Frame} frame
 */
function drawTarget(surface, { target, colour }, { x, y, bottom, theme }) {
  if (!target) return;
  const at = x.place(target.x);
  drawLine(surface, [at, TOP], [at, bottom], theme.mark, 1, true);
  const here = y.place(target.y);
  if (!Number.isFinite(here)) return;
  surface.circle(at, here, 4.5, theme.ground, colour);
  const above = Math.min(Math.max(here - 10, TOP), bottom - 8);
  surface.text(at - 9, above, target.text, { fill: theme.ink, size: 12, anchor: "end", bold: true });
}

/**
 * What was measured at a place: every repetition, or the range from the smallest to the largest.
 * @param {Surface} surface
 * @param {Measured} point
 * @param {string} colour
 * @param {Frame} frame
 * @param {boolean} chosen
 */
function drawPoint(surface, point, colour, { x, y, theme }, chosen) {
  const [at, here] = [x.place(point.x), y.place(point.y)];
  if (!Number.isFinite(here)) return;
  const [low, high] = [y.place(point.low), y.place(point.high)];
  if (Number.isFinite(low) && Number.isFinite(high) && Math.abs(low - high) > 1) {
    drawLine(surface, [at, low], [at, high], theme.ink, 1.2);
    for (const end of [low, high]) drawLine(surface, [at - 4, end], [at + 4, end], theme.ink, 1.2);
  }
  for (const value of point.repeated) {
    const place = y.place(value);
    if (Number.isFinite(place)) surface.circle(at, place, 2.2, faded(theme.ink, 0.45));
  }
  surface.circle(at, here, chosen ? 6 : 4, colour, chosen ? theme.mark : theme.ink);
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
    valueOf: (/** @type {number} */ place) => {
      const at = first + ((place - from) / (to - from)) * (last - first);
      return logarithmic ? 10 ** at : at;
    },
    marks: (/** @type {number} */ most) => {
      const marks = logarithmic ? logTicksOf(low, high, most) : [];
      return marks.length > 1 ? marks : ticksOf(low, high, most).marks.filter((mark) => !logarithmic || mark > 0);
    },
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
