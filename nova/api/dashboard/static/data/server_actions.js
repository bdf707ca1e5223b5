// The actions on servers, one row an action. Which states allow it is said by nova/actions.py alone: action_states.js is made of it.
import {call} from '../core/api.js';
import {openstack} from '../core/command.js';
import * as options from '../core/options.js';
import {isAdmin, reached} from '../core/session.js';
import {t} from '../core/text.js';
import {STATES} from './action_states.js';

/**
 * @typedef {import('../parts/actions.js').Action & {action: string, body?: (values: any, row: any) => any}} ServerAction
 * action  its row in nova/actions.py @see action_states.js
 * body    what is sent to POST /servers/{id}/action
 */

/** Whether the state of a server allows an action. @param {string} action @param {any} server */
export function mayDo(action, server) {
  const row = STATES[action];
  const vm = server['OS-EXT-STS:vm_state'],
    task = server['OS-EXT-STS:task_state'];
  return (
    (!row.vm_states || row.vm_states.includes(vm)) &&
    (!row.task_states || row.task_states.includes(task)) &&
    (!row.locked || !server.locked || isAdmin())
  );
}

/** Consoles of a server: what a user chooses, and the protocol of it. */
export const CONSOLES = [
  {value: 'novnc', label: 'Screen (VNC)', protocol: 'vnc'},
  {value: 'spice-html5', label: 'Screen (SPICE)', protocol: 'spice'},
  {value: 'serial', label: 'Serial line', protocol: 'serial'},
];
/** Whether the guest of a server runs, and the API serves its consoles. @param {any} server */
export const hasConsole = server =>
  ['active', 'paused', 'rescued', 'resized', 'error'].includes(server['OS-EXT-STS:vm_state']) &&
  !['deleting', 'migrating'].includes(server['OS-EXT-STS:task_state']);
/** The request for the address of a console. @param {any} server @param {string} type */
export const consoleRequest = (server, type) => ({
  method: 'POST',
  path: `/servers/${id(server)}/remote-consoles`,
  body: {remote_console: {type, protocol: CONSOLES.find(one => one.value === type)?.protocol}},
});
/** The page of a console. @param {any} answer */
export const consolePage = answer => reached(answer.remote_console.url.replace(/^ws/, 'http')); // a serial console's is that of its WebSocket

/** @param {any} server */
const id = server => server.id;
/** @param {string} words @returns {(server: any) => string} */
const said = words => server => openstack('server', words, id(server));

