/**
 * Where the cells of a heat map are.
 *
 * @import { GridData, Numbers } from "./documents.js"
 *
 * @typedef {ReturnType<typeof laidOut>} Layout
 */

const WRAP = 64; // cells in a row where there is only one lane
export const WIDEST = 110; // pixels of a cell

/**
 * Numbers of values, the largest first.
 * @param {Numbers} values
 * @returns {number[]}
 */
export function descending(values) {
  /** @param {number} i */
  const key = (i) => (Number.isNaN(values[i]) ? -Infinity : values[i]);
  return Array.from(values, (_, i) => i).sort((a, b) => (key(a) === key(b) ? a - b : key(b) - key(a)));
}

/**
 * Columns are ranks and rows are lanes; what has only one of either is wrapped like text.
 * @param {GridData} grid
 */
export function laidOut(grid) {
  const n = grid.column.length;
  const single = grid.lanes.length === 1 || grid.columns.length === 1;
  const x = new Int32Array(n);
  const y = new Int32Array(n);
  const nColumns = single ? Math.min(n, WRAP) : grid.columns.length;
  for (let i = 0; i < n; i++)
    [x[i], y[i]] = single ? [i % nColumns, Math.floor(i / nColumns)] : [grid.column[i], grid.lane[i]];
  const nRows = single ? Math.ceil(n / nColumns) : grid.lanes.length;
  const places = new Map(Array.from(x, (column, i) => [column + y[i] * nColumns, i]));
  const wrapped = single && nRows > 1;
  const names = grid.lanes.length === 1 ? grid.columns : grid.lanes;
  const columnNames = wrapped ? [] : single ? Array.from({ length: n }, (_, i) => names[i]) : grid.columns;
  return {
    x,
    y,
    nColumns,
    nRows,
    columnNames,
    rowNames: wrapped ? Array.from({ length: nRows }, (_, i) => names[i * nColumns] ?? "") : single ? [""] : grid.lanes,
    named: wrapped || !single,
    short: !single && columnNames.every((name) => /^rank \d+$/.test(name)),
    hint: single ? (wrapped ? `${nColumns} in a row` : "") : "a column for each rank, a row for each thread or stream",
    at: (/** @type {number} */ column, /** @type {number} */ row) =>
      column >= 0 && column < nColumns && row >= 0 && row < nRows ? (places.get(column + row * nColumns) ?? -1) : -1,
  };
}

/**
 * @param {number} width
 * @param {{nColumns: number, nRows: number}} layout
 * @returns {number}
 */
export function mapHeight(width, layout) {
  const cell = Math.min((width - 94) / layout.nColumns, WIDEST);
  const tall = Math.min(Math.max(cell, 14), 40);
  return Math.min(Math.max(layout.nRows * tall, 40), Math.max(layout.nRows * 4, 320)) + 46;
}
