// Networks with their subnets, ports and the projects that share them.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {may} from '../../core/permissions.js';
import {expression, label, terraform} from '../../core/terraform.js';
import {t} from '../../core/text.js';
import {offered} from '../../parts/actions.js';
import {Named} from '../../parts/named.js';
import {DESCRIPTION, NAME, NAME_FIELD, PROJECT, Rows, STATUS, given, mine, remove, rename, undoing, yes} from '../common.js';
import * as ports from '../ports.js';
import * as subnets from '../subnets.js';

/** @typedef {import('../../parts/actions.js').Action} Action */

const post = (/** @type {string} */ path, /** @type {any} */ body) => call('network', path, {method: 'POST', body});
const put = (/** @type {string} */ path, /** @type {any} */ body) => call('network', path, {method: 'PUT', body});
const drop = (/** @type {string} */ path) => call('network', path, {method: 'DELETE'});

/** @type {Action} */
const addSubnet = {
  name: 'add-subnet',
  label: 'Create subnet',
  done: 'Subnet created',
  rule: 'create_subnet',
  form: [{name: 'name', label: 'Name'}, ...subnets.fields()],
  request: (row, values) => ({
    service: 'network',
    method: 'POST',
    path: '/subnets',
    body: {subnet: {network_id: row.id, ...subnets.body(values)}},
  }),
  command: (row, values) => subnets.command(row.id, values, values.name),
  terraform: (row, values) => subnets.hcl(row.id, values, values.name || 'subnet'),
};
/** @type {Action[]} */
const SUBNET_ACTIONS = [
  {
    name: 'edit-subnet',
    label: 'Edit',
    done: 'Subnet {name} changed',
    rule: 'update_subnet',
    form: row => [{name: 'name', label: 'Name', value: row.name}, ...subnets.fields(row)],
    request: (row, values) => ({
      service: 'network',
      method: 'PUT',
      path: `/subnets/${row.id}`,
      body: {subnet: subnets.attributes(values, true)},
    }),
    command: subnets.change,
  },
  {
    ...remove('network', '/subnets', 'delete_subnet', 'subnet delete'),
    gone: false,
  },
];
/** @type {Action} */
const share = {
  name: 'share',
  label: 'Share',
  done: 'Network shared',
  rule: 'create_rbac_policy',
  form: [
    {
      name: 'target_tenant',
      label: 'Id of the project',
      required: true,
      help: 'An asterisk stands for all projects, which only administrators may choose.',
    },
  ],
  request: (row, values) => ({
    service: 'network',
    method: 'POST',
    path: '/rbac-policies',
    body: {rbac_policy: {object_type: 'network', object_id: row.id, action: 'access_as_shared', ...values}},
  }),
  command: (row, {target_tenant: target}) =>
    openstack('network rbac create --type network --action access_as_shared', target === '*' ? '--target-all-projects' : ['--target-project', target || 'PROJECT'], row.id),
  terraform: (row, {target_tenant: target}) =>
    terraform('networking_rbac_policy_v2', `share_${row.name}`, {object_type: 'network', object_id: row.id, action: 'access_as_shared', target_tenant: target}),
};
const unshare = {...remove('network', '/rbac-policies', 'delete_rbac_policy', 'network rbac delete'), gone: false, label: 'Stop sharing', done: 'Network no longer shared'};

const withSubnet = (/** @type {any} */ values) => values.subnet;

/** A network with its subnet and its router. A failure removes what was created. @param {any} values @param {(share: number) => void} progress */
const createAll = (values, progress) =>
  undoing(async undo => {
    const {network} = await post('/networks', {network: networkBody(values)});
    undo(() => drop(`/networks/${network.id}`));
    progress(0.25);
    if (!values.subnet) return network;
    const {subnet} = await post('/subnets', {subnet: {network_id: network.id, ...subnets.body({...values, name: values.subnet_name || `${values.name}-subnet`})}});
    progress(0.5);
    if (!values.router) return network;
    let router = values.router;
    if (router === 'new') {
      router = (await post('/routers', {router: routerBody(values)})).router.id;
      undo(() => drop(`/routers/${router}`));
      progress(0.75);
    }
    await put(`/routers/${router}/add_router_interface`, {subnet_id: subnet.id});
    return network;
  });
