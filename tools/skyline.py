"""Skyline, unmodified from PyPI, before an all-in-one: its API server, a proxy in place of nginx, and a walk through
its pages in Chromium.

chromium and chromium-driver are Debian's; selenium is in the environment that runs this.
"""
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import local_cloud
import suites

PACKAGES = ('skyline-apiserver==9.0.0', 'skyline-console==9.0.0')
DIRECTORY = pathlib.Path.home() / '.cache/nova-skyline/9.0.0'
FRONT = pathlib.Path(__file__).with_name('skyline_front.py')
WAY = re.compile(r'location (/api/\S+) \{\s*proxy_pass (\S+);')       # of nginx
REGION, API = 'RegionOne', '/api/openstack'
START_S, PAGE_S, SETTLED_S = 60, 40, 0.7
SETTINGS = '''
default:
  database_url: sqlite:///{home}/skyline.db
  log_dir: {home}
  ssl_enabled: false
openstack:
  keystone_url: {identity}/
  default_region: {region}
  system_project: admin
  system_user_name: {user}
  system_user_password: {password}
'''
# its page below /: what the page says
PAGES = {
    'base/overview': 'Instances', 'compute/instance': 'Create Instance', 'compute/image': 'Create Image',
    'compute/keypair': 'Create Keypair', 'compute/flavor': 'Flavors', 'compute/server-group': 'Create Server Group',
    'compute/instance/create': 'Flavor', 'storage/volume': 'Create Volume', 'storage/snapshot': 'Volume Snapshots',
    'network/networks': 'Create Network', 'network/port': 'Ports', 'network/router': 'Create Router',
    'network/security-group': 'Create Security Group', 'network/floatingip': 'Allocate IP', 'network/topo': 'Topology',
    'user/application-credentials': 'Application Credentials',
    'compute/instance-admin': 'Instances', 'compute/hypervisors-admin': 'Hypervisors',
    'compute/aggregates-admin': 'Host Aggregates', 'compute/flavor-admin': 'Create Flavor',
    'compute/image-admin': 'Images', 'storage/volume-admin': 'Volumes', 'network/networks-admin': 'Networks',
    'configuration-admin/info': 'System Info', 'identity/domain-admin': 'Domains',
    'identity/project-admin': 'Create Project', 'identity/user-admin': 'Create User',
    'identity/user-group-admin': 'User Groups', 'identity/role-admin': 'Roles',
}
TABS = {'detail': 'Flavor Info', 'volumes': 'Volumes', 'interface': 'Interfaces', 'floatingip': 'Floating IPs',
        'instanceSnapshots': 'Snapshots', 'securityGroup': 'Security Group', 'actionLog': 'Action Logs'}


class Server:
    """Skyline's processes.

    :param directory: bin of its environment
    :param home: directory of its files
    :param identity: URL of the identity service
    """

    def __init__(self, directory, home, identity, user, password):
        self._home, self._directory, self._processes = home, directory, []
        self._environ = suites.environ(directory, OS_CONFIG_DIR=str(home))
        (home / 'skyline.yaml').write_text(SETTINGS.format(
            home=home, identity=identity, region=REGION, user=user, password=password))
        self.url = f'http://127.0.0.1:{local_cloud.free_port()}'

    def start(self):
        packages = next(self._directory.parent.glob('lib/python3*/site-packages'))
        alembic = packages / 'skyline_apiserver/db/alembic/alembic.ini'
        self._run('python', '-m', 'alembic', '-c', alembic, 'upgrade', 'head')
        self._run('skyline-nginx-generator', '-o', self._home / 'nginx.conf', '--log-dir', self._home)
        port = local_cloud.free_port()
        text = (self._home / 'nginx.conf').read_text().replace('http://skyline', f'http://127.0.0.1:{port}')
        ways = [f'{prefix}={url}' for prefix, url in WAY.findall(text)]
        self._begin(self._directory / 'python', '-m', 'uvicorn', 'skyline_apiserver.main:app', '--port', str(port))
        self._begin(sys.executable, FRONT, self.url.rpartition(':')[2], packages / 'skyline_console/static', *ways)
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f'{self.url}{API}/skyline/api/v1/contrib/regions').read()
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f'Skyline does not start:\n{self.last_words()}')
            time.sleep(0.2)

    def end(self):
        for process in reversed(self._processes):
            process.terminate()
            process.wait()

    def last_words(self):
        return (self._home / 'skyline.out').read_text(errors='replace')[-2000:]

    def _run(self, program, *arguments):
        with open(self._home / 'skyline.out', 'ab') as log:
            subprocess.run([self._directory / program, *arguments], env=self._environ, cwd=self._home, check=True,
                           stdout=log, stderr=log)

    def _begin(self, *command):
        with open(self._home / 'skyline.out', 'ab') as log:
            self._processes.append(subprocess.Popen(command, env=self._environ, cwd=self._home, stdout=log, stderr=log))


