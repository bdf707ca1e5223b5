// Buckets of the object store, with their objects.
import {html} from '../../core/html.js';
import {buckets, objects, store} from '../../core/s3.js';
import {word} from '../../core/command.js';
import {bytes, number, t} from '../../core/text.js';
import {offered, save} from '../../parts/actions.js';
import {CREATED, NAME, Rows} from '../common.js';

/** @typedef {import('../../parts/actions.js').Action} Action */

const s3 = (/** @type {string[]} */ ...words) => ['aws s3 --endpoint-url $S3_URL', ...words].join(' ');
const place = (/** @type {any} */ row) => word(`s3://${row.bucket}/${row.name}`);

/** @type {Action} */
const upload = {
  name: 'upload',
  label: 'Upload object',
  done: 'Object uploaded to {name}',
  rule: 'objectstore:write',
  form: [
    {name: 'file', label: 'File', type: 'file', required: true},
    {name: 'key', label: 'Name', help: 'Empty: the name of the file.'},
  ],
  perform: (row, {file, key}) => store('PUT', `/${row.name}/${key || file.name}`, {body: file}),
  command: (row, {file, key}) => s3('cp', word(file?.name ?? 'FILE'), word(`s3://${row.name}/${key}`)),
};
/** @type {Action[]} */
const OBJECT_ACTIONS = [
  {
    name: 'download',
    label: 'Download',
    done: '{name} downloaded',
    rule: 'objectstore:read',
    perform: async row => save(await (await store('GET', `/${row.bucket}/${row.name}`)).blob(), row.name.split('/').pop()),
    command: row => s3('cp', place(row), '.'),
  },
  {
    name: 'delete-object',
    label: 'Delete',
    done: '{name} deleted',
    rule: 'objectstore:write',
    danger: true,
    perform: row => store('DELETE', `/${row.bucket}/${row.name}`),
    command: row => s3('rm', place(row)),
  },
];

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '',
  key: 'buckets',
  read: buckets,
  one: 'bucket',
  show: async id => ({id, name: id}),
  empty: 'There are no buckets yet.',
  columns: [NAME, CREATED],
  facts: row => [['Name', row.name]],
  more: row => objects(row.name),
  parts: (row, found, _reload, choose) =>
    html`${found.cut && html`<p class="note span" role="status">${t('Only the first {count} objects are shown. A client for S3 lists all.', {count: number(found.length)})}</p>`}<${Rows} title=${t('Objects')} icon="volume" rows=${found} choose=${choose} actions=${OBJECT_ACTIONS} add=${offered(upload) && html`<button type="button" class="small" onClick=${() => choose(upload, row)}>${t(upload.label)}</button>`} columns=${[
      NAME,
      {name: 'size', label: 'Size', number: true, value: (/** @type {any} */ one) => one.size, show: (/** @type {any} */ one) => bytes(one.size)},
      CREATED,
    ]} />`,
  create: {
    name: 'create-bucket',
    label: 'Create bucket',
    done: 'Bucket {name} created',
    rule: 'objectstore:write',
    form: [{name: 'name', label: 'Name', required: true, pattern: '[a-z0-9][a-z0-9.\\-]{1,61}[a-z0-9]', help: '3 to 63 small letters, digits, dots and hyphens'}],
    perform: (_row, {name}) => store('PUT', `/${name}`),
    command: (_row, {name}) => s3('mb', `s3://${name || 'NAME'}`),
  },
  actions: [
    upload,
    {
      name: 'delete',
      label: 'Delete',
      done: 'Bucket {name} deleted',
      rule: 'objectstore:write',
      danger: true,
      gone: true,
      ask: 'A bucket with objects is refused.',
      perform: row => store('DELETE', `/${row.name}`),
      command: row => s3('rb', `s3://${row.name}`),
    },
  ],
};
