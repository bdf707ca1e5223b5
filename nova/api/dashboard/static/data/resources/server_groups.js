// Server groups: servers that are to be together or apart.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {required} from '../../core/session.js';
import {terraform} from '../../core/terraform.js';
import {t} from '../../core/text.js';
import {Card, Empty} from '../../parts/basics.js';
import {offered} from '../../parts/actions.js';
import {Named} from '../../parts/named.js';
import {PROJECT, Rows, allProjects, undoing} from '../common.js';

const POLICIES = [
  {value: 'anti-affinity', label: 'anti-affinity', note: t('Each server on a host of its own')},
  {value: 'affinity', label: 'affinity', note: t('All servers on one host')},
  {value: 'soft-anti-affinity', label: 'soft-anti-affinity', note: t('On different hosts if possible')},
  {value: 'soft-affinity', label: 'soft-affinity', note: t('On one host if possible')},
  {value: 'network-proximity', label: 'network-proximity', note: t('In one network segment')},
  {value: 'host-capabilities', label: 'host-capabilities', note: t('On hosts with the capabilities in the metadata')},
];
const policiesOf = (/** @type {any} */ row) => row['nova:policies'] ?? (row.policy ? [row.policy] : (row.policies ?? []));
/** Groups with several policies are outside the versioned API. @param {string} id  empty: all */
const groups = id => `/../v3.0/${required().project?.id}/groups${id && '/'}${id}`;
const most = (/** @type {any} */ value) => ({max_server_per_host: Number(value)});
/** @type {import('../../parts/form.js').Field} */
const MOST = {
  name: 'most',
  label: 'Servers on one host at most',
  type: 'number',
  min: 1,
  when: values => values.policies.includes('anti-affinity'),
};
/** Set the bound of anti-affinity, after the policies. @param {any} group @param {any} values */
const bounded = async (group, values) => {
  if (values.most && values.policies.includes('anti-affinity') && Number(values.most) !== group.rules?.max_server_per_host)
    await call('compute', `/os-server-groups/${group.id}`, {method: 'PUT', body: {server_group: {rules: most(values.most)}}});
  return group;
};
const several = (/** @type {string[]} */ policies) => policies.map(one => /** @type {[string, any]} */ (['--policy', one]));

/** @type {import('../../parts/actions.js').Action} */
const setMetadata = {
  name: 'set-metadata',
  label: 'Set metadata',
  done: 'Metadata set',
  rule: 'nova:os-server-groups:metadata:update',
  form: [
    {name: 'key', label: 'Key', required: true},
    {name: 'value', label: 'Value', required: true},
  ],
  request: (row, {key, value}) => ({method: 'POST', path: `/os-server-groups/${row.id}/metadata`, body: {metadata: {[key]: value}}}),
  command: (row, {key, value}) => openstack('server policy group set', ['--property', `${key}=${value}`], row.id),
};
/** @type {import('../../parts/actions.js').Action} */
const removeMetadata = {
  name: 'remove-metadata',
  label: 'Remove',
  done: 'Metadata removed',
  rule: 'nova:os-server-groups:metadata:update',
  danger: true,
  request: row => ({method: 'DELETE', path: `/os-server-groups/${row.group}/metadata/${encodeURIComponent(row.id)}`}),
  command: row => openstack('server policy group unset', ['--property', row.id], row.group),
};

