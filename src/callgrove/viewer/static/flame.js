/**
 * The flame graph, roots at the top (an icicle) or at the bottom: as wide as the inclusive cost. A click zooms, so do
 * the wheel and the keyboard; a search marks what it finds and says what share of the cost that is.
 */

import { createPicture, fitting, themeColours } from "./canvas.js";
import { inkOn, mixed } from "./colours.js";
import { button, choice, element, switches } from "./dom.js";
import { colourer, drawLegend } from "./flame_colours.js";
import { callAt, layOut, searched, visit } from "./flame_layout.js";
import { amountOf, count, percent, shortName } from "./format.js";
import { tooltip } from "./tooltip.js";
import { treeOf } from "./tree.js";

const LOWEST = 22; // pixels of a box; in shallow trees they are higher
const HIGHEST = 30;
const MAP = 26; // height of the map of everything
const NARROWEST = 0.7; // pixels; narrower boxes are not drawn

/**
 * @param {HTMLElement} place
 * @param {{tree: import("./tree.js").TreeData, labels: import("./tree.js").Labels, metrics: import("./tree.js").Metric[]}} data
 * @param {import("./store.js").Store} view
 */
export function drawFlame(place, data, view) {
  const tree = treeOf(data.tree, data.labels);
  let metric = chosenMetric(data.metrics, view.get("metric"));
  let layout = layOut(tree, metric);
  let [from, to] = [0, 1];
  let cursor = -1;
  let focus = -1;
  let upside = false;
  let row = LOWEST;
  let colouring = "name";
  let colours = colourer(tree, metric, colouring);
  let found = searched(tree, metric, view.get("search"));

  const crumbs = element("nav", { class: "crumbs", attributes: { "aria-label": "Path of the zoomed call" } });
  const share = element("span", { class: "match", attributes: { role: "status" } });
  const legend = element("div", { class: "legend" });
  const scroller = element("div", { class: "flame-scroller" });
  const spacer = element("div", { class: "flame-spacer" });
  const picture = createPicture({
    name: "flame-graph",
    label: "Flame graph. Arrow keys walk through calls, Enter zooms in, Escape out, slash searches.",
    draw: (surface, width, height) => draw(surface, width, height),
    height: () => scroller.clientHeight - 8,
  });
  scroller.append(spacer);
  spacer.append(picture.root);
  place.append(
    element("div", { class: "toolbar" }, [
      switches("Direction", [["down", "Roots at top"], ["up", "Roots at bottom"]], "down", (value) => { upside = value === "up"; redraw(); }).root,
      choice("Colour by", [["name", "name"], ["module", "module"], ["kind", "kind"], ["exclusive", "exclusive cost"], ["inclusive", "inclusive cost"]], colouring, (value) => {
        colouring = value;
        colours = colourer(tree, metric, colouring);
        redraw();
      }).root,
      button("Reset zoom", "Show everything again (Escape)", () => zoom(-1)),
      share,
      element("span", { class: "gap" }),
      picture.buttons,
    ]),
    crumbs,
    scroller,
    legend,
  );

  function redraw() {
    const room = (scroller.clientHeight - 8 - MAP - 12) / (layout.deepest + 1);
    row = Math.floor(Math.min(Math.max(room, LOWEST), HIGHEST));
    picture.canvas.dataset.row = String(row);
    spacer.style.height = `${Math.max(scroller.clientHeight - 8, MAP + 8 + (layout.deepest + 1) * row + 4)}px`;
    drawCrumbs();
    drawLegend(legend, colours);
    share.textContent = found ? `“${view.get("search").trim()}”: ${percent(found.share)} of ${data.metrics[metric].name} (${amountOf(data.metrics[metric].unit)(found.cost)}) in ${count(found.n)} ${found.n === 1 ? "call" : "calls"}` : "";
    picture.redraw();
  }

  /** Where the box of a call is drawn. */
  function boxOf(i, width, height, scroll) {
    const x = ((layout.from[i] - from) / (to - from)) * width;
    const right = ((layout.to[i] - from) / (to - from)) * width;
    const level = tree.depth[i];
    const y = upside ? height - (level + 1) * row + scroll : MAP + 8 + level * row - scroll;
    return { x: Math.max(x, 0), right: Math.min(right, width), y };
  }

  function scrolled(height) {
    // with roots at the bottom, the end of the scroll range is where it begins
    return upside ? Math.max(0, spacer.offsetHeight - height - scroller.scrollTop) : scroller.scrollTop;
  }

  function draw(surface, width, height) {
    const theme = themeColours();
    const scroll = scrolled(height);
    visit(tree, metric, layout, from, to, NARROWEST / width, (i) => {
      const { x, right, y } = boxOf(i, width, height, scroll);
      if (y > height || y + row < MAP) return;
      drawBox(surface, i, x, right - x, y, theme);
    });
    if (cursor >= 0) {
      const { x, right, y } = boxOf(cursor, width, height, scroll);
      if (right > x) surface.rect(x, y, Math.max(right - x, 2), row - 1, "", theme.ink);
    }
    drawMap(surface, width, theme);
  }

  function drawBox(surface, i, x, width, y, theme) {
    let fill = colours.of(i);
    let ink = inkOn(fill);
    if (found) {
      if (found.is[i]) [fill, ink] = [theme.mark, inkOn(theme.mark)];
      else [fill, ink] = [mixed(fill, theme.ground, 0.72), theme.muted];
    }
    if (width < 4 && !found) fill = mixed(fill, theme.ground, 0.3); // a crowd of them must not outshine what can be read
    surface.rect(x, y, Math.max(width - (width > 3 ? 1 : 0), 0.5), row - 1, fill);
    const style = { fill: ink, size: 12 };
    const text = width > 24 ? fitting(surface, shortName(tree.name(i), tree.kind(i)), width - 10, style) : "";
    if (text) surface.text(x + 5, y + row / 2 - 0.5, text, style);
  }

  /** Everything in small, and which part of it is in sight. */
  function drawMap(surface, width, theme) {
    surface.rect(0, 0, width, MAP, theme.ground);
    const level = Math.min(5, MAP / (layout.deepest + 1));
    visit(tree, metric, layout, 0, 1, 1 / width, (i) => {
      const fill = found && found.is[i] ? theme.mark : mixed(colours.of(i), theme.ground, found ? 0.7 : 0.25);
      surface.rect(layout.from[i] * width, tree.depth[i] * level, Math.max((layout.to[i] - layout.from[i]) * width, 0.5), Math.max(level - 0.5, 0.5), fill);
    });
    if (from > 0 || to < 1) surface.rect(from * width, 0, Math.max((to - from) * width, 3), MAP, "", theme.accent);
    surface.line([[0, MAP + 3.5], [width, MAP + 3.5]], theme.faint);
  }

  function at(event) {
    const box = picture.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const { width, height } = picture.size();
    if (y < MAP) return -1;
    const scroll = scrolled(height);
    const level = Math.floor(upside ? (height + scroll - y) / row : (y - MAP - 8 + scroll) / row);
    return callAt(tree, metric, layout, from + (x / width) * (to - from), level);
  }

  /** Fill the width with a call; -1 is everything. */
  function zoom(i) {
    focus = i;
    [from, to] = i < 0 ? [0, 1] : [layout.from[i], layout.to[i]];
    if (!(to > from)) [from, to] = [0, 1];
    redraw();
  }

  function zoomAround(middle, factor) {
    const width = Math.min(1, Math.max((to - from) * factor, 1e-9));
    const part = (middle - from) / (to - from);
    from = Math.max(0, Math.min(middle - part * width, 1 - width));
    to = from + width;
    focus = width >= 1 ? -1 : focus;
    redraw();
  }

  function drawCrumbs() {
    const path = focus < 0 ? [] : tree.path(focus);
    const shown = path.length > 8 ? [...path.slice(0, 3), -2, ...path.slice(-4)] : path;
    crumbs.replaceChildren(
      button("everything", "Show everything", () => zoom(-1)),
      ...shown.flatMap((i) => [
        element("span", { text: "›", attributes: { "aria-hidden": "true" } }),
        i === -2 ? element("span", { text: "…" }) : button(shortName(tree.name(i), tree.kind(i)), tree.name(i), () => zoom(i)),
      ]),
    );
  }

  function move(next) {
    if (next < 0) return;
    cursor = next;
    if (layout.to[cursor] <= from || layout.from[cursor] >= to) zoom(tree.parent[cursor]);
    const { width, height } = picture.size();
    const level = tree.depth[cursor];
    if (!upside) {
      const top = level * row;
      if (top < scroller.scrollTop) scroller.scrollTop = top;
      if (top + MAP + row + 12 > scroller.scrollTop + height) scroller.scrollTop = top + MAP + row + 12 - height;
    }
    const box = picture.canvas.getBoundingClientRect();
    const where = boxOf(cursor, width, height, scrolled(height));
    tooltip.show(tree.details(cursor, metric), box.left + where.x, box.top + where.y);
    picture.redraw();
  }

  const keys = {
    ArrowDown: () => move(upside ? above() : below()),
    ArrowUp: () => move(upside ? below() : above()),
    ArrowLeft: () => move(beside(-1)),
    ArrowRight: () => move(beside(1)),
    Enter: () => zoom(cursor),
    " ": () => zoom(cursor),
    Escape: () => { tooltip.hide(); zoom(-1); },
    Backspace: () => zoom(focus < 0 ? -1 : tree.parent[focus]),
    "+": () => zoomAround((from + to) / 2, 0.5),
    "=": () => zoomAround((from + to) / 2, 0.5),
    "-": () => zoomAround((from + to) / 2, 2),
  };
  const list = () => tree.byCost(metric);
  const below = () => {
    const from_ = cursor < 0 ? tree.root : cursor;
    return tree.hasChildren(from_) ? list()[tree.start[from_]] : cursor;
  };
  const above = () => (cursor < 0 ? below() : tree.parent[cursor] < 0 ? cursor : tree.parent[cursor]);
  const beside = (step) => {
    if (cursor < 0) return below();
    const parent = tree.parent[cursor] < 0 ? tree.root : tree.parent[cursor];
    const siblings = list().subarray(tree.start[parent], tree.start[parent + 1]);
    return siblings[Math.min(Math.max(siblings.indexOf(cursor) + step, 0), siblings.length - 1)];
  };

  picture.canvas.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });
  picture.canvas.addEventListener("click", (event) => {
    const hit = at(event);
    cursor = hit;
    if (hit >= 0) zoom(hit === focus ? tree.parent[hit] : hit);
    else if (event.offsetY < MAP) zoomAround(event.offsetX / picture.size().width, 1);
  });
  picture.canvas.addEventListener("mousemove", (event) => {
    const hit = at(event);
    picture.canvas.style.cursor = hit >= 0 ? "pointer" : "default";
    if (hit >= 0) tooltip.show(tree.details(hit, metric), event.clientX, event.clientY);
    else tooltip.hide();
  });
  picture.canvas.addEventListener("mouseleave", () => tooltip.hide());
  picture.canvas.addEventListener("blur", () => tooltip.hide());
  picture.canvas.addEventListener("wheel", (event) => {
    const scrolls = scroller.scrollHeight > scroller.clientHeight + 1;
    if (scrolls && !event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const delta = event.deltaY || event.deltaX;
    zoomAround(from + (event.offsetX / picture.size().width) * (to - from), delta > 0 ? 1.25 : 0.8);
  }, { passive: false });
  scroller.addEventListener("scroll", () => { tooltip.hide(); picture.redraw(); }, { passive: true });
  new ResizeObserver(redraw).observe(scroller);

  view.watch("metric", (name) => {
    metric = chosenMetric(data.metrics, name);
    layout = layOut(tree, metric);
    colours = colourer(tree, metric, colouring);
    found = searched(tree, metric, view.get("search"));
    zoom(-1);
  });
  view.watch("search", (text) => {
    found = searched(tree, metric, text);
    redraw();
  });
  redraw();
}

/** The metric of that name, if its costs add up; else the first whose costs do. */
function chosenMetric(metrics, name) {
  const wanted = metrics.findIndex((one) => one.name === name && one.additive);
  return wanted >= 0 ? wanted : metrics.findIndex((one) => one.additive);
}
