// Aggregates, and the zones that they make.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {t} from '../../core/text.js';
import {Ago, Badge, Card, Empty} from '../../parts/basics.js';
import {HostBoard} from '../../parts/host_board.js';

const act = (/** @type {string} */ name, /** @type {any} */ row, /** @type {any} */ body) => ({
  method: 'POST',
  path: `/os-aggregates/${row.id}/action`,
  body: {[name]: body},
});
/** @param {'start' | 'stop'} verb @param {any} row @param {string} host */
const maintenance = (verb, row, host) => ({
  request: act(`os-host-maintenance:${verb}`, row, {host}),
  command: openstack(`host maintenance ${verb}`, ['--aggregate', row.name], host || 'HOST'),
});
/** The aggregates into whose other hosts a host can be drained: a maintenance stays in its own. @param {any} row */
const shelters = row =>
  (row.maintainer ? [row.maintainer] : (row.aggregates ?? [])).filter((/** @type {any} */ one) => one.hosts.length > 1);
/** The maintenance in the aggregate that was chosen, or in the only one. @param {any} row @param {any} values */
const draining = (row, {aggregate}) => {
  const found = shelters(row);
  const chosen = found.length === 1 ? found[0] : found.find((/** @type {any} */ one) => String(one.id) === aggregate);
  return maintenance('start', chosen ?? {id: '', name: 'AGGREGATE'}, row.host);
};
/** Drain one host: the row has the host and its aggregates. @type {import('../../parts/actions.js').Action} */
export const drain = {
  name: 'drain',
  label: 'Drain',
  done: 'Host {name} is being drained',
  rule: 'nova:os-aggregates:maintenance',
  when: row => shelters(row).length > 0 && !['draining', 'maintenance'].includes(row.maintenance?.status),
  ask: 'The host is disabled, and its servers move to other hosts of its aggregate.',
  form: row =>
    shelters(row).length > 1
      ? [
          {
            name: 'aggregate',
            label: 'Aggregate',
            type: 'select',
            required: true,
            none: 'Choose an aggregate', // nothing is chosen for the operator
            options: async () => shelters(row).map((/** @type {any} */ one) => ({value: String(one.id), label: one.name})),
          },
        ]
      : [],
  request: (row, values) => draining(row, values).request,
  command: (row, values) => draining(row, values).command,
};
/** @type {import('../../parts/actions.js').Action} */
export const undrain = {
  name: 'undrain',
  label: 'End maintenance',
  done: 'Maintenance of {name} ended',
  rule: 'nova:os-aggregates:maintenance',
  when: row => row.maintainer && ['draining', 'maintenance', 'incomplete'].includes(row.maintenance.status),
  ask: 'The host is enabled, and its servers move back.',
  request: row => maintenance('stop', row.maintainer, row.host).request,
  command: row => maintenance('stop', row.maintainer, row.host).command,
};

const own = async (/** @type {any} */ row) => row.hosts.map((/** @type {string} */ value) => ({value, label: value}));

/** Moved servers of a maintenance. @param {{counts: any}} props */
export function Moved({counts}) {
  const {waiting = 0, moving = 0, moved = 0, failed = 0} = counts ?? {};
  const all = waiting + moving + moved + failed;
  return all
    ? html`<progress max=${all} value=${moved} aria-label=${t('Progress')}></progress><span class="quiet">${t('{count} of {total} servers moved', {count: moved, total: all})}</span>`
    : null;
}

