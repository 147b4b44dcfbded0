/**
 * What keys and the mouse do with the timeline of the viewer, and what is told of the place that they point at.
 *
 * @import { TimePicture } from "./documents.js"
 * @import { LiveTimeline } from "./live_timeline.js"
 *
 * @typedef {{ x: number, time: number, from: number, moved: boolean, pans: boolean }} Drag  where it began
 */

import { takeKey } from "./dom.js";
import { durationNs } from "./format.js";
import { tellCurve } from "./live_timeline_curves.js";
import { AXIS, boxOf, groupOf, GUTTER, timeAt, xOf } from "./live_timeline_drawing.js";
import { sharesOf } from "./live_timeline_sums.js";
import { tooltip } from "./tooltip.js";

const HOVER_MS = 50; // before shares are asked for
const CLOSEST_NS = 20; // around a span of no length
const STEPS = 40; // of the cursor across the width

export class TimelineInput {
  /** @type {Drag | null} */
  drag = null;
  hovering = 0;
  asked = new AbortController();

  /** @param {LiveTimeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    const { canvas } = timeline.picture;
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    canvas.addEventListener("pointerdown", (event) => this.grabbed(event));
    canvas.addEventListener("pointermove", (event) => this.pointed(event));
    canvas.addEventListener("pointerup", (event) => this.released(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("blur", () => this.leave());
    canvas.addEventListener("dblclick", (event) => this.zoomToBox(event.offsetX, event.offsetY));
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
  }

  // -- the keyboard ---------------------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.timeline.isReady) return;
    const around = this.timeline.cursor?.time ?? (this.timeline.from + this.timeline.to) / 2;
    const length = this.timeline.to - this.timeline.from;
    const step = length / STEPS;
    takeKey(event, {
      w: () => this.timeline.zoomAround(around, 0.5),
      "+": () => this.timeline.zoomAround(around, 0.5),
      "=": () => this.timeline.zoomAround(around, 0.5),
      s: () => this.timeline.zoomAround(around, 2),
      "-": () => this.timeline.zoomAround(around, 2),
      Backspace: () => this.timeline.zoomAround(around, 2),
      a: () => this.timeline.pan(-0.25),
      d: () => this.timeline.pan(0.25),
      W: () => this.timeline.zoomRows(0.5),
      S: () => this.timeline.zoomRows(2),
      ArrowLeft: () => this.move(-step, 0, event.shiftKey),
      ArrowRight: () => this.move(step, 0, event.shiftKey),
      ArrowUp: () => this.move(0, -1, false),
      ArrowDown: () => this.move(0, 1, false),
      PageUp: () => this.scrollRows(-1),
      PageDown: () => this.scrollRows(1),
      Home: () => this.timeline.show(0, length),
      End: () => this.timeline.show(this.timeline.length - length, this.timeline.length),
      Enter: () => this.timeline.range && this.timeline.show(...this.timeline.range),
      Escape: () => this.escape(),
    })?.();
  }

  /** Let go of the range, of the cursor, or of the zoom. */
  escape() {
    if (this.timeline.range) this.timeline.select(null);
    else if (this.timeline.cursor) this.timeline.point(null);
    else this.timeline.reset();
    this.leave();
  }

  /** @param {number} by  of what is in sight */
  scrollRows(by) {
    if (!this.timeline.rows) return;
    const size = this.timeline.rows[1] - this.timeline.rows[0];
    this.timeline.showRows(this.timeline.rows[0] + by * size, this.timeline.rows[1] + by * size);
  }

