// Security groups with their rules.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {t} from '../../core/text.js';
import {Card, Empty} from '../../parts/basics.js';
import {Table} from '../../parts/table.js';

/** Ports or kinds of a rule. @param {any} rule */
const ports = rule =>
  rule.port_range_min === null || rule.port_range_min === undefined
    ? 'any'
    : rule.port_range_min === rule.port_range_max
      ? String(rule.port_range_min)
      : `${rule.port_range_min}–${rule.port_range_max}`;
/** @type {import('../../parts/table.js').Column[]} */
const COLUMNS = [
  {name: 'direction', label: 'Direction', value: rule => rule.direction},
  {name: 'ethertype', label: 'Family', value: rule => rule.ethertype},
  {name: 'protocol', label: 'Protocol', value: rule => rule.protocol ?? 'any'},
  {name: 'ports', label: 'Ports', value: ports},
  {
    name: 'remote',
    label: 'Other side',
    value: rule =>
      rule.remote_ip_prefix ?? (rule.remote_group_id ? `group ${rule.remote_group_id.slice(0, 8)}` : 'any'),
  },
  {name: 'description', label: 'Description', value: rule => rule.description || '–'},
];

/** @type {import('../../parts/actions.js').Action} */
const addRule = {
  name: 'add-rule',
  label: 'Add a rule',
  form: [
    {
      name: 'direction',
      label: 'Direction',
      type: 'select',
      required: true,
      value: 'ingress',
      options: [
        {value: 'ingress', label: 'to the server'},
        {value: 'egress', label: 'from the server'},
      ],
    },
    {
      name: 'protocol',
      label: 'Protocol',
      type: 'select',
      value: 'tcp',
      none: 'any',
      options: ['tcp', 'udp', 'icmp'].map(value => ({value, label: value})),
    },
    {
      name: 'ports',
      label: 'Ports',
      when: values => values.protocol === 'tcp' || values.protocol === 'udp',
      help: 'One, as 22, or a range, as 8000-8010. Empty: all.',
      pattern: '\\d+(-\\d+)?',
    },
    {name: 'remote', label: 'Other side', help: 'Addresses, as 192.0.2.0/24. Empty: any.'},
  ],
  request: (row, {direction, protocol, ports: given, remote}) => {
    const [from, to] = (given || '').split('-');
    return {
      service: 'network',
      method: 'POST',
      path: '/security-group-rules',
      body: {
        security_group_rule: {
          security_group_id: row.id,
          direction,
          ethertype: remote.includes(':') ? 'IPv6' : 'IPv4',
          protocol: protocol || null,
          ...(from && protocol !== 'icmp' ? {port_range_min: Number(from), port_range_max: Number(to ?? from)} : {}),
          ...(remote ? {remote_ip_prefix: remote} : {}),
        },
      },
    };
  },
  command: (row, {direction, protocol, ports: given, remote}) =>
    openstack(
      'security group rule create',
      `--${direction}`,
      ['--protocol', protocol],
      ['--dst-port', given?.replace('-', ':')],
      ['--remote-ip', remote],
      row.id,
    ),
};
/** @type {import('../../parts/actions.js').Action} */
const removeRule = {
  name: 'remove-rule',
  label: 'Remove',
  danger: true,
  request: row => ({service: 'network', method: 'DELETE', path: `/security-group-rules/${row.id}`}),
  command: row => openstack('security group rule delete', row.id),
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/security-groups',
  key: 'security_groups',
  empty: 'There are no security groups.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'description', label: 'Description', value: row => row.description},
    {name: 'rules', label: 'Rules', number: true, value: row => row.security_group_rules?.length ?? 0},
  ],
  one: 'security_group',
  facts: row => [
    ['Id', row.id],
    ['Description', row.description],
    ['Project', row.project_id],
  ],
  more: async row =>
    (await call('network', '/security-group-rules', {query: {security_group_id: row.id}})).security_group_rules,
  parts: (
    row,
    rules,
    _reload,
    choose,
  ) => html`<${Card} title=${t('Rules')} class="span" action=${html`<button type="button" class="small" onClick=${() => choose(addRule, row)}>${t('Add a rule')}</button>`}>
    ${
      rules.length
        ? html`<${Table} label=${t('Rules')} columns=${COLUMNS} rows=${rules} idOf=${(/** @type {any} */ rule) => rule.id} nameOf=${(/** @type {any} */ rule) => `${rule.direction} ${rule.protocol ?? 'any'} ${ports(rule)}`} sort=${null} sortable=${() => false} onSort=${() => null}
      actions=${[removeRule]} onAction=${(/** @type {any} */ action, /** @type {any[]} */ on) => choose(action, on[0])} selected=${new Set()} onSelect=${null} />`
        : html`<${Empty} icon="shield" text=${t('There are none.')} />`
    }</${Card}>`,
  create: {
    name: 'make-security-group',
    label: 'Make a group',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'description', label: 'Description'},
    ],
    request: (_row, {name, description}) => ({
      service: 'network',
      method: 'POST',
      path: '/security-groups',
      body: {security_group: {name, description}},
    }),
    command: (_row, {name, description}) =>
      openstack('security group create', ['--description', description], name || 'NAME'),
  },
  actions: [
    addRule,
    {
      name: 'delete',
      label: 'Delete',
      danger: true,
      bulk: true,
      when: row => row.name !== 'default',
      request: row => ({service: 'network', method: 'DELETE', path: `/security-groups/${row.id}`}),
      command: row => openstack('security group delete', row.id),
    },
  ],
};
