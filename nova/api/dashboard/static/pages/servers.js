// Servers: the list, page by page from the API, followed by the event stream; with an id in the address, one of them.
import {html, useRef, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {useServerEvents} from '../core/events.js';
import {useLoad, useSettled} from '../core/load.js';
import {link, setQuery} from '../core/router.js';
import {isAdmin} from '../core/session.js';
import {t} from '../core/text.js';
import {SERVER_ACTIONS} from '../data/server_actions.js';
import {SERVER_COLUMNS, STATUSES} from '../data/servers.js';
import {Busy, Empty, Head, Refusal} from '../parts/basics.js';
import {ActionDialog} from '../parts/actions.js';
import {Icon} from '../parts/icons.js';
import {Table} from '../parts/table.js';
import {Server} from './server.js';

const SIZE = 50,
  RENEW_MS = 1500;

/** @param {{path: string[], query: URLSearchParams}} props */
export default ({path, query}) =>
  path[1]
    ? html`<${Server} key=${path[1]} id=${path[1]} tab=${path[2] ?? 'overview'} />`
    : html`<${Servers} query=${query} />`;

/** @param {any} server */
const nameOf = server => server.name;
/** @param {any} server */
const idOf = server => server.id;

/** @param {{query: URLSearchParams}} props */
function Servers({query}) {
  const [find, setFind] = useState(query.get('find') ?? '');
  const [status, setStatus] = useState(query.get('status') ?? '');
  const [everyone, setEveryone] = useState(query.get('all') === '1');
  const [sort, setSort] = useState({by: 'created', down: true});
  const [markers, setMarkers] = useState(/** @type {string[]} */ (['']));
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [doing, setDoing] = useState(/** @type {any} */ (null));
  const wanted = useSettled(find.trim(), 250);
  const marker = markers[markers.length - 1];
  const loaded = useLoad(
    async signal => {
      const sortKey = SERVER_COLUMNS.find(column => column.name === sort.by)?.sort;
      const {servers} = await call('compute', '/servers/detail', {
        signal,
        query: {
          limit: SIZE,
          marker,
          status,
          ...filter(wanted),
          sort_key: sortKey,
          sort_dir: sort.down ? 'desc' : 'asc',
          all_tenants: everyone ? 1 : '',
        },
      });
      return servers;
    },
    [marker, wanted, status, everyone, sort],
  );
  const live = useFollowed(loaded) && !everyone; // the stream is of one project
  const first = () => {
    setMarkers(['']);
    setSelected(new Set());
  };
  const narrow = (/** @type {{find?: string, status?: string, all?: boolean}} */ by) => {
    const now = {find, status, all: everyone, ...by};
    setFind(now.find);
    setStatus(now.status);
    setEveryone(now.all);
    first();
    setQuery({find: now.find, status: now.status, all: now.all ? '1' : ''});
  };
  const rows = loaded.data ?? [];
  const columns = SERVER_COLUMNS.filter(column => !column.admin || isAdmin());
  return html`
    <${Head} title=${t('Servers')}><a class="button primary" href="#/create"><${Icon} name="plus" size=${16} /> ${t('Create a server')}</a></${Head}>
    <div class="toolbar">
      <input type="search" aria-label=${t('Find by name, address or id')} placeholder=${t('Find by name, address or id')} value=${find} onInput=${(/** @type {any} */ event) => narrow({find: event.target.value})} />
      <select aria-label=${t('Status')} value=${status} onChange=${(/** @type {any} */ event) => narrow({status: event.target.value})}>
        <option value="">${t('Any status')}</option>${STATUSES.map(one => html`<option value=${one} selected=${one === status}>${one}</option>`)}</select>
      ${isAdmin() && html`<label class="inline"><input type="checkbox" checked=${everyone} onChange=${(/** @type {any} */ event) => narrow({all: event.target.checked})} /> ${t('All projects')}</label>`}
      <span class="grow"></span><span class="live ${live ? 'on' : ''}">${live ? t('Live') : t('Not live')}</span>
      <button type="button" class="icon-button" aria-label=${t('Load again')} title=${t('Load again')} onClick=${loaded.reload}><${Icon} name="reload" /></button>
    </div>
    <${Bulk} rows=${rows.filter((/** @type {any} */ row) => selected.has(row.id))} onChoose=${(/** @type {any} */ action, /** @type {any[]} */ on) => setDoing({action, rows: on})} />
    <${Refusal} error=${loaded.error} />
    ${!loaded.data && loaded.loading && html`<${Busy} label=${t('Loading …')} />`}
    ${loaded.data && !rows.length && html`<${Empty} icon="server" text=${wanted || status ? t('No server fits.') : t('There are no servers yet.')}>${!wanted && !status && html`<a class="button primary" href="#/create">${t('Create a server')}</a>`}</${Empty}>`}
    ${
      rows.length > 0 &&
      html`<${Table} label=${t('Servers')} ...${{columns, rows, idOf, nameOf, sort, selected}} sortable=${(/** @type {any} */ column) => !!column.sort}
      onSort=${(/** @type {any} */ by) => {
        setSort(by);
        first();
      }} actions=${SERVER_ACTIONS} onAction=${(/** @type {any} */ action, /** @type {any[]} */ on) => setDoing({action, rows: on})} onSelect=${setSelected} />`
    }
    ${
      (markers.length > 1 || rows.length === SIZE) &&
      html`<nav class="pager" aria-label=${t('Pages of the list')}>
      <button type="button" disabled=${markers.length === 1} onClick=${() => setMarkers(markers.slice(0, -1))}>${t('Back')}</button><span class="quiet">${t('Page {number}', {number: markers.length})}</span>
      <button type="button" disabled=${rows.length < SIZE} onClick=${() => setMarkers([...markers, rows[rows.length - 1].id])}>${t('Next')}</button></nav>`
    }
    ${
      doing &&
      html`<${ActionDialog} ...${doing} nameOf=${nameOf} onClose=${() => setDoing(null)} onDone=${() => {
        setSelected(new Set());
        loaded.reload();
      }} />`
    }`;
}

/** The filter of the API for what was typed. @param {string} text */
function filter(text) {
  if (!text) return {};
  if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(text)) return {uuid: text};
  if (/^\d+\.[\d.]+$/.test(text)) return {ip: '^' + text.replaceAll('.', '\\.')};
  return {name: text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')};
}

/** Keep a list as the event stream says; whether it does. @param {import('../core/load.js').Loaded<any[]>} loaded */
function useFollowed(loaded) {
  const timer = useRef(0);
  const latest = useRef(loaded);
  latest.current = loaded;
  const later = () => {
    timer.current ||= setTimeout(() => {
      timer.current = 0;
      latest.current.reload();
    }, RENEW_MS);
  };
  return useServerEvents(server => {
    const {data, set} = latest.current;
    const place = data?.findIndex(row => row.id === server.id) ?? -1;
    if (!data || place < 0 || server.status === 'DELETED') {
      later();
      return;
    }
    set(data.map((row, at) => (at === place ? {...row, ...server} : row)));
  }, later);
}

/**
 * What can be done to all that are selected. Every button has its place, lest one comes under the pointer while states change.
 * @param {{rows: any[], onChoose: (action: any, rows: any[]) => void}} props
 */
function Bulk({rows, onChoose}) {
  if (!rows.length) return null;
  const offered = SERVER_ACTIONS.filter(action => action.bulk && (!action.admin || isAdmin()));
  return html`<div class="bulk"><strong role="status">${t('{count} selected', {count: rows.length})}</strong>${offered.map(action => {
    const on = rows.filter(row => action.when?.(row));
    return html`
    <button type="button" class=${action.danger ? 'danger small' : 'small'} disabled=${!on.length} onClick=${() => onChoose(action, on)}>${t(action.label)}</button>`;
  })}</div>`;
}

/** @param {any} server */
export const serverLink = server => html`<a href=${link('servers', server.id)}>${server.name}</a>`;
