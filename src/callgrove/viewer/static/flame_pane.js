/**
 * The flame graphs of the viewer: call paths from the roots down, functions with their callers, and one function
 * between its callers and what it calls.
 *
 * @import { LiveFlameData, Provider } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Placing } from "./live_flame.js"
 * @import { Store } from "./store.js"
 *
 * @typedef {"calls" | "callers" | "sandwich"} Shape
 */

import { choice, element, switches, takeKey } from "./dom.js";
import { shortName } from "./format.js";
import { LiveFlame, lookOf } from "./live_flame.js";

const MOST_FUNCTIONS = 200; // to choose from
/** @type {Option[]} */
const SHAPES = [
  ["calls", "Top-down"],
  ["callers", "Bottom-up"],
  ["sandwich", "Sandwich"],
];

/**
 * @param {HTMLElement} place
 * @param {LiveFlameData} data
 * @param {Store} view
 * @param {Provider} provider
 */
export function drawLiveFlame(place, data, view, provider) {
  new FlamePane(place, data, view, provider).show();
}

class FlamePane {
  body = element("div", { class: "flame-pane" });
  said = element("p", { class: "reason", attributes: { role: "alert" } });
  /** @type {LiveFlame[]} */
  graphs = [];
  /** @type {Option[]} */
  functions = [];
  function = "";
  /** @type {Shape | ""} */
  shape = "";
  asked = new AbortController();

  /**
   * @param {HTMLElement} place
   * @param {LiveFlameData} data
   * @param {Store} view
   * @param {Provider} provider
   */
  constructor(place, data, view, provider) {
    this.data = data;
    this.view = view;
    this.provider = provider;
    place.append(this.body);
    view.watch("at", () => this.show());
  }

  /** Draw the flame graph that the address names. */
  async show() {
    const at = this.view.get("at");
    const shape = SHAPES.some(([key]) => key === at.shape) ? /** @type {Shape} */ (at.shape) : "calls";
    if (shape === this.shape && (shape !== "sandwich" || (at.function ?? this.function) === this.function)) return;
    this.shape = shape;
    this.asked.abort();
    const { signal } = (this.asked = new AbortController());
    try {
      if (shape === "sandwich") await this.showSandwich(at.function ?? "", signal);
      else await this.showAll(shape, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.said.textContent = error instanceof Error ? error.message : String(error);
      this.body.replaceChildren(element("div", { class: "toolbar" }, [this.shapeSwitch()]), this.said);
    }
  }

  shapeSwitch() {
    return switches("Flame graph", SHAPES, this.shape || "calls", (value) => {
      const chosen = this.graphs.map((graph) => graph.functionOf(graph.focus < 0 ? graph.cursor : graph.focus));
      const wanted = value === "sandwich" ? (chosen.find(Boolean) ?? this.function) : "";
      this.view.mark({
        shape: value === "calls" ? "" : value,
        call: "",
        zoom: "",
        order: "",
        function: wanted,
      });
    }).root;
  }

  /**
   * @param {"calls" | "callers"} shape
   * @param {AbortSignal} signal
   */
  async showAll(shape, signal) {
    const data = shape === "calls" ? this.data : await this.ask(shape, "", signal);
    if (signal.aborted) return;
    this.put([[element("div", { class: "flame-part" }), data, this.placing(shape, true)]]);
    await this.graphs[0].follow();
  }

  /**
   * Show one function between its callers and what it calls.
   * @param {string} wanted
   * @param {AbortSignal} signal
   */
  async showSandwich(wanted, signal) {
    if (!this.functions.length) this.functions = await this.listFunctions("inclusive", MOST_FUNCTIONS, signal);
    this.function = wanted || ((await this.listFunctions("exclusive", 1, signal))[0]?.[0] ?? "");
    const [above, below] = await Promise.all([
      this.ask("above", this.function, signal),
      this.ask("below", this.function, signal),
    ]);
    if (signal.aborted) return;
    const name = above.labels.name[above.tree.label[0]] ?? "";
    if (!this.functions.some(([key]) => key === this.function)) this.functions.push([this.function, name]);
    this.view.set("named", name);
    const chooser = choice("Function", this.functions, this.function, (value) => this.view.mark({ function: value }));
    const short = shortName(name, above.labels.kind[above.tree.label[0]] ?? "");
    this.put([
      [partOf(`Callers of ${short}`), above, { ...this.placing("above", true), upside: true }, [chooser.root]],
      [partOf(`What ${short} calls`), below, { ...this.placing("below", false), upside: false }],
    ]);
  }

  /**
   * @param {Placing["shape"]} shape
   * @param {boolean} first
   * @returns {Placing}
   */
  placing(shape, first) {
    const isOne = shape === "above" || shape === "below";
    const controls = first ? [this.shapeSwitch()] : [];
    return { shape, function: isOne ? this.function : "", controls, linked: !isOne };
  }

  /** @param {[place: HTMLElement, data: LiveFlameData, placing: Placing, more?: HTMLElement[]][]} parts */
  put(parts) {
    this.body.replaceChildren(...parts.map(([place]) => place));
    this.graphs = parts.map(([place, data, placing, more = []]) => {
      const full = { ...placing, controls: [...placing.controls, ...more] };
      const graph = new LiveFlame(place, data, this.view, this.provider, full);
      graph.picture.canvas.addEventListener("keydown", (event) => this.pressed(event, graph));
      graph.refresh();
      if (placing.upside) graph.turn(true);
      return graph;
    });
  }

  /**
   * The sandwich of the call that the keyboard is at.
   * @param {KeyboardEvent} event
   * @param {LiveFlame} graph
   */
  pressed(event, graph) {
    if (event.ctrlKey || event.metaKey || event.altKey || !takeKey(event, { s: true })) return;
    const number = graph.functionOf(graph.cursor < 0 ? graph.focus : graph.cursor);
    if (number) this.view.mark({ shape: "sandwich", function: number, call: "", zoom: "", order: "" });
  }

  /**
   * @param {Placing["shape"]} shape
   * @param {string} number  of the function
   * @param {AbortSignal} signal
   */
  ask(shape, number, signal) {
    const place = { shape, node: "", order: /** @type {const} */ ("cost"), ...(number && { function: number }) };
    return this.provider.get("flame", { ...lookOf(this.view), ...place }, signal);
  }

  /**
   * The functions with the largest cost.
   * @param {"inclusive" | "exclusive"} sort
   * @param {number} most
   * @param {AbortSignal} signal
   * @returns {Promise<Option[]>}
   */
  async listFunctions(sort, most, signal) {
    const parameters = {
      ...{ ...lookOf(this.view), view: /** @type {const} */ ("flat"), by: "function", node: "", down: 1, first: 0 },
      ...{ count: most, columns: [], sort },
    };
    const { key, name } = await this.provider.get("rows", parameters, signal);
    return key.map((number, i) => [number, name[i]]);
  }
}

/** @param {string} title */
function partOf(title) {
  return element("section", { class: "flame-part", attributes: { "aria-label": title } }, [
    element("h2", { text: title }),
  ]);
}
