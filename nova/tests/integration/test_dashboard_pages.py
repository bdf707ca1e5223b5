"""Storage, lists, keys, trouble, the account and administration in the dashboard, in a real browser."""
import csv
import http.server
import json
import threading
import time

import pytest

from nova.identity import totp
from nova.tests import guests_consoles as guests
from nova.tests.functional import callers
from nova.tests.integration import browser as browsers
from nova.tests.integration import dashboard_cloud
from nova.tests.integration.dashboard_cloud import admin
from nova.tests.integration.dashboard_cloud import browser
from nova.tests.integration.dashboard_cloud import cloud
from nova.tests.integration.dashboard_cloud import confirm
from nova.tests.integration.dashboard_cloud import credentials
from nova.tests.integration.dashboard_cloud import demo
from nova.tests.integration.dashboard_cloud import logged_in
from nova.tests.integration.dashboard_cloud import modules
from nova.tests.integration.dashboard_cloud import picture
from nova.tests.integration.dashboard_cloud import reader
from nova.tests.integration.dashboard_cloud import reader_login
from nova.tests.integration.dashboard_cloud import sound
from nova.tests.integration.dashboard_cloud import user
from nova.tests.integration.dashboard_cloud import wait
from nova.tests.support import consoles

__all__ = ('admin', 'browser', 'cloud', 'demo', 'modules', 'reader', 'reader_login', 'user')
pytestmark = dashboard_cloud.NEEDS_CHROMIUM
VOLUMES, KEYS = '/volume/v3/volumes', 70               # key pairs: more than one page


def volume(client, name):
    found, = client.get(f'{VOLUMES}/detail?name={name}').json()['volumes']
    return found


def create_volume(browser, client, name, *choices):
    browser.go('/volumes', 'Volumes')
    browser.press('Create volume')
    browser.type('Name', name)
    for label, value in choices:
        browser.choose(label, value)
    confirm(browser, 'Create volume')
    browser.says(f'Volume {name} is being created')
    wait(lambda: volume(client, name)['status'] == 'available')
    browser.press('Load again')
    browser.until(lambda: browser.one(f"//main//a[normalize-space()='{name}']"), f'{name} is not in the list')


def act(browser, name, action):
    browser.press(f'Actions of {name}')
    browser.press(action, within="//*[@role='menu']")


@pytest.fixture(scope='module')
def keys(demo):
    """Key pairs for lists of several pages."""
    for number in range(KEYS):
        made = demo.post('/os-keypairs', {'keypair': {
            'name': f'key-{number:03}', 'type': 'ssh', 'public_key': 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE'
            'YVDRFzYbjqnYMHZ5MTW8NQfgmLZRbKOlqWYfbYpGnT'}})
        assert made.status_code == 201, made.text
    return demo


# ---- volumes and images ----------------------------------------------------------

def test_volume_is_created_from_a_snapshot_and_a_backup(user, demo, modules):
    create_volume(user, demo, 'source')
    act(user, 'source', 'Create snapshot')
    confirm(user, 'Create snapshot')
    act(user, 'source', 'Create backup')
    confirm(user, 'Create backup')
    wait(lambda: demo.get('/volume/v3/backups/detail').json()['backups'][0]['status'] == 'available')
    create_volume(user, demo, 'of-snapshot', ('Source', 'Snapshot'), ('Snapshot', 'source-snapshot'))
    create_volume(user, demo, 'of-backup', ('Source', 'Backup'), ('Backup', 'source-backup'))
    create_volume(user, demo, 'of-image', ('Source', 'Image'), ('Image', 'small'))
    assert volume(demo, 'of-snapshot')['snapshot_id'] and volume(demo, 'of-image')['bootable'] == 'true'
    sound(user, modules)
    user.go('/backups', 'Backups')
    act(user, 'source-backup', 'Restore')
    user.type('Name of the new volume', 'restored')
    confirm(user, 'Restore')
    user.says('source-backup is being restored')
    wait(lambda: volume(demo, 'restored')['status'] == 'available')
    sound(user, modules)


# whether the choice is valid just after a text was typed, and after the former text was typed again
SEARCH = '''
    const [other, same, done] = arguments;
    const search = document.querySelector('dialog input[type=search]');
    const choice = document.querySelector('dialog select');
    const type = text => new Promise(shown => {
      search.value = text;
      search.dispatchEvent(new Event('input', {bubbles: true}));
      requestAnimationFrame(() => requestAnimationFrame(() => shown(choice.checkValidity())));
    });
    type(other).then(first => type(same).then(second => done([first, second])));'''


def test_attach_finds_any_server_and_detach_asks_which(user, demo):
    create_volume(user, demo, 'moving')
    act(user, 'moving', 'Attach to a server')
    user.type('Find: Server', 'web-2')
    user.until(lambda: [one.text for one in browsers.Select(user.field('Server')).options] == [
        'web-2 · ' + demo.servers[2][:8]], 'the list is not narrowed')
    assert user.driver.execute_async_script(SEARCH, 'alpha', 'web-2') == [False, True], \
        'the form can be sent with a server that was chosen before the search'
    confirm(user, 'Attach to a server')
    wait(lambda: volume(demo, 'moving')['status'] == 'in-use')
    user.press('Load again')
    user.until(lambda: user.one("//td//a[normalize-space()='web-2']"), 'the server is not named')
    act(user, 'moving', 'Detach')
    user.choose('Server', 'web-2')
    confirm(user, 'Detach')
    wait(lambda: volume(demo, 'moving')['status'] == 'available')


