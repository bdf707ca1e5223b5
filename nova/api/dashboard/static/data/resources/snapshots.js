// Snapshots of volumes.
import {openstack} from '../../core/command.js';
import {terraform} from '../../core/terraform.js';
import {CREATED, DESCRIPTION, NAME, SIZE, STATUS, VOLUME, allProjects, project, remove} from '../common.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'volume',
  path: '/snapshots/detail',
  key: 'snapshots',
  paged: true,
  counted: true,
  empty: 'There are no snapshots yet.',
  filters: [allProjects('all_tenants')],
  columns: [
    NAME,
    STATUS,
    SIZE,
    VOLUME,
    project('os-extended-snapshot-attributes:project_id'),
    CREATED,
  ],
  actions: [
    {
      name: 'restore',
      label: 'Create volume',
      done: 'Volume {name} is being created',
      rule: 'volume:create',
      when: row => row.status === 'available',
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
      terraform: (row, {name, size}) => terraform('blockstorage_volume_v3', name, {name, size: Number(size), snapshot_id: row.id}),
    },
    {
      name: 'edit',
      label: 'Edit',
      done: '{name} changed',
      rule: 'volume:update_snapshot',
      form: row => [
        {name: 'name', label: 'Name', value: row.name},
        {...DESCRIPTION, value: row.description},
      ],
      request: (row, values) => ({service: 'volume', method: 'PUT', path: `/snapshots/${row.id}`, body: {snapshot: values}}),
      command: (row, {name, description}) => openstack('volume snapshot set', ['--name', name], ['--description', description], row.id),
    },
    remove('volume', '/snapshots', 'volume:delete_snapshot', 'volume snapshot delete', {done: '{name} is being deleted'}),
  ],
};
