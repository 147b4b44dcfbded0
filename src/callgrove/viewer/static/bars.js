/** Horizontal bars with their names inside or beside them, from the longest on or as a stair; some can be picked. */

import { fitting, Picture, themeColours } from "./canvas.js";
import { CATEGORIES, inkOn, mixed } from "./colours.js";
import { takeKey } from "./dom.js";
import { count } from "./format.js";
import { tooltip } from "./tooltip.js";

const ROW = 23;
const STEP = 8; // pixels that a deeper bar begins further to the right
const SIZE = { size: 12 };

/**
 * @import { Surface, Theme } from "./canvas.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {Object} Bar
 * @property {string} name
 * @property {number} value
 * @property {string} text  at the right
 * @property {string} [colour]
 * @property {Details} details
 * @property {() => void} [pick]
 * @property {number} [depth]
 * @property {string} [gap]  said instead of a bar
 *
 * @typedef {{ rows: Bar[], more: number, empty?: string, caption: string }} BarData  more: rows without room
 *
 * @typedef {{ most: number, room: number, deepest: number, width: number, theme: Theme }} Scale  of all bars
 */

/** Bars as a picture; `refresh` asks for their data again. */
export class Bars {
  #dataOf;
  #picking;
  #data;
  #cursor = -1;
  #picture;

  /**
   * @param {string} name  of saved files
   * @param {string} label
   * @param {() => BarData} dataOf
   * @param {string} picking  what a click does
   */
  constructor(name, label, dataOf, picking) {
    this.#dataOf = dataOf;
    this.#picking = picking;
    this.#data = dataOf();
    this.#picture = new Picture({
      name,
      label,
      height: () => Math.max(this.#data.rows.length + (this.#data.more > 0 ? 1 : 0), 1) * ROW + 4,
      draw: (surface, width) => this.#draw(surface, width),
      caption: () => [{ text: this.#data.caption }],
    });
    this.root = this.#picture.root;
    this.buttons = this.#picture.buttons;
    this.#listen();
  }

  refresh() {
    this.#data = this.#dataOf();
    this.#cursor = -1;
    this.#picture.redraw();
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   */
  #draw(surface, width) {
    const { rows, more, empty } = this.#data;
    const theme = themeColours();
    const most = Math.max(...rows.map((one) => (one.gap ? 0 : one.value)), 0) || 1;
    const room = Math.max(width - Math.max(...rows.map((one) => surface.measure(one.text, SIZE)), 0) - 10, 80);
    const deepest = Math.min(Math.max(...rows.map((one) => one.depth ?? 0), 0) * STEP, room * 0.3);
    rows.forEach((one, k) => drawBar(surface, one, k * ROW + 2, { most, room, deepest, width, theme }));
    const below = rows.length * ROW + ROW / 2;
    if (!rows.length) surface.text(4, below, empty ?? "nothing has a cost here", { fill: theme.muted, ...SIZE });
    else if (more > 0) surface.text(6, below, `… ${count(more)} more`, { fill: theme.muted, ...SIZE });
    const chosen = document.activeElement === this.#picture.canvas ? rows[this.#cursor] : undefined;
    if (chosen) surface.rect(0.5, this.#cursor * ROW + 0.5, width - 1, ROW - 1, "", theme.accent);
  }

  /** @param {number} k */
  #barAt(k) {
    const one = this.#data.rows[k];
    return one?.gap ? undefined : one;
  }

  /** @param {MouseEvent} event */
  #atMouse(event) {
    return this.#barAt(Math.floor(event.offsetY / ROW));
  }

  /**
   * @param {Bar} one
   * @param {number} x
   * @param {number} y
   */
  #tell(one, x, y) {
    tooltip.show({ ...one.details, rows: [...one.details.rows, ["", one.pick ? this.#picking : ""]] }, x, y);
  }

  /** @param {number} step */
  #move(step) {
    const { rows } = this.#data;
    let next = this.#cursor + step;
    while (rows[next]?.gap) next += step;
    this.#cursor = Math.min(Math.max(next, 0), rows.length - 1);
    const box = this.#picture.canvas.getBoundingClientRect();
    const one = this.#barAt(this.#cursor);
    if (one) this.#tell(one, box.left + 40, box.top + this.#cursor * ROW);
    this.#picture.redraw();
  }

  #listen() {
    const { canvas } = this.#picture;
    canvas.addEventListener("click", (event) => this.#atMouse(event)?.pick?.());
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#barAt(this.#cursor)?.pick?.();
      const step = this.#data.rows.length ? takeKey(event, { ArrowDown: 1, ArrowUp: -1 }) : undefined;
      if (step) this.#move(step);
    });
    canvas.addEventListener("mousemove", (event) => {
      const one = this.#atMouse(event);
      canvas.style.cursor = one?.pick ? "pointer" : "default";
      if (one) this.#tell(one, event.clientX, event.clientY);
      else tooltip.hide();
    });
    canvas.addEventListener("mouseleave", () => tooltip.hide());
    canvas.addEventListener("blur", () => {
      tooltip.hide();
      this.#picture.redraw();
    });
  }
}

/**
 * @param {Surface} surface
 * @param {Bar} one
 * @param {number} y
 * @param {Scale} scale
 */
function drawBar(surface, one, y, { most, room, deepest, width, theme }) {
  const middle = y + (ROW - 4) / 2;
  const indent = Math.min((one.depth ?? 0) * STEP, deepest);
  if (one.gap) {
    surface.text(indent + 6, middle, one.gap, { fill: theme.muted, ...SIZE });
    return;
  }
  const length = Math.max(((room - deepest) * Math.max(one.value, 0)) / most, 2);
  const fill = mixed(one.colour ?? CATEGORIES[0], theme.ground, 0.62 - 0.5 * Math.min(one.value / most, 1));
  surface.rect(indent, y, length, ROW - 4, fill);
  const left = room - indent - length; // beside the bar
  const inside = fitting(surface, one.name, length - 10, SIZE);
  if (inside === one.name || left <= length) {
    surface.text(indent + 6, middle, inside, { fill: inkOn(fill), ...SIZE });
  } else {
    const beside = fitting(surface, one.name, left - 12, SIZE);
    surface.text(indent + length + 6, middle, beside, { fill: theme.ink, ...SIZE });
  }
  surface.text(width - 2, middle, one.text, { fill: theme.muted, ...SIZE, anchor: "end" });
}
