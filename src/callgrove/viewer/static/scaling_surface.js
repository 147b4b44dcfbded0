/**
 * Functions of two parameters as surfaces in space, which are turned with the mouse or the arrow keys.
 *
 * @import { Point, Surface, Theme } from "./canvas.js"
 * @import { Scale } from "./scaling_grid.js"
 * @import { Ground } from "./scaling_map.js"
 *
 * @typedef {Object} Angles  degrees
 * @property {number} turn  around the upright axis
 * @property {number} tilt  0: from the side, 90: from above
 *
 * @typedef {Object} Eye  where a place is seen
 * @property {(x: number, y: number, h: number) => Point} place  of parts from 0 to 1
 * @property {(x: number, y: number, h: number) => number} depth  the larger the farther
 */

import { drawLine, fitting, Picture, themeColours } from "./canvas.js";
import { mixed, scale as colourOf } from "./colours.js";
import { takeKey } from "./dom.js";
import { scaleOf } from "./scaling_grid.js";
import { marksOf } from "./scaling_map.js";
import { brief } from "./scaling_text.js";
import { tooltip } from "./tooltip.js";

const STEP = 5; // degrees by key
const NEAR = 9;
const [ABOVE, BELOW, ASIDE] = [26, 40, 90]; // room for words
const HIGH = 0.6; // by the length of the ground
const STRETCH = 1.7; // pixels across by pixels up, at the most
const FEW = 3; // functions that are drawn in every cell; of more, every second one is left out
/** @type {Angles} */
export const FRONT = { turn: 35, tilt: 25 };
const TILTS = [0, 90];

/** A picture of surfaces. */
export class GroundSurface {
  #groundOf;
  #picture;
  #turned;
  /** @type {Point | null} */
  #dragged = null;
  angles = { ...FRONT };

  /**
   * @param {(width: number) => number} height
   * @param {() => Ground} groundOf
   * @param {(angles: Angles) => void} turned  called when somebody turned it
   */
  constructor(height, groundOf, turned) {
    this.#groundOf = groundOf;
    this.#turned = turned;
    this.#picture = new Picture({
      name: "scaling-surface",
      label: "Functions over two parameters as surfaces. Arrows turn and tilt them, Home turns them back.",
      height,
      draw: (surface, width, tall) => this.#draw(surface, width, tall),
      caption: () => groundOf().caption,
    });
    this.root = this.#picture.root;
    this.buttons = this.#picture.buttons;
    this.#picture.canvas.style.cursor = "grab";
    this.#listen();
  }

  redraw() {
    this.#picture.redraw();
  }

  /**
   * @param {number} turn
   * @param {number} tilt
   */
  setAngles(turn, tilt) {
    this.angles = { turn: ((turn % 360) + 360) % 360, tilt: Math.min(Math.max(tilt, TILTS[0]), TILTS[1]) };
    this.redraw();
  }

  /**
   * @param {number} turn
   * @param {number} tilt
   */
  #turnBy(turn, tilt) {
    this.setAngles(this.angles.turn + turn, this.angles.tilt + tilt);
    this.#turned(this.angles);
  }

  #listen() {
    const { canvas } = this.#picture;
    canvas.addEventListener("pointerdown", (event) => {
      this.#dragged = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => (this.#dragged = null));
    canvas.addEventListener("pointermove", (event) => {
      if (!this.#dragged) return this.#hovered(event);
      const [x, y] = this.#dragged;
      this.#dragged = [event.clientX, event.clientY];
      return this.#turnBy((event.clientX - x) * 0.5, (event.clientY - y) * 0.5);
    });
    for (const event of ["pointerleave", "blur"]) canvas.addEventListener(event, () => tooltip.hide());
    canvas.addEventListener("keydown", (event) => {
      const by = (/** @type {number} */ turn, /** @type {number} */ tilt) => () => this.#turnBy(turn, tilt);
      takeKey(event, {
        ArrowLeft: by(-STEP, 0),
        ArrowRight: by(STEP, 0),
        ArrowUp: by(0, STEP),
        ArrowDown: by(0, -STEP),
        Home: () => {
          this.setAngles(FRONT.turn, FRONT.tilt);
          this.#turned(this.angles);
        },
      })?.();
    });
  }

  /** @param {MouseEvent} event */
  #hovered(event) {
    const ground = this.#groundOf();
    if (ground.empty) return;
    const { width, height } = this.#picture.size();
    const eye = eyeOf(this.angles, width, height);
    const scale = scaleOfAll(ground);
    const near = ground.functions
      .flatMap(({ measured }) => measured)
      .find(({ x, y, z }) => {
        const [a, b] = eye.place(ground.x.part(x), ground.y.part(y), scale.part(z));
        return Math.hypot(a - event.offsetX, b - event.offsetY) < NEAR;
      });
    if (near) tooltip.show(near.details, event.clientX, event.clientY);
    else tooltip.hide();
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} tall
   */
  #draw(surface, width, tall) {
    const ground = this.#groundOf();
    const theme = themeColours();
    if (ground.empty) {
      surface.text(40, tall / 2, ground.empty, { fill: theme.muted, size: 13 });
      return;
    }
    const eye = eyeOf(this.angles, width, tall);
    const scale = scaleOfAll(ground);
    drawBox(surface, ground, scale, eye, theme);
    drawSurfaces(surface, ground, scale, eye, theme);
    drawMeasured(surface, ground, scale, eye, theme);
  }
}

