// Logging in: password, passcode where one is asked for, the project where there are several.
import {html, useEffect, useState} from '../core/html.js';
import {PasscodeNeeded, arrive, choose, hasArrived, leave, leaveInWindow, login, scoped, stopWaiting} from '../core/login.js';
import {config} from '../core/session.js';
import {t} from '../core/text.js';
import {Refusal} from '../parts/basics.js';
import {Icon} from '../parts/icons.js';
import {ThemeButton} from '../parts/theme.js';

const KEPT = 'nova.login'; // the names, never the password

function names() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? '{}');
  } catch {
    return {};
  }
}

/** @param {{reason: string, onCancel?: () => void}} props */
export function Login({reason, onCancel}) {
  const kept = names();
  const [given, setGiven] = useState({
    user: kept.user ?? '',
    password: '',
    domain: kept.domain ?? 'default',
    project: onCancel ? '' : (kept.project ?? ''), // over an open page: the one of the page
  });
  const [factor, setFactor] = useState(/** @type {any} */ (null));
  const [choice, setChoice] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = t('Log in') + ' · ' + t('Cloud dashboard');
    if (hasArrived()) accept(arrive);
    return stopWaiting;
  }, []);

  /** @param {() => Promise<any>} work @param {string} [wrong]  what is said when the identity service refuses it */
  const attempt = async (work, wrong) => {
    setBusy(true);
    setError(null);
    try {
      const {user, domain, project} = given;
      localStorage.setItem(KEPT, JSON.stringify({user, domain, project: onCancel ? kept.project : project}));
      const found = await work();
      if (found) setChoice(found);
    } catch (why) {
      if (why instanceof PasscodeNeeded) setFactor({receipt: why.receipt, userId: why.userId, passcode: ''});
      else if (/** @type {any} */ (why).code === 401 && wrong) setError(new Error(wrong));
      else setError(/** @type {Error} */ (why));
    } finally {
      setBusy(false);
    }
  };
  const accept = (/** @type {() => Promise<any>} */ work) =>
    attempt(work, t('The identity service refuses the token of this login. Log in again.'));
  const enter = (/** @type {string} */ path) =>
    onCancel ? attempt(async () => leaveInWindow(path, token => accept(() => scoped(token)))) : leave(path);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(
      () => login(given, factor ?? undefined),
      factor ? t('The passcode is wrong or has expired.') : t('User name, password, domain or project is wrong.'),
    );
  };
  const typed = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    setGiven({...given, [name]: event.target.value});
  return html`
    <main class="login">
      <div class="login-card">
        <div class="login-head"><span class="logo big"><${Icon} name="flavor" size=${26} /></span><h1>${t('Cloud dashboard')}</h1><${ThemeButton} /></div>
        ${reason === 'expired' && html`<p class="hint" role="status">${t('Your session has ended. Log in again.')}</p>`}
        ${
          choice
            ? html`<${Projects} choice=${choice} onChoose=${(/** @type {string} */ project) => attempt(() => choose(choice.token, project))} />`
            : factor
              ? html`<form onSubmit=${submit}>
          <label for="passcode">${t('Passcode')}</label><input id="passcode" inputmode="numeric" autocomplete="one-time-code" required autofocus
            value=${factor.passcode} onInput=${(/** @type {any} */ event) => setFactor({...factor, passcode: event.target.value})} />
          <button class="primary" disabled=${busy}>${t('Log in')}</button></form>`
              : html`<form onSubmit=${submit}>
          <label for="user">${t('User')}</label><input id="user" required autocomplete="username" autofocus value=${given.user} onInput=${typed('user')} />
          <label for="password">${t('Password')}</label><input id="password" type="password" required autocomplete="current-password" value=${given.password} onInput=${typed('password')} />
          <details open=${given.domain !== 'default' || !!given.project}><summary>${t('Project and domain')}</summary>
            <label for="project">${t('Project')} <span class="quiet">${t('optional')}</span></label><input id="project" value=${given.project} onInput=${typed('project')} />
            <label for="domain">${t('Domain')}</label><input id="domain" value=${given.domain} onInput=${typed('domain')} /></details>
          <button class="primary" disabled=${busy}>${busy ? t('One moment …') : t('Log in')}</button>
          ${config.websso.map(
            ({label, path}) => html`<button type="button" class="federated" disabled=${busy} onClick=${() => enter(path)}>${t('Log in with {name}', {name: label})}</button>`,
          )}</form>`
        }
        <${Refusal} error=${error} />
        ${onCancel && html`<p><button type="button" class="small" onClick=${onCancel}>${t('Discard the open page')}</button></p>`}
      </div>
    </main>`;
}

/** @param {{choice: {projects: {id: string, name: string}[]}, onChoose: (project: string) => void}} props */
const Projects = ({choice, onChoose}) => html`
  <h2>${t('Which project?')}</h2>
  <ul class="choices">${choice.projects.map(
    (project, place) => html`
    <li><button type="button" autofocus=${place === 0} onClick=${() => onChoose(project.id)}>${project.name}</button></li>`,
  )}</ul>`;
