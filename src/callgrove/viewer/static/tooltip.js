/**
 * Details of what is under the pointer, or under the cursor of the keyboard.
 *
 * @import { Fact } from "./documents.js"
 *
 * @typedef {Object} Details
 * @property {string} title
 * @property {Fact[]} rows  those without a text are not shown
 */

import { element } from "./dom.js";

/**
 * One tooltip, shared by all pictures of a page.
 * @returns {{ show: (details: Details, x: number, y: number) => void, hide: () => void }}
 */
function createTooltip() {
  const root = element("div", { class: "tooltip", attributes: { role: "status", "aria-live": "polite", hidden: "" } });
  return {
    show(details, x, y) {
      if (!root.isConnected) document.body.append(root);
      const rows = details.rows.filter(([, text]) => text !== "");
      root.replaceChildren(
        element("div", { class: "tooltip-title", text: details.title }),
        element(
          "dl",
          {},
          rows.flatMap(([word, text]) => [element("dt", { text: word }), element("dd", { text })]),
        ),
      );
      root.hidden = false;
      const { offsetWidth: width, offsetHeight: height } = root;
      root.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - width - 8))}px`;
      root.style.top = `${y + 18 + height > window.innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
    },
    hide() {
      root.hidden = true;
    },
  };
}

export const tooltip = createTooltip();