/** @param {Ground} ground */
function scaleOfAll({ functions, rules }) {
  /** @type {number[]} */
  const values = [];
  for (const { z, measured } of functions) {
    for (const value of z) values.push(value);
    for (const point of measured) values.push(point.z);
  }
  return scaleOf(values, rules);
}

/**
 * How everything is seen, as large as there is room for with words around it.
 * @param {Angles} angles
 * @param {number} width
 * @param {number} tall
 * @returns {Eye}
 */
function eyeOf({ turn, tilt }, width, tall) {
  const [a, b] = [(turn * Math.PI) / 180, (tilt * Math.PI) / 180];
  /** @type {(x: number, y: number, h: number) => Point} */
  const seen = (x, y, h) => {
    const [u, v] = [x - 0.5, y - 0.5];
    const back = u * Math.sin(a) + v * Math.cos(a);
    return [u * Math.cos(a) - v * Math.sin(a), -back * Math.sin(b) - (h - 0.5) * HIGH * Math.cos(b)];
  };
  const corners = [0, 1].flatMap((x) => [0, 1].flatMap((y) => [0, 1].map((h) => seen(x, y, h))));
  const [left, right] = [Math.min(...corners.map(([x]) => x)), Math.max(...corners.map(([x]) => x))];
  const [top, bottom] = [Math.min(...corners.map(([, y]) => y)), Math.max(...corners.map(([, y]) => y))];
  const up = (tall - ABOVE - BELOW) / (bottom - top);
  const across = Math.min((width - 2 * ASIDE) / (right - left), STRETCH * up);
  return {
    place: (x, y, h) => {
      const [u, v] = seen(x, y, h);
      return [width / 2 + (u - (left + right) / 2) * across, ABOVE + (v - top) * up];
    },
    depth: (x, y, h) => {
      const back = (x - 0.5) * Math.sin(a) + (y - 0.5) * Math.cos(a);
      return back * Math.cos(b) - h * HIGH * Math.sin(b);
    },
  };
}

/**
 * The ground with its axes, and the upright one.
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Scale} scale
 * @param {Eye} eye
 * @param {Theme} theme
 */
