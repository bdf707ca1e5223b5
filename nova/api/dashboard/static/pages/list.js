// The list of any resource: what its row in data/resources says. With an id in the address, the detail of one.
import {html, useEffect, useMemo, useRef, useState} from '../core/html.js';
import {all, call, nextMarker} from '../core/api.js';
import {csv} from '../core/csv.js';
import {useServerEvents} from '../core/events.js';
import {offer} from '../core/here.js';
import {useLoad, useSettled, useSoon} from '../core/load.js';
import {failed} from '../core/notices.js';
import {isShown, link, setQuery} from '../core/router.js';
import {isAdmin} from '../core/session.js';
import {number, t} from '../core/text.js';
import {Busy, Card, Empty, Facts, Head, Refusal} from '../parts/basics.js';
import {ActionDialog, ActionMenu, allowed, offered, save} from '../parts/actions.js';
import {Icon} from '../parts/icons.js';
import {Table, sorted} from '../parts/table.js';
import {RESOURCES} from '../data/resources.js';

const SIZES = [20, 50, 100, 500];
const SIZE = 50;
const MOST = 5000; // rows that are read to search and sort them here
const EXPORTED = 100000; // rows of an export or a selection
/** The pages up to the one that is shown: the marker of each, and the number of rows before it. */
const FIRST = [{marker: '', from: 0}];

/** @typedef {import('../data/resources.js').Resource} Resource */

/** @param {{page: any, path: string[], query: URLSearchParams}} props */
export default function List({page, path, query}) {
  const loaded = useLoad(() => RESOURCES[page.resource](), [page.resource]);
  if (loaded.error) return html`<${Refusal} error=${loaded.error} />`;
  if (!loaded.data) return html`<${Busy} label=${t('Loading …')} />`;
  return path[1] && loaded.data.facts
    ? html`<${Detail} key=${path[1]} resource=${loaded.data} page=${page} id=${path[1]} />`
    : html`<${Rows} key=${query.get('do') ?? ''} resource=${loaded.data} page=${page} query=${query} />`;
}

/** @param {Resource} resource @param {any} row */
export const idOf = (resource, row) => String((resource.id ? resource.id(row) : row.id) ?? '');
/** @param {Resource} resource @param {any} row */
const nameOf = (resource, row) =>
  row ? String((resource.nameOf ? resource.nameOf(row) : row.name) || idOf(resource, row)) : '';

/** What is asked for. @typedef {{find: string, sort: import('../parts/table.js').Sort | null, filters: Record<string, string>, size: number}} View */

/** Whether the API itself searches and sorts; otherwise all rows are read. @param {Resource} resource @param {View} view */
const served = (resource, view) =>
  !!resource.paged &&
  (!view.find || !!resource.search) &&
  (!view.sort || !!resource.columns.find(column => column.name === view.sort?.by)?.sort);

/** The query of the API for a view. @param {Resource} resource @param {View} view */
function queryOf(resource, view) {
  /** @type {Record<string, any>} */
  const query = {...(typeof resource.query === 'function' ? resource.query() : resource.query)};
  for (const filter of resource.filters ?? []) {
    const value = view.filters[filter.name];
    if (value) query[filter.query ?? filter.name] = filter.sent ? filter.sent(value) : value;
  }
  if (view.find && resource.search) Object.assign(query, resource.search(view.find));
  const key = resource.columns.find(column => column.name === view.sort?.by)?.sort;
  if (view.sort && key && resource.paged) {
    delete query.sort;
    Object.assign(query, {sort_key: key, sort_dir: view.sort.down ? 'desc' : 'asc'});
  }
  return query;
}

/** @param {Resource} resource @param {any[]} found */
async function filled(resource, found) {
  const rows = resource.unwrap ? found.map(resource.unwrap) : found;
  return resource.fill ? await resource.fill(rows) : rows;
}

/**
 * All rows that fit a view; ``cut``: of the first ones alone.
 * @param {Resource} resource @param {View} view @param {AbortSignal | undefined} signal @param {number} most  rows after which no further page is read
 */
