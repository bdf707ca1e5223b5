import RFB from '../novnc/core/rfb.js';
import { onAgain, over, say, socketUrl } from './common.js';

const target = document.getElementById('console');
let rfb = null;

function connect() {
    let opened = false;
    let reason = '';
    target.replaceChildren();
    const socket = new WebSocket(socketUrl(), ['binary']);
    socket.addEventListener('close', (event) => { reason = event.reason; });
    rfb = new RFB(target, socket, { shared: true });
    rfb.scaleViewport = true;
    rfb.addEventListener('connect', () => { opened = true; say('Connected'); rfb.focus(); });
    rfb.addEventListener('desktopname', (event) => say(`Connected: ${event.detail.name}`));
    rfb.addEventListener('disconnect', () => over(reason, opened));
}

document.getElementById('cad').addEventListener('click', () => { rfb.sendCtrlAltDel(); rfb.focus(); });
document.getElementById('full').addEventListener('click', () => { target.requestFullscreen(); rfb.focus(); });
onAgain(connect);
connect();
