// Hypervisors: what each has, and what is used of it.
import {html} from '../../core/html.js';
import {mebibytes, number} from '../../core/text.js';
import {Badge} from '../../parts/basics.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-hypervisors/detail',
  key: 'hypervisors',
  version: '2.87',
  paged: true,
  empty: 'There are no hypervisors.',
  nameOf: row => row.hypervisor_hostname,
  columns: [
    {name: 'name', label: 'Name', value: row => row.hypervisor_hostname},
    {
      name: 'state',
      label: 'State',
      value: row => row.state,
      show: row => html`<span><${Badge} state=${row.state} /></span>`,
    },
    {
      name: 'status',
      label: 'Status',
      value: row => row.status,
      show: row => html`<span><${Badge} state=${row.status} /></span>`,
    },
    {name: 'type', label: 'Type', value: row => row.hypervisor_type},
    {name: 'servers', label: 'Servers', number: true, value: row => row.running_vms},
    {
      name: 'vcpus',
      label: 'CPUs',
      number: true,
      value: row => row.vcpus_used,
      show: row => `${number(row.vcpus_used)} / ${number(row.vcpus)}`,
    },
    {
      name: 'memory',
      label: 'Memory',
      number: true,
      value: row => row.memory_mb_used,
      show: row => `${mebibytes(row.memory_mb_used)} / ${mebibytes(row.memory_mb)}`,
    },
    {
      name: 'disk',
      label: 'Disk',
      number: true,
      value: row => row.local_gb_used,
      show: row => `${number(row.local_gb_used)} / ${number(row.local_gb)} GiB`,
    },
  ],
  actions: [],
};
