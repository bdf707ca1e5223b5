// The resources that have a list: each is one row in a file of its own, loaded when it is first shown.

/**
 * @typedef {{name: string, label: string, none?: string, admin?: boolean, query?: string, options?: {value: string, label: string}[],
 *   sent?: (value: string) => string}} Filter
 * @typedef {import('../parts/actions.js').Action} Action
 * @typedef {import('../parts/table.js').Column} Column
 * @typedef {{service: import('../core/api.js').Service, path: string, key: string, columns: Column[], actions: Action[], empty: string,
 *   query?: Record<string, any> | (() => Record<string, any>), version?: string, paged?: boolean, counted?: boolean, unwrap?: (row: any) => any,
 *   fill?: (rows: any[]) => Promise<any[]>, id?: (row: any) => string, nameOf?: (row: any) => string, create?: Action, note?: string,
 *   sort?: import('../parts/table.js').Sort, search?: (text: string) => Record<string, any>, find?: string, filters?: Filter[],
 *   follow?: boolean, read?: () => Promise<any[]>, show?: (id: string) => Promise<any>, count?: (query: Record<string, any>) => Promise<number | null>,
 *   item?: string, one?: string, facts?: (row: any) => [string, any][], more?: (row: any) => Promise<any>,
 *   parts?: (row: any, more: any, reload: () => void, choose: (action: Action, row: any, name?: string) => void) => any,
 *   board?: (rows: any[], reload: () => void) => any}} Resource
 *
 * service, path, query, version   how the list is asked for; key: where it stands in the answer
 * read, show how the list and one of it are asked for, if not with service and path
 * paged      the API gives pages; else all of it is read at once
 * counted    a page of the API has the number of all rows (with_count)
 * search     the query of the API for a text; without it all rows are read and searched here. find: the label of the field
 * filters    choices above the list, and the key of the query that they set; without options: a check box; sent: the value in the query
 * sort       the order at first; follow: the event stream of servers changes the list; count: the number of rows of a query, null of more than it counts
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
    'backups',
    'buckets',
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
    'ports',
    'projects',
    'qos_policies',
    'routers',
    'security_groups',
    'server_groups',
    'servers',
    'services',
    'snapshots',
    'transfers',
    'users',
    'volumes',
  ].map(name => [name, () => import(`./resources/${name}.js`).then(module => module.default)]),
);
