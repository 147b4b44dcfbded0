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
 * @typedef {[x: number, y: number]} Point
 * @typedef {[x: number, y: number, width: number, height: number]} Area
 *
 * @typedef {Object} Surface
 * @property {(x: number, y: number, width: number, height: number, fill: string, stroke?: string) => void} rect
 * @property {(points: Point[], stroke: string, width?: number, dashed?: boolean) => void} line
 * @property {(points: Point[], fill: string, stroke?: string) => void} polygon
 * @property {(x: number, y: number, text: string, style?: TextStyle) => void} text  y is that of its middle
 * @property {(x: number, y: number, radius: number, fill: string, stroke?: string) => void} circle
 * @property {(text: string, style?: TextStyle) => number} measure  the width of a text
 * @property {(image: HTMLCanvasElement, from: Area, to: Area) => void} image  part of one, its pixels made larger
 *
 * @typedef {ReturnType<typeof themeColours>} Theme
 *
 * @typedef {Object} PictureOptions
 * @property {string} name  of saved files
 * @property {string} label  for readers who cannot see it
 * @property {(surface: Surface, width: number, height: number) => void} draw
 * @property {(width: number) => number} [height]  without it, that of the element around it
 * @property {(tall: number) => number} [used]  how much of its height has anything on it; the rest is not saved
 * @property {() => Key[]} [caption]  below it where it is saved
 *
 * @import { Key } from "./caption.js"
 */

import { laidOutCaption } from "./caption.js";
import { button, element } from "./dom.js";
import { save } from "./saving.js";

const SANS = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
const MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const SVG = "http://www.w3.org/2000/svg";
/** @type {Record<"start" | "middle" | "end", CanvasTextAlign>} */
const ALIGNMENTS = { start: "left", middle: "center", end: "right" };
const LONG = 30; // letters of a name from which on its end stays in sight too
export const OFTEN_ALIKE = 8; // of labels of rows, such as "gpu 0 stream 12", which differ at their ends
const LONGEST = 400; // letters; no picture has room for more

/** @param {TextStyle} style */
function fontOf(style) {
  return `${style.bold ? "600 " : ""}${style.size ?? 12}px ${style.mono ? MONO : SANS}`;
}

/**
 * Begin a path through points.
 * @param {CanvasRenderingContext2D} context
 * @param {Point[]} points
 */
function trace(context, points) {
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
}

/**
 * Fill and stroke the path.
 * @param {CanvasRenderingContext2D} context
 * @param {string} fill
 * @param {string | undefined} stroke
 * @param {number} width
 */
function paint(context, fill, stroke, width) {
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  if (!stroke) return;
  context.strokeStyle = stroke;
  context.lineWidth = width;
  context.stroke();
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
      trace(context, points);
      context.stroke();
      context.setLineDash([]);
    },
    polygon(points, fill, stroke) {
      trace(context, points);
      context.closePath();
      paint(context, fill, stroke, 0.5);
    },
    text(x, y, text, style = {}) {
      context.font = fontOf(style);
      context.fillStyle = style.fill ?? "#000000";
      context.textAlign = ALIGNMENTS[style.anchor ?? "start"];
      context.textBaseline = "middle";
      context.fillText(text, x, y + 0.5);
    },
    circle(x, y, radius, fill, stroke) {
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      paint(context, fill, stroke, 1.5);
    },
    measure(text, style = {}) {
      context.font = fontOf(style);
      return context.measureText(text).width;
    },
    image(image, from, to) {
      context.imageSmoothingEnabled = false;
      context.drawImage(image, ...from, ...to);
    },
  };
}

/** A surface that becomes SVG text. Elements are made one by one, so that any name stays a text. */
class SvgSurface {
  #ruler = context2d(document.createElement("canvas"));
  #root = document.createElementNS(SVG, "svg");

