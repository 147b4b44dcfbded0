/**
 * The timeline of the viewer: any window of any number of rows, of which the server makes a picture. What is in sight
 * is drawn at once from what is there, and again when the server has answered. All rows fit into the height; those that
 * are merged show what dominates, and pointing at it tells exact shares.
 *
 * @import { Surface } from "./canvas.js"
 * @import { LegendData, LiveTimelineData, Look, Provider, Requests } from "./documents.js"
 * @import { TimeCurves, TimeLegend, TimeNames, TimePicture, TimeRows } from "./documents.js"
 * @import { Arrow, Moment, Names, Painted } from "./live_timeline_drawing.js"
 * @import { Store, TimeView } from "./store.js"
 * @import { Colouring } from "./timeline_colours.js"
 */

import { Picture, themeColours } from "./canvas.js";
import { button, choice, element } from "./dom.js";
import { count, durationNs, percent } from "./format.js";
import { drawCurves, heightOfCurves } from "./live_timeline_curves.js";
import { AXIS, drawLiveScene, GUTTER, haveEqualRows, imageOf, layOut } from "./live_timeline_drawing.js";
import { TimelineInput } from "./live_timeline_input.js";
import { RangePane } from "./live_timeline_range.js";
import { MomentPane } from "./live_timeline_moment.js";
import { legendsOf, overheadOf, roughLegendsOf } from "./live_timeline_sums.js";
import { matcher } from "./store.js";
import { captionOf, coloursOf, drawLegend } from "./timeline_colours.js";

const SHORTEST_NS = 20; // the closest look
const THINNEST = 3; // pixels of a row: more rows are merged
const MANY_ROWS = 250; // from which on the legend comes with a bound first
const SETTLED_MS = 400; // after the last step of a zoom: then the address has it
const RESTING_MS = 100; // after the last picture: then sums and what is beside it are asked for
const AGAIN_MS = 400; // between two looks at how far the index is
const WIDEST = 8192; // columns of a picture
const TALLEST = 1200; // rows
const MOST_NAMES = 400;
const CURVES = 4; // in sight

/**
 * @param {HTMLElement} place
 * @param {LiveTimelineData} data
 * @param {Store} view
 * @param {Provider} provider
 */
