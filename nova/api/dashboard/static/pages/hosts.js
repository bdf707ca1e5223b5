// Hosts as a map: a square each, as full as the host is. A canvas, so that ten thousand are drawn at once.
import {html, useEffect, useMemo, useRef, useState} from '../core/html.js';
import {all, call} from '../core/api.js';
import {useLoad} from '../core/load.js';
import {may} from '../core/permissions.js';
import {mebibytes, number, t} from '../core/text.js';
import {drain, Maintenance, Moved, undrain} from '../data/resources/aggregates.js';
import {ActionDialog, allowed} from '../parts/actions.js';
import {Badge, Busy, Card, Empty, Facts, Head, Meter, Refusal} from '../parts/basics.js';

const MEASURES = [
  {name: 'memory', label: 'Memory', used: 'memory_mb_used', total: 'memory_mb'},
  {name: 'cpu', label: 'CPUs', used: 'vcpus_used', total: 'vcpus'},
  {name: 'disk', label: 'Disk', used: 'local_gb_used', total: 'local_gb'},
];
const MOST = 20000;
const FEW = 60; // hosts that are shown with their names
const AGGREGATES = 30; // whose maintenance is asked for at the same time
const AGAIN_MS = 3000; // from an answer to the next question while servers move
const MOVING = ['draining', 'rebalancing'];

/**
 * A function of a host: its aggregates, its maintenance, and the aggregate that maintains it.
 * @param {AbortSignal} signal
 */
async function maintained(signal) {
  if (!may(drain.rule)) return () => ({});
  const {aggregates} = await call('compute', '/os-aggregates', {signal});
  const some = aggregates.filter((/** @type {any} */ row) => row.hosts.length);
  /** @type {any[]} */
  const rows = [];
  for (let at = 0; at < some.length; at += AGGREGATES) {
    const found = await Promise.all(
      some
        .slice(at, at + AGGREGATES)
        .map((/** @type {any} */ row) => call('compute', `/os-aggregates/${row.id}/os-host-maintenance`, {signal})),
    );
    rows.push(...found.flatMap(one => one['os-host-maintenance']));
  }
  const latest = new Map(rows.filter(row => row.status !== 'ended').map(row => [row.host, row]));
  return (/** @type {string} */ host) => {
    const maintenance = latest.get(host);
    return {
      aggregates: some.filter((/** @type {any} */ row) => row.hosts.includes(host)),
      maintenance,
      maintainer: some.find((/** @type {any} */ row) => row.id === maintenance?.aggregate_id),
    };
  };
}

/** @param {AbortSignal} signal */
async function read(signal) {
  const [hypervisors, services, aggregates] = await Promise.all([
    all('compute', '/os-hypervisors/detail', 'hypervisors', {
      signal,
      version: '2.87',
      query: {limit: 1000},
      most: MOST,
    }),
    call('compute', '/os-services', {signal, query: {binary: 'nova-compute'}}),
    maintained(signal),
  ]);
  const zones = new Map(services.services.map((/** @type {any} */ row) => [row.host, row.zone]));
  return hypervisors
    .map(row => ({...row, host: row.service?.host, zone: zones.get(row.service?.host) ?? '–', ...aggregates(row.service?.host)}))
    .sort(
      (one, other) =>
        one.zone.localeCompare(other.zone) || String(one.host).localeCompare(other.host, undefined, {numeric: true}),
    );
}

