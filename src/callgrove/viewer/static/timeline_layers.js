/**
 * The boxes of a timeline (viewer/timeline/boxes.py), by track: a level of calls of a row, or its line, which shows the
 * innermost calls down to some depth. Boxes of a track are in the order of their starts; they may overlap where
 * operations ran at once.
 *
 * @typedef {Object} Boxes
 * @property {ArrayLike<number>} start
 * @property {ArrayLike<number>} end
 * @property {ArrayLike<number>} latest  the latest end of a box and of those before it in its track
 * @property {ArrayLike<number>} name
 * @property {ArrayLike<number>} share  what the name took of the time, of 255
 * @property {ArrayLike<number>} busy  what any name took of it
 * @property {ArrayLike<number>} [level]  of each box, where they differ
 *
 * @typedef {Object} Track
 * @property {number} row
 * @property {number} level  how deep its calls lie, or how deep they are cut
 * @property {number} first  number of its first box
 * @property {number} last   the one after its last
 * @property {Boxes} boxes
 * @property {boolean} alone  its boxes are no calls: levels tell operations apart that ran at once
 *
 * @typedef {Object} Layer
 * @property {number} from  ns since the beginning of the timeline
 * @property {number} to
 * @property {number} tick  ns: the width of a bin
 * @property {boolean} exact  boxes are events
 * @property {"all" | "line" | "levels"} shows
 * @property {Track[][]} ofRow  the levels of each row, the outermost first
 * @property {Track[][]} lines  the lines of each row, those cut at the lowest depth first
 * @property {number[]} levels  those that any row has
 */

const WHOLE = 255;
const ALONE = ["kernel", "copy", "memset", "overhead"];
export const INNERMOST = 64; // the depth at which nothing is cut

/**
 * @param {any} data  of one layer
 * @param {number} nRows
 * @param {string[]} kinds  of names
 * @returns {Layer}
 */
export function createLayer(data, nRows, kinds) {
  const n = data.gap.length;
  const boxes = {
    start: new Float64Array(n),
    end: new Float64Array(n),
    latest: new Float64Array(n),
    name: data.name,
    share: data.share,
    busy: data.busy,
  };
  /** @type {Track[][]} */
  const ofRow = Array.from({ length: nRows }, () => []);
  /** @type {Track[][]} */
  const lines = Array.from({ length: nRows }, () => []);
  let first = 0;
  for (let t = 0; t < data.row.length; t++) {
    const last = first + data.count[t];
    let [at, most] = [0, -Infinity];
    for (let i = first; i < last; i++) {
      at += data.gap[i];
      boxes.start[i] = data.base_ns + at * data.tick_ns;
      at += data.length[i];
      boxes.end[i] = Math.min(data.base_ns + at * data.tick_ns, data.exact ? Infinity : data.end_ns);
      boxes.latest[i] = most = Math.max(most, boxes.end[i]);
    }
    const track = {
      row: data.row[t],
      level: data.level[t],
      first,
      last,
      boxes,
      alone: ALONE.includes(kinds[data.name[first]]),
    };
    (data.line[t] ? lines : ofRow)[track.row].push(track);
    first = last;
  }
  const levels = [...new Set(ofRow.flat().map((track) => track.level))].sort((a, b) => a - b);
  return {
    from: data.start_ns,
    to: data.end_ns,
    tick: data.tick_ns,
    exact: data.exact,
    shows: data.shows,
    ofRow,
    lines,
    levels,
  };
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

/** Pieces of time, each of the call that was open then and started last. Operations of devices keep their whole time. */
function innermost(tracks, row, level, kinds) {
  const alone = kinds.map((kind) => ALONE.includes(kind));
  const all = tracks.flatMap((track) =>
    Array.from({ length: track.last - track.first }, (_, k) => ({
      i: track.first + k,
      level: track.level,
      boxes: track.boxes,
    })),
  );
  all.sort(
    (a, b) => a.boxes.start[a.i] - b.boxes.start[b.i] || a.level - b.level || b.boxes.end[b.i] - a.boxes.end[a.i],
  );
  /** @type {{start: number, end: number, name: number, level: number}[]} */
  const pieces = [];
  /** @type {{end: number, name: number, level: number, from: number}[]} */
  const open = [];
  const closeUntil = (time) => {
    while (open.length && open[open.length - 1].end <= time) {
      const { end, name, level: deep, from } = open.pop() ?? { end: 0, name: 0, level: 0, from: 0 };
      if (end > from) pieces.push({ start: from, end, name, level: deep });
      const below = open.at(-1);
      if (below) below.from = Math.max(below.from, end);
    }
  };
  for (const { i, level: deep, boxes } of all) {
    const [start, end, name] = [boxes.start[i], boxes.end[i], boxes.name[i]];
    if (alone[name] || end === start) {
      pieces.push({ start, end, name, level: deep });
      continue;
    }
    closeUntil(start);
    const above = open.at(-1);
    if (above && start > above.from)
      pieces.push({ start: above.from, end: start, name: above.name, level: above.level });
    if (above) above.from = Math.max(above.from, start);
    open.push({ end, name, level: deep, from: start });
  }
  closeUntil(Infinity);
  pieces.sort((a, b) => a.start - b.start || b.end - a.end);
  const n = pieces.length;
  const column = (key) => Float64Array.from(pieces, (piece) => piece[key]);
  const end = column("end");
  const latest = end.slice();
  for (let i = 1; i < n; i++) latest[i] = Math.max(latest[i], latest[i - 1]);
  const whole = new Uint8Array(n).fill(WHOLE);
  const boxes = {
    start: column("start"),
    end,
    latest,
    name: column("name"),
    share: whole,
    busy: whole,
    level: column("level"),
  };
  return { row, level, first: 0, last: n, boxes, alone: false };
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

/** The first place in [low, high) whose number is at least the one wanted; `high` where there is none. */
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
  const part = (time) => Math.min(Math.max(time, 0) / (to - from), 1);
  return { i: best.i, start: from, end: to, share: part(best.time), busy: part(all) };
}

/** How much of a box its name took, of 1. */
export function shareOf(boxes, i) {
  return boxes.share[i] / WHOLE;
}

/** How much of a box any name took, of 1. */
export function busyOf(boxes, i) {
  return boxes.busy[i] / WHOLE;
}