async function readAll(resource, view, signal, most) {
  const query = {...queryOf(resource, view), ...(resource.paged ? {limit: 500} : {})};
  const options = {signal, version: resource.version, query, most};
  /** @type {any[] & {cut?: boolean}} */
  const found = resource.read ? await resource.read() : await all(resource.service, resource.path, resource.key, options);
  const rows = await filled(resource, found);
  const text = resource.search ? '' : view.find.toLowerCase();
  const columns = resource.columns;
  const fitting = sorted(
    rows.filter(
      row =>
        !text ||
        columns.some(column =>
          String(column.value(row) ?? '')
            .toLowerCase()
            .includes(text),
        ) ||
        String(row.id ?? '').startsWith(text),
    ),
    columns,
    view.sort,
  );
  return {rows: fitting, cut: !!found.cut};
}

/** One page. @param {Resource} resource @param {View} view @param {string} marker @param {AbortSignal} signal */
async function readPage(resource, view, marker, signal) {
  const query = {...queryOf(resource, view), limit: view.size, marker, ...(resource.counted ? {with_count: true} : {})};
  const document = await call(resource.service, resource.path, {signal, version: resource.version, query});
  const rows = await filled(resource, document[resource.key]);
  const next = nextMarker(document, resource.key);
  return {rows, cut: false, more: !!next, next, total: document.count ?? null};
}

/** Keep a list as the event stream says. @param {{loaded: import('../core/load.js').Loaded<any>, all: boolean}} props */
function Live({loaded, all: everyone}) {
  const later = useSoon(loaded.reload);
  const on = useServerEvents(server => {
    const {data, set} = loaded;
    const place = data?.rows.findIndex((/** @type {any} */ row) => row.id === server.id) ?? -1;
    if (!data || place < 0 || server.status === 'DELETED') {
      later();
      return;
    }
    set({...data, rows: data.rows.map((/** @type {any} */ row, /** @type {number} */ at) => (at === place ? {...row, ...server} : row))});
  }, later);
  const live = on && !everyone; // the stream is of one project
  return html`<span class="live ${live ? 'on' : ''}">${live ? t('Live') : t('Not live')}</span>`;
}

/** A choice that the browser keeps. @param {string} key @param {any} otherwise */
function useKept(key, otherwise) {
  const [value, set] = useState(() => {
    try {
      return JSON.parse(localStorage.getItem(key) ?? 'null') ?? otherwise;
    } catch {
      return otherwise;
    }
  });
  return [
    value,
    (/** @type {any} */ next) => {
      localStorage.setItem(key, JSON.stringify(next));
      set(next);
    },
  ];
}

/** @param {any[]} rows @param {import('../parts/table.js').Column[]} columns */
const table = (rows, columns) =>
  csv([columns.map(column => t(column.label)), ...rows.map(row => columns.map(column => column.value(row)))]);

