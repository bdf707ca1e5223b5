"""The dashboard in a real browser: every page and action against a whole cloud with the fake driver.

Pictures go where NOVA_TEST_PICTURES names a directory, as doc/source/user/dashboard has them.
"""
import base64
import math
import os
import shutil
import subprocess
import threading
import time

import pytest

from nova import actions
from nova.db import statements
from nova.db.servers import counter_rings
from nova.db.tables import cell as tables
from nova.identity import totp
from nova.objects import counters
from nova.tests import long_runs
from nova.tests import machine
from nova.tests import server_rows
from nova.tests.support import waiting

from nova.tests.functional import callers
from nova.tests.functional import cloud_rows
from nova.tests.integration import browser as browsers
from nova.tests.integration import dashboard_cloud
from nova.tests.integration.dashboard_cloud import admin
from nova.tests.integration.dashboard_cloud import browser
from nova.tests.integration.dashboard_cloud import cloud
from nova.tests.integration.dashboard_cloud import credentials
from nova.tests.integration.dashboard_cloud import demo
from nova.tests.integration.dashboard_cloud import logged_in
from nova.tests.integration.dashboard_cloud import modules
from nova.tests.integration.dashboard_cloud import picture
from nova.tests.integration.dashboard_cloud import sound
from nova.tests.integration.dashboard_cloud import user
from nova.tests.integration.dashboard_cloud import wait
from nova.tests.support.dashboard import ADMIN_PAGES
from nova.tests.support.dashboard import USER_PAGES


__all__ = ('admin', 'browser', 'cloud', 'demo', 'modules', 'user')
pytestmark = dashboard_cloud.NEEDS_CHROMIUM
CANARY = '<img src=x onerror="window.hacked=1"><b>bold</b>'
FIRST_VIEW_S = 1.0
BOUND = 120_000                                       # bytes of login and overview
MANY, LIST_S, MAP_S = 10_000, 5.0, 30.0               # of a processor: a browser, its driver and a cloud
# ---- login, session -------------------------------------------------------------

def test_first_view_is_small_and_fast(cloud, demo, tmp_path):
    """Of a browser that has never been here: the login, and the overview after it. Neighbours on the machine make it
    slower, never faster, so the best of six counts, divided by how slow the machine is at that moment.
    """
    seen = []
    while len(seen) < 6 and (not seen or max(seen[-1][0], seen[-1][2]) >= FIRST_VIEW_S * 1000):
        before, visited = machine.slowness(), visit(cloud, tmp_path / str(len(seen)))
        slowness = max(before, machine.slowness())
        took, sent, again, whole = visited[0] / slowness, visited[1], visited[2] / slowness, visited[3]
        seen.append((took, sent, again, whole))
        print(f'first view after {took:.0f} ms with {sent} bytes, overview after {again:.0f} ms with {whole} in all')
        assert 0 < sent <= whole < BOUND
    assert max(seen[-1][0], seen[-1][2]) < FIRST_VIEW_S * 1000, seen


def visit(cloud, profile):
    """(ms, bytes) of the first view and of the overview, by a browser of its own."""
    browser = browsers.Browser(cloud.url, profile)
    try:
        browser.open()
        browser.heading('Cloud dashboard')
        first = first_view(browser)
        browser.login(*credentials(cloud, 'demo'))
        browser.settled()
        browser.open()
        browser.heading('Overview')
        return (*first, *first_view(browser))
    finally:
        browser.quit()


def first_view(browser):
    """(ms until the page shows something, compressed bytes of its files)."""
    # its text is there before it is painted
    browser.until(lambda: browser.driver.execute_script(
        'return performance.getEntriesByName("first-contentful-paint").length'), 'nothing is painted')
    return browser.driver.execute_script('''
        const files = performance.getEntriesByType("resource").filter(entry => entry.name.includes("/dashboard/"));
        return [performance.getEntriesByName("first-contentful-paint")[0].startTime,
                files.reduce((sum, entry) => sum + entry.encodedBodySize, 0)];''')


def test_a_wrong_password_is_reported(browser, cloud, modules):
    browser.open()
    browser.driver.execute_script('sessionStorage.clear(); localStorage.clear()')
    browser.open()
    browser.heading('Cloud dashboard')
    assert browser.axe(modules) == []
    picture(browser, 'login')
    browser.type('User', 'nobody')
    browser.type('Password', 'wrong')
    browser.press('Log in')
    browser.says('User name, password, domain or project is wrong.')