const networkBody = (/** @type {any} */ values) => ({
  name: values.name,
  ...given({description: values.description, mtu: Number(values.mtu) || undefined, qos_policy_id: values.qos_policy_id}),
  ...(values.shared ? {shared: true} : {}),
  ...(values.external ? {'router:external': true} : {}),
});
const routerBody = (/** @type {any} */ values) => ({
  name: `${values.name}-router`,
  ...(values.gateway_network ? {external_gateway_info: {network_id: values.gateway_network}} : {}),
});

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/networks',
  key: 'networks',
  empty: 'There are no networks.',
  columns: [
    NAME,
    STATUS,
    {name: 'subnets', label: 'Subnets', number: true, value: row => row.subnets?.length ?? 0},
    {name: 'shared', label: 'Shared', value: row => yes(row.shared)},
    {name: 'external', label: 'External', value: row => yes(row['router:external'])},
    {name: 'mtu', label: 'MTU', number: true, value: row => row.mtu},
    PROJECT,
  ],
  one: 'network',
  facts: row => [
    ['Id', row.id],
    ['Status', row.status],
    ['Shared', yes(row.shared)],
    ['External', yes(row['router:external'])],
    ['Port security', yes(row.port_security_enabled)],
    ['QoS policy', row.qos_policy_id && html`<${Named} kind="qos" id=${row.qos_policy_id} />`],
    ['MTU', row.mtu],
    ['Type', row['provider:network_type']],
    ['Physical network', row['provider:physical_network']],
    ['Segment', row['provider:segmentation_id']],
    ['Project', html`<${Named} kind="project" id=${row.project_id} />`],
    ['Description', row.description],
  ],
  more: async row => {
    const [own, found, shares] = await Promise.all([
      call('network', '/subnets', {query: {network_id: row.id}}),
      call('network', '/ports', {query: {network_id: row.id}}),
      call('network', '/rbac-policies', {query: {object_id: row.id}}).catch(() => ({rbac_policies: []})),
    ]);
    return {subnets: own.subnets, ports: found.ports, shares: shares.rbac_policies};
  },
  parts: (row, more, _reload, choose) => {
    const add = (/** @type {Action} */ action) =>
      mine(row) &&
      offered(action) &&
      html`<button type="button" class="small" onClick=${() => choose(action, row)}>${t(action.label)}</button>`;
    return html`
    <${Rows} title=${t('Subnets')} rows=${more.subnets} actions=${mine(row) ? SUBNET_ACTIONS : []} choose=${choose} add=${add(addSubnet)} columns=${[
      NAME,
      {name: 'cidr', label: 'Addresses', value: (/** @type {any} */ one) => one.cidr},
      {name: 'gateway', label: 'Gateway', value: (/** @type {any} */ one) => one.gateway_ip},
      {name: 'dhcp', label: 'DHCP', value: (/** @type {any} */ one) => yes(one.enable_dhcp)},
      {name: 'dns', label: 'DNS servers', value: (/** @type {any} */ one) => one.dns_nameservers.join(', ') || '–'},
      {
        name: 'pools',
        label: 'Allocation pools',
        value: (/** @type {any} */ one) => one.allocation_pools.map((/** @type {any} */ pool) => `${pool.start}–${pool.end}`).join(', '),
      },
      {name: 'mode', label: 'IPv6 mode', value: (/** @type {any} */ one) => one.ipv6_address_mode ?? '–'},
    ]} />
    <${Rows} title=${t('Ports')} rows=${more.ports} columns=${ports.COLUMNS} actions=${ports.ACTIONS} choose=${choose}
      nameOf=${(/** @type {any} */ one) => one.name || one.fixed_ips?.[0]?.ip_address || one.id} add=${offered(ports.ADD) && html`<button type="button" class="small" onClick=${() => choose(ports.ADD, row)}>${t(ports.ADD.label)}</button>`} />
    ${
      (more.shares.length > 0 || (mine(row) && offered(share))) &&
      html`<${Rows} title=${t('Shared with')} rows=${more.shares} actions=${mine(row) ? [unshare] : []} choose=${choose} add=${add(share)} nameOf=${(/** @type {any} */ one) => one.target_tenant} columns=${[
        {
          name: 'target',
          label: 'Project',
          value: (/** @type {any} */ one) => one.target_tenant,
          show: (/** @type {any} */ one) => (one.target_tenant === '*' ? t('all projects') : html`<${Named} kind="project" id=${one.target_tenant} plain />`),
        },
        {name: 'action', label: 'Use', value: (/** @type {any} */ one) => (one.action === 'access_as_external' ? t('as external network') : t('as shared network'))},
      ]} />`
    }`;
  },
  create: {
    name: 'create-network',
    label: 'Create network',
    done: 'Network {name} created',
    rule: 'create_network',
    form: [
      NAME_FIELD,
      DESCRIPTION,
      {name: 'subnet', label: 'With a subnet', type: 'check', value: true, help: 'Servers need a subnet for their addresses.'},
      ...subnets.fields(undefined, withSubnet),
      {
        name: 'router',
        label: 'Router',
        type: 'select',
        when: withSubnet,
        value: 'new',
        none: 'none: no external access',
        options: async () => [{value: 'new', label: t('a new router')}, ...(await options.routers())],
        help: 'Floating addresses need a router that has a gateway.',
      },
      {
        name: 'gateway_network',
        label: 'Gateway of the router',
        type: 'select',
        none: 'none',
        preset: true,
        when: values => values.subnet && values.router === 'new',
        options: options.externalNetworks,
      },
      {name: 'qos_policy_id', label: 'QoS policy', type: 'select', none: 'none', options: options.qosPolicies, more: true},
      {name: 'shared', label: 'Shared with all projects', type: 'check', when: () => may('create_network:shared')},
      {name: 'external', label: 'External: routers can have their gateways in it', type: 'check', when: () => may('create_network:router:external')},
    ],
    perform: (_row, values, progress) => createAll(values, progress),
    command: (_row, values) =>
      [
        openstack('network create', ['--description', values.description], values.shared && '--share', values.external && '--external', values.name || 'NAME'),
        ...(values.subnet ? [subnets.command(values.name || 'NAME', values, `${values.name}-subnet`)] : []),
        ...(values.subnet && values.router === 'new'
          ? [openstack('router create', ['--external-gateway', values.gateway_network], `${values.name}-router`)]
          : []),
        ...(values.subnet && values.router
          ? [openstack('router add subnet', values.router === 'new' ? `${values.name}-router` : values.router, `${values.name}-subnet`)]
          : []),
      ].join('\n'),
    terraform: (_row, values) => {
      const name = label(values.name);
      const of = (/** @type {string} */ type) => expression(`openstack_networking_${type}_v2.${name}.id`);
      return [
        terraform('networking_network_v2', name, {name: values.name, description: values.description, shared: values.shared || undefined, external: values.external || undefined}),
        ...(values.subnet ? [subnets.hcl(of('network'), values, name)] : []),
        ...(values.subnet && values.router === 'new'
          ? [terraform('networking_router_v2', name, {name: `${values.name}-router`, external_network_id: values.gateway_network})]
          : []),
        ...(values.subnet && values.router
          ? [terraform('networking_router_interface_v2', name, {router_id: values.router === 'new' ? of('router') : values.router, subnet_id: of('subnet')})]
          : []),
      ].join('\n');
    },
  },
  actions: [
    {...addSubnet, when: mine},
    rename('network', '/networks', 'update_network', 'network set', {
      when: mine,
      form: row => [
        {...NAME_FIELD, required: false, value: row.name},
        {...DESCRIPTION, value: row.description},
        {name: 'qos_policy_id', label: 'QoS policy', type: 'select', none: 'none', options: options.qosPolicies, value: row.qos_policy_id ?? ''},
      ],
      request: (row, {qos_policy_id: policy, ...values}) => ({
        service: 'network',
        method: 'PUT',
        path: `/networks/${row.id}`,
        body: {network: {...values, ...(policy || row.qos_policy_id ? {qos_policy_id: policy || null} : {})}},
      }),
    }),
    remove('network', '/networks', 'delete_network', 'network delete', {when: mine}),
  ],
};
