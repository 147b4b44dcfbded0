/**
 * What of an input is looked at, to be typed: a pattern of call paths, and metrics computed of others. The server says
 * where a text is wrong; what was shown before stays until it is right.
 *
 * @import { SectionOutline } from "./documents.js"
 * @import { Tabs } from "./page.js"
 * @import { ServedProvider } from "./served.js"
 */

import { commandOf } from "./commands.js";
import { SIDE_BY_SIDE } from "./compare_pane.js";
import { button, element } from "./dom.js";
import { OVERVIEW } from "./provider.js";
import { save } from "./saving.js";
import { Refused } from "./served.js";

const COMMAND_MS = 20_000; // that a command stays in sight

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
  root = element("div", { class: "lookbar" });
  /** @type {Promise<void>} Resolves when every change asked for so far is shown or refused. */
  changes = Promise.resolve();

  /**
   * @param {Tabs} section
   * @param {ServedProvider} provider
   */
  constructor(section, provider) {
    this.section = section;
    this.provider = provider;
    this.root.append(
      ...(section.section.has_contexts
        ? [
            this.filter.root,
            button("Clear", "Show all call paths again", () => this.setFilter("")),
            this.formula.root,
            this.typed,
          ]
        : []),
      this.said,
      element("span", { class: "gap" }),
      button("Command", "Copy the command that prints what is seen", () => this.copyCommand()),
      button("Save report", "Save what is looked at as one page to mail", () => this.saveReport()),
    );
    this.filter.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.setFilter(this.filter.input.value.trim());
    });
    this.formula.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.define(this.formula.input.value.trim());
    });
    section.view.watch("filter", (text) => {
      this.filter.input.value = text;
      this.list(); // a command of the former look is gone
    });
    section.view.watch("derive", () => this.list());
  }

  /**
   * Make one change of the look after the other, however fast they are typed.
   * @param {() => Promise<void>} step
   */
  change(step) {
    const done = this.changes.then(step);
    this.changes = done.catch(() => {}); // what is thrown is the caller's; later changes go on
    return done;
  }

  /** @param {string} text */
  setFilter(text) {
    return this.change(() => this.filterNow(text));
  }

  /** @param {string} text */
  define(text) {
    return this.change(() => this.defineNow(text));
  }

  /** @param {string} text */
  remove(text) {
    return this.change(() => this.removeNow(text));
  }

  /** @param {string} text */
  async filterNow(text) {
    const { view } = this.section;
    if (!(await this.checked(this.filter.input, view.get("derive"), text))) return;
    this.filter.input.value = text;
    view.mark({ row: "", call: "", zoom: "", function: "" }); // rows have other numbers now
    view.set("filter", text);
    this.section.shown();
  }

  /** @param {string} text */
  async defineNow(text) {
    if (!text) {
      this.forgive(this.formula.input);
      return;
    }
    const { view } = this.section;
    const derive = [...view.get("derive"), text];
    const metrics = await this.checked(this.formula.input, derive, view.get("filter"));
    if (!metrics) return;
    this.formula.input.value = "";
    view.set("derive", derive);
    this.section.setMetrics(metrics, metrics[metrics.length - 1]);
  }

  /** @param {string} text */
  async removeNow(text) {
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
      this.forgive(input);
      return metrics;
    } catch (error) {
      this.said.textContent = messageOf(error);
      input.setAttribute("aria-invalid", "true");
      if (error instanceof Refused && error.position !== null) {
        input.focus();
        input.setSelectionRange(error.position, error.position + 1);
      }
      return null;
    }
  }

  /**
   * Say no more that a text is wrong.
   * @param {HTMLInputElement} input
   */
  forgive(input) {
    this.said.textContent = "";
    input.removeAttribute("aria-invalid");
  }

  /** What every request says. */
  look() {
    const { view, input } = this.section;
    return { input, metric: view.get("metric"), derive: view.get("derive"), filter: view.get("filter") };
  }

  async copyCommand() {
    await this.changes;
    try {
      const command = await this.command();
      const copied = await copy(command);
      this.said.textContent = "";
      const how = element("span", { class: "match", text: copied ? "copied" : "select it to copy it" });
      this.typed.replaceChildren(element("code", { text: command, attributes: { role: "status" } }), how);
      if (!this.typed.isConnected) this.said.before(this.typed);
      setTimeout(() => this.list(), COMMAND_MS);
    } catch (error) {
      this.said.textContent = messageOf(error);
    }
  }

  /** The command that prints what is seen. */
  async command() {
    const { view, section, tabs } = this.section;
    const tab = tabs.find(({ name }) => name === view.get("tab"));
    const look = tab?.hasMetric ? this.look() : { ...this.look(), metric: "" };
    const { sections } = await this.provider.outline();
    const seen = { at: view.get("at"), time: view.get("time"), named: view.get("named") };
    const name = view.get("tab") === OVERVIEW && !section.has_contexts ? "" : view.get("tab");
    return commandOf(name, section, this.compared(sections), look, seen);
  }

  /**
   * The inputs that this one is compared with.
   * @param {SectionOutline[]} sections
   */
  compared(sections) {
    const { view, input } = this.section;
    if (view.get("tab") !== "Compare") return [];
    const { with: other = "", part = "" } = view.get("at");
    const others = sections.filter((one, k) => one.has_contexts && k !== input);
    const chosen = sections[Number(other)];
    return part === SIDE_BY_SIDE ? others : [other && others.includes(chosen) ? chosen : others[0]];
  }

  /** Save the report of what is looked at, which the server writes. */
  async saveReport() {
    await this.changes;
    this.said.textContent = "Writing the report …";
    try {
      const { sections } = await this.provider.outline();
      const [other] = this.compared(sections);
      save("report.html", await this.provider.report(this.look(), other && sections.indexOf(other)));
      this.said.textContent = "";
    } catch (error) {
      this.said.textContent = messageOf(error);
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

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/**
 * Put a text into the clipboard, and tell whether it is there: browsers may refuse.
 * @param {string} text
 */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
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
