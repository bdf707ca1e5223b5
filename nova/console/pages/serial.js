import { FitAddon } from '../xterm/addon-fit.mjs';
import { Terminal } from '../xterm/xterm.mjs';
import { lost, onAgain, say, socketUrl } from './common.js';

const terminal = new Terminal({ cursorBlink: true, scrollback: 5000, screenReaderMode: true });
const fit = new FitAddon();
const encoder = new TextEncoder();
const PIECE = 64 * 1024;        // bytes of a message; the proxy ends a session with a message over 256 KiB
let socket = null;

function sendBytes(bytes) {
    if (!socket || socket.readyState !== WebSocket.OPEN) {
        return;
    }
    for (let at = 0; at < bytes.length; at += PIECE) {
        socket.send(bytes.subarray(at, at + PIECE));
    }
}

function send(text) {
    sendBytes(encoder.encode(text));
}

function connect() {
    let opened = false;
    socket = new WebSocket(socketUrl(), ['binary']);
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('open', () => { opened = true; say('Connected. Press Enter for a prompt.'); terminal.focus(); });
    socket.addEventListener('message', (event) => terminal.write(new Uint8Array(event.data)));
    socket.addEventListener('close', (event) => lost(event, opened, connect));
}

terminal.loadAddon(fit);
terminal.open(document.getElementById('console'));
fit.fit();
new ResizeObserver(() => fit.fit()).observe(document.getElementById('console'));
terminal.onData(send);
// Each character of this text is a byte.
terminal.onBinary((text) => sendBytes(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
// A serial line does not carry the size of a terminal: the shell of the guest is told when its user wants it.
document.getElementById('size').addEventListener('click', () => {
    send(`stty rows ${terminal.rows} cols ${terminal.cols}\r`);
    terminal.focus();
});
onAgain(connect);
connect();
window.terminal = terminal;
