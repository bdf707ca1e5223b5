// Migrations: what moves, from where to where, how far.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {short, t} from '../../core/text.js';
import {Ago, Badge} from '../../parts/basics.js';
import {Named} from '../../parts/named.js';
import {PROJECT} from '../common.js';

/** What is said of a live migration only while it runs, at the server's own path. @param {any[]} rows */
const withProgress = rows =>
  Promise.all(
    rows.map(async row => {
      if (row.migration_type !== 'live-migration' || row.status !== 'running') return row;
      const found = await call('compute', `/servers/${row.instance_uuid}/migrations/${row.id}`).catch(() => null);
      return {...row, ...found?.migration};
    }),
  );

/** How much of its memory has been sent. @param {any} row */
const progress = row => {
  if (!row.memory_total_bytes) return '–';
  const sent = row.memory_processed_bytes / row.memory_total_bytes;
  return html`<progress max="1" value=${Math.min(1, sent)} aria-label=${t('Progress')}></progress>`;
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-migrations',
  key: 'migrations',
  empty: 'There are no migrations yet.',
  fill: withProgress,
  nameOf: row => `${row.migration_type} ${short(row.instance_uuid)}`,
  columns: [
    {
      name: 'server',
      label: 'Server',
      value: row => row.instance_uuid,
      show: row => html`<${Named} kind="server" id=${row.instance_uuid} />`,
    },
    PROJECT,
    {name: 'kind', label: 'Type', value: row => row.migration_type},
    {
      name: 'status',
      label: 'Status',
      value: row => row.status,
      show: row => html`<span><${Badge} state=${row.status} /></span>`,
    },
    {name: 'from', label: 'From', value: row => row.source_compute},
    {name: 'to', label: 'To', value: row => row.dest_compute || '–'},
    {name: 'progress', label: 'Progress', value: row => row.memory_processed_bytes ?? 0, show: progress},
    {name: 'at', label: 'Started', value: row => row.created_at, show: row => html`<${Ago} at=${row.created_at} />`},
  ],
  actions: [
    {
      name: 'abort',
      label: 'Abort',
      done: 'Migration aborted',
      rule: 'os_compute_api:servers:migrations:delete',
      danger: true,
      when: row => row.migration_type === 'live-migration' && ['queued', 'preparing', 'running'].includes(row.status),
      request: row => ({method: 'DELETE', path: `/servers/${row.instance_uuid}/migrations/${row.id}`}),
      command: row => openstack('server migration abort', row.instance_uuid, String(row.id)),
    },
    {
      name: 'force',
      label: 'Force completion',
      done: 'Completion of the migration forced',
      rule: 'os_compute_api:servers:migrations:force_complete',
      when: row => row.migration_type === 'live-migration' && row.status === 'running',
      perform: row =>
        call('compute', `/servers/${row.instance_uuid}/migrations/${row.id}/action`, {
          method: 'POST',
          body: {force_complete: null},
        }),
      command: row => openstack('server migration force complete', row.instance_uuid, String(row.id)),
    },
  ],
};
