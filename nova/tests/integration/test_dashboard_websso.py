"""Logins of the dashboard through the federation of a real Keystone, with a provider of OpenID Connect.

Keystone has one site (localhost), the dashboard another (127.0.0.1), so that what is posted crosses sites.
"""
import contextlib
import http.server
import pathlib
import threading
import types

import pytest
import requests

from nova.identity.embedded import catalog
from nova.tests.functional import callers
from nova.tests.functional import cloud as clouds
from nova.tests.integration import browser as browsers
from nova.tests.integration import dashboard_cloud
from nova.tests.integration import keystone
from nova.tests.integration import oidc
from nova.tests.integration import servers
from nova.tests.integration.dashboard_cloud import modules
from nova.tests.support import waiting

__all__ = ('modules',)
pytestmark = dashboard_cloud.NEEDS_CHROMIUM
FRONT = pathlib.Path(__file__).with_name('oidc_front.py')
USERS = {'ada': 'wheels', 'grace': 'moth'}
SETTINGS = '''[auth]
methods = password,token,openid
[openid]
remote_id_attribute = HTTP_OIDC_ISS
[federation]
trusted_dashboard = {dashboard}/dashboard/websso
sso_callback_template = {template}
[cors]
allowed_origin = {dashboard}
expose_headers = X-Subject-Token,Openstack-Auth-Receipt,x-openstack-request-id
allow_headers = Content-Type,X-Auth-Token,X-Subject-Token,Openstack-Auth-Receipt,OpenStack-API-Version
'''
# Ada is in the engineers' group; all others are in the group of operators.
RULES = [{'remote': [{'type': 'HTTP_OIDC_PREFERRED_USERNAME'},
                     {'type': 'HTTP_OIDC_PREFERRED_USERNAME', condition: ['ada']}],
          'local': [{'user': {'name': '{0}'}}, {'group': {'name': group, 'domain': {'name': 'Default'}}}]}
         for condition, group in (('any_one_of', 'engineers'), ('not_any_of', 'operators'))]
GRANTS = {'engineers': ('engines',), 'operators': ('engines', 'operations')}
# the API knows a revoked token for a while, as keystonemiddleware caches tokens
EXPIRE = '''const [done] = arguments;
    import(document.querySelector('script[src$="main.js"]').src.replace('main.js', 'core/session.js')).then(
        session => done(session.end('expired')));'''
POST = '''<!doctype html><form id="form" method="post" action="{}"><input name="token" value="{}"></form>'''


@pytest.fixture(scope='module')
def rig(tmp_path_factory):
    """``url`` of the dashboard, ``identity`` of Keystone as browsers reach it, ``provider``, ``admin`` and projects."""
    template = keystone.programs().parent / 'etc' / 'keystone' / 'sso_callback_template.html'
    port = servers.free_port()
    url = f'http://127.0.0.1:{port}'
    with oidc.Provider(USERS).serving() as provider, keystone.running(
            SETTINGS.format(dashboard=url, template=template), FRONT, OIDC_ISSUER=provider.issuer,
            OIDC_CLIENT=provider.client, OIDC_SECRET=provider.secret) as (address, password), \
            keystone.trusted(address, password):
        identity = address.replace('127.0.0.1', 'localhost')
        provider.redirect_uri = identity + '/v3/oidc_callback'
        with clouds.running(tmp_path_factory.mktemp('federation'), identity__backend='keystone', http__port=port,
                            dashboard__identity_url=identity + '/v3',
                            dashboard__websso={'openid': 'Company', 'company/openid': 'Branch'}) as cloud:
            assert cloud.url == url
            admin = callers.Caller(url, callers.by_password(keystone.ADMIN, password, {'project': {
                'name': 'admin', 'domain': callers.DOMAIN}}), identity=address)
            keystone.publish(admin, [(kind, name, url + path) for kind, name, path in catalog.SERVICES
                                     if kind not in ('identity', 'key-manager', 's3')])
            federate(admin, provider.issuer)
            admin.upload_image(name='everybodys', visibility='public')
            yield types.SimpleNamespace(url=url, identity=identity, provider=provider, cloud=cloud)


