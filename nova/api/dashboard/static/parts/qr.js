// QR codes (ISO/IEC 18004) of texts up to 134 bytes: versions 1 to 6, error correction level L, mask 0.
import {html} from '../core/html.js';

const DATA = [19, 34, 55, 80, 108, 136]; // codewords by version
const CHECK = [7, 10, 15, 20, 26, 18]; // codewords of error correction of a block; version 6 has two blocks
const FORMAT = 0x77c4; // level L, mask 0
const QUIET = 4; // modules of white around

/** Powers of 2, and their logarithms, in the field GF(256) of QR codes. @type {number[]} */
const POWER = [],
  /** @type {number[]} */
  LOG = [];
for (let at = 0, value = 1; at < 255; at++) {
  POWER[at] = value;
  LOG[value] = at;
  value = value < 128 ? value * 2 : (value * 2) ^ 0x11d;
}
const times = (/** @type {number} */ one, /** @type {number} */ other) => (one && other ? POWER[(LOG[one] + LOG[other]) % 255] : 0);

/** The codewords of error correction: the remainder of a division. @param {number[]} data @param {number} count */
function checked(data, count) {
  let divisor = [1];
  for (let at = 0; at < count; at++)
    divisor = [...divisor, 0].map((factor, place) => factor ^ times(place ? divisor[place - 1] : 0, POWER[at]));
  const rest = [...data, ...Array(count).fill(0)];
  data.forEach((_word, at) => {
    const lead = rest[at];
    divisor.forEach((factor, place) => (rest[at + place] ^= times(factor, lead)));
  });
  return rest.slice(data.length);
}

/** @param {number[][]} blocks */
const interleaved = blocks => blocks[0].flatMap((_word, at) => blocks.map(block => block[at]));

/** The codewords of a text. @param {number[]} bytes @param {number} version */
function codewords(bytes, version) {
  const halves = [4, bytes.length >> 4, bytes.length & 15, ...bytes.flatMap(byte => [byte >> 4, byte & 15]), 0];
  const data = halves.filter((_half, at) => at % 2 === 0).map((half, at) => (half << 4) | halves[at * 2 + 1]);
  for (let pad = 0xec; data.length < DATA[version - 1]; pad ^= 0xec ^ 0x11) data.push(pad);
  const blocks = version === 6 ? [data.slice(0, 68), data.slice(68)] : [data];
  return [...interleaved(blocks), ...interleaved(blocks.map(block => checked(block, CHECK[version - 1])))];
}

/**
 * The modules of a text by row, true for black; null if it is too long.
 * @param {string} text @returns {boolean[][] | null}
 */
export function modules(text) {
  const bytes = [...new TextEncoder().encode(text)];
  const version = DATA.findIndex(count => bytes.length + 2 <= count) + 1;
  if (!version) return null;
  const size = 17 + 4 * version;
  /** @type {(boolean | null)[][]} */
  const grid = Array.from({length: size}, () => Array(size).fill(null));
  const set = (/** @type {number} */ x, /** @type {number} */ y, /** @type {boolean} */ black) => {
    if (grid[y]?.[x] !== undefined) grid[y][x] = black;
  };
  for (let at = 0; at < size; at++) {
    set(at, 6, at % 2 === 0);
    set(6, at, at % 2 === 0);
  }
  /** Squares around a place, whose rings of these radii are black. @type {(x: number, y: number, radius: number, black: number[]) => void} */
  const squares = (x, y, radius, black) => {
    for (let down = -radius; down <= radius; down++)
      for (let right = -radius; right <= radius; right++)
        set(x + right, y + down, black.includes(Math.max(Math.abs(right), Math.abs(down))));
  };
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) squares(x, y, 4, [0, 1, 3]);
  if (version > 1) squares(size - 7, size - 7, 2, [0, 2]);
  for (let bit = 0; bit < 15; bit++) {
    const black = ((FORMAT >> bit) & 1) === 1;
    if (bit < 8) set(8, bit < 6 ? bit : bit + 1, black);
    else set(bit === 8 ? 7 : 14 - bit, 8, black);
    if (bit < 8) set(size - 1 - bit, 8, black);
    else set(8, size - 15 + bit, black);
  }
  set(8, size - 8, true);
  const bits = codewords(bytes, version).flatMap(word => Array.from({length: 8}, (_one, at) => (word >> (7 - at)) & 1));
  let next = 0;
  for (let pair = size - 1, up = true; pair > 0; pair -= pair === 8 ? 3 : 2, up = !up)
    for (let step = 0; step < size; step++)
      for (const x of [pair, pair - 1]) {
        const y = up ? size - 1 - step : step;
        if (grid[y][x] === null) grid[y][x] = ((bits[next++] ?? 0) === 1) !== ((x + y) % 2 === 0);
      }
  return /** @type {boolean[][]} */ (grid);
}

/** A text as a QR code, black on white in each theme; nothing if it is too long. @param {{text: string, label: string}} props */
export function QrCode({text, label}) {
  const grid = modules(text);
  if (!grid) return null;
  const whole = grid.length + 2 * QUIET;
  const path = grid.flatMap((row, y) => row.flatMap((black, x) => (black ? [`M${x} ${y}h1v1h-1z`] : []))).join('');
  return html`<svg class="qr" role="img" aria-label=${label} viewBox=${`${-QUIET} ${-QUIET} ${whole} ${whole}`} width="196" height="196" shape-rendering="crispEdges">
    <rect x=${-QUIET} y=${-QUIET} width=${whole} height=${whole} fill="#fff" /><path d=${path} fill="#000" /></svg>`;
}
