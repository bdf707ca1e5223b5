// Doing something to one thing or to many: a question or a form, the command, the request, and what became of it.
import {html, useEffect, useLayoutEffect, useRef, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {done, failed} from '../core/notices.js';
import {may} from '../core/permissions.js';
import {current, isAdmin, shownSession} from '../core/session.js';
import {t} from '../core/text.js';
import {Command, Copied, Refusal} from './basics.js';
import {Dialog} from './dialog.js';
import {Fields, initial} from './form.js';
import {Icon} from './icons.js';

/**
 * @typedef {{service?: import('../core/api.js').Service, method: string, path: string, body?: any, version?: string}} Asked
 * @typedef {{name: string, label: string, done?: string, rule?: string, danger?: boolean, bulk?: boolean, admin?: boolean, main?: boolean, gone?: boolean,
 *   when?: (row: any) => boolean, ask?: string, form?: import('./form.js').Field[] | ((row: any) => import('./form.js').Field[]),
 *   request?: (row: any, values: any) => Asked, perform?: (row: any, values: any, progress: (share: number) => void) => Promise<any>,
 *   many?: (rows: any[], values: any) => Promise<{row: any, error: Error | null}[]>,
 *   command: (row: any, values: any) => string, terraform?: (row: any, values: any) => string, secret?: (answer: any) => {label: string, text: string, file?: string} | null,
 *   open?: (answer: any) => string | null, go?: (row: any) => string}} Action
 *
 * rule   the policy rule of its operation; done: the message afterwards, {name} stands for the thing
 * gone   the thing does not exist afterwards; go: the page that the action is, in place of a dialog
 */

/** Whether the caller may do an action at all. @param {Action} action */
export const offered = action => (!action.admin || isAdmin()) && may(action.rule);

/** The actions that the rules and a thing's state allow. @param {Action[]} actions @param {any} row */
export const allowed = (actions, row) => actions.filter(action => offered(action) && (!action.when || action.when(row)));

/** @param {Action} action @param {any} row @param {any} values @param {(share: number) => void} progress */
const perform = (action, row, values, progress) => {
  if (action.perform) return action.perform(row, values, progress);
  const {service = 'compute', path, ...asked} = /** @type {any} */ (action.request)(row, values);
  return call(service, path, asked);
};

/**
 * The dialog of an action.
 * @param {{action: Action, rows: any[], onClose: () => void, onDone: () => void, nameOf: (row: any) => string}} props
 */
export function ActionDialog({action, rows, onClose, onDone, nameOf}) {
  const fields = typeof action.form === 'function' ? action.form(rows[0]) : (action.form ?? []);
  const [values, setValues] = useState(() => initial(fields));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const [share, setShare] = useState(0);
  const [secret, setSecret] = useState(/** @type {any} */ (null));
  const closed = useRef(false);
  useEffect(
    () => () => {
      closed.current = true;
    },
    [],
  );
  const many = rows.length > 1;
  const what = many ? t('{count} selected', {count: rows.length}) : nameOf(rows[0]);
  /** @param {number} count */
  const said = count =>
    many
      ? `${t(action.label)}: ${t('{count} done', {count})}`
      : action.done
        ? t(action.done, {...values, name: what || values.name})
        : [t(action.label), what || values.name].filter(Boolean).join(': ');

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const [token, user] = [current()?.token, shownSession()?.user.id];
    const stopped = () => closed.current || current()?.token !== token;
    try {
      const results =
        action.many && many
          ? await batches(action.many, rows, values, setShare, stopped)
          : await each(action, rows, values, setShare, stopped);
      if (shownSession()?.user.id !== user) return;
      const refused = results.filter(result => result.error);
      if (!many && refused.length) {
        setError(refused[0].error);
        return;
      }
      const lines = refused.map(({row, error: why}) => [nameOf(row), /** @type {Error} */ (why).message]);
      if (lines.length > ALONE)
        failed(
          t('{label}: {count} of {total} refused', {label: t(action.label), count: lines.length, total: rows.length}),
          new Error(lines.slice(0, LINES).map(line => line.join(': ')).join('\n') + (lines.length > LINES ? '\n…' : '')),
        );
      else for (const [name, message] of lines) failed(`${t(action.label)}: ${name}`, new Error(message));
      if (refused.length < results.length) done(said(results.length - refused.length));
      onDone();
      if (closed.current) return;
      const shown = !many && action.secret?.(/** @type {any} */ (results[0]).answer);
      const opened = !many && action.open?.(/** @type {any} */ (results[0]).answer);
      if (opened) {
        setSecret({label: t('Everyone who has this address can use the console. It expires after some minutes.'), ...(/^https?:/.test(opened) ? {link: opened} : {text: opened})});
        return;
      }
      if (shown) setSecret(shown);
      else onClose();
    } catch (why) {
      setError(/** @type {Error} */ (why));
    } finally {
      setBusy(false);
    }
  };
  if (secret)
    return html`<${Dialog} title=${t(action.label)} onClose=${onClose}><${Secret} secret=${secret} onClose=${onClose} /></${Dialog}>`;
  return html`
    <${Dialog} title=${`${t(action.label)}${what ? ` · ${what}` : ''}`} onClose=${onClose}>
      <form class="dialog-body" onSubmit=${submit}>
        ${action.ask && html`<p>${t(action.ask)}</p>`}
        ${many && html`<ul class="names" tabindex="0">${rows.map(row => html`<li>${nameOf(row)}</li>`)}</ul>`}
        <${Fields} fields=${fields} values=${values} onChange=${setValues} />
        ${busy && share > 0 && html`<progress max="1" value=${share} aria-label=${t('Progress')}></progress>`}
        ${busy && many && html`<p class="quiet" role="status">${t('{count} of {total}', {count: Math.round(share * rows.length), total: rows.length})}</p>`}
        <${Refusal} error=${error} />
        <${Command} command=${rows.map(row => action.command(row, values)).join('\n')} terraform=${rows.length === 1 && action.terraform?.(rows[0], values)} />
        <div class="dialog-foot">
          <button type="button" onClick=${onClose}>${t('Cancel')}</button>
          <button class=${action.danger ? 'danger' : 'primary'} disabled=${busy} autofocus=${!fields.length}>${busy ? t('One moment …') : t(action.label)}</button>
        </div>
      </form>
    </${Dialog}>`;
}