export function drawLiveTimeline(place, data, view, provider) {
  new LiveTimeline(place, data, view, provider).start();
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

export class LiveTimeline {
  status = element("span", { class: "match timeline-status", attributes: { role: "status" } });
  bar = element("progress", { attributes: { "aria-label": "Index of the timeline", max: "1" } });
  building = element("span", { class: "match building", attributes: { hidden: "" } }, [
    this.bar,
    element("span", { text: "" }),
  ]);
  legend = element("div", { class: "legend" });
  /** @type {Picture} */
  picture = new Picture({
    name: "timeline",
    label:
      "Timeline. W and S zoom in and out, A and D move to the left and right; with Shift, W and S show fewer or more " +
      "rows. Arrows move the cursor, with Shift they select a range. Enter zooms to the range, Escape goes back.",
    draw: (surface, width, height) => this.draw(surface, width, height),
    height: () => this.room(),
    caption: () => captionOf(this.colours),
  });
  /** @type {HTMLElement} */
  frame = element("div", { class: "live-timeline" }, [this.picture.root]);
  from = 0;
  to = 0; // 0 at first: everything
  /** @type {[number, number] | null} */
  rows = null; // those in sight, null for all
  depth = 0;
  /** @type {[number, number] | null} */
  range = null;
  /** @type {Moment | null} */
  cursor = null;
  /** @type {TimePicture | null} */
  shown = null;
  /** @type {HTMLCanvasElement | null} */
  image = null;
  painted = ""; // the key of its colours
  /** @type {Painted | null} */
  backdrop = null; // a picture of all of the time
  answered = ""; // what was in sight when the picture that is shown was asked for
  /** @type {Names} */
  names = { text: [], kind: [] };
  /** @type {Colouring} */
  colouring = "name";
  /** @type {TimeLegend | null} */
  sums = null; // of what is in sight
  /** @type {{ name: LegendData, kind: LegendData } | null} */
  whole = null; // of all of the time: it says which names have strong colours
  /** @type {Arrow[]} */
  arrows = [];
  /** @type {TimeCurves | null} */
  curves = null;
  showsCurves = false;
  showsArrows = false;
  hits = "";
  /** @type {Map<string, AbortController>} */
  asking = new Map();
  isAsking = false;
  isWanted = false; // a picture, after the one that is on its way
  /** @type {Promise<void>} */
  asked = Promise.resolve();
  settling = 0;
  polling = 0;
  resting = 0;
  isApplying = false;
  hasArrived = false;

  /**
   * @param {HTMLElement} place
   * @param {LiveTimelineData} data
   * @param {Store} view
   * @param {Provider} provider
   */
  constructor(place, data, view, provider) {
    this.data = data;
    this.view = view;
    this.provider = provider;
    this.showsCurves = data.has_counters;
    this.found = matcher(view.get("search"));
    this.colours = coloursOf(this.colourData(), 0, this.colouring);
    this.rangePane = new RangePane(this);
    this.momentPane = new MomentPane(this);
    this.input = new TimelineInput(this);
    this.build(place);
    this.listen();
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
      (value) => {
        this.colouring = value === "kind" ? "kind" : "name";
        this.recolour();
      },
    );
    place.append(
      element("div", { class: "toolbar" }, [
        this.depthSlider(),
        colouring.root,
        this.data.has_counters ? this.box("Counters", this.showsCurves, (is) => this.setCurves(is)) : null,
        this.data.has_spans ? this.box("Launches", false, (is) => this.setArrows(is)) : null,
        button("Reset zoom", "Show everything again (Escape)", () => this.reset()),
        this.status,
        this.building,
        element("span", { class: "gap" }),
        this.picture.buttons,
      ]),
      this.frame,
      this.legend,
      element("div", { class: "dock" }, [this.momentPane.root, this.rangePane.root]),
    );
  }

  depthSlider() {
    const most = this.data.deepest;
    const slider = element("input", {
      attributes: { type: "range", min: "1", max: String(most + 1), value: String(most + 1), "aria-label": "Depth" },
    });
    const text = element("output", { text: "innermost" });
    this.setDepth = (/** @type {number} */ depth) => {
      slider.value = String(depth || most + 1);
      text.textContent = depth ? String(depth) : "innermost";
      slider.setAttribute("aria-valuetext", text.textContent);
    };
    slider.addEventListener("input", () => {
      const depth = Number(slider.value) > most ? 0 : Number(slider.value);
      this.setDepth(depth);
      this.depth = depth;
      this.whole = null;
      this.settle();
      this.askAnew();
    });
    return element("label", { class: "choice depth" }, [element("span", { text: "Depth" }), slider, text]);
  }

  /** @type {(depth: number) => void} */
  setDepth = () => {};

  /**
   * @param {string} label
   * @param {boolean} is
   * @param {(is: boolean) => void} chosen
   */
  box(label, is, chosen) {
    const input = element("input", { attributes: { type: "checkbox" } });
    input.checked = is;
    input.addEventListener("change", () => chosen(input.checked));
    return element("label", { class: "choice" }, [input, element("span", { text: label })]);
  }

  listen() {
    document.addEventListener("callgrove-theme", () => this.recolour());
    let size = "";
    new ResizeObserver(() => {
      const now = `${this.frame.clientWidth} ${this.frame.clientHeight}`;
      if (now === size) return;
      size = now; // nothing while another tab is open: what was not asked then is asked afterwards
      this.ask();
    }).observe(this.frame);
    this.view.watch("search", (text) => {
      this.found = matcher(text);
      this.recolour();
      this.find(0);
    });
    this.view.watch("step", (step) => step && this.find(step.by));
    this.view.watch("window", (wanted) => this.lookAt(wanted));
    this.view.watch("time", (state) => this.apply(state));
  }

  async start() {
    const state = this.view.get("time");
    if (state) this.restore(state);
    await this.ask();
  }

  /** Go to where others have pointed, once there is a timeline to go to. */
  arrive() {
    this.hasArrived = true;
    if (this.view.get("window")) this.lookAt(this.view.get("window"));
    if (this.view.get("search").trim()) this.find(0);
  }

  // -- asking ---------------------------------------------------------------------------------------------------------

  /** @returns {Look} */
  look() {
    const { view } = this;
    return { input: view.get("input"), metric: "", derive: [], filter: view.get("filter") };
  }

  /**
   * What requests about the rows and the time in sight say.
   * @returns {Look & TimeRows}
   */
  place() {
    const window = this.to ? { from: this.from, to: this.to } : {};
    return { ...this.look(), depth: this.depth, ...window, ...this.rowRange() };
  }

  rowRange() {
    const lines = this.shown ? { lines: this.shown.n_lines } : {};
    return this.rows ? { ...lines, top: this.rows[0], bottom: this.rows[1] } : lines;
  }

  /**
   * Ask, and forget what was asked before under the same name; null where the answer is not wanted any more.
   * @template {keyof Requests} N
   * @param {N} name
   * @param {Requests[N]["parameters"]} parameters
   * @returns {Promise<Requests[N]["answer"] | null>}
   */
  async get(name, parameters) {
    this.asking.get(name)?.abort();
    const asked = new AbortController();
    this.asking.set(name, asked);
    try {
      const answer = await this.provider.get(name, parameters, asked.signal);
      return asked.signal.aborted ? null : answer;
    } catch (error) {
      if (!asked.signal.aborted) this.status.textContent = messageOf(error);
      return null;
    }
  }

  /** What a picture is of, as a text. */
  sight() {
    return [this.from, this.to, this.rows, this.depth, this.view.get("filter")].join(" ");
  }

  /**
   * Ask for a picture of what is in sight, then for the rest. While one is on its way, the next is asked for when it is
   * there: whoever holds a key sees where it goes.
   */
  ask() {
    clearTimeout(this.polling);
    clearTimeout(this.resting);
    this.asking.get("timelegend")?.abort();
    this.isWanted = true;
    if (!this.isAsking) this.asked = this.askWanted();
    return this.asked;
  }

  /** Ask for another kind of picture: what is on its way is not wanted any more. */
  askAnew() {
    this.asking.get("timeline")?.abort();
    this.backdrop = null;
    return this.ask();
  }

  async askWanted() {
    this.isAsking = true;
    while (this.isWanted) {
      this.isWanted = false;
      if (!this.frame.clientWidth) break; // another tab is open: it asks when it is seen again
      const sight = this.sight();
      const answer = await this.get("timeline", this.pictureOf(this.from, this.to));
      if (answer && this.frame.isConnected) this.setPicture(answer, sight);
    }
    this.isAsking = false;
    this.rest();
  }

  /**
   * What is asked for a picture of some time: a column for each pixel.
   * @param {number} from
   * @param {number} to
   */
  pictureOf(from, to) {
    const { lines: _, ...place } = this.place(); // all lines that are there by now
    const part = this.to ? (to - from) / (this.to - this.from) : 1;
    const width = Math.round((this.picture.size().width - GUTTER) * part);
    const rows = Math.floor((this.room() - AXIS - this.below()) / THINNEST);
    return {
      ...place,
      ...(this.to ? { from, to } : {}),
      width: Math.min(Math.max(width, 1), WIDEST),
      rows: Math.min(Math.max(rows, 1), TALLEST),
    };
  }

  /** Have what may come later than the picture come, unless another one is asked for. */
  rest() {
    if (!this.shown || !this.frame.isConnected) return;
    const { progress, bounds } = this.shown;
    if (progress.error) return;
    if (!progress.complete) {
      const again = () => this.ask();
      this.polling = setTimeout(again, AGAIN_MS);
    }
    if (this.isReady && bounds.length > 1) this.resting = setTimeout(() => this.askRest(), this.sums ? RESTING_MS : 0);
  }

  askRest() {
    this.askLegend();
    this.askCurves();
    this.askArrows();
    this.askAround();
  }

  /** Ask for a picture of what is beside the time in sight as well, so that moving there shows it at once. */
  async askAround() {
    const { shown, from, to } = this;
    if (!shown || shown.spans || !shown.progress.complete || !to || !this.frame.clientWidth) return;
    const [left, right] = [Math.max(2 * from - to, 0), Math.min(2 * to - from, this.length)];
    const wanted = this.pictureOf(left, right);
    if ((left === from && right === to) || wanted.width === WIDEST) return;
    const sight = this.sight();
    const answer = await this.get("timeline", wanted);
    const isFit = answer && !answer.spans && answer.cell_ns <= shown.cell_ns && this.sight() === sight;
    if (isFit && this.shown === shown) this.setPicture(answer, sight);
  }

  /**
   * @param {TimePicture} answer
   * @param {string} sight  that it was asked for
   */
  setPicture(answer, sight) {
    this.learn(answer.names);
    if (answer.spans) this.learn(answer.spans.names);
    const isNew = this.shown?.n_lines !== answer.n_lines;
    this.shown = answer;
    this.answered = sight;
    if (!this.to && this.isReady && answer.bounds.length > 1) {
      this.to = answer.length_ns;
      this.answered = this.sight();
    }
    if (isNew) this.whole = null;
    this.showProgress(answer.progress);
    if (!this.sums) this.colours = coloursOf(this.colourData(), 0, this.colouring); // until exact sums are there
    this.paint();
    this.say();
    this.picture.redraw();
    if (this.isReady && !this.hasArrived) this.arrive();
  }

  /** What the colours of images depend on. */
  paintKey() {
    return [this.colours.key, this.view.get("search"), ...Object.values(themeColours())].join("\n");
  }

  /** Make the image of what is shown; it is the backdrop of other times where it has all of the time. */
  paint() {
    const { shown, backdrop } = this;
    if (!shown) return;
    const key = this.paintKey();
    if (backdrop && key !== this.painted) {
      const image = imageOf(backdrop.picture, this.names, this.colours, this.found);
      this.backdrop = image && { picture: backdrop.picture, image };
    }
    this.painted = key;
    this.image = imageOf(shown, this.names, this.colours, this.found);
    const isWhole =
      this.isReady && shown.start_ns <= 0 && shown.start_ns + shown.n_cells * shown.cell_ns >= shown.length_ns;
    if (isWhole && this.image) this.backdrop = { picture: shown, image: this.image };
  }

  /** @param {TimeNames} names */
  learn({ number, text, kind }) {
    for (let i = 0; i < number.length; i++) {
      this.names.text[number[i]] = text[i];
      this.names.kind[number[i]] = kind[i];
    }
  }

  /** @param {TimePicture["progress"]} progress */
  showProgress({ reading, done, total, tracks_done: tracks, tracks: all, error, complete }) {
    this.building.hidden = complete;
    this.bar.value = total ? done / total : 0;
    const read = `Reading: ${count(done)} of ${count(total / 2)} events`; // each is read, and then indexed
    const text = reading
      ? done
        ? read
        : "Reading the trace"
      : `Indexing: ${count(tracks)} of ${count(all)} rows are there`;
    const pale =
      this.shown && Array.from(this.shown.pending).some(Boolean)
        ? "; pale rows are preliminary: single moments of what was read"
        : "";
    /** @type {HTMLElement} */ (this.building.lastElementChild).textContent = error || text + pale;
  }

  /** Ask for the time of each name in sight; where there are many rows, first for an answer that comes at once. */
  async askLegend() {
    if (!this.whole) await this.askWhole();
    const { bounds } = this.shown ?? { bounds: [] };
    const place = { ...this.place(), most: MOST_NAMES };
    const many = bounds.length && bounds[bounds.length - 1] - bounds[0] > MANY_ROWS;
    for (const exact of many ? [0, 1] : [1]) {
      const legend = await this.get("timelegend", { ...place, exact });
      if (!legend) return;
      this.learn(legend.names);
      this.sums = legend;
      this.recolour();
    }
  }

  /** Ask which names take most of all time. */
  async askWhole() {
    const { from: _, to: __, top: ___, bottom: ____, ...place } = this.place();
    const legend = await this.get("timelegend", { ...place, exact: 1, most: MOST_NAMES });
    if (!legend) return;
    this.learn(legend.names);
    this.whole = legendsOf(legend);
  }

  async askCurves() {
    if (!this.showsCurves || !this.shown || !this.frame.clientWidth) return;
    const width = Math.min(Math.max(1, Math.round((this.picture.size().width - GUTTER) / 2)), 8192);
    const answer = await this.get("timecurves", { ...this.place(), width });
    if (!answer) return;
    const before = this.below();
    this.curves = { ...answer, curves: answer.curves.slice(0, CURVES) };
    if (this.below() !== before) this.ask();
    this.say();
    this.picture.redraw();
  }

  /** Ask which calls launched what, where each span is drawn by itself. */
  async askArrows() {
    const spans = this.shown?.spans;
    if (!this.showsArrows || !spans) {
      this.arrows = this.momentPane.arrows;
      this.picture.redraw();
      return;
    }
    const answer = await this.get("timelinks", this.place());
    if (!answer) return;
    const at = new Map(Array.from(spans.span, (span, i) => [span, i]));
    /** @type {Arrow[]} */
    const arrows = [];
    for (let k = 0; k < answer.call.length; k++) {
      const [call, operation] = [at.get(answer.call[k]), at.get(answer.operation[k])];
      if (call === undefined || operation === undefined) continue;
      arrows.push({
        from: { row: spans.row[call], time: spans.start[call] },
        to: { row: spans.row[operation], time: spans.start[operation] },
      });
    }
    this.arrows = [...arrows, ...this.momentPane.arrows];
    this.picture.redraw();
  }

  /** @param {boolean} is */
  setCurves(is) {
    this.showsCurves = is;
    if (!is) this.curves = null;
    this.say();
    this.ask();
  }

  /** @param {boolean} is */
  setArrows(is) {
    this.showsArrows = is;
    this.askArrows();
  }

  /**
   * Say what the search finds in sight, and go to the next or the one before.
   * @param {number} by
   */
  async find(by) {
    const text = this.view.get("search").trim();
    this.hits = "";
    this.say();
    if (!text || !this.isReady) return;
    const time = Math.max(0, Math.round(this.cursor?.time ?? (by < 0 ? this.to : this.from)));
    const answer = await this.get("timefind", { ...this.place(), text, time, forward: by < 0 ? 0 : 1 });
    if (!answer) return;
    const share = Number(answer.time_ns) / Math.max(Number(answer.total_ns), 1);
    const few = answer.n_sought < answer.n_names ? ` (steps go through ${answer.n_sought} of them)` : "";
    this.hits =
      `“${text}”: ${count(answer.n_names)} ${answer.n_names === 1 ? "name" : "names"}${few}, ` +
      `${durationNs(Number(answer.time_ns))}, ${percent(share)} of the time in sight`;
    this.say();
    if (!by || !answer.next) return;
    const { row, start, end } = answer.next;
    this.cursor = { row, time: start };
    const half = (this.to - this.from) / 2;
    if (start < this.from || start > this.to || end - start > 2 * half) this.show(start - half, start + half);
    this.momentPane.show(this.cursor);
    this.picture.redraw();
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  room() {
    const margin = parseFloat(getComputedStyle(this.frame).paddingTop);
    return Math.max(this.frame.clientHeight - margin, 60);
  }

  below() {
    return this.showsCurves ? heightOfCurves(this.curves?.curves.length ?? 0) : 0;
  }

  scene() {
    const picture = /** @type {TimePicture} */ (this.shown);
    const { image, names, colours, found, cursor, range, arrows } = this;
    const backdrop = this.backdrop && haveEqualRows(this.backdrop.picture, picture) ? this.backdrop : null;
    const layout = layOut(picture, this.room() - AXIS - this.below());
    const isPart = this.isReady && this.to; // while it is read, times are not known well enough for part of it
    const [from, to] = isPart ? [this.from, this.to] : [0, Math.max(picture.length_ns, 1)];
    const below = this.below();
    const sight = { from, to, cursor, range };
    return { picture, image, backdrop, layout, ...sight, names, colours, found, arrows, below };
  }

  /**
   * @param {Surface} surface
   * @param {number} width
   * @param {number} height
   */
  draw(surface, width, height) {
    if (!this.shown) return;
    const scene = this.scene();
    if (this.curves) drawCurves(surface, width, height, scene, this.curves);
    drawLiveScene(surface, width, height, scene); // its range and its cursor are above the curves as well
    this.frame.dataset.current = String(this.answered === this.sight());
  }

  colourData() {
    /** @type {LegendData} */
    const empty = { text: [], share: [], n: 0, rest: 0 };
    const read = this.shown ? roughLegendsOf(this.shown) : { name: empty, kind: empty };
    const shares = this.sums ? legendsOf(this.sums) : (this.whole ?? read);
    return {
      names: this.names,
      legend: shares.name,
      kinds: shares.kind,
      depths: [],
      overhead_ns: this.sums ? Number(overheadOf(this.sums)) : 0,
      order: (/** @type {number} */ _, /** @type {Colouring} */ by) => (this.whole ?? shares)[by].text,
    };
  }

  recolour() {
    this.colours = coloursOf(this.colourData(), 0, this.colouring);
    drawLegend(this.legend, this.colours, (name) =>
      this.view.set("search", this.view.get("search") === name ? "" : name),
    );
    if (this.sums && this.sums.missing_ns !== "0") {
      const text = `exact sums are on their way; at most ${durationNs(Number(this.sums.missing_ns))} is missing`;
      this.legend.append(element("span", { class: "key", text }));
    }
    if (this.paintKey() !== this.painted) this.paint();
    this.picture.redraw();
  }

  say() {
    const { shown } = this;
    if (!shown) return;
    const rows = shown.bottom - shown.top;
    const drawn = shown.bounds.length - 1;
    if (!shown.n_rows) return; // nothing was read so far
    const parts = [`${durationNs((this.to || shown.length_ns) - this.from)} from ${durationNs(this.from)}`];
    if (!shown.spans) parts.push(`in steps of ${durationNs(shown.cell_ns)}`);
    if (drawn < rows) parts.push(`${count(rows)} rows, up to ${Math.ceil(rows / drawn)} on one line`);
    else if (rows < shown.n_rows) parts.push(`${count(rows)} of ${count(shown.n_rows)} rows`);
    if (shown.n_left_out) parts.push(`${count(shown.n_left_out)} events have impossible times and are left out`);
    if (this.curves && this.curves.n > CURVES) parts.push(`${CURVES} of ${count(this.curves.n)} counters`);
    if (this.hits) parts.push(this.hits);
    this.status.textContent = parts.join(" · ");
  }

  // -- what is in sight -----------------------------------------------------------------------------------------------

  /** Whether anything can be asked: the trace was read. */
  get isReady() {
    return this.shown !== null && !this.shown.progress.reading;
  }

  get length() {
    return this.shown?.length_ns ?? 1;
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  show(start, end) {
    if (!this.isReady) return;
    const whole = this.length;
    const length = Math.min(Math.max(Math.round(end - start), Math.min(SHORTEST_NS, whole)), whole);
    this.from = Math.min(Math.max(Math.round(start), 0), whole - length); // whole ns, as the address has them
    this.to = this.from + length;
    this.input.leave();
    this.say();
    this.settle();
    this.picture.redraw(); // of what is there
    this.ask();
  }

  /**
   * Show some rows, or all.
   * @param {number} top
   * @param {number} bottom
   */
  showRows(top, bottom) {
    if (!this.isReady) return;
    const n = this.shown?.n_rows ?? 0;
    const size = Math.min(Math.max(Math.round(bottom - top), 1), n);
    const first = Math.min(Math.max(Math.round(top), 0), n - size);
    this.rows = size >= n ? null : [first, first + size];
    this.settle();
    this.ask();
  }

  /** @param {number} factor */
  zoomRows(factor) {
    const [top, bottom] = this.rows ?? [0, this.shown?.n_rows ?? 1];
    const middle = this.cursor?.row ?? (top + bottom) / 2;
    const size = (bottom - top) * factor;
    this.showRows(
      middle - ((middle - top) / (bottom - top)) * size,
      middle + ((bottom - middle) / (bottom - top)) * size,
    );
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

  /** @param {number} part */
  pan(part) {
    const length = this.to - this.from;
    this.show(this.from + part * length, this.to + part * length);
  }

  reset() {
    this.rows = null;
    this.show(0, this.length);
  }

  /**
   * Go to what another view found: a time by the clock of the traces, in ns.
   * @param {{ start: string, length: number } | null} wanted
   */
  lookAt(wanted) {
    if (!wanted || !this.shown || !this.isReady) return;
    const start = Number(BigInt(wanted.start) - BigInt(this.shown.origin));
    this.show(start - wanted.length, start + 2 * wanted.length);
  }

  /** @param {[number, number] | null} range */
  select(range) {
    this.range = range && [Math.max(0, Math.floor(range[0])), Math.min(Math.ceil(range[1]), this.length)];
    this.rangePane.show(this.range);
    this.settle();
    this.picture.redraw();
  }

  /** @param {Moment | null} cursor */
  point(cursor) {
    this.cursor = cursor && { row: cursor.row, time: Math.min(Math.max(Math.floor(cursor.time), 0), this.length - 1) };
    this.momentPane.show(this.cursor);
    this.settle();
    this.picture.redraw();
  }

  // -- the address ----------------------------------------------------------------------------------------------------

  /** Have the address hold what is seen, once it stays. */
  settle() {
    if (this.isApplying) return;
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      this.isApplying = true;
      this.view.set("time", this.state());
      this.isApplying = false;
    }, SETTLED_MS);
  }

  /** @returns {TimeView | null} */
  state() {
    const { rows, depth, range, cursor, shown } = this;
    const isWhole = this.from <= 0 && this.to >= this.length;
    if (isWhole && !rows && !depth && !range && !cursor) return null;
    const window = isWhole ? null : /** @type {[number, number]} */ ([this.from, this.to]);
    return { window, rows, depth, range, cursor, origin: shown?.origin ?? "0" };
  }

  /** @param {TimeView | null} state */
  restore(state) {
    [this.from, this.to] = state?.window ?? [0, this.shown?.length_ns ?? 0];
    this.rows = state?.rows ?? null;
    this.depth = state?.depth ?? 0;
    this.setDepth(this.depth);
    this.range = state?.range ?? null;
    this.cursor = state?.cursor ?? null;
    this.whole = null;
    this.rangePane.show(this.range);
    this.momentPane.show(this.cursor);
  }

  /**
   * Show what an address says.
   * @param {TimeView | null} state
   */
  apply(state) {
    if (this.isApplying) return;
    clearTimeout(this.settling);
    this.isApplying = true;
    this.restore(state);
    this.isApplying = false;
    this.say();
    this.askAnew();
  }
}
