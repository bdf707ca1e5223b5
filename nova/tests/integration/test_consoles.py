"""Consoles of real guests: by a small VNC client, the client of the old serial console's page, and a real browser.

Needs what test_libvirt.py needs; chromium, chromedriver and selenium for the browser.
"""
import base64
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

from PIL import Image
import pytest
from websockets.sync import client as websocket

from nova.console import relay
from nova.tests import guests_consoles as guests
from nova.tests.support import waiting
from nova.tests.functional import cloud as whole
from nova.tests.support import libvirt as base

pytestmark = base.pytestmark
BOOT_S, SAY_S = base.BOOT_SECONDS, 60
# What is typed at the keyboard of the screen is said on the serial port.
ECHO = b"while read l; do echo typed-$l >/dev/ttyS0; done </dev/tty1 &\r"


@pytest.fixture(scope='module')
def cloud():
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-consoles-', dir='/var/tmp'))
    directory.chmod(0o711)
    try:
        with whole.running(directory, compute_driver='libvirt', spice__enabled=True,
                           libvirt__wait_soft_reboot_seconds=2) as cloud:
            yield cloud
            for found in cloud.client().get('/servers').json()['servers']:
                cloud.client().delete(f'/servers/{found["id"]}')
                cloud.client().wait_for(found['id'], 'DELETED')
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope='module')
def client(cloud):
    return cloud.client(version='2.99')


@pytest.fixture(scope='module')
def server(cloud, client):
    image = client.upload_image((base.GUEST / 'guest.qcow2').read_bytes(), disk_format='qcow2')
    made = client.boot(image, networks='none')['id']
    client.wait_for(made, timeout=BOOT_S)
    waiting.wait_for(lambda: '/ # ' in log_of(client, made), BOOT_S, 'the guest to boot')
    with opened(client, made, 'serial', 'serial') as serial:
        serial.send(ECHO)
        guests.Reader(serial).until(b'/ # ', SAY_S)
    return made


def log_of(client, server):
    return client.post(f'/servers/{server}/action', {'os-getConsoleOutput': {}}).json()['output']


def url_of(client, server, protocol, kind):
    answer = client.post(f'/servers/{server}/remote-consoles', {'remote_console': {'protocol': protocol, 'type': kind}})
    assert answer.status_code == 200, answer.text
    return answer.json()['remote_console']['url']


def opened(client, server, protocol, kind):
    url = url_of(client, server, protocol, kind)
    parts = urllib.parse.urlsplit(url)
    token = urllib.parse.unquote(url).rpartition('token=')[2]
    return websocket.connect(urllib.parse.urlunsplit(('ws', parts.netloc, parts.path, f'token={token}', '')),
                             subprotocols=['binary'], compression=None, proxy=None, max_size=None)


def said(client, server, text):
    return waiting.wait_for(lambda: text in log_of(client, server), SAY_S, f'the guest to say {text}')


def test_vnc_console_shows_typed_text(client, server):
    with opened(client, server, 'vnc', 'novnc') as socket:
        screen = guests.Screen(socket).begin()
        assert screen.size[0] >= 640 and 'QEMU' in screen.name
        before = screen.picture()
        assert len(set(before[at:at + 3] for at in range(0, len(before), 4))) > 1, 'something is shown'
        screen.type('vnc works\n')
        said(client, server, 'typed-vnc works')
        assert waiting.wait_for(lambda: screen.picture() != before, SAY_S, 'the screen to show it')


def test_screenshot_shows_the_screen_of_the_guest(client, server):
    """The picture shows what a viewer sees: as large, and with what the guest's system wrote."""
    with opened(client, server, 'vnc', 'novnc') as socket:
        size = guests.Screen(socket).begin().size
    answer = client.get(f'/servers/{server}/os-console-screenshot')
    assert answer.status_code == 200, answer.text
    with Image.open(io.BytesIO(base64.b64decode(answer.json()['screenshot'])), formats=['JPEG']) as picture:
        assert picture.size == tuple(size)
        darkest, brightest = picture.convert('L').getextrema()
    assert darkest < 50 and brightest > 100


