// What has happened, said in a corner and to screen readers.
import {onChange, shownSession} from './session.js';

/** @typedef {{id: number, kind: 'done' | 'failed', text: string, detail?: string}} Notice */

/** @type {Notice[]} */
let notices = [];
let count = 0;
/** @type {Set<(notices: Notice[]) => void>} */
const listeners = new Set();
const SHOWN_MS = 6000;

const changed = () => listeners.forEach(listener => listener(notices));

const whose = () => {
  const session = shownSession();
  return session ? `${session.user.id} ${session.project?.id}` : '';
};
let owner = whose();
/** Notices are of one user in one project. */
onChange(() => {
  if (whose() === owner) return;
  owner = whose();
  notices = [];
  changed();
});

/** @param {(notices: Notice[]) => void} listener */
export function onNotices(listener) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** @param {string} text */
export function done(text) {
  add({id: ++count, kind: 'done', text});
}

/** A refusal stays until it is closed. @param {string} text @param {Error} error */
export function failed(text, error) {
  add({id: ++count, kind: 'failed', text, detail: error.message});
}

/** @param {Notice} notice */
function add(notice) {
  notices = [...notices.slice(-4), notice];
  changed();
  if (notice.kind === 'done') setTimeout(() => close(notice.id), SHOWN_MS);
}

/** @param {number} id */
export function close(id) {
  notices = notices.filter(notice => notice.id !== id);
  changed();
}
