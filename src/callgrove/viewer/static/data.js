/**
 * The document of a page, as viewer/page.py wrote it: JSON whose columns lie in one deflated blob. In the answer of a
 * server, large columns may stand in front as they are.
 *
 *     {"$a": [type, offset, length]}      numbers, as a typed array
 *     {"$a": [type, offset, length, 1]}   those of a large column
 *     {"$t": [type, offset, length]}      texts, by their number among the strings of the document
 *
 * @typedef {keyof typeof TYPES} Type
 * @typedef {[type: Type, offset: number, length: number, large?: 1]} Place
 *
 * @typedef {Object} Source
 * @property {Uint8Array} bytes
 * @property {ArrayBuffer | null} answer  that large columns lie in
 * @property {string[]} strings
 * @property {Map<string, unknown>} known  columns by place
 */

const TYPES = {
  u1: Uint8Array,
  i1: Int8Array,
  u2: Uint16Array,
  i2: Int16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};

const HEAD = 8; // bytes in front of the large columns of an answer

/**
 * @param {string} text
 * @returns {Promise<unknown>}
 */
export async function unpack(text) {
  const { blob, ...packed } = JSON.parse(text);
  const deflated = Uint8Array.from(atob(blob), (letter) => letter.charCodeAt(0));
  return joined(packed, await inflated(deflated), null);
}

/**
 * @param {ArrayBuffer} answer
 * @returns {Promise<unknown>}
 */
export async function unpackAnswer(answer) {
  const head = new DataView(answer);
  const at = HEAD + head.getUint32(0, true);
  const end = at + head.getUint32(4, true);
  const packed = JSON.parse(new TextDecoder().decode(new Uint8Array(answer, at, end - at)));
  return joined(packed, await inflated(new Uint8Array(answer, end)), answer);
}

/** @param {Uint8Array<ArrayBuffer>} deflated */
async function inflated(deflated) {
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * @param {{ strings: [number, number] }} document
 * @param {Uint8Array} bytes
 * @param {ArrayBuffer | null} answer
 */
function joined({ strings: [at, size], ...packed }, bytes, answer) {
  const strings = JSON.parse(new TextDecoder().decode(bytes.subarray(at, at + size)));
  return filled(packed, { bytes, answer, strings, known: new Map() });
}

/**
 * The value with columns in place of what points to them; the same place gives the same column.
 * @param {unknown} value
 * @param {Source} source
 * @returns {unknown}
 */
function filled(value, source) {
  if (Array.isArray(value)) return value.map((part) => filled(part, source));
  if (value === null || typeof value !== "object") return value;
  if ("$a" in value) return known(`a${value.$a}`, source, () => column(/** @type {Place} */ (value.$a), source));
  if ("$t" in value) return known(`t${value.$t}`, source, () => texts(/** @type {Place} */ (value.$t), source));
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, filled(part, source)]));
}

/**
 * @param {string} key
 * @param {Source} source
 * @param {() => unknown} make
 */
function known(key, source, make) {
  if (!source.known.has(key)) source.known.set(key, make());
  return source.known.get(key);
}

/**
 * @param {Place} place
 * @param {Source} source
 */
function texts(place, source) {
  return Array.from(column(place, source), (number) => source.strings[number]);
}

/**
 * Numbers as they are, or from their byte planes. Like these, typed arrays of all machines in use are little-endian.
 * @param {Place} place
 * @param {Source} source
 */
function column([type, offset, length, large], { bytes, answer }) {
  const Type = TYPES[type];
  const width = Type.BYTES_PER_ELEMENT;
  if (large && answer) return new Type(answer, HEAD + offset, length);
  if (width === 1) return new Type(bytes.slice(offset, offset + length).buffer);
  const whole = new Uint8Array(length * width);
  for (let plane = 0; plane < width; plane++) {
    const start = offset + plane * length;
    for (let i = 0; i < length; i++) whole[i * width + plane] = bytes[start + i];
  }
  return new Type(whole.buffer);
}
