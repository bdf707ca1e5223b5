// Which page is shown: the part of the address behind #, so that no server is asked, and no token is ever in it.
import {useEffect, useState} from './html.js';

/** @typedef {{path: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  return {path: path.split('/').filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query ?? '')};
}

/** @param {string} to  as href writes it: '/servers?status=ERROR' */
export const go = to => {
  location.hash = '#' + to;
};

/** A link's address. @param {string[]} parts */
export const link = (...parts) => '#/' + parts.map(encodeURIComponent).join('/');

/** Whether the page of a link is shown, or one below it. @param {string[]} parts */
export const isShown = (...parts) => {
  const {path} = place();
  return parts.every((part, at) => part === path[at]);
};

/** Change the query of the page that is shown, without a new entry in the history. @param {Record<string, string>} query */
export function setQuery(query) {
  const kept = Object.fromEntries(Object.entries(query).filter(([, value]) => value));
  const text = new URLSearchParams(kept).toString();
  history.replaceState(null, '', location.hash.split('?')[0] + (text ? `?${text}` : ''));
}

export function usePlace() {
  const [found, set] = useState(place);
  useEffect(() => {
    const changed = () => set(place());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return found;
}
