// Projects, and what each may use.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {number, t} from '../../core/text.js';
import {Badge, Card, Meter} from '../../parts/basics.js';

/** What can be set, and the option of the command. @type {[string, string, string][]} */
const QUOTAS = [
  ['instances', 'Servers', '--instances'],
  ['cores', 'Virtual CPUs', '--cores'],
  ['ram', 'Memory (MiB)', '--ram'],
  ['key_pairs', 'Key pairs', '--key-pairs'],
  ['server_groups', 'Server groups', '--server-groups'],
  ['server_group_members', 'Servers in a group', '--server-group-members'],
  ['metadata_items', 'Metadata of a server', '--properties'],
];

/** @type {import('../resources.js').Resource} */
export default {
  service: 'identity',
  path: '/projects',
  key: 'projects',
  one: 'project',
  empty: 'There are no projects.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'id', label: 'Id', value: row => row.id, show: row => html`<span class="mono">${row.id}</span>`},
    {
      name: 'enabled',
      label: 'Enabled',
      value: row => (row.enabled ? 'yes' : 'no'),
      show: row => html`<span><${Badge} state=${row.enabled} /></span>`,
    },
    {name: 'description', label: 'Description', value: row => row.description || '–'},
  ],
  facts: row => [
    ['Id', row.id],
    ['Domain', row.domain_id],
    ['Enabled', row.enabled ? t('yes') : t('no')],
    ['Description', row.description],
  ],
  more: async row => (await call('compute', `/os-quota-sets/${row.id}/detail`)).quota_set,
  parts: (_row, quota) =>
    html`<${Card} title=${t('Quota')} class="span"><div class="meters">${QUOTAS.filter(([name]) => quota[name]).map(([name, label]) => html`<${Meter} label=${t(label)} used=${quota[name].in_use} total=${quota[name].limit} show=${number} />`)}</div></${Card}>`,
  create: {
    name: 'make-project',
    label: 'Make a project',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'description', label: 'Description'},
    ],
    request: (_row, {name, description}) => ({
      service: 'identity',
      method: 'POST',
      path: '/projects',
      body: {project: {name, description}},
    }),
    command: (_row, {name, description}) => openstack('project create', ['--description', description], name || 'NAME'),
  },
  actions: [
    {
      name: 'quota',
      label: 'Change the quota',
      form: [
        {
          name: 'resource',
          label: 'Of what',
          type: 'select',
          required: true,
          value: 'instances',
          options: QUOTAS.map(([value, label]) => ({value, label})),
        },
        {name: 'limit', label: 'Limit', type: 'number', min: -1, required: true, help: '-1: any number'},
      ],
      request: (row, {resource, limit}) => ({
        method: 'PUT',
        path: `/os-quota-sets/${row.id}`,
        body: {quota_set: {[resource]: Number(limit)}},
      }),
      command: (row, {resource, limit}) =>
        openstack('quota set', [/** @type {any} */ (QUOTAS.find(([name]) => name === resource))[2], limit], row.id),
    },
    {
      name: 'disable',
      label: 'Disable',
      when: row => row.enabled,
      danger: true,
      request: row => ({
        service: 'identity',
        method: 'PATCH',
        path: `/projects/${row.id}`,
        body: {project: {enabled: false}},
      }),
      command: row => openstack('project set --disable', row.id),
    },
    {
      name: 'enable',
      label: 'Enable',
      when: row => !row.enabled,
      request: row => ({
        service: 'identity',
        method: 'PATCH',
        path: `/projects/${row.id}`,
        body: {project: {enabled: true}},
      }),
      command: row => openstack('project set --enable', row.id),
    },
  ],
};
