/**
 * The timeline of the viewer on a surface. Cells that the server made are drawn as an image, one pixel for each, which
 * the surface makes larger; where few spans are in sight, each is a box, calls below what called them.
 *
 * @import { Surface, Theme } from "./canvas.js"
 * @import { Numbers, TimePicture } from "./documents.js"
 * @import { Fits } from "./store.js"
 * @import { Colours } from "./timeline_colours.js"
 *
 * @typedef {{ text: string[], kind: string[] }} Names  by number; those that were seen
 *
 * @typedef {Object} Layout
 * @property {number[]} tops  of rows, in pixels below the axis
 * @property {number[]} heights
 * @property {number} level  pixels of a call, where each span is a box; else 0
 *
 * @typedef {{ row: number, time: number }} Moment
 * @typedef {{ from: Moment, to: Moment }} Arrow
 *
 * @typedef {{ picture: TimePicture, image: HTMLCanvasElement }} Painted
 *
 * @typedef {Object} LiveScene
 * @property {TimePicture} picture
 * @property {HTMLCanvasElement | null} image  of its cells
 * @property {Painted | null} backdrop  all of the time, for what the picture does not cover
 * @property {Layout} layout
 * @property {number} from  ns
 * @property {number} to
 * @property {Names} names
 * @property {Colours} colours
 * @property {Fits | null} found
 * @property {Moment | null} cursor
 * @property {[number, number] | null} range
 * @property {Arrow[]} arrows
 * @property {number} below  pixels of curves
 */

import { drawLine, fitting, OFTEN_ALIKE, themeColours } from "./canvas.js";
import { inkOn, mixed, parsed } from "./colours.js";
import { shortName } from "./format.js";
import { ticksOf } from "./ticks.js";

export const GUTTER = 200;
export const AXIS = 26;
const GROUP = 72;
const THICKEST = 26;
const LEVEL = 15; // pixels of a call
const THIN_LEVEL = 9;
const PALE = 0x73ffffff; // how much of what is not complete is seen
const LABELLED = 80; // rows: in more of them no names are written
/** @type {[string, number][]} */
const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["us", 1e3],
  ["ns", 1],
];

/**
 * Where rows are: all of them in the height; higher ones where there is room for calls below each other.
 * @param {TimePicture} picture
 * @param {number} room
 * @returns {Layout}
 */
export function layOut(picture, room) {
  const n = picture.bounds.length - 1;
  const levels = levelsOf(picture, n);
  const sum = levels.reduce((all, one) => all + one, 0);
  const level = sum * LEVEL + 5 * n <= room ? LEVEL : sum * THIN_LEVEL + 3 * n <= room ? THIN_LEVEL : 0;
  const line = Math.min(room / Math.max(n, 1), THICKEST);
  /** @type {number[]} */
  const tops = [];
  const heights = levels.map((one) => (level && sum ? one * level + (level === LEVEL ? 5 : 3) : line));
  heights.reduce((y, height) => (tops.push(y), y + height), 0);
  return { tops, heights, level: picture.spans ? level : 0 };
}

/**
 * Whether two pictures have the same rows.
 * @param {TimePicture} one
 * @param {TimePicture} other
 */
export function haveEqualRows(one, other) {
  const isEqual = one.n_rows === other.n_rows && one.bounds.length === other.bounds.length;
  return isEqual && one.top === other.top && one.bottom === other.bottom;
}

/**
 * How many calls deep each row is; 0 where no spans are in sight.
 * @param {TimePicture} picture
 * @param {number} n
 */
function levelsOf({ spans, bounds }, n) {
  const levels = new Array(n).fill(spans ? 1 : 0);
  if (!spans || bounds[n] - bounds[0] !== n) return levels.fill(0);
  for (let i = 0; i < spans.row.length; i++) {
    const row = spans.row[i] - bounds[0];
    levels[row] = Math.max(levels[row], spans.depth[i] + 1);
  }
  return levels;
}

/**
 * Cells as an image, a pixel each: in the colour of the name, greyer where others took time as well, paler where
 * nothing ran.
 * @param {TimePicture} picture
 * @param {Names} names
 * @param {Colours} colours
 * @param {Fits | null} found
 */
export function imageOf(picture, names, colours, found) {
  const rows = picture.bounds.length - 1;
  if (!rows || !picture.n_cells) return null;
  const theme = themeColours();
  const image = document.createElement("canvas");
  [image.width, image.height] = [picture.n_cells, rows];
  const context = image.getContext("2d");
  if (!context) return null;
  const data = context.createImageData(image.width, image.height);
  const pixels = new Uint32Array(data.data.buffer);
  const { cell, weight } = picture;
  const colourOf = cachedColours(picture, names, colours, found, theme);
  for (let i = 0; i < pixels.length; i++) if (cell[i]) pixels[i] = colourOf(cell[i], weight[i]);
  for (let row = 0; row < rows; row++)
    if (picture.pending[row]) for (let i = row * image.width; i < (row + 1) * image.width; i++) pixels[i] &= PALE;
  context.putImageData(data, 0, 0);
  return image;
}

