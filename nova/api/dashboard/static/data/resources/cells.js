// Cells: parts of a deployment with a database and a broker of their own.
import {html} from '../../core/html.js';
import {Badge} from '../../parts/basics.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-cell-mappings',
  key: 'cell_mappings',
  empty: 'There are no cells.',
  note: 'Cells are created and changed with nova-manage cell. Their addresses contain passwords, so the API does not show them.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {
      name: 'state',
      label: 'State',
      value: row => row.state,
      show: row => html`<span><${Badge} state=${row.state} /></span>`,
    },
    {
      name: 'status',
      label: 'Status',
      value: row => (row.disabled ? 'disabled' : 'enabled'),
      show: row => html`<span><${Badge} state=${row.disabled ? 'disabled' : 'enabled'} /></span>`,
    },
    {name: 'hosts', label: 'Hosts', number: true, value: row => row.hosts},
    {name: 'servers', label: 'Servers', number: true, value: row => row.servers},
  ],
  actions: [],
};
