/**
 * The boxes of a timeline (viewer/timeline/boxes.py), by track: a level of calls of a row, or its line, which shows the
 * innermost calls down to some depth. Boxes of a track are in the order of their starts; they may overlap where
 * operations ran at once.
 *
 * @import { LayerData, Numbers } from "./documents.js"
 *
 * @typedef {Object} Boxes
 * @property {Numbers} start
 * @property {Numbers} end
 * @property {Numbers} latest  the latest end of a box and of those before it in its track
 * @property {Numbers} name
 * @property {Numbers} share  what the name took of the time, of 255
 * @property {Numbers} busy  what any name took of it
 * @property {Numbers} [level]  of each box, where they differ
 *
 * @typedef {Object} Track
 * @property {number} row
 * @property {number} level  how deep its calls lie, or how deep they are cut
 * @property {number} first  number of its first box
 * @property {number} last   the one after its last
 * @property {Boxes} boxes
 * @property {boolean} alone  its boxes are not calls: levels tell operations apart that ran at once
 *
 * @typedef {Object} Layer
 * @property {number} from  ns since the beginning of the timeline
 * @property {number} to
 * @property {number} tick  ns: the width of a bin
 * @property {boolean} exact  boxes are events
 * @property {LayerData["shows"]} shows
 * @property {Track[][]} ofRow  the levels of each row, the outermost first
 * @property {Track[][]} lines  the lines of each row, those cut at the lowest depth first
 * @property {number[]} levels  those that any row has
 */

const WHOLE = 255;
const ALONE = ["kernel", "copy", "memset", "overhead"];
export const INNERMOST = 64; // the depth at which nothing is cut

/**
 * @param {LayerData} data
 * @param {number} nRows
 * @param {string[]} kinds  of names
 * @returns {Layer}
 */
export function createLayer(data, nRows, kinds) {
  const boxes = placedBoxes(data);
  /** @type {Track[][]} */
  const ofRow = Array.from({ length: nRows }, () => []);
  /** @type {Track[][]} */
  const lines = Array.from({ length: nRows }, () => []);
  let first = 0;
  for (let t = 0; t < data.row.length; t++) {
    const last = first + data.count[t];
    const alone = ALONE.includes(kinds[data.name[first]]);
    const track = { row: data.row[t], level: data.level[t], first, last, boxes, alone };
    (data.line[t] ? lines : ofRow)[track.row].push(track);
    first = last;
  }
  const levels = [...new Set(ofRow.flat().map((track) => track.level))].sort((a, b) => a - b);
  const { start_ns: from, end_ns: to, tick_ns: tick, exact, shows } = data;
  return { from, to, tick, exact, shows, ofRow, lines, levels };
}

/**
 * Boxes with their times, from the gaps between them.
 * @param {LayerData} data
 * @returns {Boxes}
 */
function placedBoxes(data) {
  const n = data.gap.length;
  const [start, end, latest] = [new Float64Array(n), new Float64Array(n), new Float64Array(n)];
  let first = 0;
  for (let t = 0; t < data.row.length; t++) {
    const last = first + data.count[t];
    let [at, most] = [0, -Infinity];
    for (let i = first; i < last; i++) {
      at += data.gap[i];
      start[i] = data.base_ns + at * data.tick_ns;
      at += data.length[i];
      end[i] = Math.min(data.base_ns + at * data.tick_ns, data.exact ? Infinity : data.end_ns);
      latest[i] = most = Math.max(most, end[i]);
    }
    first = last;
  }
  return { start, end, latest, name: data.name, share: data.share, busy: data.busy };
}

/**
 * The line of a row: its innermost calls that are no deeper than a level. Of events it is found here.
 * @param {Layer} layer
 * @param {number} row
 * @param {number} deepest
 * @param {string[]} kinds  of names
 * @returns {Track | undefined}
 */
export function lineOf(layer, row, deepest, kinds) {
  const known = layer.lines[row].find((track) => track.level === deepest);
  if (known || !layer.exact || !layer.ofRow[row].length) return known;
  const made = innermost(
    layer.ofRow[row].filter((track) => track.level <= deepest || track.alone),
    row,
    deepest,
    kinds,
  );
  layer.lines[row].push(made);
  return made;
}

/**
 * Pieces of time, each of the call that was open then and started last. Operations of devices keep their whole time.
 * @param {Track[]} tracks
 * @param {number} row
 * @param {number} level
 * @param {string[]} kinds  of names
 * @returns {Track}
 */
function innermost(tracks, row, level, kinds) {
  const pieces = innermostPieces(tracks, kinds);
  pieces.sort((a, b) => a.start - b.start || b.end - a.end);
  const n = pieces.length;
  /** @param {keyof Piece} key */
  const column = (key) => Float64Array.from(pieces, (piece) => piece[key]);
  const end = column("end");
  const latest = end.slice();
  for (let i = 1; i < n; i++) latest[i] = Math.max(latest[i], latest[i - 1]);
  const whole = new Uint8Array(n).fill(WHOLE);
  const [start, name, levels] = [column("start"), column("name"), column("level")];
  const boxes = { start, end, latest, name, share: whole, busy: whole, level: levels };
  return { row, level, first: 0, last: n, boxes, alone: false };
}