  /**
   * @param {number} width
   * @param {number} height
   */
  constructor(width, height) {
    this.#root.setAttribute("xmlns", SVG);
    this.#root.setAttribute("viewBox", `0 0 ${digits(width)} ${digits(height)}`);
    this.#root.setAttribute("width", digits(width));
    this.#root.setAttribute("height", digits(height));
  }

  /**
   * @param {string} tag
   * @param {Record<string, string | number | undefined>} attributes  those that are undefined are left out
   * @param {string} [text]
   */
  #add(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes))
      if (value !== undefined) made.setAttribute(name, typeof value === "number" ? digits(value) : value);
    if (text !== undefined) made.textContent = text;
    this.#root.append(made);
  }

  /** @type {Surface["rect"]} */
  rect(x, y, w, h, fill, stroke) {
    this.#add("rect", { x, y, width: Math.max(w, 0), height: Math.max(h, 0), fill: fill || "none", stroke });
  }

  /** @type {Surface["line"]} */
  line(points, stroke, w = 1, dashed = false) {
    this.#add("polyline", {
      points: points.map(([x, y]) => `${digits(x)},${digits(y)}`).join(" "),
      fill: "none",
      stroke,
      "stroke-width": w,
      "stroke-dasharray": dashed ? "4 3" : undefined,
    });
  }

  /** @type {Surface["polygon"]} */
  polygon(points, fill, stroke) {
    this.#add("polygon", {
      points: points.map(([x, y]) => `${digits(x)},${digits(y)}`).join(" "),
      fill: fill || "none",
      stroke,
      "stroke-width": stroke ? 0.5 : undefined,
    });
  }

  /** @type {Surface["text"]} */
  text(x, y, text, style = {}) {
    const attributes = {
      x,
      y,
      fill: style.fill ?? "#000000",
      "font-size": style.size ?? 12,
      "font-family": style.mono ? MONO : SANS,
      "font-weight": style.bold ? "600" : undefined,
      "text-anchor": style.anchor ?? "start",
      "dominant-baseline": "central",
    };
    this.#add("text", attributes, text);
  }

  /** @type {Surface["circle"]} */
  circle(x, y, radius, fill, stroke) {
    this.#add("circle", { cx: x, cy: y, r: radius, fill: fill || "none", stroke });
  }

  /** @type {Surface["image"]} */
  image(image, [x, y, width, height], [left, top, wide, tall]) {
    const part = document.createElement("canvas");
    [part.width, part.height] = [Math.max(width, 1), Math.max(height, 1)];
    context2d(part).drawImage(image, x, y, width, height, 0, 0, part.width, part.height);
    const attributes = { x: left, y: top, width: Math.max(wide, 0), height: Math.max(tall, 0) };
    const how = { preserveAspectRatio: "none", "image-rendering": "pixelated", href: part.toDataURL("image/png") };
    this.#add("image", { ...attributes, ...how });
  }

  /** @type {Surface["measure"]} */
  measure(text, style = {}) {
    this.#ruler.font = fontOf(style);
    return this.#ruler.measureText(text).width;
  }

  toString() {
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(this.#root)}\n`;
  }
}

/** @param {number} value */
function digits(value) {
  return String(Math.round(value * 100) / 100);
}

/** @param {HTMLCanvasElement} canvas */
function context2d(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser has no canvas");
  return context;
}

/**
 * The text, cut until it fits: at its end, or in the middle of long names, which often differ at their ends only.
 * @param {Surface} surface
 * @param {string} text
 * @param {number} width
 * @param {TextStyle} style
 * @param {number} [long]  letters from which on the end of what is cut stays
 * @returns {string}  empty where not even three characters fit
 */
export function fitting(surface, text, width, style, long = LONG) {
  if (width < 14) return "";
  if (text.length > LONGEST) text = cut(text, LONGEST, long);
  if (surface.measure(text, style) <= width) return text;
  let low = 0;
  let high = text.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (surface.measure(cut(text, middle, long), style) <= width) low = middle;
    else high = middle - 1;
  }
  return low >= 2 ? cut(text, low, long) : "";
}

