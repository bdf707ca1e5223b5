// What a page shows comes from here: a request, its answer or its refusal, and asking again.
import {useCallback, useEffect, useRef, useState} from './html.js';

/**
 * @template T
 * @typedef {{data: T | null, error: Error | null, loading: boolean, reload: () => void, set: (data: T) => void}} Loaded
 */

const AWAY = [0, 502, 503, 504]; // codes while a service is away
const AGAIN_MS = 10000; // until it is asked again

/**
 * Load something, anew whenever what it depends on changes. An answer that comes after a newer question is dropped.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {any[]} depends
 * @returns {Loaded<T>}
 */
export function useLoad(ask, depends) {
  const [state, setState] = useState(/** @type {any} */ ({data: null, error: null, loading: true}));
  const [round, setRound] = useState(0);
  const latest = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => {
    const control = new AbortController();
    latest.current = control;
    setState((/** @type {any} */ before) => ({...before, loading: true}));
    ask(control.signal).then(
      data => {
        if (latest.current === control) setState({data, error: null, loading: false});
      },
      error => {
        if (latest.current === control && !control.signal.aborted) {
          setState((/** @type {any} */ before) => ({...before, error, loading: false}));
        }
      },
    );
    return () => control.abort();
  }, [...depends, round]);
  const reload = useCallback(() => setRound((/** @type {number} */ before) => before + 1), []);
  useEffect(() => {
    if (!AWAY.includes(state.error?.code)) return;
    const timer = setTimeout(reload, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [state.error]);
  const set = useCallback((/** @type {any} */ data) => setState({data, error: null, loading: false}), []);
  return {...state, reload, set};
}

/** The value as it was when it had been left alone for a time, in ms. @param {any} value @param {number} wait */
export function useSettled(value, wait) {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), wait);
    return () => clearTimeout(timer);
  }, [value, wait]);
  return settled;
}
