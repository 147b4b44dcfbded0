/**
 * The boxes of a timeline (viewer/timeline/boxes.py), by track: a level of a row. Boxes of a track are in the order of
 * their starts; they may overlap where operations ran at once.
 *
 * @typedef {Object} Track
 * @property {number} row
 * @property {number} level
 * @property {number} first  number of its first box in the layer
 * @property {number} last   the one after its last
 *
 * @typedef {Object} Layer
 * @property {number} from  ns since the beginning of the timeline
 * @property {number} to
 * @property {number} tick  ns: the width of a bin
 * @property {boolean} exact  boxes are events
 * @property {Track[]} tracks
 * @property {Track[][]} ofRow  the tracks of each row, the outermost first
 * @property {Float64Array} start
 * @property {Float64Array} end
 * @property {Float64Array} latest  the latest end of a box and of those before it in its track
 * @property {ArrayLike<number>} name
 * @property {ArrayLike<number>} share  of 255
 */

const WHOLE = 255;
const ON_DEVICE = ["kernel", "copy", "memset"];

/**
 * @param {any} data  of one layer
 * @param {number} nRows
 * @returns {Layer}
 */
export function createLayer(data, nRows) {
  const n = data.gap.length;
  const [start, end, latest] = [new Float64Array(n), new Float64Array(n), new Float64Array(n)];
  const tracks = [];
  /** @type {Track[][]} */
  const ofRow = Array.from({ length: nRows }, () => []);
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
    const track = { row: data.row[t], level: data.level[t], first, last };
    tracks.push(track);
    ofRow[track.row].push(track);
    first = last;
  }
  return { from: data.start_ns, to: data.end_ns, tick: data.tick_ns, exact: data.exact, tracks, ofRow, start, end, latest, name: data.name, share: data.share };
}

/**
 * The boxes of a track that touch a window: [first, last).
 * @param {Layer} layer
 * @param {Track} track
 * @param {number} from
 * @param {number} to
 * @returns {[number, number]}
 */
export function within(layer, track, from, to) {
  return [firstAt(layer.latest, track.first, track.last, from), firstAt(layer.start, track.first, track.last, to)];
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
 * @param {Layer} layer
 * @param {Track} track
 * @param {number} time
 * @param {number} near
 * @returns {number}
 */
export function boxAt(layer, track, time, near) {
  const [first, last] = within(layer, track, time - near, time + near);
  let [best, far] = [-1, Infinity];
  for (let i = first; i < last; i++) {
    const away = Math.max(layer.start[i] - time, time - layer.end[i], 0);
    if (away <= near && away <= far) [best, far] = [i, away];
  }
  return best;
}

/** How much of a box its name took, of 1. */
export function shareOf(layer, i) {
  return layer.share[i] / WHOLE;
}

/**
 * Time by name without what boxes one level further in take of it: what a reader sees where deeper boxes cover others.
 * Operations of devices call nothing: those on other levels run at once.
 * @param {Layer} layer
 * @param {string[]} kinds  of names
 * @param {number} deepest  levels beyond are not there
 * @returns {Float64Array}
 */
export function ownTimes(layer, kinds, deepest) {
  const own = new Float64Array(kinds.length);
  const calls = kinds.map((kind) => !ON_DEVICE.includes(kind));
  const contains = (outer, i) => layer.start[outer] <= layer.start[i] && layer.end[i] <= layer.end[outer] && calls[layer.name[outer]];
  for (const tracks of layer.ofRow) {
    tracks.forEach((track, k) => {
      if (track.level > deepest) return;
      const above = tracks[k - 1];
      let outer = above ? above.first : 0;
      for (let i = track.first; i < track.last; i++) {
        const time = (layer.end[i] - layer.start[i]) * shareOf(layer, i);
        own[layer.name[i]] += time;
        if (!above) continue;
        while (outer < above.last && layer.end[outer] <= layer.start[i]) outer++;
        if (outer < above.last && contains(outer, i)) own[layer.name[outer]] -= time;
      }
    });
  }
  return own;
}
