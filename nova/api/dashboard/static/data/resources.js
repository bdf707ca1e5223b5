// The resources that have a list: each is one row in a file of its own, loaded when it is first shown.

/**
 * @typedef {import('../parts/actions.js').Action} Action
 * @typedef {import('../parts/table.js').Column} Column
 * @typedef {{service: import('../core/api.js').Service, path: string, key: string, columns: Column[], actions: Action[], empty: string,
 *   query?: Record<string, any> | (() => Record<string, any>), version?: string, paged?: boolean, unwrap?: (row: any) => any,
 *   fill?: (rows: any[]) => Promise<any[]>, id?: (row: any) => string, nameOf?: (row: any) => string, create?: Action, note?: string,
 *   item?: string, one?: string, facts?: (row: any) => [string, any][], more?: (row: any) => Promise<any>,
 *   parts?: (row: any, more: any, reload: () => void, choose: (action: Action, row: any) => void) => any,
 *   board?: (rows: any[], reload: () => void) => any}} Resource
 *
 * service, path, query, version   how the list is asked for; key: where it stands in the answer
 * paged      the API gives pages; else all of it is read at once
 * unwrap     what a row of the answer holds its resource in
 * fill       what else is asked about rows that are shown
 * id, nameOf what names a row where that is not id and name
 * board      what stands below the list
 * item, one, facts, more, parts   the detail: its path, its key, what it shows, what else is asked for, further cards
 */

/** @type {Record<string, () => Promise<Resource>>} */
export const RESOURCES = Object.fromEntries(
  [
    'aggregates',
    'audit',
    'categories',
    'cells',
    'credentials',
    'flavors',
    'floating_ips',
    'hypervisors',
    'images',
    'keypairs',
    'migrations',
    'networks',
    'projects',
    'security_groups',
    'server_groups',
    'services',
    'snapshots',
    'users',
    'volumes',
  ].map(name => [name, () => import(`./resources/${name}.js`).then(module => module.default)]),
);
