/**
 * What profiles did over time: a row for each, its calls one below the other, or on one line as a stack of a chosen
 * depth. Zoomed and moved with the mouse or the keyboard. Where more is asked for than the page holds, it says so.
 *
 * @import { TimelineData } from "./documents.js"
 * @import { Option } from "./dom.js"
 * @import { State, Store } from "./store.js"
 * @import { Colouring } from "./timeline_colours.js"
 * @import { Place, Scene, Tops } from "./timeline_drawing.js"
 * @import { Cell, Layer, Track } from "./timeline_layers.js"
 * @import { Details } from "./tooltip.js"
 *
 * @typedef {{ x: number, y: number, from: number, scroll: number, moved: boolean }} Drag  where it began
 */

import { Picture } from "./canvas.js";
import { button, choice, element, switches, takeKey } from "./dom.js";
import { count, durationNs, percent, shortName } from "./format.js";
import { matcher } from "./store.js";
import { captionOf, coloursOf, drawLegend, legendOf } from "./timeline_colours.js";
import { AXIS, cellAt, drawScene, GUTTER, LEVEL, placeOf, timeAt, xOf } from "./timeline_drawing.js";
import { boxAt, busyOf, createLayer, INNERMOST, lineOf, shareOf, within } from "./timeline_layers.js";
import { tooltip } from "./tooltip.js";

const THINNEST = 3; // height of a row on one line, beyond which rows scroll
const THICKEST = 26;
const HIGH = 900; // pixels: what would be higher begins on one line per row
const SHORTEST_NS = 20; // the closest look
const WIDE_STEP = 8; // pixels of a step from which on a reader wants more than there is

/**
 * @param {HTMLElement} place
 * @param {TimelineData} data
 * @param {Store} view
 */
export function drawTimeline(place, data, view) {
  new Timeline(place, data, view).refresh();
}

/** What is in sight is the time from `from` to `to`, in ns since the beginning. */
export class Timeline {
  status = element("span", { class: "match timeline-status", attributes: { role: "status" } });
  legend = element("div", { class: "legend" });
  picture = new Picture({
    name: "timeline",
    label:
      "Timeline. Left and right go from box to box, up and down from row to row, Enter zooms in, Escape out; " +
      "plus and minus zoom, A and D move.",
    draw: (surface, width, height) => drawScene(surface, width, height, this.scene()),
    height: () => this.room(),
    used: () => this.height - this.scroller.scrollTop,
    caption: () => captionOf(this.colours),
  });
  /** @type {HTMLElement} */
  spacer = element("div", { class: "flame-spacer" }, [this.picture.root]);
  /** @type {HTMLElement} */
  scroller = element("div", { class: "flame-scroller" }, [this.spacer]);
  from = 0;
  deepest = INNERMOST;
  /** @type {number[]} */
  rows = [];
  /** @type {Tops} */
  tops = [];
  height = 0; // of all rows
  /** @type {Colouring} */
  colouring = "name";
  /** @type {Place | null} */
  cursor = null;
  following = false; // the cursor of the keyboard scrolls, not the reader
  /** @type {Drag | null} */
  drag = null;
  /** @type {Timeline[]} */
  linked = []; // that show the same time

  /**
   * @param {HTMLElement} place
   * @param {TimelineData} data
   * @param {Store} view
   */
  constructor(place, data, view) {
    this.data = data;
    this.view = view;
    this.names = data.names.text;
    this.shortNames = data.names.text.map((name, i) => shortName(name, data.names.kind[i]));
    this.layers = data.layers.map((layer) => createLayer(layer, data.rows.name.length, data.names.kind));
    const calls = this.layers.find((layer) => layer.shows !== "line") ?? this.layers[0];
    this.levels = calls.levels;
    this.to = data.length_ns;
    this.stacked = calls.ofRow.reduce((n, tracks) => n + tracks.length, 0) * LEVEL > HIGH;
    this.found = matcher(view.get("search"));
    this.colours = coloursOf(data, this.deepest, this.colouring);
    this.build(place);
    this.listen();
    this.lookAt(view.get("window"));
  }

