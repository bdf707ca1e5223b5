// Choices for forms, asked of the APIs.
import {all, call} from './api.js';
import {bytes, mebibytes, t, typeName} from './text.js';

/** @typedef {import('../parts/form.js').Option} Option */

/** @param {any} row @param {string} [note] @returns {Option} */
const option = (row, note) => ({value: row.id, label: row.name || row.id, note});

export const flavors = async () =>
  (await all('compute', '/flavors/detail', 'flavors')).map(row => ({
    ...option(row, `${row.vcpus} vCPU, ${mebibytes(row.ram)}, ${bytes(row.disk * 2 ** 30)}`),
    row,
  }));
export const images = async () =>
  (await all('image', '/images', 'images', {query: {status: 'active', limit: 500, sort: 'name:asc'}})).map(
    row => option(row, row.size ? bytes(row.size) : undefined),
  );
const UNBOOTABLE = ['aki', 'ari']; // kernels and ramdisks
/** Images that a server can start from. */
export const bootImages = async () =>
  (await all('image', '/images', 'images', {query: {status: 'active', limit: 500, sort: 'name:asc'}}))
    .filter(
      (/** @type {any} */ row) =>
        !UNBOOTABLE.includes(row.disk_format) && !row.os_hidden && (row.size || row.block_device_mapping),
    )
    .map((/** @type {any} */ row) => option(row, row.size ? bytes(row.size) : undefined));
/** The same, and the image of a server, which may be hidden by now. @param {string | undefined} own */
export const rebuildImages = own => async () => {
  const found = await bootImages();
  if (!own || found.some(one => one.value === own)) return found;
  const row = await call('image', `/images/${own}`).catch(() => null); // it may be deleted
  return row?.status === 'active' ? [option(row, row.size ? bytes(row.size) : undefined), ...found] : found;
};
export const networks = async () =>
  (await all('network', '/networks', 'networks')).map((/** @type {any} */ row) =>
    option(row, row.shared ? t('shared') : undefined),
  );
/** Networks that give addresses to servers. */
export const serverNetworks = async () =>
  (await all('network', '/networks', 'networks'))
    .filter((/** @type {any} */ row) => row.subnets.length && !row['router:external'])
    .map((/** @type {any} */ row) => option(row, row.shared ? t('shared') : undefined));
export const externalNetworks = async () =>
  (await all('network', '/networks', 'networks', {query: {'router:external': true}})).map((/** @type {any} */ row) =>
    option(row),
  );
export const subnets = async () => {
  const [found, known] = await Promise.all([all('network', '/subnets', 'subnets'), all('network', '/networks', 'networks')]);
  const names = new Map(known.map(row => [row.id, row.name]));
  return found.map((/** @type {any} */ row) =>
    option({id: row.id, name: row.name || row.cidr}, [names.get(row.network_id), row.cidr].filter(Boolean).join(' ')),
  );
};
export const routers = async () =>
  (await all('network', '/routers', 'routers')).map((/** @type {any} */ row) =>
    option(row, row.external_gateway_info ? undefined : t('no gateway')),
  );
export const qosPolicies = async () =>
  (await all('network', '/qos/policies', 'policies')).map((/** @type {any} */ row) => option(row));
/** Ports of servers, by the names of these; the note says which ones no router with a gateway reaches. */
export const ports = async () => {
  const [found, known, servers] = await Promise.all([
    all('network', '/ports', 'ports'),
    all('network', '/routers', 'routers'),
    all('compute', '/servers', 'servers'),
  ]);
  const names = new Map(servers.map(row => [row.id, row.name]));
  const out = new Set(
    known.filter((/** @type {any} */ row) => row.external_gateway_info).map((/** @type {any} */ row) => row.id),
  );
  const reached = new Set(
    found
      .filter((/** @type {any} */ row) => row.device_owner === 'network:router_interface' && out.has(row.device_id))
      .flatMap((/** @type {any} */ row) => row.fixed_ips.map((/** @type {any} */ one) => one.subnet_id)),
  );
  return found
    .filter((/** @type {any} */ row) => row.device_id && !row.device_owner.startsWith('network:'))
    .map((/** @type {any} */ row) => ({
      value: row.id,
      label: `${names.get(row.device_id) ?? row.device_id.slice(0, 8)} ${row.fixed_ips?.[0]?.ip_address ?? ''}`,
      note: row.fixed_ips.some((/** @type {any} */ one) => reached.has(one.subnet_id)) ? undefined : t('no router'),
    }))
    .sort((/** @type {Option} */ one, /** @type {Option} */ other) => Number(!!one.note) - Number(!!other.note));
};
export const keypairs = async () =>
  (await all('compute', '/os-keypairs', 'keypairs')).map((/** @type {any} */ row) => ({
    value: row.keypair.name,
    label: row.keypair.name,
    note: row.keypair.type,
  }));