def federate(admin, issuer):
    """Make the groups with their grants, the identity provider, its mapping and its protocol."""
    found = callers.Identity(admin)
    for name, projects in GRANTS.items():
        group = found._made('group', name=name)
        for project in projects:
            path = f'/identity/v3/projects/{found.project(project)}/groups/{group}/roles/{found.roles["member"]}'
            assert admin.put(path).status_code == 204
    base = '/identity/v3/OS-FEDERATION'
    for path, document in ((f'{base}/identity_providers/company', {
            'identity_provider': {'remote_ids': [issuer], 'enabled': True}}),
            (f'{base}/mappings/company', {'mapping': {'rules': RULES}}),
            (f'{base}/identity_providers/company/protocols/openid', {'protocol': {'mapping_id': 'company'}})):
        made = admin.put(path, document)
        assert made.status_code == 201, made.text


@pytest.fixture
def browser(rig, tmp_path):
    """A browser without a session of the provider."""
    made = browsers.Browser(rig.url, tmp_path)
    yield made
    made.quit()


def sign_in(browser, user, password=None):
    """Fill in the form of the provider."""
    browser.heading('Company login')
    browser.type('User', user)
    browser.type('Password', password or USERS[user])
    browser.press('Sign in')


def session(browser):
    return browser.driver.execute_script('return JSON.parse(sessionStorage.getItem("nova.session"))')


def begin(browser):
    """Leave the dashboard for a login."""
    browser.open()
    browser.press('Log in with Company')
    browser.heading('Company login')


@contextlib.contextmanager
def site(text):
    """The URL of another site with one page."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header('Content-Type', 'text/html')
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_arguments):
            """Write nothing."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f'http://localhost:{server.server_port}/'
    finally:
        server.shutdown()
        server.server_close()


def test_user_of_the_provider_logs_in_and_uses_the_cloud(rig, browser, modules):
    browser.open()
    browser.heading('Cloud dashboard')
    assert browser.axe(modules) == []
    browser.press('Log in with Company')
    sign_in(browser, 'ada')
    browser.heading('Overview')                                    # of the only project
    found = session(browser)
    assert (found['user']['name'], found['project']['name'], sorted(found['roles'])) == (
        'ada', 'engines', ['member', 'reader'])
    assert browser.driver.current_url == f'{rig.url}/dashboard/#/'
    assert not browser.css('meta[name="nova-token"]')
    assert browser.driver.execute_script('return Object.keys(sessionStorage)') == ['nova.session']
    browser.go('/images', 'Images')
    browser.says('everybodys')
    assert browser.complaints() == []
    browser.driver.refresh()                                       # asks for the page and posts nothing again
    browser.heading('Images')
    addresses = [address for _method, address, _headers in browser.requests()]
    assert any('/websso/openid?origin=' in address for address in addresses)
    assert not [address for address in addresses if 'gAAAAA' in address or found['token'] in address]
    browser.press('Log out')
    browser.heading('Cloud dashboard')
    waiting.wait_for(lambda: requests.get(rig.identity + '/v3/auth/projects', timeout=60, headers={
        'X-Auth-Token': found['token']}).status_code == 401, 20, 'the token to be revoked')


def test_project_is_chosen_and_the_page_is_the_one_that_was_left(rig, browser):
    browser.driver.get(rig.url + '/dashboard/#/volumes')
    browser.press('Log in with Branch')                            # the address of one identity provider
    sign_in(browser, 'grace')
    browser.press('operations')
    browser.heading('Volumes')
    assert (session(browser)['user']['name'], session(browser)['project']['name']) == ('grace', 'operations')
    # an expired token: the provider still knows the browser
    browser.driver.execute_script('''const found = JSON.parse(sessionStorage.getItem("nova.session"));
        found.expires = "2020-01-01T00:00:00Z"; sessionStorage.setItem("nova.session", JSON.stringify(found));''')
    browser.driver.refresh()
    browser.press('Log in with Company')
    browser.press('engines')
    browser.heading('Volumes')


CHANNELS = '''
const Channel = BroadcastChannel;
window.channels = [];
window.BroadcastChannel = class extends Channel {
  constructor(name) { super(name); this.open = true; window.channels.push(this); }
  close() { this.open = false; super.close(); }
};'''


