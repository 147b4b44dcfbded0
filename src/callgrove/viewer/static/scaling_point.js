/**
 * The point of prediction: a slider and a box for each parameter. Sliders stop where the page knows everything, boxes
 * take any number.
 *
 * @import { Models } from "./scaling_models.js"
 */

import { element } from "./dom.js";
import { brief } from "./scaling_text.js";

/** Controls of a point; they keep the focus while everything else is drawn anew. */
export class PointBar {
  said = element("span", { class: "match", attributes: { role: "status" } });
  /** @type {{ slider: HTMLInputElement, box: HTMLInputElement }[]} */
  #inputs;

  /**
   * @param {Models} models
   * @param {(p: number, value: number) => void} moved
   */
  constructor(models, moved) {
    this.models = models;
    this.#inputs = models.data.parameters.map((name, p) => ({
      slider: this.#slider(name, p, moved),
      box: boxOf(name, (value) => moved(p, value)),
    }));
    this.root = element("div", { class: "point-bar", attributes: { role: "group", "aria-label": "Predict at" } }, [
      ...models.data.parameters.map((name, p) =>
        element("label", {}, [
          element("span", { text: p ? name : `predict at ${name}` }),
          this.#inputs[p].slider,
          this.#inputs[p].box,
        ]),
      ),
      this.said,
    ]);
  }

  /**
   * @param {string} name
   * @param {number} p
   * @param {(p: number, value: number) => void} moved
   */
  #slider(name, p, moved) {
    const stops = this.models.stops[p];
    const attributes = { type: "range", min: "0", max: String(stops.length - 1), step: "1" };
    const made = element("input", { attributes: { ...attributes, "aria-label": `Move along ${name}` } });
    made.addEventListener("input", () => moved(p, stops[made.valueAsNumber]));
    return made;
  }

  /**
   * Show a point; where a box has the focus, what is typed stays.
   * @param {number[]} point
   */
  set(point) {
    this.#inputs.forEach(({ slider, box }, p) => {
      slider.value = String(nearestOf(this.models.stops[p], point[p]));
      slider.setAttribute("aria-valuetext", `${brief(point[p])}${beyondText(this.models, p, point[p])}`);
      if (box !== document.activeElement || box.valueAsNumber !== point[p]) box.value = String(point[p]);
    });
  }
}

/**
 * A box for a number, which counts when it is complete.
 * @param {string} name
 * @param {(value: number) => void} moved
 */
function boxOf(name, moved) {
  const box = element("input", { attributes: { type: "number", step: "any", "aria-label": `Predict at ${name}` } });
  box.addEventListener("change", () => {
    if (Number.isFinite(box.valueAsNumber)) moved(box.valueAsNumber);
  });
  return box;
}

/**
 * How far a value lies beyond what was measured, in words; empty inside.
 * @param {Models} models
 * @param {number} p
 * @param {number} value
 */
export function beyondText(models, p, value) {
  const measured = models.measured[p];
  const [first, last] = [measured[0], measured[measured.length - 1]];
  if (value > last && last > 0) return `, ${brief(Number((value / last).toPrecision(3)))} times the largest measured`;
  if (value > last) return ", above the largest measured";
  return value < first ? ", below the smallest measured" : "";
}

/**
 * @param {number[]} stops
 * @param {number} value
 */
function nearestOf(stops, value) {
  const far = stops.map((stop) => Math.abs(stop - value));
  return far.indexOf(Math.min(...far));
}
