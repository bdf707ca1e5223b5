// The list of any resource: what its row in data/resources says. With an id in the address, the detail of one.
import {html, useMemo, useState} from '../core/html.js';
import {all, call} from '../core/api.js';
import {useLoad} from '../core/load.js';
import {link, setQuery} from '../core/router.js';
import {isAdmin} from '../core/session.js';
import {t} from '../core/text.js';
import {Busy, Card, Empty, Facts, Head, Refusal} from '../parts/basics.js';
import {ActionDialog, ActionMenu, allowed} from '../parts/actions.js';
import {Icon} from '../parts/icons.js';
import {Table, sorted} from '../parts/table.js';
import {RESOURCES} from '../data/resources.js';

const SIZE = 50;

/** @typedef {import('../data/resources.js').Resource} Resource */

/** @param {{page: any, path: string[], query: URLSearchParams}} props */
export default function List({page, path, query}) {
  const loaded = useLoad(() => RESOURCES[page.resource](), [page.resource]);
  if (loaded.error) return html`<${Refusal} error=${loaded.error} />`;
  if (!loaded.data) return html`<${Busy} label=${t('Loading …')} />`;
  return path[1] && loaded.data.facts
    ? html`<${Detail} key=${path[1]} resource=${loaded.data} page=${page} id=${path[1]} />`
    : html`<${Rows} resource=${loaded.data} page=${page} query=${query} />`;
}

/** @param {Resource} resource @param {any} row */
export const idOf = (resource, row) => String((resource.id ? resource.id(row) : row.id) ?? '');
/** @param {Resource} resource @param {any} row */
const nameOf = (resource, row) =>
  row ? String((resource.nameOf ? resource.nameOf(row) : row.name) || idOf(resource, row)) : '';

/** Ask for one page, or for all where the API has no pages. @param {Resource} resource @param {string} marker @param {AbortSignal} signal */
async function read(resource, marker, signal) {
  const query = {...(typeof resource.query === 'function' ? resource.query() : resource.query)};
  const options = {signal, version: resource.version};
  const found = resource.paged
    ? (await call(resource.service, resource.path, {...options, query: {...query, limit: SIZE, marker}}))[resource.key]
    : await all(resource.service, resource.path, resource.key, {...options, query});
  const rows = resource.unwrap ? found.map(resource.unwrap) : found;
  return {rows: resource.fill ? await resource.fill(rows) : rows, more: !!resource.paged && found.length === SIZE};
}

