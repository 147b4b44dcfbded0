/**
 * The document of a page, as viewer/page.py wrote it: JSON whose columns lie in one deflated blob.
 *
 *     {"$a": [type, offset, length]}   numbers, as a typed array
 *     {"$t": [type, offset, length]}   texts, by their number among the strings of the document
 *
 * @typedef {keyof typeof TYPES} Type
 * @typedef {[type: Type, offset: number, length: number]} Place
 * @typedef {{ bytes: Uint8Array, strings: string[], known: Map<string, unknown> }} Source  known: columns by place
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

/**
 * @param {string} text
 * @returns {Promise<unknown>}
 */
export async function unpack(text) {
  const { blob, strings: place, ...packed } = JSON.parse(text);
  const bytes = await inflated(blob);
  const [at, size] = place;
  const strings = JSON.parse(new TextDecoder().decode(bytes.subarray(at, at + size)));
  return filled(packed, { bytes, strings, known: new Map() });
}

/** @param {string} base64 */
async function inflated(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
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
  if ("$a" in value) return known(`a${value.$a}`, source, () => column(/** @type {Place} */ (value.$a), source.bytes));
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
function texts(place, { bytes, strings }) {
  return Array.from(column(place, bytes), (number) => strings[number]);
}

/**
 * Numbers from their byte planes. Like the planes, typed arrays of all machines in use are little-endian.
 * @param {Place} place
 * @param {Uint8Array} bytes
 */
function column([type, offset, length], bytes) {
  const Type = TYPES[type];
  const width = Type.BYTES_PER_ELEMENT;
  if (width === 1) return new Type(bytes.slice(offset, offset + length).buffer);
  const whole = new Uint8Array(length * width);
  for (let plane = 0; plane < width; plane++) {
    const start = offset + plane * length;
    for (let i = 0; i < length; i++) whole[i * width + plane] = bytes[start + i];
  }
  return new Type(whole.buffer);
}
