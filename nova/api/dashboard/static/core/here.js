// What can be done on the page that is shown, for the palette.

/** @typedef {{label: string, run: () => void}} Entry */

const NONE = () => /** @type {Entry[]} */ ([]);
let own = NONE;
let ofRows = NONE;

/** Offer entries of the page that is shown, and of its rows, which are found last; without arguments when it is left. */
export const offer = (found = NONE, rows = NONE) => {
  own = found;
  ofRows = rows;
};
export const offeredHere = () => own();
export const offeredOfRows = () => ofRows();
