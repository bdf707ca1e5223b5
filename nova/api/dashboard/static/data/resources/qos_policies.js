// QoS policies: bandwidth limits and DSCP marks for ports and networks.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import {terraform} from '../../core/terraform.js';
import {number, t} from '../../core/text.js';
import {offered} from '../../parts/actions.js';
import {DESCRIPTION, NAME, NAME_FIELD, PROJECT, Rows, mine, remove, rename, yes} from '../common.js';

/** @typedef {import('../../parts/actions.js').Action} Action */

/** @type {Action} */
const limit = {
  name: 'limit',
  label: 'Add bandwidth limit',
  done: 'Bandwidth limit added to {name}',
  rule: 'create_policy_bandwidth_limit_rule',
  form: [
    {name: 'direction', label: 'Direction', type: 'select', required: true, value: 'egress', options: ['egress', 'ingress'].map(value => ({value, label: value}))},
    {name: 'max_kbps', label: 'Bandwidth (kbit/s)', type: 'number', min: 1, required: true},
    {name: 'max_burst_kbps', label: 'Burst (kbit)', type: 'number', min: 0, value: 0},
  ],
  request: (row, values) => ({
    service: 'network',
    method: 'POST',
    path: `/qos/policies/${row.id}/bandwidth_limit_rules`,
    body: {bandwidth_limit_rule: {direction: values.direction, max_kbps: Number(values.max_kbps), max_burst_kbps: Number(values.max_burst_kbps)}},
  }),
  command: (row, values) =>
    openstack('network qos rule create --type bandwidth-limit', ['--max-kbps', values.max_kbps], `--${values.direction}`, row.id),
  terraform: (row, values) =>
    terraform('networking_qos_bandwidth_limit_rule_v2', row.name, {qos_policy_id: row.id, max_kbps: Number(values.max_kbps) || undefined, direction: values.direction}),
};
/** @type {Action} */
const mark = {
  name: 'mark',
  label: 'Add DSCP mark',
  done: 'DSCP mark added to {name}',
  rule: 'create_policy_dscp_marking_rule',
  form: [{name: 'dscp_mark', label: 'DSCP mark', type: 'number', min: 0, max: 56, required: true}],
  request: (row, values) => ({
    service: 'network',
    method: 'POST',
    path: `/qos/policies/${row.id}/dscp_marking_rules`,
    body: {dscp_marking_rule: {dscp_mark: Number(values.dscp_mark)}},
  }),
  command: (row, values) => openstack('network qos rule create --type dscp-marking', ['--dscp-mark', values.dscp_mark], row.id),
  terraform: (row, values) => terraform('networking_qos_dscp_marking_rule_v2', row.name, {qos_policy_id: row.id, dscp_mark: Number(values.dscp_mark)}),
};
/** @type {Action} */
const removeRule = {
  name: 'remove-rule',
  label: 'Remove',
  done: 'Rule removed',
  rule: 'delete_policy_bandwidth_limit_rule',
  danger: true,
  request: row => ({service: 'network', method: 'DELETE', path: `/qos/policies/${row.policy}/${row.type}_rules/${row.id}`}),
  command: row => openstack('network qos rule delete', row.policy, row.id),
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/qos/policies',
  key: 'policies',
  one: 'policy',
  empty: 'There are no QoS policies.',
  columns: [
    NAME,
    {name: 'description', label: 'Description', value: row => row.description || '–'},
    {name: 'rules', label: 'Rules', number: true, value: row => row.rules.length},
    {name: 'shared', label: 'Shared', value: row => yes(row.shared)},
    PROJECT,
  ],
  facts: row => [
    ['Id', row.id],
    ['Shared', yes(row.shared)],
    ['Description', row.description],
  ],
  parts: (row, _more, _reload, choose) => html`<${Rows} title=${t('Rules')} choose=${choose} actions=${mine(row) ? [removeRule] : []} nameOf=${(/** @type {any} */ one) => one.type}
    add=${mine(row) && html`<span>${[limit, mark].filter(offered).map(action => html`<button type="button" class="small" onClick=${() => choose(action, row)}>${t(action.label)}</button> `)}</span>`}
    rows=${row.rules.map((/** @type {any} */ one) => ({...one, policy: row.id}))} columns=${[
      {name: 'type', label: 'Type', value: (/** @type {any} */ one) => one.type.replace('_', ' ')},
      {name: 'direction', label: 'Direction', value: (/** @type {any} */ one) => one.direction ?? '–'},
      {name: 'value', label: 'Value', value: (/** @type {any} */ one) => (one.max_kbps ? `${number(one.max_kbps)} kbit/s` : one.dscp_mark)},
    ]} />`,
  create: {
    name: 'create-qos',
    label: 'Create QoS policy',
    done: 'QoS policy {name} created',
    rule: 'create_policy',
    form: [NAME_FIELD, DESCRIPTION, {name: 'shared', label: 'Shared with all projects', type: 'check'}],
    request: (_row, values) => ({service: 'network', method: 'POST', path: '/qos/policies', body: {policy: values}}),
    command: (_row, {name, shared}) => openstack('network qos policy create', shared && '--share', name || 'NAME'),
    terraform: (_row, values) => terraform('networking_qos_policy_v2', values.name, {...values, shared: values.shared || undefined}),
  },
  actions: [
    {...limit, when: mine},
    {...mark, when: mine},
    rename('policy', '/qos/policies', 'update_policy', 'network qos policy set', {when: mine}),
    remove('network', '/qos/policies', 'delete_policy', 'network qos policy delete', {when: mine}),
  ],
};
