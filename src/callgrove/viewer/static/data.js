/**
 * The document of a page, as viewer/encoding.py wrote it: JSON whose columns lie in one deflated blob.
 *
 *     {"$a": [type, offset, length]}   numbers, as a typed array
 *     {"$t": [type, offset, length]}   texts, by their number among the strings of the document
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
 * @returns {Promise<any>}
 */
export async function unpack(text) {
  const document_ = JSON.parse(text);
  const bytes = await inflated(document_.blob);
  const [at, size] = document_.strings;
  const strings = JSON.parse(new TextDecoder().decode(bytes.subarray(at, at + size)));
  delete document_.blob;
  delete document_.strings;
  return filled(document_, bytes, strings, new Map());
}

async function inflated(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The value with columns in place of what points to them; the same place gives the same column. */
function filled(value, bytes, strings, known) {
  if (Array.isArray(value)) return value.map((part) => filled(part, bytes, strings, known));
  if (value === null || typeof value !== "object") return value;
  const place = value.$a ?? value.$t;
  if (place) {
    const key = `${value.$t ? "t" : "a"}${place[1]}/${place[0]}/${place[2]}`;
    if (!known.has(key)) {
      const numbers = column(place, bytes);
      known.set(key, value.$t ? Array.from(numbers, (number) => strings[number]) : numbers);
    }
    return known.get(key);
  }
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, filled(part, bytes, strings, known)]));
}

/** Numbers from their byte planes. Like the planes, typed arrays of all machines in use are little-endian. */
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
