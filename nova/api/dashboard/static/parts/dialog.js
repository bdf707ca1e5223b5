// A dialog: the browser's own, which keeps the focus inside and closes with Escape.
import {html, useEffect, useRef} from '../core/html.js';
import {t} from '../core/text.js';
import {Icon} from './icons.js';

/** @param {{title: string, onClose: () => void, wide?: boolean, children?: any}} props */
export function Dialog({title, onClose, wide, children}) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return html`
    <dialog ref=${dialog} class=${wide ? 'wide' : ''} aria-label=${title} onClose=${onClose}
        onCancel=${(/** @type {Event} */ event) => {
          event.preventDefault();
          onClose();
        }}>
      <div class="dialog-head"><h2>${title}</h2>
        <button type="button" class="icon-button" aria-label=${t('Close')} onClick=${onClose}><${Icon} name="close" /></button></div>
      ${children}
    </dialog>`;
}
