// Volumes: where they come from, where they are attached, and what becomes of them.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {terraform} from '../../core/terraform.js';
import {date, number, t, typeName} from '../../core/text.js';
import {Named} from '../../parts/named.js';
import {CREATED, DESCRIPTION, NAME, STATUS, allProjects, given, project, remove, yes} from '../common.js';

/** @typedef {import('../../parts/actions.js').Action} Action */

const servers = (/** @type {any} */ row) => (row.attachments ?? []).map((/** @type {any} */ one) => one.server_id);
const links = (/** @type {any} */ row) =>
  servers(row).map((/** @type {string} */ id) => html`<${Named} kind="server" id=${id} /> `);
const act = (/** @type {string} */ name, /** @type {any} */ body) => (/** @type {any} */ row) => ({
  service: /** @type {const} */ ('volume'),
  method: 'POST',
  path: `/volumes/${row.id}/action`,
  body: {[name]: body},
});
/** Choices among the servers that a volume is attached to. @param {any} row */
const attached = row => async () => {
  const {servers: found} = await call('compute', '/servers', {query: {limit: 1000}});
  const names = new Map(found.map((/** @type {any} */ server) => [server.id, server.name]));
  return servers(row).map((/** @type {string} */ value) => ({value, label: names.get(value) ?? value}));
};

