/** A plot of curves and measured points over one parameter, with linear or logarithmic axes. */

import { createPicture, fitting, themeColours } from "./canvas.js";
import { element } from "./dom.js";
import { logTicksOf, ticksOf } from "./ticks.js";
import { tooltip } from "./tooltip.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [48, 24, 18, 40]; // LEFT at least: labels may need more
const NEAR = 14; // pixels from a point at which it is meant

/**
 * @typedef {Object} Plot
 * @property {string} xTitle
 * @property {string} yTitle
 * @property {boolean} logX
 * @property {boolean} logY
 * @property {number[]} xMarks  where the axis is marked; none: at round numbers
 * @property {function(number): string} xText
 * @property {function(number): string} yText
 * @property {[number, number][]} curve
 * @property {number} beyond  where the curve leaves what was measured
 * @property {{x: number, y: number, low: number, high: number, details: import("./tooltip.js").Details}[]} points
 * @property {{x: number, y: number, text: string} | null} target
 * @property {string} empty  what to say where there is nothing to draw
 * @property {string} said  above the curve
 * @property {string} caption  below it where it is saved
 */

/**
 * @param {string} name  of saved files
 * @param {function(number): number} height
 * @param {function(): Plot} plotOf
 * @returns {import("./canvas.js").Picture}
 */
