// Flavors and their extra specs.
import {html} from '../../core/html.js';
import {call} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import * as options from '../../core/options.js';
import {terraform} from '../../core/terraform.js';
import {bytes, mebibytes, number, t} from '../../core/text.js';
import {Badge, Card, Empty} from '../../parts/basics.js';
import {offered} from '../../parts/actions.js';
import {Named} from '../../parts/named.js';
import {Table} from '../../parts/table.js';
import {Rows} from '../common.js';

/** Known extra specs, explained; the API checks their values. @type {Record<string, string>} */
const KNOWN = {
  'hw:cpu_policy': t('shared: CPUs float; dedicated: each is pinned to one of the host'),
  'hw:cpu_thread_policy': t('how pinned CPUs use siblings: prefer, isolate, require'),
  'hw:numa_nodes': t('number of NUMA nodes that the guest sees'),
  'hw:mem_page_size': t('small, large, any, or a size: pages behind the memory'),
  'hw:cpu_sockets': t('sockets that the guest sees'),
  'hw:cpu_cores': t('cores of each socket'),
  'hw:cpu_threads': t('threads of each core'),
  'hw:watchdog_action': t('what happens when the guest hangs: reset, poweroff, pause, none'),
  'hw:boot_menu': t('whether the guest shows a boot menu'),
  'hw_rng:allowed': t('whether the guest has a random number generator'),
  'quota:cpu_shares': t('weight of its CPU time'),
  'quota:disk_read_bytes_sec': t('bytes a second read from its disks at most'),
  'quota:disk_write_bytes_sec': t('bytes a second written at most'),
  'pci_passthrough:alias': t('devices of the host: alias:count'),
  'aggregate_instance_extra_specs:': t('metadata that the aggregate of its host must have'),
};
/** @type {import('../../parts/actions.js').Action} */
const setSpec = {
  name: 'set-spec',
  label: 'Set extra spec',
  done: 'Extra spec of {name} set',
  rule: 'os_compute_api:os-flavor-extra-specs:create',
  form: [
    {name: 'key', label: 'Key', required: true, suggestions: Object.keys(KNOWN)},
    {name: 'value', label: 'Value', required: true},
  ],
  request: (row, {key, value}) => ({
    method: 'POST',
    path: `/flavors/${row.id}/os-extra_specs`,
    body: {extra_specs: {[key]: value}},
  }),
  command: (row, {key, value}) => openstack('flavor set', ['--property', `${key}=${value}`], row.id),
};
/** @type {import('../../parts/actions.js').Action} */
const removeSpec = {
  name: 'remove-spec',
  label: 'Remove',
  done: 'Extra spec removed',
  rule: 'os_compute_api:os-flavor-extra-specs:delete',
  danger: true,
  request: row => ({method: 'DELETE', path: `/flavors/${row.flavor}/os-extra_specs/${encodeURIComponent(row.id)}`}),
  command: row => openstack('flavor unset', ['--property', row.id], row.flavor),
};