def test_a_volume_moves_to_another_project(browser, user, cloud, demo):
    identity = callers.Identity(cloud.admin())
    other = identity.project('receiver')
    name, password, _user = identity.user(f'/projects/{other}', 'member')
    create_volume(user, demo, 'gift')
    act(user, 'gift', 'Transfer to another project')
    user.press('Transfer to another project', within='//dialog[@open]')
    user.says('Give these two values')
    ident, key = user.css('dialog code')[0].text.split()
    logged_in(browser, name, password)
    browser.go('/transfers', 'Volume transfers')
    browser.press('Accept transfer')
    browser.type('Id of the transfer', ident)
    browser.type('Key', key)
    confirm(browser, 'Accept transfer')
    browser.says('Transfer accepted')
    assert demo.get(f'{VOLUMES}?name=gift').json()['volumes'] == []


def test_images_are_edited_shared_and_downloaded(user, cloud, demo, modules):
    demo.upload_image(name='house')
    user.go('/images', 'Images')
    user.press('house', within='//main')
    user.heading('house')
    user.press('Actions', within="//header[@class='page-head']")
    user.press('Edit', within="//*[@role='menu']")
    user.type('Minimum disk', '2')
    user.type('Tags', 'blue, green')
    confirm(user, 'Edit')
    user.says('Image house changed')
    user.press('Set property', within="//section//*[@class='card-head']")
    user.type('Key', 'hw_disk_bus')
    user.type('Value', 'scsi')
    confirm(user, 'Set property')
    user.until(lambda: user.one("//td[normalize-space()='hw_disk_bus']"), 'no property')
    user.press('Share', within="//section//*[@class='card-head']")
    user.type('Id of the project', cloud.admin().project_id)
    confirm(user, 'Share')
    user.says('Image house shared')
    sound(user, modules)
    image = demo.get('/image/v2/images?name=house').json()['images'][0]
    assert (image['min_disk'], image['hw_disk_bus'], sorted(image['tags'])) == (2, 'scsi', ['blue', 'green'])
    members = demo.get(f'/image/v2/images/{image["id"]}/members').json()['members']
    assert [row['member_id'] for row in members] == [cloud.admin().project_id]
    user.press('Actions', within="//header[@class='page-head']")
    user.press('Download', within="//*[@role='menu']")
    confirm(user, 'Download')
    user.says('Image house downloaded')


