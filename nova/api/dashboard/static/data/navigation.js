// The pages: where they are, what they are called, what shows them.

import {hasStore} from '../core/s3.js';

/**
 * @typedef {{path: string, label: string, icon: string, service?: import('../core/api.js').Service, hidden?: boolean,
 *   load: () => Promise<{default: any}>, resource?: string, offered?: () => boolean,
 *   create?: {label: string, rule: string}}} Page
 * create: the action of its button, for the palette
 */

const list = () => import('../pages/list.js');

/** @type {{label: string, admin?: boolean, pages: Page[]}[]} */
export const SECTIONS = [
  {
    label: 'Compute',
    pages: [
      {path: '', label: 'Overview', icon: 'overview', load: () => import('../pages/overview.js')},
      {path: 'servers', label: 'Servers', icon: 'server', load: () => import('../pages/servers.js'), resource: 'servers'},
      {path: 'create', label: 'Create server', icon: 'plus', hidden: true, load: () => import('../pages/create.js')},
      {path: 'server-groups', label: 'Server groups', icon: 'group', load: list, resource: 'server_groups', create: {label: 'Create server group', rule: 'os_compute_api:os-server-groups:create'}},
      {path: 'keypairs', label: 'Key pairs', icon: 'key', load: list, resource: 'keypairs', create: {label: 'Create or import', rule: 'os_compute_api:os-keypairs:create'}},
      {path: 'images', label: 'Images', icon: 'image', service: 'image', load: list, resource: 'images', create: {label: 'Upload image', rule: 'add_image'}},
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
      {path: 'networks', label: 'Networks', icon: 'network', service: 'network', load: list, resource: 'networks', create: {label: 'Create network', rule: 'create_network'}},
      {path: 'routers', label: 'Routers', icon: 'move', service: 'network', load: list, resource: 'routers', create: {label: 'Create router', rule: 'create_router'}},
      {path: 'ports', label: 'Ports', icon: 'network', service: 'network', load: list, resource: 'ports'},
      {
        path: 'security-groups',
        label: 'Security groups',
        icon: 'shield',
        service: 'network',
        load: list,
        resource: 'security_groups', create: {label: 'Create security group', rule: 'create_security_group'},
      },
      {
        path: 'floating-ips',
        label: 'Floating addresses',
        icon: 'tag',
        service: 'network',
        load: list,
        resource: 'floating_ips', create: {label: 'Allocate address', rule: 'create_floatingip'},
      },
      {path: 'qos-policies', label: 'QoS policies', icon: 'usage', service: 'network', load: list, resource: 'qos_policies', create: {label: 'Create QoS policy', rule: 'create_policy'}},
    ],
  },
  {
    label: 'Storage',
    pages: [
      {path: 'volumes', label: 'Volumes', icon: 'volume', service: 'volume', load: list, resource: 'volumes', create: {label: 'Create volume', rule: 'volume:create'}},
      {path: 'snapshots', label: 'Snapshots', icon: 'volume', service: 'volume', load: list, resource: 'snapshots'},
      {path: 'backups', label: 'Backups', icon: 'volume', service: 'volume', load: list, resource: 'backups'},
      {path: 'buckets', label: 'Object store', icon: 'volume', offered: hasStore, load: list, resource: 'buckets'},
      {path: 'transfers', label: 'Volume transfers', icon: 'move', service: 'volume', load: list, resource: 'transfers', create: {label: 'Accept transfer', rule: 'volume:accept_transfer'}},
    ],
  },
  {
    label: 'Project',
    pages: [
      {path: 'account', label: 'Account', icon: 'people', load: () => import('../pages/account.js')},
      {path: 'usage', label: 'Usage', icon: 'usage', load: () => import('../pages/usage.js')},
      {path: 'credentials', label: 'Application credentials', icon: 'key', load: list, resource: 'credentials', create: {label: 'Create application credential', rule: 'identity:create_application_credential'}},
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
      {path: 'aggregates', label: 'Aggregates and zones', icon: 'group', load: list, resource: 'aggregates', create: {label: 'Create aggregate', rule: 'os_compute_api:os-aggregates:create'}},
      {path: 'migrations', label: 'Migrations', icon: 'move', load: list, resource: 'migrations'},
      {path: 'flavors', label: 'Flavors', icon: 'flavor', load: list, resource: 'flavors', create: {label: 'Create flavor', rule: 'os_compute_api:os-flavor-manage:create'}},
      {path: 'categories', label: 'Instance categories', icon: 'tag', load: list, resource: 'categories', create: {label: 'Create category', rule: 'nova:instance-categories:create'}},
      {
        path: 'projects',
        label: 'Projects and quotas',
        icon: 'people',
        service: 'identity',
        load: list,
        resource: 'projects', create: {label: 'Create project', rule: 'identity:create_project'},
      },
      {path: 'users', label: 'Users', icon: 'people', service: 'identity', load: list, resource: 'users', create: {label: 'Create user', rule: 'identity:create_user'}},
    ],
  },
];

/** @type {Page[]} */
export const PAGES = SECTIONS.flatMap(section => section.pages);
