// The usage of a server in the last hour, day or week; it goes on while the page is seen.
import {html, useEffect, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {useLoad} from '../core/load.js';
import {moment, t} from '../core/text.js';
import {CHARTS, PERIODS} from '../data/server_usage.js';
import {Busy, Card, Empty, Refusal} from '../parts/basics.js';
import {Plot} from '../parts/plot.js';

/** @param {{server: any}} props */
export function ServerUsage({server}) {
  const [step, setStep] = useState(PERIODS[0].step);
  const loaded = useLoad(
    signal =>
      call('compute', `/servers/${server.id}/os-metrics`, {signal, query: {step}}).then(found => found.metrics),
    [server.id, step],
  );
  useEffect(() => {
    const timer = setInterval(() => document.hidden || loaded.reload(), step * 1000);
    return () => clearInterval(timer);
  }, [step]);
  const found = loaded.data;
  return html`
    <div class="toolbar" role="group" aria-label=${t('Period')}>${PERIODS.map(period => html`<button type="button" class="choice" aria-pressed=${period.step === step} onClick=${() => setStep(period.step)}>${t(period.label)}</button>`)}</div>
    <${Refusal} error=${loaded.error} />
    ${!found && !loaded.error && html`<${Busy} label=${t('Loading …')} />`}
    ${found && html`<${Charts} ...${{server, found}} />`}`;
}

/** @param {{server: any, found: any}} props  found: the document of the API */
function Charts({server, found}) {
  const begin = moment(found.since).getTime() / 1000;
  const times = found.series.cpu.map((/** @type {any} */ _value, /** @type {number} */ place) => begin + place * found.step);
  if (!Object.values(found.series).some(values => values.some((/** @type {any} */ value) => value !== null)))
    return html`<${Empty} text=${t('No data in this period. Data of a running server appears within a minute if its host collects it.')} />`;
  return html`<div class="grid plots">${CHARTS.map(chart => {
    const most = chart.most?.(server) ?? 0,
      divisor = chart.share ? most : 1;
    const lines = chart.lines.map(line => ({
      label: t(line.label),
      values: found.series[line.name].map((/** @type {number | null} */ value) => (value === null ? null : value / divisor)),
    }));
    return html`<${Card} key=${chart.title} title=${t(chart.title)}><${Plot} title=${t(chart.title)} times=${times} lines=${lines} unit=${chart.unit} most=${most / divisor} /></${Card}>`;
  })}</div>`;
}
