// Requests to the object store: S3, signed with an EC2 key of the user (AWS Signature Version 4).
import {call} from './api.js';
import {current, onChange, required} from './session.js';
import {t} from './text.js';

const UNSIGNED = 'UNSIGNED-PAYLOAD'; // the connection protects the content
const ALGORITHM = 'AWS4-HMAC-SHA256';
const encoder = new TextEncoder();

/** Whether the catalog has an object store. */
export const hasStore = () => !!current()?.endpoints.s3;

const hex = (/** @type {ArrayBuffer} */ bytes) => [...new Uint8Array(bytes)].map(one => one.toString(16).padStart(2, '0')).join('');
const digest = async (/** @type {string} */ text) => hex(await crypto.subtle.digest('SHA-256', encoder.encode(text)));
/** @param {BufferSource} key @param {string} text */
async function mac(key, text) {
  const usable = await crypto.subtle.importKey('raw', key, {name: 'HMAC', hash: 'SHA-256'}, false, ['sign']);
  return crypto.subtle.sign('HMAC', usable, encoder.encode(text));
}
/** A text as a canonical request has it. @param {string} text */
const quoted = text =>
  encodeURIComponent(text).replace(/[!'()*]/g, one => '%' + one.charCodeAt(0).toString(16).toUpperCase());

/** The key of the user in this project; one is created when there is none. @type {{project: string, key: Promise<any>} | null} */
let kept = null;
/** Ask again for the key: it was deleted, or it is another user's. */
export const forgetKey = () => {
  kept = null;
};
onChange(forgetKey);
function ownKey() {
  const {user, project} = required();
  const id = project?.id ?? '';
  if (kept?.project !== id) {
    const path = `/users/${user.id}/credentials/OS-EC2`;
    const key = call('identity', path).then(
      async ({credentials}) =>
        credentials.find((/** @type {any} */ one) => one.tenant_id === id) ??
        (await call('identity', path, {method: 'POST', body: {tenant_id: id}})).credential,
    );
    kept = {project: id, key};
    key.catch(() => {
      if (kept?.key === key) forgetKey();
    });
  }
  return /** @type {{key: Promise<any>}} */ (kept).key;
}

/**
 * Ask the object store; the Response.
 * @param {string} method @param {string} path  /bucket/key @param {{query?: Record<string, string>, body?: Blob}} [options]
 */
export async function store(method, path, {query = {}, body} = {}) {
  if (!crypto.subtle) throw new Error(t('The object store needs a page over HTTPS.'));
  const {access, secret} = await ownKey();
  const base = new URL(required().endpoints.s3);
  const target = base.pathname.replace(/\/$/, '') + path.split('/').map(quoted).join('/');
  const pairs = Object.entries(query)
    .map(([name, value]) => `${quoted(name)}=${quoted(value)}`)
    .sort()
    .join('&');
  const date = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  const scope = `${date.slice(0, 8)}/${required().region}/s3/aws4_request`;
  const names = 'host;x-amz-content-sha256;x-amz-date';
  const request = [method, target, pairs, `host:${base.host}`, `x-amz-content-sha256:${UNSIGNED}`, `x-amz-date:${date}`, '', names, UNSIGNED].join('\n');
  /** @type {BufferSource} */
  let key = encoder.encode('AWS4' + secret);
  for (const part of scope.split('/')) key = await mac(key, part);
  const signature = hex(await mac(key, [ALGORITHM, date, scope, await digest(request)].join('\n')));
  const answer = await fetch(`${base.origin}${target}${pairs && `?${pairs}`}`, {
    method,
    body,
    headers: {
      Authorization: `${ALGORITHM} Credential=${access}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
      'x-amz-content-sha256': UNSIGNED,
      'x-amz-date': date,
    },
    credentials: 'omit',
    cache: 'no-store',
    redirect: 'error',
    referrerPolicy: 'no-referrer',
  });
  if (answer.ok) return answer;
  const text = await answer.text();
  throw new Error(field(text, 'Message') || `${answer.status} ${answer.statusText}`);
}

const ENTITIES = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'"};
/** The text of an element. @param {string} document @param {string} name */
export const field = (document, name) =>
  (new RegExp(`<${name}>([^<]*)</${name}>`).exec(document)?.[1] ?? '').replace(
    /&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi,
    (_, decimal, hexadecimal, word) =>
      decimal || hexadecimal
        ? String.fromCodePoint(decimal ? Number(decimal) : parseInt(hexadecimal, 16))
        : (/** @type {Record<string, string>} */ (ENTITIES)[word] ?? ''),
  );
/** The elements of a name, each as its content. @param {string} document @param {string} name */
export const elements = (document, name) =>
  [...document.matchAll(new RegExp(`<${name}>(.*?)</${name}>`, 'gs'))].map(found => found[1]);

const LISTED = 5000; // objects that are listed at most

/** All buckets of the project. */
export async function buckets() {
  const text = await (await store('GET', '/')).text();
  return elements(text, 'Bucket').map(one => ({id: field(one, 'Name'), name: field(one, 'Name'), created_at: field(one, 'CreationDate')}));
}

/** The objects of a bucket, with ``cut`` the first ones. @param {string} bucket */
export async function objects(bucket) {
  /** @type {any[]} */
  const found = [];
  let after = '';
  do {
    const query = {'list-type': '2', ...(after ? {'continuation-token': after} : {})};
    const text = await (await store('GET', `/${bucket}`, {query})).text();
    found.push(
      ...elements(text, 'Contents').map(one => ({
        id: field(one, 'Key'),
        name: field(one, 'Key'),
        size: Number(field(one, 'Size')),
        created_at: field(one, 'LastModified'),
        bucket,
      })),
    );
    after = field(text, 'NextContinuationToken');
  } while (after && found.length < LISTED);
  return Object.assign(found, {cut: !!after});
}
