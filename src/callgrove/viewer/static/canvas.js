/**
 * Pictures on a canvas that can be saved: what draws them draws on a surface, which is a canvas or an SVG.
 *
 * @typedef {Object} TextStyle
 * @property {string} [fill]
 * @property {number} [size]  pixels
 * @property {"start" | "middle" | "end"} [anchor]
 * @property {boolean} [bold]
 * @property {boolean} [mono]
 *
 * @typedef {Object} Surface
 * @property {function(number, number, number, number, string, string=): void} rect  x, y, width, height, fill, stroke
 * @property {function([number, number][], string, number=, boolean=): void} line  points, stroke, width, dashed
 * @property {function(number, number, string, TextStyle=): void} text  x and the middle of y
 * @property {function(number, number, number, string, string=): void} circle  x, y, radius, fill, stroke
 * @property {function(string, TextStyle=): number} measure  the width of a text
 */

import { laidOutCaption } from "./caption.js";
import { button, element } from "./dom.js";
import { save } from "./saving.js";

const SANS = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
const MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const SVG = "http://www.w3.org/2000/svg";
const LONG = 30; // letters of a name from which on its end stays in sight too
const LONGEST = 400; // letters; no picture has room for more

/** @param {TextStyle} style */
function fontOf(style) {
  return `${style.bold ? "600 " : ""}${style.size ?? 12}px ${style.mono ? MONO : SANS}`;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @returns {Surface}
 */
export function canvasSurface(context) {
  return {
    rect(x, y, width, height, fill, stroke) {
      if (fill) {
        context.fillStyle = fill;
        context.fillRect(x, y, width, height);
      }
      if (stroke) {
        context.strokeStyle = stroke;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 0), Math.max(height - 1, 0));
      }
    },
    line(points, stroke, width = 1, dashed = false) {
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.setLineDash(dashed ? [4, 3] : []);
      context.beginPath();
      points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.stroke();
      context.setLineDash([]);
    },
    text(x, y, text, style = {}) {
      context.font = fontOf(style);
      context.fillStyle = style.fill ?? "#000000";
      context.textAlign = /** @type {CanvasTextAlign} */ (
        { middle: "center", end: "right" }[style.anchor ?? ""] ?? "left"
      );
      context.textBaseline = "middle";
      context.fillText(text, x, y + 0.5);
    },
    circle(x, y, radius, fill, stroke) {
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      if (fill) {
        context.fillStyle = fill;
        context.fill();
      }
      if (stroke) {
        context.strokeStyle = stroke;
        context.lineWidth = 1.5;
        context.stroke();
      }
    },
    measure(text, style = {}) {
      context.font = fontOf(style);
      return context.measureText(text).width;
    },
  };
}

/**
 * A surface that becomes SVG text. Elements are made one by one, so that any name stays a text.
 * @param {number} width
 * @param {number} height
 * @returns {Surface & {toString: function(): string}}
 */
export function svgSurface(width, height) {
  const ruler = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  const root = document.createElementNS(SVG, "svg");
  const number = (value) => String(Math.round(value * 100) / 100);
  const add = (tag, attributes, text) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    root.append(made);
  };
  root.setAttribute("xmlns", SVG);
  root.setAttribute("viewBox", `0 0 ${number(width)} ${number(height)}`);
  root.setAttribute("width", number(width));
  root.setAttribute("height", number(height));
  return {
    rect(x, y, w, h, fill, stroke) {
      add("rect", {
        x: number(x),
        y: number(y),
        width: number(Math.max(w, 0)),
        height: number(Math.max(h, 0)),
        fill: fill || "none",
        stroke,
      });
    },
    line(points, stroke, w = 1, dashed = false) {
      const d = points.map(([x, y]) => `${number(x)},${number(y)}`).join(" ");
      add("polyline", {
        points: d,
        fill: "none",
        stroke,
        "stroke-width": number(w),
        "stroke-dasharray": dashed ? "4 3" : undefined,
      });
    },
    text(x, y, text, style = {}) {
      add(
        "text",
        {
          x: number(x),
          y: number(y),
          fill: style.fill ?? "#000000",
          "font-size": number(style.size ?? 12),
          "font-family": style.mono ? MONO : SANS,
          "font-weight": style.bold ? "600" : undefined,
          "text-anchor": style.anchor ?? "start",
          "dominant-baseline": "central",
        },
        text,
      );
    },
    circle(x, y, radius, fill, stroke) {
      add("circle", { cx: number(x), cy: number(y), r: number(radius), fill: fill || "none", stroke });
    },
    measure(text, style = {}) {
      ruler.font = fontOf(style);
      return ruler.measureText(text).width;
    },
    toString: () => `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(root)}\n`,
  };
}