/** What of a group a form changes. @param {any} row @param {any} values @returns {{name?: string, policies?: string[]}} */
const changed = (row, {name, policies}) => ({
  ...(name === row.name ? {} : {name}),
  ...([...policies].sort().join() === [...policiesOf(row)].sort().join() ? {} : {policies}),
});

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-server-groups',
  key: 'server_groups',
  empty: 'There are no server groups yet.',
  filters: [allProjects('all_projects')],
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'policy', label: 'Policy', value: row => policiesOf(row).join(', ')},
    {name: 'members', label: 'Members', number: true, value: row => row.members.length},
    PROJECT,
  ],
  one: 'server_group',
  facts: row => [
    ['Id', row.id],
    ['Policy', policiesOf(row).join(', ')],
    ['Servers on one host', row.rules?.max_server_per_host],
    ['Project', html`<${Named} kind="project" id=${row.project_id} />`],
  ],
  more: async row => (await call('compute', `/os-server-groups/${row.id}/metadata`)).metadata,
  parts: (row, metadata, _reload, choose) => html`<${Rows} title=${t('Metadata')} icon="group" choose=${choose} actions=${[removeMetadata]} nameOf=${(/** @type {any} */ one) => one.id}
    add=${offered(setMetadata) && html`<button type="button" class="small" onClick=${() => choose(setMetadata, row)}>${t(setMetadata.label)}</button>`}
    rows=${Object.entries(metadata).map(([id, value]) => ({id, value, group: row.id}))} columns=${[
      {name: 'key', label: 'Key', value: (/** @type {any} */ one) => one.id},
      {name: 'value', label: 'Value', value: (/** @type {any} */ one) => one.value},
    ]} />
    <${Card} title=${t('Members')}>${row.members.length ? html`<ul class="chips">${row.members.map((/** @type {string} */ id) => html`<li><${Named} kind="server" id=${id} /></li>`)}</ul>` : html`<${Empty} icon="server" text=${t('There are none.')} />`}</${Card}>`,
  create: {
    name: 'make-group',
    label: 'Create server group',
    done: 'Server group {name} created',
    rule: 'os_compute_api:os-server-groups:create',
    ask: 'All policies of a group must hold.',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'policies', label: 'Policies', type: 'many', value: ['anti-affinity'], options: POLICIES},
      MOST,
    ],
    perform: (_row, values) => {
      const {name, policies} = values;
      if (policies.length === 1)
        return call('compute', '/os-server-groups', {
          method: 'POST',
          body: {
            server_group: {
              name,
              policy: policies[0],
              ...(values.most && policies[0] === 'anti-affinity' ? {rules: most(values.most)} : {}),
            },
          },
        });
      return undoing(async undo => {
        const {group} = await call('compute', groups(''), {method: 'POST', body: {group: {name, policies}}});
        undo(() => call('compute', `/os-server-groups/${group.id}`, {method: 'DELETE'}));
        return bounded(group, values);
      });
    },
    terraform: (_row, {name, policies}) =>
      policies.length === 1 ? terraform('compute_servergroup_v2', name, {name, policies}) : '',
    command: (_row, {name, policies, most: bound}) =>
      policies.length === 1
        ? openstack(
            'server group create',
            ['--policy', policies[0]],
            bound && policies[0] === 'anti-affinity' && `--rule max_server_per_host=${bound}`,
            name || 'NAME',
          )
        : openstack('server policy group create', ...several(policies), name || 'NAME'),
  },
  actions: [
    {
      name: 'edit',
      label: 'Edit',
      done: 'Server group {name} changed',
      rule: 'nova:os-server-groups:update',
      ask: 'Policies change only while the group has no members.',
      form: row => [
        {name: 'name', label: 'Name', required: true, value: row.name},
        {name: 'policies', label: 'Policies', type: 'many', value: policiesOf(row), options: POLICIES},
        {...MOST, value: row.rules?.max_server_per_host ?? ''},
      ],
      perform: async (row, values) => {
        const group = changed(row, values);
        if (Object.keys(group).length) await call('compute', groups(row.id), {method: 'PUT', body: {group}});
        return bounded(row, values);
      },
      command: (row, values) => {
        const {name, policies = []} = changed(row, values);
        return openstack('server policy group set', ['--name', name], ...several(policies), row.id);
      },
    },
    {
      name: 'delete',
      label: 'Delete',
      done: 'Server group {name} deleted',
      rule: 'os_compute_api:os-server-groups:delete',
      danger: true,
      bulk: true,
      request: row => ({method: 'DELETE', path: `/os-server-groups/${row.id}`}),
      command: row => openstack('server group delete', row.id),
    },
  ],
};