  /** @param {HTMLElement} place */
  build(place) {
    const colouring = choice(
      "Colour by",
      [
        ["name", "name"],
        ["kind", "kind"],
      ],
      this.colouring,
      (value) => this.change({ colouring: value === "kind" ? "kind" : "name" }),
    );
    place.append(
      element("div", { class: "toolbar" }, [
        ...this.levelControls(),
        colouring.root,
        button("Reset zoom", "Show everything again (Escape)", () => this.show(0, this.data.length_ns)),
        this.status,
        element("span", { class: "gap" }),
        this.picture.buttons,
      ]),
      this.scroller,
      this.legend,
    );
  }

  /** Where there is more than one level, how they are shown. */
  levelControls() {
    if (this.levels.length < 2) return [];
    const ways = switches(
      "Calls",
      [
        ["levels", "Calls below each other"],
        ["line", "One line per row"],
      ],
      this.stacked ? "line" : "levels",
      (value) => this.change({ stacked: value === "line" }),
    );
    /** @type {Option[]} */
    const fewer = this.levels.slice(0, -1).map((level) => [String(level), String(level + 1)]);
    const depths = choice("Depth", [[String(INNERMOST), "innermost"], ...fewer.reverse()], String(INNERMOST), (value) =>
      this.change({ deepest: Number(value) }),
    );
    return [ways.root, depths.root];
  }

