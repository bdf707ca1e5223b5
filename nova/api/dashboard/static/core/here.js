// What can be done on the page that is shown, for the palette.

/** @typedef {{label: string, run: () => void}} Entry */

const NONE = () => /** @type {Entry[]} */ ([]);
let own = NONE;
let later = NONE;
/** Tables that are shown. @type {Set<() => Entry[]>} */
const tables = new Set();

/** Offer entries of the page that is shown, and some that are found last; without arguments when it is left. */
export const offer = (found = NONE, last = NONE) => {
  own = found;
  later = last;
};
/** Offer the entries of a table's rows, until the result is called. @param {() => Entry[]} entries */
export const offerRows = entries => {
  tables.add(entries);
  return () => {
    tables.delete(entries);
  };
};
export const offeredHere = () => own();
/** What is found last: the buttons of cards, and the actions of rows. */
export const offeredLast = () => {
  const found = later();
  const known = new Set([...own(), ...found].map(entry => entry.label));
  const buttons = [...document.querySelectorAll('main .card-head button')].map(button => ({
    label: button.textContent?.trim() ?? '',
    run: () => /** @type {HTMLElement} */ (button).click(),
  }));
  return [...found, ...buttons.filter(entry => !known.has(entry.label)), ...[...tables].flatMap(entries => entries())];
};
