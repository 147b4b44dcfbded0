/**
 * A timeline on a surface: boxes, names of rows beside them, times above them.
 *
 * @import { Surface, Theme } from "./canvas.js"
 * @import { Fits } from "./store.js"
 * @import { Colours } from "./timeline_colours.js"
 * @import { Cell, Layer, Track } from "./timeline_layers.js"
 *
 * @typedef {Object} Place  of a box
 * @property {Track} track
 * @property {number} i  number of the box among those of the track
 * @property {Layer} layer
 * @property {Cell} [cell]  where boxes are too narrow to be seen: what is drawn instead
 *
 * @typedef {{ y: number, height: number }[]} Tops  by row
 *
 * @typedef {Object} Scene  what is in sight
 * @property {Layer} layer
 * @property {(row: number) => Track[]} tracksOf  a row: its levels, or its line
 * @property {number[]} rows
 * @property {Tops} tops  of rows
 * @property {number} scroll
 * @property {number} from  ns
 * @property {number} to
 * @property {number} length  ns of everything
 * @property {boolean} stacked  all levels of a row are on one line
 * @property {Place | null} cursor
 * @property {string[]} names
 * @property {string[]} shortNames  without the folders that places lie in
 * @property {{group: string[], name: string[]}} labels  of rows
 * @property {Colours} colours
 * @property {Fits | null} found
 */

import { fitting, OFTEN_ALIKE, themeColours } from "./canvas.js";
import { inkOn, mixed } from "./colours.js";
import { ticksOf } from "./ticks.js";
import { busyOf, cellOf, shareOf, within } from "./timeline_layers.js";

export const GUTTER = 200;
export const AXIS = 26;
const GROUP = 72; // pixels of a group's name, at the most
export const LEVEL = 15; // height of a level where all are shown
/** @type {[string, number][]} */
const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["us", 1e3],
  ["ns", 1],
];

/**
 * @param {Surface} surface
 * @param {number} width
 * @param {number} height
 * @param {Scene} scene
 */
export function drawScene(surface, width, height, scene) {
  const theme = themeColours();
  for (const row of scene.rows) {
    const { y, height: tall } = scene.tops[row];
    const at = AXIS + y - scene.scroll;
    if (at > height || at + tall < AXIS) continue;
    for (const track of scene.tracksOf(row)) {
      const [top, size] = scene.stacked ? [at, tall] : [at + track.level * LEVEL, LEVEL];
      drawTrack(surface, scene, track, top, size, width, theme);
    }
  }
  if (scene.cursor) {
    const { left, right, y, tall } = placeOf(scene, scene.cursor, width);
    if (right >= GUTTER && left <= width)
      surface.rect(left - 1, y - 1, Math.max(right - left, 2) + 2, tall + 1, "", theme.ink);
  }
  drawGutter(surface, scene, width, height, theme);
  drawAxis(surface, scene, width, theme);
}

/**
 * Where a time is drawn.
 * @param {Scene} scene
 * @param {number} time
 * @param {number} width
 */
export function xOf(scene, time, width) {
  return GUTTER + ((time - scene.from) / (scene.to - scene.from)) * (width - GUTTER);
}

/**
 * Which time is drawn at a place.
 * @param {Scene} scene
 * @param {number} x
 * @param {number} width
 */
export function timeAt(scene, x, width) {
  return scene.from + ((x - GUTTER) / (width - GUTTER)) * (scene.to - scene.from);
}

/**
 * Where a box is drawn.
 * @param {Scene} scene
 * @param {Place} one
 * @param {number} width
 */
export function placeOf(scene, one, width) {
  const {
    track: { row, level, boxes },
    i,
  } = one;
  const { y, height } = scene.tops[row];
  return {
    left: Math.max(xOf(scene, boxes.start[i], width), GUTTER),
    right: Math.min(xOf(scene, boxes.end[i], width), width),
    y: AXIS + y - scene.scroll + (scene.stacked ? 0 : level * LEVEL),
    tall: scene.stacked ? height : LEVEL,
  };
}

/**
 * Where boxes are narrower than a pixel, it shows the name that has the most time in it.
 * @param {Surface} surface
 * @param {Scene} scene
 * @param {Track} track
 * @param {number} y
 * @param {number} tall
 * @param {number} width
 * @param {Theme} theme
 */
function drawTrack(surface, scene, track, y, tall, width, theme) {
  const { boxes } = track;
  const [first, last] = within(track, scene.from, scene.to);
  const high = tall > 6 ? tall - 1 : tall;
  let pixel = -1;
  for (let i = first; i < last; i++) {
    const left = Math.max(xOf(scene, boxes.start[i], width), GUTTER);
    const right = Math.min(xOf(scene, boxes.end[i], width), width);
    if (right - left >= 1) {
      drawBox(
        surface,
        scene,
        { name: boxes.name[i], share: shareOf(boxes, i), busy: busyOf(boxes, i) },
        left,
        right - left,
        y,
        high,
        theme,
      );
    } else if (Math.floor(left) !== pixel) {
      pixel = Math.floor(left);
      const cell = cellAt(scene, track, pixel, width);
      drawBox(surface, scene, { ...cell, name: boxes.name[cell.i] }, pixel, 1, y, high, theme);
    }
  }
}

