// Doing something to one thing or to many: a question or a form, the command, the request, and what became of it.
import {html, useEffect, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {done, failed} from '../core/notices.js';
import {isAdmin} from '../core/session.js';
import {t} from '../core/text.js';
import {Command, Copied, Refusal} from './basics.js';
import {Dialog} from './dialog.js';
import {Fields, initial} from './form.js';
import {Icon} from './icons.js';

/**
 * @typedef {{service?: import('../core/api.js').Service, method: string, path: string, body?: any, version?: string}} Asked
 * @typedef {{name: string, label: string, danger?: boolean, bulk?: boolean, admin?: boolean, main?: boolean,
 *   when?: (row: any) => boolean, ask?: string, form?: import('./form.js').Field[] | ((row: any) => import('./form.js').Field[]),
 *   request?: (row: any, values: any) => Asked, perform?: (row: any, values: any, progress: (share: number) => void) => Promise<any>,
 *   many?: (rows: any[], values: any) => Promise<{row: any, error: Error | null}[]>,
 *   command: (row: any, values: any) => string, secret?: (answer: any) => {label: string, text: string, file?: string} | null,
 *   open?: (answer: any) => string | null}} Action
 */

/** The actions that a thing's state allows. @param {Action[]} actions @param {any} row */
export const allowed = (actions, row) =>
  actions.filter(action => (!action.admin || isAdmin()) && (!action.when || action.when(row)));

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
  const many = rows.length > 1;
  const what = many ? t('{count} selected', {count: rows.length}) : nameOf(rows[0]);

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const results =
        action.many && many ? await action.many(rows, values) : await each(action, rows, values, setShare);
      const refused = results.filter(result => result.error);
      if (!many && refused.length) {
        setError(refused[0].error);
        return;
      }
      for (const {row, error: why} of refused) failed(`${t(action.label)}: ${nameOf(row)}`, /** @type {Error} */ (why));
      if (refused.length < results.length)
        done(
          [t(action.label), many ? t('{count} done', {count: results.length - refused.length}) : what || values.name]
            .filter(Boolean)
            .join(': '),
        );
      onDone();
      const shown = !many && action.secret?.(/** @type {any} */ (results[0]).answer);
      const opened = !many && action.open?.(/** @type {any} */ (results[0]).answer);
      if (opened) {
        setSecret({label: t('The console is at this address, once.'), ...(/^https?:/.test(opened) ? {link: opened} : {text: opened})});
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
        ${many && html`<ul class="names">${rows.slice(0, 12).map(row => html`<li>${nameOf(row)}</li>`)}${rows.length > 12 && html`<li>…</li>`}</ul>`}
        <${Fields} fields=${fields} values=${values} onChange=${setValues} />
        ${busy && share > 0 && html`<progress max="1" value=${share} aria-label=${t('Progress')}></progress>`}
        <${Refusal} error=${error} />
        <${Command} command=${rows
          .slice(0, 20)
          .map(row => action.command(row, values))
          .join('\n')} />
        <div class="dialog-foot">
          <button type="button" onClick=${onClose}>${t('Cancel')}</button>
          <button class=${action.danger ? 'danger' : 'primary'} disabled=${busy} autofocus=${!fields.length}>${busy ? t('One moment …') : t(action.label)}</button>
        </div>
      </form>
    </${Dialog}>`;
}

/** One request after the other. @param {Action} action @param {any[]} rows @param {any} values @param {(share: number) => void} progress */
async function each(action, rows, values, progress) {
  /** @type {{row: any, error: Error | null, answer?: any}[]} */
  const results = [];
  for (const row of rows) {
    try {
      results.push({row, error: null, answer: await perform(action, row, values, progress)});
    } catch (error) {
      results.push({row, error: /** @type {Error} */ (error)});
    }
  }
  return results;
}

/** @param {{secret: {label: string, text?: string, file?: string, link?: string}, onClose: () => void}} props */
function Secret({secret, onClose}) {
  const save = () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([secret.text ?? ''], {type: 'application/octet-stream'}));
    link.download = secret.file ?? 'secret.txt';
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return html`<div class="dialog-body"><p>${secret.label}</p>
    ${secret.link && html`<p><a class="button primary" href=${secret.link} target="_blank" rel="noopener noreferrer">${t('Open the console')}</a></p>`}
    ${secret.text && html`<${Copied} text=${secret.text} />`}
    <div class="dialog-foot">${secret.file && html`<button type="button" class="primary" onClick=${save}>${t('Save as a file')}</button>`}
      <button type="button" onClick=${onClose}>${t('Close')}</button></div></div>`;
}

/**
 * A button with a menu of actions.
 * @param {{actions: Action[], onChoose: (action: Action) => void, label: string, text?: string}} props
 */
export function ActionMenu({actions, onChoose, label, text}) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (!open) return;
    const close = () => setOpen(false);
    addEventListener('click', close);
    return () => removeEventListener('click', close);
  }, [open]);
  /** @param {KeyboardEvent} event */
  const keys = event => {
    if (event.key === 'Escape') {
      setOpen(false);
      return;
    }
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    const items = [.../** @type {HTMLElement} */ (event.currentTarget).querySelectorAll('[role=menuitem]')];
    const at = items.indexOf(/** @type {Element} */ (document.activeElement)) + (event.key === 'ArrowDown' ? 1 : -1);
    /** @type {HTMLElement} */ (items[(at + items.length) % items.length])?.focus();
  };
  if (!actions.length) return null;
  return html`
    <div class="menu" onKeyDown=${keys}>
      <button type="button" class=${text ? '' : 'icon-button'} aria-haspopup="menu" aria-expanded=${open} aria-label=${text ? undefined : label}
        onClick=${(/** @type {Event} */ event) => {
          event.stopPropagation();
          setOpen(!open);
        }}>${text} <${Icon} name=${text ? 'down' : 'more'} /></button>
      ${
        open &&
        html`<div class="menu-items" role="menu" aria-label=${label}>${actions.map(
          action => html`
        <button type="button" role="menuitem" class=${action.danger ? 'dangerous' : ''} onClick=${() => onChoose(action)}>${t(action.label)}</button>`,
        )}</div>`
      }
    </div>`;
}