export function createPlot(name, height, plotOf) {
  const picture = createPicture({
    name,
    label: "Measured values and the function fitted to them. Left and right go from point to point.",
    height,
    draw,
    caption: () => [{ text: plotOf().caption }],
  });
  let cursor = -1;
  let left = LEFT; // where the vertical axis is

  function axesOf(plot, width, tall) {
    const xs = [...plot.curve.map(([x]) => x), ...plot.points.map((point) => point.x)];
    const ys = [
      ...plot.curve.map(([, y]) => y),
      ...plot.points.flatMap((point) => [point.y, point.low, point.high]),
    ].filter(Number.isFinite);
    return {
      x: axis(xs, plot.logX, left, width - RIGHT, false),
      y: axis(ys, plot.logY, tall - BOTTOM, TOP, true),
    };
  }

  function draw(surface, width, tall) {
    const theme = themeColours();
    const plot = plotOf();
    if (plot.empty) {
      surface.text(LEFT, tall / 2, plot.empty, { fill: theme.muted, size: 13 });
      return;
    }
    const marks = axesOf(plot, width, tall).y.marks(tall / 45);
    left = Math.max(LEFT, ...marks.map((mark) => surface.measure(plot.yText(mark), { size: 11 }) + 16));
    const { x, y } = axesOf(plot, width, tall);
    drawFrame(surface, plot, x, y, width, tall, theme);
    if (plot.said)
      surface.text((left + width - RIGHT) / 2, TOP + 12, plot.said, { fill: theme.muted, size: 12, anchor: "middle" });
    const bottom = tall - BOTTOM;
    for (const beyond of [false, true]) {
      for (const run of runs(
        plot.curve.filter(([at]) => (beyond ? at >= plot.beyond : at <= plot.beyond)),
        x,
        y,
      )) {
        surface.line(
          run.map(([a, b]) => [a, Math.min(Math.max(b, TOP - 2), bottom + 2)]),
          theme.accent,
          2.5,
          beyond,
        );
      }
    }
    if (plot.target) {
      const at = x.place(plot.target.x);
      surface.line(
        [
          [at, TOP],
          [at, bottom],
        ],
        theme.mark,
        1,
        true,
      );
      const here = y.place(plot.target.y);
      if (Number.isFinite(here)) {
        surface.circle(at, here, 4.5, theme.ground, theme.mark);
        surface.text(at - 9, Math.min(Math.max(here - 10, TOP), bottom - 8), plot.target.text, {
          fill: theme.ink,
          size: 12,
          anchor: "end",
          bold: true,
        });
      }
    }
    plot.points.forEach((point, k) =>
      drawPoint(surface, point, x, y, theme, k === cursor && document.activeElement === picture.canvas),
    );
  }

  function drawFrame(surface, plot, x, y, width, tall, theme) {
    const bottom = tall - BOTTOM;
    let right = -Infinity;
    for (const mark of plot.xMarks.length ? plot.xMarks : x.marks((width - left - RIGHT) / 80)) {
      const at = x.place(mark);
      if (at - right < 30) continue;
      right = at;
      surface.line(
        [
          [at, TOP],
          [at, bottom],
        ],
        theme.faint,
      );
      surface.text(at, bottom + 12, plot.xText(mark), { fill: theme.muted, size: 11, anchor: "middle" });
    }
    for (const mark of y.marks(tall / 45)) {
      const at = y.place(mark);
      surface.line(
        [
          [left, at],
          [width - RIGHT, at],
        ],
        theme.faint,
      );
      surface.text(left - 8, at, plot.yText(mark), { fill: theme.muted, size: 11, anchor: "end" });
    }
    surface.line(
      [
        [left, TOP],
        [left, bottom],
        [width - RIGHT, bottom],
      ],
      theme.muted,
    );
    surface.text((left + width - RIGHT) / 2, tall - 10, plot.xTitle, { fill: theme.ink, size: 12, anchor: "middle" });
    surface.text(left, 7, fitting(surface, plot.yTitle, 400, { size: 12 }), { fill: theme.ink, size: 12 });
  }

  function drawPoint(surface, point, x, y, theme, chosen) {
    const [at, here] = [x.place(point.x), y.place(point.y)];
    if (!Number.isFinite(here)) return;
    const [low, high] = [y.place(point.low), y.place(point.high)];
    if (Number.isFinite(low) && Number.isFinite(high) && Math.abs(low - high) > 1) {
      surface.line(
        [
          [at, low],
          [at, high],
        ],
        theme.ink,
        1.2,
      );
      for (const end of [low, high])
        surface.line(
          [
            [at - 4, end],
            [at + 4, end],
          ],
          theme.ink,
          1.2,
        );
    }
    surface.circle(at, here, chosen ? 6 : 4, theme.ink, chosen ? theme.accent : undefined);
  }

  function show(k) {
    const plot = plotOf();
    const point = plot.points[k];
    if (!point) return;
    const { width, height: tall } = picture.size();
    const { x, y } = axesOf(plot, width, tall);
    const box = picture.canvas.getBoundingClientRect();
    tooltip.show(point.details, box.left + x.place(point.x), box.top + y.place(point.y));
  }

  picture.canvas.addEventListener("mousemove", (event) => {
    const plot = plotOf();
    const { width, height: tall } = picture.size();
    const { x, y } = axesOf(plot, width, tall);
    const far = plot.points.map((point) =>
      Math.hypot(x.place(point.x) - event.offsetX, y.place(point.y) - event.offsetY),
    );
    const nearest = far.indexOf(Math.min(...far));
    if (nearest >= 0 && far[nearest] < NEAR) tooltip.show(plot.points[nearest].details, event.clientX, event.clientY);
    else tooltip.hide();
  });
  picture.canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    cursor = Math.min(Math.max(cursor + step, 0), plotOf().points.length - 1);
    show(cursor);
    picture.redraw();
  });
  for (const event of ["mouseleave", "blur"])
    picture.canvas.addEventListener(event, () => {
      tooltip.hide();
      picture.redraw();
    });
  return picture;
}

/** Switches of an axis. */
export function axisSwitch(label, on, changed) {
  const box = /** @type {HTMLInputElement} */ (
    element("input", { attributes: { type: "checkbox" }, on: { change: () => changed(box.checked) } })
  );
  box.checked = on;
  box.style.minHeight = "auto";
  return element("label", { class: "choice" }, [box, element("span", { text: label })]);
}

/** From numbers to places. A logarithmic axis has no place for what is not above 0. */
function axis(values, logarithmic, from, to, fromZero) {
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
  const scale = logarithmic ? (value) => (value > 0 ? Math.log10(value) : NaN) : (value) => value;
  const [first, last] = [scale(low), scale(high)];
  return {
    place: (value) => from + ((scale(value) - first) / (last - first || 1)) * (to - from),
    marks: (most) => (logarithmic ? logTicksOf(low, high, most) : ticksOf(low, high, most).marks),
  };
}

/** The stretches of a curve that can be drawn, as places. */
function runs(curve, x, y) {
  const found = [];
  let run = [];
  for (const [a, b] of curve) {
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
