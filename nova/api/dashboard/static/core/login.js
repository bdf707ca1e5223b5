// Logging in and out, and changing the project: the identity API's tokens.
import {ApiError, call, url} from './api.js';
import {begin, current, end, identityUrl, shownSession} from './session.js';
import {t} from './text.js';

/**
 * @typedef {{user: string, password: string, domain: string, project?: string}} Credentials
 * @typedef {{token: string, document: any}} Token
 */

/** A passcode is needed besides the password. */
export class PasscodeNeeded extends Error {
  /** @param {string} receipt @param {string} userId */
  constructor(receipt, userId) {
    super(t('A login needs a passcode now. Log out and log in again.'));
    this.receipt = receipt;
    this.userId = userId;
  }
}

/**
 * Ask for a token.
 * @param {any} identity  how the user is known @param {any} scope @param {string} [receipt]
 * @returns {Promise<Token>}
 */
async function token(identity, scope, receipt) {
  /** @type {Record<string, string>} */
  const headers = {'Content-Type': 'application/json'};
  if (receipt) headers['Openstack-Auth-Receipt'] = receipt;
  let answer;
  try {
    answer = await fetch(url('identity', '/auth/tokens'), {
      method: 'POST',
      headers,
      body: JSON.stringify({auth: {identity, ...(scope ? {scope} : {})}}),
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
    });
  } catch {
    throw new ApiError(0, t('The identity service does not answer.'));
  }
  const document = await answer.json().catch(() => ({}));
  if (answer.ok) return {token: answer.headers.get('X-Subject-Token') ?? '', document};
  const found = answer.headers.get('Openstack-Auth-Receipt');
  if (found) throw new PasscodeNeeded(found, document.receipt.user.id);
  throw new ApiError(answer.status, document.error?.message ?? `${answer.status}`);
}

/** @param {string} domain  name or id */
const named = domain => (domain === 'default' ? {id: 'default'} : {name: domain});

/**
 * Log in; the projects to choose from where none was named and there is more than one.
 * @param {Credentials} given @param {{passcode: string, receipt: string, userId: string}} [factor]
 */
export async function login(given, factor) {
  const domain = named(given.domain || 'default');
  const identity = factor
    ? {methods: ['totp'], totp: {user: {id: factor.userId, passcode: factor.passcode}}}
    : {methods: ['password'], password: {user: {name: given.user, password: given.password, domain}}};
  const scope = given.project ? {project: {name: given.project, domain}} : 'unscoped';
  const first = await token(identity, scope, factor?.receipt);
  return given.project ? take(first) : scoped(first.token);
}

/** Log in to the project of the open page or the only one; else the projects to choose from. @param {string} first  a token without a project */
export async function scoped(first) {
  const {projects} = await call('identity', '/auth/projects', {token: first});
  if (!projects.length) throw new ApiError(403, t('This user has a role in no project.'));
  const chosen = projects.length === 1 ? projects[0] : projects.find((/** @type {any} */ one) => one.id === shownSession()?.project?.id);
  return chosen ? choose(first, chosen.id) : {token: first, projects};
}

const LEFT = 'nova.websso'; // the page at which this tab has left for a federated login, or the channel of the tab that opened it
const CHANNEL = 'nova.login.';
const posted = () => /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name="nova-token"]'));
const federated = (/** @type {string} */ path) =>
  `${identityUrl()}${path}?origin=${encodeURIComponent(new URL('websso', document.baseURI).href)}`;

/** Leave for the identity service, which asks the identity provider. @param {string} path  of the login, below /v3 */
export function leave(path) {
  sessionStorage.setItem(LEFT, location.hash || '#/');
  location.assign(federated(path));
}

/**
 * Log in in a window, so that the open page keeps its forms. The window hands the token over on a channel with a secret name:
 * no opener outlives the pages of other origins.
 * @param {string} path @param {(token: string) => void} take
 */
export function leaveInWindow(path, take) {
  const name = CHANNEL + [...crypto.getRandomValues(new Uint32Array(4))].join('-');
  sessionStorage.setItem(LEFT, name); // the window begins with a copy
  const shown = window.open(federated(path), '_blank', 'popup,width=560,height=720');
  abandon();
  if (!shown) throw new Error(t('The browser blocked the login window. Allow pop-up windows for this page and try again.'));
  stopWaiting();
  waiting = new BroadcastChannel(name);
  waiting.onmessage = ({data}) => {
    stopWaiting();
    take(data);
  };
}

/** @type {BroadcastChannel | null} */
let waiting = null;
/** Close the channel of a login window. The page cannot see that the user closed it: it has no handle of other origins' pages. */
export const stopWaiting = () => {
  waiting?.close();
  waiting = null;
};

/** Hand a posted token to the tab that opened this window, and close it; whether there is one. */
export function handOver() {
  const found = posted();
  const name = sessionStorage.getItem(LEFT);
  if (!found || !name?.startsWith(CHANNEL)) return false;
  abandon();
  found.remove();
  new BroadcastChannel(name).postMessage(found.content);
  window.close();
  return true;
}

/** Whether the identity service has posted a token to this page. */
export const hasArrived = () => !!posted();
/** End a federated login from which the user came back without a token. */
export const abandon = () => sessionStorage.removeItem(LEFT);

/** Log in with the posted token, once: neither the page nor its address keeps it. A tab that has not left for it refuses it. */
export async function arrive() {
  const found = posted();
  const page = sessionStorage.getItem(LEFT);
  abandon();
  found?.remove();
  history.replaceState(null, '', new URL(`./${page ?? ''}`, document.baseURI));
  if (!found || !page) throw new Error(t('This login was not started in this tab. Log in again.'));
  return scoped(found.content);
}

/**
 * Whether a passcode of the user's device is right, which uses it up.
 * @param {string} userId @param {string} passcode
 */
export async function proved(userId, passcode) {
  try {
    const {token: made} = await token({methods: ['totp'], totp: {user: {id: userId, passcode}}}, 'unscoped');
    await revoke(made);
  } catch (why) {
    if (/** @type {any} */ (why).code === 401) return false;
    if (!(why instanceof PasscodeNeeded)) throw why; // else it is right, and the password is missing
  }
  return true;
}

/** @param {string} old */
const revoke = old =>
  call('identity', '/auth/tokens', {method: 'DELETE', token: old, headers: {'X-Subject-Token': old}}).catch(() => null); // it runs out by itself

/** Log in to one of the projects, with the token of a login without one. @param {string} first @param {string} project */
export async function choose(first, project) {
  take(await token({methods: ['token'], token: {id: first}}, {project: {id: project}}));
  return null;
}

/** @param {Token} found */
function take(found) {
  begin(found.token, found.document);
  return null;
}

/**
 * Change the project. The page is loaded anew, so that nothing of the other project is left in it.
 * @param {string} project  its id
 */
export async function switchProject(project) {
  const old = current()?.token ?? '';
  await choose(old, project);
  location.hash = '#/';
  location.reload();
}

/** End the session, here and at the identity API. */
export async function logout() {
  const session = current();
  end('');
  location.hash = '#/'; // the address has searches of this user
  if (session) await revoke(session.token);
}
