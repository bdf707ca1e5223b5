// Images, with their upload and their import from a URL.
import {html} from '../../core/html.js';
import {ask, call, said, url} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {may} from '../../core/permissions.js';
import {required} from '../../core/session.js';
import {terraform} from '../../core/terraform.js';
import {bytes, date, t} from '../../core/text.js';
import {offered, save} from '../../parts/actions.js';
import {Named} from '../../parts/named.js';
import {CREATED, NAME, Rows, STATUS, project, remove, undoing, words, yes} from '../common.js';

/** @typedef {import('../../parts/actions.js').Action} Action */

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

/** Where the data of a new image comes from: this computer, or a URL if the cloud downloads. */
const sources = async () => {
  const found = await call('image', '/info/import').catch(() => null); // older services have no imports
  return [
    {value: 'file', label: t('File')},
    ...(found?.['import-methods'].value.includes('web-download') ? [{value: 'url', label: t('URL')}] : []),
  ];
};
const ofUrl = (/** @type {any} */ values) => values.from === 'url';

/** Fields of an image that are no properties. */
const FIELDS = new Set(
  'id name status visibility size virtual_size disk_format container_format created_at updated_at tags self file schema owner min_disk min_ram checksum os_hash_algo os_hash_value os_hidden protected stores locations direct_url'.split(' '),
);
const properties = (/** @type {any} */ row) =>
  Object.entries(row)
    .filter(([key]) => !FIELDS.has(key))
    .map(([id, value]) => ({id, value: typeof value === 'string' ? value : JSON.stringify(value), image: row}));
const patched = (/** @type {any} */ row, /** @type {any[]} */ body) => ({
  service: /** @type {const} */ ('image'),
  method: 'PATCH',
  path: `/images/${row.id}`,
  body,
  headers: {'Content-Type': 'application/openstack-images-v2.1-json-patch'},
});
/** The operations that change the fields of an image to these values. @param {any} row @param {Record<string, any>} values */
const changes = (row, values) =>
  Object.entries(values)
    .filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(row[key]))
    .map(([key, value]) => ({op: 'replace', path: `/${key}`, value}));
const pointer = (/** @type {string} */ key) => '/' + key.replaceAll('~', '~0').replaceAll('/', '~1');

