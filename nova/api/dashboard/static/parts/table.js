// A table of things: columns, sorting, selection, actions. On a phone each row is a card.
import {html, useEffect, useRef} from '../core/html.js';
import {offerRows} from '../core/here.js';
import {t} from '../core/text.js';
import {ActionMenu, allowed} from './actions.js';
import {Icon} from './icons.js';

/**
 * @typedef {{name: string, label: string, value: (row: any) => any, show?: (row: any) => any, sort?: string, number?: boolean,
 *   wide?: boolean, admin?: boolean}} Column
 * @typedef {{by: string, down: boolean}} Sort
 */

/**
 * @param {{columns: Column[], rows: any[], idOf: (row: any) => string, nameOf: (row: any) => string, label: string, sort: Sort | null,
 *   sortable: (column: Column) => boolean, onSort: (sort: Sort) => void, actions: import('./actions.js').Action[],
 *   onAction: (action: import('./actions.js').Action, rows: any[]) => void, selected: Set<string>, onSelect: ((selected: Set<string>) => void) | null}} props
 */
export function Table({
  columns,
  rows,
  idOf,
  nameOf,
  label,
  sort,
  sortable,
  onSort,
  actions,
  onAction,
  selected,
  onSelect,
}) {
  const every = useRef(/** @type {HTMLInputElement | null} */ (null));
  const chosen = rows.filter(row => selected.has(idOf(row))).length;
  useEffect(() => {
    if (every.current) every.current.indeterminate = chosen > 0 && chosen < rows.length;
  });
  useEffect(() =>
    offerRows(() =>
      rows.flatMap(row =>
        allowed(actions, row).map(action => ({label: `${t(action.label)} · ${nameOf(row)}`, run: () => onAction(action, [row])})),
      ),
    ),
  );
  const toggle = (/** @type {string} */ id) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect?.(next);
  };
  return html`
    <div class="table-frame" tabindex="0" role="region" aria-label=${label}><table>
      <thead><tr>
        ${
          onSelect &&
          html`<th class="narrow"><input type="checkbox" ref=${every} aria-label=${t('Select all')} checked=${chosen === rows.length && chosen > 0}
          onChange=${() => onSelect(chosen === rows.length ? new Set() : new Set(rows.map(idOf)))} /></th>`
        }
        ${columns.map(column => html`<${Heading} ...${{column, sort, onSort}} active=${sortable(column)} />`)}
        ${actions.length > 0 && html`<th class="narrow"><span class="unseen">${t('Actions')}</span></th>`}
      </tr></thead>
      <tbody>${rows.map(
        row => html`
        <tr key=${idOf(row)} class=${selected.has(idOf(row)) ? 'selected' : ''}>
          ${
            onSelect &&
            html`<td class="narrow select"><input type="checkbox" aria-label=${t('Select {name}', {name: nameOf(row)})}
            checked=${selected.has(idOf(row))} onChange=${() => toggle(idOf(row))} /></td>`
          }
          ${columns.map((column, place) => html`<td data-label=${t(column.label)} class="${column.number ? 'number' : ''} ${place ? '' : 'first'}">${column.show ? column.show(row) : (column.value(row) ?? '–')}</td>`)}
          ${
            actions.length > 0 &&
            html`<td class="narrow acts"><${ActionMenu} label=${t('Actions of {name}', {name: nameOf(row)})} actions=${allowed(actions, row)}
            onChoose=${(/** @type {any} */ action) => onAction(action, [row])} /></td>`
          }
        </tr>`,
      )}</tbody>
    </table></div>`;
}

/** @param {{column: Column, sort: Sort | null, onSort: (sort: Sort) => void, active: boolean}} props */
function Heading({column, sort, onSort, active}) {
  const mine = sort && sort.by === column.name ? sort : null;
  const order = mine ? (mine.down ? 'descending' : 'ascending') : undefined;
  return html`<th scope="col" class=${column.number ? 'number' : ''} aria-sort=${order}>${
    active
      ? html`<button type="button" class="sorter ${order ?? ''}" onClick=${() => onSort({by: column.name, down: !!mine && !mine.down})}>${t(column.label)}<${Icon} name="down" size=${13} /></button>`
      : t(column.label)
  }</th>`;
}

/** Rows in an order. @param {any[]} rows @param {Column[]} columns @param {Sort | null} sort */
export function sorted(rows, columns, sort) {
  const column = columns.find(one => one.name === sort?.by);
  if (!column || !sort) return rows;
  const order = new Intl.Collator(undefined, {numeric: true});
  const compare = (/** @type {any} */ one, /** @type {any} */ other) =>
    typeof one === 'number' && typeof other === 'number'
      ? one - other
      : order.compare(String(one ?? ''), String(other ?? ''));
  return [...rows].sort((one, other) => (sort.down ? -1 : 1) * compare(column.value(one), column.value(other)));
}
