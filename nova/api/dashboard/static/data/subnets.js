// Subnets: the fields of their forms, the request, the command, and the resource of Terraform.
import {openstack} from '../core/command.js';
import {expression, label, terraform} from '../core/terraform.js';
import {given, lines, words} from './common.js';

const MODES = ['slaac', 'dhcpv6-stateless', 'dhcpv6-stateful'].map(value => ({value, label: value}));
const ANY = () => true;

/** The family of addresses. @param {string} cidr */
const version = cidr => ((cidr ?? '').includes(':') ? 6 : 4);
/** Pools of a text: first-last, one a line. @param {string} text */
const pools = text =>
  lines(text).map(line => {
    const [start, end] = line.split('-').map(part => part.trim());
    return {start, end: end ?? start};
  });
/** Routes of a text: "destination nexthop", one a line. @param {string} text */
export const routes = text =>
  lines(text).map(line => {
    const [destination, nexthop = ''] = words(line);
    return {destination, nexthop};
  });

/**
 * The fields of a subnet.
 * @param {any} [row]  the subnet that is changed @param {(values: any) => boolean} [when]
 * @returns {import('../parts/form.js').Field[]}
 */
export const fields = (row, when = ANY) => [
  ...(row
    ? []
    : [
        {name: 'cidr', label: 'Addresses', required: true, when, help: 'A range such as 10.1.0.0/24 or 2001:db8::/64'},
        {
          name: 'ipv6_mode',
          label: 'Addresses of guests',
          type: /** @type {const} */ ('select'),
          none: 'no mode',
          options: MODES,
          when: (/** @type {any} */ values) => when(values) && version(values.cidr) === 6,
        },
      ]),
  {
    name: 'gateway',
    label: 'Gateway',
    value: row?.gateway_ip ?? (row ? 'none' : ''),
    when,
    help: 'Empty: the first address. none: without a gateway.',
  },
  {name: 'enable_dhcp', label: 'DHCP', type: 'check', value: row?.enable_dhcp ?? true, when},
  {name: 'dns', label: 'DNS servers', value: (row?.dns_nameservers ?? []).join(', '), when, help: 'Separated by commas'},
  {
    name: 'pools',
    label: 'Allocation pools',
    type: 'textarea',
    more: true,
    when,
    value: (row?.allocation_pools ?? []).map((/** @type {any} */ one) => `${one.start}-${one.end}`).join('\n'),
    help: 'first-last, one per line. Empty: the whole range.',
  },
  {
    name: 'routes',
    label: 'Host routes',
    type: 'textarea',
    more: true,
    when,
    value: (row?.host_routes ?? []).map((/** @type {any} */ one) => `${one.destination} ${one.nexthop}`).join('\n'),
    help: 'Destination and next hop, one pair per line',
  },
];

/** The changeable attributes. @param {any} values @param {boolean} [change]  whether empty lists are sent */
export const attributes = (values, change = false) => ({
  ...given({name: values.subnet_name ?? values.name}),
  ...(values.gateway === 'none' ? {gateway_ip: null} : given({gateway_ip: values.gateway})),
  enable_dhcp: !!values.enable_dhcp,
  ...(change || values.dns ? {dns_nameservers: words(values.dns)} : {}),
  ...(values.pools ? {allocation_pools: pools(values.pools)} : {}),
  ...(change || values.routes ? {host_routes: routes(values.routes)} : {}),
});

/** The attributes of a new subnet. @param {any} values @returns {Record<string, any>} */
export const body = values => ({
  cidr: values.cidr,
  ip_version: version(values.cidr),
  ...attributes(values),
  ...(values.ipv6_mode && version(values.cidr) === 6
    ? {ipv6_ra_mode: values.ipv6_mode, ipv6_address_mode: values.ipv6_mode}
    : {}),
});

/** @param {any} values @returns {[string, any][]} */
const options = values => [
  ['--gateway', values.gateway],
  ...words(values.dns).map(one => /** @type {[string, string]} */ (['--dns-nameserver', one])),
  ...pools(values.pools).map(
    one => /** @type {[string, string]} */ (['--allocation-pool', `start=${one.start},end=${one.end}`]),
  ),
  ...routes(values.routes).map(
    one => /** @type {[string, string]} */ (['--host-route', `destination=${one.destination},gateway=${one.nexthop}`]),
  ),
];

/** @param {string} network @param {any} values @param {string} name */
export const command = (network, values, name) =>
  openstack(
    'subnet create',
    ['--network', network],
    ['--subnet-range', values.cidr || 'RANGE'],
    version(values.cidr) === 6 && '--ip-version 6',
    values.ipv6_mode && `--ipv6-ra-mode ${values.ipv6_mode} --ipv6-address-mode ${values.ipv6_mode}`,
    ...options(values),
    !values.enable_dhcp && '--no-dhcp',
    name || 'NAME',
  );
/** @param {any} row @param {any} values */
export const change = (row, values) =>
  openstack('subnet set', ['--name', values.name], ...options(values), values.enable_dhcp ? '--dhcp' : '--no-dhcp', row.id);

/** @param {any} network  its id, or an expression @param {any} values @param {string} name */
export const hcl = (network, values, name) => {
  const {gateway_ip: gateway, host_routes: hostRoutes = [], allocation_pools: found, ...rest} = body(values);
  return [
    terraform('networking_subnet_v2', name, {
      network_id: network,
      ...rest,
      name,
      ...(gateway === null ? {no_gateway: true} : {gateway_ip: gateway}),
      allocation_pool: found,
    }),
    ...hostRoutes.map((/** @type {any} */ one) =>
      terraform('networking_subnet_route_v2', one.destination, {
        subnet_id: expression(`openstack_networking_subnet_v2.${label(name)}.id`),
        destination_cidr: one.destination,
        next_hop: one.nexthop,
      }),
    ),
  ].join('\n');
};