  listen() {
    const { canvas } = this.picture;
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    canvas.addEventListener("pointerdown", (event) => this.grabbed(event));
    canvas.addEventListener("pointermove", (event) => this.pointed(event));
    canvas.addEventListener("pointerup", (event) => this.released(event));
    canvas.addEventListener("dblclick", (event) => this.zoomTo(this.hit(event.offsetX, event.offsetY)));
    canvas.addEventListener("mouseleave", () => tooltip.hide());
    canvas.addEventListener("blur", () => tooltip.hide());
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.refresh()).observe(this.scroller);
    this.view.watch("search", (text) => {
      this.found = matcher(text);
      this.refresh();
    });
    this.view.watch("window", (wanted) => this.lookAt(wanted));
  }

  /**
   * Show the same time in another way.
   * @param {{ colouring?: Colouring, stacked?: boolean, deepest?: number }} how
   */
  change(how) {
    Object.assign(this, how);
    this.cursor = null;
    tooltip.hide();
    this.colours = coloursOf(this.data, this.deepest, this.colouring);
    this.refresh();
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  refresh() {
    this.layOut();
    this.spacer.style.height = `${Math.max(this.room(), this.height)}px`;
    drawLegend(this.legend, this.colours, (name) =>
      this.view.set("search", this.view.get("search") === name ? "" : name),
    );
    this.status.textContent = this.statusText();
    this.picture.redraw();
  }

  /** Pixels of the picture. */
  room() {
    return this.scroller.clientHeight - (parseFloat(getComputedStyle(this.scroller).paddingTop) || 0);
  }

  /** Where rows begin, and how high they are. */
  layOut() {
    const room = Math.max(this.room() - AXIS - 4, 80);
    const whole = this.fittingLayers()[0]; // may have fewer rows than others: what is not in it is not idle
    this.rows = whole.ofRow.flatMap((tracks, row) => (tracks.length || whole.lines[row].length ? [row] : []));
    const line = Math.min(Math.max(Math.floor(room / Math.max(this.rows.length, 1)), THINNEST), THICKEST);
    this.tops = [];
    let y = 0;
    for (const row of this.rows) {
      const height = this.stacked ? line : this.levelsOf(row) * LEVEL + 5;
      this.tops[row] = { y, height };
      y += height;
    }
    this.height = AXIS + y + 6;
  }

  /** @param {number} row */
  levelsOf(row) {
    return (
      1 + Math.max(0, ...this.layers.flatMap((layer) => this.inSight(layer.ofRow[row]).map((track) => track.level)))
    );
  }

  /**
   * Levels that are not too deep. Operations that ran at once are on several levels, but no deeper for that.
   * @param {Track[]} tracks
   */
  inSight(tracks) {
    return tracks.filter((track) => track.level <= this.deepest || track.alone);
  }

  /** Layers that hold what is to be shown, the one of the whole time first. */
  fittingLayers() {
    if (this.stacked && this.deepest === INNERMOST) return this.layers.filter((one) => one.shows !== "levels");
    /** @param {Layer} one */
    const isThere = (one) => this.deepest === INNERMOST || one.levels.includes(this.deepest);
    return this.layers.filter((one) => one.shows === "all" || (one.shows === "levels" && isThere(one)));
  }

  /** The finest layer that holds all that is in sight. */
  layer() {
    const fitting = this.fittingLayers();
    return fitting.reduce(
      (best, one) => (one.from <= this.from && this.to <= one.to && one.tick < best.tick ? one : best),
      fitting[0],
    );
  }

  /**
   * What is drawn of a row: its levels, or its line.
   * @param {Layer} layer
   * @param {number} row
   */
  tracksOf(layer, row) {
    if (!this.stacked) return this.inSight(layer.ofRow[row]);
    const line = lineOf(layer, row, this.deepest, this.data.names.kind);
    return line ? [line] : [];
  }

  /** @returns {Scene} */
  scene() {
    const { rows, tops, from, to, stacked, cursor, names, shortNames, colours, found } = this;
    const layer = this.layer();
    return {
      layer,
      tracksOf: (row) => this.tracksOf(layer, row),
      rows,
      tops,
      scroll: this.scroller.scrollTop,
      from,
      to,
      length: this.data.length_ns,
      stacked,
      cursor,
      names,
      shortNames,
      labels: this.data.rows,
      colours,
      found,
    };
  }

  statusText() {
    const layer = this.layer();
    const length = this.to - this.from;
    const parts = [`${durationNs(length)} from ${durationNs(this.from)}`];
    if (!layer.exact) {
      const step = ((this.picture.size().width - GUTTER) * layer.tick) / length;
      const beyond = length < this.data.length_ns && step > WIDE_STEP;
      parts.push(
        beyond
          ? `no more detail is in this page: each step of ${durationNs(layer.tick)} shows what took most of it`
          : `in steps of ${durationNs(layer.tick)}`,
      );
    }
    if (this.found) parts.push(this.foundText(layer));
    if (this.height > this.room())
      parts.push(`${count(this.rows.length)} ${this.rows.length === 1 ? "row" : "rows, scroll for more"}`);
    return parts.join(" · ");
  }

  /**
   * What the search found: of events those in sight, else the share of all time, which no step could tell.
   * @param {Layer} layer
   */
  foundText(layer) {
    const what = `“${this.view.get("search").trim()}”`;
    if (!layer.exact) {
      const { text, share, rest } = legendOf(this.data, INNERMOST, "name");
      const sum = text.reduce((all, name, i) => all + (this.found?.(name) ? share[i] : 0), 0);
      return `${what}: ${rest ? "at least " : ""}${percent(sum)} of all time, without what it calls`;
    }
    let [n, time] = [0, 0];
    for (const track of this.inSight(layer.ofRow.flat())) {
      const { boxes } = track;
      const [first, last] = within(track, this.from, this.to);
      for (let i = first; i < last; i++) {
        if (!this.found?.(this.names[boxes.name[i]])) continue;
        n++;
        time += Math.max(0, Math.min(boxes.end[i], this.to) - Math.max(boxes.start[i], this.from));
      }
    }
    return `${what}: ${count(n)} ${n === 1 ? "box" : "boxes"}, ${durationNs(time)}`;
  }

  /**
   * @param {Place} one
   * @returns {Details}
   */
  details({ track, i, layer, cell }) {
    const { rows, names } = this.data;
    const { boxes } = track;
    const { start, end, share, busy } = cell ?? {
      start: boxes.start[i],
      end: boxes.end[i],
      share: shareOf(boxes, i),
      busy: busyOf(boxes, i),
    };
    const whole = layer.exact && !cell;
    return {
      title: this.names[boxes.name[i]],
      rows: [
        ["kind", names.kind[boxes.name[i]]],
        ["where", `${rows.group[track.row]} ${rows.name[track.row]}`.trim()],
        ["start", durationNs(start)],
        whole ? ["duration", durationNs(end - start)] : ["until", durationNs(end)],
        ["share", whole ? "" : `${percent(share)} of this time, the largest part`],
        ["others", whole || busy - share < 0.005 ? "" : percent(busy - share)],
        ["idle", whole || busy > 0.995 ? "" : percent(1 - busy)],
        ["steps", layer.exact ? "" : durationNs(layer.tick)],
        [
          "depth",
          this.levels.length > 1 && (whole || !this.stacked)
            ? String((boxes.level ? boxes.level[i] : track.level) + 1)
            : "",
        ],
      ],
    };
  }

  // -- what is in sight -----------------------------------------------------------------------------------------------

  /**
   * @param {number} start
   * @param {number} end
   */
  show(start, end) {
    const whole = this.data.length_ns;
    const length = Math.min(Math.max(end - start, Math.min(SHORTEST_NS, whole)), whole);
    const from = Math.min(Math.max(start, 0), whole - length);
    for (const one of [this, ...this.linked]) one.look(from, from + length);
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  look(from, to) {
    [this.from, this.to] = [from, to];
    if (this.cursor && this.cursor.layer !== this.layer()) this.cursor = null;
    this.refresh();
  }

  /**
   * @param {number} time
   * @param {number} factor
   */
  zoomAround(time, factor) {
    const length = Math.max((this.to - this.from) * factor, SHORTEST_NS);
    const start = time - ((time - this.from) / (this.to - this.from)) * length;
    this.show(start, start + length);
  }

  /** @param {Place | null} one */
  zoomTo(one) {
    if (!one) return;
    const { start, end } = one.cell ?? { start: one.track.boxes.start[one.i], end: one.track.boxes.end[one.i] };
    const margin = Math.max((end - start) * 0.15, SHORTEST_NS / 2);
    this.show(start - margin, end + margin);
  }

  /** @param {number} part */
  pan(part) {
    const length = this.to - this.from;
    this.show(this.from + part * length, this.to + part * length);
  }

  /**
   * Go to what another view found: a time by the clock of the traces, in ns.
   * @param {State["window"]} wanted
   */
  lookAt(wanted) {
    if (!wanted) return;
    const start = Number(BigInt(wanted.start) - BigInt(this.data.origin));
    this.show(start - wanted.length, start + 2 * wanted.length);
  }

  // -- the keyboard ---------------------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const whole = this.data.length_ns;
    const [middle, length] = [(this.from + this.to) / 2, this.to - this.from];
    const closer = () => this.zoomAround(middle, 0.5);
    const wider = () => this.zoomAround(middle, 2);
    const keys = {
      ArrowLeft: () => this.move(-1, 0),
      ArrowRight: () => this.move(1, 0),
      ArrowUp: () => this.move(0, -1),
      ArrowDown: () => this.move(0, 1),
      Enter: () => this.zoomTo(this.cursor),
      " ": () => this.zoomTo(this.cursor),
      Escape: () => {
        this.cursor = null;
        tooltip.hide();
        this.show(0, whole);
      },
      "+": closer,
      "=": closer,
      w: closer,
      "-": wider,
      s: wider,
      Backspace: wider,
      a: () => this.pan(-0.25),
      d: () => this.pan(0.25),
      Home: () => this.show(0, length),
      End: () => this.show(whole - length, whole),
      PageDown: () => this.scroller.scrollBy(0, this.room() * 0.8),
      PageUp: () => this.scroller.scrollBy(0, -this.room() * 0.8),
    };
    takeKey(event, keys)?.();
  }

  /**
   * To the next box of a track, or to one of the next track at about the same time.
   * @param {number} right
   * @param {number} down
   */
  move(right, down) {
    const layer = this.layer();
    const tracks = this.rows.flatMap((row) => this.tracksOf(layer, row));
    if (!tracks.length) return;
    const { cursor } = this;
    const at = cursor && cursor.layer === layer ? tracks.indexOf(cursor.track) : -1;
    const track = tracks[Math.min(Math.max(at + down, 0), tracks.length - 1)];
    let i;
    if (!cursor || at < 0) [i] = within(track, this.from, this.to);
    else if (!down) i = cursor.i + right;
    else {
      const { start, end } = cursor.track.boxes;
      const time = (Math.max(start[cursor.i], this.from) + Math.min(end[cursor.i], this.to)) / 2;
      const [first, last] = within(track, time, time + 1);
      i = first < last ? last - 1 : first;
    }
    this.cursor = { track, i: Math.min(Math.max(i, track.first), track.last - 1), layer };
    this.reveal();
  }

  /** Bring the cursor into sight, and say what is there. */
  reveal() {
    const one = this.cursor;
    if (!one) return;
    const [start, end] = [one.track.boxes.start[one.i], one.track.boxes.end[one.i]];
    if (end < this.from || start > this.to) {
      const half = (this.to - this.from) / 2;
      this.show((start + end) / 2 - half, (start + end) / 2 + half);
    }
    this.cursor = one;
    const row = this.tops[one.track.row];
    const [y, height] = this.stacked ? [row.y, row.height] : [row.y + one.track.level * LEVEL, LEVEL];
    const before = this.scroller.scrollTop;
    if (y < before) this.scroller.scrollTop = y;
    if (y + height + AXIS > before + this.room()) this.scroller.scrollTop = y + height + AXIS - this.room();
    this.following = this.scroller.scrollTop !== before;
    const box = this.picture.canvas.getBoundingClientRect();
    const where = placeOf(this.scene(), one, this.picture.size().width);
    tooltip.show(this.details(one), box.left + where.left, box.top + where.y);
    this.picture.redraw();
  }

  // -- the mouse ------------------------------------------------------------------------------------------------------

  /**
   * What is at a place of the picture.
   * @param {number} x
   * @param {number} y
   */
  hit(x, y) {
    const { width } = this.picture.size();
    if (x < GUTTER || y < AXIS) return null;
    const inside = y - AXIS + this.scroller.scrollTop;
    const row = this.rows.find((one) => {
      const { y: top, height } = this.tops[one];
      return top <= inside && inside < top + height;
    });
    if (row === undefined) return null;
    const layer = this.layer();
    const level = Math.floor((inside - this.tops[row].y) / LEVEL);
    const near = (1.5 * (this.to - this.from)) / (width - GUTTER);
    const scene = this.scene();
    for (const track of this.tracksOf(layer, row).filter((one) => this.stacked || one.level === level)) {
      const i = boxAt(track, timeAt(scene, x, width), near);
      if (i < 0) continue;
      const narrow = xOf(scene, track.boxes.end[i], width) - xOf(scene, track.boxes.start[i], width) < 1;
      const cell = narrow
        ? cellAt(scene, track, Math.floor(xOf(scene, track.boxes.start[i], width)), width)
        : undefined;
      return { track, i: cell ? cell.i : i, layer, cell: cell && this.crowded(track, cell) ? cell : undefined };
    }
    return null;
  }

  /**
   * Does a stretch of time hold more than one box? Else that box is what there is to tell.
   * @param {Track} track
   * @param {Cell} cell
   */
  crowded(track, cell) {
    const [first, last] = within(track, cell.start, cell.end);
    return last - first > 1;
  }

  /** @param {PointerEvent} event */
  grabbed(event) {
    this.drag = { x: event.clientX, y: event.clientY, from: this.from, scroll: this.scroller.scrollTop, moved: false };
    this.picture.canvas.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  pointed(event) {
    if (this.drag && event.buttons & 1) {
      this.dragged(event, this.drag);
      return;
    }
    const one = this.hit(event.offsetX, event.offsetY);
    this.picture.canvas.style.cursor = one ? "pointer" : "default";
    if (one) tooltip.show(this.details(one), event.clientX, event.clientY);
    else tooltip.hide();
  }

  /**
   * @param {PointerEvent} event
   * @param {Drag} drag
   */
  dragged(event, drag) {
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    drag.moved ||= Math.abs(dx) + Math.abs(dy) > 3;
    if (!drag.moved) return;
    tooltip.hide();
    const length = this.to - this.from;
    const start = drag.from - (dx / (this.picture.size().width - GUTTER)) * length;
    this.scroller.scrollTop = drag.scroll - dy;
    this.show(start, start + length);
  }

  /** @param {PointerEvent} event */
  released(event) {
    if (this.drag && !this.drag.moved) {
      this.cursor = this.hit(event.offsetX, event.offsetY);
      this.picture.redraw();
    }
    this.drag = null;
  }

  /** @param {WheelEvent} event */
  wheeled(event) {
    const scrolls = this.height > this.room() + 1;
    if (scrolls && !event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const delta = event.deltaY || event.deltaX;
    this.zoomAround(
      timeAt(this.scene(), Math.max(event.offsetX, GUTTER), this.picture.size().width),
      delta > 0 ? 1.25 : 0.8,
    );
  }

  scrolled() {
    if (!this.following) tooltip.hide();
    this.following = false;
    this.picture.redraw();
  }
}
