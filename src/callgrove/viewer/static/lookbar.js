/**
 * What of an input is looked at, to be typed: a pattern of call paths, and metrics computed of others. The server says
 * where a text is wrong; what was shown before stays until it is right.
 *
 * @import { Tabs } from "./page.js"
 * @import { ServedProvider } from "./served.js"
 */

import { button, element } from "./dom.js";
import { Refused } from "./served.js";

/**
 * @param {Tabs} section
 * @param {ServedProvider} provider
 */
export function lookBar(section, provider) {
  return new LookBar(section, provider).root;
}

class LookBar {
  filter = textBox("Filter", "call paths like  main -> * -> MPI_*", "A pattern of call paths; Enter filters");
  formula = textBox("Define", "a metric like  ipc = instructions / cycles", "A metric of others; Enter adds it");
  said = element("span", { class: "problem", attributes: { role: "alert" } });
  typed = element("span", { class: "typed" });
  root = element("div", { class: "lookbar" }, [
    this.filter.root,
    button("Clear", "Show all call paths again", () => this.setFilter("")),
    this.formula.root,
    this.typed,
    this.said,
  ]);

  /**
   * @param {Tabs} section
   * @param {ServedProvider} provider
   */
  constructor(section, provider) {
    this.section = section;
    this.provider = provider;
    this.filter.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.setFilter(this.filter.input.value.trim());
    });
    this.formula.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.define(this.formula.input.value.trim());
    });
    section.view.watch("filter", (text) => (this.filter.input.value = text));
    section.view.watch("derive", () => this.list());
  }

  /** @param {string} text */
  async setFilter(text) {
    const { view } = this.section;
    if (!(await this.checked(this.filter.input, view.get("derive"), text))) return;
    this.filter.input.value = text;
    view.set("filter", text);
    this.section.shown();
  }

  /** @param {string} text */
  async define(text) {
    if (!text) return;
    const { view } = this.section;
    const derive = [...view.get("derive"), text];
    const metrics = await this.checked(this.formula.input, derive, view.get("filter"));
    if (!metrics) return;
    this.formula.input.value = "";
    view.set("derive", derive);
    this.section.setMetrics(metrics, metrics[metrics.length - 1]);
  }

  /** @param {string} text */
  async remove(text) {
    const { view } = this.section;
    const derive = view.get("derive").filter((one) => one !== text);
    const metrics = await this.checked(this.formula.input, derive, view.get("filter"));
    if (!metrics) return;
    view.set("derive", derive);
    const metric = view.get("metric");
    this.section.setMetrics(metrics, metrics.includes(metric) ? metric : metrics[0]);
  }

  /**
   * The metrics of a look, or null where a text is wrong, which is said; the cursor goes to the character.
   * @param {HTMLInputElement} input
   * @param {string[]} derive
   * @param {string} filter
   */
  async checked(input, derive, filter) {
    try {
      const { metrics } = await this.provider.get("look", { input: this.section.input, metric: "", derive, filter });
      this.said.textContent = "";
      input.removeAttribute("aria-invalid");
      return metrics;
    } catch (error) {
      this.said.textContent = error instanceof Error ? error.message : String(error);
      input.setAttribute("aria-invalid", "true");
      if (error instanceof Refused && error.position !== null) {
        input.focus();
        input.setSelectionRange(error.position, error.position + 1);
      }
      return null;
    }
  }

  list() {
    this.typed.replaceChildren(
      ...this.section.view
        .get("derive")
        .map((text) => button(`${text} ✕`, "Forget this metric", () => this.remove(text))),
    );
  }
}

/**
 * @param {string} label
 * @param {string} placeholder
 * @param {string} title
 */
function textBox(label, placeholder, title) {
  const input = element("input", { attributes: { type: "text", placeholder, title, spellcheck: "false" } });
  return { input, root: element("label", { class: "choice" }, [element("span", { text: label }), input]) };
}
