/**
 * What profiles did over time: a row for each, its calls one below the other, or on one line as a stack of a chosen
 * depth. Zoomed and moved with the mouse or the keyboard. Where more is asked for than the page holds, it says so.
 */

import { createPicture, fitting, themeColours } from "./canvas.js";
import { CATEGORIES, hashed, inkOn, mixed } from "./colours.js";
import { button, choice, element, switches } from "./dom.js";
import { count, durationNs, percent } from "./format.js";
import { matcher } from "./store.js";
import { boxAt, createLayer, ownTimes, shareOf, within } from "./timeline_layers.js";
import { ticksOf } from "./ticks.js";
import { tooltip } from "./tooltip.js";

const GUTTER = 168;
const AXIS = 26;
const LEVEL = 15; // height of a level where all are shown
const THINNEST = 3; // height of a row on one line, beyond which rows scroll
const THICKEST = 26;
const SHORTEST_NS = 20; // the closest look
/** @type {[string, number][]} */
const UNITS = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];
const GREYS = 3; // shades of what takes little time

/**
 * @param {HTMLElement} place
 * @param {any} data
 * @param {import("./store.js").Store} view
 */
export function drawTimeline(place, data, view) {
  const { text: names, kind: kinds } = data.names;
  const nRows = data.rows.name.length;
  const layers = data.layers.map((layer) => createLayer(layer, nRows));
  const [overview] = layers;
  const rows = Array.from({ length: nRows }, (_, row) => row).filter((row) => overview.ofRow[row].length);
  const nLevels = 1 + Math.max(0, ...overview.tracks.map((track) => track.level));
  const label = (row) => `${data.rows.group[row]} ${data.rows.name[row]}`.trim();
  const scroller = element("div", { class: "flame-scroller" });
  let [from, to] = [0, data.length_ns];
  let stacked = rows.reduce((sum, row) => sum + overview.ofRow[row].length, 0) * LEVEL > 900;
  let deepest = nLevels - 1;
  let colouring = "name";
  let found = matcher(view.get("search") ?? "");
  /** @type {{row: number, level: number, i: number, layer: import("./timeline_layers.js").Layer} | null} */
  let cursor = null;
  let [colours, legendNames] = coloured();
  const inSight = () => scroller.clientHeight - (parseFloat(getComputedStyle(scroller).paddingTop) || 0);
  let following = false; // the cursor of the keyboard scrolls, not the reader
  let tops = laidOut();

  const status = element("span", { class: "match timeline-status", attributes: { role: "status" } });
  const legend = element("div", { class: "legend" });
  const spacer = element("div", { class: "flame-spacer" });
  const picture = createPicture({
    name: "timeline",
    label: "Timeline. Left and right go from box to box, up and down from row to row, Enter zooms in, Escape out; plus and minus zoom, A and D move.",
    draw,
    height: () => inSight(),
  });
  scroller.append(spacer);
  spacer.append(picture.root);
  const depths = choice("Depth", [["all", "innermost"], ...Array.from({ length: nLevels - 1 }, (_, k) => [String(nLevels - 2 - k), `${nLevels - 1 - k}`])], "all", (value) => {
    deepest = value === "all" ? nLevels - 1 : Number(value);
    refresh();
  });
  place.append(
    element("div", { class: "toolbar" }, [
      nLevels > 1 ? switches("Calls", [["levels", "Calls below each other"], ["line", "One line per row"]], stacked ? "line" : "levels", (value) => { stacked = value === "line"; refresh(); }).root : null,
      nLevels > 1 ? depths.root : null,
      choice("Colour by", [["name", "name"], ["kind", "kind"]], colouring, (value) => { colouring = value; refresh(); }).root,
      button("Reset zoom", "Show everything again (Escape)", () => show(0, data.length_ns)),
      status,
      element("span", { class: "gap" }),
      picture.buttons,
    ]),
    scroller,
    legend,
  );

  /** What each name looks like: strong colours for those that take most time, greys for the rest. */
  function coloured() {
    const own = ownTimes(overview, names.length, deepest);
    const keyOf = colouring === "kind" ? (i) => kinds[i] : (i) => names[i];
    const times = new Map();
    own.forEach((time, i) => times.set(keyOf(i), (times.get(keyOf(i)) ?? 0) + Math.max(time, 0)));
    const order = [...times].filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
    const all = order.reduce((sum, [, time]) => sum + time, 0) || 1;
    const strong = new Map(order.slice(0, CATEGORIES.length).map(([key], k) => [key, mixed(CATEGORIES[k], "#ffffff", 0.12)]));
    const shown = order.slice(0, CATEGORIES.length).map(([key, time]) => ({ key, colour: strong.get(key), share: time / all }));
    return [names.map((_, i) => strong.get(keyOf(i)) ?? ""), { shown, n: order.length }];
  }

  /** Where rows begin, and how high they are. */
  function laidOut() {
    const room = Math.max(inSight() - AXIS - 4, 80);
    const line = Math.min(Math.max(Math.floor(room / Math.max(rows.length, 1)), THINNEST), THICKEST);
    const top = new Map();
    let y = 0;
    for (const row of rows) {
      const height = stacked ? line : levelsOf(row) * LEVEL + 5;
      top.set(row, { y, height });
      y += height;
    }
    return { top, height: y, line };
  }

  function levelsOf(row) {
    return 1 + Math.min(deepest, Math.max(0, ...layers.map((layer) => layer.ofRow[row].at(-1)?.level ?? 0)));
  }

  function refresh() {
    cursor = null;
    tooltip.hide();
    [colours, legendNames] = coloured();
    redraw();
  }

  function redraw() {
    tops = laidOut();
    spacer.style.height = `${Math.max(inSight(), AXIS + tops.height + 6)}px`;
    drawLegend();
    status.textContent = statusText();
    picture.redraw();
  }

  /** The finest layer that holds all that is in sight. */
  function layerInSight() {
    return layers.reduce((best, layer) => (layer.from <= from && to <= layer.to && layer.tick < best.tick ? layer : best), overview);
  }

  function statusText() {
    const layer = layerInSight();
    const parts = [`${durationNs(to - from)} from ${durationNs(from)}`];
    if (!layer.exact) {
      const zoomed = from > 0 || to < data.length_ns;
      const beyond = zoomed && ((picture.size().width - GUTTER) * layer.tick) / (to - from) > 8;
      parts.push(beyond ? `no more detail is in this page: each step of ${durationNs(layer.tick)} shows what took most of it` : `in steps of ${durationNs(layer.tick)}`);
    }
    if (found) parts.push(searchText(layer));
    if (AXIS + tops.height + 6 > inSight()) parts.push(`${count(rows.length)} ${rows.length === 1 ? "row" : "rows, scroll for more"}`);
    return parts.join(" · ");
  }

  function searchText(layer) {
    let [n, time] = [0, 0];
    for (const track of layer.tracks) {
      if (track.level > deepest) continue;
      const [first, last] = within(layer, track, from, to);
      for (let i = first; i < last; i++) {
        if (!found?.(names[layer.name[i]])) continue;
        n++;
        time += Math.max(0, Math.min(layer.end[i], to) - Math.max(layer.start[i], from)) * shareOf(layer, i);
      }
    }
    return `“${view.get("search").trim()}”: ${count(n)} ${n === 1 ? "box" : "boxes"}, ${durationNs(time)}`;
  }

  const x = (time, width) => GUTTER + ((time - from) / (to - from)) * (width - GUTTER);
  const timeAt = (px, width) => from + ((px - GUTTER) / (width - GUTTER)) * (to - from);

  function draw(surface, width, height) {
    const theme = themeColours();
    const layer = layerInSight();
    const scroll = scroller.scrollTop;
    for (const row of rows) {
      const { y, height: tall } = tops.top.get(row);
      const at = AXIS + y - scroll;
      if (at > height || at + tall < AXIS) continue;
      for (const track of layer.ofRow[row]) {
        if (track.level > deepest) continue;
        drawTrack(surface, layer, track, stacked ? at : at + track.level * LEVEL, stacked ? tall : LEVEL, width, theme);
      }
    }
    drawCursor(surface, scroll, width, theme);
    drawGutter(surface, scroll, width, height, theme);
    drawAxis(surface, width, theme);
  }

  /** Boxes of less than a pixel are drawn where they are, the longest of each pixel. */
  function drawTrack(surface, layer, track, y, tall, width, theme) {
    const [first, last] = within(layer, track, from, to);
    const gap = tall > 6 ? 1 : 0;
    let [pixel, best] = [-1, -1];
    const flush = () => {
      if (best >= 0) drawBox(surface, layer, best, pixel, 1, y, tall - gap, theme);
      best = -1;
    };
    for (let i = first; i < last; i++) {
      const left = Math.max(x(layer.start[i], width), GUTTER);
      const right = Math.min(x(layer.end[i], width), width);
      if (right - left >= 1) {
        flush();
        drawBox(surface, layer, i, left, right - left, y, tall - gap, theme);
        continue;
      }
      const at = Math.floor(left);
      if (at !== pixel) flush();
      if (best < 0 || layer.end[i] - layer.start[i] > layer.end[best] - layer.start[best]) best = i;
      pixel = at;
    }
    flush();
  }

  function drawBox(surface, layer, i, left, wide, y, tall, theme) {
    const share = shareOf(layer, i);
    let fill = colours[layer.name[i]] || mixed(theme.muted, theme.ground, 0.5 + 0.1 * (hashed(names[layer.name[i]]) % GREYS));
    if (found) fill = found(names[layer.name[i]]) ? theme.mark : mixed(fill, theme.ground, 0.78);
    if (share < 0.98) fill = mixed(fill, theme.ground, 0.75 * (1 - share));
    surface.rect(left, y, wide > 3 && layer.exact ? wide - 0.6 : wide, tall, fill);
    if (wide < 28 || tall < 11) return;
    const style = { fill: found && !found(names[layer.name[i]]) ? theme.muted : inkOn(fill), size: Math.min(11.5, tall - 2) };
    const text = fitting(surface, names[layer.name[i]], wide - 8, style);
    if (text) surface.text(left + 4, y + tall / 2, text, style);
  }

  function drawCursor(surface, scroll, width, theme) {
    if (!cursor) return;
    const { left, right, y, tall } = placeOf(cursor, scroll, width);
    if (right >= GUTTER && left <= width) surface.rect(left - 1, y - 1, Math.max(right - left, 2) + 2, tall + 1, "", theme.ink);
  }

  function placeOf(one, scroll, width) {
    const { y, height } = tops.top.get(one.row);
    return {
      left: Math.max(x(one.layer.start[one.i], width), GUTTER), right: Math.min(x(one.layer.end[one.i], width), width),
      y: AXIS + y - scroll + (stacked ? 0 : one.level * LEVEL), tall: stacked ? height : LEVEL,
    };
  }

  function drawGutter(surface, scroll, width, height, theme) {
    surface.rect(0, 0, GUTTER - 4, height, theme.ground);
    let [group, groupBelow, below] = ["", -Infinity, -Infinity];
    for (const row of rows) {
      const { y, height: tall } = tops.top.get(row);
      const at = AXIS + y - scroll;
      const own = data.rows.group[row];
      const top = Math.max(at, AXIS); // names stay while any of their row is in sight
      const middle = Math.max(top + Math.min(at + tall - top, LEVEL + 4) / 2 - 1, AXIS + 6);
      const visible = at < height && at + tall >= AXIS;
      if (own !== group) {
        if (y > 0 && tall > 5 && visible) surface.line([[0, at - 0.5], [width, at - 0.5]], theme.faint);
        if (visible && middle - groupBelow >= 11) {
          surface.text(4, middle, fitting(surface, own, 62, { size: 11, bold: true }), { size: 11, fill: theme.ink, bold: true });
          groupBelow = middle;
        }
        group = own;
      }
      if (!visible || middle - below < 11) continue;
      below = middle;
      const room = GUTTER - 14 - (own ? 50 : 0);
      surface.text(GUTTER - 10, middle, fitting(surface, data.rows.name[row], room, { size: 11 }), { size: 11, fill: theme.muted, anchor: "end" });
    }
  }

  function drawAxis(surface, width, theme) {
    surface.rect(0, 0, width, AXIS - 3, theme.ground);
    const { marks, step } = ticksOf(from, to, Math.max(2, Math.floor((width - GUTTER) / 110)));
    for (const mark of marks) {
      const at = x(mark, width);
      surface.line([[at, AXIS - 8], [at, AXIS - 3]], theme.muted);
      surface.text(at, 9, timeText(mark, step, to), { size: 11, fill: theme.muted, anchor: at > width - 30 ? "end" : "middle" });
    }
    surface.line([[GUTTER, AXIS - 3.5], [width, AXIS - 3.5]], theme.faint);
    // the part of the whole that is in sight
    if (from > 0 || to < data.length_ns) {
      const part = (time) => GUTTER + (time / data.length_ns) * (width - GUTTER);
      surface.rect(part(from), AXIS - 4, Math.max(part(to) - part(from), 3), 3, theme.accent);
    }
  }

  function drawLegend() {
    legend.replaceChildren(...legendNames.shown.map(({ key, colour, share }) => {
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = /** @type {string} */ (colour);
      const short = key.length > 36 ? `${key.slice(0, 35)}…` : key;
      const one = element("span", { class: "key", attributes: { title: `${key}: ${percent(share)} of all time on calls, without what they call. Click to find it.` } }, [swatch, element("span", { text: `${short} ${percent(share)}` })]);
      one.style.cursor = colouring === "name" ? "pointer" : "default";
      if (colouring === "name") one.addEventListener("click", () => view.set("search", view.get("search") === key ? "" : key));
      return one;
    }), legendNames.n > legendNames.shown.length ? element("span", { class: "key", text: `${count(legendNames.n - legendNames.shown.length)} more in grey` }) : "");
  }

  function details({ row, level, i, layer }) {
    const length = layer.end[i] - layer.start[i];
    const share = shareOf(layer, i);
    return {
      title: names[layer.name[i]],
      rows: /** @type {[string, string][]} */ ([
        ["kind", kinds[layer.name[i]]], ["where", label(row)], ["start", durationNs(layer.start[i])],
        [layer.exact ? "duration" : "until", layer.exact ? durationNs(length) : durationNs(layer.end[i])],
        ["share", layer.exact ? "" : `${percent(share)} of this time, more than any other name; in steps of ${durationNs(layer.tick)}`],
        ["depth", nLevels > 1 ? String(level + 1) : ""],
      ]),
    };
  }

  /** What is at a place of the picture. */
  function hit(px, py) {
    const { width } = picture.size();
    if (px < GUTTER || py < AXIS) return null;
    const layer = layerInSight();
    const inside = py - AXIS + scroller.scrollTop;
    const row = rows.find((one) => { const { y, height } = tops.top.get(one); return y <= inside && inside < y + height; });
    if (row === undefined) return null;
    const level = Math.floor((inside - tops.top.get(row).y) / LEVEL);
    const near = (1.5 * (to - from)) / (width - GUTTER);
    const tracks = layer.ofRow[row].filter((track) => track.level <= deepest && (stacked || track.level === level));
    for (const track of tracks.reverse()) {
      const i = boxAt(layer, track, timeAt(px, width), near);
      if (i >= 0) return { row, level: track.level, i, layer };
    }
    return null;
  }

  function show(start, end) {
    const length = Math.min(Math.max(end - start, Math.min(SHORTEST_NS, data.length_ns)), data.length_ns);
    from = Math.min(Math.max(start, 0), data.length_ns - length);
    to = from + length;
    if (cursor && !layerInSight().exact && cursor.layer !== layerInSight()) cursor = null;
    redraw();
  }

  function zoomAround(time, factor) {
    const length = Math.max((to - from) * factor, SHORTEST_NS);
    const start = time - ((time - from) / (to - from)) * length;
    show(start, start + length);
  }

  const zoomTo = (one) => {
    const length = one.layer.end[one.i] - one.layer.start[one.i];
    const margin = Math.max(length * 0.15, SHORTEST_NS / 2);
    show(one.layer.start[one.i] - margin, one.layer.end[one.i] + margin);
  };

  /** The next box of a track, or one of the next track at about the same time. */
  function move(right, down) {
    const layer = layerInSight();
    const lanes = rows.flatMap((row) => layer.ofRow[row].filter((track) => track.level <= deepest && track.last > track.first));
    if (!lanes.length) return;
    let lane = cursor ? lanes.findIndex((track) => track.row === cursor?.row && track.level === cursor?.level) : -1;
    if (lane < 0 || !cursor || cursor.layer !== layer) {
      lane = Math.max(lane, 0);
      const [first] = within(layer, lanes[lane], from, to);
      cursor = at(layer, lanes[lane], Math.min(first, lanes[lane].last - 1));
    } else if (down) {
      const track = lanes[Math.min(Math.max(lane + down, 0), lanes.length - 1)];
      const time = (Math.max(cursor.layer.start[cursor.i], from) + Math.min(cursor.layer.end[cursor.i], to)) / 2;
      const [first, last] = within(layer, track, time, time + 1);
      cursor = at(layer, track, Math.min(Math.max(first < last ? last - 1 : first, track.first), track.last - 1));
    } else {
      cursor = at(layer, lanes[lane], Math.min(Math.max(cursor.i + right, lanes[lane].first), lanes[lane].last - 1));
    }
    reveal();
  }

  const at = (layer, track, i) => ({ row: track.row, level: track.level, i, layer });

  function reveal() {
    if (!cursor) return;
    const { start, end } = cursor.layer;
    if (end[cursor.i] < from || start[cursor.i] > to) {
      const middle = (start[cursor.i] + end[cursor.i]) / 2;
      const kept = cursor;
      show(middle - (to - from) / 2, middle + (to - from) / 2);
      cursor = kept;
    }
    const row = tops.top.get(cursor.row);
    const [y, height] = stacked ? [row.y, row.height] : [row.y + cursor.level * LEVEL, LEVEL];
    const before = scroller.scrollTop;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    if (y + height + AXIS > scroller.scrollTop + inSight()) scroller.scrollTop = y + height + AXIS - inSight();
    following = scroller.scrollTop !== before;
    const box = picture.canvas.getBoundingClientRect();
    const where = placeOf(cursor, scroller.scrollTop, picture.size().width);
    tooltip.show(details(cursor), box.left + where.left, box.top + where.y);
    picture.redraw();
  }

  const middle = () => (from + to) / 2;
  const pan = (part) => show(from + part * (to - from), to + part * (to - from));
  const keys = {
    ArrowLeft: () => move(-1, 0), ArrowRight: () => move(1, 0), ArrowUp: () => move(0, -1), ArrowDown: () => move(0, 1),
    Enter: () => cursor && zoomTo(cursor), " ": () => cursor && zoomTo(cursor),
    Escape: () => { cursor = null; tooltip.hide(); show(0, data.length_ns); },
    "+": () => zoomAround(middle(), 0.5), "=": () => zoomAround(middle(), 0.5), "-": () => zoomAround(middle(), 2), Backspace: () => zoomAround(middle(), 2),
    w: () => zoomAround(middle(), 0.5), s: () => zoomAround(middle(), 2), a: () => pan(-0.25), d: () => pan(0.25),
    Home: () => show(0, to - from), End: () => show(data.length_ns - (to - from), data.length_ns),
    PageDown: () => scroller.scrollBy(0, scroller.clientHeight * 0.8), PageUp: () => scroller.scrollBy(0, -scroller.clientHeight * 0.8),
  };
  picture.canvas.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });

  /** @type {{x: number, y: number, from: number, scroll: number, moved: boolean} | null} */
  let drag = null;
  picture.canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, from, scroll: scroller.scrollTop, moved: false };
    picture.canvas.setPointerCapture(event.pointerId);
  });
  picture.canvas.addEventListener("pointermove", (event) => {
    if (drag && (event.buttons & 1)) {
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      drag.moved ||= Math.abs(dx) + Math.abs(dy) > 3;
      if (!drag.moved) return;
      tooltip.hide();
      const start = drag.from - (dx / (picture.size().width - GUTTER)) * (to - from);
      scroller.scrollTop = drag.scroll - dy;
      show(start, start + (to - from));
      return;
    }
    const one = hit(event.offsetX, event.offsetY);
    picture.canvas.style.cursor = one ? "pointer" : "default";
    if (one) tooltip.show(details(one), event.clientX, event.clientY);
    else tooltip.hide();
  });
  picture.canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) { cursor = hit(event.offsetX, event.offsetY); picture.redraw(); }
    drag = null;
  });
  picture.canvas.addEventListener("dblclick", (event) => {
    const one = hit(event.offsetX, event.offsetY);
    if (one) zoomTo(one);
  });
  picture.canvas.addEventListener("mouseleave", () => tooltip.hide());
  picture.canvas.addEventListener("blur", () => tooltip.hide());
  picture.canvas.addEventListener("wheel", (event) => {
    const scrolls = spacer.offsetHeight > inSight() + 1;
    if (scrolls && !event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const delta = event.deltaY || event.deltaX;
    zoomAround(timeAt(Math.max(event.offsetX, GUTTER), picture.size().width), delta > 0 ? 1.25 : 0.8);
  }, { passive: false });
  scroller.addEventListener("scroll", () => {
    if (!following) tooltip.hide();
    following = false;
    picture.redraw();
  }, { passive: true });
  new ResizeObserver(redraw).observe(scroller);
  view.watch("search", (text) => {
    found = matcher(text);
    redraw();
  });
  /** Go to what another view found: a time by the clock of the traces, in ns. */
  function lookAt(wanted) {
    if (!wanted) return;
    const start = Number(BigInt(wanted.start) - BigInt(data.origin));
    show(start - wanted.length, start + 2 * wanted.length);
  }
  view.watch("window", lookAt);
  redraw();
  lookAt(view.get("window"));
}

/** A time in the unit of the end of the axis, with as many digits as the step between marks asks for. */
function timeText(time, step, end) {
  const [unit, size] = UNITS.find(([, ns]) => end >= ns) ?? UNITS[UNITS.length - 1];
  const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  return `${(time / size).toFixed(Math.min(digits, 9))} ${unit}`;
}
