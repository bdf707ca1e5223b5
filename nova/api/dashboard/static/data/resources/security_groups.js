// Security groups with their rules.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {terraform} from '../../core/terraform.js';
import {t} from '../../core/text.js';
import {offered} from '../../parts/actions.js';
import {Named} from '../../parts/named.js';
import {DESCRIPTION, NAME, NAME_FIELD, PROJECT, Rows, given, mine, remove, rename, yes} from '../common.js';

const ICMP = ['icmp', 'ipv6-icmp'];
const PORTS = ['tcp', 'udp', 'sctp', 'udplite', 'dccp'];
const isPorts = (/** @type {any} */ values) => PORTS.includes(values.protocol);
const isIcmp = (/** @type {any} */ values) => ICMP.includes(values.protocol);
/** Common types of ICMP. @type {Record<string, [string, string][]>} */
const TYPES = {
  icmp: [
    ['8', '8 echo request'],
    ['0', '0 echo reply'],
    ['3', '3 destination unreachable'],
    ['11', '11 time exceeded'],
  ],
  'ipv6-icmp': [
    ['128', '128 echo request'],
    ['129', '129 echo reply'],
    ['1', '1 destination unreachable'],
    ['2', '2 packet too big'],
    ['3', '3 time exceeded'],
    ['135', '135 neighbor solicitation'],
    ['136', '136 neighbor advertisement'],
  ],
};

/** Ports of a rule, or type and code of ICMP. @param {any} rule */
const ports = rule => {
  const {port_range_min: from, port_range_max: to} = rule;
  if (from === null || from === undefined) return t('any');
  if (/icmp/.test(rule.protocol ?? '')) return to === null || to === undefined ? t('type {type}', {type: from}) : t('type {type} code {code}', {type: from, code: to});
  return from === to ? String(from) : `${from}–${to}`;
};
/** @type {import('../../parts/table.js').Column[]} */
const COLUMNS = [
  {name: 'direction', label: 'Direction', value: rule => rule.direction},
  {name: 'ethertype', label: 'Family', value: rule => rule.ethertype},
  {name: 'protocol', label: 'Protocol', value: rule => rule.protocol ?? t('any')},
  {name: 'ports', label: 'Ports', value: ports},
  {
    name: 'remote',
    label: 'Remote',
    value: rule => rule.remote_ip_prefix ?? rule.remote_group_id ?? t('any'),
    show: rule =>
      rule.remote_group_id ? html`${t('group')} <${Named} kind="group" id=${rule.remote_group_id} />` : (rule.remote_ip_prefix ?? t('any')),
  },
  {name: 'description', label: 'Description', value: rule => rule.description || '–'},
];

/** The range of ports, or type and code, of a form. @param {any} values */
const range = values => {
  if (isIcmp(values)) return values.type === '' ? {} : {port_range_min: Number(values.type), ...(values.code === '' ? {} : {port_range_max: Number(values.code)})};
  const [from, to] = isPorts(values) && values.ports ? values.ports.split('-') : [];
  return from ? {port_range_min: Number(from), port_range_max: Number(to ?? from)} : {};
};
const family = (/** @type {any} */ values) =>
  values.protocol === 'ipv6-icmp' || (values.remote_kind === 'range' && values.remote.includes(':')) ? 'IPv6' : values.protocol === 'icmp' ? 'IPv4' : values.ethertype;
const attributes = (/** @type {any} */ values) => ({
  direction: values.direction,
  ethertype: family(values),
  ...given({protocol: values.protocol, description: values.description}),
  ...range(values),
  ...(values.remote_kind === 'range' ? given({remote_ip_prefix: values.remote}) : given({remote_group_id: values.remote_group})),
});

