// Floating addresses and their port forwardings.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {terraform} from '../../core/terraform.js';
import {t} from '../../core/text.js';
import {offered} from '../../parts/actions.js';
import {Named} from '../../parts/named.js';
import {CREATED, DESCRIPTION, PROJECT, Rows, STATUS, given, remove} from '../common.js';

/** @typedef {import('../../parts/actions.js').Action} Action */

const put = (/** @type {any} */ row, /** @type {any} */ body) => ({
  service: /** @type {const} */ ('network'),
  method: 'PUT',
  path: `/floatingips/${row.id}`,
  body: {floatingip: body},
});
const server = (/** @type {any} */ row) => (row.port_details?.device_owner?.startsWith('compute:') ? row.port_details.device_id : null);

/** @type {Action} */
const forward = {
  name: 'forward',
  label: 'Add port forwarding',
  done: 'Port forwarding added to {name}',
  rule: 'create_floatingip_port_forwarding',
  when: row => !row.port_id,
  form: [
    {name: 'protocol', label: 'Protocol', type: 'select', required: true, value: 'tcp', options: ['tcp', 'udp'].map(value => ({value, label: value}))},
    {name: 'external_port', label: 'Port of the floating address', type: 'number', min: 1, max: 65535, required: true},
    {name: 'internal_port_id', label: 'Server', type: 'select', required: true, options: options.ports},
    {name: 'internal_port', label: 'Port of the server', type: 'number', min: 1, max: 65535, required: true},
    DESCRIPTION,
  ],
  request: (row, values) => ({
    service: 'network',
    method: 'POST',
    path: `/floatingips/${row.id}/port_forwardings`,
    body: {
      port_forwarding: given({...values, external_port: Number(values.external_port), internal_port: Number(values.internal_port)}),
    },
  }),
  command: (row, values) =>
    openstack(
      'floating ip port forwarding create',
      ['--port', values.internal_port_id],
      ['--internal-protocol-port', values.internal_port],
      ['--external-protocol-port', values.external_port],
      ['--protocol', values.protocol],
      row.id,
    ),
  terraform: (row, values) =>
    terraform('networking_portforwarding_v2', `port_${values.external_port}`, {
      floatingip_id: row.id,
      protocol: values.protocol,
      external_port: Number(values.external_port) || undefined,
      internal_port: Number(values.internal_port) || undefined,
      internal_port_id: values.internal_port_id,
    }),
};
/** @type {Action} */
const unforward = {
  name: 'unforward',
  label: 'Remove',
  done: 'Port forwarding removed',
  rule: 'delete_floatingip_port_forwarding',
  danger: true,
  request: row => ({service: 'network', method: 'DELETE', path: `/floatingips/${row.floating}/port_forwardings/${row.id}`}),
  command: row => openstack('floating ip port forwarding delete', row.floating, row.id),
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/floatingips',
  key: 'floatingips',
  one: 'floatingip',
  empty: 'There are no floating addresses.',
  nameOf: row => row.floating_ip_address,
  columns: [
    {name: 'address', label: 'Address', value: row => row.floating_ip_address},
    {name: 'fixed', label: 'Fixed address', value: row => row.fixed_ip_address || '–'},
    {name: 'server', label: 'Server', value: row => server(row) ?? '', show: row => html`<${Named} kind="server" id=${server(row)} />`},
    STATUS,
    {name: 'network', label: 'Network', value: row => row.floating_network_id, show: row => html`<${Named} kind="network" id=${row.floating_network_id} />`},
    PROJECT,
    CREATED,
  ],
  facts: row => [
    ['Id', row.id],
    ['Status', row.status],
    ['Fixed address', row.fixed_ip_address],
    ['Server', server(row) && html`<${Named} kind="server" id=${server(row)} />`],
    ['Router', row.router_id && html`<${Named} kind="router" id=${row.router_id} />`],
    ['Network', html`<${Named} kind="network" id=${row.floating_network_id} />`],
    ['Description', row.description],
  ],
  parts: (row, _more, _reload, choose) =>
    html`<${Rows} title=${t('Port forwardings')} choose=${choose} actions=${[unforward]} nameOf=${(/** @type {any} */ one) => `${one.protocol} ${one.external_port}`}
      add=${forward.when?.(row) && offered(forward) && html`<button type="button" class="small" onClick=${() => choose(forward, row)}>${t(forward.label)}</button>`}
      rows=${(row.port_forwardings ?? []).map((/** @type {any} */ one) => ({...one, floating: row.id}))} columns=${[
        {name: 'protocol', label: 'Protocol', value: (/** @type {any} */ one) => one.protocol},
        {name: 'external', label: 'Port of the floating address', value: (/** @type {any} */ one) => one.external_port},
        {name: 'internal', label: 'To', value: (/** @type {any} */ one) => `${one.internal_ip_address}:${one.internal_port}`},
        {name: 'description', label: 'Description', value: (/** @type {any} */ one) => one.description || '–'},
      ]} />`,
  create: {
    name: 'allocate',
    label: 'Allocate address',
    done: 'Floating address allocated',
    rule: 'create_floatingip',
    form: [
      {name: 'floating_network_id', label: 'External network', type: 'select', required: true, options: options.externalNetworks},
      DESCRIPTION,
    ],
    request: (_row, values) => ({service: 'network', method: 'POST', path: '/floatingips', body: {floatingip: given(values)}}),
    command: (_row, values) => openstack('floating ip create', ['--description', values.description], values.floating_network_id || 'NETWORK'),
    terraform: (_row, values) =>
      terraform('networking_floatingip_v2', 'address', {pool: values.floating_network_id, description: values.description}),
  },
  actions: [
    {
      name: 'associate',
      label: 'Associate',
      done: '{name} associated',
      rule: 'update_floatingip',
      when: row => !row.port_id,
      ask: 'The subnet of the server needs a router with a gateway in the network of this address.',
      form: [{name: 'port_id', label: 'Server', type: 'select', required: true, options: options.ports}],
      request: put,
      command: (row, {port_id: port}) => openstack('floating ip set', ['--port', port || 'PORT'], row.floating_ip_address),
      terraform: (row, {port_id: port}) =>
        terraform('networking_floatingip_associate_v2', 'address', {floating_ip: row.floating_ip_address, port_id: port}),
    },
    {
      name: 'disassociate',
      label: 'Disassociate',
      done: '{name} disassociated',
      rule: 'update_floatingip',
      bulk: true,
      when: row => row.port_id,
      request: row => put(row, {port_id: null}),
      command: row => openstack('floating ip unset --port', row.floating_ip_address),
    },
    forward,
    remove('network', '/floatingips', 'delete_floatingip', 'floating ip delete', {label: 'Release', done: '{name} released'}),
  ],
};