/** @param {{resource: Resource, page: any, query: URLSearchParams}} props */
function Rows({resource, page, query}) {
  const shownFilters = (resource.filters ?? []).filter(filter => !filter.admin || isAdmin());
  const [keptSize, keepSize] = useKept('nova.size', SIZE);
  const [hidden, hide] = useKept(`nova.columns.${page.path}`, []);
  const [view, setView] = useState(
    /** @returns {View} */ () => ({
      find: query.get('find') ?? '',
      sort: query.get('sort') ? {by: query.get('sort') ?? '', down: query.get('down') === '1'} : (resource.sort ?? null),
      filters: Object.fromEntries(shownFilters.map(filter => [filter.name, query.get(filter.name) ?? ''])),
      size: Number(query.get('size')) || keptSize,
    }),
  );
  const [markers, setMarkers] = useState(FIRST);
  const [selected, setSelected] = useState(/** @type {Map<string, any>} */ (new Map()));
  const create = resource.create && offered(resource.create) ? resource.create : null;
  const [doing, setDoing] = useState(
    /** @type {any} */ (query.get('do') === 'create' && create ? {action: create, rows: [{}]} : null),
  );
  const wanted = useSettled(view.find.trim(), 250);
  const settled = {...view, find: wanted};
  const byApi = served(resource, settled);
  const {marker, from} = markers[markers.length - 1];
  const shown = useRef(''); // the view, for what a view before it has asked
  shown.current = JSON.stringify(view);
  const asked = JSON.stringify({...settled, marker, byApi, resource: page.path, ...(byApi ? {} : {size: 0})});
  const loaded = useLoad(
    async signal => {
      if (byApi) return readPage(resource, settled, marker, signal);
      const {rows, cut} = await readAll(resource, settled, signal, MOST);
      return {rows, cut, more: false, next: null, total: cut ? null : rows.length};
    },
    [asked],
  );
  useEffect(() => {
    if (marker && [400, 404].includes(/** @type {any} */ (loaded.error)?.code)) setMarkers(FIRST); // its thing is deleted
  }, [loaded.error]);
  const counted = useLoad(
    async () =>
      byApi && resource.count && (loaded.data?.more || markers.length > 1) ? resource.count(queryOf(resource, settled)) : null,
    [asked, !!loaded.data?.more],
  );
  const change = (/** @type {Partial<View>} */ by) => {
    const next = {...view, ...by};
    setView(next);
    setMarkers(FIRST);
    setSelected(new Map());
    setQuery({
      find: next.find,
      ...next.filters,
      ...(next.sort && next.sort !== resource.sort ? {sort: next.sort.by, down: next.sort.down ? '1' : ''} : {}),
      size: next.size === SIZE ? '' : String(next.size),
    });
  };
  const columns = resource.columns.filter(column => !column.admin || isAdmin());
  const seen = useMemo(
    () =>
      columns
        .filter((column, place) => !place || !hidden.includes(column.name))
        .map((column, place) =>
          place || !resource.facts
            ? column
            : {
                ...column,
                show: (/** @type {any} */ row) =>
                  html`<a href=${link(page.path, idOf(resource, row))}>${column.show ? column.show(row) : column.value(row) || idOf(resource, row)}</a>`,
              },
        ),
    [hidden, resource],
  );
  const every = loaded.data?.rows ?? [];
  const at = byApi ? 0 : from;
  const rows = byApi ? every : every.slice(at, at + view.size);
  const more = byApi ? !!loaded.data?.more : at + view.size < every.length;
  const total = loaded.data?.total ?? counted.data ?? (byApi && !more && loaded.data ? from + rows.length : null);
  const picked = [...selected.values()];
  const bulk = resource.actions.filter(action => action.bulk && offered(action));
  const choose = (/** @type {any} */ action, /** @type {any[]} */ on) => {
    if (action.go) location.hash = action.go(on[0]);
    else setDoing({action, rows: on});
  };
  const select = (/** @type {Set<string>} */ ids) => {
    const known = new Map(selected);
    for (const row of rows) known.set(idOf(resource, row), row);
    setSelected(new Map([...ids].map(id => [id, known.get(id)])));
  };
  const readMany = (/** @type {string} */ purpose, /** @type {(found: any[]) => void} */ use) =>
    readAll(resource, settled, undefined, EXPORTED).then(
      ({rows: found, cut}) => {
        if (cut) failed(purpose, new Error(t('Only the first {count} rows are read. Narrow the list with a filter.', {count: number(EXPORTED)})));
        use(found);
      },
      error => failed(purpose, error),
    );
  const selectAll = () => {
    const of = shown.current;
    return readMany(t('Select all'), found => {
      if (shown.current === of) setSelected(new Map(found.map((/** @type {any} */ row) => [idOf(resource, row), row])));
    });
  };
  const exported = (/** @type {string} */ kind) =>
    readMany(t('Export'), found =>
      save(
        new Blob([kind === 'csv' ? table(found, seen) : JSON.stringify(found, null, 1)], {type: kind === 'csv' ? 'text/csv' : 'application/json'}),
        `${page.path}.${kind}`,
      ),
    );
  useEffect(() => {
    offer(() => (create ? [{label: t(create.label), run: () => choose(create, [{}])}] : []));
    return () => offer();
  }, [resource]);
  const finder = t(resource.find ?? 'Find in this list');
  const fits = wanted || Object.values(view.filters).some(Boolean);
  const button = create && html`<button type="button" class="primary" onClick=${() => choose(create, [{}])}><${Icon} name="plus" size=${16} /> ${t(create.label)}</button>`;
  return html`
    <${Head} title=${t(page.label)}>${button}</${Head}>
    ${resource.note && html`<p class="quiet note">${t(resource.note)}</p>`}
    <div class="toolbar"><input type="search" aria-label=${finder} placeholder=${finder} value=${view.find} onInput=${(/** @type {any} */ event) => change({find: event.target.value})} />
      ${shownFilters.map(filter =>
        filter.options
          ? html`<select aria-label=${t(filter.label)} value=${view.filters[filter.name]} onChange=${(/** @type {any} */ event) => change({filters: {...view.filters, [filter.name]: event.target.value}})}>
          <option value="">${t(filter.none ?? 'Any')}</option>${filter.options.map(one => html`<option value=${one.value} selected=${one.value === view.filters[filter.name]}>${t(one.label)}</option>`)}</select>`
          : html`<label class="inline"><input type="checkbox" checked=${!!view.filters[filter.name]} onChange=${(/** @type {any} */ event) => change({filters: {...view.filters, [filter.name]: event.target.checked ? '1' : ''}})} /> ${t(filter.label)}</label>`,
      )}
      <span class="grow"></span>
      ${resource.follow && html`<${Live} loaded=${loaded} all=${!!view.filters.all} />`}
      <span class="quiet" role="status">${loaded.data && rows.length > 0 ? (total === null ? t('{from} to {to}', {from: from + 1, to: from + rows.length}) : t('{from} to {to} of {total}', {from: from + 1, to: from + rows.length, total: number(total)})) : ''}</span>
      <${Choices} columns=${columns} hidden=${hidden} hide=${hide} size=${view.size} resize=${(/** @type {number} */ size) => {
        keepSize(size);
        change({size});
      }} onExport=${exported} />
      <button type="button" class="icon-button" aria-label=${t('Load again')} title=${t('Load again')} onClick=${loaded.reload}><${Icon} name="reload" /></button></div>
    <${Bulk} rows=${picked} bulk=${bulk} onChoose=${choose} onClear=${() => setSelected(new Map())}
      onAll=${rows.length > 0 && rows.every((/** @type {any} */ row) => selected.has(idOf(resource, row))) && picked.length < (total ?? Infinity) && (more || from > 0) ? selectAll : null} total=${total} />
    <${Refusal} error=${loaded.error} />
    ${loaded.data?.cut && html`<p class="note" role="status">${t('Only the first {count} rows are searched and sorted here. Narrow the list with a filter, or export it.', {count: number(MOST)})}</p>`}
    ${!loaded.data && loaded.loading && html`<${Busy} label=${t('Loading …')} />`}
    ${loaded.data && !rows.length && html`<${Empty} icon=${page.icon} text=${fits ? t('No matches.') : t(resource.empty)}>${!fits && button}</${Empty}>`}
    ${
      rows.length > 0 &&
      html`<${Table} label=${t(page.label)} ...${{rows, sort: view.sort}} columns=${seen} selected=${new Set(selected.keys())} idOf=${(/** @type {any} */ row) => idOf(resource, row)} nameOf=${(/** @type {any} */ row) => nameOf(resource, row)}
      sortable=${() => true} onSort=${(/** @type {any} */ sort) => change({sort})} actions=${resource.actions} onAction=${choose} onSelect=${bulk.length ? select : null} />`
    }
    ${loaded.data && resource.board && html`<div class="below">${resource.board(loaded.data.rows, loaded.reload)}</div>`}
    ${
      (markers.length > 1 || more) &&
      html`<nav class="pager" aria-label=${t('Pages of the list')}>
      <button type="button" disabled=${markers.length === 1} onClick=${() => setMarkers(markers.slice(0, -1))}>${t('Back')}</button><span class="quiet">${t('Page {number}', {number: markers.length})}</span>
      <button type="button" disabled=${!more} onClick=${() => setMarkers([...markers, {marker: loaded.data?.next ?? '', from: from + rows.length}])}>${t('Next')}</button></nav>`
    }
    ${
      doing &&
      html`<${ActionDialog} ...${doing} nameOf=${(/** @type {any} */ row) => nameOf(resource, row)} onClose=${() => setDoing(null)} onDone=${() => {
        setSelected(new Map());
        loaded.reload();
      }} />`
    }`;
}

