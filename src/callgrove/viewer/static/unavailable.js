/** A view that this input cannot give, and why. */

import { element } from "./dom.js";

/**
 * @param {HTMLElement} place
 * @param {{reason: string}} data
 */
export function drawUnavailable(place, data) {
  place.append(
    element("section", { class: "card" }, [
      element("div", { class: "card-head" }, [element("h2", { text: "There is nothing to show here" })]),
      element("p", { class: "reason", text: data.reason }),
    ]),
  );
}
