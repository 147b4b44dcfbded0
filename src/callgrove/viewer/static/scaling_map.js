/**
 * Functions of two parameters seen from above: one as colours with contour lines, or which of several is the largest,
 * with the lines at which one overtakes another.
 *
 * @import { Point, Surface, Theme } from "./canvas.js"
 * @import { Key } from "./caption.js"
 * @import { SurfaceRules } from "./documents.js"
 * @import { GridAxis, Piece, Scale } from "./scaling_grid.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {Object} GroundFunction
 * @property {string} name
 * @property {string} colour
 * @property {Float64Array} z  on the grid
 * @property {{ x: number, y: number, z: number, model: number, details: Details }[]} measured
 *
 * @typedef {Object} Ground  functions over two parameters
 * @property {GridAxis} x
 * @property {GridAxis} y
 * @property {[number, number][]} inside  by axis, the range in which anything was measured
 * @property {[number, number]} point  of prediction
 * @property {GroundFunction[]} functions
 * @property {number} shown  the one that has colours
 * @property {SurfaceRules} rules
 * @property {string} metric
 * @property {(value: number) => string} amount
 * @property {(x: number, y: number) => Details} detailsAt
 * @property {string} empty
 * @property {Key[]} caption
 *
 * @typedef {{ left: number, right: number, bottom: number, theme: Theme }} Frame
 */

import { drawLine, fitting, Picture, themeColours } from "./canvas.js";
import { inkOn, mixed, scale as colourOf } from "./colours.js";
import { takeKey } from "./dom.js";
import { contourOf, largestOf, overtakingLines, scaleOf } from "./scaling_grid.js";
import { brief } from "./scaling_text.js";
import { logTicksOf, ticksOf } from "./ticks.js";
import { tooltip } from "./tooltip.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [76, 150, 18, 40];
const NEAR = 9; // pixels from a measured point at which it is meant
const BAR = 14; // width of the colour bar

/** A picture of the ground; `largest` says which of the two. */
export class GroundMap {
  #groundOf;
  #picture;
  /** @type {[number, number]} */
  #cursor = [0, 0]; // step of the grid
  #steered = false; // by the keyboard

  /**
   * @param {(width: number) => number} height
   * @param {() => Ground} groundOf
   * @param {() => boolean} isLargest
   */
  constructor(height, groundOf, isLargest) {
    this.#groundOf = groundOf;
    this.isLargest = isLargest;
    this.#picture = new Picture({
      name: "scaling-map",
      label: "Functions over two parameters. Arrows move from place to place, each tells its values.",
      height,
      draw: (surface, width, tall) => this.#draw(surface, width, tall),
      caption: () => groundOf().caption,
    });
    this.root = this.#picture.root;
    this.buttons = this.#picture.buttons;
    this.#listen();
  }

  redraw() {
    this.#picture.redraw();
  }

  /**
   * @param {number} width
   * @param {number} tall
   * @returns {Frame}
   */
  #frame(width, tall) {
    return { left: LEFT, right: width - RIGHT, bottom: tall - BOTTOM, theme: themeColours() };
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} tall
   */
  #draw(surface, width, tall) {
    const ground = this.#groundOf();
    const frame = this.#frame(width, tall);
    if (ground.empty) {
      surface.text(LEFT, tall / 2, ground.empty, { fill: frame.theme.muted, size: 13 });
      return;
    }
    if (this.isLargest()) drawLargest(surface, ground, frame);
    else drawHeat(surface, ground, frame);
    drawOvertaking(surface, ground, frame);
    drawFrame(surface, ground, frame);
    if (this.#steered && document.activeElement === this.#picture.canvas) {
      const [x, y] = this.#cursorPlace(frame, ground);
      surface.circle(x, y, 6, "", frame.theme.mark);
    }
  }

  /**
   * @param {Frame} frame
   * @param {Ground} ground
   * @returns {Point}
   */
  #cursorPlace(frame, { x, y }) {
    const [column, row] = this.#cursor;
    return placeOf(frame, column / (x.values.length - 1), row / (y.values.length - 1));
  }

  #listen() {
    const { canvas } = this.#picture;
    canvas.addEventListener("mousemove", (event) => this.#hovered(event));
    canvas.addEventListener("keydown", (event) => {
      const step = takeKey(event, { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] });
      if (step) this.#move(step);
    });
    for (const event of ["mouseleave", "blur"])
      canvas.addEventListener(event, () => {
        tooltip.hide();
        this.redraw();
      });
  }

  /** @param {number[]} step */
  #move([right, up]) {
    const ground = this.#groundOf();
    if (ground.empty) return;
    const [column, row] = this.#cursor;
    const last = ground.rules.side - 1;
    if (this.#steered)
      this.#cursor = [Math.min(Math.max(column + right, 0), last), Math.min(Math.max(row + up, 0), last)];
    this.#steered = true;
    const { width, height } = this.#picture.size();
    const [x, y] = this.#cursorPlace(this.#frame(width, height), ground);
    const box = this.#picture.canvas.getBoundingClientRect();
    const at = ground.detailsAt(ground.x.values[this.#cursor[0]], ground.y.values[this.#cursor[1]]);
    tooltip.show(at, box.left + x, box.top + y);
    this.redraw();
  }

  /** @param {MouseEvent} event */
  #hovered(event) {
    const ground = this.#groundOf();
    const { width, height } = this.#picture.size();
    const frame = this.#frame(width, height);
    const [across, up] = [
      (event.offsetX - frame.left) / (frame.right - frame.left),
      (frame.bottom - event.offsetY) / (frame.bottom - TOP),
    ];
    if (ground.empty || across < 0 || across > 1 || up < 0 || up > 1) return tooltip.hide();
    const near = ground.functions[ground.shown].measured.find(({ x, y }) => {
      const [a, b] = placeOf(frame, ground.x.part(x), ground.y.part(y));
      return Math.hypot(a - event.offsetX, b - event.offsetY) < NEAR;
    });
    const round = (/** @type {number} */ value) => Number(value.toPrecision(3));
    const details = near?.details ?? ground.detailsAt(round(ground.x.valueOf(across)), round(ground.y.valueOf(up)));
    return tooltip.show(details, event.clientX, event.clientY);
  }
}