/**
 * So many letters of a text.
 * @param {string} text
 * @param {number} n
 * @param {number} long  as that of `fitting`
 */
function cut(text, n, long) {
  const tail = n >= long ? Math.floor(n / 3) : 0;
  return `${text.slice(0, n - tail)}…${tail ? text.slice(-tail) : ""}`;
}

/**
 * A line from one place to another.
 * @param {Surface} surface
 * @param {Point} from
 * @param {Point} to
 * @param {string} stroke
 * @param {number} [width]
 * @param {boolean} [dashed]
 */
export function drawLine(surface, from, to, stroke, width, dashed) {
  surface.line([from, to], stroke, width, dashed);
}

/** Colours of the page's theme, for what is drawn. */
export function themeColours() {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
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

/** A picture that fills its width. What draws it gets a surface and its size; a canvas has the pixels of the screen. */
export class Picture {
  #context;
  #pending = false;
  #options;

  /** @param {PictureOptions} options */
  constructor(options) {
    this.#options = options;
    this.canvas = element("canvas", { attributes: { tabindex: "0", role: "img", "aria-label": options.label } });
    this.root = element("div", { class: "picture" }, [this.canvas]);
    this.#context = context2d(this.canvas);
    this.buttons = element("div", { class: "savers" }, [
      button("SVG", "Save this picture as SVG", () => this.#saveSvg()),
      button("PNG", "Save this picture as PNG", () => this.#savePng()),
    ]);
    new ResizeObserver(() => this.redraw()).observe(this.root);
    document.addEventListener("callgrove-theme", () => this.redraw());
  }

  size() {
    const width = Math.max(this.root.clientWidth, 1);
    return { width, height: Math.max(this.#options.height?.(width) ?? this.root.clientHeight, 1) };
  }

  /** Draw soon, and once for any number of calls. */
  redraw() {
    if (this.#pending) return;
    this.#pending = true;
    requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#pending = false;
    if (!this.root.isConnected || !this.root.clientWidth) return;
    const { canvas } = this;
    const { width, height: tall } = this.size();
    const ratio = window.devicePixelRatio || 1;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${tall}px`;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(tall * ratio)) canvas.height = Math.round(tall * ratio);
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#context.clearRect(0, 0, width, tall);
    this.#options.draw(canvasSurface(this.#context), width, tall);
  }

  /** How wide a saved picture is, and how high without its caption. */
  #saved() {
    const { width, height } = this.size();
    return { width, tall: Math.min(this.#options.used?.(height) ?? height, height) };
  }

  /**
   * @param {CanvasRenderingContext2D} context  to measure with
   * @param {number} width
   */
  #caption(context, width) {
    return laidOutCaption(canvasSurface(context), this.#options.caption?.() ?? [], width);
  }

  #saveSvg() {
    const { width, tall } = this.#saved();
    const theme = themeColours();
    const below = this.#caption(this.#context, width);
    const surface = new SvgSurface(width, tall + below.height);
    surface.rect(0, 0, width, tall + below.height, theme.ground);
    this.#options.draw(surface, width, tall);
    below.draw(surface, tall, theme);
    save(`${this.#options.name}.svg`, new Blob([surface.toString()], { type: "image/svg+xml" }));
  }

  #savePng() {
    const { canvas } = this;
    const { width, tall } = this.#saved();
    const ratio = canvas.width / width;
    const theme = themeColours();
    const copy = document.createElement("canvas");
    const target = context2d(copy);
    const below = this.#caption(target, width);
    copy.width = canvas.width;
    copy.height = Math.round((tall + below.height) * ratio);
    target.fillStyle = theme.ground;
    target.fillRect(0, 0, copy.width, copy.height);
    target.drawImage(canvas, 0, 0);
    target.setTransform(ratio, 0, 0, ratio, 0, 0);
    target.fillRect(0, tall, width, below.height);
    below.draw(canvasSurface(target), tall, theme);
    copy.toBlob((blob) => blob && save(`${this.#options.name}.png`, blob), "image/png");
  }
}
