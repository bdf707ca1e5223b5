// Who is logged in. The token lives in this tab's sessionStorage and leaves it in a header alone (ADR 0028).

const KEY = 'nova.session';

/**
 * @typedef {{id: string, name: string}} Named
 * @typedef {{token: string, expires: string, user: Named & {domain: Named}, project: (Named & {domain: Named}) | null,
 *   roles: string[], region: string, endpoints: Record<string, string>}} Session
 * @typedef {{label: string, path: string}} Websso  a login through the identity service's federation
 * @typedef {{identity: string | null, base: string | null, version: string, release: string, websso: Websso[]}} Config
 */

/** @type {Config} */
export let config = {identity: null, base: null, version: '', release: '', websso: []};
/** @type {Session | null} */
let session = read();
/** The last session that was not ended by the user. @type {Session | null} */
let latest = session;
/** @type {Set<(reason: string) => void>} */
const listeners = new Set();
let timer = 0;

function read() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
    return found && new Date(found.expires).getTime() > Date.now() ? found : null;
  } catch {
    return null;
  }
}

/** The directory above the dashboard: where the APIs of an all-in-one are, under whatever name it was reached. */
export const home = () => new URL('..', document.baseURI).href.replace(/\/$/, '');

/** What the page must know of the deployment. */
export async function loadConfig() {
  const answer = await fetch(new URL('config.json', document.baseURI));
  if (!answer.ok) throw new Error(`config.json: ${answer.status}`);
  config = await answer.json();
  watch();
}

/** The session, or null. */
export const current = () => session;
/** The session of the pages that are shown, or null: an expired one until the next login. */
export const shownSession = () => latest;
/** The same, where pages are shown. @returns {Session} */
export function required() {
  if (!latest) throw new Error('nobody is logged in');
  return latest;
}
export const isAdmin = () => !!latest?.roles.includes('admin');

/** @param {(reason: string) => void} listener  told when the session begins or ends */
export function onChange(listener) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** The identity API's URL. */
export const identityUrl = () => config.identity ?? `${home()}/identity/v3`;

/** An address of the catalogue as this browser reaches it. @param {string} url */
export function reached(url) {
  return config.base && (url === config.base || url.startsWith(config.base + '/'))
    ? home() + url.slice(config.base.length)
    : url;
}

/**
 * Take up a token.
 * @param {string} token
 * @param {any} document  of the identity API
 */
export function begin(token, document) {
  const body = document.token;
  /** @type {Record<string, string>} */
  const endpoints = {};
  let region = '';
  for (const service of body.catalog ?? []) {
    const found = service.endpoints.find((/** @type {any} */ endpoint) => endpoint.interface === 'public');
    if (found && !endpoints[service.type]) {
      endpoints[service.type] = reached(found.url.replace(/\/$/, ''));
      region ||= found.region_id ?? found.region ?? '';
    }
  }
  session = {
    token,
    expires: body.expires_at,
    user: body.user,
    project: body.project ?? null,
    region,
    endpoints,
    roles: (body.roles ?? []).map((/** @type {Named} */ role) => role.name),
  };
  latest = session;
  sessionStorage.setItem(KEY, JSON.stringify(session));
  watch();
  tell('');
}

/** Forget the session. @param {string} reason  what the login page says */
export function end(reason) {
  session = null;
  if (!reason) latest = null;
  sessionStorage.removeItem(KEY);
  clearTimeout(timer);
  tell(reason);
}

/** @param {string} reason */
const tell = reason => listeners.forEach(listener => listener(reason));

function watch() {
  clearTimeout(timer);
  if (!session) return;
  const left = new Date(session.expires).getTime() - Date.now();
  timer = setTimeout(() => (left > 2 ** 31 - 1 ? watch() : end('expired')), Math.min(Math.max(0, left), 2 ** 31 - 1));
}