/** @type {Action} */
const setProperty = {
  name: 'property',
  label: 'Set property',
  done: 'Property of {name} set',
  rule: 'modify_image',
  when: row => mine(row),
  form: [
    {name: 'key', label: 'Key', required: true, help: 'For example hw_disk_bus, hw_firmware_type, os_type'},
    {name: 'value', label: 'Value', required: true},
  ],
  request: (row, {key, value}) => patched(row, [{op: key in row ? 'replace' : 'add', path: pointer(key), value}]),
  command: (row, {key, value}) => openstack('image set', ['--property', `${key}=${value}`], row.id),
};
/** @type {Action} */
const removeProperty = {
  name: 'remove-property',
  label: 'Remove',
  done: 'Property removed',
  rule: 'modify_image',
  danger: true,
  request: ({image, id}) => patched(image, [{op: 'remove', path: pointer(id)}]),
  command: ({image, id}) => openstack('image unset', ['--property', id], image.id),
};
/** @type {Action} */
const share = {
  name: 'share',
  label: 'Share',
  done: 'Image {name} shared',
  rule: 'add_member',
  when: row => mine(row) && row.visibility !== 'public' && row.visibility !== 'community',
  ask: 'The other project must accept the image before its members see it in lists.',
  form: [{name: 'member', label: 'Id of the project', required: true}],
  perform: (row, {member}) =>
    undoing(async undo => {
      const visible = (/** @type {string} */ value) => {
        const {service, path, ...asked} = patched(row, [{op: 'replace', path: '/visibility', value}]);
        return call(service, path, asked);
      };
      if (row.visibility === 'private') {
        await visible('shared');
        undo(() => visible('private'));
      }
      return call('image', `/images/${row.id}/members`, {method: 'POST', body: {member: member.trim()}});
    }),
  command: (row, {member}) => openstack('image add project', row.id, member || 'PROJECT'),
};
/** @type {Action} */
const unshare = {
  name: 'unshare',
  label: 'Stop sharing',
  done: 'Image no longer shared',
  rule: 'delete_member',
  danger: true,
  request: row => ({service: 'image', method: 'DELETE', path: `/images/${row.image_id}/members/${row.member_id}`}),
  command: row => openstack('image remove project', row.image_id, row.member_id),
};

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
    {...NAME, sort: 'name'},
    {...STATUS, sort: 'status'},
    {name: 'visibility', label: 'Visibility', value: row => row.visibility},
    {name: 'format', label: 'Format', sort: 'disk_format', value: row => row.disk_format},
    {name: 'size', label: 'Size', number: true, sort: 'size', value: row => row.size ?? 0, show: row => bytes(row.size)},
    project('owner'),
    {...CREATED, sort: 'created_at'},
  ],
  facts: row => [
    ['Id', row.id],
    ['Status', row.status],
    ['Format', row.disk_format],
    ['Size', bytes(row.size)],
    ['Visibility', row.visibility],
    ['Protected', yes(row.protected)],
    ['Minimum disk', `${row.min_disk} GiB`],
    ['Minimum memory', `${row.min_ram} MiB`],
    ['Checksum', row.os_hash_value ?? row.checksum],
    ['Created', date(row.created_at)],
    ['Owner', row.owner && html`<${Named} kind="project" id=${row.owner} />`],
    ['Tags', (row.tags ?? []).join(', ')],
  ],
  more: async row => ({
    members: mine(row) && row.visibility === 'shared' ? (await call('image', `/images/${row.id}/members`)).members : [],
    tasks: mine(row) ? await call('image', `/images/${row.id}/tasks`).then(found => found.tasks, () => []) : [],
  }),
  parts: (row, {members, tasks}, _reload, choose) => {
    const add = (/** @type {Action} */ action) =>
      action.when?.(row) &&
      offered(action) &&
      html`<button type="button" class="small" onClick=${() => choose(action, row)}>${t(action.label)}</button>`;
    return html`<${Rows} title=${t('Properties')} icon="image" rows=${properties(row)} choose=${choose} add=${add(setProperty)} actions=${mine(row) ? [removeProperty] : []} nameOf=${(/** @type {any} */ one) => one.id} columns=${[
      {name: 'key', label: 'Key', value: (/** @type {any} */ one) => one.id},
      {name: 'value', label: 'Value', value: (/** @type {any} */ one) => one.value},
    ]} />
    ${
      tasks.length > 0 &&
      html`<${Rows} title=${t('Imports')} icon="image" rows=${tasks} choose=${choose} columns=${[
        STATUS,
        {name: 'message', label: 'Message', value: (/** @type {any} */ one) => one.message},
        CREATED,
      ]} />`
    }
    ${
      mine(row) &&
      html`<${Rows} title=${t('Shared with')} icon="people" choose=${choose} add=${add(share)} actions=${[unshare]} rows=${members.map((/** @type {any} */ one) => ({...one, id: one.member_id}))} nameOf=${(/** @type {any} */ one) => one.member_id} columns=${[
        {name: 'member', label: 'Project', value: (/** @type {any} */ one) => one.member_id, show: (/** @type {any} */ one) => html`<${Named} kind="project" id=${one.member_id} plain />`},
        STATUS,
      ]} />`
    }`;
  },
  create: {
    name: 'upload-image',
    label: 'Upload image',
    done: 'Image {name} created',
    rule: 'add_image',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'from', label: 'Source', type: 'select', required: true, preset: true, options: sources},
      {name: 'file', label: 'File', type: 'file', required: true, when: values => !ofUrl(values)},
      {name: 'uri', label: 'URL', required: true, pattern: 'https?://.+', when: ofUrl, help: 'The cloud downloads the file. The status of the image says when it is done.'},
      {name: 'disk_format', label: 'Format', type: 'select', required: true, value: 'qcow2', options: FORMATS},
      {name: 'min_disk', label: 'Minimum disk (GiB)', type: 'number', min: 0, value: 0},
      {name: 'min_ram', label: 'Minimum memory (MiB)', type: 'number', min: 0, value: 0},
    ],
    perform: (_row, values, progress) =>
      undoing(async undo => {
        const {file, from: _from, uri, ...fields} = values;
        const made = await call('image', '/images', {
          method: 'POST',
          body: {...fields, container_format: 'bare', min_disk: Number(fields.min_disk), min_ram: Number(fields.min_ram)},
        });
        undo(() => call('image', `/images/${made.id}`, {method: 'DELETE'})); // half an image is of no use
        if (ofUrl(values))
          await call('image', `/images/${made.id}/import`, {method: 'POST', body: {method: {name: 'web-download', uri}}});
        else await send(made.id, file, progress);
        return made;
      }),
    command: (_row, values) =>
      openstack(
        'image create',
        ofUrl(values) ? '' : ['--file', values.file?.name ?? 'FILE'],
        ['--disk-format', values.disk_format],
        ['--min-disk', Number(values.min_disk) || ''],
        ['--min-ram', Number(values.min_ram) || ''],
        values.name || 'NAME',
      ) +
      (ofUrl(values)
        ? '\n' + openstack('image import', '--method web-download', ['--uri', values.uri || 'URL'], values.name || 'NAME')
        : ''),
    terraform: (_row, values) =>
      terraform('images_image_v2', values.name, {
        name: values.name,
        ...(ofUrl(values)
          ? {image_source_url: values.uri || 'URL', web_download: true}
          : {local_file_path: values.file?.name ?? 'FILE'}),
        disk_format: values.disk_format,
        container_format: 'bare',
        min_disk_gb: Number(values.min_disk) || undefined,
        min_ram_mb: Number(values.min_ram) || undefined,
      }),
  },
  actions: [
    {
      name: 'launch',
      label: 'Create server',
      rule: 'os_compute_api:servers:create',
      when: row => row.status === 'active' && !['aki', 'ari'].includes(row.disk_format),
      go: row => `#/create?image=${row.id}`,
      command: row => openstack('server create', ['--image', row.id], '--flavor FLAVOR NAME'),
    },
    {
      name: 'edit',
      label: 'Edit',
      done: 'Image {name} changed',
      rule: 'modify_image',
      when: mine,
      form: row => [
        {name: 'name', label: 'Name', required: true, value: row.name},
        {
          name: 'visibility',
          label: 'Visibility',
          type: 'select',
          required: true,
          value: row.visibility,
          options: ['private', 'shared', 'community', 'public']
            .filter(one => one !== 'public' || row.visibility === 'public' || may('publicize_image'))
            .map(value => ({value, label: value})),
        },
        {name: 'min_disk', label: 'Minimum disk (GiB)', type: 'number', min: 0, value: row.min_disk},
        {name: 'min_ram', label: 'Minimum memory (MiB)', type: 'number', min: 0, value: row.min_ram},
        {name: 'protected', label: 'Protected against deletion', type: 'check', value: row.protected},
        {name: 'tags', label: 'Tags', value: (row.tags ?? []).join(', '), help: 'Separated by commas'},
      ],
      request: (row, values) => patched(row, changes(row, {
        ...values,
        min_disk: Number(values.min_disk),
        min_ram: Number(values.min_ram),
        tags: words(values.tags),
      })),
      command: (row, values) =>
        openstack('image set', ['--name', values.name], `--${values.visibility}`, ['--min-disk', values.min_disk], ['--min-ram', values.min_ram], values.protected ? '--protected' : '--unprotected', row.id),
    },
    setProperty,
    share,
    {
      name: 'download',
      label: 'Download',
      done: 'Image {name} downloaded',
      rule: 'download_image',
      when: row => row.status === 'active' && row.size > 0,
      perform: async row => {
        const answer = await ask('image', `/images/${row.id}/file`, {forever: true, headers: {Accept: '*/*'}});
        save(await answer.blob(), `${row.name || row.id}.${row.disk_format}`);
      },
      command: row => openstack('image save', ['--file', `${row.name || row.id}.${row.disk_format}`], row.id),
    },
    {
      name: 'deactivate',
      label: 'Deactivate',
      done: 'Image {name} deactivated',
      rule: 'deactivate',
      when: row => row.status === 'active',
      ask: 'The data cannot be read while the image is deactivated.',
      request: row => ({service: 'image', method: 'POST', path: `/images/${row.id}/actions/deactivate`}),
      command: row => openstack('image set --deactivate', row.id),
    },
    {
      name: 'reactivate',
      label: 'Reactivate',
      done: 'Image {name} reactivated',
      rule: 'reactivate',
      when: row => row.status === 'deactivated',
      request: row => ({service: 'image', method: 'POST', path: `/images/${row.id}/actions/reactivate`}),
      command: row => openstack('image set --activate', row.id),
    },
    remove('image', '/images', 'delete_image', 'image delete', {done: 'Image {name} deleted', when: row => !row.protected && (mine(row) || required().roles.includes('admin'))}),
  ],
};
