"""Main pages of the dashboard look as on their stored pictures, which one version of Chromium with one font has taken.

    NOVA_TEST_TAKE_PICTURES=1 python -m pytest nova/tests/integration/test_dashboard_pictures.py

takes the pictures again. Look at each before it is committed.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from nova.tests.functional import cloud as clouds
from nova.tests.integration import browser as browsers
from nova.tests.integration import dashboard_cloud
from nova.tests.integration.dashboard_cloud import credentials
from nova.tests.integration.dashboard_cloud import logged_in
from nova.tests.support import waiting

pytestmark = dashboard_cloud.NEEDS_CHROMIUM
STORED = pathlib.Path(__file__).parent / 'pictures'
TAKEN = STORED / 'taken.txt'                   # version of Chromium; name and checksum of each font
FAMILIES = 'system-ui', 'monospace'
SIZE = 1120, 700
MOST = 0.005                                   # share of pixels that may differ
TOLERANCE = 8                                  # of 255 in a channel: rounding of colours
# name of the picture: user, page, its heading
PAGES = {
    'overview': ('demo', '/', 'Overview'), 'servers': ('demo', '/servers', 'Servers'),
    'create': ('demo', '/create', 'Create server'), 'volumes': ('demo', '/volumes', 'Volumes'),
    'images': ('demo', '/images', 'Images'), 'networks': ('demo', '/networks', 'Networks'),
    'groups': ('demo', '/server-groups', 'Server groups'), 'account': ('demo', '/account', 'Account'),
    'hosts': ('admin', '/hosts', 'Hosts'), 'flavors': ('admin', '/flavors', 'Flavors'),
}
# What differs between two clouds with the same things: ids, addresses, times, versions. Meters stay.
STILL = r'''
    const style = document.createElement('style');
    style.textContent = '* { animation: none !important; transition: none !important; caret-color: transparent }';
    document.head.append(style);
    document.activeElement?.blur();
    const changing = [
      [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '00000000-0000-0000-0000-000000000000'],
      [/\b[0-9a-f]{32}\b/g, '0'.repeat(32)], [/\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b/g, '00000000'],
      [/\b\d+\.\d+\.\d+\.\d+\b/g, '10.0.0.1'], [/\b(\d+|an?|one) (second|minute|hour)s? ago\b|\bnow\b/g, 'now'],
      [/\b[A-Z][a-z]{2} \d+, \d{4}.*$/g, 'Jan 1, 2026']];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      let text = walk.currentNode.nodeValue;
      for (const [pattern, by] of changing) text = text.replace(pattern, by);
      if (text !== walk.currentNode.nodeValue) walk.currentNode.nodeValue = text;
    }'''
# (share of pixels that differ, size of the first, size of the second)
COMPARE = '''
    const [one, other, tolerance, done] = arguments;
    const pixels = async png => {
      const image = new Image();
      image.src = 'data:image/png;base64,' + png;
      await image.decode();
      const canvas = new OffscreenCanvas(image.width, image.height), pen = canvas.getContext('2d');
      pen.drawImage(image, 0, 0);
      return pen.getImageData(0, 0, image.width, image.height);
    };
    Promise.all([pixels(one), pixels(other)]).then(([a, b]) => {
      let differ = 0;
      for (let at = 0; at < a.data.length; at += 4)
        if ([0, 1, 2].some(channel => Math.abs(a.data[at + channel] - b.data[at + channel]) > tolerance)) differ++;
      done([differ / (a.width * a.height), [a.width, a.height], [b.width, b.height]]);
    }, error => done(String(error)));'''


def maker():
    """What decides on pixels beside the pages: the version of Chromium, and the fonts."""
    version = re.search(r'[\d.]+', subprocess.run(['chromium', '--version'], capture_output=True, text=True,
                                                  check=True).stdout)[0]
    fonts = []
    for family in FAMILIES:
        file = pathlib.Path(subprocess.run(['fc-match', '-f', '%{file}', family], capture_output=True, text=True,
                                           check=True).stdout)
        fonts.append(f'{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}')
    return '\n'.join([f'Chromium {version}', *fonts]) + '\n'


@pytest.fixture(scope='module')
def taking():
    """Whether pictures are taken; a test is skipped if another Chromium, or another font, took the stored ones."""
    if shutil.which('fc-match') is None:
        pytest.skip('fontconfig is not installed')
    if os.environ.get('NOVA_TEST_TAKE_PICTURES'):
        STORED.mkdir(exist_ok=True)
        TAKEN.write_text(maker())
        return True
    stored = TAKEN.read_text() if TAKEN.exists() else 'nothing: no pictures are stored'
    if stored != maker():
        pytest.skip(f'the pictures were taken with {stored.split()}, here is {maker().split()}')
    return False


def able(admin, service, status):
    answer = admin.put(f'/os-services/{service["id"]}', {'status': status})
    assert answer.status_code == 200, answer.text


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('pictures'), ['host1', 'host2'], objectstore__enabled=True) as made:
        client, admin = made.client(version='2.96'), made.admin(version='2.96')
        image = client.upload_image(name='debian')
        # one host gets all servers: the scheduler chooses at random between equal ones
        other, = admin.get('/os-services?host=host2').json()['services']
        able(admin, other, 'disabled')
        for name in ('web-1', 'web-2', 'database'):
            client.wait_for(client.boot(image, name, networks='auto')['id'])
        able(admin, other, 'enabled')
        waiting.wait_for(lambda: [row['running_vms'] for row in admin.get(
            '/os-hypervisors/detail', version='2.87').json()['hypervisors']] in ([3, 0], [0, 3]), what='the reports')
        client.post('/volume/v3/volumes', {'volume': {'name': 'data', 'size': 1}})
        client.post('/os-server-groups', {'server_group': {'name': 'apart', 'policy': 'anti-affinity'}})
        yield made


@pytest.fixture(scope='module')
def browser(taking, cloud, tmp_path_factory):
    made = browsers.Browser(cloud.url, tmp_path_factory.mktemp('profile'), SIZE)
    yield made
    made.quit()


def taken(browser):
    """A picture of the page, base64 of a PNG, without what changes from cloud to cloud."""
    browser.settled()
    browser.until(lambda: 'Not live' not in browser.text(), 'the page does not follow the events')
    browser.until(lambda: browser.driver.execute_script('return document.fonts.status') == 'loaded', 'fonts')
    browser.driver.execute_script('document.querySelector("[role=status] button")?.click()')
    browser.driver.execute_script(STILL)
    return browser.driver.get_screenshot_as_base64()


def compare(browser, name, picture, taking):
    path = STORED / f'{name}.png'
    if taking:
        path.write_bytes(base64.b64decode(picture))
        return
    if not path.exists():
        pytest.skip(f'no picture of {name} is stored')
    before = base64.b64encode(path.read_bytes()).decode()
    browser.driver.get('about:blank')                     # the policy of the dashboard's page forbids data: images
    found = browser.driver.execute_async_script(COMPARE, before, picture, TOLERANCE)
    assert isinstance(found, list), found
    share, stored_size, size = found
    if os.environ.get('NOVA_TEST_PICTURES') and share > MOST:
        pathlib.Path(os.environ['NOVA_TEST_PICTURES'], f'now-{name}.png').write_bytes(base64.b64decode(picture))
    assert stored_size == size and share <= MOST, f'{name}: {share:.2%} of the pixels differ'


def test_the_login(browser, taking):
    browser.open()
    browser.driver.execute_script('sessionStorage.clear(); localStorage.clear()')
    browser.open()
    browser.heading('Cloud dashboard')
    compare(browser, 'login', taken(browser), taking)


@pytest.mark.parametrize('name', PAGES)
def test_a_page(browser, cloud, taking, name):
    user, path, heading = PAGES[name]
    logged_in(browser, *credentials(cloud, user))
    browser.go(path, heading)
    compare(browser, name, taken(browser), taking)


def test_a_page_in_the_dark(browser, cloud, taking):
    browser.scheme('dark')
    try:
        logged_in(browser, *credentials(cloud, 'demo'))
        browser.go('/servers', 'Servers')
        compare(browser, 'dark-servers', taken(browser), taking)
    finally:
        browser.scheme('light')


def test_a_difference_is_found(browser, cloud, taking):
    if taking:
        pytest.skip('pictures are being taken')
    logged_in(browser, *credentials(cloud, 'demo'))
    browser.go('/volumes', 'Volumes')
    with pytest.raises(AssertionError, match='of the pixels differ'):
        compare(browser, 'servers', taken(browser), taking)
