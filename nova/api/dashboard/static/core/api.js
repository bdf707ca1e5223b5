// Requests to the public APIs with the user's token. What an API refuses is an ApiError with the API's own sentence.
import {current, end, identityUrl} from './session.js';

const COMPUTE_VERSION = '2.96'; // the newest that the page knows; requests that need an older one name it
const TIMEOUT_MS = 60000;
/** Types under which a service stands in catalogues, the usual one first. @type {Record<string, string[]>} */
const TYPES = {
  compute: ['compute'],
  image: ['image'],
  network: ['network'],
  volume: ['block-storage', 'volumev3', 'block-store'],
};
/** What stands between an endpoint and the paths of its API. @type {Record<string, string>} */
const VERSION_PATH = {image: '/v2', network: '/v2.0'};

export class ApiError extends Error {
  /** @param {number} code  of HTTP; 0: no answer @param {string} message @param {string} [requestId] */
  constructor(code, message, requestId = '') {
    super(message);
    this.code = code;
    this.requestId = requestId;
  }
}

/**
 * @typedef {'compute' | 'identity' | 'image' | 'network' | 'volume'} Service
 * @typedef {{method?: string, body?: any, query?: Record<string, any>, version?: string, signal?: AbortSignal,
 *   headers?: Record<string, string>, token?: string, raw?: boolean, forever?: boolean}} Options
 */

/** Whether the catalogue has a service. @param {Service} service */
export const has = service => service === 'identity' || !!endpoint(service);

/** @param {Service} service */
function endpoint(service) {
  const endpoints = current()?.endpoints ?? {};
  for (const type of TYPES[service] ?? []) if (endpoints[type]) return endpoints[type];
  return '';
}

/** The URL of a path of a service. @param {Service} service @param {string} path @param {Record<string, any>} [query] */
export function url(service, path, query = {}) {
  let base = service === 'identity' ? identityUrl() : endpoint(service);
  const version = VERSION_PATH[service];
  if (version && !/\/v\d[\d.]*$/.test(base)) base += version;
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== '') given.append(name, String(one));
    }
  }
  const text = given.toString();
  return base + path + (text ? `${path.includes('?') ? '&' : '?'}${text}` : '');
}

/**
 * Ask an API; the Response.
 * @param {Service} service @param {string} path @param {Options} [options]
 * @returns {Promise<Response>}
 */
export async function ask(service, path, options = {}) {
  const {method = 'GET', body, query, version, raw} = options;
  if (service !== 'identity' && current() && !has(service))
    throw new ApiError(404, `The catalog of this cloud has no ${service} service.`);
  const token = options.token ?? current()?.token;
  /** @type {Record<string, string>} */
  const headers = {Accept: 'application/json', ...options.headers};
  if (token) headers['X-Auth-Token'] = token;
  if (service === 'compute') headers['OpenStack-API-Version'] = `compute ${version ?? COMPUTE_VERSION}`;
  if (service === 'volume') headers['OpenStack-API-Version'] = `volume ${version ?? '3.59'}`;
  if (body !== undefined && !headers['Content-Type']) headers['Content-Type'] = 'application/json';
  const signals = [options.signal, options.forever ? null : AbortSignal.timeout(TIMEOUT_MS)].filter(one => !!one);
  let answer;
  try {
    answer = await fetch(url(service, path, query), {
      method,
      headers,
      body: body === undefined ? undefined : raw ? body : JSON.stringify(body),
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
      signal: AbortSignal.any(/** @type {AbortSignal[]} */ (signals)),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, `The ${service} service does not answer (${/** @type {Error} */ (error).message}).`);
  }
  if (answer.ok) return answer;
  if (answer.status === 401 && token && token === current()?.token) end('expired');
  throw new ApiError(answer.status, await sentence(answer), answer.headers.get('x-openstack-request-id') ?? '');
}

/**
 * Ask an API; its document, null where there is none.
 * @param {Service} service @param {string} path @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function call(service, path, options) {
  const answer = await ask(service, path, options);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

/** The sentence of a refusal, wherever an API puts it. @param {Response} answer */
async function sentence(answer) {
  return said(await answer.text()) || `${answer.status} ${answer.statusText}`;
}

/** @param {string} text  the body of a refusal */
export function said(text) {
  try {
    const document = JSON.parse(text);
    for (const part of [document, ...Object.values(document)]) {
      if (typeof part === 'string') return part;
      if (part && typeof part.message === 'string') return part.message;
      if (part && typeof part.detail === 'string') return part.detail;
    }
  } catch {
    /* no JSON: the text itself */
  }
  return text.slice(0, 500);
}

/**
 * The marker of the next page, from the link of a page; null after the last one. A page may be short, and others follow.
 * @param {any} document @param {string} key  of the list in the document @returns {string | null}
 */
export function nextMarker(document, key) {
  const href =
    document.next ?? (document[`${key}_links`] ?? []).find((/** @type {any} */ link) => link.rel === 'next')?.href;
  return href ? new URL(href, location.href).searchParams.get('marker') : null;
}

/**
 * All pages of a list; with ``cut``, what follows is left out.
 * @param {Service} service @param {string} path @param {string} key  of the list in the document
 * @param {Options & {most?: number}} [options]  most: items after which no further page is read
 * @returns {Promise<any[] & {cut?: boolean}>}
 */
export async function all(service, path, key, options = {}) {
  /** @type {any[]} */
  const found = [];
  let query = {...options.query};
  for (;;) {
    const document = await call(service, path, {...options, query});
    const rows = document[key] ?? [];
    found.push(...rows);
    const marker = nextMarker(document, key);
    if (!marker || !rows.length) return found;
    if (found.length >= (options.most ?? 5000)) return Object.assign(found, {cut: true});
    query = {...query, marker};
  }
}