class Browser:
    """Chromium at Skyline."""

    def __init__(self, url):
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which('chromium')
        self._profile = tempfile.TemporaryDirectory(prefix='nova-skyline-browser.')
        for flag in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-quic',
                     '--no-first-run', '--disable-background-networking', '--disable-component-update',
                     '--disable-sync', '--lang=en', '--window-size=1400,900', f'--user-data-dir={self._profile.name}'):
            options.add_argument(flag)
        options.set_capability('goog:loggingPrefs', {'performance': 'ALL'})
        self._driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which('chromedriver')))
        self.url, self._token = url, ''

    def end(self):
        self._driver.quit()
        self._profile.cleanup()

    def login(self, user, password):
        """As the page does it. Its form has a list of domains that this release asks for before anybody is in: it
        stays empty."""
        self._driver.get(self.url)
        self._driver.execute_script("localStorage.setItem('lang', 'en')")
        code, document = self.ask('POST', '/skyline/api/v1/login', {
            'region': REGION, 'domain': 'Default', 'username': user, 'password': password})
        self._token = document['keystone_token'] if code == 200 else ''
        return code == 200

    def ask(self, method, path, body=None):
        """(code, document) of a request that the page may send."""
        code, text = self._driver.execute_async_script('''
            const [method, path, token, body, done] = arguments;
            const headers = {'Content-Type': 'application/json', 'X-Auth-Token': token,
                             'OpenStack-API-Version': 'compute 2.79'};
            fetch(path, {method, headers, body: body && JSON.stringify(body)})
                .then(async answer => done([answer.status, await answer.text()]), error => done([0, String(error)]))''',
                                                      method, API + path, self._token, body)
        return code, json.loads(text) if text.startswith(('{', '[')) else text

    def look(self, path, says):
        """What is wrong with a page: the refusals of its own requests, or what it does not say; '' when nothing is."""
        self._driver.get_log('performance')
        self._driver.get(f'{self.url}/{path}')
        deadline, refused, quiet = time.monotonic() + PAGE_S, [], 0.0
        while time.monotonic() < deadline and quiet < SETTLED_S:
            entries = [json.loads(entry['message'])['message'] for entry in self._driver.get_log('performance')]
            answers = [entry['params']['response'] for entry in entries
                       if entry['method'] == 'Network.responseReceived']
            refused += [f"{answer['status']} {answer['url'].removeprefix(self.url)}" for answer in answers
                        if API in answer['url'] and answer['status'] >= 400]
            there = says in self._driver.execute_script('return document.body.innerText')
            quiet = quiet + 0.1 if there and not answers else 0.0
            time.sleep(0.1)
        if refused:
            return '; '.join(refused)
        return '' if quiet >= SETTLED_S else f'the page does not say {says!r}'


def walk(walker, browser, user, password):
    """Log in, look at the pages, make a server, look at it, stop, start and delete it.

    :param walker: has note(name, whether it passed, what is wrong) and until(name, ask, condition)
    """
    if not walker.note('skyline: log in', browser.login(user, password)):
        return
    for path, says in PAGES.items():
        wrong = browser.look(path, says)
        walker.note(f'skyline: /{path}', not wrong, wrong)
    nova = f'/{REGION.lower()}/nova'
    _code, images = browser.ask('GET', f'/{REGION.lower()}/glance/v2/images')
    _code, flavors = browser.ask('GET', f'{nova}/v2.1/flavors')
    code, made = browser.ask('POST', f'{nova}/v2.1/servers', {'server': {
        'name': 'by-skyline', 'imageRef': images['images'][0]['id'], 'flavorRef': flavors['flavors'][0]['id'],
        'networks': 'auto', 'adminPass': 'ein-langes-Wort-9'}})
    if not walker.note('skyline: make a server', code == 202, f'{code} {made}'):
        return
    ident = made['server']['id']
    path = f'{nova}/v2.1/servers/{ident}'

    def state(wanted):
        return lambda: browser.ask('GET', path)[1]['server']['status'] == wanted
    walker.until('skyline: the server is ACTIVE', state('ACTIVE'))
    wrong = browser.look('compute/instance', 'by-skyline')
    walker.note('skyline: the list has the server', not wrong, wrong)
    for tab, says in TABS.items():
        wrong = browser.look(f'compute/instance/detail/{ident}?tab={tab}', says)
        walker.note(f'skyline: tab {tab} of the server', not wrong, wrong)
    for action, wanted in (('os-stop', 'SHUTOFF'), ('os-start', 'ACTIVE')):
        code, answer = browser.ask('POST', f'{path}/action', {action: None})
        walker.note(f'skyline: {action}', code == 202, f'{code} {answer}')
        walker.until(f'skyline: the server is {wanted}', state(wanted))
    code, answer = browser.ask('DELETE', path)
    walker.note('skyline: delete the server', code == 204, f'{code} {answer}')
    walker.until('skyline: the server is gone', lambda: browser.ask('GET', path)[0] == 404)