/**
 * Colours of cells as numbers of pixels, each computed once.
 * @param {TimePicture} picture
 * @param {Names} names
 * @param {Colours} colours
 * @param {Fits | null} found
 * @param {Theme} theme
 */
function cachedColours({ names: { number: numbers } }, names, colours, found, theme) {
  const known = new Uint32Array((numbers.length + 1) * 256);
  const fills = Array.from(numbers, (name) => fillOf(name, names, colours, found, theme));
  return (/** @type {number} */ cell, /** @type {number} */ weight) => {
    const key = cell * 256 + weight;
    if (!known[key]) {
      const [r, g, b] = parsed(shaded(fills[cell - 1], (weight >> 4) / 15, (weight & 15) / 15, theme));
      known[key] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    }
    return known[key];
  };
}

/**
 * @param {number} name
 * @param {Names} names
 * @param {Colours} colours
 * @param {Fits | null} found
 * @param {Theme} theme
 */
function fillOf(name, names, colours, found, theme) {
  const fill = colours.of(name, theme);
  if (!found) return fill;
  return found(names.text[name]) ? theme.mark : mixed(fill, theme.ground, 0.78);
}

/**
 * @param {string} fill
 * @param {number} share  of the name
 * @param {number} busy  of all names
 * @param {Theme} theme
 */
function shaded(fill, share, busy, theme) {
  const others = busy > 0 ? 1 - Math.min(share / busy, 1) : 0;
  if (others > 0.02) fill = mixed(fill, mixed(theme.muted, theme.ground, 0.6), 0.8 * others);
  return busy < 0.98 ? mixed(fill, theme.ground, 0.75 * (1 - busy)) : fill;
}

// -- the scene --------------------------------------------------------------------------------------------------------

/**
 * @param {{ from: number, to: number }} scene
 * @param {number} time
 * @param {number} width
 */
export function xOf({ from, to }, time, width) {
  return GUTTER + ((time - from) / (to - from)) * (width - GUTTER);
}

/**
 * @param {{ from: number, to: number }} scene
 * @param {number} x
 * @param {number} width
 */
export function timeAt({ from, to }, x, width) {
  return from + ((x - GUTTER) / (width - GUTTER)) * (to - from);
}

/**
 * @param {Surface} surface
 * @param {number} width
 * @param {number} height
 * @param {LiveScene} scene
 */
export function drawLiveScene(surface, width, height, scene) {
  const theme = themeColours();
  if (scene.layout.level) drawSpans(surface, scene, width, theme);
  else drawCells(surface, scene, width, theme);
  for (const arrow of scene.arrows) drawArrow(surface, scene, arrow, width, theme);
  drawRange(surface, scene, width, height, theme);
  drawCursor(surface, scene, width, height, theme);
  drawGutter(surface, scene, height, theme);
  drawAxis(surface, scene, width, theme);
}

/**
 * The picture, as far as it goes, and what is left of the time in sight from the backdrop.
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {number} width
 * @param {Theme} theme
 */
function drawCells(surface, scene, width, theme) {
  const { picture, image, layout, backdrop } = scene;
  if (!image) return;
  const [left, right] = [picture.start_ns, picture.start_ns + picture.n_cells * picture.cell_ns].map((time) =>
    Math.min(Math.max(xOf(scene, time, width), GUTTER), width),
  );
  if (backdrop) {
    drawStrip(surface, scene, backdrop, GUTTER, left, width);
    drawStrip(surface, scene, backdrop, right, width, width);
  }
  drawStrip(surface, scene, { picture, image }, left, right, width);
  if (layout.tops.length <= LABELLED)
    for (let row = 0; row < layout.tops.length; row++)
      if (layout.heights[row] >= 12) drawLabels(surface, scene, row, width, theme);
}

/**
 * The part of an image between two places; rows that are thin all at once.
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {Painted} painted
 * @param {number} left
 * @param {number} right
 * @param {number} width
 */
