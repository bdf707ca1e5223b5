// Key pairs: made by the API, or imported.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import {terraform} from '../../core/terraform.js';
import {t} from '../../core/text.js';
import {Ago} from '../../parts/basics.js';

const MAKES = '2.91'; // the last version at which the API makes the private key

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-keypairs',
  key: 'keypairs',
  unwrap: row => row.keypair,
  id: row => row.name,
  empty: 'There are no key pairs yet.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'type', label: 'Type', value: row => row.type},
    {
      name: 'fingerprint',
      label: 'Fingerprint',
      value: row => row.fingerprint,
      show: row => html`<span class="mono">${row.fingerprint}</span>`,
    },
  ],
  one: 'keypair',
  facts: row => [
    ['Name', row.name],
    ['Type', row.type],
    ['Fingerprint', row.fingerprint],
    ['Public key', html`<code>${row.public_key}</code>`],
    ['Created', html`<${Ago} at=${row.created_at} />`],
  ],
  create: {
    name: 'make-keypair',
    label: 'Create or import',
    done: 'Key pair {name} created',
    rule: 'os_compute_api:os-keypairs:create',
    form: [
      {name: 'name', label: 'Name', required: true},
      {
        name: 'public_key',
        label: 'Public key',
        type: 'textarea',
        help: 'Public key to import, such as the content of ~/.ssh/id_ed25519.pub. Empty: a key pair is created, and its private key is shown once.',
      },
    ],
    request: (_row, {name, public_key: key}) => ({
      method: 'POST',
      path: '/os-keypairs',
      version: key ? undefined : MAKES,
      body: {keypair: {name, type: 'ssh', ...(key ? {public_key: key.trim()} : {})}},
    }),
    secret: answer =>
      answer.keypair.private_key
        ? {
            label: t('The private key. It is shown now and never again.'),
            text: answer.keypair.private_key,
            file: `${answer.keypair.name}.pem`,
          }
        : null,
    terraform: (_row, {name, public_key: key}) => terraform('compute_keypair_v2', name, {name, public_key: key?.trim()}),
    command: (_row, {name, public_key: key}) => openstack('keypair create', key && '--public-key FILE', name || 'NAME'),
  },
  actions: [
    {
      name: 'delete',
      label: 'Delete',
      done: 'Key pair {name} deleted',
      rule: 'os_compute_api:os-keypairs:delete',
      danger: true,
      bulk: true,
      ask: 'Existing servers keep it.',
      request: row => ({method: 'DELETE', path: `/os-keypairs/${encodeURIComponent(row.name)}`}),
      command: row => openstack('keypair delete', row.name),
    },
  ],
};
