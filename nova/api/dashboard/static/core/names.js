// Names of things that other documents name by id only.
import {all, call, has} from './api.js';

const LISTED = 1000;

/**
 * @typedef {{service: import('./api.js').Service, path: string, key: string, one?: string, page?: string, item?: string, admin?: boolean}} Kind
 * page: where its detail is shown; admin: to administrators alone
 */
/** @type {Record<string, Kind>} */
export const KINDS = {
  server: {service: 'compute', path: '/servers', key: 'servers', one: 'server', page: 'servers'},
  'server-group': {service: 'compute', path: '/os-server-groups', key: 'server_groups', one: 'server_group', page: 'server-groups'},
  network: {service: 'network', path: '/networks', key: 'networks', one: 'network', page: 'networks'},
  subnet: {service: 'network', path: '/subnets', key: 'subnets', one: 'subnet'},
  port: {service: 'network', path: '/ports', key: 'ports', one: 'port', page: 'ports'},
  router: {service: 'network', path: '/routers', key: 'routers', one: 'router', page: 'routers'},
  group: {service: 'network', path: '/security-groups', key: 'security_groups', one: 'security_group', page: 'security-groups'},
  qos: {service: 'network', path: '/qos/policies', key: 'policies', one: 'policy', page: 'qos-policies'},
  image: {service: 'image', path: '/images', key: 'images', page: 'images'},
  volume: {service: 'volume', path: '/volumes', key: 'volumes', one: 'volume', page: 'volumes'},
  snapshot: {service: 'volume', path: '/snapshots', key: 'snapshots', one: 'snapshot'},
  project: {service: 'identity', path: '/projects', key: 'projects', one: 'project', page: 'projects', admin: true},
  user: {service: 'identity', path: '/users', key: 'users', one: 'user'},
};

/** What a document of a kind is called. @param {any} row */
const said = row => row.name || row.cidr || row.fixed_ips?.[0]?.ip_address || '';

/** {kind: {id: name}} @type {Record<string, Promise<Map<string, string>>>} */
let lists = {};
/** @type {Map<string, Promise<string>>} */
const single = new Map();

/** Forget all names, which another login may not see. */
export function forgetNames() {
  lists = {};
  single.clear();
}

/** @param {Kind} kind */
const read = kind =>
  all(kind.service, kind.path, kind.key, {query: {limit: LISTED}, most: LISTED}).then(
    rows => new Map(rows.map(row => [row.id, said(row)])),
    () => new Map(),
  );

/**
 * The name of a thing; '' if the caller may not read it or it has none.
 * @param {string} name  of the kind @param {string} id
 */
export async function nameOf(name, id) {
  const kind = KINDS[name];
  if (!has(kind.service)) return '';
  const known = await (lists[name] ??= read(kind));
  if (known.has(id)) return known.get(id) ?? '';
  const key = `${name} ${id}`;
  if (!single.has(key))
    single.set(
      key,
      call(kind.service, `${kind.path}/${encodeURIComponent(id)}`).then(
        found => said(kind.one ? found[kind.one] : found),
        () => '',
      ),
    );
  return /** @type {Promise<string>} */ (single.get(key));
}