  /**
   * Move the cursor; what it passes is selected.
   * @param {number} by  ns
   * @param {number} down  rows
   * @param {boolean} selects
   */
  move(by, down, selects) {
    const { bounds } = /** @type {TimePicture} */ (this.timeline.shown);
    const before = this.timeline.cursor ?? { row: bounds[0], time: (this.timeline.from + this.timeline.to) / 2 };
    const group = Math.max(groupOf(bounds, before.row), 0);
    const next = Math.min(Math.max(group + down, 0), bounds.length - 2);
    const row = down ? bounds[next] : before.row;
    const time = Math.min(Math.max(before.time + by, 0), this.timeline.length - 1);
    if (selects) {
      const anchor =
        this.timeline.range && this.timeline.range[0] < before.time - 1
          ? this.timeline.range[0]
          : (this.timeline.range?.[1] ?? before.time);
      const fixed =
        this.timeline.range && Math.abs(this.timeline.range[1] - before.time) < 1 ? this.timeline.range[0] : anchor;
      this.timeline.select([Math.min(fixed, time), Math.max(fixed, time)]);
    }
    if (time < this.timeline.from || time > this.timeline.to) this.timeline.pan(by < 0 ? -0.5 : 0.5);
    this.timeline.point({ row, time });
    const { width } = this.timeline.picture.size();
    const box = this.timeline.picture.canvas.getBoundingClientRect();
    const scene = this.timeline.scene();
    const x = xOf(scene, time, width);
    this.tell(x, AXIS + scene.layout.tops[next] + 2, box.left + x, box.top + AXIS + scene.layout.tops[next] + 8);
  }

  // -- the mouse ------------------------------------------------------------------------------------------------------

  /**
   * The row that is drawn at a height; -1 for none.
   * @param {number} y
   */
  groupAt(y) {
    const { tops, heights } = this.timeline.scene().layout;
    return tops.findIndex((top, i) => AXIS + top <= y && y < AXIS + top + heights[i]);
  }

  /**
   * The span that is drawn at a place; -1 for none.
   * @param {number} x
   * @param {number} y
   */
  spanAt(x, y) {
    const scene = this.timeline.scene();
    const { width } = this.timeline.picture.size();
    if (!scene.layout.level || !scene.picture.spans) return -1;
    for (let i = scene.picture.spans.row.length - 1; i >= 0; i--) {
      const box = boxOf(scene, i, width);
      if (box.y <= y && y < box.y + box.tall && box.left - 1 <= x && x <= Math.max(box.right, box.left + 1)) return i;
    }
    return -1;
  }

