// Snapshots of volumes.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import {link} from '../../core/router.js';
import {short} from '../../core/text.js';
import {Ago, Badge} from '../../parts/basics.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'volume',
  path: '/snapshots/detail',
  key: 'snapshots',
  empty: 'There are no snapshots yet.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name || short(row.id)},
    {
      name: 'status',
      label: 'Status',
      value: row => row.status,
      show: row => html`<span><${Badge} state=${row.status} /></span>`,
    },
    {name: 'size', label: 'Size', number: true, value: row => row.size, show: row => `${row.size} GiB`},
    {
      name: 'volume',
      label: 'Volume',
      value: row => row.volume_id,
      show: row => html`<a href=${link('volumes', row.volume_id)}>${short(row.volume_id)}</a>`,
    },
    {
      name: 'created',
      label: 'Created',
      value: row => row.created_at,
      show: row => html`<${Ago} at=${row.created_at} />`,
    },
  ],
  actions: [
    {
      name: 'restore',
      label: 'Make a volume of it',
      form: row => [
        {name: 'name', label: 'Name', value: `${row.name || 'snapshot'}-volume`},
        {name: 'size', label: 'Size (GiB)', type: 'number', min: row.size, value: row.size, required: true},
      ],
      request: (row, {name, size}) => ({
        service: 'volume',
        method: 'POST',
        path: '/volumes',
        body: {volume: {snapshot_id: row.id, name, size: Number(size)}},
      }),
      command: (row, {name, size}) => openstack('volume create', ['--snapshot', row.id], ['--size', size], name),
    },
    {
      name: 'delete',
      label: 'Delete',
      danger: true,
      bulk: true,
      request: row => ({service: 'volume', method: 'DELETE', path: `/snapshots/${row.id}`}),
      command: row => openstack('volume snapshot delete', row.id),
    },
  ],
};
