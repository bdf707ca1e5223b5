// Users, and their roles in projects.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {t} from '../../core/text.js';
import {Badge} from '../../parts/basics.js';
import {undoing} from '../common.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'identity',
  path: '/users',
  key: 'users',
  empty: 'There are no users.',
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
  create: {
    name: 'make-user',
    label: 'Create user',
    done: 'User {name} created',
    rule: 'identity:create_user',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'password', label: 'Password', type: 'password', required: true},
      {name: 'project', label: 'Member of', type: 'select', options: options.projects, none: 'no project yet'},
    ],
    perform: (_row, {name, password, project}) =>
      undoing(async undo => {
        const member = project && (await options.roles()).find((/** @type {any} */ role) => role.label === 'member');
        if (project && !member) throw new Error(t('There is no role called member.'));
        const made = await call('identity', '/users', {
          method: 'POST',
          body: {user: {name, password, ...(project ? {default_project_id: project} : {})}},
        });
        undo(() => call('identity', `/users/${made.user.id}`, {method: 'DELETE'}));
        if (project) await call('identity', `/projects/${project}/users/${made.user.id}/roles/${member.value}`, {method: 'PUT'});
        return made;
      }),
    command: (_row, {name, project}) =>
      openstack('user create', ['--project', project], '--password-prompt', name || 'NAME') +
      (project ? '\n' + openstack('role add', ['--project', project], ['--user', name], 'member') : ''),
  },
  actions: [
    {
      name: 'role',
      label: 'Grant role',
      done: 'Role granted to {name}',
      rule: 'identity:create_grant',
      form: [
        {name: 'project', label: 'Project', type: 'select', required: true, options: options.projects},
        {name: 'role', label: 'Role', type: 'select', required: true, options: options.roles},
      ],
      request: (row, {project, role}) => ({
        service: 'identity',
        method: 'PUT',
        path: `/projects/${project}/users/${row.id}/roles/${role}`,
      }),
      command: (row, {project, role}) => openstack('role add', ['--project', project], ['--user', row.id], role),
    },
    {
      name: 'unrole',
      label: 'Revoke role',
      done: 'Role of {name} revoked',
      rule: 'identity:revoke_grant',
      danger: true,
      form: [
        {name: 'project', label: 'Project', type: 'select', required: true, options: options.projects},
        {name: 'role', label: 'Role', type: 'select', required: true, options: options.roles},
      ],
      request: (row, {project, role}) => ({
        service: 'identity',
        method: 'DELETE',
        path: `/projects/${project}/users/${row.id}/roles/${role}`,
      }),
      command: (row, {project, role}) => openstack('role remove', ['--project', project], ['--user', row.id], role),
    },
    {
      name: 'password',
      label: 'Set password',
      done: 'Password of {name} set',
      rule: 'identity:update_user',
      form: [{name: 'password', label: 'New password', type: 'password', required: true}],
      request: (row, {password}) => ({
        service: 'identity',
        method: 'PATCH',
        path: `/users/${row.id}`,
        body: {user: {password}},
      }),
      command: row => openstack('user set --password-prompt', row.id),
    },
    {
      name: 'require-factor',
      label: 'Require second factor',
      done: 'Login of {name} needs a second factor',
      rule: 'identity:update_user',
      when: row => !row.options?.multi_factor_auth_enabled,
      ask: 'A login then needs the password and a code of a device. The user adds the device on the account page first.',
      perform: async row => {
        const {credentials} = await call('identity', '/credentials', {query: {user_id: row.id, type: 'totp'}});
        if (!credentials.length) throw new Error(t('The user has no device and could not log in any more.'));
        return call('identity', `/users/${row.id}`, {
          method: 'PATCH',
          body: {user: {options: {multi_factor_auth_enabled: true, multi_factor_auth_rules: [['password', 'totp']]}}},
        });
      },
      command: row =>
        openstack('user set --enable-multi-factor-auth --multi-factor-auth-rule password,totp', row.id),
    },
    {
      name: 'free-factor',
      label: 'Do not require second factor',
      done: 'Login of {name} needs the password only',
      rule: 'identity:update_user',
      when: row => row.options?.multi_factor_auth_enabled,
      danger: true,
      ask: 'For a user who has lost the device. The devices remain and can be removed on the account page.',
      request: row => ({
        service: 'identity',
        method: 'PATCH',
        path: `/users/${row.id}`,
        body: {user: {options: {multi_factor_auth_enabled: false}}},
      }),
      command: row => openstack('user set --disable-multi-factor-auth', row.id),
    },
    {
      name: 'disable',
      label: 'Disable',
      done: 'User {name} disabled',
      rule: 'identity:update_user',
      when: row => row.enabled,
      danger: true,
      bulk: true,
      request: row => ({
        service: 'identity',
        method: 'PATCH',
        path: `/users/${row.id}`,
        body: {user: {enabled: false}},
      }),
      command: row => openstack('user set --disable', row.id),
    },
    {
      name: 'enable',
      label: 'Enable',
      done: 'User {name} enabled',
      rule: 'identity:update_user',
      when: row => !row.enabled,
      request: row => ({service: 'identity', method: 'PATCH', path: `/users/${row.id}`, body: {user: {enabled: true}}}),
      command: row => openstack('user set --enable', row.id),
    },
    {
      name: 'delete',
      label: 'Delete',
      done: 'User {name} deleted',
      rule: 'identity:delete_user',
      danger: true,
      request: row => ({service: 'identity', method: 'DELETE', path: `/users/${row.id}`}),
      command: row => openstack('user delete', row.id),
    },
  ],
};
