// The corner where notices are said.
import {html, useEffect, useState} from '../core/html.js';
import {close, onNotices} from '../core/notices.js';
import {t} from '../core/text.js';
import {Icon} from './icons.js';

export function Notices() {
  const [notices, set] = useState(/** @type {import('../core/notices.js').Notice[]} */ ([]));
  useEffect(() => onNotices(set), []);
  return html`<div class="notices" role="status" aria-live="polite">${notices.map(
    notice => html`
    <div key=${notice.id} class="notice ${notice.kind}"><div><strong>${notice.text}</strong>${notice.detail && html`<p>${notice.detail}</p>`}</div>
      <button type="button" class="icon-button" aria-label=${t('Close')} onClick=${() => close(notice.id)}><${Icon} name="close" size=${15} /></button></div>`,
  )}</div>`;
}