function drawBox(surface, { x, y, amount, metric }, scale, eye, theme) {
  /** @type {Point[]} */
  const corners = [
    [0, 0],
    [1, 0],
    [1, 1],
    [0, 1],
  ];
  surface.polygon(
    corners.map(([a, b]) => eye.place(a, b, 0)),
    mixed(theme.ground, theme.muted, 0.08),
    theme.muted,
  );
  const frontY = eye.depth(0.5, 0, 0) < eye.depth(0.5, 1, 0) ? 0 : 1;
  const frontX = eye.depth(0, 0.5, 0) < eye.depth(1, 0.5, 0) ? 0 : 1;
  const style = { fill: theme.muted, size: 11, anchor: /** @type {const} */ ("middle") };
  const edges = [
    { axis: x, at: (/** @type {number} */ part) => eye.place(part, frontY, 0) },
    { axis: y, at: (/** @type {number} */ part) => eye.place(frontX, part, 0) },
  ];
  const [middle] = eye.place(0.5, 0.5, 0);
  for (const { axis, at } of edges) {
    const aside = at(0.5)[0] > middle ? 9 : -9;
    for (const mark of marksOf(axis, 4)) {
      const [a, b] = at(axis.part(mark));
      surface.circle(a, b, 1.5, theme.muted);
      surface.text(a + aside, b + 11, brief(mark), style);
    }
    const [a, b] = at(0.5);
    surface.text(a + 2 * aside, b + 26, axis.name, { ...style, fill: theme.ink, size: 12, bold: true });
  }
  const [left] = [...corners].sort((p, q) => eye.place(...p, 0)[0] - eye.place(...q, 0)[0]);
  drawLine(surface, eye.place(...left, 0), eye.place(...left, 1), theme.muted);
  for (const value of [scale.low, ...scale.levels.filter((_, k) => k % 2), scale.high]) {
    const [a, b] = eye.place(...left, scale.part(value));
    surface.text(a - 6, b, amount(value), { ...style, anchor: "end" });
  }
  const [a, b] = eye.place(...left, 1);
  surface.text(a, b - 14, fitting(surface, scale.logarithmic ? `${metric} (log)` : metric, 260, { size: 12 }), {
    ...style,
    fill: theme.ink,
    size: 12,
  });
}

/**
 * Cells of all surfaces, from the back to the front.
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Scale} scale
 * @param {Eye} eye
 * @param {Theme} theme
 */
function drawSurfaces(surface, { x, y, functions }, scale, eye, theme) {
  const [nx, ny] = [x.values.length, y.values.length];
  const by = functions.length > FEW ? 2 : 1;
  /** @type {{ depth: number, corners: Point[], fill: string }[]} */
  const cells = [];
  for (const { z, colour } of functions)
    for (let row = 0; row + by < ny; row += by)
      for (let column = 0; column + by < nx; column += by) {
        const corners = [
          [column, row],
          [column + by, row],
          [column + by, row + by],
          [column, row + by],
        ];
        const heights = corners.map(([c, r]) => z[r * nx + c]);
        if (!heights.every(Number.isFinite)) continue;
        const parts = heights.map((value) => scale.part(value));
        const part = (parts[0] + parts[1] + parts[2] + parts[3]) / 4;
        const [u, v] = [(column + by / 2) / (nx - 1), (row + by / 2) / (ny - 1)];
        const fill = functions.length > 1 ? mixed(colour, "#ffffff", 0.5 * part) : colourOf(part);
        cells.push({
          depth: eye.depth(u, v, part),
          corners: corners.map(([c, r], k) => eye.place(c / (nx - 1), r / (ny - 1), parts[k])),
          fill,
        });
      }
  cells.sort((a, b) => b.depth - a.depth);
  for (const { corners, fill } of cells) surface.polygon(corners, fill, mixed(fill, theme.ground, 0.35));
}

/**
 * What was measured, on lines to the surface.
 * @param {Surface} surface
 * @param {Ground} ground
 * @param {Scale} scale
 * @param {Eye} eye
 * @param {Theme} theme
 */
function drawMeasured(surface, { x, y, functions }, scale, eye, theme) {
  for (const { measured, colour } of functions)
    for (const point of measured) {
      const [u, v] = [x.part(point.x), y.part(point.y)];
      const place = eye.place(u, v, scale.part(point.z));
      if (Number.isFinite(point.model))
        drawLine(surface, eye.place(u, v, scale.part(point.model)), place, theme.mark, 1.5);
      surface.circle(...place, 4, functions.length > 1 ? colour : theme.mark, theme.ink);
    }
}