/**
 * @param {Frame} frame
 * @param {number} x  parts
 * @param {number} y
 * @returns {Point}
 */
function placeOf({ left, right, bottom }, x, y) {
  return [left + x * (right - left), bottom - y * (bottom - TOP)];
}

/**
 * Colours around the points of a grid.
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Frame} frame
 * @param {(k: number) => string} colour  of a point, empty for none
 */
function drawCells(surface, { x, y }, frame, colour) {
  const [nx, ny] = [x.values.length, y.values.length];
  /** @type {(k: number, n: number) => number} */
  const edge = (k, n) => Math.min(Math.max((k - 0.5) / (n - 1), 0), 1);
  for (let row = 0; row < ny; row++)
    for (let column = 0; column < nx; column++) {
      const fill = colour(row * nx + column);
      const [left, bottom] = placeOf(frame, edge(column, nx), edge(row, ny));
      const [right, top] = placeOf(frame, edge(column + 1, nx), edge(row + 1, ny));
      const [x0, y0] = [Math.round(left), Math.round(top)]; // whole pixels: no seams between cells
      if (fill) surface.rect(x0, y0, Math.round(right) - x0, Math.round(bottom) - y0, fill);
    }
}

/**
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Frame} frame
 * @param {Piece[]} pieces
 * @param {string} stroke
 * @param {number} width
 */
function drawPieces(surface, { x, y }, frame, pieces, stroke, width) {
  const [nx, ny] = [x.values.length - 1, y.values.length - 1];
  for (const [x0, y0, x1, y1] of pieces)
    drawLine(surface, placeOf(frame, x0 / nx, y0 / ny), placeOf(frame, x1 / nx, y1 / ny), stroke, width);
}

/**
 * One function as colours with contour lines, and what was measured as dots of the same colours.
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Frame} frame
 */
function drawHeat(surface, ground, frame) {
  const { z, measured } = ground.functions[ground.shown];
  const scale = scaleOf(z, ground.rules);
  drawCells(surface, ground, frame, (k) => (Number.isFinite(z[k]) ? colourOf(scale.part(z[k])) : ""));
  for (const level of scale.levels) {
    const pieces = contourOf(z, ground.x.values.length, level);
    const ink = inkOn(colourOf(scale.part(level)));
    drawPieces(surface, ground, frame, pieces, ink, 1);
    const [x0, y0] = pieces[Math.floor(pieces.length / 2)] ?? [];
    if (x0 === undefined) continue;
    const [a, b] = placeOf(frame, x0 / (ground.x.values.length - 1), y0 / (ground.y.values.length - 1));
    surface.text(a, b - 7, ground.amount(level), { fill: ink, size: 10, anchor: "middle" });
  }
  drawColourBar(surface, ground, scale, frame);
  for (const point of measured) {
    const [a, b] = placeOf(frame, ground.x.part(point.x), ground.y.part(point.y));
    surface.circle(a, b, 5.5, "#ffffff", "#16191d");
    surface.circle(a, b, 3.5, colourOf(scale.part(point.z)));
  }
}

