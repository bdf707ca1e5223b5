// Servers as lists show them.
import {html} from '../core/html.js';
import {link} from '../core/router.js';
import {mebibytes, t} from '../core/text.js';
import {Badge, Ago} from '../parts/basics.js';
import {Named} from '../parts/named.js';
import {project} from './common.js';

/** What a list can be narrowed to. */
export const STATUSES = [
  'ACTIVE',
  'BUILD',
  'ERROR',
  'SHUTOFF',
  'PAUSED',
  'SUSPENDED',
  'RESCUE',
  'RESIZE',
  'VERIFY_RESIZE',
  'REBOOT',
  'REBUILD',
  'MIGRATING',
  'SHELVED',
  'SHELVED_OFFLOADED',
  'SOFT_DELETED',
];

/** The addresses of a server. @param {any} server @returns {string[]} */
export const addresses = server =>
  Object.values(server.addresses ?? {})
    .flat()
    .map((/** @type {any} */ one) => one.addr);

/** @type {import('../parts/table.js').Column[]} */
export const SERVER_COLUMNS = [
  {
    name: 'name',
    label: 'Name',
    sort: 'display_name',
    value: server => server.name,
    show: server =>
      html`<a href=${link('servers', server.id)}>${server.name}</a>${server.locked && html` <span class="chip">locked</span>`}`,
  },
  {
    name: 'status',
    label: 'Status',
    sort: 'vm_state',
    value: server => server.status,
    show: server => html`<span><${Badge} state=${server.status} task=${server['OS-EXT-STS:task_state']} /></span>`,
  },
  {
    name: 'addresses',
    label: 'Addresses',
    value: server => addresses(server).join(', '),
    show: server => html`<span class="mono">${addresses(server).join(', ') || '–'}</span>`,
  },
  {
    name: 'flavor',
    label: 'Flavor',
    value: server => server.flavor?.original_name,
    show: server =>
      html`<span title=${`${server.flavor?.vcpus} vCPU, ${mebibytes(server.flavor?.ram)}`}>${server.flavor?.original_name ?? '–'}</span>`,
  },
  project('tenant_id'),
  {name: 'zone', label: 'Zone', value: server => server['OS-EXT-AZ:availability_zone'] || '–'},
  {name: 'host', label: 'Host', sort: 'host', admin: true, value: server => server['OS-EXT-SRV-ATTR:host'] || '–'},
  {
    name: 'created',
    label: 'Created',
    sort: 'created_at',
    value: server => server.created,
    show: server => html`<${Ago} at=${server.created} />`,
  },
];

/** What a server is made from. @param {any} server */
export const source = server =>
  server.image?.id ? html`<${Named} kind="image" id=${server.image.id} />` : t('volume');
