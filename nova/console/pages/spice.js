import { SpiceMainConn, sendCtrlAltDel } from '../spice/main.js';
import { onAgain, over, say, socketUrl } from './common.js';

let connection = null;

function connect() {
    let opened = false;
    document.getElementById('spice-screen').replaceChildren();
    // The proxy gives the password.
    connection = new SpiceMainConn({
        uri: socketUrl(), screen_id: 'spice-screen', message_id: 'message-div', password: '',
        onerror: () => { over('', opened); connection.stop(); },
        onsuccess: () => { opened = true; say('Connected'); },
    });
}

document.getElementById('cad').addEventListener('click', () => sendCtrlAltDel(connection));
onAgain(connect);
connect();
