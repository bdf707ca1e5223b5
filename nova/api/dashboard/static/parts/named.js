// A thing by its name, with a link to its page; the beginning of its id until the name is known.
import {html, useEffect, useState} from '../core/html.js';
import {KINDS, nameOf} from '../core/names.js';
import {link} from '../core/router.js';
import {isAdmin} from '../core/session.js';
import {short} from '../core/text.js';

/** @param {{kind: string, id: string | null | undefined, plain?: boolean}} props */
export function Named({kind, id, plain}) {
  const [name, setName] = useState('');
  useEffect(() => {
    let wanted = true;
    setName('');
    if (id) nameOf(kind, id).then(found => wanted && setName(found));
    return () => {
      wanted = false;
    };
  }, [kind, id]);
  if (!id) return '–';
  const {page, admin} = KINDS[kind];
  const text = name || short(id);
  return page && !plain && (!admin || isAdmin()) ? html`<a href=${link(page, id)} title=${id}>${text}</a>` : html`<span title=${id}>${text}</span>`;
}
