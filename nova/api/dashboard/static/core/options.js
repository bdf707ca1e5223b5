// Choices for forms, asked of the APIs.
import {all, call} from './api.js';
import {mebibytes, bytes} from './text.js';

/** @typedef {import('../parts/form.js').Option} Option */

/** @param {any} row @param {string} [note] @returns {Option} */
const option = (row, note) => ({value: row.id, label: row.name || row.id, note});

export const flavors = async () =>
  (await all('compute', '/flavors/detail', 'flavors')).map(row => ({
    ...option(row, `${row.vcpus} vCPU, ${mebibytes(row.ram)}, ${bytes(row.disk * 2 ** 30)}`),
    row,
  }));
export const images = async () =>
  (await call('image', '/images', {query: {status: 'active', limit: 500, sort: 'name:asc'}})).images.map(
    (/** @type {any} */ row) => option(row, row.size ? bytes(row.size) : undefined),
  );
export const networks = async () =>
  (await call('network', '/networks')).networks.map((/** @type {any} */ row) =>
    option(row, row.shared ? 'shared' : undefined),
  );
export const subnets = async () =>
  (await call('network', '/subnets')).subnets.map((/** @type {any} */ row) =>
    option({id: row.id, name: row.name || row.cidr}, row.cidr),
  );
export const ports = async () =>
  (await call('network', '/ports')).ports
    .filter((/** @type {any} */ row) => row.device_id)
    .map((/** @type {any} */ row) =>
      option({id: row.id, name: row.name || row.fixed_ips?.[0]?.ip_address}, row.id.slice(0, 8)),
    );
export const keypairs = async () =>
  (await call('compute', '/os-keypairs')).keypairs.map((/** @type {any} */ row) => ({
    value: row.keypair.name,
    label: row.keypair.name,
    note: row.keypair.type,
  }));
export const securityGroups = async () =>
  (await call('network', '/security-groups')).security_groups.map((/** @type {any} */ row) => ({
    value: row.name,
    label: row.name,
    note: row.description,
  }));
export const zones = async () =>
  (await call('compute', '/os-availability-zone')).availabilityZoneInfo
    .filter((/** @type {any} */ row) => row.zoneState.available && row.zoneName !== 'internal')
    .map((/** @type {any} */ row) => ({value: row.zoneName, label: row.zoneName}));
export const serverGroups = async () =>
  (await call('compute', '/os-server-groups')).server_groups.map((/** @type {any} */ row) =>
    option(row, row.policy ?? row.policies?.[0]),
  );
export const freeVolumes = async () =>
  (await call('volume', '/volumes/detail', {query: {status: 'available'}})).volumes.map((/** @type {any} */ row) =>
    option(row, `${row.size} GiB`),
  );
export const volumes = async () =>
  (await call('volume', '/volumes/detail')).volumes.map((/** @type {any} */ row) => option(row, `${row.size} GiB`));
export const snapshots = async () =>
  (await call('volume', '/snapshots')).snapshots.map((/** @type {any} */ row) => option(row, `${row.size} GiB`));
export const volumeTypes = async () =>
  (await call('volume', '/types')).volume_types.map((/** @type {any} */ row) => ({value: row.name, label: row.name}));
export const servers = async () =>
  (await call('compute', '/servers', {query: {limit: 500}})).servers.map((/** @type {any} */ row) => option(row));
export const hosts = async () =>
  (await call('compute', '/os-services', {query: {binary: 'nova-compute'}})).services.map((/** @type {any} */ row) => ({
    value: row.host,
    label: row.host,
    note: `${row.zone}, ${row.state}`,
  }));
export const projects = async () =>
  (await call('identity', '/projects')).projects.map((/** @type {any} */ row) => option(row));
export const roles = async () => (await call('identity', '/roles')).roles.map((/** @type {any} */ row) => option(row));