export const securityGroups = async () =>
  (await all('network', '/security-groups', 'security_groups')).map((/** @type {any} */ row) => ({
    value: row.name,
    label: row.name,
    note: row.description,
  }));
export const zones = async () =>
  (await call('compute', '/os-availability-zone')).availabilityZoneInfo
    .filter((/** @type {any} */ row) => row.zoneState.available && row.zoneName !== 'internal')
    .map((/** @type {any} */ row) => ({value: row.zoneName, label: row.zoneName}));
export const categories = async () =>
  (await call('compute', '/os-instance-categories')).instance_categories
    .filter((/** @type {any} */ row) => row.name !== 'regular')
    .map((/** @type {any} */ row) => ({value: row.name, label: row.name, note: row.description}));
export const serverGroups = async () =>
  (await all('compute', '/os-server-groups', 'server_groups')).map((/** @type {any} */ row) =>
    option(row, row.policy ?? row.policies?.[0]),
  );
export const freeVolumes = async () =>
  (await all('volume', '/volumes/detail', 'volumes', {query: {status: 'available'}})).map((/** @type {any} */ row) =>
    option(row, `${row.size} GiB`),
  );
export const volumes = async () =>
  (await all('volume', '/volumes/detail', 'volumes')).map((/** @type {any} */ row) => option(row, `${row.size} GiB`));
export const snapshots = async () =>
  (await all('volume', '/snapshots', 'snapshots')).map((/** @type {any} */ row) => option(row, `${row.size} GiB`));
export const backups = async () =>
  (await all('volume', '/backups', 'backups')).map((/** @type {any} */ row) => option(row));
export const volumeTypes = async () =>
  (await all('volume', '/types', 'volume_types')).map((/** @type {any} */ row) => ({value: row.name, label: typeName(row.name)}));
/** Servers of all pages that fit a name, an address or an id. @param {any} _values @param {string} [text] */
export const servers = async (_values, text = '') =>
  (await call('compute', '/servers', {query: {limit: 100, ...serverFilter(text.trim())}})).servers.map(
    (/** @type {any} */ row) => option(row, row.id.slice(0, 8)),
  );

/** Servers of all projects that fit a text, and the chosen one. @param {any} values @param {string} [text] */
export const anyServers = async ({server}, text = '') => {
  const [{servers: found}, chosen] = await Promise.all([
    call('compute', '/servers', {query: {all_tenants: 1, limit: 100, ...serverFilter(text.trim())}}),
    server ? call('compute', `/servers/${encodeURIComponent(server)}`).then(one => [one.server], () => []) : [],
  ]);
  return [...chosen, ...found.filter((/** @type {any} */ row) => row.id !== server)].map((/** @type {any} */ row) => option(row, row.id.slice(0, 8)));
};

/** The filter of the API for what was typed. @param {string} text @returns {Record<string, string>} */
export function serverFilter(text) {
  if (!text) return {};
  if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(text)) return {uuid: text};
  if (/^\d+\.[\d.]+$/.test(text)) return {ip: '^' + text.replaceAll('.', '\\.')};
  return {name: text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')};
}
/** Security groups by id. */
export const groups = async () =>
  (await all('network', '/security-groups', 'security_groups')).map((/** @type {any} */ row) => option(row));
export const hosts = async () =>
  (await call('compute', '/os-services', {query: {binary: 'nova-compute'}})).services.map((/** @type {any} */ row) => ({
    value: row.host,
    label: row.host,
    note: `${row.zone}, ${row.state}`,
  }));
export const projects = async () =>
  (await call('identity', '/projects')).projects.map((/** @type {any} */ row) => option(row));
export const roles = async () => (await call('identity', '/roles')).roles.map((/** @type {any} */ row) => option(row));