/**
 * Columns, rows of a page, and files of the list.
 * @param {{columns: import('../parts/table.js').Column[], hidden: string[], hide: (names: string[]) => void, size: number,
 *   resize: (size: number) => void, onExport: (kind: string) => void}} props
 */
const Choices = ({columns, hidden, hide, size, resize, onExport}) => html`
  <details class="choices-menu"><summary class="button small">${t('View')}</summary>
    <div class="choices-body">
      <fieldset><legend>${t('Columns')}</legend>${columns.slice(1).map(
        column =>
          html`<label class="inline"><input type="checkbox" checked=${!hidden.includes(column.name)} onChange=${(/** @type {any} */ event) => hide(event.target.checked ? hidden.filter(one => one !== column.name) : [...hidden, column.name])} /> ${t(column.label)}</label>`,
      )}</fieldset>
      <label class="inline">${t('Rows of a page')} <select value=${size} onChange=${(/** @type {any} */ event) => resize(Number(event.target.value))}>${SIZES.map(one => html`<option value=${one} selected=${one === size}>${one}</option>`)}</select></label>
      <div class="inline"><button type="button" class="small" onClick=${() => onExport('csv')}>${t('Export as CSV')}</button><button type="button" class="small" onClick=${() => onExport('json')}>${t('Export as JSON')}</button></div>
    </div></details>`;

