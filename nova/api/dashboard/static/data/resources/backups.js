// Backups of volumes.
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {CREATED, NAME, SIZE, STATUS, VOLUME, allProjects, given, project, remove} from '../common.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'volume',
  path: '/backups/detail',
  key: 'backups',
  paged: true,
  counted: true,
  empty: 'There are no backups yet.',
  filters: [allProjects('all_tenants')],
  columns: [
    NAME,
    STATUS,
    SIZE,
    VOLUME,
    project('os-backup-project-attr:project_id'),
    CREATED,
    {name: 'reason', label: 'Reason', value: row => row.fail_reason || '–'},
  ],
  actions: [
    {
      name: 'restore',
      label: 'Restore',
      done: '{name} is being restored',
      rule: 'backup:restore',
      when: row => row.status === 'available',
      ask: 'The data of a chosen volume is overwritten.',
      form: row => [
        {name: 'volume_id', label: 'Volume', type: 'select', none: 'a new volume', options: options.freeVolumes},
        {name: 'name', label: 'Name of the new volume', value: `${row.name}-restored`, when: values => !values.volume_id},
      ],
      request: (row, {volume_id: volume, name}) => ({
        service: 'volume',
        method: 'POST',
        path: `/backups/${row.id}/restore`,
        body: {restore: volume ? {volume_id: volume} : given({name})},
      }),
      command: (row, {volume_id: volume, name}) => openstack('volume backup restore', row.id, volume || name),
    },
    remove('volume', '/backups', 'backup:delete', 'volume backup delete', {done: '{name} is being deleted'}),
  ],
};
