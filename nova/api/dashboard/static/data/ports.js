// Ports of networks: columns, forms and actions, which the page of a network shares with the list of all ports.
import {html} from '../core/html.js';
import {openstack} from '../core/command.js';
import * as options from '../core/options.js';
import {may} from '../core/permissions.js';
import {terraform} from '../core/terraform.js';
import {Badge} from '../parts/basics.js';
import {Named} from '../parts/named.js';
import {NAME, STATUS, given, lines, remove, words} from './common.js';

/** @typedef {import('../parts/actions.js').Action} Action */

/** The device of a port: a server or a router, or the kind that the API says. @param {{row: any}} props */
const Device = ({row}) =>
  !row.device_id
    ? '–'
    : row.device_owner.startsWith('compute:')
      ? html`<${Named} kind="server" id=${row.device_id} />`
      : row.device_owner.startsWith('network:router')
        ? html`<${Named} kind="router" id=${row.device_id} />`
        : row.device_owner || row.device_id;

/** @type {import('../parts/table.js').Column[]} */
export const COLUMNS = [
  NAME,
  {
    name: 'address',
    label: 'Addresses',
    value: row => row.fixed_ips?.map((/** @type {any} */ ip) => ip.ip_address).join(', ') || '–',
  },
  {name: 'mac', label: 'MAC address', value: row => row.mac_address},
  {name: 'device', label: 'Device', value: row => row.device_id || '', show: row => html`<${Device} row=${row} />`},
  STATUS,
  {
    name: 'security',
    label: 'Port security',
    value: row => (row.port_security_enabled ? 'yes' : 'no'),
    show: row => html`<span><${Badge} state=${row.port_security_enabled} /></span>`,
  },
];

/** Fixed addresses of a text: "address" or "address subnet", one a line. @param {string} text */
const fixed = text =>
  lines(text).map(line => {
    const [first, second] = words(line);
    return /^[0-9a-f]{8}-/.test(first) ? given({subnet_id: first, ip_address: second}) : given({ip_address: first, subnet_id: second});
  });
/** Address pairs of a text: "address" or "address MAC", one a line. @param {string} text */
const pairs = text =>
  lines(text).map(line => {
    const [address, mac] = words(line);
    return given({ip_address: address, mac_address: mac});
  });

/** @param {any} [row]  the port that is changed @returns {import('../parts/form.js').Field[]} */
const fields = row => [
  {name: 'name', label: 'Name', value: row?.name},
  {name: 'description', label: 'Description', value: row?.description},
  {
    name: 'fixed',
    label: 'Fixed addresses',
    type: 'textarea',
    value: (row?.fixed_ips ?? []).map((/** @type {any} */ one) => `${one.ip_address} ${one.subnet_id}`).join('\n'),
    help: 'An address, or an address and the id of its subnet, one per line. Empty: a free address.',
  },
  {
    name: 'security_groups',
    label: 'Security groups',
    type: 'many',
    options: options.groups,
    value: row?.security_groups ?? [],
    when: values => values.port_security_enabled,
  },
  {
    name: 'port_security_enabled',
    label: 'Port security',
    help: 'Packets are filtered, and source addresses are checked.',
    type: 'check',
    value: row?.port_security_enabled ?? true,
  },
  {
    name: 'pairs',
    label: 'Allowed address pairs',
    type: 'textarea',
    when: values => values.port_security_enabled && may('create_port:allowed_address_pairs'),
    value: (row?.allowed_address_pairs ?? []).map((/** @type {any} */ one) => `${one.ip_address} ${one.mac_address}`).join('\n'),
    help: 'A further address or range that the device may send from, and a MAC address, one per line',
  },
  {name: 'qos_policy_id', label: 'QoS policy', type: 'select', options: options.qosPolicies, none: 'none', value: row?.qos_policy_id ?? ''},
];

/** A free address of each subnet in which a port has one: without any the port would lose all. @param {any} row */
const free = row => row.fixed_ips.map((/** @type {any} */ one) => ({subnet_id: one.subnet_id}));

/** @param {any} values @param {any} [row] */
const body = (values, row) => {
  const secure = values.port_security_enabled;
  return {
    name: values.name,
    description: values.description,
    ...(values.fixed.trim() ? {fixed_ips: fixed(values.fixed)} : {}),
    ...(row && row.port_security_enabled === secure ? {} : secure && !row ? {} : {port_security_enabled: secure}),
    ...(secure ? (values.security_groups.length || row ? {security_groups: values.security_groups} : {}) : {security_groups: []}),
    ...(secure && (values.pairs || row?.allowed_address_pairs?.length) ? {allowed_address_pairs: pairs(values.pairs)} : {}),
    ...(!secure && row?.allowed_address_pairs?.length ? {allowed_address_pairs: []} : {}),
    ...(values.qos_policy_id || row?.qos_policy_id ? {qos_policy_id: values.qos_policy_id || null} : {}),
  };
};
/** @param {any} values @returns {[string, any][]} */
const said = values => [
  ...fixed(values.fixed).map(
    one =>
      /** @type {[string, string]} */ ([
        '--fixed-ip',
        Object.entries(one).map(([key, value]) => `${key.replace('_id', '').replace('ip_address', 'ip-address')}=${value}`).join(','),
      ]),
  ),
  ...values.security_groups.map((/** @type {string} */ one) => ['--security-group', one]),
  ...pairs(values.pairs).map(
    one =>
      /** @type {[string, string]} */ ([
        '--allowed-address',
        `ip-address=${one.ip_address}${one.mac_address ? `,mac-address=${one.mac_address}` : ''}`,
      ]),
  ),
  ['--qos-policy', values.qos_policy_id],
];

/** @type {Action} */
export const ADD = {
  name: 'add-port',
  label: 'Create port',
  done: 'Port created',
  rule: 'create_port',
  form: fields(),
  request: (row, values) => ({service: 'network', method: 'POST', path: '/ports', body: {port: {network_id: row.id, ...body(values)}}}),
  command: (row, values) =>
    openstack('port create', ['--network', row.id], ...said(values), !values.port_security_enabled && '--disable-port-security', values.name || 'NAME'),
  terraform: (row, values) =>
    terraform('networking_port_v2', values.name || 'port', {
      network_id: row.id,
      name: values.name,
      security_group_ids: values.port_security_enabled ? values.security_groups : undefined,
      port_security_enabled: values.port_security_enabled ? undefined : false,
      qos_policy_id: values.qos_policy_id,
      fixed_ip: fixed(values.fixed),
      allowed_address_pairs: pairs(values.pairs),
    }),
};

/** @type {Action[]} */
export const ACTIONS = [
  {
    name: 'edit',
    label: 'Edit',
    done: 'Port {name} changed',
    rule: 'update_port',
    when: row => !row.device_owner.startsWith('network:'),
    form: fields,
    request: (row, values) => {
      const {fixed_ips: addresses, ...changed} = body(values, row);
      const before = fields(row).find(one => one.name === 'fixed')?.value;
      return {
        service: 'network',
        method: 'PUT',
        path: `/ports/${row.id}`,
        body: {port: {...changed, ...(values.fixed.trim() === before ? {} : {fixed_ips: addresses ?? free(row)})}},
      };
    },
    command: (row, values) =>
      openstack('port set', ['--name', values.name], ...said(values), !values.port_security_enabled && '--disable-port-security', row.id),
  },
  remove('network', '/ports', 'delete_port', 'port delete', {when: row => !row.device_id}),
];
