/**
 * Pictures and tables as files.
 *
 * @typedef {string | number | null} Cell  of a table
 */

/**
 * @param {string} name
 * @param {Blob} blob
 */
export function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "-");
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * A table as CSV, in the dialect of `callgrove export`.
 * @param {string[]} header
 * @param {Iterable<Cell[]>} rows
 * @returns {string}
 */
export function csv(header, rows) {
  const lines = [header.map(csvCell).join(",")];
  for (const row of rows) lines.push(row.map(csvCell).join(","));
  return lines.join("\n") + "\n";
}

/** @param {Cell} cell */
function csvCell(cell) {
  if (cell === null) return "";
  if (typeof cell === "number") return Number.isNaN(cell) ? "nan" : String(cell).replace("Infinity", "inf");
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