def test_login_asks_for_a_passcode_of_users_with_totp(browser, cloud, demo):
    admin, blob = cloud.admin(), base64.b32encode(os.urandom(20)).decode()
    identity = callers.Identity(admin)
    project = identity.project('guarded')
    name, password, user = identity.user(f'/projects/{project}', 'member')
    made = admin.post('/identity/v3/credentials', {'credential': {'type': 'totp', 'user_id': user, 'blob': blob}})
    assert made.status_code == 201, made.text
    changed = admin.request('PATCH', f'/identity/v3/users/{user}', {'user': {'options': {
        'multi_factor_auth_enabled': True, 'multi_factor_auth_rules': [['password', 'totp']]}}})
    assert changed.status_code == 200, changed.text
    browser.open()
    browser.driver.execute_script('sessionStorage.clear(); localStorage.clear()')
    browser.open()
    browser.type('User', name)
    browser.type('Password', password)
    browser.press('Log in')
    browser.type('Passcode', totp.code(totp.secret_of(blob), int(time.time() // totp.STEP_S)))
    browser.press('Log in')
    browser.heading('Overview')


def test_axe_is_asked_in_earnest(user, modules):
    user.driver.execute_script('document.querySelector("main").append(document.createElement("img"))')
    assert any(line.startswith('image-alt') for line in user.axe(modules))


def test_logout_revokes_the_token_and_leaves_nothing(user, cloud, demo):
    token = user.driver.execute_script('return JSON.parse(sessionStorage.getItem("nova.session")).token')
    user.press('Log out')
    user.heading('Cloud dashboard')
    assert user.driver.execute_script('return sessionStorage.length') == 0
    assert demo.session.get(cloud.url + '/v2.1/servers', headers={'X-Auth-Token': token}).status_code == 401


def test_refusals_are_not_shown_to_the_next_user(user, cloud, demo):
    for number in range(2):
        assert demo.post('/os-keypairs', {'keypair': {'name': f'secret-name-{number}', 'type': 'ssh', 'public_key':
            'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEYVDRFzYbjqnYMHZ5MTW8NQfgmLZRbKOlqWYfbYpGnT'}}).status_code == 201
    user.go('/keypairs?find=secret-name', 'Key pairs')
    user.until(lambda: len(user.css('tbody tr')) == 2, 'not two rows')
    user.css('thead input[type=checkbox]')[0].click()
    for number in range(2):
        demo.delete(f'/os-keypairs/secret-name-{number}')
    user.press('Delete', within="//div[@class='bulk']")
    user.press('Delete', within='//dialog[@open]')
    user.says('Delete: secret-name-1')
    user.press('Log out')
    user.heading('Cloud dashboard')
    assert 'secret-name' not in user.driver.current_url
    name, password = credentials(cloud, 'admin')
    user.type('User', name)
    user.type('Password', password)
    user.press('Log in')
    user.heading('Overview')
    user.go('/security-groups', 'Security groups')
    user.press('Create security group')
    user.type('Name', 'of-the-next')
    user.press('Create security group', within='//dialog[@open]')
    user.until(lambda: user.css('.notice.done'), 'nothing is said')
    assert 'secret-name' not in user.text()


def test_a_session_that_ends_leads_to_the_login(user, cloud, demo):
    token = user.driver.execute_script('return JSON.parse(sessionStorage.getItem("nova.session")).token')
    headers = {'X-Auth-Token': token, 'X-Subject-Token': token}
    demo.session.delete(cloud.url + '/identity/v3/auth/tokens', headers=headers)
    user.press('Load again') if user.one("//button[@aria-label='Load again']") else user.go('/servers')
    user.says('Your session has ended.')


def test_the_token_is_in_headers_alone(user, cloud, demo):
    token = user.driver.execute_script('return JSON.parse(sessionStorage.getItem("nova.session")).token')
    for path, heading in USER_PAGES.items():
        user.go('/' + path, heading)
    requests = user.requests()
    assert len(requests) > 30
    assert not [url for _method, url, _headers in requests if token in url]
    assert not [url for _method, url, headers in requests if 'Cookie' in headers]
    assert token not in user.driver.current_url and user.driver.get_cookies() == []
    assert not any(token in (user.driver.execute_script('return localStorage.getItem(arguments[0])', key) or '')
                   for key in user.driver.execute_script('return Object.keys(localStorage)'))


def test_another_project_leaves_nothing_of_the_first(browser, cloud, demo, admin):
    root = cloud.admin('2.96')
    project = root.get('/identity/v3/projects?name=demo').json()['projects'][0]['id']
    role = root.get('/identity/v3/roles?name=member').json()['roles'][0]['id']
    membership = f'/identity/v3/projects/{project}/users/{root.user_id}/roles/{role}'
    assert root.put(membership).status_code == 204
    own = root.boot(root.upload_image(name='own'), 'of-admin', networks='auto')['id']
    root.wait_for(own)
    try:
        admin.driver.refresh()
        admin.go('/servers', 'Servers')
        admin.says('of-admin')
        admin.choose('Project', 'demo')
        admin.heading('Overview')
        admin.go('/servers', 'Servers')
        admin.says('alpha')
    finally:
        assert root.delete(membership).status_code == 204
    assert 'of-admin' not in admin.text()
    seen = admin.driver.execute_script('return document.documentElement.outerHTML + JSON.stringify(sessionStorage)')
    assert 'of-admin' not in seen and own not in seen
    assert root.delete(f'/servers/{own}').status_code == 204


# ---- every page ----------------------------------------------------------------

def walk_pages(browser, modules, pages, picture_of):
    """Open each of {path: heading}: the rules of accessibility hold, and nothing is refused."""
    for path, heading in pages.items():
        browser.go('/' + path, heading)
        assert browser.axe(modules) == [], path
        assert browser.complaints() == [], path
        assert not browser.css('.refusal'), (path, browser.text())
        picture(browser, picture_of(path))


def test_pages_of_users_open_and_pass_axe(user, modules):
    walk_pages(user, modules, USER_PAGES, lambda path: path or 'overview')


def test_pages_of_administrators_open_and_pass_axe(admin, modules):
    walk_pages(admin, modules, ADMIN_PAGES, str)


def test_plots_continue_with_new_values(admin):
    admin.go('/metrics', 'Metrics')
    admin.until(lambda: len(admin.css('svg.plot')) == 11, 'a plot is missing')
    admin.until(lambda: 'MiB' in admin.text(), 'the memory of the process is not shown')
    admin.until(lambda: admin.css('.plot-lines li strong')[0].text not in ('–', '0'), 'no request was counted')
    picture(admin, 'metrics')


def measure(cloud, server, hours=30):
    """Store samples as its host would have sent them: a load that rises and falls every two hours."""
    now, cpu_s = int(time.time()), 0.0
    with cloud.cell_db.writer() as conn:
        statements.delete(conn, tables.counter_rings, owner_uuid=server)      # rings take no sample before their newest
        for number in range(hours * 180):
            load = 1 + math.sin(number / 57)
            cpu_s += 20 * load / 4
            found = counters.Counters('1', int((200 + 100 * load) * 2 ** 20), int(cpu_s * 1e9), *(
                int(cpu_s * factor) for factor in (2 ** 20, 3 * 2 ** 20, 40, 90, 250_000, 90_000, 300, 150)))
            counter_rings.record(conn, 'before', number, {server: found}, now - (hours * 180 - 1 - number) * 20)


def drawn(user):
    """The lines of all charts."""
    return [line.get_attribute('d') for line in user.css('svg.plot path')]


def test_charts_of_a_server(user, cloud, demo, modules):
    server, began = demo.servers[0], time.monotonic()
    user.go(f'/servers/{demo.servers[3]}/usage', 'db-1')
    measure(cloud, server)
    user.go(f'/servers/{server}/usage', 'alpha')
    user.until(lambda: len(user.css('svg.plot')) == 6, 'a chart is missing')
    for period, rows in (('Hour', 170), ('Day', 700), ('Week', 100)):
        user.press(period)
        user.until(lambda: user.css('[aria-pressed=true]')[0].text == period, 'the period is not chosen')
        user.settled()
        user.until(lambda: [line.count('L') > 40 for line in drawn(user)] == 10 * [True], f'the {period} is not drawn')
        assert 'NaN' not in str(drawn(user))
        user.css('.plot-values summary')[0].click()
        if period == 'Hour':
            rows -= (time.monotonic() - began) // 20                     # nobody measures any more
        user.until(lambda: len(user.css('.plot-table tbody tr')) >= rows, f'the table of the {period} is not complete')
        user.until(lambda: ' %' in user.css('.plot-table tbody td')[0].text, 'the table has no values')
        user.css('.plot-values summary')[0].click()
        picture(user, f'server-usage-{period.lower()}')
    user.css('.plot-values summary')[2].click()
    sound(user, modules)
    user.scheme('dark')
    user.size(browsers.PHONE)
    try:
        assert user.axe(modules) == []
        picture(user, 'dark-server-usage')
    finally:
        user.scheme('light')
        user.size(browsers.DESK)


def test_tabs_of_a_server_open_and_pass_axe(user, demo, modules):
    tabs = ('overview', 'usage', 'timeline', 'log', 'interfaces', 'volumes', 'metadata', 'tags', 'security')
    walk_pages(user, modules, {f'servers/{demo.servers[0]}/{tab}': 'alpha' for tab in tabs},
               lambda path: 'server-' + path.rpartition('/')[2])


def test_users_see_no_page_of_administrators(user):
    assert 'ADMINISTRATION' not in user.text() and 'Hypervisors' not in user.text()
    user.go('/hypervisors')
    user.says("doesn't allow")


def test_dark_pages_fit_a_phone_and_pass_axe(user, demo, modules):
    try:
        user.scheme('dark')
        user.size(browsers.PHONE)
        for path in ('', 'servers', 'create', 'volumes'):
            user.go('/' + path, USER_PAGES[path])
            assert user.axe(modules) == []
            across = user.driver.execute_script('return document.documentElement.scrollWidth')
            assert across <= browsers.PHONE[0], f'{path} is {across} wide'
            picture(user, f'phone-{path or "overview"}')
        user.press('Navigation')
        user.press('Images', within='//nav')
        user.heading('Images')
        user.size(browsers.DESK)
        user.go(f'/servers/{demo.servers[0]}', 'alpha')
        assert user.axe(modules) == []
        picture(user, 'dark-server')
    finally:
        user.scheme('light')
        user.size(browsers.DESK)


# ---- what comes from APIs is text -------------------------------------------------

def test_markup_in_names_is_text(user, demo):
    server = demo.boot(demo.image, CANARY, networks='auto')['id']
    demo.wait_for(server)
    for path in ('', 'servers', 'topology?as=list', 'usage'):
        user.go('/' + path, USER_PAGES[path.partition('?')[0]])
        user.says(CANARY)
    user.go(f'/servers/{server}', CANARY)
    assert user.driver.execute_script('return window.hacked') is None
    assert user.css('main img') == [] and user.css('main b') == []
    demo.delete(f'/servers/{server}')
    demo.wait_for(server, 'DELETED')


def test_the_browser_lets_no_script_and_no_markup_in(user):
    found = user.driver.execute_script('''
        const element = document.createElement('div'); document.body.append(element);
        try { element.innerHTML = '<img src=x>'; return 'taken'; } catch (error) { return error.name; }''')
    assert found == 'TypeError'
    user.driver.execute_script('''
        const script = document.createElement('script');
        script.append(document.createTextNode('window.hacked = 1'));
        document.body.append(script);''')
    assert user.driver.execute_script('return window.hacked') is None
    user.complaints()


# ---- actions ---------------------------------------------------------------------

def test_a_server_is_created_followed_and_deleted(user, demo):
    user.go('/create', 'Create server')
    user.type('Name', 'by-browser')
    user.choose('Flavor', 'm1.nano')
    user.choose('Image', 'small')
    user.says('+ 1 of')
    user.press('Show as command')
    user.says('openstack server create --flavor')
    picture(user, 'create-filled')
    user.press('Create server', within='//main')
    user.heading('by-browser')
    user.until(lambda: user.css('.page-head .badge.good'), 'it does not become active')
    user.says('build instance')
    server = demo.get('/servers?name=by-browser').json()['servers'][0]['id']
    user.press('Actions')
    user.press('Pause')
    user.press('Pause')
    user.until(lambda: 'PAUSED' in user.text(), 'it is not paused')
    assert user.one("//main//button[normalize-space()='Stop']") is None, 'a paused server is not stopped'
    user.press('Unpause')
    user.press('Unpause')
    user.until(lambda: 'ACTIVE' in user.text(), 'it is not active again')
    user.press('Actions')
    user.press('Delete')
    user.says('deleted permanently')
    user.press('Delete')
    user.heading('Servers')
    demo.wait_for(server, 'DELETED')


# The first POST /servers is carried out, and its answer is lost.
LOSE = '''
    const real = window.fetch;
    window.fetch = async (...given) => {
      const answer = await real(...given);
      if (given[1]?.method !== 'POST' || !String(given[0]).endsWith('/servers')) return answer;
      window.fetch = real;
      throw new TypeError('the answer is lost');
    };'''


def test_a_lost_answer_creates_no_second_server(user, demo):
    user.go('/create', 'Create server')
    user.type('Name', 'only-once')
    user.choose('Flavor', 'm1.nano')
    user.choose('Image', 'small')
    user.driver.execute_script(LOSE)
    user.press('Create server', within='//main')
    user.says('does not answer')
    user.press('Create server', within='//main')
    user.heading('only-once')
    server, = demo.get('/servers?name=only-once').json()['servers']
    demo.wait_for(server['id'])
    assert demo.delete(f'/servers/{server["id"]}').status_code == 204


# (label, action of nova/actions.py, status afterwards, {field: value}): one after the other on one server
WALK = [
    ('Pause', 'pause', 'PAUSED', {}), ('Unpause', 'unpause', 'ACTIVE', {}),
    ('Suspend', 'suspend', 'SUSPENDED', {}), ('Resume', 'resume', 'ACTIVE', {}),
    ('Reboot', 'reboot', 'ACTIVE', {}), ('Hard reboot', 'reboot-hard', 'ACTIVE', {}),
    ('Rescue', 'rescue', 'RESCUE', {}), ('Unrescue', 'unrescue', 'ACTIVE', {}),
    ('Create image', 'createImage', 'ACTIVE', {}), ('Back up', 'createBackup', 'ACTIVE', {}),
    ('Set password', 'changePassword', 'ACTIVE', {'New password': 'Ein-langes-Wort-9'}),
    ('Trigger crash dump', 'trigger_crash_dump', 'ACTIVE', {}),
    ('Rebuild', 'rebuild', 'ACTIVE', {'Image': 'small'}), ('Resize', 'resize', 'VERIFY_RESIZE', {'Flavor': 'm1.micro'}),
    ('Confirm resize', 'confirmResize', 'ACTIVE', {}), ('Lock', 'lock', 'ACTIVE', {'Reason': 'by test'}),
    ('Unlock', 'unlock', 'ACTIVE', {}), ('Stop', 'os-stop', 'SHUTOFF', {}), ('Start', 'os-start', 'ACTIVE', {}),
    ('Shelve', 'shelve', 'SHELVED_OFFLOADED', {}), ('Unshelve', 'unshelve', 'ACTIVE', {}),
]
ADMIN_WALK = [
    ('Migrate', 'migrate', 'VERIFY_RESIZE', {}), ('Revert resize', 'revertResize', 'ACTIVE', {}),
    ('Live migrate', 'os-migrateLive', 'ACTIVE', {}), ('Inject network', 'injectNetworkInfo', 'ACTIVE', {}),
    ('Reset state', 'os-resetState', 'ACTIVE', {'State': 'active'}), ('Delete', 'delete', 'DELETED', {}),
]


def test_actions_of_a_server_run_from_its_menu(user, cloud, demo):
    """Each is chosen from the menu, answered, and carried out: its record says so."""
    server = demo.boot(demo.image, 'walker', flavor='42', networks='auto')['id']
    demo.wait_for(server)
    walk(user, demo, server, WALK if long_runs.LONG else [*WALK[:2], *WALK[12:15]])
    user.press('Open console')
    user.press('Open console')
    user.until(lambda: user.one("//dialog//a[normalize-space()='Open the console'][@rel='noopener noreferrer']")
               or user.css('dialog .refusal'), 'neither a console nor a refusal')
    admin = logged_in(user, *credentials(cloud, 'admin'))
    walk(admin, cloud.admin('2.96'), server, ADMIN_WALK if long_runs.LONG else [*ADMIN_WALK[:2], ADMIN_WALK[-1]])


def walk(browser, client, server, steps):
    for label, action, status, values in steps:
        known = newest(client, server)
        browser.go('/')
        browser.go(f'/servers/{server}', 'walker')
        browser.press('Actions')
        browser.press(label, within="//*[@role='menu']")
        for field, value in values.items():
            if browser.field(field).tag_name == 'select':
                browser.choose(field, value)
            else:
                browser.type(field, value)
        browser.press(label, within='//dialog[@open]')
        client.wait_for(server, status)
        if status != 'DELETED':
            found = waiting.wait_for(lambda: newest(client, server) - known, 30, f'the record of {label}')
            assert {name for _request, name in found} <= {actions.ACTIONS[action].record}, (label, found)


def newest(client, server):
    """{(request id, action)} of what was done to a server."""
    return {(row['request_id'], row['action'])
            for row in client.get(f'/servers/{server}/os-instance-actions').json()['instanceActions']}


def test_overview_acts_on_a_server_that_has_changed(user, demo):
    """Three clicks from the first page, of which the last one confirms."""
    server = demo.boot(demo.image, 'short-way', flavor='42', networks='auto')['id']
    demo.wait_for(server)
    user.go('/', 'Overview')
    for label, status in (('Stop', 'SHUTOFF'), ('Delete', 'DELETED')):
        user.press('Actions of short-way')
        user.press(label, within="//*[@role='menu']")
        user.press(label, within='//dialog[@open]')
        demo.wait_for(server, status)
        user.until(lambda: not user.css('dialog[open]'), 'the dialog stays')
    user.until(lambda: 'short-way' not in user.css('.brief')[0].text, 'a deleted server stays')


def test_the_list_follows_and_acts_on_many(user, demo):
    made = [demo.boot(demo.image, f'many-{number}', networks='auto')['id'] for number in range(3)]
    for server in made:
        demo.wait_for(server)
    user.go('/servers', 'Servers')
    user.type('Find by name, address or id', 'many-')
    user.until(lambda: len(user.css('tbody tr')) == 3, 'not three rows')
    user.says('Live')
    demo.post(f'/servers/{made[0]}/action', {'os-stop': None})
    # in the table: the choice of a status above it names them all
    user.until(lambda: any('SHUTOFF' in row.text for row in user.css('tbody tr')), 'the stream says nothing')
    user.css('thead input[type=checkbox]')[0].click()
    user.says('3 selected')
    user.press('Stop')
    user.says('many-1')
    user.press('Stop')
    user.until(lambda: user.text().count('SHUTOFF') >= 3, 'they do not stop')
    picture(user, 'servers-many')
    for server in made:
        demo.delete(f'/servers/{server}')
        demo.wait_for(server, 'DELETED')


# Each page of the list is answered after 2.5 seconds.
SLOW = '''
    const real = window.fetch;
    window.ended = 0;
    window.fetch = async (...given) => {
      if (!String(given[0]).includes('/servers/detail')) return real(...given);
      await new Promise((go, stop) => {
        setTimeout(go, 2500);
        given[1].signal.addEventListener('abort', () => stop(given[1].signal.reason));
      });
      const answer = await real(...given);
      window.ended++;
      return answer;
    };'''


def test_a_list_is_loaded_while_its_servers_change(user, demo):
    user.go('/servers?find=web-', 'Servers')
    user.until(lambda: len(user.css('tbody tr')) == 2, 'not two rows')
    user.says('Live')
    user.driver.execute_script(SLOW)
    user.press('Flavor', within='//thead')
    ended = threading.Event()

    def change():
        number = 0
        while not ended.wait(0.5):
            number += 1
            elsewhere = {'server': {'description': f'change {number}'}}         # of a server that is not in the list
            demo.put(f'/servers/{demo.servers[0]}', elsewhere)
    changes = threading.Thread(target=change)
    changes.start()
    try:
        user.until(lambda: user.driver.execute_script('return window.ended') >= 2, 'renewals abort each other', 40)
    finally:
        ended.set()
        changes.join()
    user.driver.refresh()


# The first batch of a bulk action is answered, the second breaks.
BREAK = '''
    const real = window.fetch;
    window.sent = [];
    window.fetch = async (...given) => {
      if (!String(given[0]).endsWith('/servers/action')) return real(...given);
      const {ids} = JSON.parse(given[1].body)['os-bulk-action'];
      window.sent.push(ids);
      if (window.sent.length > 1) throw new TypeError('the connection is lost');
      return new Response(JSON.stringify({'os-bulk-action': {results: ids.map(id => ({id}))}}));
    };'''
# A POST or DELETE waits until the test lets it go.
HOLD = '''
    const real = window.fetch;
    window.held = [];
    window.fetch = async (...given) => {
      if (['POST', 'DELETE'].includes(given[1]?.method)) await new Promise(go => window.held.push(go));
      return real(...given);
    };'''


def test_a_batch_that_breaks_is_said_and_not_repeated(browser, cloud, demo):
    identity = callers.Identity(cloud.admin())
    project = identity.project('crowd')
    name, password, _user = identity.user(f'/projects/{project}', 'member')
    with cloud.cell_db.writer() as conn:
        server_rows.insert(conn, [server_rows.row(number, project_id=project) for number in range(150)])
    logged_in(browser, name, password)
    browser.go('/servers?size=500', 'Servers')
    browser.until(lambda: len(browser.css('tbody tr')) == 150, 'not all rows')
    browser.css('thead input[type=checkbox]')[0].click()
    browser.says('150 selected')
    browser.driver.execute_script(BREAK)
    browser.press('Hard reboot', within="//div[@class='bulk']")
    browser.press('Hard reboot', within='//dialog[@open]')
    browser.says('Hard reboot: 50 of 150 refused')
    browser.until(lambda: not browser.css('dialog[open]') and '150 selected' not in browser.text(), 'it stays open')
    batches = browser.driver.execute_script('return window.sent')
    assert [len(ids) for ids in batches] == [100, 50] and len({ident for ids in batches for ident in ids}) == 150
    browser.driver.refresh()


def test_cancel_ends_a_bulk_action_before_its_next_request(user, demo):
    for number in range(4):
        assert demo.post('/os-keypairs', {'keypair': {'name': f'to-keep-{number}', 'type': 'ssh', 'public_key':
            'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEYVDRFzYbjqnYMHZ5MTW8NQfgmLZRbKOlqWYfbYpGnT'}}).status_code == 201
    user.go('/keypairs?find=to-keep', 'Key pairs')
    user.until(lambda: len(user.css('tbody tr')) == 4, 'not four rows')
    user.css('thead input[type=checkbox]')[0].click()
    user.driver.execute_script(HOLD)
    user.press('Delete', within="//div[@class='bulk']")
    user.press('Delete', within='//dialog[@open]')
    user.until(lambda: user.driver.execute_script('return window.held.length'), 'nothing is sent')
    user.press('Cancel', within='//dialog[@open]')
    user.driver.execute_script('window.held[0]()')
    user.says('Delete: 1 done')
    user.until(lambda: len(user.css('tbody tr')) == 3, 'the list is not loaded again')
    assert user.driver.execute_script('return window.held.length') == 1
    assert len(demo.get('/os-keypairs').json()['keypairs']) >= 3
    user.driver.refresh()


def test_late_answers_do_not_change_the_page(user, demo):
    server = demo.boot(demo.image, 'late', networks='auto')['id']
    demo.wait_for(server)
    made = demo.post('/network/v2.0/security-groups', {'security_group': {'name': 'late'}})
    group = made.json()['security_group']['id']
    user.driver.execute_script(HOLD)

    def held(number):
        user.until(lambda: user.driver.execute_script('return window.held.length') == number, 'nothing is sent')
    for number, (page, said) in enumerate(((f'/servers/{server}', 'late is being deleted'),
                                           (f'/security-groups/{group}', 'late deleted'))):
        user.go(page, 'late')
        user.press('Actions')
        user.press('Delete', within="//*[@role='menu']")
        user.press('Delete', within='//dialog[@open]')
        held(number + 1)
        user.press('Cancel', within='//dialog[@open]')
        user.go('/create', 'Create server')
        user.type('Name', 'draft')
        user.driver.execute_script(f'window.held[{number}]()')
        user.says(said)
        assert user.driver.execute_script('return location.hash') == '#/create'
        assert user.field('Name').get_attribute('value') == 'draft'
    user.choose('Flavor', 'm1.nano')
    user.choose('Image', 'small')
    user.press('Create server', within='//main')
    held(3)
    user.go('/images', 'Images')
    user.driver.execute_script('window.held[2]()')
    user.says('Server draft is being created')
    assert user.driver.execute_script('return location.hash') == '#/images'
    made, = demo.get('/servers?name=draft').json()['servers']
    demo.wait_for(made['id'])
    assert demo.delete(f'/servers/{made["id"]}').status_code == 204
    user.driver.refresh()


def test_refusals_are_shown_in_the_words_of_the_api(user, demo):
    user.go('/create', 'Create server')
    user.type('Name', 'too-many')
    user.type('Count', '900')
    user.choose('Flavor', 'm1.nano')
    user.choose('Image', 'small')
    user.press('Create 900 servers')
    user.says('Quota exceeded')


def test_locked_server_offers_unlock_only(user, demo):
    demo.post(f'/servers/{demo.servers[0]}/action', {'lock': None})
    user.go(f'/servers/{demo.servers[0]}', 'alpha')
    user.says('Unlock')
    assert user.one("//main//button[normalize-space()='Stop']") is None
    user.press('Unlock')
    user.press('Unlock')
    user.until(lambda: user.one("//main//button[normalize-space()='Stop']"), 'it cannot be stopped')


def test_key_pairs_groups_and_rules_are_created_and_deleted(user, demo):
    user.go('/keypairs', 'Key pairs')
    user.press('Create or import')
    user.type('Name', 'browser-key')
    user.press('Create or import')
    user.says('never again')
    user.says('PRIVATE KEY')
    user.press('Close')
    user.says('browser-key')
    user.go('/security-groups', 'Security groups')
    user.press('Create security group')
    user.type('Name', 'web-rules')
    user.press('Create security group')
    user.press('web-rules')
    user.heading('web-rules')
    user.press('Add rule')
    user.type('Ports', '8000-8010')
    user.press('Add rule')
    user.says('8000–8010')
    group = demo.get('/network/v2.0/security-groups?name=web-rules').json()['security_groups'][0]
    assert any(rule['port_range_max'] == 8010 for rule in group['security_group_rules'])


def test_volumes_are_made_attached_and_deleted(user, demo):
    user.go('/volumes', 'Volumes')
    user.press('Create volume')
    user.type('Name', 'by-browser')
    user.press('Create volume')
    user.until(lambda: 'available' in user.text() or user.press('Load again'), 'it is not available')
    user.press('Actions of by-browser')
    user.press('Attach to a server')
    user.choose('Server', 'alpha')
    user.press('Attach to a server')
    wait(lambda: demo.get('/volume/v3/volumes/detail?name=by-browser').json()['volumes'][0]['status'] == 'in-use')
    user.go(f'/servers/{demo.servers[0]}/volumes', 'alpha')
    user.until(lambda: user.css('tbody tr'), 'no volume')
    user.press('Actions of ' + demo.get('/volume/v3/volumes?name=by-browser').json()['volumes'][0]['id'])
    user.press('Detach')
    user.press('Detach')
    wait(lambda: demo.get('/volume/v3/volumes/detail?name=by-browser').json()['volumes'][0]['status'] == 'available')


def test_an_image_is_uploaded(user, demo, tmp_path):
    file = tmp_path / 'disk.raw'
    file.write_bytes(b'\1' * 3_000_000)
    user.go('/images', 'Images')
    user.press('Upload image')
    user.type('Name', 'from-browser')
    user.field('File').send_keys(str(file))
    user.choose('Format', 'raw')
    user.press('Upload image')
    user.until(lambda: user.one("//main//a[normalize-space()='from-browser']"), 'it is not in the list')
    image = demo.get('/image/v2/images?name=from-browser').json()['images'][0]
    assert (image['status'], image['size']) == ('active', 3_000_000)


def test_metadata_and_tags_are_added_and_removed(user, demo):
    user.go(f'/servers/{demo.servers[0]}/metadata', 'alpha')
    user.press('Add metadata')
    user.type('Key', 'role')
    user.type('Value', 'front')
    user.press('Add metadata')
    user.until(lambda: user.one("//td[normalize-space()='front']"), 'no metadata')
    user.go(f'/servers/{demo.servers[0]}/tags', 'alpha')
    user.press('Add tag')
    user.type('Tag', 'blue')
    user.press('Add tag')
    user.until(lambda: user.one("//td[normalize-space()='blue']"), 'no tag')
    found = demo.get(f'/servers/{demo.servers[0]}').json()['server']
    assert found['metadata'] == {'role': 'front'} and found['tags'] == ['blue']


def test_palette_works_with_the_keyboard_only(user, modules):
    user.palette('alpha')
    user.until(lambda: user.one("//*[@role='option']//*[text()='Server']"), 'no server is found')
    assert user.axe(modules) == []
    picture(user, 'palette')
    user.keys(browsers.Keys.ENTER)
    user.heading('alpha')
    user.palette('secgr')
    user.keys(browsers.Keys.ENTER)
    user.heading('Security groups')
    user.go('/servers', 'Servers')
    user.palette('shelvealpha')                                    # an action of a row
    user.keys(browsers.Keys.ENTER)
    user.until(lambda: user.one("//dialog[@open]//h2[normalize-space()='Shelve · alpha']"), 'no form of the action')
    user.keys(browsers.Keys.ESCAPE)
    user.go('/security-groups', 'Security groups')
    user.press('default', within='//main')
    user.heading('default')
    user.until(lambda: user.one("//main//td[normalize-space()='egress']"), 'no rules')
    for letters, title in (('addrule', 'Add rule'), ('removeegress', 'Remove · egress any')):       # a card, its row
        user.palette(letters)
        user.keys(browsers.Keys.ENTER)
        form = f"//dialog[@open]//h2[starts-with(normalize-space(), '{title}')]"
        user.until(lambda form=form: user.one(form), 'no form')
        user.keys(browsers.Keys.ESCAPE)


def aggregate(cloud, name):
    return next(row for row in cloud.admin().get('/os-aggregates').json()['aggregates'] if row['name'] == name)


def drag(browser, host, source, target):
    """A host from one box of the board to another one."""
    box = '//section[@aria-label="%s"]'
    chip = browser.until(lambda: browser.one(f'{box % source}//*[@data-host="{host}"]'), f'{host} is not in {source}')
    browsers.webdriver.ActionChains(browser.driver).drag_and_drop(chip, browser.one(box % target)).perform()


def test_administrator_manages_aggregates_services_and_users(admin, cloud, demo, modules):
    admin.go('/aggregates', 'Aggregates and zones')
    admin.press('Create aggregate')
    admin.type('Name', 'rack')
    admin.press('Create aggregate')
    admin.says('Aggregate rack created')
    admin.press('Actions of rack')
    admin.press('Add host')
    admin.choose('Host', 'host3')
    admin.press('Add host')
    admin.until(lambda: admin.one("//td//*[normalize-space()='host3']"), 'no host')
    drag(admin, 'host2', 'In no aggregate', 'rack')
    wait(lambda: set(aggregate(cloud, 'rack')['hosts']) == {'host2', 'host3'})
    drag(admin, 'host2', 'rack', 'In no aggregate')
    wait(lambda: aggregate(cloud, 'rack')['hosts'] == ['host3'])
    assert admin.axe(modules) == []
    picture(admin, 'aggregates')
    admin.press('rack')
    admin.heading('rack')
    admin.says('No host is being maintained.')
    assert admin.axe(modules) == []
    admin.go('/services', 'Services')
    admin.press('Actions of nova-compute on host2')
    admin.press('Disable')
    admin.type('Reason', 'new memory')
    admin.press('Disable')
    admin.until(lambda: admin.one("//td//*[normalize-space()='new memory']"), 'it is not disabled')
    admin.press('Actions of nova-compute on host2')
    admin.press('Enable')
    admin.press('Enable')
    wait(lambda: cloud.admin().get('/os-services?host=host2').json()['services'][0]['status'] == 'enabled')
    admin.go('/explain', 'Why no host?')
    admin.type('Find: Server', 'alpha')
    admin.choose('Server', 'alpha')
    admin.says('RamFilter')
    assert demo.servers[0] in admin.driver.current_url
    admin.go('/users', 'Users')
    admin.press('Create user')
    admin.type('Name', 'by-browser')
    admin.type('Password', 'Ein-langes-Wort-9')
    admin.choose('Member of', 'demo')
    admin.press('Create user')
    wait(lambda: cloud.admin().get('/identity/v3/users?name=by-browser').json()['users'])


# ---- languages, types, many servers ---------------------------------------------------

def test_page_has_the_language_of_the_browser(cloud, demo, tmp_path):
    """A browser that prefers German gets the catalogue's texts, and the API's names as they are."""
    browser = browsers.Browser(cloud.url, tmp_path)
    try:
        browser.driver.execute_cdp_cmd('Network.enable', {})
        browser.driver.execute_cdp_cmd('Network.setExtraHTTPHeaders', {'headers': {'Accept-Language': 'de'}})
        browser.open()
        browser.says('Anmelden')
        assert browser.driver.execute_script('return document.documentElement.lang') == 'de'
        name, password = credentials(cloud, 'demo')
        browser.type('Benutzer', name)
        browser.type('Passwort', password)
        browser.press('Anmelden')
        browser.heading('Übersicht')
        browser.says('Kontingent')
        browser.says('alpha')
        picture(browser, 'german')
    finally:
        browser.quit()


def test_typescript_finds_no_error_in_the_modules(modules):
    """TypeScript's checker finds nothing in the modules and their JSDoc types."""
    if shutil.which('node') is None:
        pytest.skip('node is not installed')
    done = subprocess.run([modules / '.bin' / 'tsc', '-p', browsers.TOOLS / 'tsconfig.json'], capture_output=True,
                          text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout


@long_runs.only
def test_list_of_10000_servers_opens_quickly(admin, cloud, modules):
    """A page of the list costs what one of few costs; the other 9,950 stay where they are."""
    project = cloud.admin().project_id
    with cloud.cell_db.writer() as conn:
        server_rows.insert(conn, [server_rows.row(number, project_id=project) for number in range(MANY)])
    admin.go('/servers', 'Servers')
    begun = admin.processor_s()
    admin.driver.refresh()
    admin.until(lambda: len(admin.css('tbody tr')) == 50, 'no page of 50')
    took = admin.processor_s() - begun
    begun = admin.processor_s()
    admin.press('Next')
    admin.says('Page 2')
    admin.until(lambda: len(admin.css('tbody tr')) == 50 and not admin.one("//*[text()='server-9999']"), 'no page 2')
    admin.settled()
    assert 'of 5,000' not in admin.text(), 'the total is what was counted'
    turned = admin.processor_s() - begun
    begun = admin.processor_s()
    admin.type('Find by name, address or id', 'server-4321')
    admin.until(lambda: [row.text for row in admin.css('tbody td.first')] == ['server-4321'], 'it is not found')
    found = admin.processor_s() - begun
    print(f'of {MANY} servers, seconds of a processor: first page {took:.2f}, next {turned:.2f}, by name {found:.2f}')
    assert max(took, turned, found) < LIST_S
    admin.type('Find by name, address or id', ' ')
    assert admin.axe(modules) == []


@long_runs.only
def test_map_of_10000_hosts_opens_quickly(admin, cloud, modules):
    """The map shows them all, and says which one is pointed at."""
    with cloud.cell_db.writer() as conn:
        for number in range(MANY):
            name = f'rack{number // 40}-{number % 40}'
            cloud_rows.service(conn, name, zone=f'zone{number % 2}')
            cloud_rows.node(conn, name, memory_mb_used=number % 16384)
    begun = admin.processor_s()
    admin.go('/hosts', 'Hosts')
    canvases = admin.until(lambda: [found for found in admin.css('.map canvas')
                                    if found.get_attribute('aria-label').startswith('5000 hosts')], 'no map of zones')
    took = admin.processor_s() - begun
    print(f'map of {MANY} hosts: {took:.2f} s of a processor')
    assert len(canvases) == 2 and took < MAP_S
    canvases[0].send_keys(browsers.Keys.ARROW_RIGHT)
    admin.until(lambda: admin.one("//h2[starts-with(., 'rack')]"), 'no host is chosen')
    assert admin.axe(modules) == []
    picture(admin, 'hosts-map')