/**
 * The text, cut until it fits: at its end, or in the middle of long names, which often differ at their ends only.
 * @param {Surface} surface
 * @param {string} text
 * @param {number} width
 * @param {TextStyle} style
 * @returns {string}  empty where not even three characters fit
 */
export function fitting(surface, text, width, style) {
  if (width < 14) return "";
  if (text.length > LONGEST) text = cut(text, LONGEST);
  if (surface.measure(text, style) <= width) return text;
  let low = 0;
  let high = text.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (surface.measure(cut(text, middle), style) <= width) low = middle;
    else high = middle - 1;
  }
  return low >= 2 ? cut(text, low) : "";
}

/** So many letters of a text. */
function cut(text, n) {
  const tail = n >= LONG ? Math.floor(n / 3) : 0;
  return `${text.slice(0, n - tail)}…${tail ? text.slice(-tail) : ""}`;
}

/**
 * Colours of the page's theme, for what is drawn.
 * @returns {{ink: string, muted: string, faint: string, ground: string, accent: string, mark: string}}
 */
export function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    ink: get("--ink"),
    muted: get("--muted"),
    faint: get("--line"),
    ground: get("--surface"),
    accent: get("--accent"),
    mark: get("--mark"),
  };
}

/**
 * @typedef {Object} Picture
 * @property {HTMLElement} root
 * @property {HTMLCanvasElement} canvas
 * @property {function(): void} redraw  soon, and once for any number of calls
 * @property {function(): {width: number, height: number}} size
 * @property {HTMLElement} buttons  that save it
 */

/**
 * A picture that fills its width. `draw` gets a surface and its size; a canvas has the pixels of the screen.
 * @param {Object} options
 * @param {string} options.name  of saved files
 * @param {string} options.label  for who cannot see it
 * @param {function(Surface, number, number): void} options.draw
 * @param {function(number): number} [options.height]  of a width; without it, that of the element around it
 * @param {function(number): number} [options.used]  how much of its height has anything on it; the rest is not saved
 * @param {function(): import("./caption.js").Key[]} [options.caption]  below it where it is saved
 * @returns {Picture}
 */
export function createPicture({ name, label, draw, height, used = (tall) => tall, caption = () => [] }) {
  const canvas = /** @type {HTMLCanvasElement} */ (
    element("canvas", { attributes: { tabindex: "0", role: "img", "aria-label": label } })
  );
  const root = element("div", { class: "picture" }, [canvas]);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  let pending = false;
  const size = () => {
    const width = Math.max(root.clientWidth, 1);
    return { width, height: Math.max(height ? height(width) : root.clientHeight, 1) };
  };
  const drawNow = () => {
    pending = false;
    if (!root.isConnected || !root.clientWidth) return;
    const { width, height: tall } = size();
    const ratio = window.devicePixelRatio || 1;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${tall}px`;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(tall * ratio)) canvas.height = Math.round(tall * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, tall);
    draw(canvasSurface(context), width, tall);
  };
  const redraw = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(drawNow);
  };
  const saveSvg = () => {
    const { width, height: whole } = size();
    const tall = Math.min(used(whole), whole);
    const theme = themeColours();
    const below = laidOutCaption(canvasSurface(context), caption(), width);
    const surface = svgSurface(width, tall + below.height);
    surface.rect(0, 0, width, tall + below.height, theme.ground);
    draw(surface, width, tall);
    below.draw(surface, tall, theme);
    save(`${name}.svg`, new Blob([surface.toString()], { type: "image/svg+xml" }));
  };
  const savePng = () => {
    const { width, height: whole } = size();
    const ratio = canvas.width / width;
    const tall = Math.min(used(whole), whole);
    const theme = themeColours();
    const copy = document.createElement("canvas");
    const target = /** @type {CanvasRenderingContext2D} */ (copy.getContext("2d"));
    const below = laidOutCaption(canvasSurface(target), caption(), width);
    copy.width = canvas.width;
    copy.height = Math.round((tall + below.height) * ratio);
    target.fillStyle = theme.ground;
    target.fillRect(0, 0, copy.width, copy.height);
    target.drawImage(canvas, 0, 0);
    target.setTransform(ratio, 0, 0, ratio, 0, 0);
    target.fillRect(0, tall, width, below.height);
    below.draw(canvasSurface(target), tall, theme);
    copy.toBlob((blob) => blob && save(`${name}.png`, blob), "image/png");
  };
  const buttons = element("div", { class: "savers" }, [
    button("SVG", "Save this picture as SVG", saveSvg),
    button("PNG", "Save this picture as PNG", savePng),
  ]);
  new ResizeObserver(redraw).observe(root);
  document.addEventListener("callgrove-theme", redraw);
  return { root, canvas, redraw, size, buttons };
}
