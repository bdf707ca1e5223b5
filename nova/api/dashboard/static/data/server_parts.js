// What hangs on a server, one row a kind: how it is read, shown, added and taken away.
import {html} from '../core/html.js';
import {call} from '../core/api.js';
import {openstack} from '../core/command.js';
import * as options from '../core/options.js';
import {link} from '../core/router.js';
import {Badge} from '../parts/basics.js';
import {Named} from '../parts/named.js';

/**
 * @typedef {{name: string, title: string, service?: import('../core/api.js').Service, read: (server: any, signal: AbortSignal) => Promise<any[]>,
 *   id: (row: any) => string, columns: import('../parts/table.js').Column[], actions: import('../parts/actions.js').Action[], add?: import('../parts/actions.js').Action}} Part
 */

/** @type {Part[]} */
export const PARTS = [
  {
    name: 'interfaces',
    title: 'Interfaces',
    id: row => row.port_id,
    read: async (server, signal) =>
      (await call('compute', `/servers/${server.id}/os-interface`, {signal})).interfaceAttachments.map(
        (/** @type {any} */ row) => ({...row, server: server.id}),
      ),
    columns: [
      {
        name: 'address',
        label: 'Addresses',
        value: row => row.fixed_ips?.map((/** @type {any} */ one) => one.ip_address).join(', ') || '–',
      },
      {name: 'mac', label: 'MAC address', value: row => row.mac_addr},
      {
        name: 'network',
        label: 'Network',
        value: row => row.net_id,
        show: row => html`<${Named} kind="network" id=${row.net_id} />`,
      },
      {
        name: 'port',
        label: 'Port',
        value: row => row.port_id,
        show: row => html`<${Named} kind="port" id=${row.port_id} />`,
      },
      {
        name: 'state',
        label: 'State',
        value: row => row.port_state,
        show: row => html`<${Badge} state=${row.port_state} />`,
      },
    ],
    add: {
      name: 'attach-interface',
      label: 'Attach interface',
      done: 'Interface attached to {name}',
      rule: 'os_compute_api:os-attach-interfaces:create',
      form: [{name: 'net_id', label: 'Network', type: 'select', required: true, options: options.serverNetworks}],
      request: (server, values) => ({
        method: 'POST',
        path: `/servers/${server.id}/os-interface`,
        body: {interfaceAttachment: values},
      }),
      command: (server, {net_id: network}) => openstack('server add network', server.id, network),
    },
    actions: [
      {
        name: 'detach-interface',
        label: 'Detach',
        done: 'Interface detached',
        rule: 'os_compute_api:os-attach-interfaces:delete',
        danger: true,
        ask: 'The guest loses this interface and its address.',
        request: row => ({method: 'DELETE', path: `/servers/${row.server}/os-interface/${row.port_id}`}),
        command: row => openstack('server remove port', row.server, row.port_id),
      },
    ],
  },
  {
    name: 'volumes',
    title: 'Volumes',
    service: 'volume',
    id: row => row.volumeId,
    read: async (server, signal) =>
      (await call('compute', `/servers/${server.id}/os-volume_attachments`, {signal})).volumeAttachments,
    columns: [
      {
        name: 'volume',
        label: 'Volume',
        value: row => row.volumeId,
        show: row => html`<${Named} kind="volume" id=${row.volumeId} />`,
      },
      {name: 'device', label: 'Device', value: row => row.device},
      {name: 'tag', label: 'Tag', value: row => row.tag},
      {
        name: 'end',
        label: 'Deleted with the server',
        value: row => row.delete_on_termination,
        show: row => html`<${Badge} state=${row.delete_on_termination} />`,
      },
    ],
    add: {
      name: 'attach-volume',
      label: 'Attach volume',
      done: 'Volume attached to {name}',
      rule: 'os_compute_api:os-volumes-attachments:create',
      form: [
        {name: 'volumeId', label: 'Volume', type: 'select', required: true, options: options.freeVolumes},
        {name: 'delete_on_termination', label: 'Delete it with the server', type: 'check'},
      ],
      request: (server, values) => ({
        method: 'POST',
        path: `/servers/${server.id}/os-volume_attachments`,
        body: {volumeAttachment: values},
      }),
      command: (server, values) =>
        openstack(
          'server add volume',
          values.delete_on_termination && '--enable-delete-on-termination',
          server.id,
          values.volumeId,
        ),
    },
    actions: [
      {
        name: 'detach-volume',
        label: 'Detach',
        done: 'Volume detached',
        rule: 'os_compute_api:os-volumes-attachments:delete',
        danger: true,
        ask: 'Unmount it in the guest first.',
        request: row => ({method: 'DELETE', path: `/servers/${row.serverId}/os-volume_attachments/${row.volumeId}`}),
        command: row => openstack('server remove volume', row.serverId, row.volumeId),
      },
    ],
  },
  {
    name: 'metadata',
    title: 'Metadata',
    id: row => row.key,
    read: async (server, signal) =>
      Object.entries((await call('compute', `/servers/${server.id}/metadata`, {signal})).metadata).map(
        ([key, value]) => ({server: server.id, key, value}),
      ),
    columns: [
      {name: 'key', label: 'Key', value: row => row.key},
      {name: 'value', label: 'Value', value: row => row.value},
    ],
    add: {
      name: 'add-metadata',
      label: 'Add metadata',
      done: 'Metadata of {name} set',
      rule: 'os_compute_api:server-metadata:create',
      form: [
        {name: 'key', label: 'Key', required: true},
        {name: 'value', label: 'Value', required: true},
      ],
      request: (server, {key, value}) => ({
        method: 'POST',
        path: `/servers/${server.id}/metadata`,
        body: {metadata: {[key]: value}},
      }),
      command: (server, {key, value}) => openstack('server set', ['--property', `${key}=${value}`], server.id),
    },
    actions: [
      {
        name: 'change-metadata',
        label: 'Edit',
        done: 'Metadata changed',
        rule: 'os_compute_api:server-metadata:update',
        form: row => [{name: 'value', label: 'Value', required: true, value: row.value}],
        request: (row, {value}) => ({
          method: 'PUT',
          path: `/servers/${row.server}/metadata/${encodeURIComponent(row.key)}`,
          body: {meta: {[row.key]: value}},
        }),
        command: (row, {value}) => openstack('server set', ['--property', `${row.key}=${value}`], row.server),
      },
      {
        name: 'remove-metadata',
        label: 'Remove',
        done: 'Metadata removed',
        rule: 'os_compute_api:server-metadata:delete',
        danger: true,
        request: row => ({method: 'DELETE', path: `/servers/${row.server}/metadata/${encodeURIComponent(row.key)}`}),
        command: row => openstack('server unset', ['--property', row.key], row.server),
      },
    ],
  },
  {
    name: 'tags',
    title: 'Tags',
    id: row => row.key,
    read: async (server, signal) =>
      (await call('compute', `/servers/${server.id}/tags`, {signal})).tags.map((/** @type {string} */ key) => ({
        server: server.id,
        key,
      })),
    columns: [{name: 'tag', label: 'Tag', value: row => row.key}],
    add: {
      name: 'add-tag',
      label: 'Add tag',
      done: 'Tag added to {name}',
      rule: 'os_compute_api:os-server-tags:update',
      form: [{name: 'tag', label: 'Tag', required: true}],
      request: (server, {tag}) => ({method: 'PUT', path: `/servers/${server.id}/tags/${encodeURIComponent(tag)}`}),
      command: (server, {tag}) => openstack('server set', ['--tag', tag], server.id),
    },
    actions: [
      {
        name: 'remove-tag',
        label: 'Remove',
        done: 'Tag removed',
        rule: 'os_compute_api:os-server-tags:delete',
        danger: true,
        request: row => ({method: 'DELETE', path: `/servers/${row.server}/tags/${encodeURIComponent(row.key)}`}),
        command: row => openstack('server unset', ['--tag', row.key], row.server),
      },
    ],
  },
  {
    name: 'security',
    title: 'Security groups',
    id: row => row.key,
    read: async (server, signal) =>
      (await call('compute', `/servers/${server.id}/os-security-groups`, {signal})).security_groups.map(
        (/** @type {any} */ row) => ({server: server.id, key: row.name, description: row.description, id: row.id}),
      ),
    columns: [
      {
        name: 'name',
        label: 'Name',
        value: row => row.key,
        show: row => html`<a href=${link('security-groups', row.id)}>${row.key}</a>`,
      },
      {name: 'description', label: 'Description', value: row => row.description},
    ],
    add: {
      name: 'add-group',
      label: 'Add security group',
      done: 'Security group added to {name}',
      rule: 'os_compute_api:os-security-groups:add',
      form: [{name: 'name', label: 'Security group', type: 'select', required: true, options: options.securityGroups}],
      request: (server, {name}) => ({
        method: 'POST',
        path: `/servers/${server.id}/action`,
        body: {addSecurityGroup: {name}},
      }),
      command: (server, {name}) => openstack('server add security group', server.id, name),
    },
    actions: [
      {
        name: 'remove-group',
        label: 'Remove',
        done: 'Security group removed',
        rule: 'os_compute_api:os-security-groups:remove',
        danger: true,
        request: row => ({
          method: 'POST',
          path: `/servers/${row.server}/action`,
          body: {removeSecurityGroup: {name: row.key}},
        }),
        command: row => openstack('server remove security group', row.server, row.key),
      },
    ],
  },
];
