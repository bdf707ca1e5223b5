// What can be done on the page that is shown, for the palette.

/** @typedef {{label: string, run: () => void}} Entry */

/** @type {Entry[]} */
let entries = [];

/** @param {Entry[]} found  of the page that is shown; [] when it is left */
export const offer = found => {
  entries = found;
};
export const offeredHere = () => entries;
