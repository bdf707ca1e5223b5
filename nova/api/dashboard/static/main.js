// The beginning: what the page must know, then login or the pages.
import {html, render, useEffect, useState} from './core/html.js';
import {loadConfig, current, onChange} from './core/session.js';
import {loadTexts, t} from './core/text.js';
import {Login} from './pages/login.js';
import {Shell} from './parts/shell.js';
import {applyTheme} from './parts/theme.js';

function App() {
  const [state, setState] = useState({user: current()?.token ?? '', reason: ''});
  useEffect(() => onChange(reason => setState({user: current()?.token ?? '', reason})), []);
  return state.user ? html`<${Shell} key=${state.user} />` : html`<${Login} reason=${state.reason} />`;
}

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
applyTheme();
Promise.all([loadConfig(), loadTexts()]).then(
  () => render(html`<${App} />`, root),
  error =>
    render(
      html`<main class="login"><p class="refusal" role="alert">${t('The dashboard cannot be loaded.')} ${error.message}</p></main>`,
      root,
    ),
);
