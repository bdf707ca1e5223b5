// The beginning: what the page must know, then login or the pages.
import {html, render, useEffect, useRef, useState} from './core/html.js';
import {abandon, handOver, hasArrived} from './core/login.js';
import {loadConfig, current, end, onChange} from './core/session.js';
import {loadTexts, t} from './core/text.js';
import {Login} from './pages/login.js';
import {Shell} from './parts/shell.js';
import {applyTheme} from './parts/theme.js';

/** Who is logged in, and where. */
const who = () => {
  const session = current();
  return session ? `${session.user.id} ${session.project?.id}` : '';
};

/** The pages of a user, or the login. A login covers the pages of an expired session; the same user finds them as they were. */
function App() {
  const [state, setState] = useState({user: who(), reason: '', shown: who()});
  useEffect(
    () =>
      onChange(reason =>
        setState((/** @type {any} */ before) => ({
          user: who(),
          reason,
          shown: who() || (reason === 'expired' ? before.shown : ''),
        })),
      ),
    [],
  );
  const {user, reason, shown} = state;
  if (!shown) return html`<${Login} reason=${reason} />`;
  return html`<${Shell} key=${shown} />${!user && html`<${Cover}><${Login} reason=${reason} onCancel=${() => setState({...state, shown: ''})} /></${Cover}>`}`;
}

/** A dialog over the whole page, and over other dialogs. @param {{children?: any}} props */
function Cover({children}) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const show = () => dialog.current?.showModal();
  useEffect(() => {
    show();
  }, []);
  return html`<dialog class="cover" ref=${dialog} aria-label=${t('Log in')} onClose=${show} onCancel=${(/** @type {Event} */ event) => event.preventDefault()}>${children}</dialog>`;
}

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
applyTheme();
Promise.all([loadConfig(), loadTexts()]).then(
  () => {
    const handed = handOver();
    if (hasArrived()) end(''); // the new login replaces that of this tab
    else abandon();
    render(handed ? html`<main class="login"><p role="status">${t('You are logged in. Close this window.')}</p></main>` : html`<${App} />`, root);
  },
  error =>
    render(
      html`<main class="login"><p class="refusal" role="alert">${t('The dashboard cannot be loaded.')} ${error.message}</p></main>`,
      root,
    ),
);
