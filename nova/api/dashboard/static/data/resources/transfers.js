// Volumes that are handed over to another project.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import {CREATED, NAME, VOLUME, remove} from '../common.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'volume',
  path: '/volume-transfers/detail',
  key: 'transfers',
  empty: 'No volume is being transferred.',
  columns: [
    NAME,
    {name: 'id', label: 'Id', value: row => row.id, show: row => html`<span class="mono">${row.id}</span>`},
    VOLUME,
    CREATED,
  ],
  create: {
    name: 'accept',
    label: 'Accept transfer',
    done: 'Transfer accepted',
    rule: 'volume:accept_transfer',
    form: [
      {name: 'id', label: 'Id of the transfer', required: true},
      {name: 'auth_key', label: 'Key', required: true},
    ],
    request: (_row, {id, auth_key: key}) => ({
      service: 'volume',
      method: 'POST',
      path: `/volume-transfers/${encodeURIComponent(id.trim())}/accept`,
      body: {accept: {auth_key: key.trim()}},
    }),
    command: (_row, {id, auth_key: key}) => openstack('volume transfer request accept', ['--auth-key', key], id || 'TRANSFER'),
  },
  actions: [
    remove('volume', '/volume-transfers', 'volume:delete_transfer', 'volume transfer request delete', {label: 'Cancel transfer', done: 'Transfer of {name} cancelled'}),
  ],
};
