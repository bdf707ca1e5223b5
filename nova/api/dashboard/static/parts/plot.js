// Lines over time as SVG. The last values stand below as text, and all of them in a table.
import {html, useState} from '../core/html.js';
import {bytes, language, number, t} from '../core/text.js';

const WIDTH = 420,
  HEIGHT = 150,
  LEFT = 66,
  TOP = 8,
  BOTTOM = 132;
const LEAST_S = 60; // that a plot spans, however little is known
const DAY_S = 86400;

/** How values of a unit are written. @type {Record<string, (value: number) => string>} */
const SHOWN = {
  second: value => number(value, 2),
  seconds: value => (value < 1 ? `${number(value * 1000, 1)} ms` : `${number(value, 2)} s`),
  bytes: value => bytes(value),
  rate: value => `${bytes(value)}/s`,
  share: value => `${number(value * 100, 1)} %`,
  count: value => number(value),
};
const BINARY = ['bytes', 'rate'];

/** @typedef {{label: string, values: (number | null)[]}} Line */

/** The next value that reads well on an axis. @param {number} high @param {number} base  of its prefixes: 10 or 1024 */
function ceiling(high, base) {
  const unit = base ** Math.floor(Math.log(high) / Math.log(base));
  const scale = unit * 10 ** Math.floor(Math.log10(high / unit));
  return ([1, 2, 5, 10].find(step => step * scale >= high) ?? 20) * scale;
}

/**
 * @param {{title: string, times: number[], lines: Line[], unit: string, most?: number}} props
 *   times in seconds since 1970, a value of each line for each; null is a gap. most: the axis reaches it
 */
export function Plot({title, times, lines, unit, most = 0}) {
  const show = SHOWN[unit];
  const known = lines.flatMap(line => line.values).filter(value => value !== null);
  const high = Math.max(0, .../** @type {number[]} */ (known));
  const top = high > most ? ceiling(high, BINARY.includes(unit) ? 1024 : 10) : most || 1;
  const end = times[times.length - 1],
    begin = Math.min(times[0], end - LEAST_S);
  const x = (/** @type {number} */ time) => LEFT + ((time - begin) / (end - begin)) * (WIDTH - LEFT - 4);
  const y = (/** @type {number} */ value) => BOTTOM - (value / top) * (BOTTOM - TOP);
  return html`<svg class="plot" viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true">
      ${[0, 0.5, 1].map(part => html`<line x1=${LEFT} x2=${WIDTH} y1=${y(part * top)} y2=${y(part * top)} /><text x=${LEFT - 6} y=${y(part * top) + 4} text-anchor="end">${show(part * top)}</text>`)}
      ${['start', 'middle', 'end'].map((anchor, place) => html`<text x=${LEFT + (place * (WIDTH - LEFT)) / 2} y=${HEIGHT - 3} text-anchor=${anchor}>${clock(begin + (place * (end - begin)) / 2, end - begin)}</text>`)}
      ${lines.map((line, index) => html`<path class="tone-${index}" d=${drawn(line.values.map((value, place) => (value === null ? null : [x(times[place]), y(value)])))} />`)}
    </svg>
    <ul class="plot-lines" aria-label=${title}>${lines.map((line, index) => {
      const value = line.values.at(-1) ?? line.values.at(-2); // the slot in progress may have no value yet
      return html`<li class="tone-${index}"><span class="quiet">${line.label}</span> <strong>${value === null || value === undefined ? '–' : show(value)}</strong></li>`;
    })}</ul>
    <${Values} ...${{title, times, lines, show}} />`;
}

/** A time on the axis or in the table. @param {number} time @param {number} span  seconds that the plot shows */
const clock = (time, span) =>
  new Intl.DateTimeFormat(language(), {
    ...(span > DAY_S ? {weekday: 'short', day: 'numeric'} : {}),
    hour: '2-digit',
    minute: '2-digit',
    ...(span < 600 ? {second: '2-digit'} : {}),
  }).format(time * 1000);

/** The path through points; one without neighbours is a dot. @param {(number[] | null)[]} points */
function drawn(points) {
  return points
    .map((point, place) => {
      if (!point) return '';
      const [left, down] = point.map(value => value.toFixed(1));
      return place && points[place - 1] ? `L${left} ${down}` : `M${left} ${down}h0`;
    })
    .join('');
}

/** All values, the newest first, for who does not see the plot. @param {{title: string, times: number[], lines: Line[], show: (value: number) => string}} props */
function Values({title, times, lines, show}) {
  const [open, setOpen] = useState(false);
  const span = times[times.length - 1] - times[0];
  return html`<details class="plot-values" onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}><summary>${t('Values of {name}', {name: title})}</summary>
    ${
      open &&
      html`<div class="plot-table" tabindex="0" role="region" aria-label=${t('Values of {name}', {name: title})}><table>
      <thead><tr><th scope="col">${t('Time')}</th>${lines.map(line => html`<th scope="col">${line.label}</th>`)}</tr></thead>
      <tbody>${times
        .map((time, place) => ({time, values: lines.map(line => line.values[place])}))
        .filter(row => row.values.some(value => value !== null))
        .reverse()
        .map(row => html`<tr key=${row.time}><th scope="row">${clock(row.time, span)}</th>${row.values.map(value => html`<td>${value === null ? '–' : show(value)}</td>`)}</tr>`)}</tbody></table></div>`
    }</details>`;
}
