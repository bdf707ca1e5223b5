// Volumes.
import {html} from '../../core/html.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {link} from '../../core/router.js';
import {date, number, short} from '../../core/text.js';
import {Ago, Badge} from '../../parts/basics.js';

const attached = (/** @type {any} */ row) =>
  (row.attachments ?? []).map(
    (/** @type {any} */ one) => html`<a href=${link('servers', one.server_id)}>${short(one.server_id)}</a> `,
  );

/** @type {import('../resources.js').Resource} */
export default {
  service: 'volume',
  path: '/volumes/detail',
  item: '/volumes',
  one: 'volume',
  key: 'volumes',
  query: {sort: 'created_at:desc'},
  paged: true,
  empty: 'There are no volumes yet.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name || short(row.id)},
    {
      name: 'status',
      label: 'Status',
      value: row => row.status,
      show: row => html`<span><${Badge} state=${row.status} /></span>`,
    },
    {name: 'size', label: 'Size', number: true, value: row => row.size, show: row => `${number(row.size)} GiB`},
    {name: 'type', label: 'Kind', value: row => row.volume_type || '–'},
    {
      name: 'server',
      label: 'Server',
      value: row => row.attachments?.map((/** @type {any} */ one) => one.server_id).join(' ') || '–',
      show: row => (row.attachments?.length ? html`<span>${attached(row)}</span>` : '–'),
    },
    {
      name: 'created',
      label: 'Created',
      value: row => row.created_at,
      show: row => html`<${Ago} at=${row.created_at} />`,
    },
  ],
  facts: row => [
    ['Id', row.id],
    ['Status', row.status],
    ['Size', `${row.size} GiB`],
    ['Kind', row.volume_type],
    ['Bootable', row.bootable],
    ['Server', attached(row)],
    ['Zone', row.availability_zone],
    ['Created', date(row.created_at)],
    ['Description', row.description],
  ],
  create: {
    name: 'make-volume',
    label: 'Make a volume',
    form: [
      {name: 'name', label: 'Name'},
      {name: 'size', label: 'Size (GiB)', type: 'number', min: 1, required: true, value: 1},
      {name: 'imageRef', label: 'Filled from an image', type: 'select', options: options.images, none: 'no'},
      {name: 'volume_type', label: 'Kind', type: 'select', options: options.volumeTypes, none: 'default'},
    ],
    request: (_row, values) => ({
      service: 'volume',
      method: 'POST',
      path: '/volumes',
      body: {
        volume: {
          size: Number(values.size),
          ...(values.name ? {name: values.name} : {}),
          ...(values.imageRef ? {imageRef: values.imageRef} : {}),
          ...(values.volume_type ? {volume_type: values.volume_type} : {}),
        },
      },
    }),
    command: (_row, values) =>
      openstack(
        'volume create',
        ['--size', values.size],
        ['--image', values.imageRef],
        ['--type', values.volume_type],
        values.name,
      ),
  },
  actions: [
    {
      name: 'attach',
      label: 'Attach to a server',
      when: row => row.status === 'available',
      form: [{name: 'server', label: 'Server', type: 'select', required: true, options: options.servers}],
      request: (row, {server}) => ({
        method: 'POST',
        path: `/servers/${server}/os-volume_attachments`,
        body: {volumeAttachment: {volumeId: row.id}},
      }),
      command: (row, {server}) => openstack('server add volume', server || 'SERVER', row.id),
    },
    {
      name: 'detach',
      label: 'Detach',
      danger: true,
      when: row => row.attachments?.length > 0,
      ask: 'Unmount it in the guest first.',
      request: row => ({
        method: 'DELETE',
        path: `/servers/${row.attachments[0].server_id}/os-volume_attachments/${row.id}`,
      }),
      command: row => openstack('server remove volume', row.attachments[0]?.server_id, row.id),
    },
    {
      name: 'rename',
      label: 'Rename',
      form: row => [{name: 'name', label: 'Name', required: true, value: row.name}],
      request: (row, {name}) => ({
        service: 'volume',
        method: 'PUT',
        path: `/volumes/${row.id}`,
        body: {volume: {name}},
      }),
      command: (row, {name}) => openstack('volume set', ['--name', name], row.id),
    },
    {
      name: 'snapshot',
      label: 'Make a snapshot',
      when: row => row.status === 'available' || row.status === 'in-use',
      form: row => [{name: 'name', label: 'Name', value: `${row.name || 'volume'}-snapshot`}],
      request: (row, {name}) => ({
        service: 'volume',
        method: 'POST',
        path: '/snapshots',
        body: {snapshot: {volume_id: row.id, name, force: row.status === 'in-use'}},
      }),
      command: (row, {name}) =>
        openstack('volume snapshot create', ['--volume', row.id], row.status === 'in-use' && '--force', name),
    },
    {
      name: 'extend',
      label: 'Make it larger',
      when: row => row.status === 'available',
      form: row => [
        {name: 'size', label: 'Size (GiB)', type: 'number', min: row.size + 1, value: row.size + 1, required: true},
      ],
      request: (row, {size}) => ({
        service: 'volume',
        method: 'POST',
        path: `/volumes/${row.id}/action`,
        body: {'os-extend': {new_size: Number(size)}},
      }),
      command: (row, {size}) => openstack('volume set', ['--size', size], row.id),
    },
    {
      name: 'delete',
      label: 'Delete',
      danger: true,
      bulk: true,
      when: row => !row.attachments?.length,
      request: row => ({service: 'volume', method: 'DELETE', path: `/volumes/${row.id}`}),
      command: row => openstack('volume delete', row.id),
    },
  ],
};
