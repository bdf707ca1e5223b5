// Server groups: servers that are to be together or apart.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import {link} from '../../core/router.js';
import {short, t} from '../../core/text.js';
import {Card, Empty} from '../../parts/basics.js';

const POLICIES = ['anti-affinity', 'affinity', 'soft-anti-affinity', 'soft-affinity'].map(value => ({
  value,
  label: value,
}));

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-server-groups',
  key: 'server_groups',
  empty: 'There are no server groups yet.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'policy', label: 'Policy', value: row => row.policy ?? row.policies?.join(', ')},
    {name: 'members', label: 'Members', number: true, value: row => row.members.length},
  ],
  one: 'server_group',
  facts: row => [
    ['Id', row.id],
    ['Policy', row.policy],
    ['Servers on one host', row.rules?.max_server_per_host],
    ['Project', row.project_id],
  ],
  parts: row =>
    html`<${Card} title=${t('Members')}>${row.members.length ? html`<ul class="chips">${row.members.map((/** @type {string} */ id) => html`<li><a class="chip" href=${link('servers', id)}>${short(id)}</a></li>`)}</ul>` : html`<${Empty} icon="server" text=${t('There are none.')} />`}</${Card}>`,
  create: {
    name: 'make-group',
    label: 'Make a group',
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
      name: 'delete',
      label: 'Delete',
      danger: true,
      bulk: true,
      request: row => ({method: 'DELETE', path: `/os-server-groups/${row.id}`}),
      command: row => openstack('server group delete', row.id),
    },
  ],
};
