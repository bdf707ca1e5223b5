#!/usr/bin/env python3
"""Run Horizon and Skyline, unmodified from PyPI, against an all-in-one with the fake driver: log in, walk their pages
and what they ask for, make a server, work with it and delete it.

    tools/dashboards.py [--keep] [horizon] [skyline]

What does not pass is compared with tools/dashboards-expected.tsv: a page that is not in that list and fails, or a
listed one that passes, makes the exit code 1.
"""
import argparse
import http.cookiejar
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import local_cloud
import skyline
import suites

EXPECTED = pathlib.Path(__file__).with_name('dashboards-expected.tsv')
DIRECTORY = pathlib.Path.home() / '.cache/nova-horizon'
PACKAGES = ('horizon==27.0.0', 'gunicorn==27.0.1', 'whitenoise==6.12.0')
CLOUD = ['[network]', 'driver = fake', 'project_ranges = 0.0.0.0/0']
START_S, PAGE_S = 120, 120
SETTINGS = '''
from openstack_dashboard.settings import *
ALLOWED_HOSTS = ['127.0.0.1']
OPENSTACK_KEYSTONE_URL = {identity!r}
OPENSTACK_API_VERSIONS = {{'identity': 3, 'image': 2, 'volume': 3}}
SESSION_ENGINE = 'django.contrib.sessions.backends.signed_cookies'
CACHES = {{'default': {{'BACKEND': 'django.core.cache.backends.locmem.LocMemCache'}}}}
SECRET_KEY = 'of one run'
STATIC_ROOT = COMPRESS_ROOT = {static!r}
COMPRESS_OFFLINE = True
MIDDLEWARE = ('horizon_settings.merge_slashes', 'whitenoise.middleware.WhiteNoiseMiddleware', *MIDDLEWARE)


def merge_slashes(answer):
    def respond(request):
        request.path_info = request.path_info.replace('//', '/')     # as the web servers of deployments do
        return answer(request)
    return respond
'''
# what a page says in a corner when a service refused something, with an answer of 200
UNWELL = re.compile(r'Unable to [a-z ]+|Error: |Invalid service catalog|alert-danger(?! text-center javascript)')
PROJECT = ('overview', 'instances', 'images', 'key_pairs', 'server_groups', 'api_access', 'volumes', 'snapshots',
           'networks', 'network_topology', 'routers', 'security_groups', 'floating_ips')
ADMIN = ('overview', 'hypervisors', 'aggregates', 'instances', 'flavors', 'images', 'networks', 'routers',
         'floating_ips', 'volumes', 'snapshots', 'defaults', 'metadata_defs', 'info')
IDENTITY = ('overview', 'users', 'roles', 'application_credentials')
# what the pages with Angular ask for
PATHS = ('nova/keypairs/', 'nova/flavors/', 'nova/availzones/', 'nova/servers/', 'nova/servergroups/', 'nova/limits/',
         'nova/services/', 'glance/images/', 'glance/version/',
         'neutron/networks/', 'neutron/ports/', 'neutron/extensions/', 'network/securitygroups/',
         'network/floatingips/', 'network/floatingippools/', 'cinder/volumes/', 'cinder/volumetypes/',
         'cinder/volumesnapshots/', 'keystone/user-session/')


class Browser:
    """A session with Horizon."""

    def __init__(self, url):
        self.url, self.jar = url, http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))

    def ask(self, path, form=None, document=None, method=None):
        """(code, text)"""
        headers, data = {'Referer': self.url}, None
        if path.startswith('/api/'):
            headers['X-Requested-With'] = 'XMLHttpRequest'
        token = next((cookie.value for cookie in self.jar if cookie.name == 'csrftoken'), '')
        if form is not None:
            data = urllib.parse.urlencode({'csrfmiddlewaretoken': token, **form}).encode()
        if document is not None:
            data = json.dumps(document).encode()
            headers |= {'Content-Type': 'application/json', 'X-CSRFToken': token}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=PAGE_S) as answer:
                return answer.status, answer.read().decode(errors='replace')
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors='replace')

    def login(self, user, password):
        self.ask('/auth/login/')
        code, text = self.ask('/auth/login/', {'username': user, 'password': password, 'region': 'default'})
        return code == 200 and 'Invalid credentials' not in text and 'name="password"' not in text


