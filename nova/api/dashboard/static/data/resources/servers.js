// The list of servers. pages/server.js shows one of them.
import {all} from '../../core/api.js';
import {serverFilter} from '../../core/options.js';
import {allProjects} from '../common.js';
import {SERVER_ACTIONS} from '../server_actions.js';
import {SERVER_COLUMNS, STATUSES} from '../servers.js';

const COUNTED = 5000; // servers that are counted at most

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/servers/detail',
  key: 'servers',
  paged: true,
  follow: true,
  empty: 'There are no servers yet.',
  sort: {by: 'created', down: true},
  columns: SERVER_COLUMNS,
  actions: SERVER_ACTIONS,
  search: serverFilter,
  find: 'Find by name, address or id',
  filters: [
    {name: 'status', label: 'Status', none: 'Any status', options: STATUSES.map(value => ({value, label: value}))},
    allProjects('all_tenants'),
  ],
  count: query =>
    all('compute', '/servers', 'servers', {query: {...query, limit: 1000}, most: COUNTED}).then(rows => (rows.cut ? null : rows.length)),
  create: {
    name: 'create',
    label: 'Create server',
    rule: 'os_compute_api:servers:create',
    go: () => '#/create',
    command: () => '',
  },
};