/**
 * @typedef {{ start: number, end: number, name: number, level: number }} Piece
 * @typedef {{ end: number, name: number, level: number, from: number }} Call  that is open; from: what is left of it
 *
 * @param {Track[]} tracks
 * @param {string[]} kinds  of names
 */
function innermostPieces(tracks, kinds) {
  const alone = kinds.map((kind) => ALONE.includes(kind));
  const all = tracks.flatMap(({ first, last, level, boxes }) =>
    Array.from({ length: last - first }, (_, k) => ({ i: first + k, level, boxes })),
  );
  all.sort(
    (a, b) => a.boxes.start[a.i] - b.boxes.start[b.i] || a.level - b.level || b.boxes.end[b.i] - a.boxes.end[a.i],
  );
  /** @type {Piece[]} */
  const pieces = [];
  /** @type {Call[]} */
  const open = [];
  for (const { i, level, boxes } of all) {
    const [start, end, name] = [boxes.start[i], boxes.end[i], boxes.name[i]];
    if (alone[name] || end === start) {
      pieces.push({ start, end, name, level });
      continue;
    }
    closeUntil(start, open, pieces);
    const above = open.at(-1);
    if (above && start > above.from)
      pieces.push({ start: above.from, end: start, name: above.name, level: above.level });
    if (above) above.from = Math.max(above.from, start);
    open.push({ end, name, level, from: start });
  }
  closeUntil(Infinity, open, pieces);
  return pieces;
}

/**
 * Close the calls that end until a time, the innermost first.
 * @param {number} time
 * @param {Call[]} open
 * @param {Piece[]} pieces
 */
function closeUntil(time, open, pieces) {
  for (let call = open.at(-1); call && call.end <= time; call = open.at(-1)) {
    const { end, name, level, from } = call;
    open.pop();
    if (end > from) pieces.push({ start: from, end, name, level });
    const below = open.at(-1);
    if (below) below.from = Math.max(below.from, end);
  }
}

/**
 * The boxes of a track that touch a window: [first, last).
 * @param {Track} track
 * @param {number} from
 * @param {number} to
 * @returns {[number, number]}
 */
export function within(track, from, to) {
  return [
    firstAt(track.boxes.latest, track.first, track.last, from),
    firstAt(track.boxes.start, track.first, track.last, to),
  ];
}

/**
 * The first place in [low, high) whose number is at least the one wanted; `high` where there is none.
 * @param {Numbers} numbers
 * @param {number} low
 * @param {number} high
 * @param {number} wanted
 */
function firstAt(numbers, low, high, wanted) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The box at a time, or the nearest one that is not further away than `near`; -1 where there is none.
 * @param {Track} track
 * @param {number} time
 * @param {number} near
 * @returns {number}
 */
export function boxAt(track, time, near) {
  const { start, end } = track.boxes;
  const [first, last] = within(track, time - near, time + near);
  let [best, far] = [-1, Infinity];
  for (let i = first; i < last; i++) {
    const away = Math.max(start[i] - time, time - end[i], 0);
    if (away <= near && away <= far) [best, far] = [i, away];
  }
  return best;
}

/**
 * What a stretch of time shows: the name with the most time in it, and how much that is; -1 where there is none.
 * @typedef {{i: number, start: number, end: number, share: number, busy: number}} Cell  i: a box of that name
 * @param {Track} track
 * @param {number} from
 * @param {number} to
 * @returns {Cell}
 */
export function cellOf(track, from, to) {
  const { boxes } = track;
  /** @type {Map<number, {time: number, i: number}>} */
  const times = new Map();
  const [first, last] = within(track, from, to);
  let all = 0;
  for (let i = first; i < last; i++) {
    const length = Math.max(Math.min(boxes.end[i], to) - Math.max(boxes.start[i], from), 0);
    const own = times.get(boxes.name[i]) ?? { time: 0, i };
    own.time += length * shareOf(boxes, i);
    all += length * (boxes.busy[i] / WHOLE);
    times.set(boxes.name[i], own);
  }
  let best = { time: -1, i: -1 };
  for (const own of times.values()) if (own.time > best.time) best = own;
  /** @param {number} time */
  const part = (time) => Math.min(Math.max(time, 0) / (to - from), 1);
  return { i: best.i, start: from, end: to, share: part(best.time), busy: part(all) };
}

/**
 * How much of a box its name took, of 1.
 * @param {Boxes} boxes
 * @param {number} i
 */
export function shareOf(boxes, i) {
  return boxes.share[i] / WHOLE;
}

/**
 * How much of a box any name took, of 1.
 * @param {Boxes} boxes
 * @param {number} i
 */
export function busyOf(boxes, i) {
  return boxes.busy[i] / WHOLE;
}
