/**
 * What stands below a picture that is saved: on the page its words and colours are explained around it.
 *
 * @import { Surface } from "./canvas.js"
 *
 * @typedef {Object} Key
 * @property {string} text
 * @property {string} [colour]  what it explains
 */

const [ROW, GAP, SWATCH, MARGIN] = [18, 16, 11, 8];
const STYLE = { size: 12 };

/**
 * Where the keys are, row by row as words are in a text.
 * @param {Surface} surface  to measure with
 * @param {Key[]} keys
 * @param {number} width
 * @returns {{ height: number, draw: (target: Surface, top: number, theme: { ink: string, muted: string }) => void }}
 */
export function laidOutCaption(surface, keys, width) {
  let [x, row] = [MARGIN, 0];
  const places = keys
    .filter((key) => key.text)
    .map((key) => {
      const wide = (key.colour ? SWATCH + 5 : 0) + surface.measure(key.text, STYLE);
      if (x > MARGIN && x + wide > width - MARGIN) [x, row] = [MARGIN, row + 1];
      const place = { ...key, x, row };
      x += wide + GAP;
      return place;
    });
  return {
    height: places.length ? (row + 1) * ROW + 2 * MARGIN : 0,
    draw(target, top, theme) {
      for (const { text, colour, x: left, row: line } of places) {
        const middle = top + MARGIN + (line + 0.5) * ROW;
        if (colour) target.rect(left, middle - SWATCH / 2, SWATCH, SWATCH, colour);
        target.text(left + (colour ? SWATCH + 5 : 0), middle, text, {
          fill: colour ? theme.muted : theme.ink,
          ...STYLE,
        });
      }
    },
  };
}
