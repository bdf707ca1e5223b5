// What the console pages share. A page and its WebSocket have the same address: nothing in a URL leads elsewhere.

export function socketUrl() {
    const query = new URLSearchParams(location.search);
    // noVNC's way to write it: ?path=?token=…, or ?path=websockify?token=…; of a path, the token alone is used
    const path = query.get('path') || '';
    const token = query.get('token') || new URLSearchParams(path.slice(path.indexOf('?') + 1)).get('token') || '';
    const url = new URL(location.href);
    url.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
    url.search = `?token=${encodeURIComponent(token)}`;
    url.hash = '';
    return url.href;
}

const status = document.getElementById('status');
const again = document.getElementById('again');

export function say(text, ended = false) {
    status.textContent = text;
    again.hidden = !ended;
}

export function onAgain(connect) {
    again.addEventListener('click', () => { say('Connecting …'); connect(); });
}

const POLICY = 1008;
const TRIES = 10;
const PAUSE_MS = 2000;
let tries = 0;
let reason = null;              // why a session ended; null: there was none

// A session breaks when its server moves to another host while it runs, or its proxy restarts: the same address leads
// to the console again. It does not when the proxy ended it on purpose.
export function lost(event, opened, connect) {
    if (opened) {
        tries = event.code === POLICY ? 0 : TRIES;
        reason = event.reason || '';
    }
    if (tries === 0) {
        over(reason, reason !== null);
        return;
    }
    tries -= 1;
    say('The connection is lost. Connecting again …');
    setTimeout(connect, PAUSE_MS);
}

export function over(reason, opened) {
    say(opened ? `The console has ended${reason ? `: ${reason}` : ''}.`
        : 'The console cannot be opened: its address may have run out. Ask for a new one.', true);
}