/** @type {import('../../parts/actions.js').Action} */
const addAccess = {
  name: 'add-access',
  label: 'Grant access',
  done: 'Access to {name} granted',
  rule: 'os_compute_api:os-flavor-access:add_tenant_access',
  when: row => !row['os-flavor-access:is_public'],
  form: [{name: 'tenant', label: 'Project', type: 'select', required: true, options: options.projects}],
  request: (row, values) => ({method: 'POST', path: `/flavors/${row.id}/action`, body: {addTenantAccess: values}}),
  command: (row, {tenant}) => openstack('flavor set', ['--project', tenant], row.id),
  terraform: (row, {tenant}) => terraform('compute_flavor_access_v2', row.name, {flavor_id: row.id, tenant_id: tenant}),
};
/** @type {import('../../parts/actions.js').Action} */
const removeAccess = {
  name: 'remove-access',
  label: 'Revoke access',
  done: 'Access revoked',
  rule: 'os_compute_api:os-flavor-access:remove_tenant_access',
  danger: true,
  request: row => ({method: 'POST', path: `/flavors/${row.flavor}/action`, body: {removeTenantAccess: {tenant: row.id}}}),
  command: row => openstack('flavor unset', ['--project', row.id], row.flavor),
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/flavors/detail',
  item: '/flavors',
  one: 'flavor',
  key: 'flavors',
  query: {is_public: 'None'},
  empty: 'There are no flavors.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'vcpus', label: 'CPUs', number: true, value: row => row.vcpus},
    {name: 'memory', label: 'Memory', number: true, value: row => row.ram, show: row => mebibytes(row.ram)},
    {name: 'disk', label: 'Root disk', number: true, value: row => row.disk, show: row => `${number(row.disk)} GiB`},
    {
      name: 'public',
      label: 'Public',
      value: row => (row['os-flavor-access:is_public'] ? 'yes' : 'no'),
      show: row => html`<span><${Badge} state=${row['os-flavor-access:is_public']} /></span>`,
    },
    {name: 'specs', label: 'Extra specs', number: true, value: row => Object.keys(row.extra_specs ?? {}).length},
  ],
  facts: row => [
    ['Id', row.id],
    ['Virtual CPUs', row.vcpus],
    ['Memory', mebibytes(row.ram)],
    ['Root disk', bytes(row.disk * 2 ** 30)],
    ['Ephemeral disk', `${row['OS-FLV-EXT-DATA:ephemeral']} GiB`],
    ['Swap', `${row.swap || 0} MiB`],
    ['Description', row.description],
  ],
  more: async row => ({
    specs: Object.entries((await call('compute', `/flavors/${row.id}/os-extra_specs`)).extra_specs).map(([id, value]) => ({
      id,
      value,
      flavor: row.id,
    })),
    access: row['os-flavor-access:is_public']
      ? []
      : (await call('compute', `/flavors/${row.id}/os-flavor-access`)).flavor_access.map((/** @type {any} */ one) => ({
          id: one.tenant_id,
          flavor: row.id,
        })),
  }),
  parts: (row, {specs, access}, _reload, choose) =>
    html`${
      !row['os-flavor-access:is_public'] &&
      html`<${Rows} title=${t('Access')} icon="people" rows=${access} choose=${choose} actions=${[removeAccess]} add=${offered(addAccess) && html`<button type="button" class="small" onClick=${() => choose(addAccess, row)}>${t(addAccess.label)}</button>`} columns=${[
        {name: 'project', label: 'Project', value: (/** @type {any} */ one) => one.id, show: (/** @type {any} */ one) => html`<${Named} kind="project" id=${one.id} />`},
      ]} />`
    }<${Card} title=${t('Extra specs')} action=${offered(setSpec) && html`<button type="button" class="small" onClick=${() => choose(setSpec, row)}>${t('Set an extra spec')}</button>`}>${
      specs.length
        ? html`<${Table} label=${t('Extra specs')} rows=${specs} idOf=${(/** @type {any} */ spec) => spec.id} nameOf=${(/** @type {any} */ spec) => spec.id}
    columns=${[
      {name: 'key', label: 'Key', value: (/** @type {any} */ spec) => spec.id},
      {name: 'value', label: 'Value', value: (/** @type {any} */ spec) => spec.value},
      {
        name: 'meaning',
        label: 'Meaning',
        value: (/** @type {any} */ spec) =>
          KNOWN[spec.id] ??
          KNOWN[Object.keys(KNOWN).find(key => key.endsWith(':') && spec.id.startsWith(key)) ?? ''] ??
          '–',
      },
    ]}
    sort=${null} sortable=${() => false} onSort=${() => null} actions=${[removeSpec]} onAction=${(/** @type {any} */ action, /** @type {any[]} */ on) => choose(action, on[0])} selected=${new Set()} onSelect=${null} />`
        : html`<${Empty} icon="flavor" text=${t('There are none.')} />`
    }</${Card}>`,
  create: {
    name: 'make-flavor',
    label: 'Create flavor',
    done: 'Flavor {name} created',
    rule: 'os_compute_api:os-flavor-manage:create',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'vcpus', label: 'Virtual CPUs', type: 'number', min: 1, value: 1, required: true},
      {name: 'ram', label: 'Memory (MiB)', type: 'number', min: 1, value: 512, required: true},
      {name: 'disk', label: 'Root disk (GiB)', type: 'number', min: 0, value: 1, required: true},
      {name: 'ephemeral', label: 'Ephemeral disk (GiB)', type: 'number', min: 0, value: 0},
      {name: 'swap', label: 'Swap (MiB)', type: 'number', min: 0, value: 0},
      {name: 'isPublic', label: 'Public', type: 'check', value: true},
      {name: 'description', label: 'Description', more: true},
    ],
    request: (_row, values) => ({
      method: 'POST',
      path: '/flavors',
      body: {
        flavor: {
          name: values.name,
          vcpus: Number(values.vcpus),
          ram: Number(values.ram),
          disk: Number(values.disk),
          'OS-FLV-EXT-DATA:ephemeral': Number(values.ephemeral),
          swap: Number(values.swap),
          ...(values.description ? {description: values.description} : {}),
          'os-flavor-access:is_public': values.isPublic,
        },
      },
    }),
    terraform: (_row, values) =>
      terraform('compute_flavor_v2', values.name, {
        name: values.name,
        vcpus: Number(values.vcpus),
        ram: Number(values.ram),
        disk: Number(values.disk),
        ephemeral: Number(values.ephemeral) || undefined,
        swap: Number(values.swap) || undefined,
        is_public: values.isPublic,
      }),
    command: (_row, values) =>
      openstack(
        'flavor create',
        ['--vcpus', values.vcpus],
        ['--ram', values.ram],
        ['--disk', values.disk],
        ['--ephemeral', Number(values.ephemeral)],
        ['--swap', Number(values.swap)],
        !values.isPublic && '--private',
        values.name || 'NAME',
      ),
  },
  actions: [
    setSpec,
    addAccess,
    {
      name: 'edit',
      label: 'Edit',
      done: 'Flavor {name} changed',
      rule: 'os_compute_api:os-flavor-manage:update',
      form: row => [{name: 'description', label: 'Description', value: row.description}],
      request: (row, {description}) => ({method: 'PUT', path: `/flavors/${row.id}`, body: {flavor: {description: description || null}}}),
      command: (row, {description}) => openstack('flavor set', ['--description', description], row.id),
    },
    {
      name: 'delete',
      label: 'Delete',
      done: 'Flavor {name} deleted',
      rule: 'os_compute_api:os-flavor-manage:delete',
      danger: true,
      bulk: true,
      ask: 'Existing servers keep it.',
      request: row => ({method: 'DELETE', path: `/flavors/${row.id}`}),
      command: row => openstack('flavor delete', row.id),
    },
  ],
};
