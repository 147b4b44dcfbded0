/** Horizontal bars with their names inside or beside them, from the longest on or as a stair; some can be picked. */

import { createPicture, fitting, themeColours } from "./canvas.js";
import { CATEGORIES, inkOn, mixed } from "./colours.js";
import { count } from "./format.js";
import { tooltip } from "./tooltip.js";

const ROW = 23;
const STEP = 8; // pixels that a deeper bar begins further to the right
const SIZE = { size: 12 };

/**
 * @typedef {Object} Bar
 * @property {string} name
 * @property {number} value
 * @property {string} text  at the right
 * @property {string} [colour]
 * @property {import("./tooltip.js").Details} details
 * @property {function(): void} [pick]
 * @property {number} [depth]
 * @property {string} [gap]  said instead of a bar
 *
 * @typedef {{rows: Bar[], more: number, empty?: string, caption: string}} BarData  more: rows that there is no room for
 */

/**
 * @param {string} name  of saved files
 * @param {string} label
 * @param {function(): BarData} dataOf
 * @param {string} picking  what a click does
 * @returns {{root: HTMLElement, buttons: HTMLElement, refresh: function(): void}}
 */
export function createBars(name, label, dataOf, picking) {
  let data = dataOf();
  let cursor = -1;
  const picture = createPicture({
    name,
    label,
    height: () => Math.max(data.rows.length + (data.more > 0 ? 1 : 0), 1) * ROW + 4,
    draw,
    caption: () => [{ text: data.caption }],
  });
  const { canvas } = picture;

  function draw(surface, width) {
    const { rows, more, empty } = data;
    const theme = themeColours();
    const most = Math.max(...rows.map((one) => (one.gap ? 0 : one.value)), 0) || 1;
    const room = Math.max(width - Math.max(...rows.map((one) => surface.measure(one.text, SIZE)), 0) - 10, 80);
    const deepest = Math.min(Math.max(...rows.map((one) => one.depth ?? 0), 0) * STEP, room * 0.3);
    rows.forEach((one, k) => drawBar(surface, one, k * ROW + 2, { most, room, deepest, width, theme }));
    const below = rows.length * ROW + ROW / 2;
    if (!rows.length) surface.text(4, below, empty ?? "nothing has a cost here", { fill: theme.muted, ...SIZE });
    else if (more > 0) surface.text(6, below, `… ${count(more)} more`, { fill: theme.muted, ...SIZE });
    const chosen = document.activeElement === canvas ? rows[cursor] : undefined;
    if (chosen) surface.rect(0.5, cursor * ROW + 0.5, width - 1, ROW - 1, "", theme.accent);
  }

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
    if (inside === one.name || left <= length) surface.text(indent + 6, middle, inside, { fill: inkOn(fill), ...SIZE });
    else
      surface.text(indent + length + 6, middle, fitting(surface, one.name, left - 12, SIZE), {
        fill: theme.ink,
        ...SIZE,
      });
    surface.text(width - 2, middle, one.text, { fill: theme.muted, ...SIZE, anchor: "end" });
  }

  const barAt = (k) => (data.rows[k]?.gap ? undefined : data.rows[k]);
  const tell = (one, x, y) =>
    tooltip.show({ ...one.details, rows: [...one.details.rows, ["", one.pick ? picking : ""]] }, x, y);
  const atMouse = (event) => barAt(Math.floor(event.offsetY / ROW));

  function move(step) {
    let next = cursor + step;
    while (data.rows[next]?.gap) next += step;
    cursor = Math.min(Math.max(next, 0), data.rows.length - 1);
    const box = canvas.getBoundingClientRect();
    const one = barAt(cursor);
    if (one) tell(one, box.left + 40, box.top + cursor * ROW);
    picture.redraw();
  }

  canvas.addEventListener("click", (event) => atMouse(event)?.pick?.());
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") barAt(cursor)?.pick?.();
    if (!step || !data.rows.length) return;
    event.preventDefault();
    event.stopPropagation();
    move(step);
  });
  canvas.addEventListener("mousemove", (event) => {
    const one = atMouse(event);
    canvas.style.cursor = one?.pick ? "pointer" : "default";
    if (one) tell(one, event.clientX, event.clientY);
    else tooltip.hide();
  });
  canvas.addEventListener("mouseleave", () => tooltip.hide());
  canvas.addEventListener("blur", () => {
    tooltip.hide();
    picture.redraw();
  });
  return {
    root: picture.root,
    buttons: picture.buttons,
    refresh: () => {
      data = dataOf();
      cursor = -1;
      picture.redraw();
    },
  };
}