/** @type {ServerAction[]} */
const ROWS = [
  {
    name: 'start',
    action: 'os-start',
    label: 'Start',
    done: '{name} is starting',
    bulk: true,
    main: true,
    body: () => ({'os-start': null}),
    command: said('start'),
  },
  {
    name: 'stop',
    action: 'os-stop',
    label: 'Stop',
    done: '{name} is stopping',
    bulk: true,
    main: true,
    body: () => ({'os-stop': null}),
    command: said('stop'),
    ask: 'The guest is asked to shut down, and switched off when it does not.',
  },
  {
    name: 'reboot',
    action: 'reboot',
    label: 'Reboot',
    done: '{name} is rebooting',
    bulk: true,
    main: true,
    body: () => ({reboot: {type: 'SOFT'}}),
    command: said('reboot'),
  },
  {
    name: 'reboot-hard',
    action: 'reboot-hard',
    label: 'Hard reboot',
    done: '{name} is rebooting',
    bulk: true,
    ask: 'The server is powered off and on again without a shutdown of the guest.',
    body: () => ({reboot: {type: 'HARD'}}),
    command: said('reboot --hard'),
  },
  {
    name: 'console',
    action: 'os-getConsoleOutput',
    label: 'Open console',
    done: 'Console of {name} opened',
    rule: 'os_compute_api:os-remote-consoles',
    main: true,
    when: hasConsole,
    form: [
      {
        name: 'type',
        label: 'Console',
        type: 'select',
        required: true,
        value: 'novnc',
        options: CONSOLES,
      },
    ],
    request: (server, {type}) => consoleRequest(server, type),
    open: consolePage,
    command: (server, {type}) =>
      openstack(
        'console url show',
        type === 'serial' ? '--serial' : type === 'novnc' ? '--novnc' : '--spice',
        id(server),
      ),
  },
  {name: 'pause', action: 'pause', label: 'Pause', done: '{name} is being paused', bulk: true, body: () => ({pause: null}), command: said('pause')},
  {
    name: 'unpause',
    action: 'unpause',
    label: 'Unpause',
    done: '{name} is being unpaused',
    bulk: true,
    main: true,
    body: () => ({unpause: null}),
    command: said('unpause'),
  },
  {
    name: 'suspend',
    action: 'suspend',
    label: 'Suspend',
    done: '{name} is being suspended',
    bulk: true,
    body: () => ({suspend: null}),
    command: said('suspend'),
  },
  {
    name: 'resume',
    action: 'resume',
    label: 'Resume',
    done: '{name} is resuming',
    bulk: true,
    main: true,
    body: () => ({resume: null}),
    command: said('resume'),
  },
  {
    name: 'confirm-resize',
    action: 'confirmResize',
    label: 'Confirm resize',
    done: 'Resize of {name} confirmed',
    bulk: true,
    main: true,
    body: () => ({confirmResize: null}),
    command: said('resize confirm'),
  },
  {
    name: 'revert-resize',
    action: 'revertResize',
    label: 'Revert resize',
    done: 'Resize of {name} is being reverted',
    bulk: true,
    main: true,
    body: () => ({revertResize: null}),
    command: said('resize revert'),
  },
  {
    name: 'resize',
    action: 'resize',
    label: 'Resize',
    done: '{name} is being resized',
    form: server => [
      {
        name: 'flavorRef',
        label: 'Flavor',
        type: 'select',
        required: true,
        options: async () => (await options.flavors()).filter(one => one.label !== server.flavor?.original_name),
      },
    ],
    body: ({flavorRef}) => ({resize: {flavorRef}}),
    command: (server, {flavorRef}) => openstack('server resize', ['--flavor', flavorRef], id(server)),
  },
  {
    name: 'rebuild',
    action: 'rebuild',
    label: 'Rebuild',
    done: '{name} is being rebuilt',
    danger: true,
    ask: 'The data on the root disk is lost.',
    form: server => [
      {
        name: 'imageRef',
        label: 'Image',
        type: 'select',
        required: true,
        options: options.rebuildImages(server.image?.id),
        value: server.image?.id,
      },
    ],
    body: ({imageRef}) => ({rebuild: {imageRef}}),
    command: (server, {imageRef}) => openstack('server rebuild', ['--image', imageRef], id(server)),
  },
  {
    name: 'snapshot',
    action: 'createImage',
    label: 'Create image',
    done: 'Image of {name} is being created',
    form: server => [{name: 'name', label: 'Name of the image', required: true, value: `${server.name}-image`}],
    body: ({name}) => ({createImage: {name}}),
    command: (server, {name}) => openstack('server image create', ['--name', name], id(server)),
  },
  {
    name: 'backup',
    action: 'createBackup',
    label: 'Back up',
    done: 'Backup of {name} is being created',
    form: server => [
      {name: 'name', label: 'Name of the image', required: true, value: `${server.name}-backup`},
      {name: 'backup_type', label: 'Type', required: true, value: 'daily', help: 'A new backup replaces the oldest one of its type.'},
      {name: 'rotation', label: 'Backups to keep', type: 'number', required: true, min: 0, value: 7},
    ],
    body: values => ({createBackup: {...values, rotation: Number(values.rotation)}}),
    command: (server, values) =>
      openstack(
        'server backup create',
        ['--name', values.name],
        ['--type', values.backup_type],
        ['--rotate', values.rotation],
        id(server),
      ),
  },
  {
    name: 'rescue',
    action: 'rescue',
    label: 'Rescue',
    done: '{name} is being rescued',
    body: () => ({rescue: {}}),
    command: said('rescue'),
    ask: 'The server is started from a rescue image; its own disk is beside it.',
    secret: answer => (answer?.adminPass ? {label: t('Password of the rescue system:'), text: answer.adminPass} : null),
  },
  {
    name: 'unrescue',
    action: 'unrescue',
    label: 'Unrescue',
    done: '{name} is being unrescued',
    main: true,
    body: () => ({unrescue: null}),
    command: said('unrescue'),
  },
  {
    name: 'shelve',
    action: 'shelve',
    label: 'Shelve',
    done: '{name} is being shelved',
    bulk: true,
    body: () => ({shelve: null}),
    command: said('shelve'),
    ask: 'The server is stored as an image and releases its resources on the host.',
  },
  {
    name: 'shelve-offload',
    action: 'shelveOffload',
    label: 'Offload',
    done: '{name} is being offloaded',
    bulk: true,
    body: () => ({shelveOffload: null}),
    command: said('shelve --offload'),
  },
  {
    name: 'unshelve',
    action: 'unshelve',
    label: 'Unshelve',
    done: '{name} is being unshelved',
    bulk: true,
    main: true,
    body: () => ({unshelve: null}),
    command: said('unshelve'),
  },
  {
    name: 'password',
    action: 'changePassword',
    label: 'Set password',
    done: 'Password of {name} set',
    form: [{name: 'adminPass', label: 'New password', type: 'password', required: true}],
    body: ({adminPass}) => ({changePassword: {adminPass}}),
    command: server => openstack('server set --password', "'…'", id(server)),
  },
  {
    name: 'crash-dump',
    action: 'trigger_crash_dump',
    label: 'Trigger crash dump',
    done: 'Crash dump of {name} triggered',
    body: () => ({trigger_crash_dump: null}),
    command: said('dump create'),
  },
  {
    name: 'lock',
    action: 'lock',
    label: 'Lock',
    done: '{name} locked',
    bulk: true,
    when: server => !server.locked,
    form: [{name: 'reason', label: 'Reason'}],
    body: ({reason}) => ({lock: reason ? {locked_reason: reason} : null}),
    command: (server, {reason}) => openstack('server lock', ['--reason', reason], id(server)),
  },
  {
    name: 'unlock',
    action: 'unlock',
    label: 'Unlock',
    done: '{name} unlocked',
    bulk: true,
    main: true,
    when: server => server.locked,
    body: () => ({unlock: null}),
    command: said('unlock'),
  },
  {
    name: 'restore',
    action: 'restore',
    label: 'Restore',
    done: '{name} is being restored',
    bulk: true,
    main: true,
    body: () => ({restore: null}),
    command: said('restore'),
  },
  {
    name: 'migrate',
    action: 'migrate',
    label: 'Migrate',
    done: '{name} is migrating',
    form: [{name: 'host', label: 'Host', type: 'select', options: options.hosts, none: 'any'}],
    body: ({host}) => ({migrate: host ? {host} : null}),
    command: (server, {host}) => openstack('server migrate', ['--host', host], id(server)),
  },
  {
    name: 'live-migrate',
    action: 'os-migrateLive',
    label: 'Live migrate',
    done: '{name} is migrating',
    form: [{name: 'host', label: 'Host', type: 'select', options: options.hosts, none: 'any'}],
    body: ({host}) => ({'os-migrateLive': {host: host || null, block_migration: 'auto'}}),
    command: (server, {host}) => openstack('server migrate --live-migration', ['--host', host], id(server)),
  },
  {
    name: 'evacuate',
    action: 'evacuate',
    label: 'Evacuate',
    done: '{name} is being evacuated',
    ask: 'The server is rebuilt on another host. Its current host must be down.',
    form: [{name: 'host', label: 'Host', type: 'select', options: options.hosts, none: 'any'}],
    body: ({host}) => ({evacuate: host ? {host} : {}}),
    command: (server, {host}) => openstack('server evacuate', ['--host', host], id(server)),
  },
  {
    name: 'reset-state',
    action: 'os-resetState',
    label: 'Reset state',
    done: 'State of {name} reset',
    bulk: true,
    form: [
      {
        name: 'state',
        label: 'State',
        type: 'select',
        required: true,
        value: 'active',
        options: [
          {value: 'active', label: 'active'},
          {value: 'error', label: 'error'},
        ],
      },
    ],
    body: ({state}) => ({'os-resetState': {state}}),
    command: (server, {state}) => openstack('server set', ['--state', state], id(server)),
  },
  {
    name: 'inject-network',
    action: 'injectNetworkInfo',
    label: 'Inject network',
    done: 'Network of {name} injected',
    body: () => ({injectNetworkInfo: null}),
    command: server => `# no command: POST /servers/${id(server)}/action {"injectNetworkInfo": null}`,
  },
  {
    name: 'delete',
    action: 'delete',
    label: 'Delete',
    done: '{name} is being deleted',
    danger: true,
    bulk: true,
    when: server => server.status !== 'SOFT_DELETED',
    request: server => ({method: 'DELETE', path: `/servers/${id(server)}`}),
    command: said('delete'),
    ask: 'The server and its local disks are deleted permanently.',
  },
  {
    name: 'force-delete',
    action: 'forceDelete',
    label: 'Force delete',
    done: '{name} is being deleted',
    danger: true,
    bulk: true,
    when: server => server.status === 'SOFT_DELETED',
    body: () => ({forceDelete: null}),
    command: said('delete --force'),
    ask: 'The server and its local disks are deleted permanently.',
  },
];

/** Many servers in one request (POST /servers/action). @param {ServerAction} row */
const many = row => async (/** @type {any[]} */ servers, /** @type {any} */ values) => {
  const action = row.body ? row.body(values, servers[0]) : {delete: null};
  const answer = await call('compute', '/servers/action', {
    method: 'POST',
    body: {'os-bulk-action': {action, ids: servers.map(id)}},
    forever: true, // the API ends it after a minute, and says what is done
  });
  return answer['os-bulk-action'].results.map((/** @type {any} */ result) => ({
    row: servers.find(server => server.id === result.id),
    error: result.fault ? new Error(/** @type {any} */ (Object.values(result.fault)[0]).message) : null,
  }));
};

/** @type {ServerAction[]} */
export const SERVER_ACTIONS = ROWS.map(row => ({
  ...row,
  rule: row.rule ?? STATES[row.action].rule,
  when: server => mayDo(row.action, server) && (!row.when || row.when(server)),
  request:
    row.request ??
    ((server, values) => ({method: 'POST', path: `/servers/${id(server)}/action`, body: row.body?.(values, server)})),
  ...(row.bulk ? {many: many(row)} : {}),
}));
