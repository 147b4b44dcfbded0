/**
 * Points over two axes.
 *
 * @import { Surface } from "./canvas.js"
 *
 * @typedef {{ x: number, y: number, title: string }} Dot
 * @typedef {{ xTitle: string, yTitle: string, points: Dot[] }} ScatterData
 */

import { drawLine, Picture, themeColours } from "./canvas.js";
import { CATEGORIES } from "./colours.js";
import { element, takeKey } from "./dom.js";
import { ticksOf } from "./ticks.js";
import { tooltip } from "./tooltip.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [72, 20, 26, 40];
const HEIGHT = 360;
const NEAR = 12; // pixels from a point at which it is meant

/**
 * @param {HTMLElement} place
 * @param {ScatterData} data
 */
export function drawScatter(place, data) {
  const { xTitle, yTitle } = data;
  const points = data.points.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
  let cursor = -1;
  const picture = new Picture({
    name: "points",
    label: `${yTitle} over ${xTitle}. Left and right go from point to point.`,
    height: () => HEIGHT,
    draw: (surface, width, height) => draw(surface, width, height, { xTitle, yTitle, points }, points[cursor]),
    caption: () => [{ text: `${yTitle} over ${xTitle}` }],
  });
  const { canvas } = picture;
  /**
   * @param {Dot} dot
   * @param {number} x
   * @param {number} y
   */
  const tell = (dot, x, y) => {
    /** @type {[string, string][]} */
    const rows = [[xTitle, String(dot.x)], [yTitle, String(dot.y)]]; // prettier-ignore
    tooltip.show({ title: dot.title, rows }, x, y);
  };
  canvas.addEventListener("mousemove", (event) => {
    const { width, height } = picture.size();
    const place = scaleOf(points, width, height);
    const near = points.find(
      (one) => Math.hypot(place.x(one.x) - event.offsetX, place.y(one.y) - event.offsetY) < NEAR,
    );
    if (near) tell(near, event.clientX, event.clientY);
    else tooltip.hide();
  });
  canvas.addEventListener("mouseleave", () => tooltip.hide());
  canvas.addEventListener("blur", () => tooltip.hide());
  canvas.addEventListener("keydown", (event) => {
    const step = takeKey(event, { ArrowRight: 1, ArrowLeft: -1 });
    if (!step || !points.length) return;
    cursor = Math.min(Math.max(cursor + step, 0), points.length - 1);
    const { width, height } = picture.size();
    const at = scaleOf(points, width, height);
    const box = canvas.getBoundingClientRect();
    tell(points[cursor], box.left + at.x(points[cursor].x), box.top + at.y(points[cursor].y));
    picture.redraw();
  });
  place.replaceChildren(element("div", { class: "card" }, [picture.buttons, picture.root]));
  picture.redraw();
}

/**
 * @param {Dot[]} points
 * @param {number} width
 * @param {number} height
 */
function scaleOf(points, width, height) {
  /** @param {(dot: Dot) => number} value */
  const range = (value) => {
    let [low, high] = [Infinity, -Infinity];
    for (const dot of points) [low, high] = [Math.min(low, value(dot)), Math.max(high, value(dot))];
    return high > low ? [low, high] : [low - 1, low + 1];
  };
  const [left, right] = range(({ x }) => x);
  const [low, high] = range(({ y }) => y);
  return {
    ranges: { x: [left, right], y: [low, high] },
    x: (/** @type {number} */ x) => LEFT + ((x - left) / (right - left)) * (width - LEFT - RIGHT),
    y: (/** @type {number} */ y) => height - BOTTOM - ((y - low) / (high - low)) * (height - BOTTOM - TOP),
  };
}

/**
 * @param {Surface} surface
 * @param {number} width
 * @param {number} height
 * @param {ScatterData} data
 * @param {Dot | undefined} chosen
 */
function draw(surface, width, height, { xTitle, yTitle, points }, chosen) {
  const theme = themeColours();
  if (!points.length) {
    surface.text(LEFT, height / 2, "no row has both numbers", { fill: theme.muted, size: 13 });
    return;
  }
  const place = scaleOf(points, width, height);
  const small = { fill: theme.muted, size: 11 };
  for (const mark of ticksOf(place.ranges.x[0], place.ranges.x[1], width / 120).marks) {
    drawLine(surface, [place.x(mark), TOP], [place.x(mark), height - BOTTOM], theme.faint);
    surface.text(place.x(mark), height - BOTTOM + 12, String(mark), { ...small, anchor: "middle" });
  }
  for (const mark of ticksOf(place.ranges.y[0], place.ranges.y[1], height / 60).marks) {
    drawLine(surface, [LEFT, place.y(mark)], [width - RIGHT, place.y(mark)], theme.faint);
    surface.text(LEFT - 6, place.y(mark), mark.toPrecision(4).replace(/\.?0+$/, ""), { ...small, anchor: "end" });
  }
  for (const { x, y } of points) surface.circle(place.x(x), place.y(y), 3.5, CATEGORIES[0], theme.ground);
  if (chosen) surface.circle(place.x(chosen.x), place.y(chosen.y), 6, "", theme.mark);
  surface.text((LEFT + width) / 2, height - 10, xTitle, { ...small, anchor: "middle" });
  surface.text(LEFT, TOP - 13, yTitle, small);
}
