import RFB from '../novnc/core/rfb.js';
import { lost, onAgain, say, socketUrl } from './common.js';

const target = document.getElementById('console');
let rfb = null;

function connect() {
    let opened = false;
    let end = {};
    target.replaceChildren();
    const socket = new WebSocket(socketUrl(), ['binary']);
    socket.addEventListener('close', (event) => { end = event; });
    rfb = new RFB(target, socket, { shared: true });
    rfb.scaleViewport = true;
    rfb.addEventListener('connect', () => { opened = true; say('Connected'); rfb.focus(); });
    rfb.addEventListener('desktopname', (event) => say(`Connected: ${event.detail.name}`));
    rfb.addEventListener('disconnect', () => lost(end, opened, connect));
}

document.getElementById('cad').addEventListener('click', () => { rfb.sendCtrlAltDel(); rfb.focus(); });
document.getElementById('full').addEventListener('click', () => { target.requestFullscreen(); rfb.focus(); });
onAgain(connect);
connect();