def test_the_port_of_the_screen_asks_for_a_password(cloud, client, server):
    url = url_of(client, server, 'vnc', 'novnc')
    place = cloud.admin('2.99').get(f"/os-console-auth-tokens/{url.rpartition('%3D')[2]}").json()['console']
    assert place['host'] == '127.0.0.1'
    from nova.console import rfb
    from nova.console import streams
    stream = streams.connect(place['host'], place['port'])
    with pytest.raises(streams.Broken, match='refused'):
        rfb.open(stream, 'guessed1', None, place['host'])
    stream.close()


def test_serial_console_shows_typed_text(client, server):
    with opened(client, server, 'serial', 'serial') as socket:
        socket.send(b'echo $((6 * 7)) is it\r')
        guests.Reader(socket).until(b'42 is it', SAY_S)
    said(client, server, '42 is it')     # the output is kept as before


# The client of "Testing Serial Console", for Python 3: print is a function, and bytes are written as bytes.
SEED = '''
import sys
from ws4py.client.threadedclient import WebSocketClient
class LazyClient(WebSocketClient):
    def run(self):
        try:
            while not self.terminated:
                try:
                    b = self.sock.recv(4096)
                    sys.stdout.buffer.write(b)
                    sys.stdout.flush()
                except: # socket error expected
                    pass
        finally:
            self.terminate()
if __name__ == '__main__':
    if len(sys.argv) != 2 or not sys.argv[1].startswith("ws"):
        exit(1)
    try:
        ws = LazyClient(sys.argv[1], protocols=['binary'])
        ws.connect()
        while True:
            # keyboard event...
            c = sys.stdin.read(1)
            if c:
                ws.send(c)
        ws.run_forever()
    except KeyboardInterrupt:
        ws.close()
'''


def unframed(data):
    """What it writes are frames, as they come."""
    found = b''
    while len(data) > 1:
        size, head = data[1], 2
        if size == 126:
            size, head = int.from_bytes(data[2:4], 'big'), 4
        found, data = found + data[head:head + size], data[head + size:]
    return found


def test_documented_websocket_client_reaches_the_serial_console(client, server, tmp_path):
    pytest.importorskip('ws4py')
    (tmp_path / 'client.py').write_text(SEED)
    url = url_of(client, server, 'serial', 'serial')
    assert url.startswith('ws://') and '?token=' in url
    with open(tmp_path / 'out', 'wb') as out, subprocess.Popen(
            [sys.executable, tmp_path / 'client.py', url], stdin=subprocess.PIPE, stdout=out) as process:
        try:
            process.stdin.write(b'echo seed $((5 * 5))\n')
            process.stdin.flush()
            waiting.wait_for(lambda: b'seed 25' in unframed((tmp_path / 'out').read_bytes()), SAY_S, 'the answer')
        finally:
            process.kill()


# ---- a terminal ------------------------------------------------------------------------------

def test_terminal_command_opens_the_serial_console(cloud, client, server):
    with guests.Terminal('vm', 'console', '--follow-window', server, '--state-path', cloud.state_path) as terminal:
        terminal.until(b'Connected')
        terminal.write(b'echo term $((9 * 9))\r')
        terminal.until(b'term 81')
        terminal.resize(33, 111)
        terminal.until(b'stty rows 33 cols 111')
        terminal.write(b'stty size\r')
        terminal.until(b'33 111')
        terminal.write(b'\x1d?')
        terminal.until(b'leaves')
        terminal.write(b'\x1d.')
        terminal.until(b'The console is closed.')
        assert terminal.wait() == 0


# ---- a browser -------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    webdriver = pytest.importorskip('selenium.webdriver')
    if not (shutil.which('chromium') and shutil.which('chromedriver')):
        pytest.skip('chromium and chromedriver are not installed')
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium')
    for flag in ('--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync',
                 '--disable-background-networking', '--disable-component-update', '--window-size=1100,900',
                 f'--user-data-dir={tmp_path_factory.mktemp("browser")}'):
        options.add_argument(flag)
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which('chromedriver')))
    driver.set_page_load_timeout(SAY_S)
    yield driver
    driver.quit()


