// Routers: their gateway, interfaces and static routes.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {terraform} from '../../core/terraform.js';
import {t} from '../../core/text.js';
import {offered} from '../../parts/actions.js';
import {Named} from '../../parts/named.js';
import {CREATED, DESCRIPTION, NAME, NAME_FIELD, PROJECT, Rows, STATUS, remove, rename, undoing} from '../common.js';

/** @typedef {import('../../parts/actions.js').Action} Action */

const gateway = (/** @type {any} */ row) => row.external_gateway_info?.network_id;
const change = (/** @type {any} */ row, /** @type {any} */ body) => ({
  service: /** @type {const} */ ('network'),
  method: 'PUT',
  path: `/routers/${row.id}`,
  body: {router: body},
});

/** @type {Action} */
const addInterface = {
  name: 'add-interface',
  label: 'Add interface',
  done: 'Interface added to {name}',
  rule: 'add_router_interface',
  form: [
    {name: 'subnet', label: 'Subnet', type: 'select', required: true, options: options.subnets},
    {name: 'address', label: 'Address', help: 'Empty: the gateway address of the subnet.'},
  ],
  perform: (row, {subnet, address}) =>
    undoing(async undo => {
      /** @type {any} */
      let body = {subnet_id: subnet};
      if (address) {
        const found = (await call('network', `/subnets/${subnet}`)).subnet;
        const port = {network_id: found.network_id, fixed_ips: [{subnet_id: subnet, ip_address: address}]};
        body = {port_id: (await call('network', '/ports', {method: 'POST', body: {port}})).port.id};
        undo(() => call('network', `/ports/${body.port_id}`, {method: 'DELETE'}));
      }
      return call('network', `/routers/${row.id}/add_router_interface`, {method: 'PUT', body});
    }),
  command: (row, {subnet, address}) =>
    address
      ? openstack('router add port', row.id, '--fixed-ip', `subnet=${subnet},ip-address=${address}`, 'PORT')
      : openstack('router add subnet', row.id, subnet || 'SUBNET'),
  terraform: (row, {subnet}) => terraform('networking_router_interface_v2', row.name, {router_id: row.id, subnet_id: subnet}),
};
/** @type {Action} */
const removeInterface = {
  name: 'remove-interface',
  label: 'Remove',
  done: 'Interface removed',
  rule: 'remove_router_interface',
  danger: true,
  ask: 'Servers of the subnet no longer reach other networks through this router.',
  request: row => ({
    service: 'network',
    method: 'PUT',
    path: `/routers/${row.device_id}/remove_router_interface`,
    body: {port_id: row.id},
  }),
  command: row => openstack('router remove port', row.device_id, row.id),
};
/** @type {Action} */
const addRoute = {
  name: 'add-route',
  label: 'Add static route',
  done: 'Route added to {name}',
  rule: 'add_extraroutes',
  form: [
    {name: 'destination', label: 'Destination', required: true, help: 'A range such as 192.0.2.0/24'},
    {name: 'nexthop', label: 'Next hop', required: true, help: 'An address in a subnet of the router'},
  ],
  request: (row, route) => ({
    service: 'network',
    method: 'PUT',
    path: `/routers/${row.id}/add_extraroutes`,
    body: {router: {routes: [route]}},
  }),
  command: (row, {destination, nexthop}) =>
    openstack('router add route', ['--route', `destination=${destination},gateway=${nexthop}`], row.id),
  terraform: (row, {destination, nexthop}) =>
    terraform('networking_router_route_v2', destination, {router_id: row.id, destination_cidr: destination, next_hop: nexthop}),
};
/** @type {Action} */
const removeRoute = {
  name: 'remove-route',
  label: 'Remove',
  done: 'Route removed',
  rule: 'remove_extraroutes',
  danger: true,
  request: ({router, destination, nexthop}) => ({
    service: 'network',
    method: 'PUT',
    path: `/routers/${router}/remove_extraroutes`,
    body: {router: {routes: [{destination, nexthop}]}},
  }),
  command: row => openstack('router remove route', ['--route', `destination=${row.destination},gateway=${row.nexthop}`], row.router),
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/routers',
  key: 'routers',
  one: 'router',
  empty: 'There are no routers.',
  columns: [
    NAME,
    STATUS,
    {name: 'gateway', label: 'Gateway', value: row => gateway(row) ?? '', show: row => html`<${Named} kind="network" id=${gateway(row)} />`},
    {
      name: 'address',
      label: 'Address of the gateway',
      value: row => row.external_gateway_info?.external_fixed_ips?.map((/** @type {any} */ one) => one.ip_address).join(', ') || '–',
    },
    {name: 'routes', label: 'Static routes', number: true, value: row => row.routes.length},
    PROJECT,
    CREATED,
  ],
  facts: row => [
    ['Id', row.id],
    ['Status', row.status],
    ['Reason', row.status_reason],
    ['Gateway', html`<${Named} kind="network" id=${gateway(row)} />`],
    ['Address of the gateway', row.external_gateway_info?.external_fixed_ips?.map((/** @type {any} */ one) => one.ip_address).join(', ')],
    ['Source NAT', row.external_gateway_info && (row.external_gateway_info.enable_snat ? t('yes') : t('no'))],
    ['Project', html`<${Named} kind="project" id=${row.project_id} />`],
    ['Description', row.description],
  ],
  more: async row => (await call('network', '/ports', {query: {device_id: row.id}})).ports,
  parts: (row, interfaces, _reload, choose) => {
    const add = (/** @type {Action} */ action) =>
      offered(action) &&
      html`<button type="button" class="small" onClick=${() => choose(action, row)}>${t(action.label)}</button>`;
    return html`
    <${Rows} title=${t('Interfaces')} choose=${choose} add=${add(addInterface)} actions=${[{...removeInterface, when: (/** @type {any} */ one) => one.device_owner === 'network:router_interface'}]}
      rows=${interfaces} nameOf=${(/** @type {any} */ one) => one.fixed_ips?.[0]?.ip_address ?? one.id} columns=${[
        {name: 'address', label: 'Addresses', value: (/** @type {any} */ one) => one.fixed_ips.map((/** @type {any} */ ip) => ip.ip_address).join(', ')},
        {name: 'network', label: 'Network', value: (/** @type {any} */ one) => one.network_id, show: (/** @type {any} */ one) => html`<${Named} kind="network" id=${one.network_id} />`},
        {name: 'kind', label: 'Type', value: (/** @type {any} */ one) => (one.device_owner === 'network:router_gateway' ? t('gateway') : t('interface'))},
        STATUS,
      ]} />
    <${Rows} title=${t('Static routes')} choose=${choose} add=${add(addRoute)} actions=${[removeRoute]}
      rows=${row.routes.map((/** @type {any} */ one) => ({...one, id: `${one.destination} ${one.nexthop}`, router: row.id}))} columns=${[
        {name: 'destination', label: 'Destination', value: (/** @type {any} */ one) => one.destination},
        {name: 'nexthop', label: 'Next hop', value: (/** @type {any} */ one) => one.nexthop},
      ]} />`;
  },
  create: {
    name: 'create-router',
    label: 'Create router',
    done: 'Router {name} created',
    rule: 'create_router',
    form: [
      NAME_FIELD,
      DESCRIPTION,
      {name: 'network', label: 'Gateway', type: 'select', none: 'none', preset: true, options: options.externalNetworks},
      {name: 'subnets', label: 'Subnets', type: 'many', options: options.subnets},
    ],
    perform: (_row, {name, description, network, subnets}) =>
      undoing(async undo => {
        const {router} = await call('network', '/routers', {
          method: 'POST',
          body: {router: {name, description, ...(network ? {external_gateway_info: {network_id: network}} : {})}},
        });
        undo(() => call('network', `/routers/${router.id}`, {method: 'DELETE'}));
        for (const subnet of subnets) {
          const body = {subnet_id: subnet};
          await call('network', `/routers/${router.id}/add_router_interface`, {method: 'PUT', body});
          undo(() => call('network', `/routers/${router.id}/remove_router_interface`, {method: 'PUT', body}));
        }
        return router;
      }),
    command: (_row, {name, description, network, subnets}) =>
      [
        openstack('router create', ['--external-gateway', network], ['--description', description], name || 'NAME'),
        ...subnets.map((/** @type {string} */ subnet) => openstack('router add subnet', name || 'NAME', subnet)),
      ].join('\n'),
    terraform: (_row, {name, description, network}) =>
      terraform('networking_router_v2', name, {name, description, external_network_id: network}),
  },
  actions: [
    {
      name: 'gateway',
      label: 'Set gateway',
      done: 'Gateway of {name} set',
      rule: 'update_router',
      form: row => [
        {name: 'network', label: 'External network', type: 'select', required: true, options: options.externalNetworks, value: gateway(row)},
      ],
      request: (row, {network}) => change(row, {external_gateway_info: {network_id: network}}),
      command: (row, {network}) => openstack('router set', ['--external-gateway', network || 'NETWORK'], row.id),
    },
    {
      name: 'clear-gateway',
      label: 'Clear gateway',
      done: 'Gateway of {name} cleared',
      rule: 'update_router',
      danger: true,
      when: row => !!gateway(row),
      ask: 'The networks of the router lose external access and their floating addresses.',
      request: row => change(row, {external_gateway_info: null}),
      command: row => openstack('router unset --external-gateway', row.id),
    },
    addInterface,
    addRoute,
    rename('router', '/routers', 'update_router', 'router set'),
    remove('network', '/routers', 'delete_router', 'router delete'),
  ],
};