/** How far the maintenance of one host is. @param {{row: any}} props */
export function Maintenance({row}) {
  return html`<li>
    <strong>${row.host}</strong><${Badge} state=${row.status} /><span class="quiet"><${Ago} at=${row.updated_at} /></span>
    <${Moved} counts=${row.counts} />
    ${row.message && html`<p class="quiet">${row.message}</p>`}
  </li>`;
}

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-aggregates',
  key: 'aggregates',
  empty: 'There are no aggregates yet.',
  one: 'aggregate',
  facts: row => [
    ['Id', row.id],
    ['Zone', row.availability_zone],
    ['Hosts', row.hosts.join(', ')],
    ...Object.entries(row.metadata ?? {}),
  ],
  more: async row => (await call('compute', `/os-aggregates/${row.id}/os-host-maintenance`))['os-host-maintenance'],
  parts: (_row, hosts) =>
    html`<${Card} title=${t('Maintenance')}>${
      hosts.length
        ? html`<ul class="brief">${hosts.map((/** @type {any} */ one) => html`<${Maintenance} row=${one} />`)}</ul>`
        : html`<${Empty} icon="hosts" text=${t('No host is being maintained.')} />`
    }</${Card}>`,
  board: (rows, reload) => html`<${HostBoard} rows=${rows} reload=${reload} />`,
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'zone', label: 'Zone', value: row => row.availability_zone || '–'},
    {
      name: 'hosts',
      label: 'Hosts',
      value: row => row.hosts.join(', '),
      show: row =>
        html`<span class="chips">${row.hosts.map((/** @type {string} */ host) => html`<span class="chip">${host}</span>`)}</span>`,
    },
    {
      name: 'metadata',
      label: 'Metadata',
      value: row =>
        Object.entries(row.metadata ?? {})
          .filter(([key]) => key !== 'availability_zone')
          .map(pair => pair.join('='))
          .join(', ') || '–',
    },
  ],
  create: {
    name: 'make-aggregate',
    label: 'Create aggregate',
    done: 'Aggregate {name} created',
    rule: 'os_compute_api:os-aggregates:create',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'availability_zone', label: 'Zone'},
    ],
    request: (_row, {name, availability_zone: zone}) => ({
      method: 'POST',
      path: '/os-aggregates',
      body: {aggregate: {name, ...(zone ? {availability_zone: zone} : {})}},
    }),
    command: (_row, {name, availability_zone: zone}) => openstack('aggregate create', ['--zone', zone], name || 'NAME'),
  },
  actions: [
    {
      name: 'add-host',
      label: 'Add host',
      done: 'Host added to {name}',
      rule: 'os_compute_api:os-aggregates:add_host',
      form: [{name: 'host', label: 'Host', type: 'select', required: true, options: options.hosts}],
      request: (row, {host}) => act('add_host', row, {host}),
      command: (row, {host}) => openstack('aggregate add host', String(row.id), host || 'HOST'),
    },
    {
      name: 'remove-host',
      label: 'Remove host',
      done: 'Host removed from {name}',
      rule: 'os_compute_api:os-aggregates:remove_host',
      when: row => row.hosts.length > 0,
      form: row => [{name: 'host', label: 'Host', type: 'select', required: true, options: () => own(row)}],
      request: (row, {host}) => act('remove_host', row, {host}),
      command: (row, {host}) => openstack('aggregate remove host', String(row.id), host || 'HOST'),
    },
    {
      name: 'metadata',
      label: 'Set metadata',
      done: 'Metadata of {name} set',
      rule: 'os_compute_api:os-aggregates:set_metadata',
      form: [
        {name: 'key', label: 'Key', required: true},
        {name: 'value', label: 'Value', help: 'Empty: the key is removed.'},
      ],
      request: (row, {key, value}) => act('set_metadata', row, {metadata: {[key]: value || null}}),
      command: (row, {key, value}) =>
        openstack(
          value ? 'aggregate set' : 'aggregate unset',
          ['--property', value ? `${key}=${value}` : key],
          String(row.id),
        ),
    },
    {
      name: 'maintain',
      label: 'Start maintenance of a host',
      done: 'Maintenance of {host} started',
      rule: 'nova:os-aggregates:maintenance',
      when: row => row.hosts.length > 1,
      ask: 'Its servers move to other hosts of the aggregate.',
      form: row => [{name: 'host', label: 'Host', type: 'select', required: true, options: () => own(row)}],
      request: (row, {host}) => maintenance('start', row, host).request,
      command: (row, {host}) => maintenance('start', row, host).command,
    },
    {
      name: 'maintained',
      label: 'End maintenance of a host',
      done: 'Maintenance of {host} ended',
      rule: 'nova:os-aggregates:maintenance',
      when: row => row.hosts.length > 1,
      form: row => [{name: 'host', label: 'Host', type: 'select', required: true, options: () => own(row)}],
      request: (row, {host}) => maintenance('stop', row, host).request,
      command: (row, {host}) => maintenance('stop', row, host).command,
    },
    {
      name: 'delete',
      label: 'Delete',
      done: 'Aggregate {name} deleted',
      rule: 'os_compute_api:os-aggregates:delete',
      danger: true,
      when: row => !row.hosts.length,
      request: row => ({method: 'DELETE', path: `/os-aggregates/${row.id}`}),
      command: row => openstack('aggregate delete', String(row.id)),
    },
  ],
};
