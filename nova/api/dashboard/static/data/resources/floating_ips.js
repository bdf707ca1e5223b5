// Floating addresses.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import {call} from '../../core/api.js';
import * as options from '../../core/options.js';
import {Badge} from '../../parts/basics.js';

const external = async () =>
  (await call('network', '/networks', {query: {'router:external': true}})).networks.map((/** @type {any} */ row) => ({
    value: row.id,
    label: row.name || row.id,
  }));

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/floatingips',
  key: 'floatingips',
  empty: 'There are no floating addresses.',
  nameOf: row => row.floating_ip_address,
  columns: [
    {name: 'address', label: 'Address', value: row => row.floating_ip_address},
    {name: 'fixed', label: 'Leads to', value: row => row.fixed_ip_address || '–'},
    {
      name: 'status',
      label: 'Status',
      value: row => row.status,
      show: row => html`<span><${Badge} state=${row.status} /></span>`,
    },
  ],
  create: {
    name: 'allocate',
    label: 'Take an address',
    form: [{name: 'floating_network_id', label: 'Of the network', type: 'select', required: true, options: external}],
    request: (_row, values) => ({service: 'network', method: 'POST', path: '/floatingips', body: {floatingip: values}}),
    command: (_row, values) => openstack('floating ip create', values.floating_network_id || 'NETWORK'),
  },
  actions: [
    {
      name: 'associate',
      label: 'Lead it to a server',
      when: row => !row.port_id,
      form: [{name: 'port_id', label: 'Port', type: 'select', required: true, options: options.ports}],
      request: (row, values) => ({
        service: 'network',
        method: 'PUT',
        path: `/floatingips/${row.id}`,
        body: {floatingip: values},
      }),
      command: (row, {port_id: port}) => openstack('floating ip set', ['--port', port], row.id),
    },
    {
      name: 'disassociate',
      label: 'Take it off',
      when: row => row.port_id,
      request: row => ({
        service: 'network',
        method: 'PUT',
        path: `/floatingips/${row.id}`,
        body: {floatingip: {port_id: null}},
      }),
      command: row => openstack('floating ip unset --port', row.id),
    },
    {
      name: 'release',
      label: 'Give it back',
      danger: true,
      bulk: true,
      request: row => ({service: 'network', method: 'DELETE', path: `/floatingips/${row.id}`}),
      command: row => openstack('floating ip delete', row.id),
    },
  ],
};
