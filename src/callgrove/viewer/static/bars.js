/** Horizontal bars with their names inside or beside them, and amounts at the end. */

import { createPicture, fitting, themeColours } from "./canvas.js";
import { CATEGORIES, inkOn, mixed } from "./colours.js";
import { count } from "./format.js";
import { tooltip } from "./tooltip.js";

const ROW = 23;

/**
 * @param {string} name  of saved files
 * @param {string} label
 * @param {{rows: {name: string, value: number, text: string, details: any, pick?: function(): void}[], more: number}} data
 * @returns {{root: HTMLElement, buttons: HTMLElement}}
 */
export function createBars(name, label, { rows, more }) {
  const picture = createPicture({ name, label, height: () => (rows.length + (more > 0 ? 1 : 0)) * ROW + 4, draw });
  const most = Math.max(...rows.map((one) => one.value), 0) || 1;

  function draw(surface, width) {
    const theme = themeColours();
    const widest = Math.max(...rows.map((one) => surface.measure(one.text, { size: 12 })), 0) + 10;
    const room = Math.max(width - widest, 80);
    rows.forEach((one, k) => {
      const y = k * ROW + 2;
      const middle = y + (ROW - 4) / 2;
      const length = Math.max((room * Math.max(one.value, 0)) / most, 2);
      const fill = mixed(CATEGORIES[0], theme.ground, 0.62 - 0.5 * Math.min(one.value / most, 1));
      surface.rect(0, y, length, ROW - 4, fill);
      const inside = fitting(surface, one.name, length - 10, { size: 12 });
      const beside = room - length > length ? fitting(surface, one.name, room - length - 12, { size: 12 }) : "";
      if (inside === one.name || !beside) surface.text(6, middle, inside, { fill: inkOn(fill), size: 12 });
      else surface.text(length + 6, middle, beside, { fill: theme.ink, size: 12 });
      surface.text(width - 2, middle, one.text, { fill: theme.muted, size: 12, anchor: "end" });
    });
    if (more > 0) surface.text(6, rows.length * ROW + ROW / 2, `… ${count(more)} more`, { fill: theme.muted, size: 12 });
  }

  let cursor = -1;
  const detailsOf = (one) => ({ ...one.details, rows: [...one.details.rows, ["", one.pick ? "click to see it in the timeline" : ""]] });
  picture.canvas.addEventListener("click", (event) => rows[Math.floor(event.offsetY / ROW)]?.pick?.());
  picture.canvas.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") rows[cursor]?.pick?.();
    if (!step || !rows.length) return;
    event.preventDefault();
    event.stopPropagation();
    cursor = Math.min(Math.max(cursor + step, 0), rows.length - 1);
    const box = picture.canvas.getBoundingClientRect();
    tooltip.show(detailsOf(rows[cursor]), box.left + 40, box.top + cursor * ROW);
  });
  picture.canvas.addEventListener("blur", () => tooltip.hide());
  picture.canvas.addEventListener("mousemove", (event) => {
    const one = rows[Math.floor(event.offsetY / ROW)];
    picture.canvas.style.cursor = one?.pick ? "pointer" : "default";
    if (one) tooltip.show(detailsOf(one), event.clientX, event.clientY);
    else tooltip.hide();
  });
  picture.canvas.addEventListener("mouseleave", () => tooltip.hide());
  return { root: picture.root, buttons: picture.buttons };
}
