// The command palette: pages, servers and what can be done, by a few letters.
import {html, useEffect, useRef, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {offeredHere, offeredLast} from '../core/here.js';
import {useSettled} from '../core/load.js';
import {logout} from '../core/login.js';
import {may} from '../core/permissions.js';
import {go} from '../core/router.js';
import {t} from '../core/text.js';
import {Dialog} from './dialog.js';
import {Icon} from './icons.js';
import {sections} from './shell.js';
import {toggleTheme} from './theme.js';

/** @typedef {{label: string, note: string, icon: string, run: () => void}} Entry */

const here = (/** @type {{label: string, run: () => void}[]} */ found) =>
  found.map(entry => ({...entry, note: t('On this page'), icon: 'play'}));

/** @returns {Entry[]} */
const fixed = () => [
  ...(may('os_compute_api:servers:create')
    ? [{label: t('Create server'), note: t('Action'), icon: 'plus', run: () => go('/create')}]
    : []),
  ...here(offeredHere()),
  ...sections().flatMap(section => section.pages.filter(page => page.create && may(page.create.rule)).map(page => ({
    label: t(page.create?.label ?? ''),
    note: t('Action'),
    icon: 'plus',
    run: () => go(`/${page.path}?do=create`),
  }))),
  ...sections().flatMap(section =>
    section.pages.map(page => ({
      label: t(page.label),
      note: t(section.label),
      icon: page.icon,
      run: () => go('/' + page.path),
    })),
  ),
  {label: t('Dark or light'), note: t('Action'), icon: 'sun', run: toggleTheme},
  {label: t('Log out'), note: t('Action'), icon: 'out', run: logout},
];

/** Whether the letters of a word are in a text, in this order. @param {string} text @param {string} letters */
function fits(text, letters) {
  let at = 0;
  for (const letter of letters.toLowerCase()) {
    at = text.toLowerCase().indexOf(letter, at) + 1;
    if (!at) return false;
  }
  return true;
}

/** @param {{onClose: () => void}} props */
export function Palette({onClose}) {
  const [text, setText] = useState('');
  const [servers, setServers] = useState(/** @type {Entry[]} */ ([]));
  const [at, setAt] = useState(0);
  const wanted = useSettled(text.trim(), 200);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    input.current?.focus();
  }, []);
  useEffect(() => {
    if (!wanted) {
      setServers([]);
      return;
    }
    const control = new AbortController();
    const query = /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(wanted)
      ? {uuid: wanted, limit: 8}
      : {name: wanted.replace(/[^\w ]/g, '\\$&'), limit: 8};
    call('compute', '/servers', {query, signal: control.signal}).then(
      found =>
        setServers(
          found.servers.map((/** @type {any} */ server) => ({
            label: server.name,
            note: t('Server'),
            icon: 'server',
            run: () => go('/servers/' + server.id),
          })),
        ),
      () => null,
    );
    return () => control.abort();
  }, [wanted]);
  const fitting = (/** @type {Entry[]} */ found) => found.filter(entry => fits(entry.label, text.replace(/\s/g, '')));
  const entries = [...fitting(fixed()), ...servers, ...fitting(here(offeredLast()))].slice(0, 40);
  const chosen = Math.min(at, entries.length - 1);
  /** @param {KeyboardEvent} event */
  const keys = event => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step) {
      event.preventDefault();
      setAt((chosen + step + entries.length) % entries.length);
    }
    if (event.key === 'Enter' && entries[chosen]) {
      event.preventDefault();
      onClose();
      entries[chosen].run();
    }
  };
  useEffect(() => {
    document.getElementById(`palette-${chosen}`)?.scrollIntoView({block: 'nearest'});
  }, [chosen]);
  return html`
    <${Dialog} title=${t('Go to or find …')} onClose=${onClose}>
      <div class="palette">
        <input ref=${input} type="text" role="combobox" aria-label=${t('Go to or find …')} aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${entries.length ? `palette-${chosen}` : undefined}
          placeholder=${t('A page, an action, a server …')} autocomplete="off" spellcheck="false" value=${text} onInput=${(
            /** @type {any} */ event,
          ) => {
            setText(event.target.value);
            setAt(0);
          }} onKeyDown=${keys} />
        <ul id="palette-list" role="listbox" aria-label=${t('Results')}>${entries.map(
          (entry, place) => html`
          <li id=${`palette-${place}`} role="option" aria-selected=${place === chosen} onClick=${() => {
            onClose();
            entry.run();
          }}><${Icon} name=${entry.icon} size=${16} /><span>${entry.label}</span><span class="quiet">${entry.note}</span></li>`,
        )}</ul>
        ${!entries.length && html`<p class="quiet">${t('No matches.')}</p>`}
      </div>
    </${Dialog}>`;
}