def page(browser, url):
    browser.get(url)
    waiting.wait_for(lambda: 'Connected' in status(browser), SAY_S, 'the page to connect')


def status(browser):
    found = browser.find_element('id', 'status').text
    assert 'cannot be opened' not in found, browser.get_log('browser')
    return found


def pictures(browser, name):
    directory = os.environ.get('NOVA_TEST_PICTURES')
    if directory:
        browser.save_screenshot(str(pathlib.Path(directory) / f'{name}.png'))


def test_browser_types_at_the_vnc_console(client, server, browser):
    page(browser, url_of(client, server, 'vnc', 'novnc'))
    canvas = waiting.wait_for(lambda: browser.find_elements('css selector', '#console canvas'), SAY_S, 'the screen')[0]
    from selenium.webdriver import ActionChains
    ActionChains(browser).click(canvas).send_keys('browser works\n').perform()
    said(client, server, 'typed-browser works')
    colours = browser.execute_script('''
        const canvas = document.querySelector('#console canvas');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(new Uint32Array(data.buffer)).size;''')
    assert colours > 1, 'something is shown'
    pictures(browser, 'console-vnc')
    assert not [entry for entry in browser.get_log('browser') if 'Content Security Policy' in entry['message']]


def test_browser_types_at_the_serial_console(cloud, client, server, browser):
    page(browser, url_of(client, server, 'serial', 'serial').replace('ws://', 'http://'))
    from selenium.webdriver import ActionChains
    ActionChains(browser).send_keys('echo serial $((7 * 8))\n').perform()
    waiting.wait_for(lambda: 'serial 56' in browser.execute_script('''
        const buffer = window.terminal.buffer.active;
        return [...Array(buffer.length).keys()].map((at) => buffer.getLine(at).translateToString(true)).join('\\n');
        '''), SAY_S, 'the answer')
    pictures(browser, 'console-serial')
    for session in list(cloud.consoles._open):
        cloud.consoles._relay.end(session, 'the server was stopped, moved or deleted', relay.GOING_AWAY)
    waiting.wait_for(lambda: 'again' in status(browser), SAY_S, 'the page to see it')
    waiting.wait_for(lambda: 'Connected' in status(browser), SAY_S, 'the page to connect again by itself')
    assert not [entry for entry in browser.get_log('browser') if 'Content Security Policy' in entry['message']]


def test_browser_types_at_the_spice_console(client, server, browser):
    page(browser, url_of(client, server, 'spice', 'spice-html5'))
    canvas = waiting.wait_for(
        lambda: browser.find_elements('css selector', '#spice-screen canvas'), SAY_S, 'the screen')[0]
    from selenium.webdriver import ActionChains
    ActionChains(browser).move_to_element(canvas).click().perform()

    def typed():                         # its keyboard's channel opens after the screen's
        ActionChains(browser).send_keys('spice works\n').perform()
        time.sleep(2)
        return 'typed-spice works' in log_of(client, server)
    waiting.wait_for(typed, SAY_S, 'the guest to say typed-spice works')
    pictures(browser, 'console-spice')


# ---- the end -----------------------------------------------------------------------------------

def test_a_session_ends_with_the_guest(client, server):
    from websockets import exceptions as closed
    with opened(client, server, 'serial', 'serial') as socket:
        assert client.post(f'/servers/{server}/action', {'os-stop': None}).status_code == 202
        with pytest.raises(closed.ConnectionClosed):
            while True:
                socket.recv(SAY_S)
    client.wait_for(server, 'SHUTOFF')
    answer = client.post(f'/servers/{server}/remote-consoles', {'remote_console': {'protocol': 'vnc', 'type': 'novnc'}})
    assert answer.status_code == 409