/** @type {import('../../parts/actions.js').Action} */
const addRule = {
  name: 'add-rule',
  label: 'Add rule',
  done: 'Rule added to {name}',
  rule: 'create_security_group_rule',
  form: [
    {
      name: 'direction',
      label: 'Direction',
      type: 'select',
      required: true,
      value: 'ingress',
      options: [
        {value: 'ingress', label: 'Ingress: to the server'},
        {value: 'egress', label: 'Egress: from the server'},
      ],
    },
    {
      name: 'ethertype',
      label: 'Family',
      type: 'select',
      required: true,
      value: 'IPv4',
      options: ['IPv4', 'IPv6'].map(value => ({value, label: value})),
      when: values => !isIcmp(values),
    },
    {
      name: 'protocol',
      label: 'Protocol',
      type: 'select',
      value: 'tcp',
      none: 'any',
      options: [...PORTS.slice(0, 3), ...ICMP, 'ah', 'esp', 'gre', 'vrrp'].map(value => ({value, label: value})),
    },
    {name: 'ports', label: 'Ports', when: isPorts, help: 'One, as 22, or a range, as 8000-8010. Empty: all.', pattern: '\\d+(-\\d+)?'},
    {
      name: 'type',
      label: 'ICMP type',
      type: 'select',
      when: isIcmp,
      none: 'any',
      depends: ['protocol'],
      options: async values => (TYPES[values.protocol] ?? []).map(([value, label]) => ({value, label})),
    },
    {name: 'code', label: 'ICMP code', type: 'number', min: 0, max: 255, when: values => isIcmp(values) && values.type !== '', help: 'Empty: any.'},
    {
      name: 'remote_kind',
      label: 'Remote',
      type: 'select',
      required: true,
      value: 'range',
      options: [
        {value: 'range', label: 'Addresses'},
        {value: 'group', label: 'Servers of a security group'},
      ],
    },
    {name: 'remote', label: 'Remote addresses', when: values => values.remote_kind === 'range', help: 'A range such as 192.0.2.0/24 or 2001:db8::/32. Empty: any.'},
    {name: 'remote_group', label: 'Remote group', type: 'select', required: true, when: values => values.remote_kind === 'group', options: options.groups},
    DESCRIPTION,
  ],
  request: (row, values) => ({
    service: 'network',
    method: 'POST',
    path: '/security-group-rules',
    body: {security_group_rule: {security_group_id: row.id, ...attributes(values)}},
  }),
  command: (row, values) =>
    openstack(
      'security group rule create',
      `--${values.direction}`,
      ['--ethertype', family(values)],
      ['--protocol', values.protocol],
      ['--dst-port', isPorts(values) && values.ports?.replace('-', ':')],
      ['--icmp-type', isIcmp(values) && values.type],
      ['--icmp-code', isIcmp(values) && values.type !== '' && values.code],
      ['--remote-ip', values.remote_kind === 'range' && values.remote],
      ['--remote-group', values.remote_kind === 'group' && values.remote_group],
      row.id,
    ),
  terraform: (row, values) => terraform('networking_secgroup_rule_v2', `${row.name}_${values.direction}`, {security_group_id: row.id, ...attributes(values)}),
};
const removeRule = {...remove('network', '/security-group-rules', 'delete_security_group_rule', 'security group rule delete'), label: 'Remove', done: 'Rule removed', gone: false};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'network',
  path: '/security-groups',
  key: 'security_groups',
  empty: 'There are no security groups.',
  columns: [
    NAME,
    {name: 'description', label: 'Description', value: row => row.description},
    {name: 'rules', label: 'Rules', number: true, value: row => row.security_group_rules?.length ?? 0},
    {name: 'shared', label: 'Shared', value: row => yes(row.shared)},
    PROJECT,
  ],
  one: 'security_group',
  facts: row => [
    ['Id', row.id],
    ['Description', row.description],
    ['Shared', yes(row.shared)],
    ['Project', html`<${Named} kind="project" id=${row.project_id} />`],
  ],
  more: async row =>
    (await call('network', '/security-group-rules', {query: {security_group_id: row.id}})).security_group_rules,
  parts: (row, rules, _reload, choose) =>
    html`<${Rows} title=${t('Rules')} icon="shield" rows=${rules} columns=${COLUMNS} actions=${mine(row) ? [removeRule] : []} choose=${choose} nameOf=${(/** @type {any} */ rule) => `${rule.direction} ${rule.protocol ?? t('any')} ${ports(rule)}`}
      add=${mine(row) && offered(addRule) && html`<button type="button" class="small" onClick=${() => choose(addRule, row)}>${t(addRule.label)}</button>`} />`,
  create: {
    name: 'create-security-group',
    label: 'Create security group',
    done: 'Security group {name} created',
    rule: 'create_security_group',
    form: [NAME_FIELD, DESCRIPTION],
    request: (_row, values) => ({service: 'network', method: 'POST', path: '/security-groups', body: {security_group: values}}),
    command: (_row, {name, description}) => openstack('security group create', ['--description', description], name || 'NAME'),
    terraform: (_row, {name, description}) => terraform('networking_secgroup_v2', name, {name, description}),
  },
  actions: [
    {...addRule, when: mine},
    rename('security_group', '/security-groups', 'update_security_group', 'security group set', {when: row => mine(row) && row.name !== 'default'}),
    remove('network', '/security-groups', 'delete_security_group', 'security group delete', {when: row => mine(row) && row.name !== 'default'}),
  ],
};
