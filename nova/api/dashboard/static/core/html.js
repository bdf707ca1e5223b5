// What every component is written with. All strings that reach the page through it are text, never markup.
import {h, render} from '../vendor/preact.mjs';
import htm from '../vendor/htm.mjs';

export {render};
export {useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback} from '../vendor/hooks.mjs';

/** A tree of elements from a template. @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