/**
 * What can be done to all that are selected. Every button has its place, lest one comes under the pointer while states change.
 * @param {{rows: any[], bulk: import('../parts/actions.js').Action[], onChoose: (action: any, rows: any[]) => void, onClear: () => void,
 *   onAll: (() => void) | null, total: number | null}} props
 */
function Bulk({rows, bulk, onChoose, onClear, onAll, total}) {
  if (!rows.length) return null;
  return html`<div class="bulk"><strong role="status">${t('{count} selected', {count: number(rows.length)})}</strong>
    ${onAll && html`<button type="button" class="small" onClick=${onAll}>${total === null ? t('Select all matches') : t('Select all {count} matches', {count: number(total)})}</button>`}
    <button type="button" class="small" onClick=${onClear}>${t('Clear selection')}</button>${bulk.map(action => {
      const on = rows.filter(row => !action.when || action.when(row));
      return html`
    <button type="button" class=${action.danger ? 'danger small' : 'small'} disabled=${!on.length} onClick=${() => onChoose(action, on)}>${t(action.label)}</button>`;
    })}</div>`;
}

/** @param {{resource: Resource, page: any, id: string}} props */
function Detail({resource, page, id}) {
  const loaded = useLoad(
    async signal => {
      if (resource.show) {
        const row = await resource.show(id);
        return {row, more: await resource.more?.(row)};
      }
      const document = await call(resource.service, `${resource.item ?? resource.path}/${encodeURIComponent(id)}`, {
        signal,
        version: resource.version,
      });
      const row = resource.one ? document[resource.one] : document;
      return {row, more: await resource.more?.(row)};
    },
    [id],
  );
  const [doing, setDoing] = useState(/** @type {any} */ (null));
  const choose = (/** @type {any} */ action, /** @type {any} */ on, name = '') => {
    if (action.go) location.hash = action.go(on);
    else setDoing({action, rows: [on], name});
  };
  const doable = loaded.data ? allowed(resource.actions, loaded.data.row) : [];
  useEffect(() => {
    offer(() => doable.map(action => ({label: t(action.label), run: () => choose(action, loaded.data?.row)})));
    return () => offer();
  }, [loaded.data]);
  if (!loaded.data)
    return loaded.error
      ? html`<${Head} title=${t(page.label)} back=${['#/' + page.path, t(page.label)]} /><${Refusal} error=${loaded.error} />`
      : html`<${Busy} label=${t('Loading …')} />`;
  const {row, more} = loaded.data;
  return html`
    <${Head} title=${nameOf(resource, row)} back=${['#/' + page.path, t(page.label)]}><${ActionMenu} text=${t('Actions')} label=${t('Actions')} actions=${doable} onChoose=${(/** @type {any} */ action) => choose(action, row)} /></${Head}>
    <${Refusal} error=${loaded.error} />
    <div class="grid"><${Card} title=${t('Details')}><${Facts} rows=${resource.facts?.(row).map(([name, value]) => [t(name), value])} /></${Card}>
      ${resource.parts?.(row, more, loaded.reload, choose)}</div>
    ${
      doing &&
      html`<${ActionDialog} ...${doing} nameOf=${(/** @type {any} */ one) => (one === row ? nameOf(resource, one) : doing.name || one.name || one.id || '')} onClose=${() => setDoing(null)} onDone=${
        doing.action.gone
          ? () => {
              if (isShown(page.path, id)) location.hash = '#/' + page.path;
            }
          : loaded.reload
      } />`
    }`;
}