function drawStrip(surface, scene, { picture, image }, left, right, width) {
  if (right <= left) return;
  const { start_ns: start, cell_ns: ns, n_cells: n } = picture;
  const [first, last] = [left, right].map((x) => Math.min(Math.max((timeAt(scene, x, width) - start) / ns, 0), n));
  const [begin, end] = [first, last].map((cell) => xOf(scene, start + cell * ns, width));
  if (end <= begin) return;
  const { tops, heights } = scene.layout;
  if (heights[0] <= 6) {
    const tall = tops[tops.length - 1] + heights[heights.length - 1];
    surface.image(image, [first, 0, last - first, image.height], [begin, AXIS, end - begin, tall]);
    return;
  }
  for (let row = 0; row < tops.length; row++)
    surface.image(image, [first, row, last - first, 1], [begin, AXIS + tops[row], end - begin, heights[row] - 1]);
}

/**
 * Names on stretches of a row that are wide enough.
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {number} row
 * @param {number} width
 * @param {Theme} theme
 */
function drawLabels(surface, scene, row, width, theme) {
  const { cell, n_cells: n, cell_ns: ns, start_ns: start, names } = scene.picture;
  const [first, last] = [row * n, (row + 1) * n];
  for (let i = first, begin = first; i < last; i++) {
    if (i + 1 < last && cell[i + 1] === cell[begin]) continue;
    if (cell[begin]) {
      const left = Math.max(xOf(scene, start + (begin - first) * ns, width), GUTTER);
      const right = Math.min(xOf(scene, start + (i + 1 - first) * ns, width), width);
      const name = names.number[cell[begin] - 1];
      const y = AXIS + scene.layout.tops[row] + scene.layout.heights[row] / 2;
      if (right - left > 34) drawName(surface, scene, name, left, right - left, y, theme);
    }
    begin = i + 1;
  }
}

/**
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {number} name
 * @param {number} left
 * @param {number} wide
 * @param {number} middle
 * @param {Theme} theme
 */
function drawName(surface, scene, name, left, wide, middle, theme) {
  const fill = fillOf(name, scene.names, scene.colours, scene.found, theme);
  const style = { fill: inkOn(fill), size: 11 };
  const text = fitting(surface, shortName(scene.names.text[name], scene.names.kind[name]), wide - 8, style);
  if (text) surface.text(left + 4, middle, text, style);
}

/**
 * Where a span is drawn.
 * @param {LiveScene} scene
 * @param {number} i
 * @param {number} width
 */
export function boxOf(scene, i, width) {
  const { picture, layout } = scene;
  const spans = /** @type {NonNullable<typeof picture.spans>} */ (picture.spans);
  const left = Math.max(xOf(scene, spans.start[i], width), GUTTER);
  const right = Math.min(xOf(scene, spans.end[i], width), width);
  const y = AXIS + layout.tops[spans.row[i] - picture.bounds[0]] + spans.depth[i] * layout.level;
  return { left, right, y, tall: layout.level };
}

/**
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {number} width
 * @param {Theme} theme
 */
function drawSpans(surface, scene, width, theme) {
  const { spans } = scene.picture;
  if (!spans) return;
  for (let i = 0; i < spans.row.length; i++) {
    const { left, right, y, tall } = boxOf(scene, i, width);
    if (right < GUTTER || left > width) continue;
    const wide = Math.max(right - left, 1);
    const fill = fillOf(spans.name[i], scene.names, scene.colours, scene.found, theme);
    surface.rect(left, y, wide > 3 ? wide - 0.6 : wide, tall - 1, fill);
    if (wide > 34 && tall >= 12) drawName(surface, scene, spans.name[i], left, wide, y + tall / 2, theme);
  }
}

/**
 * The middle of a row, in pixels; undefined where it is not in sight.
 * @param {LiveScene} scene
 * @param {number} row
 */
function middleOf({ picture, layout }, row) {
  const at = groupOf(picture.bounds, row);
  return at < 0 ? undefined : AXIS + layout.tops[at] + Math.min(layout.heights[at], LEVEL) / 2;
}

/**
 * Which of the rows that are drawn has a row among its own; -1 for none.
 * @param {Numbers} bounds
 * @param {number} row
 */
export function groupOf(bounds, row) {
  if (row < bounds[0] || row >= bounds[bounds.length - 1]) return -1;
  let [low, high] = [0, bounds.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (bounds[middle] <= row) low = middle;
    else high = middle;
  }
  return low;
}

/**
 * From a call to what it launched.
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {Arrow} arrow
 * @param {number} width
 * @param {Theme} theme
 */
function drawArrow(surface, scene, { from, to }, width, theme) {
  const [y, below] = [middleOf(scene, from.row), middleOf(scene, to.row)];
  if (y === undefined || below === undefined) return;
  const [left, right] = [xOf(scene, from.time, width), xOf(scene, to.time, width)];
  if (Math.max(left, right) < GUTTER || Math.min(left, right) > width) return;
  surface.line(
    [
      [left, y],
      [right, below],
    ],
    theme.ink,
    1,
  );
  const angle = Math.atan2(below - y, right - left);
  for (const turn of [-0.4, 0.4])
    drawLine(
      surface,
      [right, below],
      [right - 7 * Math.cos(angle + turn), below - 7 * Math.sin(angle + turn)],
      theme.ink,
    );
}

