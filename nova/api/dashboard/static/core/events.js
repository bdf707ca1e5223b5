// The event stream of the compute API (GET /os-events). It is read by fetch: EventSource could not send the token in a header.
import {useEffect, useRef, useState} from './html.js';
import {ask} from './api.js';
import {current, onChange} from './session.js';

const AGAIN_MS = 1000,
  REFUSED_MS = 10000;

/**
 * Follow the project's servers until stopped.
 * @param {Told} listener
 * @param {AbortSignal} signal
 */
async function follow(listener, signal) {
  let last = '';
  while (!signal.aborted && current()) {
    let wait = AGAIN_MS;
    try {
      const answer = await ask('compute', '/os-events', {
        signal,
        forever: true,
        headers: {Accept: 'text/event-stream', ...(last ? {'Last-Event-ID': last} : {})},
      });
      listener.state(true);
      for await (const event of events(answer)) {
        if (event.id) last = event.id;
        if (event.event === 'server') listener.server(JSON.parse(event.data).server);
        if (event.event === 'reset') listener.reset();
      }
    } catch (error) {
      if (signal.aborted) return;
      wait = /** @type {any} */ (error).code ? REFUSED_MS : 5 * AGAIN_MS; // too many streams, or none are served
    }
    listener.state(false);
    await new Promise(resolve => setTimeout(resolve, wait));
    if (!signal.aborted) listener.reset();
  }
}

/** The events of an answer. @param {Response} answer */
async function* events(answer) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body)
    .pipeThrough(/** @type {any} */ (new TextDecoderStream()))
    .getReader();
  let text = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value.replace(/\r\n?/g, '\n');
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      /** @type {Record<string, string>} */
      const event = {id: '', event: '', data: ''};
      for (const line of text.slice(0, end).split('\n')) {
        const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name in event) event[name] += value;
      }
      text = text.slice(end + 2);
      yield event;
    }
  }
}

/** @typedef {{server: (server: any) => void, reset: () => void, state: (live: boolean) => void}} Told */

/** Who is told. One stream serves all of the page: each is a thread of the API. @type {Set<Told>} */
const told = new Set();
let live = false;
/** @type {AbortController | null} */
let running = null;

function begin() {
  running = new AbortController();
  follow(
    {
      server: server => told.forEach(one => one.server(server)),
      reset: () => told.forEach(one => one.reset()),
      state: now => {
        live = now;
        told.forEach(one => one.state(now));
      },
    },
    running.signal,
  );
}

onChange(() => {
  // the stream of a session ends with it
  running?.abort();
  running = null;
  live = false;
  if (current() && told.size) begin();
});

/**
 * Follow the servers while a component is shown; whether the stream is open.
 * @param {(server: any) => void} onServer @param {() => void} onReset
 */
export function useServerEvents(onServer, onReset) {
  const [state, setState] = useState(live);
  const latest = useRef({onServer, onReset});
  latest.current = {onServer, onReset};
  useEffect(() => {
    const one = {
      server: (/** @type {any} */ server) => latest.current.onServer(server),
      reset: () => latest.current.onReset(),
      state: setState,
    };
    told.add(one);
    if (!running) begin();
    return () => {
      told.delete(one);
    };
  }, []);
  return state;
}
