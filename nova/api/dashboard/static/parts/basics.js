// Small parts that pages are made of.
import {html, useEffect, useState} from '../core/html.js';
import {t, ago, date} from '../core/text.js';
import {Icon} from './icons.js';

/** States by how they are to be seen. @type {Record<string, string>} */
const TONES = {
  ACTIVE: 'good',
  active: 'good',
  up: 'good',
  enabled: 'good',
  available: 'good',
  completed: 'good',
  confirmed: 'good',
  finished: 'good',
  accepted: 'good',
  success: 'good',
  Success: 'good',
  done: 'good',
  BUILD: 'busy',
  queued: 'busy',
  saving: 'busy',
  creating: 'busy',
  deleting: 'busy',
  attaching: 'busy',
  detaching: 'busy',
  downloading: 'busy',
  uploading: 'busy',
  migrating: 'busy',
  running: 'busy',
  draining: 'busy',
  rebalancing: 'busy',
  maintenance: 'warn',
  incomplete: 'bad',
  preparing: 'busy',
  importing: 'busy',
  pending: 'busy',
  processing: 'busy',
  RESIZE: 'busy',
  MIGRATING: 'busy',
  REBOOT: 'busy',
  HARD_REBOOT: 'busy',
  REBUILD: 'busy',
  VERIFY_RESIZE: 'warn',
  REVERT_RESIZE: 'busy',
  'in-use': 'info',
  PAUSED: 'warn',
  SUSPENDED: 'warn',
  RESCUE: 'warn',
  SOFT_DELETED: 'warn',
  disabled: 'warn',
  UNKNOWN: 'warn',
  unknown: 'warn',
  ERROR: 'bad',
  error: 'bad',
  failed: 'bad',
  failure: 'bad',
  down: 'bad',
  denied: 'bad',
  Error: 'bad',
  killed: 'bad',
  DOWN: 'warn',
};

/** A state as a badge. @param {{state: any, task?: string | null}} props */
export function Badge({state, task}) {
  const said = state === true ? t('yes') : state === false ? t('no') : String(state ?? '–');
  return html`<span class="badge ${task ? 'busy' : (TONES[said] ?? 'plain')}"><span class="dot"></span>${said}</span>${
    task && html`<span class="task">${task}</span>`
  }`;
}

/** A moment, as how long ago it was. @param {{at: string | null | undefined}} props */
export const Ago = ({at}) => (at ? html`<time datetime=${at} title=${date(at)}>${ago(at)}</time>` : '–');

/** How much of something is taken. @param {{label: string, used: number, total: number, show?: (value: number) => string, more?: number}} props */
export function Meter({label, used, total, show = String, more = 0}) {
  const unlimited = total < 0;
  const share = unlimited || !total ? 0 : Math.min(100, (used / total) * 100);
  const added = unlimited || !total ? 0 : Math.min(100 - share, (more / total) * 100);
  const over = !unlimited && used + more > total;
  const tone = over ? 'bad' : share > 85 ? 'warn' : 'good';
  return html`
    <div class="meter">
      <div class="meter-text"><span>${label}</span><span class="quiet">${show(used)}${more ? ` + ${show(more)}` : ''} ${
        unlimited ? t('(no limit)') : t('of {total}', {total: show(total)})
      }</span></div>
      <div class="bar ${tone}" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${unlimited ? Math.max(used, 1) : Math.max(total, used + more)}
          aria-valuenow=${used + more}>
        <span style=${{width: share + '%'}}></span><span class="more" style=${{width: added + '%'}}></span>
      </div>
    </div>`;
}

/** What an API refused, in its own words. @param {{error: Error | null}} props */
export const Refusal = ({error}) =>
  error &&
  html`
  <p class="refusal" role="alert">${error.message}${
    /** @type {any} */ (error).requestId && html` <span class="quiet">${/** @type {any} */ (error).requestId}</span>`
  }</p>`;

/** @param {{label: string}} props */
export const Busy = ({label}) => html`<p class="loading" role="status"><span class="spinner"></span>${label}</p>`;

/** What stands where there is nothing. @param {{icon?: string, text: string, children?: any}} props */
export const Empty = ({icon = 'search', text, children}) => html`
  <div class="empty"><${Icon} name=${icon} size=${36} /><p>${text}</p>${children}</div>`;

/** The top of a page. @param {{title: string, children?: any, back?: [string, string], note?: any}} props */
export function Head({title, children, back, note}) {
  useEffect(() => {
    document.title = `${title} · ${t('Cloud dashboard')}`;
  }, [title]);
  return html`
    <header class="page-head">
      <div>
        ${back && html`<a class="back" href=${back[0]}>${back[1]}</a>`}
        <h1 tabindex="-1">${title} ${note}</h1>
      </div>
      <div class="page-actions">${children}</div>
    </header>`;
}

/** Names and values. @param {{rows: [string, any][]}} props */
export const Facts = ({rows}) => html`
  <dl class="facts">${rows
    .filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '')
    .map(
      ([name, value]) => html`
    <div><dt>${name}</dt><dd>${value}</dd></div>`,
    )}</dl>`;

/** @param {{title: string, children?: any, action?: any, class?: string}} props */
export const Card = ({title, children, action, class: name = ''}) => html`
  <section class="card ${name}"><div class="card-head"><h2>${title}</h2>${action}</div>${children}</section>`;

/**
 * Tabs, of which the address names one.
 * @param {{tabs: {name: string, label: string}[], chosen: string, href: (name: string) => string}} props
 */
export const Tabs = ({tabs, chosen, href}) => html`
  <nav class="tabs" aria-label=${t('Sections')}>${tabs.map(
    tab => html`
    <a href=${href(tab.name)} aria-current=${tab.name === chosen ? 'page' : undefined}>${tab.label}</a>`,
  )}</nav>`;

/** A text with a button that copies it. @param {{text: string, label?: string}} props */
export function Copied({text, label = t('Copy')}) {
  const [said, say] = useState('');
  const copy = () =>
    (navigator.clipboard?.writeText(text) ?? Promise.reject()).then( // pages over plain HTTP have no clipboard
      () => say(t('Copied')),
      () => say(t('Select the text and copy it')),
    );
  return html`<div class="copied"><code tabindex="0">${text}</code>
    <button type="button" class="small" onClick=${copy}>${said || label}</button></div>`;
}

/** The action as a command, and as a resource of Terraform if there is one. @param {{command: string, terraform?: string | false | null}} props */
export const Command = ({command, terraform}) => html`
  ${
    command &&
    html`<details class="command"><summary><${Icon} name="console" size=${15} /> ${t('Show as command')}</summary>
    <${Copied} text=${command} /></details>`
  }
  ${
    terraform &&
    html`<details class="command"><summary><${Icon} name="console" size=${15} /> ${t('Show as Terraform')}</summary>
    <${Copied} text=${terraform} /></details>`
  }`;