/**
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {number} width
 * @param {number} height
 * @param {Theme} theme
 */
function drawRange(surface, scene, width, height, theme) {
  if (!scene.range) return;
  const [left, right] = scene.range.map((time) => Math.min(Math.max(xOf(scene, time, width), GUTTER), width));
  for (const x of [left, right]) drawLine(surface, [x, AXIS - 6], [x, height], theme.accent, 1.5);
  surface.rect(left, AXIS - 6, Math.max(right - left, 1), 5, theme.accent);
}

/**
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {number} width
 * @param {number} height
 * @param {Theme} theme
 */
function drawCursor(surface, scene, width, height, theme) {
  if (!scene.cursor) return;
  const x = xOf(scene, scene.cursor.time, width);
  if (x >= GUTTER && x <= width) drawLine(surface, [x, AXIS - 3], [x, height], theme.ink, 1, true);
  const at = groupOf(scene.picture.bounds, scene.cursor.row);
  if (at < 0) return;
  const y = AXIS + scene.layout.tops[at];
  surface.rect(GUTTER - 4, y, 3, Math.max(scene.layout.heights[at] - 1, 2), theme.ink);
  const middle = y + scene.layout.heights[at] / 2;
  drawLine(surface, [GUTTER, middle], [width, middle], theme.ink, 1, true);
}

/**
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {number} height
 * @param {Theme} theme
 */
function drawGutter(surface, scene, height, theme) {
  const { picture, layout } = scene;
  surface.rect(0, AXIS - 2, GUTTER - 4, height - scene.below - AXIS, theme.ground);
  let [group, groupBelow, below] = ["", -Infinity, -Infinity];
  const longest = picture.group.reduce((best, one) => (one.length > best.length ? one : best), "");
  const beside = Math.min(surface.measure(longest, { size: 11, bold: true }), GROUP) + (longest ? 10 : 0);
  for (let row = 0; row < layout.tops.length; row++) {
    const tall = layout.heights[row];
    const middle = Math.max(AXIS + layout.tops[row] + Math.min(tall, LEVEL + 4) / 2 - 0.5, AXIS + 6);
    const fresh = picture.group[row] !== group;
    group = picture.group[row];
    if (fresh && middle - groupBelow >= 11) {
      const style = { size: 11, bold: true, fill: theme.ink };
      surface.text(4, middle, fitting(surface, group, GROUP, style), style);
      groupBelow = middle;
    }
    if (middle - below < 11) continue;
    below = middle;
    const text = fitting(surface, picture.name[row], GUTTER - 14 - beside, { size: 11 }, OFTEN_ALIKE);
    surface.text(GUTTER - 10, middle, text, { size: 11, fill: theme.muted, anchor: "end" });
  }
}

/**
 * @param {Surface} surface
 * @param {LiveScene} scene
 * @param {number} width
 * @param {Theme} theme
 */
function drawAxis(surface, scene, width, theme) {
  const { from, to } = scene;
  if (!scene.picture.n_rows) return; // nothing was read so far: no time is known
  const length = scene.picture.length_ns;
  const { marks, step } = ticksOf(from, to, Math.max(2, Math.floor((width - GUTTER) / 110)));
  for (const mark of marks) {
    const at = xOf(scene, mark, width);
    if (at < GUTTER - 1 || at > width) continue;
    drawLine(surface, [at, AXIS - 8], [at, AXIS - 3], theme.muted);
    const anchor = at > width - 40 ? "end" : "middle";
    surface.text(at, 9, timeText(mark, step, to), { size: 11, fill: theme.muted, anchor });
  }
  drawLine(surface, [GUTTER, AXIS - 3.5], [width, AXIS - 3.5], theme.faint);
  if (from <= 0 && to >= length) return;
  /** @param {number} time */
  const part = (time) => GUTTER + (time / length) * (width - GUTTER);
  surface.rect(part(from), AXIS - 4, Math.max(part(to) - part(from), 3), 3, theme.accent);
}

/**
 * A time with as many digits as the step between marks asks for, down to ns.
 * @param {number} time
 * @param {number} step
 * @param {number} end
 */
function timeText(time, step, end) {
  const [unit, size] = UNITS.find(([, ns]) => end >= ns) ?? UNITS[UNITS.length - 1];
  const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  return `${(time / size).toFixed(Math.min(digits, 9))} ${unit}`;
}
