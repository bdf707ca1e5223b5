// The pages: where they are, what they are called, what shows them.

/**
 * @typedef {{path: string, label: string, icon: string, service?: import('../core/api.js').Service, hidden?: boolean,
 *   load: () => Promise<{default: any}>, resource?: string}} Page
 */

const list = () => import('../pages/list.js');

/** @type {{label: string, admin?: boolean, pages: Page[]}[]} */
export const SECTIONS = [
  {
    label: 'Compute',
    pages: [
      {path: '', label: 'Overview', icon: 'overview', load: () => import('../pages/overview.js')},
      {path: 'servers', label: 'Servers', icon: 'server', load: () => import('../pages/servers.js')},
      {path: 'create', label: 'Create a server', icon: 'plus', hidden: true, load: () => import('../pages/create.js')},
      {path: 'server-groups', label: 'Server groups', icon: 'group', load: list, resource: 'server_groups'},
      {path: 'keypairs', label: 'Key pairs', icon: 'key', load: list, resource: 'keypairs'},
      {path: 'images', label: 'Images', icon: 'image', service: 'image', load: list, resource: 'images'},
    ],
  },
  {
    label: 'Network',
    pages: [
      {
        path: 'topology',
        label: 'Topology',
        icon: 'network',
        service: 'network',
        load: () => import('../pages/topology.js'),
      },
      {path: 'networks', label: 'Networks', icon: 'network', service: 'network', load: list, resource: 'networks'},
      {
        path: 'security-groups',
        label: 'Security groups',
        icon: 'shield',
        service: 'network',
        load: list,
        resource: 'security_groups',
      },
      {
        path: 'floating-ips',
        label: 'Floating addresses',
        icon: 'tag',
        service: 'network',
        load: list,
        resource: 'floating_ips',
      },
    ],
  },
  {
    label: 'Storage',
    pages: [
      {path: 'volumes', label: 'Volumes', icon: 'volume', service: 'volume', load: list, resource: 'volumes'},
      {path: 'snapshots', label: 'Snapshots', icon: 'volume', service: 'volume', load: list, resource: 'snapshots'},
    ],
  },
  {
    label: 'Project',
    pages: [
      {path: 'usage', label: 'Usage', icon: 'usage', load: () => import('../pages/usage.js')},
      {path: 'credentials', label: 'Application credentials', icon: 'key', load: list, resource: 'credentials'},
      {path: 'audit', label: 'Audit', icon: 'audit', load: list, resource: 'audit'},
    ],
  },
  {
    label: 'Administration',
    admin: true,
    pages: [
      {path: 'hosts', label: 'Hosts', icon: 'hosts', load: () => import('../pages/hosts.js')},
      {path: 'explain', label: 'Why no host?', icon: 'question', load: () => import('../pages/explain.js')},
      {path: 'services', label: 'Services', icon: 'heart', load: list, resource: 'services'},
      {path: 'hypervisors', label: 'Hypervisors', icon: 'hosts', load: list, resource: 'hypervisors'},
      {path: 'metrics', label: 'Metrics', icon: 'usage', load: () => import('../pages/metrics.js')},
      {path: 'cells', label: 'Cells', icon: 'hosts', load: list, resource: 'cells'},
      {path: 'aggregates', label: 'Aggregates and zones', icon: 'group', load: list, resource: 'aggregates'},
      {path: 'migrations', label: 'Migrations', icon: 'move', load: list, resource: 'migrations'},
      {path: 'flavors', label: 'Flavors', icon: 'flavor', load: list, resource: 'flavors'},
      {path: 'categories', label: 'Instance categories', icon: 'tag', load: list, resource: 'categories'},
      {
        path: 'projects',
        label: 'Projects and quotas',
        icon: 'people',
        service: 'identity',
        load: list,
        resource: 'projects',
      },
      {path: 'users', label: 'Users', icon: 'people', service: 'identity', load: list, resource: 'users'},
    ],
  },
];

/** @type {Page[]} */
export const PAGES = SECTIONS.flatMap(section => section.pages);