@pytest.fixture
def site():
    """URL of a server with one file."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == '/disk' else 404)
            self.end_headers()
            self.wfile.write(b'data of a disk')

        def log_message(self, *words):
            pass
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()


def test_an_image_is_imported_from_a_url(user, demo, site, modules):
    for name, path, status in (('by-url', '/disk', 'active'), ('by-wrong-url', '/missing', 'queued')):
        user.go('/images', 'Images')
        user.press('Upload image')
        user.type('Name', name)
        user.choose('Source', 'URL')
        user.type('URL', site + path)
        user.choose('Format', 'raw')
        user.press('Show as command')
        user.says(f'openstack image import --method web-download --uri {site}{path} {name}')
        assert user.axe(modules) == []
        confirm(user, 'Upload image')
        user.says(f'Image {name} created')
        wait(lambda name=name, status=status: demo.get(
            f'/image/v2/images?name={name}').json()['images'][0]['status'] == status)
    image = demo.get('/image/v2/images?name=by-wrong-url').json()['images'][0]['id']
    wait(lambda: demo.get(f'/image/v2/images/{image}/tasks').json()['tasks'][0]['status'] == 'failure')
    user.go(f'/images/{image}', 'by-wrong-url')
    user.says('returned 404')
    sound(user, modules)


def test_only_bootable_images_are_offered(user, demo):
    demo.upload_image(name='another')                          # of two, whichever tests ran before
    demo.upload_image(name='kernel', disk_format='aki', container_format='aki')
    user.go('/create', 'Create server')
    user.until(lambda: len(browsers.Select(user.field('Image')).options) > 1, 'no images')
    offered = [option.text for option in browsers.Select(user.field('Image')).options]
    assert any(text.startswith('small') for text in offered)
    assert not any(text.startswith('kernel') for text in offered)


def test_no_other_image_takes_the_place_of_the_chosen_one(user, demo):
    image = demo.upload_image(name='retired')
    server = demo.boot(image, 'of-retired', networks='auto')['id']
    demo.wait_for(server)
    hidden = demo.request('PATCH', f'/image/v2/images/{image}', [{'op': 'add', 'path': '/os_hidden', 'value': True}],
                          headers={'Content-Type': 'application/openstack-images-v2.1-json-patch'})
    assert hidden.status_code == 200, hidden.text

    def chosen():
        choice = user.field('Image')
        user.until(lambda: len(browsers.Select(choice).options) > 1, 'no images')
        return (browsers.Select(choice).first_selected_option.text.partition(' ')[0],
                user.driver.execute_script('return arguments[0].checkValidity()', choice))

    def rebuild():
        user.go('/')
        user.go(f'/servers/{server}', 'of-retired')
        user.press('Actions')
        user.press('Rebuild', within="//*[@role='menu']")
        return chosen()
    assert rebuild() == ('retired', True)
    user.press('Cancel')
    user.go(f'/create?image={image}', 'Create server')
    assert chosen() == ('–', False)
    assert demo.post(f'/image/v2/images/{image}/actions/deactivate').status_code == 204
    assert rebuild() == ('–', False)
    user.press('Cancel')
    assert demo.delete(f'/servers/{server}').status_code == 204


def test_buckets_and_objects_are_managed(user, modules, tmp_path):
    file, content = tmp_path / "a b & c's.txt", b'bytes of an object'
    file.write_bytes(content)
    user.driver.execute_cdp_cmd('Browser.setDownloadBehavior', {
        'behavior': 'allow', 'downloadPath': str(tmp_path / 'x')})
    user.go('/buckets', 'Object store')
    user.press('Create bucket')
    user.type('Name', 'by-browser')
    confirm(user, 'Create bucket')
    user.says('Bucket by-browser created')
    user.press('by-browser', within='//main')
    user.heading('by-browser')
    user.press('Upload object', within="//section//*[@class='card-head']")
    user.field('File').send_keys(str(file))
    confirm(user, 'Upload object')
    user.until(lambda: user.one(f'//td[normalize-space()="{file.name}"]'), 'the object is not in the list')
    sound(user, modules)
    act(user, file.name, 'Download')
    confirm(user, 'Download')
    wait(lambda: any(path.read_bytes() == content for path in (tmp_path / 'x').glob('*.txt')))
    act(user, file.name, 'Delete')
    confirm(user, 'Delete')
    user.until(lambda: not user.one(f'//td[normalize-space()="{file.name}"]'), 'the object stays')


# ---- lists -----------------------------------------------------------------------

def test_a_list_has_a_total_pages_columns_and_an_address(user, keys, modules):
    user.go('/keypairs', 'Key pairs')
    user.until(lambda: f'1 to 50 of {KEYS}' in user.text(), 'no total')
    user.press('Next')
    user.says(f'51 to {KEYS} of {KEYS}')
    user.type('Find in this list', 'key-06')
    user.says('1 to 10 of 10')
    assert 'find=key-06' in user.driver.current_url
    user.press('Name', within='//thead')
    user.press('Name', within='//thead')
    user.until(lambda: user.css('tbody td.first')[0].text == 'key-069', 'it is not sorted')
    user.driver.refresh()
    user.says('1 to 10 of 10')
    assert user.css('tbody td.first')[0].text == 'key-069', 'the address holds the order'
    user.one("//summary[normalize-space()='View']").click()
    user.field('Fingerprint').click()
    user.until(lambda: not user.one("//thead//*[normalize-space()='Fingerprint']"), 'the column stays')
    sound(user, modules)


def test_all_matches_are_selected_and_named_before_they_are_deleted(user, keys, demo):
    user.go('/keypairs?find=key-0&size=20', 'Key pairs')
    user.says(f'1 to 20 of {KEYS}')
    user.css('thead input[type=checkbox]')[0].click()
    user.says('20 selected')
    user.press(f'Select all {KEYS} matches')
    user.says(f'{KEYS} selected')
    user.press('Delete', within="//div[@class='bulk']")
    user.until(lambda: user.one("//dialog[@open]//li[normalize-space()='key-000']"), 'they are not named')
    assert len(user.css('dialog[open] .names li')) == KEYS
    user.press('Delete', within='//dialog[@open]')
    user.says(f'{KEYS} done')
    wait(lambda: demo.get('/os-keypairs').json()['keypairs'] == [])


def test_short_pages_are_followed_and_a_deleted_marker_leads_to_the_first(user, cloud, demo):
    names = {row['name'] for row in demo.get('/servers').json()['servers']}
    cloud.conf.set_override('max_limit', 2, group='api')
    try:
        user.go('/servers?size=20', 'Servers')
        seen = set()
        for page in range(2):
            user.until(lambda page=page: f'{2 * page + 1} to {2 * page + 2} of {len(names)}' in user.text(), 'no page')
            seen |= {row.text for row in user.css('tbody tr')}
            if page == 0:
                user.press('Next')
        assert len(seen) == 4
    finally:
        cloud.conf.set_override('max_limit', 1000, group='api')
    for number in range(21):
        made = demo.post('/volume/v3/volumes', {'volume': {'name': f'of-pages-{number:02}', 'size': 1}})
        assert made.status_code == 202, made.text
    user.go('/volumes?size=20', 'Volumes')
    user.press('Next')
    user.says('Page 2')
    user.settled()
    marker = [address for _method, address, _headers in user.requests() if 'marker=' in address][-1]
    gone = marker.partition('marker=')[2].partition('&')[0]
    wait(lambda: demo.get(f'{VOLUMES}/{gone}').json()['volume']['status'] == 'available')
    assert demo.delete(f'{VOLUMES}/{gone}').status_code == 202
    wait(lambda: demo.get(f'{VOLUMES}/{gone}').status_code == 404)
    user.press('Load again')
    user.until(lambda: '1 to 20' in user.text() and not user.css('.refusal'), 'the list does not begin again')
    for row in demo.get(VOLUMES).json()['volumes']:
        if row['name'].startswith('of-pages'):
            demo.delete(f'{VOLUMES}/{row["id"]}')


# An API with 6,200 key pairs, 1,000 in a page.
FULL = '''
    const real = window.fetch;
    window.fetch = async (...given) => {
      const asked = new URL(given[0], location.href);
      if (!asked.pathname.endsWith('/os-keypairs')) return real(...given);
      const from = Number(asked.searchParams.get('marker') ?? 0), to = Math.min(from + 1000, 6200);
      const one = (_, at) => ({keypair: {name: `of-many-${from + at}`, fingerprint: 'ab'}});
      const keypairs = Array.from({length: to - from}, one);
      const links = to < 6200 ? [{rel: 'next', href: `${asked.origin}${asked.pathname}?marker=${to}`}] : [];
      return new Response(JSON.stringify({keypairs, keypairs_links: links}));
    };'''


def test_a_list_says_that_it_searches_the_first_rows_alone(user, tmp_path):
    user.driver.execute_cdp_cmd('Browser.setDownloadBehavior', {'behavior': 'allow', 'downloadPath': str(tmp_path)})
    user.go('/keypairs', 'Key pairs')
    assert 'Only the first' not in user.text()
    user.driver.execute_script(FULL)
    user.press('Load again')
    user.says('Only the first 5,000 rows are searched and sorted here')
    assert '1 to 50' in user.text() and 'of 5,000' not in user.text()
    user.one("//summary[normalize-space()='View']").click()
    user.press('Export as CSV')
    wait(lambda: (tmp_path / 'keypairs.csv').exists())
    assert len((tmp_path / 'keypairs.csv').read_text().splitlines()) == 6201
    user.css('thead input[type=checkbox]')[0].click()
    user.press('Select all matches')
    user.says('6,200 selected')
    user.driver.refresh()


def test_a_list_is_exported(user, demo, tmp_path):
    user.driver.execute_cdp_cmd('Browser.setDownloadBehavior', {'behavior': 'allow', 'downloadPath': str(tmp_path)})
    user.go('/servers', 'Servers')
    user.one("//summary[normalize-space()='View']").click()
    for kind in ('CSV', 'JSON'):
        user.press(f'Export as {kind}')
    wait(lambda: {path.name for path in tmp_path.iterdir()} >= {'servers.csv', 'servers.json'})
    rows = list(csv.DictReader((tmp_path / 'servers.csv').read_text().splitlines()))
    assert {'alpha', 'db-1'} <= {row['Name'] for row in rows}
    assert {row['id'] for row in json.loads((tmp_path / 'servers.json').read_text())} >= set(demo.servers)


def test_nothing_is_cut_at_1024_and_menus_fit_768(user, demo):
    try:
        user.size((1024, 768))
        for path, heading in (('servers', 'Servers'), ('volumes', 'Volumes'), ('ports', 'Ports'),
                              ('floating-ips', 'Floating addresses')):
            user.go('/' + path, heading)
            wide = user.driver.execute_script(
                'const frame = document.querySelector(".table-frame");'
                'return [document.documentElement.scrollWidth, frame ? frame.scrollWidth - frame.clientWidth : 0]')
            assert wide[0] <= 1024 and wide[1] <= 1, (path, wide)
        user.go('/servers', 'Servers')
        user.press('Actions of db-1')
        box = user.driver.execute_script(
            'const menu = document.querySelector(".menu-items").getBoundingClientRect();'
            'return [menu.top, menu.bottom, menu.left, menu.right]')
        assert 0 <= box[0] and box[1] <= 768 and 0 <= box[2] and box[3] <= 1024, box
        user.press('Delete', within="//*[@role='menu']")
        user.says('deleted permanently')
    finally:
        user.size(browsers.DESK)


def test_audit_records_of_a_period_are_listed(user, modules):
    user.go('/audit', 'Audit')
    user.requests()
    user.choose('Period', 'Last hour')
    user.says('identity:login')
    user.until(lambda: any('/os-audit?' in address and 'since=20' in address for _method, address, _headers in
                           user.requests()), 'the list has no period')
    sound(user, modules)


# ---- keys, trouble, the account ----------------------------------------------------

def test_menus_work_by_keys_and_return_the_focus(user, demo):
    user.go('/servers', 'Servers')
    focused = 'return document.activeElement.textContent.trim() || document.activeElement.getAttribute("aria-label")'
    user.press('Actions of alpha')
    keys = browsers.Keys
    user.keys(keys.END)
    assert user.driver.execute_script(focused) == 'Delete'
    user.keys(keys.HOME)
    assert user.driver.execute_script(focused) == 'Stop'
    user.keys('l', 'o')
    assert user.driver.execute_script(focused) == 'Lock'
    user.keys(keys.ENTER)
    user.until(lambda: user.css('dialog[open]'), 'no dialog')
    user.keys(keys.ESCAPE)
    user.until(lambda: user.driver.execute_script(focused) == 'Actions of alpha', 'the focus is lost')
    user.palette('createnetw')
    user.keys(keys.ENTER)
    user.heading('Networks')
    user.until(lambda: user.css('dialog[open]'), 'the palette opens no form')


def test_a_form_survives_an_expired_token(user, cloud, demo):
    name, password = credentials(cloud, 'demo')
    user.go('/networks', 'Networks')
    user.press('Create network')
    user.type('Name', 'kept')
    user.field('With a subnet').click()
    token = user.driver.execute_script('return JSON.parse(sessionStorage.getItem("nova.session")).token')
    headers = {'X-Auth-Token': token, 'X-Subject-Token': token}
    demo.session.delete(cloud.url + '/identity/v3/auth/tokens', headers=headers)
    user.press('Create network', within='//dialog[@open]')
    user.says('Your session has ended.')
    user.type('User', name)
    user.type('Password', password)
    user.press('Log in')
    user.until(lambda: user.field('Name').get_attribute('value') == 'kept', 'the form is empty')
    confirm(user, 'Create network')
    user.says('Network kept created')


def test_a_login_over_an_open_page_keeps_its_project(browser, cloud, demo):
    identity = callers.Identity(cloud.admin())
    name, password, ident = identity.user(f'/projects/{demo.project_id}', 'member')
    logged_in(browser, name, password)
    identity.grant(f'/projects/{identity.project("typed-before")}', ident, 'member')
    kept = {'user': name, 'domain': 'default', 'project': 'typed-before'}
    browser.driver.execute_script('localStorage.setItem("nova.login", arguments[0])', json.dumps(kept))
    browser.go('/networks', 'Networks')
    browser.press('Create network')
    browser.type('Name', 'half-typed')
    browser.field('With a subnet').click()
    session = 'return JSON.parse(sessionStorage.getItem("nova.session"))'
    token = browser.driver.execute_script(session)['token']
    demo.session.delete(cloud.url + '/identity/v3/auth/tokens',
                        headers={'X-Auth-Token': token, 'X-Subject-Token': token})
    browser.press('Create network', within='//dialog[@open]')
    browser.says('Your session has ended.')
    browser.type('Password', password)
    browser.press('Log in')
    browser.until(lambda: browser.field('Name').get_attribute('value') == 'half-typed', 'the form is empty')
    assert browser.driver.execute_script(session)['project']['id'] == demo.project_id
    assert json.loads(browser.driver.execute_script('return localStorage.getItem("nova.login")')) == kept


def test_a_page_recovers_when_the_services_answer_again(user, demo):
    def offline(away):
        user.driver.execute_cdp_cmd('Network.emulateNetworkConditions', {
            'offline': away, 'latency': 0, 'downloadThroughput': -1, 'uploadThroughput': -1})
    user.go('/images', 'Images')
    offline(True)
    try:
        user.press('Load again')
        user.says('The image service does not answer')
    finally:
        offline(False)
    user.until(lambda: not user.css('.refusal'), 'the page does not ask again')
    assert user.one("//td//*[normalize-space()='small']")


def test_the_password_is_changed(browser, cloud, demo):
    identity = callers.Identity(cloud.admin())
    name, password, _user = identity.user(f'/projects/{demo.project_id}', 'member')
    logged_in(browser, name, password)
    browser.go('/account', 'Account')
    browser.press('Change password')
    for label in ('New password', 'New password again'):
        browser.type(label, 'Ein-langes-Wort-9')
    browser.type('Current password', 'wrong')
    browser.press('Change password', within='//dialog[@open]')
    browser.says('The current password is wrong.')
    assert 'Your session has ended.' not in browser.text()
    assert browser.driver.execute_script('return sessionStorage.getItem("nova.session")')
    browser.type('Current password', password)
    browser.press('Change password', within='//dialog[@open]')
    wait(lambda: demo.session.post(cloud.url + '/identity/v3/auth/tokens', json={
        'auth': callers.by_password(name, 'Ein-langes-Wort-9', 'unscoped')}).status_code == 201)


def code_of(secret):
    return totp.code(totp.secret_of(secret), int(time.time() // totp.STEP_S))


def test_a_second_factor_is_set_up_and_required(browser, cloud, demo, modules):
    identity = callers.Identity(cloud.admin())
    name, password, user = identity.user(f'/projects/{demo.project_id}', 'member')
    logged_in(browser, name, password)
    browser.go('/account', 'Account')
    browser.says('A login needs the password only.')
    browser.press('Add device')
    secret = browser.field('Secret').get_attribute('value')
    assert browser.one(f"//dialog//code[contains(., 'secret={secret}&')]") and browser.css('dialog svg.qr path')
    browser.type('Code', '000000' if code_of(secret) != '000000' else '000001')
    browser.press('Add device', within='//dialog[@open]')
    browser.says('The code is wrong or has expired.')
    browser.press('Show as command')
    browser.says(f'openstack credential create --type totp {user} {secret}')
    assert browser.axe(modules) == []
    browser.type('Code', code_of(secret))
    confirm(browser, 'Add device')
    browser.says('No second factor is required: a code replaces the password.')
    devices = cloud.admin().get(f'/identity/v3/credentials?user_id={user}').json()['credentials']
    assert [row['blob'] for row in devices] == [secret]
    sound(browser, modules)
    logged_in(browser, *credentials(cloud, 'admin'))
    browser.go('/users', 'Users')
    act(browser, name, 'Require second factor')
    confirm(browser, 'Require second factor')
    browser.says(f'Login of {name} needs a second factor')
    act(browser, 'demo', 'Require second factor')
    browser.press('Require second factor', within='//dialog[@open]')
    browser.says('The user has no device and could not log in any more.')
    answer = demo.session.post(cloud.url + '/identity/v3/auth/tokens', json={
        'auth': callers.by_password(name, password, 'unscoped')})
    assert (answer.status_code, answer.json()['required_auth_methods']) == (401, [['password', 'totp']])


# A page over plain HTTP has no clipboard.
INSECURE = "Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})"


def test_account_page_creates_keys_and_offers_files(user, demo, modules, tmp_path):
    user.driver.execute_cdp_cmd('Browser.setDownloadBehavior', {'behavior': 'allow', 'downloadPath': str(tmp_path)})
    user.go('/account', 'Account')
    user.press('Create EC2 key')
    user.press('Create EC2 key', within='//dialog[@open]')
    user.says('AWS_SECRET_ACCESS_KEY=')
    user.driver.execute_script(INSECURE)
    user.press('Copy', within='//dialog[@open]')
    user.says('Select the text and copy it', 10)
    user.driver.execute_script('delete navigator.clipboard')
    user.press('Close')
    made = demo.get(f'/identity/v3/users/{demo.user_id}/credentials/OS-EC2').json()['credentials']
    user.says(made[0]['access'])
    for name in ('clouds.yaml', 'openrc.sh'):
        user.press(name)
        wait(lambda name=name: (tmp_path / name).exists())
    assert 'username: "demo"' in (tmp_path / 'clouds.yaml').read_text()
    assert "export OS_USERNAME='demo'" in (tmp_path / 'openrc.sh').read_text()
    sound(user, modules)
    picture(user, 'account')


def test_the_console_is_inside_the_page(user, demo, modules):
    user.go(f'/servers/{demo.servers[0]}/console', 'alpha')
    sound(user, modules)
    user.press('Connect')
    user.until(lambda: user.css('iframe.console') or user.css('main .refusal'), 'neither a console nor a refusal')
    frames = user.css('iframe.console')
    assert frames, user.text()
    user.driver.switch_to.frame(frames[0])
    try:
        user.until(lambda: user.css('#console'), 'the frame is refused')
    finally:
        user.driver.switch_to.default_content()
    time.sleep(0.2)                                      # until the connection of the fake guest fails
    user.complaints()


def test_serial_console_sends_single_bytes_and_long_pastes(browser, cloud, demo):
    """A byte of a mouse report became two, and a long paste was one message, which ended the session."""
    guest = guests.Hypervisor(vnc=False)
    try:
        url, _socket, _token = consoles.url_of(cloud, demo, demo.servers[0], guest, 'serial')
        browser.driver.get(url.replace('ws://', 'http://'))
        browser.says('Connected')
        report = '\x1b[M \xc8!'
        browser.driver.execute_script('window.terminal._core.coreService.triggerBinaryEvent(arguments[0])', report)
        browser.until(lambda: guest.seen == report.encode('latin-1'), 'the report does not arrive')
        browser.driver.execute_script('window.terminal.paste("ü".repeat(150000))')
        browser.until(lambda: guest.seen.endswith(b'\xc3\xbc' * 150000), 'the paste does not arrive')
        assert len(guest.seen) == len(report) + 300000
    finally:
        guest.close()


def test_a_rescued_server_has_a_console(user, demo):
    server = demo.servers[1]
    assert demo.post(f'/servers/{server}/action', {'rescue': {}}).status_code == 200
    demo.wait_for(server, 'RESCUE')
    try:
        user.go(f'/servers/{server}/console', 'web-1')
        assert user.one("//nav//a[normalize-space()='Console']")
        user.press('Connect')
        user.until(lambda: user.css('iframe.console'), 'no console')
    finally:
        assert demo.post(f'/servers/{server}/action', {'unrescue': None}).status_code == 202
        demo.wait_for(server)
    user.complaints()


def test_a_console_opens_under_the_name_of_the_page(user, cloud, demo):
    other = cloud.url.replace('127.0.0.1', 'localhost')
    user.driver.get(other + '/dashboard/')
    user.type('User', credentials(cloud, 'demo')[0])
    user.type('Password', credentials(cloud, 'demo')[1])
    user.press('Log in')
    user.heading('Overview')
    user.go(f'/servers/{demo.servers[1]}', 'web-1')
    user.press('Open console')
    user.press('Open console', within='//dialog[@open]')
    opened = user.until(lambda: user.one("//dialog//a[normalize-space()='Open the console']"), 'no console')
    assert opened.get_attribute('href').startswith(other + '/console')
    user.says('Everyone who has this address can use the console.')
    user.press('Close')


def test_readers_are_offered_no_change(reader, demo, modules):
    for path, heading in (('', 'Overview'), ('volumes', 'Volumes'), ('snapshots', 'Snapshots'), ('backups', 'Backups'),
                          ('images', 'Images'), ('server-groups', 'Server groups')):
        reader.go('/' + path, heading)
        assert not reader.css('main .page-actions .primary'), path
        assert not reader.one("//*[starts-with(@aria-label, 'Select ')]"), path
        assert ('Image storage' in reader.text()) == (not path)
    reader.go(f'/servers/{demo.servers[0]}', 'alpha')
    assert not reader.one("//main//button[normalize-space()='Stop']")
    assert not reader.one("//main//a[normalize-space()='Console log']")
    sound(reader, modules)


def test_server_groups_with_several_policies_and_metadata(user, demo, modules):
    user.go('/server-groups', 'Server groups')
    user.press('Create server group')
    user.type('Name', 'database')
    user.one("//dialog//label[contains(., 'network-proximity')]/input").click()
    user.type('Servers on one host at most', '2')
    user.press('Show as command')
    user.says('server policy group create --policy anti-affinity --policy network-proximity database')
    confirm(user, 'Create server group')
    user.says('Server group database created')

    def stored():
        return next(row for row in demo.get('/os-server-groups').json()['server_groups'] if row['name'] == 'database')
    assert stored()['nova:policies'] == ['anti-affinity', 'network-proximity']
    assert stored()['rules'] == {'max_server_per_host': 2}
    user.press('database', within='//main')
    user.heading('database')
    user.press('Set metadata')
    user.type('Key', 'tier')
    user.type('Value', 'gold')
    confirm(user, 'Set metadata')
    user.until(lambda: user.one("//td[normalize-space()='tier']"), 'no metadata')
    path = f'/os-server-groups/{stored()["id"]}/metadata'
    assert demo.get(path).json()['metadata'] == {'tier': 'gold'}
    sound(user, modules)
    user.press('Actions', within="//header[@class='page-head']")
    user.press('Edit', within="//*[@role='menu']")
    label = "//dialog//label[starts-with(normalize-space(), 'anti-affinity')]/input"
    user.until(lambda: user.one(label), 'no form').click()
    assert user.axe(modules) == []
    confirm(user, 'Edit')
    user.says('Server group database changed')
    assert stored()['policy'] == 'network-proximity'


def test_usage_adds_up_all_pages(user, cloud, demo):
    cloud.conf.set_override('max_limit', 2, group='api')
    try:
        user.go('/usage', 'Usage')
        user.until(lambda: user.css('tbody tr'), 'no usage')
        whole = demo.get(f'/os-simple-tenant-usage/{demo.project_id}', version='2.1').json()['tenant_usage']
        assert len(whole['server_usages']) >= len(demo.servers)
        rows = [row.text for row in user.css('tbody tr')]
        assert len(rows) == 1 + len(whole['server_usages']) and f' {len(rows) - 1} ' in ' '.join(rows[0].split())
        assert all(any(one['name'] in row for row in rows) for one in whole['server_usages'])
    finally:
        cloud.conf.set_override('max_limit', 1000, group='api')


# ---- administration ----------------------------------------------------------------

def test_quotas_of_every_service_are_set(admin, cloud, demo, modules):
    admin.go('/projects', 'Projects and quotas')
    admin.press('demo', within='//main')
    admin.heading('demo')
    admin.press('Set quota')
    admin.type('Servers', '33')
    admin.one("//dialog[@open]//summary[normalize-space()='More']").click()
    admin.type('Volumes', '44')
    admin.type('Routers', '7')
    admin.type('Image storage (MiB)', '3')
    admin.press('Show as command')
    admin.says('--instances 33 --volumes 44 --routers 7')
    admin.says('--resource-limit 3 image_size_total')
    confirm(admin, 'Set quota')
    admin.says('Quota of demo set')
    boss, project = cloud.admin(), demo.project_id
    assert boss.get(f'/os-quota-sets/{project}').json()['quota_set']['instances'] == 33
    assert boss.get(f'/volume/v3/os-quota-sets/{project}').json()['quota_set']['volumes'] == 44
    assert boss.get(f'/network/v2.0/quotas/{project}').json()['quota']['router'] == 7
    assert demo.get('/image/v2/info/usage').json()['usage']['image_size_total']['limit'] == 3
    admin.press('Set quota')
    admin.one("//dialog[@open]//summary[normalize-space()='More']").click()
    admin.type('Image storage (MiB)', '4')
    confirm(admin, 'Set quota')
    admin.until(lambda: demo.get('/image/v2/info/usage').json()['usage']['image_size_total']['limit'] == 4, 'not set')
    sound(admin, modules)


def test_administrators_list_volumes_of_all_projects(admin, demo, modules):
    assert demo.post('/volume/v3/volumes', {'volume': {'name': 'of-another', 'size': 1}}).status_code == 202
    admin.go('/volumes', 'Volumes')
    assert 'of-another' not in admin.text()
    admin.field('All projects').click()
    admin.until(lambda: [row for row in admin.css('tbody tr') if 'of-another' in row.text and 'demo' in row.text],
                'the volume is not listed with its project')
    sound(admin, modules)


def test_categories_with_requirements_are_edited_and_purged(admin, cloud, modules):
    admin.go('/categories', 'Instance categories')
    admin.press('Create category')
    admin.type('Name', 'storage')
    admin.choose('Flavor', 'm1.nano')
    admin.type('Requirements of hosts', 'local_ssd=true')
    confirm(admin, 'Create category')
    admin.says('Category storage created')
    act(admin, 'storage', 'Edit')
    admin.type('Description', 'controllers')
    confirm(admin, 'Edit')
    found = cloud.admin().get('/os-instance-categories/storage').json()['instance_category']
    assert (found['description'], found['requirements']) == ('controllers', {'local_ssd': 'true'})
    admin.go('/create', 'Create server')
    admin.one("//summary[normalize-space()='More']").click()
    admin.choose('Instance category', 'storage')
    admin.go('/categories?deleted=1', 'Instance categories')
    act(admin, 'storage', 'Delete')
    confirm(admin, 'Delete')
    act(admin, 'storage', 'Purge')
    confirm(admin, 'Purge')
    admin.says('Category storage purged')
    sound(admin, modules)


def test_flavors_have_swap_and_access(admin, cloud, demo, modules):
    admin.go('/flavors', 'Flavors')
    admin.press('Create flavor')
    admin.type('Name', 'private-flavor')
    admin.type('Swap', '64')
    admin.type('Ephemeral disk', '2')
    admin.field('Public').click()
    confirm(admin, 'Create flavor')
    admin.says('Flavor private-flavor created')
    admin.press('private-flavor', within='//main')
    admin.heading('private-flavor')
    admin.press('Grant access', within="//section//*[@class='card-head']")
    admin.choose('Project', 'demo')
    confirm(admin, 'Grant access')
    admin.says('Access to private-flavor granted')
    flavor = next(row for row in demo.get('/flavors/detail').json()['flavors'] if row['name'] == 'private-flavor')
    assert (flavor['swap'], flavor['OS-FLV-EXT-DATA:ephemeral']) == (64, 2)
    sound(admin, modules)


def test_a_host_is_drained_on_the_map(admin, cloud, demo, modules):
    boss = cloud.admin()
    made = boss.post('/os-aggregates', {'aggregate': {'name': 'pool'}}).json()['aggregate']
    for host in ('host1', 'host2', 'host3'):
        assert boss.post(f'/os-aggregates/{made["id"]}/action', {'add_host': {'host': host}}).status_code == 200
    shown = boss.get(f'/servers/{demo.servers[0]}').json()['server']
    host = shown['OS-EXT-SRV-ATTR:host']
    admin.go('/hosts', 'Hosts')
    admin.until(lambda: [tile for tile in admin.css('.tile') if host in tile.text], 'no tile')[0].click()
    admin.press('Drain', within='//section')
    admin.press('Show as command')
    admin.says(f'openstack host maintenance start --aggregate pool {host}')
    assert admin.axe(modules) == []
    confirm(admin, 'Drain')
    admin.says(f'Host {host} is being drained')
    admin.until(lambda: any(host in tile.text and 'maintenance' in tile.text for tile in admin.css('.tile')),
                'the map does not follow the maintenance', 60)
    shown = boss.get(f'/servers/{demo.servers[0]}').json()['server']
    assert shown['OS-EXT-SRV-ATTR:host'] != host
    sound(admin, modules)
    admin.press('End maintenance', within='//section')
    confirm(admin, 'End maintenance')
    admin.until(lambda: not admin.one("//section[.//h2[normalize-space()='Maintenance']]"), 'it does not end', 60)
    wait(lambda: boss.get(f'/servers/{demo.servers[0]}').json()['server']['OS-EXT-SRV-ATTR:host'] == host)


def test_hosts_have_names_while_they_are_few(admin, modules):
    admin.go('/hosts', 'Hosts')
    admin.until(lambda: [tile for tile in admin.css('.tile') if 'host2' in tile.text], 'no tile')[0].click()
    admin.until(lambda: admin.one("//h2[starts-with(., 'host2')]"), 'no host is chosen')
    sound(admin, modules)


def test_an_aggregate_is_chosen_before_a_host_of_several_is_drained(admin, cloud, demo):
    boss = cloud.admin()
    made = {}
    others = {f'of-drain-{number}': ('host3',) for number in range(2, 32)}
    for name, hosts in {'of-drain-1': ('host1', 'host2'), **others, 'of-drain-32': ('host1', 'host3')}.items():
        made[name] = boss.post('/os-aggregates', {'aggregate': {'name': name}}).json()['aggregate']['id']
        for host in hosts:
            assert boss.post(f'/os-aggregates/{made[name]}/action', {'add_host': {'host': host}}).status_code == 200
    admin.go('/hosts', 'Hosts')
    admin.until(lambda: [tile for tile in admin.css('.tile') if 'host1' in tile.text], 'no tile')[0].click()
    admin.press('Drain', within='//section')
    admin.press('Drain', within='//dialog[@open]')
    assert admin.css('dialog[open] select:invalid'), 'an aggregate is chosen for the operator'
    admin.choose('Aggregate', 'of-drain-32')
    confirm(admin, 'Drain')
    admin.says('Host host1 is being drained')
    started, = boss.get(f'/os-aggregates/{made["of-drain-32"]}/os-host-maintenance').json()['os-host-maintenance']
    assert started['host'] == 'host1'
    admin.press('End maintenance', within='//section')        # it is the 32nd aggregate whose maintenance is asked for
    confirm(admin, 'End maintenance')
    admin.until(lambda: not admin.one("//section[.//h2[normalize-space()='Maintenance']]"), 'it does not end', 60)
    for name, ident in made.items():
        for host in boss.get(f'/os-aggregates/{ident}').json()['aggregate']['hosts']:
            boss.post(f'/os-aggregates/{ident}/action', {'remove_host': {'host': host}})
        assert boss.delete(f'/os-aggregates/{ident}').status_code == 200, name
