// The event stream of the compute API (GET /os-events). It is read by fetch: EventSource could not send the token in a header.
import {useEffect, useRef, useState} from './html.js';
import {ask} from './api.js';
import {current} from './session.js';

const AGAIN_MS = 1000, REFUSED_MS = 30000;

/**
 * Follow the project's servers until stopped.
 * @param {{server: (server: any) => void, reset: () => void, state: (live: boolean) => void}} told
 * @param {AbortSignal} signal
 */
export async function follow(told, signal) {
  let last = '';
  while (!signal.aborted && current()) {
    let wait = AGAIN_MS;
    try {
      const answer = await ask('compute', '/os-events', {signal, forever: true,
        headers: {Accept: 'text/event-stream', ...(last ? {'Last-Event-ID': last} : {})}});
      told.state(true);
      for await (const event of events(answer)) {
        if (event.id) last = event.id;
        if (event.event === 'server') told.server(JSON.parse(event.data).server);
        if (event.event === 'reset') told.reset();
      }
    } catch (error) {
      if (signal.aborted) return;
      wait = /** @type {any} */ (error).code ? REFUSED_MS : 5 * AGAIN_MS;       // too many streams, or none are served
    }
    told.state(false);
    await new Promise(resolve => setTimeout(resolve, wait));
    told.reset();
  }
}

/** The events of an answer. @param {Response} answer */
async function* events(answer) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
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

/**
 * Follow the servers while a component is shown; whether the stream is open.
 * @param {(server: any) => void} onServer @param {() => void} onReset
 */
export function useServerEvents(onServer, onReset) {
  const [live, setLive] = useState(false);
  const told = useRef({onServer, onReset});
  told.current = {onServer, onReset};
  useEffect(() => {
    const control = new AbortController();
    follow({server: server => told.current.onServer(server), reset: () => told.current.onReset(), state: setLive},
      control.signal);
    return () => control.abort();
  }, []);
  return live;
}
