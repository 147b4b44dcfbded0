/**
 * Costs of one row by rank and thread, as cells of a map: a column for each rank, or the places of a topology.
 *
 * @import { CellsData, TopologyData } from "./documents.js"
 *
 * @typedef {Object} Cell
 * @property {number} x
 * @property {number} y
 * @property {number} width
 * @property {number} height
 * @property {string} title
 * @property {number} mean
 * @property {number} low
 * @property {number} high
 * @property {boolean} many  it stands for several
 *
 * @typedef {Object} Mark  a text beside cells; y is that of its middle
 * @property {number} x
 * @property {number} y
 * @property {string} text
 * @property {"start" | "middle" | "end"} anchor
 * @property {number} room  pixels that it may take
 *
 * @typedef {{ cells: Cell[], marks: Mark[] }} CellMap
 */

export const LEFT = 64; // pixels for what stands beside cells
export const BELOW = 20;
export const BELOW_MAP = 40; // with what colours mean
const LETTER = 6; // pixels, about
const PLANE_GAP = 10;
const LINE = 14; // pixels of a text

/**
 * @param {CellsData} data
 * @param {number} width
 * @param {number} height
 * @returns {CellMap}
 */
export function gridMap({ grid, mean, low, high }, width, height) {
  const longest = grid.lanes.reduce((most, text) => Math.max(most, text.length), 0);
  const left = Math.min(Math.max(LETTER * longest + 10, LEFT), 0.45 * width);
  const [wide, tall] = [(width - left) / grid.columns.length, (height - BELOW_MAP) / grid.lanes.length];
  const cells = Array.from(grid.column, (column, i) => ({
    ...{ x: left + column * wide, y: grid.lane[i] * tall, width: wide, height: tall },
    ...{ title: `${grid.columns[column]} ${grid.lanes[grid.lane[i]]}`, mean: mean[i], low: low[i], high: high[i] },
    many: grid.n_profiles[i] > 1,
  }));
  const every = Math.ceil(LINE / tall);
  const beside = { x: left - 6, anchor: /** @type {const} */ ("end"), room: left - 8 };
  /** @type {Mark[]} */
  const marks = grid.lanes
    .map((text, k) => ({ ...beside, y: (k + 0.5) * tall, text }))
    .filter((_, k) => k % every === 0);
  const last = grid.columns.length - 1;
  const under = { y: height - BELOW_MAP + 11, room: (width - left) / (last > 0 ? 2 : 1) - 8 };
  marks.push({ ...under, x: left, text: grid.columns[0], anchor: "start" });
  if (last > 0) marks.push({ ...under, x: width - 2, text: grid.columns[last], anchor: "end" });
  return { cells, marks };
}

/**
 * The first dimension goes to the right, the second down, and the planes of further ones stand side by side.
 * @param {TopologyData} data
 * @param {number} width
 * @param {number} height
 * @returns {CellMap}
 */
export function topologyMap(data, width, height) {
  const { sizes, dimensions, coordinates, place, n_joined, mean, low, high } = data;
  const [across, down = 1, ...further] = sizes;
  const planes = further.reduce((product, size) => product * size, 1);
  const room = Math.max((width - LEFT - PLANE_GAP * (planes - 1)) / planes, 1);
  const side = Math.min(room / across, (height - BELOW_MAP) / down);
  const [wide, tall] = n_joined > 1 || side < 1 ? [room / across, (height - BELOW_MAP) / down] : [side, side];
  const cells = Array.from(mean, (_, i) => {
    const plane = further.reduce((number, size, k) => number * size + coordinates[k + 2][i], 0);
    const y = coordinates.length > 1 ? coordinates[1][i] : 0;
    const at = dimensions.map((name, k) => `${name} ${coordinates[k][i] * (k ? 1 : n_joined)}`).join(", ");
    const x = LEFT + plane * (across * wide + PLANE_GAP) + coordinates[0][i] * wide;
    const title = `${place[i]} (${at})`;
    const cost = { mean: mean[i], low: low[i], high: high[i], many: n_joined > 1 };
    return { x, y: y * tall, width: wide, height: tall, title, ...cost };
  });
  /** @type {Mark[]} */
  const marks = [
    {
      x: LEFT,
      y: Math.min(down * tall, height - BELOW_MAP) + 11,
      text: `${dimensions[0]} →`,
      anchor: "start",
      room: width - LEFT,
    },
  ];
  if (down > 1) marks.push({ x: LEFT - 6, y: 8, text: `${dimensions[1]} ↓`, anchor: "end", room: LEFT - 8 });
  return { cells, marks };
}

/**
 * The cell under a place; -1 where there is none.
 * @param {Cell[]} cells
 * @param {number} x
 * @param {number} y
 */
export function cellAt(cells, x, y) {
  return cells.findIndex((one) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + one.height);
}

/**
 * The nearest cell in a direction, or the same where there is none.
 * @param {Cell[]} cells
 * @param {number} from
 * @param {[right: number, down: number]} direction
 */
export function nextCell(cells, from, [right, down]) {
  if (from < 0) return cells.length ? 0 : -1;
  const here = cells[from];
  let best = from;
  let nearest = Infinity;
  cells.forEach((one, i) => {
    const along = right * (one.x - here.x) + down * (one.y - here.y);
    const beside = Math.abs(right ? one.y - here.y : one.x - here.x);
    const distance = along + 4 * beside;
    if (along > 1e-6 && distance < nearest) [best, nearest] = [i, distance];
  });
  return best;
}
