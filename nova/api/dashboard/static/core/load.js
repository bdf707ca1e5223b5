// What a page shows comes from here: a request, its answer or its refusal, and asking again.
import {useCallback, useEffect, useRef, useState} from './html.js';

/**
 * @template T
 * @typedef {{data: T | null, error: Error | null, loading: boolean, reload: () => void, set: (data: T) => void}} Loaded
 */

const AWAY = [0, 502, 503, 504]; // codes while a service is away
const AGAIN_MS = 10000; // until it is asked again
const SOON_MS = 1500; // in which events are gathered

/**
 * Load something, anew whenever what it depends on changes. An answer that comes after a newer question is dropped.
 * To load again while an answer is awaited is done after it: however often it is asked for, answers come.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {any[]} depends
 * @returns {Loaded<T>}
 */
export function useLoad(ask, depends) {
  const [state, setState] = useState(/** @type {any} */ ({data: null, error: null, loading: true}));
  const [round, setRound] = useState(0);
  const latest = useRef(/** @type {AbortController | null} */ (null));
  const waiting = useRef({busy: false, again: false});
  const reload = useCallback(() => {
    if (waiting.current.busy) waiting.current.again = true;
    else setRound((/** @type {number} */ before) => before + 1);
  }, []);
  useEffect(() => {
    const control = new AbortController();
    latest.current = control;
    waiting.current = {busy: true, again: false};
    setState((/** @type {any} */ before) => ({...before, loading: true}));
    ask(control.signal)
      .then(
        data => {
          if (latest.current === control) setState({data, error: null, loading: false});
        },
        error => {
          if (latest.current === control && !control.signal.aborted) {
            setState((/** @type {any} */ before) => ({...before, error, loading: false}));
          }
        },
      )
      .finally(() => {
        if (latest.current !== control || control.signal.aborted) return;
        waiting.current.busy = false;
        if (waiting.current.again) reload();
      });
    return () => control.abort();
  }, [...depends, round]);
  useEffect(() => {
    if (!AWAY.includes(state.error?.code)) return;
    const timer = setTimeout(reload, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [state.error]);
  const set = useCallback((/** @type {any} */ data) => setState({data, error: null, loading: false}), []);
  return {...state, reload, set};
}

/** Run something soon: once for all that asks for it until then. @param {() => void} run */
export function useSoon(run) {
  const timer = useRef(0);
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    timer.current ||= setTimeout(() => {
      timer.current = 0;
      latest.current();
    }, SOON_MS);
  }, []);
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
