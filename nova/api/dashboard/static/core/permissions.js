// Rules of the APIs' policies that deny the caller an operation. They are read once for each login.
import {call} from './api.js';
import {forgetNames} from './names.js';
import {onChange, required} from './session.js';

const SERVICES = ['compute', 'identity', 'image', 'block storage', 'network'];
const WRITERS = ['member', 'manager', 'admin'];
/** @type {Set<string>} */
let denied = new Set();
let complete = false;
/** @type {Promise<void> | null} */
let reading = null;

onChange(() => {
  reading = null;
  forgetNames();
});

/** Read the rules. The rules of external services are unknown here: there, the role decides what is offered. */
export const loadPermissions = () => (reading ??= read());

async function read() {
  denied = new Set();
  complete = false;
  try {
    const {permissions} = await call('compute', '/os-permissions');
    denied = new Set(permissions.flatMap((/** @type {any} */ one) => one.denied));
    complete = SERVICES.every(name => permissions.some((/** @type {any} */ one) => one.service === name));
  } catch {
    /* each API refuses what the caller may not do */
  }
}

/** Whether an operation is offered. @param {string | undefined} rule  its rule; undefined: it changes nothing */
export const may = rule =>
  !rule || (!denied.has(rule) && (complete || required().roles.some(role => WRITERS.includes(role))));
