// What the process that answers counts, as plots that go on while the page is seen.
import {html, useEffect, useRef, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {t} from '../core/text.js';
import {CHARTS, valueOf} from '../data/charts.js';
import {Busy, Card, Head, Refusal} from '../parts/basics.js';
import {Plot} from '../parts/plot.js';

const EVERY_MS = 5000;
const MOST = 360; // looks that are kept: half an hour

/** @typedef {{host: string, at: number, samples: import('../data/charts.js').Sample[]}} Look */

export default function Metrics() {
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [seen, setSeen] = useState(/** @type {{host: string, times: number[], values: (number | null)[][][]}} */ ({
    host: '',
    times: [],
    values: CHARTS.map(chart => chart.lines.map(() => [])),
  }));
  const last = useRef(/** @type {Look | null} */ (null));
  useEffect(() => {
    const control = new AbortController();
    const look = async () => {
      if (document.hidden) return;
      try {
        const answer = await call('compute', '/os-metrics', {signal: control.signal});
        const samples = answer.metrics.flatMap((/** @type {any} */ one) => one.samples);
        const now = {host: answer.host, at: performance.now() / 1000, samples};
        const before = last.current;
        const seconds = before ? now.at - before.at : 0;
        last.current = now;
        setError(null);
        setSeen(known => ({
          host: now.host,
          times: [...known.times, Date.now() / 1000].slice(-MOST),
          values: CHARTS.map((chart, place) =>
            chart.lines.map((line, index) =>
              [
                ...known.values[place][index],
                valueOf(line, samples, before && before.host === now.host ? before.samples : null, seconds),
              ].slice(-MOST),
            ),
          ),
        }));
      } catch (problem) {
        if (!control.signal.aborted) setError(/** @type {Error} */ (problem));
      }
    };
    look();
    const timer = setInterval(look, EVERY_MS);
    return () => {
      clearInterval(timer);
      control.abort();
    };
  }, []);
  return html`
    <${Head} title=${t('Metrics')} note=${html`<span class="quiet thin">${seen.host}</span>`} />
    <${Refusal} error=${error} />
    <p class="quiet note">${t('Metrics of the process that answers, since this page was opened. Processes that share an address answer in turn: read /metrics of each process instead.')}</p>
    ${!seen.times.length && !error && html`<${Busy} label=${t('Loading …')} />`}
    ${
      seen.times.length > 0 &&
      html`<div class="grid plots">${CHARTS.map((chart, place) => {
        const lines = chart.lines.map((line, index) => ({label: t(line.label), values: seen.values[place][index]}));
        return html`<${Card} key=${chart.title} title=${t(chart.title)}><${Plot} title=${t(chart.title)} times=${seen.times} lines=${lines} unit=${chart.unit} /></${Card}>`;
      })}</div>`
    }`;
}