/**
 * What a pixel of a track shows.
 * @param {Scene} scene
 * @param {Track} track
 * @param {number} pixel
 * @param {number} width
 */
export function cellAt(scene, track, pixel, width) {
  return cellOf(
    track,
    Math.max(timeAt(scene, pixel, width), 0),
    Math.min(timeAt(scene, pixel + 1, width), scene.length),
  );
}

/**
 * A box in the colour of its name: greyer where others took time as well, paler where nothing ran.
 * @param {Surface} surface
 * @param {Scene} scene
 * @param {{ name: number, share: number, busy: number }} box
 * @param {number} left
 * @param {number} wide
 * @param {number} y
 * @param {number} tall
 * @param {Theme} theme
 */
function drawBox(surface, scene, { name: number, share, busy }, left, wide, y, tall, theme) {
  const { layer, found } = scene;
  const name = scene.names[number];
  let fill = scene.colours.of(number, theme);
  if (found) fill = found(name) ? theme.mark : mixed(fill, theme.ground, 0.78);
  const others = busy > 0 ? 1 - share / busy : 0;
  if (others > 0.02) fill = mixed(fill, mixed(theme.muted, theme.ground, 0.6), 0.8 * others);
  if (busy < 0.98) fill = mixed(fill, theme.ground, 0.75 * (1 - busy));
  surface.rect(left, y, wide > 3 && layer.exact ? wide - 0.6 : wide, tall, fill);
  if (wide < 28 || tall < 11) return;
  const style = { fill: found && !found(name) ? theme.muted : inkOn(fill), size: Math.min(11.5, tall - 2) };
  const text = fitting(surface, scene.shortNames[number], wide - 8, style);
  if (text) surface.text(left + 4, y + tall / 2, text, style);
}

/**
 * Names of groups and rows, as many as there is room for; they stay while any of their row is in sight.
 * @param {Surface} surface
 * @param {Scene} scene
 * @param {number} width
 * @param {number} height
 * @param {Theme} theme
 */
function drawGutter(surface, scene, width, height, theme) {
  surface.rect(0, 0, GUTTER - 4, height, theme.ground);
  let [group, groupBelow, below] = ["", -Infinity, -Infinity];
  const longest = scene.rows.reduce(
    (best, row) => (scene.labels.group[row].length > best.length ? scene.labels.group[row] : best),
    "",
  );
  const beside = Math.min(surface.measure(longest, { size: 11, bold: true }), GROUP) + (longest ? 10 : 0);
  for (const row of scene.rows) {
    const { y, height: tall } = scene.tops[row];
    const at = AXIS + y - scene.scroll;
    const own = scene.labels.group[row];
    const fresh = own !== group;
    group = own;
    if (at >= height || at + tall < AXIS) continue;
    const top = Math.max(at, AXIS);
    const middle = Math.max(top + Math.min(at + tall - top, LEVEL + 4) / 2 - 1, AXIS + 6);
    if (fresh && y > 0 && tall > 10)
      surface.line(
        [
          [0, at - 0.5],
          [width, at - 0.5],
        ],
        theme.faint,
      );
    if (fresh && middle - groupBelow >= 11) {
      surface.text(4, middle, fitting(surface, own, GROUP, { size: 11, bold: true }), {
        size: 11,
        fill: theme.ink,
        bold: true,
      });
      groupBelow = middle;
    }
    if (middle - below < 11) continue;
    below = middle;
    const text = fitting(surface, scene.labels.name[row], GUTTER - 14 - beside, { size: 11 }, OFTEN_ALIKE);
    surface.text(GUTTER - 10, middle, text, { size: 11, fill: theme.muted, anchor: "end" });
  }
}

/**
 * @param {Surface} surface
 * @param {Scene} scene
 * @param {number} width
 * @param {Theme} theme
 */
function drawAxis(surface, scene, width, theme) {
  const { from, to, length } = scene;
  surface.rect(0, 0, width, AXIS - 3, theme.ground);
  const { marks, step } = ticksOf(from, to, Math.max(2, Math.floor((width - GUTTER) / 110)));
  for (const mark of marks) {
    const at = xOf(scene, mark, width);
    surface.line(
      [
        [at, AXIS - 8],
        [at, AXIS - 3],
      ],
      theme.muted,
    );
    surface.text(at, 9, timeText(mark, step, to), {
      size: 11,
      fill: theme.muted,
      anchor: at > width - 30 ? "end" : "middle",
    });
  }
  surface.line(
    [
      [GUTTER, AXIS - 3.5],
      [width, AXIS - 3.5],
    ],
    theme.faint,
  );
  if (from > 0 || to < length) {
    // the part of the whole that is in sight
    /** @param {number} time */
    const part = (time) => GUTTER + (time / length) * (width - GUTTER);
    surface.rect(part(from), AXIS - 4, Math.max(part(to) - part(from), 3), 3, theme.accent);
  }
}

/**
 * A time in the unit of the end of the axis, with as many digits as the step between marks asks for.
 * @param {number} time
 * @param {number} step
 * @param {number} end
 */
function timeText(time, step, end) {
  const [unit, size] = UNITS.find(([, ns]) => end >= ns) ?? UNITS[UNITS.length - 1];
  const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  return `${(time / size).toFixed(Math.min(digits, 9))} ${unit}`;
}
