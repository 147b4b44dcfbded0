/**
 * What was open where the cursor of a timeline stands: the call stack, all that the trace tells of a span, what
 * launched it and what it launched. It leads to the same call in the call tree.
 *
 * @import { TimeStack } from "./documents.js"
 * @import { LiveTimeline } from "./live_timeline.js"
 * @import { Arrow, Moment } from "./live_timeline_drawing.js"
 */

import { button, element } from "./dom.js";
import { durationNs, shortName } from "./format.js";

const WAIT_MS = 80; // while the cursor moves

export class MomentPane {
  title = element("h2", { text: "" });
  stack = element("ol", { class: "stack" });
  facts = element("dl", { class: "span-facts" });
  said = element("span", { class: "match", attributes: { role: "status" } });
  couple = button("Show in call tree", "Go to this call in the coupled panes", () => this.showInTree());
  asked = new AbortController();
  timer = 0;
  /** @type {Arrow[]} */
  arrows = [];
  /** @type {string[]} */
  path = [];

  /** @param {LiveTimeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.root = element("section", { class: "card moment", attributes: { "aria-label": "Call stack", hidden: "" } }, [
      element("div", { class: "toolbar" }, [
        this.title,
        this.said,
        element("span", { class: "gap" }),
        this.couple,
        button("Close", "Let go of the cursor (Escape)", () => timeline.point(null)),
      ]),
      element("div", { class: "moment-parts" }, [this.stack, this.facts]),
    ]);
  }

  /** @param {Moment | null} moment */
  show(moment) {
    clearTimeout(this.timer);
    this.asked.abort();
    this.root.hidden = !moment;
    this.arrows = [];
    if (moment) this.timer = setTimeout(() => this.ask(moment), WAIT_MS);
    else this.timeline.arrows = [];
  }

  /** @param {Moment} moment */
  async ask({ row, time }) {
    const { signal } = (this.asked = new AbortController());
    const { timeline } = this;
    try {
      const stack = await timeline.provider.get(
        "timestack",
        { ...timeline.place(), row, time: Math.round(time) },
        signal,
      );
      if (signal.aborted) return;
      this.draw(stack, time);
      const last = stack.span.length - 1;
      if (last >= 0 && stack.span[last] >= 0) await this.describe(stack, last, row, signal);
    } catch (error) {
      if (!signal.aborted) this.said.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /**
   * @param {TimeStack} stack
   * @param {number} time
   */
  draw(stack, time) {
    this.title.textContent = `${stack.where} at ${durationNs(time)}`;
    this.path = stack.path;
    this.couple.hidden = !stack.path.length || !this.timeline.data.has_tree;
    this.said.textContent = stack.text.length ? "" : "nothing was going on";
    this.stack.replaceChildren(
      ...stack.text.map((text, i) => {
        const length = stack.end[i] - stack.start[i];
        const title = `${text}\n${durationNs(length)} from ${durationNs(stack.start[i])}`;
        const zoom = button(shortName(text, stack.kind[i]), title, () =>
          this.timeline.show(stack.start[i], stack.end[i]),
        );
        return element("li", {}, [zoom, element("span", { text: stack.span[i] >= 0 ? durationNs(length) : "" })]);
      }),
    );
    this.facts.replaceChildren();
  }

  /**
   * Ask for all that is known of a span.
   * @param {TimeStack} stack
   * @param {number} i
   * @param {number} row
   * @param {AbortSignal} signal
   */
  async describe(stack, i, row, signal) {
    const { timeline } = this;
    const which = { span: stack.span[i], profile: stack.profile, time: stack.start[i] };
    const { facts, links } = await timeline.provider.get("timespan", { ...timeline.place(), ...which }, signal);
    if (signal.aborted) return;
    const linked = links.map((link) => {
      const go = button(link.text, "Go to the other end of this launch", () => {
        const half = (timeline.to - timeline.from) / 2;
        if (link.start < timeline.from || link.start > timeline.to) timeline.show(link.start - half, link.start + half);
        timeline.point({ row: link.row, time: link.start });
      });
      return [
        element("dt", { text: link.start < stack.start[i] ? "launched by" : "launches" }),
        element("dd", {}, [go]),
      ];
    });
    this.facts.replaceChildren(
      ...facts.flatMap(([word, text]) => [element("dt", { text: word }), element("dd", { text })]),
      ...linked.flat(),
    );
    const here = { row, time: stack.start[i] };
    this.arrows = links.map((link) => {
      const there = { row: link.row, time: link.start };
      return link.start < stack.start[i] ? { from: there, to: here } : { from: here, to: there };
    });
    timeline.askArrows();
  }

  /** Go to the rows of the call tree that this call is in. */
  showInTree() {
    this.timeline.view.set("reveal", { path: this.path });
    this.timeline.view.set("tab", "Explore");
  }
}