/** @param {{resource: Resource, page: any, query: URLSearchParams}} props */
function Rows({resource, page, query}) {
  const [markers, setMarkers] = useState(/** @type {string[]} */ (['']));
  const [find, setFind] = useState(query.get('find') ?? '');
  const [sort, setSort] = useState(/** @type {any} */ (null));
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [doing, setDoing] = useState(/** @type {any} */ (null));
  const loaded = useLoad(signal => read(resource, markers[markers.length - 1], signal), [markers, resource]);
  const columns = [
    ...resource.columns
      .filter(column => !column.admin || isAdmin())
      .map((column, place) =>
        place || !resource.facts
          ? column
          : {
              ...column,
              show: (/** @type {any} */ row) =>
                html`<a href=${link(page.path, idOf(resource, row))}>${column.show ? column.show(row) : column.value(row) || idOf(resource, row)}</a>`,
            },
      ),
  ];
  const rows = useMemo(
    () =>
      sorted(
        (loaded.data?.rows ?? []).filter(
          (/** @type {any} */ row) =>
            !find ||
            columns.some(column =>
              String(column.value(row) ?? '')
                .toLowerCase()
                .includes(find.toLowerCase()),
            ),
        ),
        columns,
        sort,
      ),
    [loaded.data, find, sort],
  );
  const picked = rows.filter(row => selected.has(idOf(resource, row)));
  const bulk = resource.actions.filter(action => action.bulk && (!action.admin || isAdmin()));
  const search = (/** @type {any} */ event) => {
    setFind(event.target.value);
    setQuery({find: event.target.value});
  };
  const create = resource.create && (!resource.create.admin || isAdmin()) ? resource.create : null;
  return html`
    <${Head} title=${t(page.label)}>${create && html`<button type="button" class="primary" onClick=${() => setDoing({action: create, rows: [{}]})}><${Icon} name="plus" size=${16} /> ${t(create.label)}</button>`}</${Head}>
    ${resource.note && html`<p class="quiet note">${t(resource.note)}</p>`}
    <div class="toolbar"><input type="search" aria-label=${resource.paged ? t('Find on this page') : t('Find in this list')} placeholder=${resource.paged ? t('Find on this page') : t('Find in this list')} value=${find} onInput=${search} /><span class="grow"></span>
      <span class="quiet" role="status">${loaded.data ? t('{count} shown', {count: rows.length}) : ''}</span>
      <button type="button" class="icon-button" aria-label=${t('Load again')} title=${t('Load again')} onClick=${loaded.reload}><${Icon} name="reload" /></button></div>
    ${
      picked.length > 0 &&
      html`<div class="bulk"><strong>${t('{count} selected', {count: picked.length})}</strong>${bulk.map(
        action => html`
      <button type="button" class=${action.danger ? 'danger small' : 'small'} onClick=${() => setDoing({action, rows: picked})}>${t(action.label)}</button>`,
      )}</div>`
    }
    <${Refusal} error=${loaded.error} />
    ${!loaded.data && loaded.loading && html`<${Busy} label=${t('Loading …')} />`}
    ${loaded.data && !rows.length && html`<${Empty} icon=${page.icon} text=${find ? t('Nothing fits.') : t(resource.empty)} />`}
    ${
      rows.length > 0 &&
      html`<${Table} label=${t(page.label)} ...${{columns, rows, sort, selected}} idOf=${(/** @type {any} */ row) => idOf(resource, row)} nameOf=${(/** @type {any} */ row) => nameOf(resource, row)}
      sortable=${() => true} onSort=${setSort} actions=${resource.actions} onAction=${(/** @type {any} */ action, /** @type {any[]} */ on) => setDoing({action, rows: on})} onSelect=${bulk.length ? setSelected : null} />`
    }
    ${loaded.data && resource.board && html`<div class="below">${resource.board(loaded.data.rows, loaded.reload)}</div>`}
    ${
      resource.paged &&
      (markers.length > 1 || loaded.data?.more) &&
      html`<nav class="pager" aria-label=${t('Pages of the list')}>
      <button type="button" disabled=${markers.length === 1} onClick=${() => setMarkers(markers.slice(0, -1))}>${t('Back')}</button><span class="quiet">${t('Page {number}', {number: markers.length})}</span>
      <button type="button" disabled=${!loaded.data?.more} onClick=${() => setMarkers([...markers, idOf(resource, loaded.data?.rows[loaded.data.rows.length - 1])])}>${t('Next')}</button></nav>`
    }
    ${
      doing &&
      html`<${ActionDialog} ...${doing} nameOf=${(/** @type {any} */ row) => nameOf(resource, row)} onClose=${() => setDoing(null)} onDone=${() => {
        setSelected(new Set());
        loaded.reload();
      }} />`
    }`;
}

/** @param {{resource: Resource, page: any, id: string}} props */
function Detail({resource, page, id}) {
  const loaded = useLoad(
    async signal => {
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
  if (!loaded.data)
    return loaded.error
      ? html`<${Head} title=${t(page.label)} back=${['#/' + page.path, t(page.label)]} /><${Refusal} error=${loaded.error} />`
      : html`<${Busy} label=${t('Loading …')} />`;
  const {row, more} = loaded.data;
  const doable = allowed(resource.actions, row);
  return html`
    <${Head} title=${nameOf(resource, row)} back=${['#/' + page.path, t(page.label)]}><${ActionMenu} text=${t('Actions')} label=${t('Actions')} actions=${doable} onChoose=${(/** @type {any} */ action) => setDoing({action, rows: [row]})} /></${Head}>
    <div class="grid"><${Card} title=${t('Details')}><${Facts} rows=${resource.facts?.(row).map(([name, value]) => [t(name), value])} /></${Card}>
      ${resource.parts?.(row, more, loaded.reload, (/** @type {any} */ action, /** @type {any} */ on) => setDoing({action, rows: [on]}))}</div>
    ${
      doing &&
      html`<${ActionDialog} ...${doing} nameOf=${(/** @type {any} */ one) => nameOf(resource, one)} onClose=${() => setDoing(null)} onDone=${
        doing.action.gone
          ? () => {
              location.hash = '#/' + page.path;
            }
          : loaded.reload
      } />`
    }`;
}