class Walk:
    """What was seen: {page: (outcome, text)}."""

    def __init__(self):
        self.browser, self.results = None, {}

    def note(self, name, well, text=''):
        self.results[name] = ('passed' if well else 'failed', '' if well else text[-400:])
        print(f'{"ok    " if well else "FAILED"} {name} {"" if well else text[-200:]!r}', flush=True)
        return well

    def page(self, path, says=''):
        code, text = self.browser.ask(path)
        wrong = UNWELL.search(text)
        return self.note(f'GET {path}', code == 200 and not wrong and says in text,
                         f'{code} {text[wrong.start():wrong.start() + 200] if wrong else text[-200:]}')

    def fetch(self, path):
        code, text = self.browser.ask(f'/api/{path}')
        document = self.document(text)
        self.note(f'GET /api/{path}', code == 200 and document is not None, f'{code} {text}')
        return document

    @staticmethod
    def document(text):
        try:
            return json.loads(text)
        except ValueError:
            return None

    def until(self, name, condition):
        """Wait for a condition."""
        deadline = time.monotonic() + PAGE_S
        while not condition():
            if time.monotonic() > deadline:
                return self.note(name, False, f'not within {PAGE_S} s')
            time.sleep(0.5)
        return self.note(name, True)

    def life(self):
        """Make a server as the launch dialog does, look at it, stop it, and delete it."""
        images, flavors = self.fetch('glance/images/')['items'], self.fetch('nova/flavors/')['items']
        networks = self.fetch('neutron/networks/')['items']
        code, text = self.browser.ask('/api/nova/servers/', document={
            'name': 'by-horizon', 'source_id': images[0]['id'], 'flavor_id': flavors[0]['id'], 'key_name': None,
            'user_data': '', 'security_groups': ['default'], 'availability_zone': 'nova', 'instance_count': 1,
            'nics': [{'net-id': networks[0]['id'], 'v4-fixed-ip': ''}], 'config_drive': False,
            'disk_config': 'AUTO', 'meta': {}, 'scheduler_hints': {}, 'description': None})
        if not self.note('POST /api/nova/servers/', code in (200, 201), f'{code} {text}'):
            return
        made = self.document(text)
        ident = (made[0] if isinstance(made, list) else made)['id']

        def state():
            code, text = self.browser.ask(f'/api/nova/servers/{ident}')
            return self.document(text)['status'] if code == 200 else code
        self.until('the server is ACTIVE', lambda: state() == 'ACTIVE')
        self.page('/project/instances/', 'by-horizon')
        self.page(f'/project/instances/{ident}/', 'by-horizon')
        for tab in ('overview', 'interfaces', 'log', 'console', 'audit'):
            self.page(f'/project/instances/{ident}/?tab=instance_details__{tab}')
        for name, action, wanted in (('stop', 'stop', 'SHUTOFF'), ('start', 'start', 'ACTIVE')):
            code, text = self.browser.ask('/project/instances/', {'action': f'instances__{action}__{ident}'})
            self.note(f'{name} the server', code == 200 and not UNWELL.search(text), f'{code} {text[-200:]}')
            self.until(f'the server is {wanted}', lambda wanted=wanted: state() == wanted)
        code, text = self.browser.ask('/project/instances/', {'action': f'instances__delete__{ident}'})
        self.note('delete the server', code == 200 and not UNWELL.search(text), f'{code} {text[-200:]}')
        self.until('the server is gone', lambda: state() == 404)


def serve(directory, home, identity):
    """Start Horizon as it is deployed: files collected and compressed, a server with threads.

    :returns: (process, URL)
    """
    (home / 'horizon_settings.py').write_text(SETTINGS.format(identity=identity, static=str(home / 'static')))
    environ = suites.environ(directory, PYTHONPATH=str(home), DJANGO_SETTINGS_MODULE='horizon_settings')
    address = f'127.0.0.1:{local_cloud.free_port()}'
    with open(home / 'horizon.log', 'ab') as log:
        for command in (('collectstatic', '--noinput'), ('compress', '--force')):
            subprocess.run([directory / 'django-admin', *command], env=environ, check=True, stdout=log, stderr=log,
                           cwd=home)
        process = subprocess.Popen([directory / 'gunicorn', '--bind', address, '--worker-class', 'gthread', '--threads',
                                    '8', '--timeout', '0', 'django.core.wsgi:get_wsgi_application()'],
                                   env=environ, stdout=log, stderr=log, cwd=home)
    return process, f'http://{address}'


def wait(url):
    deadline = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f'{url}/auth/login/', timeout=PAGE_S).read()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def walk_horizon(walk, cloud, home):
    user, password = cloud.account('nova-admin')
    directory = suites.install(DIRECTORY, PACKAGES)
    process, url = serve(directory, home, f'http://127.0.0.1:{cloud.port}/identity/v3')
    walk.browser = Browser(url)
    try:
        wait(url)
        if not walk.note('log in', walk.browser.login(user, password)):
            return
        for path in PATHS:
            walk.fetch(path)
        for place, panels in (('project', PROJECT), ('admin', ADMIN), ('identity', IDENTITY)):
            for panel in panels:
                walk.page(f'/{place}/' if panel == 'overview' else f'/{place}/{panel}/')
        walk.life()
    finally:
        process.terminate()
        process.wait()


def walk_skyline(walk, cloud, home):
    user, password = cloud.account('nova-admin')
    directory = suites.install(skyline.DIRECTORY, skyline.PACKAGES)
    server = skyline.Server(directory, home, f'http://127.0.0.1:{cloud.port}/identity/v3', user, password)
    try:
        server.start()
        browser = skyline.Browser(server.url)
        try:
            skyline.walk(walk, browser, user, password)
        finally:
            browser.end()
    finally:
        server.end()


DASHBOARDS = {'horizon': walk_horizon, 'skyline': walk_skyline}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('--keep', action='store_true', help='leave logs in their directory')
    parser.add_argument('dashboards', nargs='*', metavar='DASHBOARD', help=f'{" or ".join(DASHBOARDS)}; both')
    given = parser.parse_args()
    if unknown := sorted(set(given.dashboards) - DASHBOARDS.keys()):
        parser.error(f'{", ".join(unknown)} is none of {", ".join(DASHBOARDS)}.')
    chosen = given.dashboards or list(DASHBOARDS)
    home = pathlib.Path(tempfile.mkdtemp(prefix='nova-dashboards.'))
    cloud, walk = local_cloud.LocalCloud('fake', CLOUD), Walk()
    try:
        print(f'The cloud serves after {cloud.start():.1f} s; logs are in {home} and {cloud.state}.', flush=True)
        disk = home / 'disk.raw'
        disk.write_bytes(b'\0' * 1048576)
        cloud.add_image('small', disk, 'raw')
        for name in chosen:
            walk_dashboard = DASHBOARDS[name]
            walk_dashboard(walk, cloud, home)
    finally:
        cloud.close(keep=given.keep)
    return suites.report(walk.results, EXPECTED, complete=set(chosen) == DASHBOARDS.keys())


if __name__ == '__main__':
    sys.exit(main())
