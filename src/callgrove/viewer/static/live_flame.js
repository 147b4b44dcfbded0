/**
 * The flame graph of the viewer: boxes that are too narrow to be seen are not in the page. Whoever zooms gets them from
 * the server, for the smallest call that fills the width. Searches are those of the server, in all calls.
 *
 * @import { LiveFlameData, Provider } from "./documents.js"
 * @import { Store } from "./store.js"
 */

import { FlameGraph, subjectOf } from "./flame.js";
import { layOut, searched } from "./flame_layout.js";
import { count, percent } from "./format.js";

const WAIT_MS = 150; // after the last step of a zoom

/**
 * @param {HTMLElement} place
 * @param {LiveFlameData} data
 * @param {Store} view
 * @param {Provider} provider
 */
export function drawLiveFlame(place, data, view, provider) {
  new LiveFlame(place, data, view, provider).refresh();
}

class LiveFlame extends FlameGraph {
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
   */
  constructor(place, data, view, provider) {
    super(place, subjectOf(data), view);
    this.provider = provider;
    this.folded = data.n_folded;
    view.watch("search", () => this.count());
    if (view.get("search")) this.count();
  }

  look() {
    const { view } = this;
    const metric = view.get("metric");
    return { input: view.get("input"), metric, derive: view.get("derive"), filter: view.get("filter") };
  }

  /** Data of another metric come with another panel. */
  measure() {}

  /**
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    super.show(from, to);
    clearTimeout(this.timer);
    if (this.folded) this.timer = setTimeout(() => this.refine(), WAIT_MS);
  }

  /** The smallest call that fills the width: its context, empty for everything. */
  holder() {
    const { tree, layout } = this;
    const list = tree.byCost(this.metric);
    let above = tree.root;
    for (;;) {
      let next = -1;
      for (let k = tree.start[above]; k < tree.start[above + 1] && next < 0; k++) {
        const i = list[k];
        if (!tree.isMore(i) && layout.from[i] <= this.from + 1e-12 && layout.to[i] >= this.to - 1e-12) next = i;
      }
      if (next < 0) return above === tree.root ? "" : String(tree.context(above));
      above = next;
    }
  }

  /** Ask for what can be seen now. */
  async refine() {
    const node = this.holder();
    if (node === this.around) return;
    this.asked.abort();
    const { signal } = (this.asked = new AbortController());
    try {
      const data = await this.provider.get("flame", { ...this.look(), node }, signal);
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
    const contexts = [this.focus, this.cursor].map((i) => (i < 0 ? -1 : this.tree.context(i)));
    this.around = node;
    this.folded = data.n_folded;
    this.subject = subjectOf(data);
    this.tree = this.subject.tree;
    this.layout = layOut(this.tree, this.metric);
    this.colours = this.subject.colours(this.metric, this.colouring);
    this.found = searched(this.tree, this.metric, this.view.get("search"));
    [this.focus, this.cursor] = contexts.map((context) => this.rowOf(context));
    this.refresh();
  }

  /** @param {number | null} context */
  rowOf(context) {
    if (context === null || context < 0) return -1;
    for (let i = 0; i < this.tree.n; i++) if (!this.tree.isMore(i) && this.tree.context(i) === context) return i;
    return -1;
  }

  /** Ask what the search finds in all calls, those too that are not in the page. */
  async count() {
    const text = this.view.get("search").trim();
    this.hits = null;
    if (!text) return;
    try {
      const { n, share } = await this.provider.get("search", { ...this.look(), text });
      this.hits = { text, n, share };
    } catch (error) {
      this.share.textContent = error instanceof Error ? error.message : String(error);
      return;
    }
    this.share.textContent = this.foundText();
  }

  foundText() {
    const text = this.view.get("search").trim();
    if (!text) return this.folded ? `${count(this.folded)} calls are too narrow to be seen: zoom in` : "";
    if (this.hits?.text !== text) return "";
    const { n, share } = this.hits;
    const part = share === null ? "" : `${percent(share)} of ${this.tree.metrics[this.metric].name} in `;
    return `“${text}”: ${part}${count(n)} ${n === 1 ? "call" : "calls"}`;
  }
}