  /** @param {PointerEvent} event */
  grabbed(event) {
    if (!this.timeline.isReady || event.button > 1) return;
    const time = timeAt(this.timeline.scene(), event.offsetX, this.timeline.picture.size().width);
    const pans = event.button === 1 || event.shiftKey || event.offsetY < AXIS;
    this.drag = { x: event.offsetX, time, from: this.timeline.from, moved: false, pans };
    this.timeline.picture.canvas.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  pointed(event) {
    if (!this.timeline.isReady) return;
    const { width } = this.timeline.picture.size();
    if (!this.drag || !event.buttons) {
      this.tell(event.offsetX, event.offsetY, event.clientX, event.clientY);
      return;
    }
    this.drag.moved ||= Math.abs(event.offsetX - this.drag.x) > 3;
    if (!this.drag.moved) return;
    this.leave();
    if (this.drag.pans) {
      const length = this.timeline.to - this.timeline.from;
      const start = this.drag.from - ((event.offsetX - this.drag.x) / (width - GUTTER)) * length;
      this.timeline.show(start, start + length);
      return;
    }
    const time = timeAt(this.timeline.scene(), Math.max(event.offsetX, GUTTER), width);
    this.timeline.range = [Math.min(this.drag.time, time), Math.max(this.drag.time, time)];
    this.timeline.picture.redraw();
  }

  /** @param {PointerEvent} event */
  released(event) {
    const { drag } = this;
    this.drag = null;
    const { shown } = this.timeline;
    if (!drag || !shown || !this.timeline.isReady) return;
    if (drag.moved) {
      if (!drag.pans && this.timeline.range) this.timeline.select(this.timeline.range);
      return;
    }
    const group = this.groupAt(event.offsetY);
    if (event.offsetX < GUTTER || group < 0) return;
    this.timeline.point({ row: shown.bounds[group], time: drag.time });
  }

  /** @param {WheelEvent} event */
  wheeled(event) {
    if (!this.timeline.isReady) return;
    event.preventDefault();
    const delta = event.deltaY || event.deltaX;
    if (event.ctrlKey) this.timeline.zoomRows(delta > 0 ? 1.5 : 1 / 1.5);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.timeline.pan(delta > 0 ? 0.1 : -0.1);
    else {
      const time = timeAt(this.timeline.scene(), Math.max(event.offsetX, GUTTER), this.timeline.picture.size().width);
      this.timeline.zoomAround(time, delta > 0 ? 1.25 : 0.8);
    }
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  zoomToBox(x, y) {
    const i = this.spanAt(x, y);
    const spans = this.timeline.shown?.spans;
    if (i >= 0 && spans) {
      const margin = Math.max((spans.end[i] - spans.start[i]) * 0.15, CLOSEST_NS / 2);
      this.timeline.show(spans.start[i] - margin, spans.end[i] + margin);
    } else
      this.timeline.zoomAround(
        timeAt(this.timeline.scene(), Math.max(x, GUTTER), this.timeline.picture.size().width),
        0.25,
      );
  }

  leave() {
    clearTimeout(this.hovering);
    this.asked.abort();
    tooltip.hide();
  }

  /**
   * Tell what is drawn at a place: a span, or the shares of a cell, which are asked for.
   * @param {number} x
   * @param {number} y
   * @param {number} clientX
   * @param {number} clientY
   */
  tell(x, y, clientX, clientY) {
    const { shown } = this.timeline;
    const group = this.groupAt(y);
    this.leave();
    if (!shown || x < GUTTER) return;
    if (group < 0) {
      this.tellCounter(x, y, clientX, clientY);
      return;
    }
    const where = `${shown.group[group]} ${shown.name[group]}`.trim();
    const { spans } = shown;
    const i = this.spanAt(x, y);
    if (spans && i >= 0) {
      tooltip.show(
        {
          title: this.timeline.names.text[spans.name[i]],
          rows: [
            ["kind", this.timeline.names.kind[spans.name[i]]],
            ["where", where],
            ["start", durationNs(spans.start[i])],
            ["duration", durationNs(spans.end[i] - spans.start[i])],
            ["depth", String(spans.depth[i] + 1)],
          ],
        },
        clientX,
        clientY,
      );
      return;
    }
    if (this.timeline.scene().layout.level) return; // nothing goes on there
    this.hovering = setTimeout(() => this.tellShares(group, x, where, clientX, clientY), HOVER_MS);
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} clientX
   * @param {number} clientY
   */
  tellCounter(x, y, clientX, clientY) {
    const { curves, picture } = this.timeline;
    const { width, height } = picture.size();
    const scene = this.timeline.scene();
    const details = curves && tellCurve(curves, scene, x, y - (height - scene.below), width);
    if (details) tooltip.show(details, clientX, clientY);
  }

  /**
   * @param {number} group
   * @param {number} x
   * @param {string} where
   * @param {number} clientX
   * @param {number} clientY
   */
  async tellShares(group, x, where, clientX, clientY) {
    const { shown } = this.timeline;
    if (!shown) return;
    const time = timeAt(this.timeline.scene(), x, this.timeline.picture.size().width);
    const wide = shown.cell_ns * shown.coarse[group];
    const from = Math.floor((time - shown.start_ns) / wide) * wide + shown.start_ns;
    if (time < 0 || time >= shown.length_ns) return;
    const place = { ...this.timeline.look(), depth: this.timeline.depth, lines: shown.n_lines };
    const rows = { top: shown.bounds[group], bottom: shown.bounds[group + 1] };
    const asked = (this.asked = new AbortController());
    try {
      const window = { from: Math.max(from, 0), to: Math.min(from + wide, shown.length_ns) };
      const legend = await this.timeline.provider.get(
        "timelegend",
        { ...place, ...rows, ...window, exact: 1, most: 6 },
        asked.signal,
      );
      if (asked.signal.aborted) return;
      tooltip.show(sharesOf(legend, where, window), clientX, clientY);
    } catch (error) {
      if (!asked.signal.aborted)
        this.timeline.status.textContent = error instanceof Error ? error.message : String(error);
    }
  }
}