export default function Hosts() {
  const loaded = useLoad(read, []);
  const [measure, setMeasure] = useState('memory');
  const [chosenId, setChosen] = useState(/** @type {any} */ (null));
  const [doing, setDoing] = useState(/** @type {any} */ (null));
  const by = MEASURES.find(one => one.name === measure) ?? MEASURES[0];
  const rows = loaded.data ?? [];
  const chosen = rows.find(row => row.id === chosenId) ?? null;
  const choose = (/** @type {any} */ row) => setChosen(row?.id ?? null);
  const maintenances = rows.filter(row => row.maintenance);
  const moving = rows.some(row => MOVING.includes(row.maintenance?.status));
  useEffect(() => {
    if (!moving || loaded.loading) return;
    const timer = setTimeout(loaded.reload, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [moving, loaded.loading]);
  const sum = (/** @type {string} */ key) => rows.reduce((total, row) => total + (row[key] ?? 0), 0);
  const zones = useMemo(() => [...new Set(rows.map(row => row.zone))], [loaded.data]);
  return html`
    <${Head} title=${t('Hosts')} note=${html`<span class="quiet thin">${rows.length ? number(rows.length) : ''}</span>`}>
      <label class="inline">${t('Measure')} <select value=${measure} onChange=${(/** @type {any} */ event) => setMeasure(event.target.value)}>${MEASURES.map(one => html`<option value=${one.name} selected=${one.name === measure}>${t(one.label)}</option>`)}</select></label></${Head}>
    <${Refusal} error=${loaded.error} />
    ${!loaded.data && loaded.loading && html`<${Busy} label=${t('Loading …')} />`}
    ${loaded.data && !rows.length && html`<${Empty} icon="hosts" text=${t('There are no hosts.')} />`}
    ${
      rows.length > 0 &&
      html`<div class="grid">
      <${Card} title=${t('All hosts')} class="span"><div class="meters">
        <${Meter} label=${t('CPUs')} used=${sum('vcpus_used')} total=${sum('vcpus')} show=${number} /><${Meter} label=${t('Memory')} used=${sum('memory_mb_used')} total=${sum('memory_mb')} show=${mebibytes} /><${Meter} label=${t('Disk')} used=${sum('local_gb_used')} total=${sum('local_gb')} show=${(/** @type {number} */ size) => `${number(size)} GiB`} /></div></${Card}>
      ${zones.map(zone => html`<${Card} key=${zone} title=${t('Zone {name}', {name: zone})} class="span"><${rows.length > FEW ? Squares : Tiles} rows=${rows.filter(row => row.zone === zone)} by=${by} onChoose=${choose} chosen=${chosen} /></${Card}>`)}
      ${maintenances.length > 0 && html`<${Card} title=${t('Maintenance')} class="span"><ul class="brief">${maintenances.map(row => html`<${Maintenance} key=${row.id} row=${row.maintenance} />`)}</ul></${Card}>`}
      <${Card} title=${chosen ? chosen.hypervisor_hostname : t('Host')} class="span" action=${
        chosen &&
        html`<div class="chips">${allowed([drain, undrain], chosen).map(action => html`<button type="button" class="small" onClick=${() => setDoing(action)}>${t(action.label)}</button>`)}</div>`
      }>${
        chosen
          ? html`<${Facts} rows=${[
              [t('State'), html`<${Badge} state=${chosen.state} /> <${Badge} state=${chosen.status} />`],
              [t('Type'), chosen.hypervisor_type],
              [t('Servers'), number(chosen.running_vms)],
              [t('CPUs'), `${number(chosen.vcpus_used)} / ${number(chosen.vcpus)}`],
              [t('Memory'), `${mebibytes(chosen.memory_mb_used)} / ${mebibytes(chosen.memory_mb)}`],
              [t('Disk'), `${number(chosen.local_gb_used)} / ${number(chosen.local_gb)} GiB`],
              [t('Address'), chosen.host_ip],
              [t('Aggregate'), chosen.aggregates?.map((/** @type {any} */ row) => row.name).join(', ') || (may(drain.rule) && t('none: a host is drained into the other hosts of its aggregate'))],
            ]} />`
          : html`<p class="quiet">${t('Choose a host to see its details.')}</p>`
      }</${Card}>
      <p class="quiet"><a href="#/hypervisors">${t('Show as a table')}</a></p></div>`
    }
    ${doing && chosen && html`<${ActionDialog} action=${doing} rows=${[chosen]} nameOf=${(/** @type {any} */ row) => row.host} onClose=${() => setDoing(null)} onDone=${loaded.reload} />`}`;
}

/** Few hosts, with names, load and state. @param {{rows: any[], by: any, chosen: any, onChoose: (row: any) => void}} props */
const Tiles = ({rows, by, chosen, onChoose}) =>
  html`<div class="tiles">${rows.map(
    row => html`
    <button type="button" key=${row.id} class="tile" aria-pressed=${chosen?.id === row.id} onClick=${() => onChoose(row)}><strong>${row.host ?? row.hypervisor_hostname}</strong>
      ${row.state === 'up' ? row.status === 'disabled' && html`<${Badge} state="disabled" />` : html`<${Badge} state=${row.state} />`}
      ${row.maintenance && html`<${Badge} state=${row.maintenance.status} />`}
      ${MOVING.includes(row.maintenance?.status) ? html`<${Moved} counts=${row.maintenance.counts} />` : html`<progress max=${row[by.total] || 1} value=${row[by.used] ?? 0} aria-label=${t(by.label)}></progress>`}
      <span class="quiet">${t('Servers')}: ${number(row.running_vms ?? 0)}</span></button>`,
  )}</div>`;

/** @param {{rows: any[], by: any, chosen: any, onChoose: (row: any) => void}} props */
function Squares({rows, by, chosen, onChoose}) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [width, setWidth] = useState(0);
  const size = rows.length > 3000 ? 8 : rows.length > 400 ? 14 : 30,
    gap = size > 20 ? 5 : 2;
  const across = Math.max(1, Math.floor((width + gap) / (size + gap)));
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    if (canvas.current?.parentElement) watch.observe(canvas.current.parentElement);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width) draw(canvas.current, rows, by, chosen, {size, gap, across, width});
  });
  const at = (/** @type {any} */ event) => {
    const box = event.currentTarget.getBoundingClientRect();
    return rows[
      Math.floor((event.clientY - box.top) / (size + gap)) * across +
        Math.floor((event.clientX - box.left) / (size + gap))
    ];
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across}[event.key];
    if (!step) return;
    event.preventDefault();
    onChoose(rows[Math.min(rows.length - 1, Math.max(0, rows.indexOf(chosen) + step))]);
  };
  return html`<div class="map"><canvas ref=${canvas} tabindex="0" role="img" aria-label=${t('{count} hosts; {full} are nearly full', {count: rows.length, full: rows.filter(row => share(row, by) > 0.9).length})}
    onMouseMove=${(/** @type {any} */ event) => {
      const row = at(event);
      if (row && row !== chosen) onChoose(row);
    }} onClick=${(/** @type {any} */ event) => onChoose(at(event) ?? null)} onKeyDown=${keys}></canvas></div>`;
}

