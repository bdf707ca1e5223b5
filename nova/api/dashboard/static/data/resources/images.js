// Images, with their upload.
import {html} from '../../core/html.js';
import {call, said, url} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {required} from '../../core/session.js';
import {bytes, date} from '../../core/text.js';
import {Ago, Badge} from '../../parts/basics.js';

const FORMATS = ['qcow2', 'raw', 'iso', 'vmdk', 'vhd', 'vdi'].map(value => ({value, label: value}));

/** Send a file; fetch does not say how far it is. @param {string} id @param {File} file @param {(share: number) => void} progress */
const send = (id, file, progress) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('PUT', url('image', `/images/${id}/file`));
    request.setRequestHeader('X-Auth-Token', required().token);
    request.setRequestHeader('Content-Type', 'application/octet-stream');
    request.upload.onprogress = event => progress(event.loaded / event.total);
    request.onload = () =>
      request.status < 300 ? resolve(null) : reject(new Error(said(request.responseText) || String(request.status)));
    request.onerror = () => reject(new Error('The image service does not answer.'));
    request.send(file);
  });

const mine = (/** @type {any} */ row) => row.owner === required().project?.id;

/** @type {import('../resources.js').Resource} */
export default {
  service: 'image',
  path: '/images',
  key: 'images',
  query: {sort: 'created_at:desc'},
  paged: true,
  empty: 'There are no images yet.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name || row.id},
    {
      name: 'status',
      label: 'Status',
      value: row => row.status,
      show: row => html`<span><${Badge} state=${row.status} /></span>`,
    },
    {name: 'visibility', label: 'Visible to', value: row => row.visibility},
    {name: 'format', label: 'Format', value: row => row.disk_format},
    {name: 'size', label: 'Size', number: true, value: row => row.size ?? 0, show: row => bytes(row.size)},
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
    ['Format', row.disk_format],
    ['Size', bytes(row.size)],
    ['Visible to', row.visibility],
    ['Least disk', `${row.min_disk} GiB`],
    ['Least memory', `${row.min_ram} MiB`],
    ['Checksum', row.os_hash_value ?? row.checksum],
    ['Created', date(row.created_at)],
    ['Owner', row.owner],
    ['Tags', (row.tags ?? []).join(', ')],
  ],
  create: {
    name: 'upload-image',
    label: 'Upload an image',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'file', label: 'File', type: 'file', required: true},
      {name: 'disk_format', label: 'Format', type: 'select', required: true, value: 'qcow2', options: FORMATS},
      {name: 'min_disk', label: 'Least disk (GiB)', type: 'number', min: 0, value: 0},
      {name: 'min_ram', label: 'Least memory (MiB)', type: 'number', min: 0, value: 0},
    ],
    perform: async (_row, values, progress) => {
      const {file, ...fields} = values;
      const made = await call('image', '/images', {
        method: 'POST',
        body: {...fields, container_format: 'bare', min_disk: Number(fields.min_disk), min_ram: Number(fields.min_ram)},
      });
      try {
        await send(made.id, file, progress);
      } catch (error) {
        await call('image', `/images/${made.id}`, {method: 'DELETE'}).catch(() => null); // half an image is of no use
        throw error;
      }
      return made;
    },
    command: (_row, values) =>
      openstack(
        'image create',
        ['--file', values.file?.name ?? 'FILE'],
        ['--disk-format', values.disk_format],
        ['--min-disk', Number(values.min_disk) || ''],
        ['--min-ram', Number(values.min_ram) || ''],
        values.name || 'NAME',
      ),
  },
  actions: [
    {
      name: 'launch',
      label: 'Create a server of it',
      when: row => row.status === 'active',
      perform: async row => {
        location.hash = `#/create?image=${row.id}`;
      },
      command: row => openstack('server create', ['--image', row.id], '--flavor FLAVOR NAME'),
    },
    {
      name: 'rename',
      label: 'Rename',
      when: mine,
      form: row => [{name: 'name', label: 'Name', required: true, value: row.name}],
      perform: (row, {name}) =>
        call('image', `/images/${row.id}`, {
          method: 'PATCH',
          body: [{op: 'replace', path: '/name', value: name}],
          headers: {'Content-Type': 'application/openstack-images-v2.1-json-patch'},
        }),
      command: (row, {name}) => openstack('image set', ['--name', name], row.id),
    },
    {
      name: 'delete',
      label: 'Delete',
      danger: true,
      bulk: true,
      when: row => !row.protected,
      request: row => ({service: 'image', method: 'DELETE', path: `/images/${row.id}`}),
      command: row => openstack('image delete', row.id),
    },
  ],
};
