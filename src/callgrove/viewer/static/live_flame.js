/**
 * A flame graph of the viewer: boxes that are too narrow to be seen are not in the page. Whoever zooms gets them from
 * the server, for the smallest call that fills the width. Searches are those of the server, in all calls.
 *
 * @import { FlamePlace, LiveFlameData, Look, Provider } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { Subject } from "./flame.js"
 * @import { Store } from "./store.js"
 * @import { Order } from "./tree.js"
 *
 * @typedef {Object} Placing  which flame graph this is, and what stands around it
 * @property {FlamePlace["shape"]} shape
 * @property {string} function  its number, empty where the shape is of all
 * @property {HTMLElement[]} controls
 * @property {boolean} [upside]  roots at the bottom, whatever the reader says
 * @property {boolean} linked  the address holds where it is zoomed to
 */

import { FlameGraph, ORDERS, subjectOf } from "./flame.js";
import { layOut, searched } from "./flame_layout.js";
import { count, percent } from "./format.js";

const WAIT_MS = 150; // after the last step of a zoom
const LONGEST_KEY = 200; // functions of a chain that the server takes
const NEARLY = 1e-12;
/** @type {Option} */
const BY_TIME = ["time", "by time"];
/** What a box of a chain of functions is as wide as. */
const WIDTHS = {
  calls: "inclusive ",
  callers: "exclusive cost of functions, by their callers: ",
  above: "inclusive cost of the function, by its callers: ",
  below: "inclusive cost of what the function calls: ",
};

/** @param {Store} view */
export function lookOf(view) {
  /** @type {Look} */
  const look = {
    input: view.get("input"),
    metric: view.get("metric"),
    derive: view.get("derive"),
    filter: view.get("filter"),
  };
  return look;
}

/**
 * What the flame graph of an answer is of.
 * @param {LiveFlameData} data
 * @param {Placing} placing
 * @returns {Subject}
 */
function liveSubject(data, { shape, controls, upside }) {
  const subject = subjectOf(data);
  const { tree } = subject;
  return {
    ...subject,
    controls,
    upside,
    orders: shape === "calls" && data.has_times ? [...ORDERS, BY_TIME] : ORDERS,
    colourings: (metric) => subject.colourings(metric).filter(([by]) => shape !== "callers" || by !== "exclusive"),
    width: (metric) => WIDTHS[shape] + tree.metrics[metric].name,
    details: (i, metric) => {
      const { title, rows } = tree.details(i, metric);
      if (shape === "calls") return { title, rows };
      const said = rows.filter(([word]) => word !== "context" && (shape === "below" || word !== "exclusive"));
      const word = { callers: "cost there", above: "cost from there", below: "inclusive" }[shape];
      return { title, rows: said.map(([name, text]) => [name === "inclusive" ? word : name, text]) };
    },
  };
}

export class LiveFlame extends FlameGraph {
  /** @type {{ text: string, n: number, share: number | null } | null} */
  hits = null;
  timer = 0;
  around = "";
  asked = new AbortController();

  /**
   * @param {HTMLElement} place
   * @param {LiveFlameData} data
   * @param {Store} view
   * @param {Provider} provider
   * @param {Placing} placing
   */
  constructor(place, data, view, provider, placing) {
    super(place, liveSubject(data, placing), view);
    this.provider = provider;
    this.placing = placing;
    this.data = data;
    view.watch("search", () => this.count());
    if (view.get("search")) this.count();
    if (placing.linked) view.watch("at", () => this.follow());
  }

  /** Data of another metric come with another panel. */
  measure() {}

  /** @param {Order} order */
  async sort(order) {
    this.order = order;
    if (this.placing.linked) this.view.mark({ order: order === "cost" ? "" : order });
    if (order === "time" && !this.data.tree.first) await this.ask(this.around);
    else super.sort(order);
  }

  // -- zooming, and where that is -------------------------------------------------------------------------------------

  /**
   * The number of a call for the server: its context, or the functions of its chain.
   * @param {number} i
   */
  keyOf(i) {
    if (i < 0 || i >= this.tree.n || this.tree.isMore(i)) return "";
    if (this.placing.shape === "calls") return String(this.tree.context(i));
    return this.tree
      .path(i)
      .map((at) => this.tree.context(at))
      .join(".");
  }

  /** @param {string} key */
  rowOf(key) {
    if (!key) return -1;
    for (let i = 0; i < this.tree.n; i++) if (this.keyOf(i) === key) return i;
    return -1;
  }

