// All ports of the project.
import {html} from '../../core/html.js';
import {Named} from '../../parts/named.js';
import {ACTIONS, COLUMNS} from '../ports.js';
import {PROJECT, yes} from '../common.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/ports',
  key: 'ports',
  one: 'port',
  empty: 'There are no ports.',
  nameOf: row => row.name || row.fixed_ips?.[0]?.ip_address,
  columns: [
    ...COLUMNS,
    {name: 'network', label: 'Network', value: row => row.network_id, show: row => html`<${Named} kind="network" id=${row.network_id} />`},
    PROJECT,
  ],
  facts: row => [
    ['Id', row.id],
    ['Status', row.status],
    ['Network', html`<${Named} kind="network" id=${row.network_id} />`],
    ['Addresses', row.fixed_ips.map((/** @type {any} */ one) => one.ip_address).join(', ')],
    ['MAC address', row.mac_address],
    ['Device', row.device_owner && html`${row.device_owner} <span class="mono">${row.device_id}</span>`],
    ['Host', row['binding:host_id']],
    ['Port security', yes(row.port_security_enabled)],
    ['Security groups', row.security_groups.map((/** @type {string} */ id) => html`<${Named} kind="group" id=${id} /> `)],
    ['Allowed address pairs', row.allowed_address_pairs.map((/** @type {any} */ one) => `${one.ip_address} ${one.mac_address}`).join(', ')],
    ['QoS policy', row.qos_policy_id && html`<${Named} kind="qos" id=${row.qos_policy_id} />`],
    ['Description', row.description],
  ],
  actions: ACTIONS,
};
