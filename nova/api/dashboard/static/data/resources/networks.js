// Networks with their subnets and ports.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {link} from '../../core/router.js';
import {required} from '../../core/session.js';
import {short, t} from '../../core/text.js';
import {Badge, Card, Empty} from '../../parts/basics.js';
import {Table} from '../../parts/table.js';

/** @type {import('../../parts/actions.js').Action} */
const addSubnet = {
  name: 'add-subnet',
  label: 'Add a subnet',
  form: [
    {name: 'name', label: 'Name'},
    {name: 'cidr', label: 'Addresses', required: true, help: 'As 10.1.0.0/24'},
    {name: 'enable_dhcp', label: 'DHCP', type: 'check', value: true},
  ],
  request: (row, {name, cidr, enable_dhcp: dhcp}) => ({
    service: 'network',
    method: 'POST',
    path: '/subnets',
    body: {subnet: {network_id: row.id, name, cidr, ip_version: cidr.includes(':') ? 6 : 4, enable_dhcp: dhcp}},
  }),
  command: (row, {name, cidr, enable_dhcp: dhcp}) =>
    openstack('subnet create', ['--network', row.id], ['--subnet-range', cidr], !dhcp && '--no-dhcp', name || 'NAME'),
};
/** @type {import('../../parts/actions.js').Action} */
const removeSubnet = {
  name: 'remove-subnet',
  label: 'Remove',
  danger: true,
  request: row => ({service: 'network', method: 'DELETE', path: `/subnets/${row.id}`}),
  command: row => openstack('subnet delete', row.id),
};
const mine = (/** @type {any} */ row) =>
  row.project_id === required().project?.id || required().roles.includes('admin');

/** @param {{title: string, rows: any[], columns: any[], actions?: any[], choose?: any}} props */
const Rows = ({title, rows, columns, actions = [], choose}) =>
  html`<${Card} title=${title} class="span">${
    rows.length
      ? html`<${Table} label=${title} ...${{rows, columns, actions}} idOf=${(/** @type {any} */ row) => row.id}
  nameOf=${(/** @type {any} */ row) => row.name || row.id} sort=${null} sortable=${() => false} onSort=${() => null} onAction=${(/** @type {any} */ action, /** @type {any[]} */ on) => choose(action, on[0])} selected=${new Set()} onSelect=${null} />`
      : html`<${Empty} icon="network" text=${t('There are none.')} />`
  }</${Card}>`;

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/networks',
  key: 'networks',
  empty: 'There are no networks.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name || short(row.id)},
    {
      name: 'status',
      label: 'Status',
      value: row => row.status,
      show: row => html`<span><${Badge} state=${row.status} /></span>`,
    },
    {name: 'subnets', label: 'Subnets', number: true, value: row => row.subnets?.length ?? 0},
    {name: 'shared', label: 'Shared', value: row => (row.shared ? 'yes' : 'no')},
    {name: 'external', label: 'External', value: row => (row['router:external'] ? 'yes' : 'no')},
    {name: 'mtu', label: 'MTU', number: true, value: row => row.mtu},
  ],
  one: 'network',
  facts: row => [
    ['Id', row.id],
    ['Status', row.status],
    ['Shared', row.shared ? 'yes' : 'no'],
    ['MTU', row.mtu],
    ['Project', row.project_id],
    ['Description', row.description],
  ],
  more: async row => ({
    subnets: (await call('network', '/subnets', {query: {network_id: row.id}})).subnets,
    ports: (await call('network', '/ports', {query: {network_id: row.id}})).ports,
  }),
  parts: (row, more, _reload, choose) => html`
    <${Rows} title=${t('Subnets')} rows=${more.subnets} actions=${mine(row) ? [removeSubnet] : []} choose=${choose} columns=${[
      {name: 'name', label: 'Name', value: (/** @type {any} */ one) => one.name || short(one.id)},
      {name: 'cidr', label: 'Addresses', value: (/** @type {any} */ one) => one.cidr},
      {name: 'gateway', label: 'Gateway', value: (/** @type {any} */ one) => one.gateway_ip},
      {name: 'dhcp', label: 'DHCP', value: (/** @type {any} */ one) => (one.enable_dhcp ? 'yes' : 'no')},
    ]} />
    <${Rows} title=${t('Ports')} rows=${more.ports} columns=${[
      {
        name: 'address',
        label: 'Addresses',
        value: (/** @type {any} */ one) => one.fixed_ips?.map((/** @type {any} */ ip) => ip.ip_address).join(', '),
      },
      {name: 'mac', label: 'MAC address', value: (/** @type {any} */ one) => one.mac_address},
      {
        name: 'status',
        label: 'Status',
        value: (/** @type {any} */ one) => one.status,
        show: (/** @type {any} */ one) => html`<${Badge} state=${one.status} />`,
      },
      {
        name: 'server',
        label: 'Server',
        value: (/** @type {any} */ one) => one.device_id,
        show: (/** @type {any} */ one) =>
          one.device_id ? html`<a href=${link('servers', one.device_id)}>${short(one.device_id)}</a>` : '–',
      },
    ]} />`,
  create: {
    name: 'make-network',
    label: 'Make a network',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'description', label: 'Description'},
    ],
    request: (_row, {name, description}) => ({
      service: 'network',
      method: 'POST',
      path: '/networks',
      body: {network: {name, description}},
    }),
    command: (_row, {name, description}) => openstack('network create', ['--description', description], name || 'NAME'),
  },
  actions: [
    {...addSubnet, when: mine},
    {
      name: 'rename',
      label: 'Rename',
      when: mine,
      form: row => [{name: 'name', label: 'Name', required: true, value: row.name}],
      request: (row, {name}) => ({
        service: 'network',
        method: 'PUT',
        path: `/networks/${row.id}`,
        body: {network: {name}},
      }),
      command: (row, {name}) => openstack('network set', ['--name', name], row.id),
    },
    {
      name: 'delete',
      label: 'Delete',
      danger: true,
      bulk: true,
      when: mine,
      request: row => ({service: 'network', method: 'DELETE', path: `/networks/${row.id}`}),
      command: row => openstack('network delete', row.id),
    },
  ],
};