  /**
   * The number of the function of a call; empty where there is none.
   * @param {number} i
   */
  functionOf(i) {
    return i >= 0 && i < this.data.function.length ? String(this.data.function[i]) : "";
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    super.show(from, to);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.settle(), WAIT_MS);
  }

  /** A zoom has ended: the address says where, and what can be seen now is asked for. */
  async settle() {
    if (this.placing.linked && this.picture.root.isConnected) {
      const free = this.focus < 0 && this.to - this.from < 1 - NEARLY;
      this.view.mark({ call: this.keyOf(this.focus), zoom: free ? `${this.from},${this.to}` : "" });
    }
    if (this.data.n_folded) await this.refine();
  }

  /** Zoom to where the address says. */
  async follow() {
    const { call = "", zoom = "", order = "cost" } = this.view.get("at");
    if (order !== this.order) await this.sort(/** @type {Order} */ (order));
    if (call !== this.keyOf(this.focus)) {
      if (call && this.rowOf(call) < 0) await this.ask(call);
      this.zoom(this.rowOf(call));
    }
    const [from, to] = zoom.split(",").map(Number);
    if (zoom && from >= 0 && to <= 1 && to > from && (from !== this.from || to !== this.to)) {
      this.focus = -1;
      this.show(from, to);
    }
  }

  /** The smallest call that fills the width. */
  holder() {
    const { tree, layout } = this;
    let above = tree.root;
    for (;;) {
      let next = -1;
      for (let k = tree.start[above]; k < tree.start[above + 1] && next < 0; k++) {
        const i = layout.list[k];
        if (!tree.isMore(i) && layout.from[i] <= this.from + NEARLY && layout.to[i] >= this.to - NEARLY) next = i;
      }
      if (next < 0) return above === tree.root ? "" : this.keyOf(above);
      above = next;
    }
  }

  /** Ask for what can be seen now. */
  async refine() {
    const node = this.holder();
    if (node !== this.around && node.split(".").length <= LONGEST_KEY) await this.ask(node);
  }

  /**
   * Ask for the flame graph around a call.
   * @param {string} node
   */
  async ask(node) {
    this.asked.abort();
    const { signal } = (this.asked = new AbortController());
    const { shape, function: number } = this.placing;
    const order = this.order === "time" ? "time" : "cost";
    const parameters = { ...lookOf(this.view), shape, node, order, ...(number && { function: number }) };
    try {
      const data = await this.provider.get("flame", /** @type {Look & FlamePlace} */ (parameters), signal);
      if (!signal.aborted) this.replace(data, node);
    } catch (error) {
      if (!signal.aborted) this.share.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /**
   * Draw finer data; what is in sight stays where it is.
   * @param {LiveFlameData} data
   * @param {string} node
   */
  replace(data, node) {
    const keys = [this.focus, this.cursor].map((i) => this.keyOf(i));
    this.around = node;
    this.data = data;
    this.subject = liveSubject(data, this.placing);
    this.tree = this.subject.tree;
    this.layout = layOut(this.tree, this.metric, this.order);
    this.colours = this.subject.colours(this.metric, this.colouring);
    this.found = searched(this.tree, this.metric, this.view.get("search"));
    [this.focus, this.cursor] = keys.map((key) => this.rowOf(key));
    if (this.focus >= 0) [this.from, this.to] = [this.layout.from[this.focus], this.layout.to[this.focus]];
    this.refresh();
  }

  // -- searching ------------------------------------------------------------------------------------------------------

  /** Ask what the search finds in all calls, those too that are not in the page. */
  async count() {
    const text = this.view.get("search").trim();
    this.hits = null;
    if (!text) return;
    try {
      const { n, share } = await this.provider.get("search", { ...lookOf(this.view), text });
      this.hits = { text, n, share };
    } catch (error) {
      this.share.textContent = error instanceof Error ? error.message : String(error);
      return;
    }
    this.share.textContent = this.foundText();
  }

  foundText() {
    const text = this.view.get("search").trim();
    const { n_folded } = this.data ?? { n_folded: 0 };
    if (!text) return n_folded ? `${count(n_folded)} boxes are too narrow to be seen: zoom in` : "";
    if (this.hits?.text !== text) return "";
    const { n, share } = this.hits;
    const part = share === null ? "" : `${percent(share)} of ${this.tree.metrics[this.metric].name} in `;
    return `“${text}”: ${part}${count(n)} ${n === 1 ? "call" : "calls"}`;
  }
}
