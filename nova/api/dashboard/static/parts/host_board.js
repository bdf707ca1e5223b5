// Hosts in the aggregates that they are in: a host is dragged from one to another. The menus of the list do it by keys.
import {html, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {useLoad} from '../core/load.js';
import {done, failed} from '../core/notices.js';
import * as options from '../core/options.js';
import {t} from '../core/text.js';
import {Card} from './basics.js';

/** @typedef {{id: number, name: string, hosts: string[], availability_zone?: string}} Aggregate */

const act = (/** @type {Aggregate} */ aggregate, /** @type {string} */ name, /** @type {string} */ host) =>
  call('compute', `/os-aggregates/${aggregate.id}/action`, {method: 'POST', body: {[name]: {host}}});

/**
 * A host leaves first: it cannot be in two zones at once. It goes back when it is refused.
 * @param {string} host @param {Aggregate | null} from @param {Aggregate | null} to
 */
async function move(host, from, to) {
  if (from) await act(from, 'remove_host', host);
  try {
    if (to) await act(to, 'add_host', host);
  } catch (why) {
    if (from) await act(from, 'add_host', host);
    throw why;
  }
}

/** @param {{rows: Aggregate[], reload: () => void}} props */
export function HostBoard({rows, reload}) {
  const loaded = useLoad(() => options.hosts(), []);
  const [dragged, setDragged] = useState(/** @type {{host: string, from: Aggregate | null} | null} */ (null));
  const [over, setOver] = useState(/** @type {number | null} */ (null));
  const known = new Set(rows.flatMap(row => row.hosts));
  const free = (loaded.data ?? []).map((/** @type {any} */ host) => host.value).filter((/** @type {string} */ host) => !known.has(host));
  const drop = async (/** @type {Aggregate | null} */ to, /** @type {boolean} */ stays) => {
    setOver(null);
    if (!dragged || dragged.from?.id === to?.id) return;
    const {host, from} = dragged;
    setDragged(null);
    try {
      await move(host, stays && to ? null : from, to);
      done(`${host}: ${to ? to.name : t('in no aggregate')}`);
    } catch (why) {
      failed(host, /** @type {Error} */ (why));
    }
    reload();
  };
  const box = (/** @type {Aggregate | null} */ aggregate, /** @type {string} */ name, /** @type {string[]} */ hosts) => {
    const id = aggregate?.id ?? 0;
    return html`<section class=${over === id ? 'board-box over' : 'board-box'} aria-label=${name}
      onDragOver=${(/** @type {DragEvent} */ event) => {
        if (!dragged) return;
        event.preventDefault();
        setOver(id);
      }}
      onDragLeave=${() => setOver(null)}
      onDrop=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        drop(aggregate, event.ctrlKey);
      }}>
      <h3>${name}</h3>${aggregate?.availability_zone && html`<p class="quiet">${aggregate.availability_zone}</p>`}
      <span class="chips">${hosts.map(
        host => html`<span class="chip draggable" draggable="true" data-host=${host}
          onDragStart=${(/** @type {DragEvent} */ event) => {
            event.dataTransfer?.setData('text/plain', host);
            setDragged({host, from: aggregate});
          }}
          onDragEnd=${() => setDragged(null)}>${host}</span>`,
      )}</span></section>`;
  };
  if (!rows.length) return null;
  return html`<${Card} title=${t('Hosts by aggregate')}>
    <p class="quiet">${t('Drag a host to another aggregate; with Ctrl it stays in the first one as well.')}</p>
    <div class="board">${rows.map(row => box(row, row.name, row.hosts))}${box(null, t('In no aggregate'), free)}</div></${Card}>`;
}
