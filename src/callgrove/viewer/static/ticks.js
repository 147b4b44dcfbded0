/** Round numbers along an axis. */

/**
 * Marks at 1, 2 or 5 times a power of ten.
 * @param {number} from
 * @param {number} to
 * @param {number} most  marks at the most, about
 * @returns {{marks: number[], step: number}}
 */
export function ticksOf(from, to, most) {
  if (!(to > from)) return { marks: [from], step: 1 };
  const raw = (to - from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10);
  const marks = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to * (1 + 1e-12) + 1e-12; k++) marks.push(k * step);
  return { marks, step };
}

/**
 * Marks at powers of ten, and between them where these are few.
 * @param {number} from  above 0
 * @param {number} to
 * @param {number} most
 * @returns {number[]}
 */
export function logTicksOf(from, to, most) {
  const [low, high] = [Math.floor(Math.log10(from) + 1e-9), Math.ceil(Math.log10(to) - 1e-9)];
  const every = Math.max(1, Math.ceil((high - low) / most));
  const factors = (high - low) * 3 <= most && every === 1 ? [1, 2, 5] : [1];
  const marks = [];
  for (let power = low; power <= high; power += every) for (const factor of factors) marks.push(factor * 10 ** power);
  return marks.filter((mark) => mark >= from * (1 - 1e-9) && mark <= to * (1 + 1e-9));
}
