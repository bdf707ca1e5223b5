// Application credentials: logins for programs, with a part of the user's rights.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import {required} from '../../core/session.js';
import {date, t} from '../../core/text.js';
import {Ago} from '../../parts/basics.js';

const path = () => `/users/${required().user.id}/application_credentials`;

/** @type {import('../resources.js').Resource} */
export default {
  service: 'identity',
  get path() {
    return path();
  },
  key: 'application_credentials',
  empty: 'There are no application credentials yet.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'id', label: 'Id', value: row => row.id, show: row => html`<span class="mono">${row.id}</span>`},
    {
      name: 'roles',
      label: 'Roles',
      value: row => (row.roles ?? []).map((/** @type {any} */ role) => role.name).join(', '),
    },
    {
      name: 'expires',
      label: 'Expires',
      value: row => row.expires_at ?? '',
      show: row => (row.expires_at ? date(row.expires_at) : t('never')),
    },
  ],
  create: {
    name: 'make-credential',
    label: 'Create application credential',
    done: 'Application credential {name} created',
    rule: 'identity:create_application_credential',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'description', label: 'Description'},
      {
        name: 'roles',
        label: 'Roles',
        type: 'many',
        options: async () => required().roles.map(value => ({value, label: value})),
        help: 'None selected: all your roles in this project.',
      },
    ],
    request: (_row, {name, description, roles}) => ({
      service: 'identity',
      method: 'POST',
      path: path(),
      body: {
        application_credential: {
          name,
          description,
          ...(roles.length ? {roles: roles.map((/** @type {string} */ role) => ({name: role}))} : {}),
        },
      },
    }),
    secret: answer => ({
      label: t('The secret. It is shown now and never again.'),
      text: `OS_AUTH_TYPE=v3applicationcredential\nOS_APPLICATION_CREDENTIAL_ID=${answer.application_credential.id}\nOS_APPLICATION_CREDENTIAL_SECRET=${answer.application_credential.secret}`,
      file: 'credential.env',
    }),
    command: (_row, {name, roles}) =>
      openstack(
        'application credential create',
        ...roles.map((/** @type {string} */ role) => ['--role', role]),
        name || 'NAME',
      ),
  },
  actions: [
    {
      name: 'delete',
      label: 'Delete',
      done: 'Application credential {name} deleted',
      rule: 'identity:delete_application_credential',
      danger: true,
      bulk: true,
      ask: 'Programs that log in with it are refused from now on.',
      request: row => ({service: 'identity', method: 'DELETE', path: `${path()}/${row.id}`}),
      command: row => openstack('application credential delete', row.id),
    },
  ],
};
