// Dark or light: what the system says, unless the user chose.
import {html, useState} from '../core/html.js';
import {t} from '../core/text.js';
import {Icon} from './icons.js';

const KEY = 'nova.theme';

export function applyTheme() {
  const chosen = localStorage.getItem(KEY);
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

/** Change from what is seen to the other. */
export function toggleTheme() {
  const dark =
    (document.documentElement.dataset.theme ??
      (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  localStorage.setItem(KEY, dark ? 'light' : 'dark');
  applyTheme();
}

export function ThemeButton() {
  const [, redraw] = useState(0);
  return html`<button type="button" class="icon-button" aria-label=${t('Dark or light')} title=${t('Dark or light')}
    onClick=${() => {
      toggleTheme();
      redraw(Math.random());
    }}><${Icon} name="sun" /></button>`;
}