/** @param {any} row @param {any} by */
const share = (row, by) => (row[by.total] ? row[by.used] / row[by.total] : 0);

/** @param {HTMLCanvasElement} canvas @param {any[]} rows @param {any} by @param {any} chosen @param {{size: number, gap: number, across: number, width: number}} place */
function draw(canvas, rows, by, chosen, {size, gap, across, width}) {
  const scale = devicePixelRatio || 1,
    height = Math.ceil(rows.length / across) * (size + gap);
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = width + 'px';
  canvas.style.height = height + 'px';
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  const probe = document.createElement('span');
  canvas.after(probe);
  const [empty, good, warn, bad, edge] = ['--line', '--good-fill', '--warn-fill', '--bad-fill', '--text'].map(name => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  pen.scale(scale, scale);
  rows.forEach((row, place) => {
    const x = (place % across) * (size + gap),
      y = Math.floor(place / across) * (size + gap),
      part = Math.min(1, share(row, by));
    pen.fillStyle = row.state === 'up' ? empty : bad;
    pen.fillRect(x, y, size, size);
    if (row.state === 'up') {
      pen.fillStyle = part > 0.9 ? bad : part > 0.7 ? warn : good;
      pen.fillRect(x, y + size * (1 - part), size, size * part);
    }
    if (row.state === 'up' && row.status !== 'enabled') {
      pen.strokeStyle = warn;
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    }
    if (row === chosen) {
      pen.strokeStyle = edge;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y - 1, size + 2, size + 2);
      pen.lineWidth = 1;
    }
  });
}
