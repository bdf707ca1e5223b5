// Projects, and what each may use.
import {html} from '../../core/html.js';
import {all, call, has} from '../../core/api.js';
import {openstack} from '../../core/command.js';
import {terraform} from '../../core/terraform.js';
import {number, t} from '../../core/text.js';
import {offered} from '../../parts/actions.js';
import {Badge, Card, Meter} from '../../parts/basics.js';

/** @typedef {import('../../core/api.js').Service} Service */
/** Quotas: service, name, label, option of the command, or the resource of a unified limit. @type {[Service, string, string, string][]} */
const QUOTAS = [
  ['compute', 'instances', t('Servers'), '--instances'],
  ['compute', 'cores', t('Virtual CPUs'), '--cores'],
  ['compute', 'ram', t('Memory (MiB)'), '--ram'],
  ['compute', 'key_pairs', t('Key pairs'), '--key-pairs'],
  ['compute', 'server_groups', t('Server groups'), '--server-groups'],
  ['compute', 'server_group_members', t('Servers in a group'), '--server-group-members'],
  ['compute', 'metadata_items', t('Metadata of a server'), '--properties'],
  ['volume', 'volumes', t('Volumes'), '--volumes'],
  ['volume', 'gigabytes', t('Volumes (GiB)'), '--gigabytes'],
  ['volume', 'snapshots', t('Snapshots'), '--snapshots'],
  ['volume', 'backups', t('Backups'), '--backups'],
  ['image', 'image_size_total', t('Image storage (MiB)'), ''],
  ['image', 'image_stage_total', t('Staged image data (MiB)'), ''],
  ['image', 'image_count_total', t('Images'), ''],
  ['image', 'image_count_uploading', t('Uploads at a time'), ''],
  ['network', 'network', t('Networks'), '--networks'],
  ['network', 'subnet', t('Subnets'), '--subnets'],
  ['network', 'port', t('Ports'), '--ports'],
  ['network', 'router', t('Routers'), '--routers'],
  ['network', 'floatingip', t('Floating addresses'), '--floating-ips'],
  ['network', 'security_group', t('Security groups'), '--secgroups'],
  ['network', 'security_group_rule', t('Rules'), '--secgroup-rules'],
];
const field = (/** @type {Service} */ service, /** @type {string} */ name) => `${service}-${name}`;
/**
 * Quotas of images are unified limits of the identity service: {name: {limit, used, id, registered}}. The id is that of the
 * project's own limit.
 * @param {string} id
 */
async function imageQuotas(id) {
  const service = has('image') && (await call('identity', '/services', {query: {type: 'image'}})).services[0]?.id;
  if (!service) return {};
  const [registered, own, ...images] = await Promise.all([
    call('identity', '/registered_limits', {query: {service_id: service}}).then(found => found.registered_limits),
    call('identity', '/limits', {query: {service_id: service, project_id: id}}).then(found => found.limits),
    ...[false, true].map(hidden =>
      all('image', '/images', 'images', {query: {owner: id, visibility: 'all', os_hidden: hidden, limit: 500}}),
    ),
  ]);
  const rows = images.flat();
  const mebibytes = (/** @type {any[]} */ some) => Math.ceil(some.reduce((sum, row) => sum + (row.size ?? 0), 0) / 2 ** 20);
  /** @type {Record<string, number>} */
  const used = {
    image_size_total: mebibytes(rows),
    image_stage_total: mebibytes(rows.filter(row => row.status === 'uploading')),
    image_count_total: rows.length,
    image_count_uploading: rows.filter(row => ['saving', 'importing'].includes(row.status)).length,
  };
  return Object.fromEntries(
    registered.map((/** @type {any} */ one) => {
      const mine = own.find(
        (/** @type {any} */ row) => row.resource_name === one.resource_name && row.region_id === one.region_id,
      );
      const limit = mine?.resource_limit ?? one.default_limit;
      return [one.resource_name, {limit, used: used[one.resource_name], id: mine?.id, registered: one}];
    }),
  );
}
/** The documents of a project: {service: {name: {used, limit}}}. @param {string} id */
async function quotas(id) {
  const [compute, volume, network, image] = await Promise.all([
    call('compute', `/os-quota-sets/${id}/detail`).then(found => found.quota_set),
    has('volume') ? call('volume', `/os-quota-sets/${id}`, {query: {usage: true}}).then(found => found.quota_set) : {},
    has('network') ? call('network', `/quotas/${id}/details`).then(found => found.quota) : {},
    imageQuotas(id),
  ]);
  /** @type {Record<string, any>} */
  const found = {compute, volume, network, image};
  return QUOTAS.filter(([service, name]) => found[service][name]).map(([service, name, label]) => {
    const {in_use: inUse, used, ...more} = found[service][name];
    return {...more, service, name, label, used: inUse ?? used ?? 0};
  });
}

/** The fields of the form. @param {any[]} found @returns {import('../../parts/form.js').Field[]} */
const limits = found =>
  found.map(one => ({
    name: field(one.service, one.name),
    label: one.label,
    type: 'number',
    min: -1,
    required: true,
    value: one.limit,
    more: one.service !== 'compute',
  }));
