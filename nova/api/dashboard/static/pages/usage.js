// What the project used in a span of days; administrators see all projects.
import {html, useState} from '../core/html.js';
import {all, call, nextMarker} from '../core/api.js';
import {useLoad} from '../core/load.js';
import {isAdmin, required} from '../core/session.js';
import {ago, number, short, t} from '../core/text.js';
import {Busy, Card, Empty, Head, Refusal} from '../parts/basics.js';
import {Table, sorted} from '../parts/table.js';

const DAY_MS = 86400000;
/** @type {import('../parts/table.js').Column[]} */
const PROJECTS = [
  {name: 'project', label: 'Project', value: row => row.name ?? row.tenant_id},
  {name: 'servers', label: 'Servers', number: true, value: row => row.server_usages?.length ?? 0},
  {
    name: 'vcpus',
    label: 'CPU hours',
    number: true,
    value: row => row.total_vcpus_usage ?? 0,
    show: row => number(row.total_vcpus_usage ?? 0, 1),
  },
  {
    name: 'memory',
    label: 'GiB hours of memory',
    number: true,
    value: row => (row.total_memory_mb_usage ?? 0) / 1024,
    show: row => number((row.total_memory_mb_usage ?? 0) / 1024, 1),
  },
  {
    name: 'disk',
    label: 'GiB hours of disk',
    number: true,
    value: row => row.total_local_gb_usage ?? 0,
    show: row => number(row.total_local_gb_usage ?? 0, 1),
  },
];
/** @type {import('../parts/table.js').Column[]} */
const SERVERS = [
  {name: 'name', label: 'Name', value: row => row.name},
  {name: 'state', label: 'State', value: row => row.state},
  {name: 'hours', label: 'Hours', number: true, value: row => row.hours, show: row => number(row.hours, 1)},
  {name: 'vcpus', label: 'CPUs', number: true, value: row => row.vcpus},
  {
    name: 'memory',
    label: 'Memory (MiB)',
    number: true,
    value: row => row.memory_mb,
    show: row => number(row.memory_mb),
  },
  {name: 'started', label: 'Started', value: row => row.started_at, show: row => ago(row.started_at)},
  {name: 'ended', label: 'Ended', value: row => row.ended_at, show: row => (row.ended_at ? ago(row.ended_at) : '–')},
];

const TOTALS = ['total_hours', 'total_vcpus_usage', 'total_memory_mb_usage', 'total_local_gb_usage'];
/**
 * All pages of a usage, added up by project: a page has the sums of its servers alone.
 * @param {string} path @param {string} key @param {AbortSignal} signal @param {Record<string, any>} query
 */
async function pages(path, key, signal, query) {
  /** @type {Map<string, any>} */
  const found = new Map();
  for (let marker; ; ) {
    const document = await call('compute', path, {signal, query: {...query, marker}});
    for (const row of [document[key]].flat().filter(one => one.tenant_id)) {
      const known = found.get(row.tenant_id);
      if (!known) {
        found.set(row.tenant_id, row);
        continue;
      }
      for (const name of TOTALS) known[name] += row[name];
      known.server_usages.push(...row.server_usages);
    }
    marker = nextMarker(document, key);
    if (!marker) return [...found.values()];
  }
}

/** @param {number} days @param {AbortSignal} signal */
async function read(days, signal) {
  const query = {
    start: new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 19),
    end: new Date(Date.now() + 60000).toISOString().slice(0, 19),
  };
  const project = required().project?.id;
  const rows = await pages(`/os-simple-tenant-usage/${project}`, 'tenant_usage', signal, query);
  const own = rows[0] ?? {};
  if (!isAdmin()) return {own, every: rows};
  const [every, projects] = await Promise.all([
    pages('/os-simple-tenant-usage', 'tenant_usages', signal, {...query, detailed: 1}),
    all('identity', '/projects', 'projects', {signal}),
  ]);
  return {
    own,
    every: every.map(row => ({
      ...row,
      name: projects.find(one => one.id === row.tenant_id)?.name,
    })),
  };
}

export default function Usage() {
  const [days, setDays] = useState('30');
  const [sort, setSort] = useState(/** @type {any} */ (null));
  const loaded = useLoad(signal => read(Number(days), signal), [days]);
  const table = (
    /** @type {string} */ title,
    /** @type {any[]} */ rows,
    /** @type {any[]} */ columns,
    /** @type {(row: any) => string} */ idOf,
  ) =>
    html`<${Card} title=${title} class="span">${
      rows.length
        ? html`<${Table} label=${title} ...${{columns, sort, idOf}} rows=${sorted(rows, columns, sort)} nameOf=${(/** @type {any} */ row) => row.name ?? short(row.tenant_id)} sortable=${() => true} onSort=${setSort} actions=${[]} onAction=${() => null} selected=${new Set()} onSelect=${null} />`
        : html`<${Empty} icon="usage" text=${t('No usage in this period.')} />`
    }</${Card}>`;
  return html`
    <${Head} title=${t('Usage')}><label class="inline">${t('The last')} <select value=${days} onChange=${(/** @type {any} */ event) => setDays(event.target.value)}>${['1', '7', '30', '90', '365'].map(one => html`<option value=${one} selected=${one === days}>${t('{count} days', {count: one})}</option>`)}</select></label></${Head}>
    <${Refusal} error=${loaded.error} />
    ${!loaded.data ? html`<${Busy} label=${t('Loading …')} />` : html`<div class="grid">${table(isAdmin() ? t('Projects') : t('Project'), loaded.data.every, PROJECTS, row => row.tenant_id)}${table(t('Servers'), loaded.data.own.server_usages ?? [], SERVERS, row => row.instance_id)}</div>`}`;
}