const SOURCES = [
  {value: 'empty', label: 'Nothing: an empty volume'},
  {value: 'image', label: 'Image'},
  {value: 'snapshot', label: 'Snapshot'},
  {value: 'volume', label: 'Volume'},
  {value: 'backup', label: 'Backup'},
];
/** @type {Record<string, {key: string, option: string, terraform: string, options: any}>} */
const FROM = {
  image: {key: 'imageRef', option: '--image', terraform: 'image_id', options: options.images},
  snapshot: {key: 'snapshot_id', option: '--snapshot', terraform: 'snapshot_id', options: options.snapshots},
  volume: {key: 'source_volid', option: '--source', terraform: 'source_vol_id', options: options.volumes},
  backup: {key: 'backup_id', option: '--backup', terraform: 'backup_id', options: options.backups},
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'volume',
  path: '/volumes/detail',
  item: '/volumes',
  one: 'volume',
  key: 'volumes',
  query: {sort: 'created_at:desc'},
  paged: true,
  counted: true,
  empty: 'There are no volumes yet.',
  filters: [allProjects('all_tenants')],
  columns: [
    {...NAME, sort: 'name'},
    {...STATUS, sort: 'status'},
    {name: 'size', label: 'Size', number: true, sort: 'size', value: row => row.size, show: row => `${number(row.size)} GiB`},
    {name: 'type', label: 'Type', value: row => typeName(row.volume_type) || '–'},
    {name: 'server', label: 'Server', value: row => servers(row).join(' ') || '–', show: row => (servers(row).length ? html`<span>${links(row)}</span>` : '–')},
    {name: 'bootable', label: 'Bootable', value: row => yes(row.bootable === 'true')},
    project('os-vol-tenant-attr:tenant_id'),
    {...CREATED, sort: 'created_at'},
  ],
  facts: row => [
    ['Id', row.id],
    ['Status', row.status],
    ['Size', `${row.size} GiB`],
    ['Type', typeName(row.volume_type)],
    ['Bootable', yes(row.bootable === 'true')],
    ['Multiattach', yes(row.multiattach)],
    ['Encrypted', yes(row.encrypted)],
    ['Server', links(row)],
    ['Image', row.volume_image_metadata?.image_name],
    ['Snapshot', row.snapshot_id && html`<${Named} kind="snapshot" id=${row.snapshot_id} />`],
    ['Source volume', row.source_volid && html`<${Named} kind="volume" id=${row.source_volid} />`],
    ['Zone', row.availability_zone],
    ['Created', date(row.created_at)],
    ['Description', row.description],
  ],
  create: {
    name: 'create-volume',
    label: 'Create volume',
    done: 'Volume {name} is being created',
    rule: 'volume:create',
    form: [
      {name: 'name', label: 'Name'},
      {name: 'source', label: 'Source', type: 'select', required: true, value: 'empty', options: SOURCES},
      ...Object.entries(FROM).map(
        ([kind, {options: found}]) =>
          /** @type {import('../../parts/form.js').Field} */ ({
            name: kind,
            label: SOURCES.find(one => one.value === kind)?.label ?? '',
            type: 'select',
            required: true,
            options: found,
            when: values => values.source === kind,
          }),
      ),
      {name: 'size', label: 'Size (GiB)', type: 'number', min: 1, required: true, value: 1},
      {name: 'volume_type', label: 'Type', type: 'select', options: options.volumeTypes, none: 'default'},
      {...DESCRIPTION, more: true},
    ],
    request: (_row, values) => ({
      service: 'volume',
      method: 'POST',
      path: '/volumes',
      body: {
        volume: {
          size: Number(values.size),
          ...given({name: values.name, volume_type: values.volume_type, description: values.description}),
          ...(values.source === 'empty' ? {} : {[FROM[values.source].key]: values[values.source]}),
        },
      },
    }),
    command: (_row, values) =>
      openstack(
        'volume create',
        ['--size', values.size],
        values.source !== 'empty' && [FROM[values.source].option, values[values.source]],
        ['--type', values.volume_type],
        ['--description', values.description],
        values.name || 'NAME',
      ),
    terraform: (_row, values) =>
      terraform('blockstorage_volume_v3', values.name || 'volume', {
        name: values.name,
        size: Number(values.size),
        volume_type: values.volume_type,
        description: values.description,
        ...(values.source === 'empty' ? {} : {[FROM[values.source].terraform]: values[values.source]}),
      }),
  },
  actions: [
    {
      name: 'attach',
      label: 'Attach to a server',
      done: '{name} is being attached',
      rule: 'os_compute_api:os-volumes-attachments:create',
      when: row => row.status === 'available' || (row.multiattach && row.status === 'in-use'),
      form: [{name: 'server', label: 'Server', type: 'find', required: true, options: options.servers}],
      request: (row, {server}) => ({
        method: 'POST',
        path: `/servers/${server}/os-volume_attachments`,
        body: {volumeAttachment: {volumeId: row.id}},
      }),
      command: (row, {server}) => openstack('server add volume', server || 'SERVER', row.id),
      terraform: (row, {server}) => terraform('compute_volume_attach_v2', row.name || 'volume', {instance_id: server, volume_id: row.id}),
    },
    {
      name: 'detach',
      label: 'Detach',
      done: '{name} is being detached',
      rule: 'os_compute_api:os-volumes-attachments:delete',
      danger: true,
      when: row => servers(row).length > 0,
      ask: 'Unmount it in the guest first.',
      form: row => [{name: 'server', label: 'Server', type: 'select', required: true, options: attached(row), value: servers(row)[0]}],
      request: (row, {server}) => ({method: 'DELETE', path: `/servers/${server}/os-volume_attachments/${row.id}`}),
      command: (row, {server}) => openstack('server remove volume', server, row.id),
    },
    {
      name: 'edit',
      label: 'Edit',
      done: '{name} changed',
      rule: 'volume:update',
      form: row => [
        {name: 'name', label: 'Name', value: row.name},
        {...DESCRIPTION, value: row.description},
        {name: 'bootable', label: 'Bootable', type: 'check', value: row.bootable === 'true'},
      ],
      perform: async (row, {name, description, bootable}) => {
        await call('volume', `/volumes/${row.id}`, {method: 'PUT', body: {volume: {name, description}}});
        if (bootable !== (row.bootable === 'true'))
          await call('volume', `/volumes/${row.id}/action`, {method: 'POST', body: {'os-set_bootable': {bootable}}});
      },
      command: (row, {name, description, bootable}) =>
        openstack('volume set', ['--name', name], ['--description', description], bootable ? '--bootable' : '--non-bootable', row.id),
    },
    {
      name: 'snapshot',
      label: 'Create snapshot',
      done: 'Snapshot of {name} is being created',
      rule: 'volume:create_snapshot',
      when: row => row.status === 'available' || row.status === 'in-use',
      form: row => [{name: 'name', label: 'Name of the snapshot', value: `${row.name || 'volume'}-snapshot`}],
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
      name: 'backup',
      label: 'Create backup',
      done: 'Backup of {name} is being created',
      rule: 'backup:create',
      when: row => row.status === 'available' || row.status === 'in-use',
      form: row => [{name: 'name', label: 'Name of the backup', value: `${row.name || 'volume'}-backup`}],
      request: (row, {name}) => ({
        service: 'volume',
        method: 'POST',
        path: '/backups',
        body: {backup: {volume_id: row.id, name, force: row.status === 'in-use'}},
      }),
      command: (row, {name}) =>
        openstack('volume backup create', ['--name', name], row.status === 'in-use' && '--force', row.id),
    },
    {
      name: 'image',
      label: 'Create image',
      done: 'Image of {name} is being created',
      rule: 'volume_extension:volume_actions:upload_image',
      when: row => row.status === 'available',
      form: row => [
        {name: 'image_name', label: 'Name of the image', required: true, value: `${row.name || 'volume'}-image`},
        {name: 'disk_format', label: 'Format', type: 'select', required: true, value: 'qcow2', options: ['qcow2', 'raw'].map(value => ({value, label: value}))},
      ],
      request: (row, values) => act('os-volume_upload_image', {...values, container_format: 'bare'})(row),
      command: (row, values) => openstack('image create', ['--volume', row.id], ['--disk-format', values.disk_format], values.image_name || 'NAME'),
    },
    {
      name: 'extend',
      label: 'Extend',
      done: '{name} is being extended',
      rule: 'volume:extend',
      when: row => row.status === 'available' || row.status === 'in-use',
      form: row => [
        {name: 'size', label: 'Size (GiB)', type: 'number', min: row.size + 1, value: row.size + 1, required: true},
      ],
      request: (row, {size}) => act('os-extend', {new_size: Number(size)})(row),
      command: (row, {size}) => openstack('volume set', ['--size', size], row.id),
    },
    {
      name: 'retype',
      label: 'Change type',
      done: 'Type of {name} is being changed',
      rule: 'volume:retype',
      form: row => [
        {
          name: 'new_type',
          label: 'Type',
          type: 'select',
          required: true,
          options: async () => (await options.volumeTypes()).filter((/** @type {any} */ one) => one.value !== row.volume_type),
        },
        {
          name: 'migration_policy',
          label: 'If the data must be migrated',
          type: 'select',
          required: true,
          value: 'on-demand',
          options: [
            {value: 'on-demand', label: 'Migrate the data'},
            {value: 'never', label: 'Refuse'},
          ],
        },
      ],
      request: (row, values) => act('os-retype', values)(row),
      command: (row, values) => openstack('volume set', ['--type', values.new_type], ['--retype-policy', values.migration_policy], row.id),
    },
    {
      name: 'transfer',
      label: 'Transfer to another project',
      done: 'Transfer of {name} created',
      rule: 'volume:create_transfer',
      when: row => row.status === 'available',
      form: row => [{name: 'name', label: 'Name of the transfer', value: row.name}],
      request: (row, {name}) => ({service: 'volume', method: 'POST', path: '/volume-transfers', body: {transfer: {volume_id: row.id, name}}}),
      command: (row, {name}) => openstack('volume transfer request create', ['--name', name], row.id),
      secret: answer => ({
        label: t('Give these two values to the other project. The key is shown now and never again.'),
        text: `${answer.transfer.id}\n${answer.transfer.auth_key}`,
        file: 'transfer.txt',
      }),
    },
    remove('volume', '/volumes', 'volume:delete', 'volume delete', {
      done: '{name} is being deleted',
      when: row => !servers(row).length,
    }),
  ],
};