const BATCH = 100; // servers that one request acts on
const ALONE = 3; // refusals that are said one by one
const LINES = 10; // refusals that are said together

/**
 * Batches of one request each, until it is stopped. What one that fails holds is refused: no batch is sent twice.
 * @param {NonNullable<Action['many']>} act @param {any[]} rows @param {any} values @param {(share: number) => void} progress
 * @param {() => boolean} stopped
 */
async function batches(act, rows, values, progress, stopped) {
  /** @type {{row: any, error: Error | null, answer?: any}[]} */
  const results = [];
  for (let at = 0; at < rows.length && !stopped(); at += BATCH) {
    const some = rows.slice(at, at + BATCH);
    results.push(...(await act(some, values).catch(error => some.map(row => ({row, error})))));
    progress(results.length / rows.length);
  }
  return results;
}

/**
 * One request after the other, until it is stopped.
 * @param {Action} action @param {any[]} rows @param {any} values @param {(share: number) => void} progress @param {() => boolean} stopped
 */
async function each(action, rows, values, progress, stopped) {
  /** @type {{row: any, error: Error | null, answer?: any}[]} */
  const results = [];
  for (const row of rows) {
    if (stopped()) break;
    try {
      results.push({row, error: null, answer: await perform(action, row, values, progress)});
    } catch (error) {
      results.push({row, error: /** @type {Error} */ (error)});
    }
    if (rows.length > 1) progress(results.length / rows.length);
  }
  return results;
}

