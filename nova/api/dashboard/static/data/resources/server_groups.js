// Server groups: servers that are to be together or apart.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {terraform} from '../../core/terraform.js';
import {t} from '../../core/text.js';
import {Card, Empty} from '../../parts/basics.js';
import {offered} from '../../parts/actions.js';
import {Named} from '../../parts/named.js';
import {Rows} from '../common.js';

const POLICIES = ['anti-affinity', 'affinity', 'soft-anti-affinity', 'soft-affinity'].map(value => ({
  value,
  label: value,
}));

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
  command: row => `# no command: POST /os-server-groups/${row.id}/metadata`,
};
/** @type {import('../../parts/actions.js').Action} */
const removeMetadata = {
  name: 'remove-metadata',
  label: 'Remove',
  done: 'Metadata removed',
  rule: 'nova:os-server-groups:metadata:update',
  danger: true,
  request: row => ({method: 'DELETE', path: `/os-server-groups/${row.group}/metadata/${encodeURIComponent(row.id)}`}),
  command: row => `# no command: DELETE /os-server-groups/${row.group}/metadata/${row.id}`,
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-server-groups',
  key: 'server_groups',
  empty: 'There are no server groups yet.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'policy', label: 'Policy', value: row => row['nova:policies']?.join(', ') ?? row.policy ?? row.policies?.join(', ')},
    {name: 'members', label: 'Members', number: true, value: row => row.members.length},
  ],
  one: 'server_group',
  facts: row => [
    ['Id', row.id],
    ['Policy', row['nova:policies']?.join(', ') ?? row.policy],
    ['Servers on one host', row.rules?.max_server_per_host],
    ['Project', row.project_id],
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
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'policy', label: 'Policy', type: 'select', required: true, value: 'anti-affinity', options: POLICIES},
      {
        name: 'most',
        label: 'Servers on one host at most',
        type: 'number',
        min: 1,
        when: values => values.policy === 'anti-affinity',
      },
    ],
    request: (_row, {name, policy, most}) => ({
      method: 'POST',
      path: '/os-server-groups',
      body: {
        server_group: {
          name,
          policy,
          ...(most && policy === 'anti-affinity' ? {rules: {max_server_per_host: Number(most)}} : {}),
        },
      },
    }),
    terraform: (_row, {name, policy}) => terraform('compute_servergroup_v2', name, {name, policies: [policy]}),
    command: (_row, {name, policy, most}) =>
      openstack(
        'server group create',
        ['--policy', policy],
        most && `--rule max_server_per_host=${most}`,
        name || 'NAME',
      ),
  },
  actions: [
    {
      name: 'edit',
      label: 'Edit',
      done: 'Server group {name} changed',
      rule: 'nova:os-server-groups:update',
      form: row => [
        {name: 'name', label: 'Name', required: true, value: row.name},
        {name: 'policy', label: 'Policy', type: 'select', required: true, options: POLICIES, value: row.policy},
      ],
      request: (row, {name, policy}) => ({
        method: 'PUT',
        path: `/os-server-groups/${row.id}`,
        body: {server_group: {...(name === row.name ? {} : {name}), ...(policy === row.policy ? {} : {policy})}},
      }),
      command: row => `# no command: PUT /os-server-groups/${row.id}`,
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
