// Services and their heartbeats.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import {Ago, Badge} from '../../parts/basics.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-services',
  key: 'services',
  empty: 'There are no services.',
  nameOf: row => `${row.binary} on ${row.host}`,
  columns: [
    {name: 'binary', label: 'Service', value: row => row.binary},
    {name: 'host', label: 'Host', value: row => row.host},
    {name: 'zone', label: 'Zone', value: row => row.zone},
    {
      name: 'state',
      label: 'State',
      value: row => row.state,
      show: row => html`<span><${Badge} state=${row.state} /></span>`,
    },
    {
      name: 'status',
      label: 'Status',
      value: row => row.status,
      show: row =>
        html`<span><${Badge} state=${row.status} />${row.disabled_reason && html` <span class="quiet">${row.disabled_reason}</span>`}</span>`,
    },
    {
      name: 'heartbeat',
      label: 'Last heartbeat',
      value: row => row.updated_at ?? '',
      show: row => html`<${Ago} at=${row.updated_at} />`,
    },
  ],
  actions: [
    {
      name: 'disable',
      label: 'Disable',
      done: '{name} disabled',
      rule: 'os_compute_api:os-services:update',
      bulk: true,
      when: row => row.status === 'enabled' && row.binary === 'nova-compute',
      form: [{name: 'reason', label: 'Reason', required: true}],
      ask: 'No new servers are scheduled to the host. Its servers continue to run.',
      request: (row, {reason}) => ({
        method: 'PUT',
        path: `/os-services/${row.id}`,
        body: {status: 'disabled', disabled_reason: reason},
      }),
      command: (row, {reason}) =>
        openstack('compute service set --disable', ['--disable-reason', reason], row.host, row.binary),
    },
    {
      name: 'enable',
      label: 'Enable',
      done: '{name} enabled',
      rule: 'os_compute_api:os-services:update',
      bulk: true,
      when: row => row.status === 'disabled',
      request: row => ({method: 'PUT', path: `/os-services/${row.id}`, body: {status: 'enabled'}}),
      command: row => openstack('compute service set --enable', row.host, row.binary),
    },
    {
      name: 'force-down',
      label: 'Force down',
      done: '{name} forced down',
      rule: 'os_compute_api:os-services:update',
      danger: true,
      when: row => !row.forced_down && row.binary === 'nova-compute',
      ask: 'Only if the host is powered off: its servers can be evacuated afterwards.',
      request: row => ({method: 'PUT', path: `/os-services/${row.id}`, body: {forced_down: true}}),
      command: row => openstack('compute service set --down', row.host, row.binary),
    },
    {
      name: 'unforce',
      label: 'Undo force down',
      done: '{name} no longer forced down',
      rule: 'os_compute_api:os-services:update',
      when: row => row.forced_down,
      request: row => ({method: 'PUT', path: `/os-services/${row.id}`, body: {forced_down: false}}),
      command: row => openstack('compute service set --up', row.host, row.binary),
    },
  ],
};