/** Let the browser save a file. @param {Blob} content @param {string} name */
export function save(content, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** @param {{secret: {label: string, text?: string, file?: string, link?: string}, onClose: () => void}} props */
function Secret({secret, onClose}) {
  return html`<div class="dialog-body"><p>${secret.label}</p>
    ${secret.link && html`<p><a class="button primary" href=${secret.link} target="_blank" rel="noopener noreferrer">${t('Open the console')}</a></p>`}
    ${secret.text && html`<${Copied} text=${secret.text} />`}
    <div class="dialog-foot">${secret.file && html`<button type="button" class="primary" onClick=${() => save(new Blob([secret.text ?? ''], {type: 'application/octet-stream'}), secret.file ?? 'secret.txt')}>${t('Save as a file')}</button>`}
      <button type="button" onClick=${onClose}>${t('Close')}</button></div></div>`;
}

const EDGE = 8; // pixels between a menu and the edge of the window

/**
 * A button with a menu of actions. The menu stays inside the window: it opens where there is more room, and scrolls.
 * @param {{actions: Action[], onChoose: (action: Action) => void, label: string, text?: string}} props
 */
export function ActionMenu({actions, onChoose, label, text}) {
  const [open, setOpen] = useState(false);
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const menu = useRef(/** @type {HTMLElement | null} */ (null));
  const typed = useRef({text: '', at: 0});
  const items = () => /** @type {HTMLElement[]} */ ([...(menu.current?.querySelectorAll('[role=menuitem]') ?? [])]);
  const close = (/** @type {boolean} */ back) => {
    setOpen(false);
    if (back) button.current?.focus();
  };
  useLayoutEffect(() => {
    if (!open || !menu.current || !button.current) return;
    const at = button.current.getBoundingClientRect();
    const below = innerHeight - at.bottom - EDGE,
      above = at.top - EDGE;
    const {style, scrollHeight, offsetWidth} = menu.current;
    const down = below >= scrollHeight || below >= above;
    style.maxHeight = `${down ? below : above}px`;
    style.top = down ? `${at.bottom}px` : 'auto';
    style.bottom = down ? 'auto' : `${innerHeight - at.top}px`;
    style.left = `${Math.max(EDGE, Math.min(at.right - offsetWidth, innerWidth - offsetWidth - EDGE))}px`;
    items()[0]?.focus({preventScroll: true});
  }, [open]);
  useEffect(() => {
    if (!open) return;
    const leave = (/** @type {Event} */ event) => {
      if (!menu.current?.contains(/** @type {Node} */ (event.target))) close(false);
    };
    for (const event of ['click', 'scroll', 'resize']) addEventListener(event, leave, true);
    return () => {
      for (const event of ['click', 'scroll', 'resize']) removeEventListener(event, leave, true);
    };
  }, [open]);
  /** @param {KeyboardEvent} event */
  const keys = event => {
    const found = items();
    const at = found.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    /** @type {Record<string, number>} */
    const places = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1};
    if (!open) {
      if (event.key === 'ArrowDown') {
        event.preventDefault();
        setOpen(true);
      }
      return;
    }
    if (event.key === 'Escape' || event.key === 'Tab') {
      close(true);
    } else if (event.key in places) {
      event.preventDefault();
      found[(places[event.key] + found.length) % found.length]?.focus();
    } else if (event.key.length === 1 && event.key !== ' ' && !event.ctrlKey && !event.metaKey) {
      const now = Date.now();
      const word = (now - typed.current.at < 800 ? typed.current.text : '') + event.key.toLowerCase();
      typed.current = {text: word, at: now};
      const order = word.length > 1 ? found : [...found.slice(at + 1), ...found.slice(0, at + 1)];
      order.find(item => item.textContent?.trim().toLowerCase().startsWith(word))?.focus();
    }
  };
  if (!actions.length) return null;
  return html`
    <div class="menu" onKeyDown=${keys}>
      <button type="button" ref=${button} class=${text ? '' : 'icon-button'} aria-haspopup="menu" aria-expanded=${open} aria-label=${text ? undefined : label}
        onClick=${() => setOpen(!open)}>${text} <${Icon} name=${text ? 'down' : 'more'} /></button>
      ${
        open &&
        html`<div class="menu-items" role="menu" aria-label=${label} ref=${menu}>${actions.map(
          action => html`
        <button type="button" role="menuitem" tabindex="-1" class=${action.danger ? 'dangerous' : ''} onClick=${() => {
          close(true);
          onChoose(action);
        }}>${t(action.label)}</button>`,
        )}</div>`
      }
    </div>`;
}