/**
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Scale} scale
 * @param {Frame} frame
 */
function drawColourBar(surface, { amount, metric }, scale, { right, bottom, theme }) {
  const steps = 60;
  const tall = (bottom - TOP) / steps;
  for (let k = 0; k < steps; k++)
    surface.rect(right + 18, bottom - (k + 1) * tall, BAR, tall + 0.5, colourOf((k + 0.5) / steps));
  for (const value of [scale.low, ...scale.levels, scale.high]) {
    const y = bottom - scale.part(value) * (bottom - TOP);
    drawLine(surface, [right + 18 + BAR, y], [right + 22 + BAR, y], theme.muted);
    surface.text(right + 26 + BAR, y, amount(value), { fill: theme.muted, size: 11 });
  }
  surface.text(
    right + 18,
    7,
    fitting(surface, scale.logarithmic ? `${metric} (log)` : metric, RIGHT - 20, { size: 11 }),
    { fill: theme.ink, size: 11 },
  );
}

/**
 * Which function is the largest where.
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Frame} frame
 */
function drawLargest(surface, ground, frame) {
  const { functions } = ground;
  const { theme } = frame;
  const largest = largestOf(functions.map(({ z }) => z));
  const fills = functions.map(({ colour }) => mixed(colour, theme.ground, 0.45));
  drawCells(surface, ground, frame, (k) => fills[largest[k]] ?? "");
  const shown = functions.filter((_, f) => largest.includes(f));
  shown.forEach(({ name, colour }, k) => {
    const y = TOP + 8 + 20 * k;
    surface.rect(frame.right + 14, y - 6, 12, 12, mixed(colour, theme.ground, 0.45), colour);
    const text = fitting(surface, name, RIGHT - 38, { size: 11 });
    surface.text(frame.right + 32, y, text, { fill: theme.ink, size: 11 });
  });
}

/**
 * The lines at which one function overtakes another.
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Frame} frame
 */
function drawOvertaking(surface, ground, frame) {
  if (ground.functions.length < 2) return;
  const side = ground.x.values.length;
  for (const { pieces } of overtakingLines(
    ground.functions.map(({ z }) => z),
    side,
  )) {
    drawPieces(surface, ground, frame, pieces, "#ffffff", 4);
    drawPieces(surface, ground, frame, pieces, "#16191d", 2);
  }
}

/**
 * Axes, the range that was measured, and the point of prediction.
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Frame} frame
 */
function drawFrame(surface, { x, y, inside, point }, frame) {
  const { left, right, bottom, theme } = frame;
  let last = -Infinity;
  for (const mark of marksOf(x, (right - left) / 80)) {
    const [at] = placeOf(frame, x.part(mark), 0);
    if (at - last < 30) continue;
    last = at;
    surface.text(at, bottom + 12, brief(mark), { fill: theme.muted, size: 11, anchor: "middle" });
  }
  last = Infinity;
  for (const mark of marksOf(y, (bottom - TOP) / 40)) {
    const [, at] = placeOf(frame, 0, y.part(mark));
    if (last - at < 14) continue;
    last = at;
    surface.text(left - 8, at, brief(mark), { fill: theme.muted, size: 11, anchor: "end" });
  }
  surface.rect(left, TOP, right - left, bottom - TOP, "", theme.muted);
  surface.text((left + right) / 2, bottom + 30, x.name, { fill: theme.ink, size: 12, anchor: "middle" });
  surface.text(left - 60, 7, fitting(surface, y.name, 300, { size: 12 }), { fill: theme.ink, size: 12 });
  const [[x0, x1], [y0, y1]] = inside;
  const corners = [
    [x0, y0],
    [x1, y0],
    [x1, y1],
    [x0, y1],
    [x0, y0],
  ].map(([a, b]) => placeOf(frame, x.part(a), y.part(b)));
  surface.line(corners, "#ffffff", 1.5, true);
  const [a, b] = placeOf(frame, x.part(point[0]), y.part(point[1]));
  surface.circle(a, b, 6, "", "#ffffff");
  surface.circle(a, b, 4.5, theme.mark, "#16191d");
}

/**
 * Where an axis is marked: at its own places, or at round numbers.
 * @param {GridAxis} axis
 * @param {number} most
 */
export function marksOf({ values, logarithmic, marks }, most) {
  if (marks.length) return marks;
  const [low, high] = [values[0], values[values.length - 1]];
  const round = logarithmic ? logTicksOf(low, high, most) : ticksOf(low, high, most).marks;
  return round.length > 1 ? round : [low, high];
}