const isUnified = (/** @type {any} */ one) => one.service === 'image';
const changed = (/** @type {any} */ row, /** @type {any} */ values) =>
  row.found.filter((/** @type {any} */ one) => Number(values[field(one.service, one.name)]) !== one.limit);

/** @type {import('../../parts/actions.js').Action} */
const setQuota = {
  name: 'quota',
  label: 'Set quota',
  done: 'Quota of {name} set',
  rule: 'os_compute_api:os-quota-sets:update',
  ask: 'The value -1 stands for no limit.',
  perform: async (row, values) => {
    for (const service of /** @type {Service[]} */ (['compute', 'volume', 'network'])) {
      const set = Object.fromEntries(
        changed(row, values)
          .filter((/** @type {any} */ one) => one.service === service)
          .map((/** @type {any} */ one) => [one.name, Number(values[field(service, one.name)])]),
      );
      if (!Object.keys(set).length) continue;
      if (service === 'network') await call('network', `/quotas/${row.id}`, {method: 'PUT', body: {quota: set}});
      else if (service === 'volume') await call('volume', `/os-quota-sets/${row.id}`, {method: 'PUT', body: {quota_set: set}});
      else await call('compute', `/os-quota-sets/${row.id}`, {method: 'PUT', body: {quota_set: set}});
    }
    for (const one of changed(row, values).filter(isUnified)) {
      const limit = {resource_limit: Number(values[field(one.service, one.name)])};
      const {service_id, region_id, resource_name} = one.registered;
      if (one.id) await call('identity', `/limits/${one.id}`, {method: 'PATCH', body: {limit}});
      else {
        const wanted = {...limit, service_id, region_id, resource_name, project_id: row.id};
        await call('identity', '/limits', {method: 'POST', body: {limits: [wanted]}});
      }
    }
  },
  command: (row, values) => {
    const set = changed(row, values);
    const value = (/** @type {any} */ one) => values[field(one.service, one.name)];
    const options = set
      .filter((/** @type {any} */ one) => !isUnified(one))
      .map((/** @type {any} */ one) => [
        QUOTAS.find(([service, name]) => service === one.service && name === one.name)?.[3] ?? '',
        value(one),
      ]);
    const limits = set.filter(isUnified).map((/** @type {any} */ one) =>
      one.id
        ? openstack('limit set', ['--resource-limit', value(one)], one.id)
        : openstack(
            'limit create',
            ['--service', one.registered.service_id],
            ['--region', one.registered.region_id],
            ['--project', row.id],
            ['--resource-limit', value(one)],
            one.name,
          ),
    );
    return [...(options.length || !limits.length ? [openstack('quota set', ...options, row.id)] : []), ...limits].join('\n');
  },
};

/** @type {import('../resources.js').Resource} */
export default {
  service: 'identity',
  path: '/projects',
  key: 'projects',
  one: 'project',
  empty: 'There are no projects.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'id', label: 'Id', value: row => row.id, show: row => html`<span class="mono">${row.id}</span>`},
    {
      name: 'enabled',
      label: 'Enabled',
      value: row => (row.enabled ? 'yes' : 'no'),
      show: row => html`<span><${Badge} state=${row.enabled} /></span>`,
    },
    {name: 'description', label: 'Description', value: row => row.description || '–'},
  ],
  facts: row => [
    ['Id', row.id],
    ['Domain', row.domain_id],
    ['Enabled', row.enabled ? t('yes') : t('no')],
    ['Description', row.description],
  ],
  more: row => quotas(row.id),
  parts: (row, found, _reload, choose) =>
    html`<${Card} title=${t('Quota')} class="span" action=${offered(setQuota) && html`<button type="button" class="small" onClick=${() => choose({...setQuota, form: limits(found)}, {...row, found})}>${t(setQuota.label)}</button>`}><div class="meters">${found.map((/** @type {any} */ one) => html`<${Meter} label=${one.label} used=${one.used} total=${one.limit} show=${number} />`)}</div></${Card}>`,
  create: {
    name: 'make-project',
    label: 'Create project',
    done: 'Project {name} created',
    rule: 'identity:create_project',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'description', label: 'Description'},
    ],
    request: (_row, {name, description}) => ({
      service: 'identity',
      method: 'POST',
      path: '/projects',
      body: {project: {name, description}},
    }),
    terraform: (_row, {name, description}) => terraform('identity_project_v3', name, {name, description}),
    command: (_row, {name, description}) => openstack('project create', ['--description', description], name || 'NAME'),
  },
  actions: [
    {
      name: 'disable',
      label: 'Disable',
      done: 'Project {name} disabled',
      rule: 'identity:update_project',
      when: row => row.enabled,
      danger: true,
      request: row => ({
        service: 'identity',
        method: 'PATCH',
        path: `/projects/${row.id}`,
        body: {project: {enabled: false}},
      }),
      command: row => openstack('project set --disable', row.id),
    },
    {
      name: 'enable',
      label: 'Enable',
      done: 'Project {name} enabled',
      rule: 'identity:update_project',
      when: row => !row.enabled,
      request: row => ({
        service: 'identity',
        method: 'PATCH',
        path: `/projects/${row.id}`,
        body: {project: {enabled: true}},
      }),
      command: row => openstack('project set --enable', row.id),
    },
  ],
};