def test_form_survives_a_login_in_a_window(rig, browser):
    begin(browser)
    sign_in(browser, 'grace')
    browser.press('engines')
    browser.heading('Overview')
    old = session(browser)['token']
    browser.go('/networks', 'Networks')
    browser.press('Create network')
    browser.type('Name', 'kept')
    browser.field('With a subnet').click()
    page = browser.driver.current_window_handle
    browser.driver.execute_cdp_cmd('Network.clearBrowserCookies', {})     # so that the window asks for the password
    browser.driver.execute_async_script(EXPIRE)
    browser.says('Your session has ended.')
    browser.driver.execute_script(CHANNELS)
    for by_hand in (True, False):
        browser.press('Log in with Company')
        window, = browser.until(lambda: set(browser.driver.window_handles) - {page}, 'no window was opened')
        browser.driver.switch_to.window(window)
        if by_hand:
            browser.driver.close()
            browser.driver.switch_to.window(page)
    sign_in(browser, 'grace')
    browser.until(lambda: browser.driver.window_handles == [page], 'the window is not closed')
    browser.driver.switch_to.window(page)
    browser.until(lambda: browser.field('Name').get_attribute('value') == 'kept', 'the form is empty')
    assert browser.driver.execute_script('return window.channels.map(one => one.open)') == [False, False]
    browser.press('Create network', within='//dialog[@open]')
    browser.says('Network kept created')
    assert (session(browser)['token'] != old, session(browser)['project']['name']) == (True, 'engines')
    assert browser.driver.execute_script('return Object.keys(sessionStorage)') == ['nova.session']


def test_wrong_password_at_the_provider_yields_no_session(rig, browser):
    browser.open()
    browser.press('Log in with Company')
    issued = rig.provider.issued
    sign_in(browser, 'ada', 'wrong')
    browser.heading('Wrong password')
    browser.open()
    browser.heading('Cloud dashboard')
    assert session(browser) is None and rig.provider.issued == issued


def test_login_that_another_site_begins_is_refused(rig, browser):
    """A link of another site leads to Keystone, which posts the token of a user who is logged in at the provider."""
    begin(browser)
    browser.open()                                                 # a login that was given up does not count
    browser.heading('Cloud dashboard')
    link = f'{rig.identity}/v3/auth/OS-FEDERATION/websso/openid?origin={rig.url}/dashboard/websso'
    with site(f'<!doctype html><title>x</title><main><a href="{link}">A cloud</a></main>') as address:
        browser.driver.get(address)
        browser.press('A cloud')
        sign_in(browser, 'ada')
        browser.says('This login was not started in this tab. Log in again.')
    assert session(browser) is None and not browser.css('meta[name="nova-token"]')
    assert browser.driver.current_url == f'{rig.url}/dashboard/'


def test_token_that_another_site_posts_is_refused(rig, browser):
    begin(browser)
    with site(POST.format(rig.url + '/dashboard/websso', 'gAAAAAmine')) as address:
        browser.driver.get(address)
        browser.driver.execute_script('document.getElementById("form").submit()')
        browser.says(f'Only pages of {rig.identity} may post a token here.')
    assert session(browser) is None


def test_token_that_keystone_does_not_know_is_refused_with_the_reason(rig, browser):
    begin(browser)
    browser.driver.get(rig.identity + '/v3')                       # any page of Keystone's origin
    browser.driver.execute_script('''const form = document.createElement("form");
        form.method = "post"; form.action = arguments[0];
        form.innerHTML = '<input name="token" value="gAAAAAmine">';
        document.body.append(form); form.submit()''', rig.url + '/dashboard/websso')
    browser.says('The identity service refuses the token of this login. Log in again.')
    assert session(browser) is None


def test_keystone_posts_tokens_only_to_trusted_dashboards(rig, browser):
    browser.driver.get(f'{rig.identity}/v3/auth/OS-FEDERATION/websso/openid?origin=http://evil.example/websso')
    sign_in(browser, 'ada')
    browser.says('401')
    assert 'gAAAAA' not in browser.driver.page_source
