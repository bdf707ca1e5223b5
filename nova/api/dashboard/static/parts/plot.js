// Lines over time. The values of the last moment stand below as text, for who does not see the plot.
import {html, useEffect, useRef} from '../core/html.js';
import uPlot from '../vendor/uplot.mjs';

const HEIGHT = 150;
const LEAST_S = 60; // that a plot spans, however little is known
const COLOURS = ['--accent', '--good', '--bad', '--warn'];

/** @typedef {{label: string, values: (number | null)[]}} Line */

/**
 * @param {{title: string, times: number[], lines: Line[], show: (value: number) => string}} props
 *   times in seconds since 1970, a value of each line for each
 */
export function Plot({title, times, lines, show}) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const drawn = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const parent = /** @type {HTMLElement} */ (place.current);
    const colour = (/** @type {string} */ name) => {
      parent.style.color = `var(${name})`;
      const found = getComputedStyle(parent).color;
      parent.style.color = '';
      return found;
    };
    const axis = () => ({stroke: () => colour('--quiet'), grid: {stroke: () => colour('--line'), width: 1}});
    const plot = new uPlot(
      {
        width: Math.max(parent.clientWidth, 100),
        height: HEIGHT,
        legend: {show: false},
        cursor: {show: false},
        scales: {
          x: {range: (/** @type {any} */ _plot, /** @type {number} */ low, /** @type {number} */ high) => [Math.min(low, high - LEAST_S), high]},
          y: {range: (/** @type {any} */ _plot, /** @type {number} */ _low, /** @type {number} */ high) => [0, high > 0 ? high * 1.1 : 1]},
        },
        series: [{}, ...lines.map((line, index) => ({label: line.label, stroke: () => colour(COLOURS[index]), width: 2, spanGaps: true}))],
        axes: [
          {...axis(), space: 70},
          {...axis(), size: 64, values: (/** @type {any} */ _plot, /** @type {number[]} */ ticks) => ticks.map(show)},
        ],
      },
      [times, ...lines.map(line => line.values)],
      parent,
    );
    drawn.current = plot;
    const watch = new ResizeObserver(([entry]) => plot.setSize({width: Math.max(entry.contentRect.width, 100), height: HEIGHT}));
    watch.observe(parent);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, []);
  useEffect(() => drawn.current?.setData([times, ...lines.map(line => line.values)]));
  return html`<div class="plot" aria-hidden="true" ref=${place}></div>
    <ul class="plot-lines" aria-label=${title}>${lines.map((line, index) => {
      const value = line.values.at(-1);
      return html`<li class="tone-${index}"><span class="quiet">${line.label}</span> <strong>${value === null || value === undefined ? '–' : show(value)}</strong></li>`;
    })}</ul>`;
}
