"""nova-all as a child process with a state directory of its own, and a client of it: for benchmarks and proofs.

Standard library only.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import runpy
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

TREE = pathlib.Path(__file__).resolve().parents[1]
START_S = 240                # seconds that a start may take, on a busy machine
# A client's command logs in each time, which takes a quarter of a second of a processor with the default.
HASH_ROUNDS = 4
free_port = runpy.run_path(str(TREE / 'nova/tests/ports.py'))['free']
API_NAMES = {'block-storage': 'volume'}      # in the header of a microversion, where it is not the name of the service


class LocalCloud:
    """One all-in-one.

    :param driver: fake or libvirt
    :param options: lines of the configuration file
    :param thread_model: native or eventlet
    :param command: path of nova-all; None: as PATH has it, or else of this tree
    :param hash_rounds: of passwords; None: the product's, for what measures a start or a login
    """

    def __init__(self, driver='fake', options=(), thread_model='native', command=None, hash_rounds=HASH_ROUNDS):
        self.state = pathlib.Path(tempfile.mkdtemp(prefix='nova-local.'))
        self.driver, self.thread_model = driver, thread_model
        self.command = command or shutil.which('nova-all') or TREE / '.venv/bin/nova-all'
        self.port = free_port()
        self.config = self.state / 'local.conf'
        rounds = [] if hash_rounds is None else ['[identity]', f'password_hash_rounds = {hash_rounds}']
        self.config.write_text('\n'.join([*rounds, '[DEFAULT]', *options]) + '\n')
        self.log = self.state / 'nova-all.out'
        self.process, self.token = None, None
        self.local = threading.local()

    def start(self):
        """Start the process; seconds until its first answer.

        :raises RuntimeError: it ended or did not answer in time
        """
        begin = time.perf_counter()
        self.launch()
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.first_answer()
                break
            if self.process.poll() is not None or time.perf_counter() - begin > START_S:
                raise RuntimeError(f'nova-all did not start:\n{self.last_words()}')
            time.sleep(0.02)
        elapsed = time.perf_counter() - begin
        if self.token is None:
            self.login()
        return elapsed

    def launch(self):
        """Start the process and wait for nothing."""
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(
                [self.command, '--config-file', self.config, '--state-path', self.state, '--driver', self.driver,
                 '--port', str(self.port)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, env={**os.environ, 'NOVA_THREAD_MODEL': self.thread_model})

    def first_answer(self):
        """Ask for the index. The address is taken before anything is served: who connects early waits."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=START_S)
        try:
            connection.request('GET', '/')
            connection.getresponse().read()
        finally:
            connection.close()

    def last_words(self, lines=30):
        return b'\n'.join(self.log.read_bytes().splitlines()[-lines:]).decode(errors='replace')

    def kill(self):
        """SIGKILL: nothing is finished, nothing is cleaned up."""
        self.process.kill()
        self.process.wait()
        self.local = threading.local()

    def account(self, cloud):
        """(user, password) of one of the clouds in clouds.yaml."""
        part = (self.state / 'clouds.yaml').read_text().partition(f'{cloud}:')[2]
        return tuple(re.search(name + r':\s*[\'"]?([^\s\'"]+)', part)[1] for name in ('username', 'password'))

    def login(self):
        _user, password = self.account('nova-admin')
        body = {'auth': {'identity': {'methods': ['password'], 'password': {'user': {
            'name': 'admin', 'password': password, 'domain': {'id': 'default'}}}},
            'scope': {'project': {'name': 'admin', 'domain': {'id': 'default'}}}}}
        connection = http.client.HTTPConnection('127.0.0.1', self.port)
        connection.request('POST', '/identity/v3/auth/tokens', json.dumps(body),
                           {'Content-Type': 'application/json'})
        reply = connection.getresponse()
        data = json.loads(reply.read())
        self.token = reply.getheader('X-Subject-Token')
        self.project_id = data['token']['project']['id']
        self.endpoints = {service['type']: endpoint['url'] for service in data['token']['catalog']
                          for endpoint in service['endpoints'] if endpoint['interface'] == 'public'}

    def call(self, method, path, body=None, version=None, service='compute', content_type='application/json'):
        """One request on this thread's connection; (status, body bytes). Raises OSError or HTTPException."""
        connection = getattr(self.local, 'connection', None)
        if connection is None:
            connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=300)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.local.connection = connection
        headers = {'X-Auth-Token': self.token}
        if version is not None:
            headers['OpenStack-API-Version'] = f'{API_NAMES.get(service, service)} {version}'
        if body is not None:
            headers['Content-Type'] = content_type
            if not isinstance(body, bytes):
                body = json.dumps(body).encode()
        base = urllib.parse.urlsplit(self.endpoints[service]).path.rstrip('/')
        try:
            connection.request(method, base + path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            self.local.connection = None
            raise

    def forget_connection(self):
        """Connect again with the next call: the server closes connections that are idle."""
        self.local.connection = None

    def json(self, *args, **kwargs):
        """The decoded answer; raises RuntimeError when it is a refusal."""
        status, data = self.call(*args, **kwargs)
        if status >= 400:
            raise RuntimeError(f'{args}: {status} {data[:400]!r}')
        return json.loads(data) if data else None

    def add_image(self, name, path, disk_format):
        """The id of a new public image."""
        prefix = '' if '/v2' in self.endpoints['image'] else '/v2'
        image = self.json('POST', prefix + '/images', {
            'name': name, 'disk_format': disk_format, 'container_format': 'bare', 'visibility': 'public'},
            service='image')
        status, data = self.call('PUT', f'{prefix}/images/{image["id"]}/file', pathlib.Path(path).read_bytes(),
                                 service='image', content_type='application/octet-stream')
        if status >= 400:
            raise RuntimeError(f'upload of {path}: {status} {data[:400]!r}')
        return image['id']

    def rss_mib(self):
        for line in pathlib.Path(f'/proc/{self.process.pid}/status').read_text().splitlines():
            if line.startswith('VmRSS:'):
                return round(int(line.split()[1]) / 1024, 1)

    def cpu_s(self):
        """Processor time that the process has used."""
        fields = pathlib.Path(f'/proc/{self.process.pid}/stat').read_text().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def remove_network(self):
        """Remove what the linux network driver made on this host; the process must have ended."""
        command = shutil.which('nova-manage') or TREE / '.venv/bin/nova-manage'
        subprocess.run([command, 'network', 'teardown', '--config-file', self.config], check=True)

    def end(self, timeout=30):
        """SIGTERM: what runs is finished. Its exit code; SIGKILL when it takes longer than so many seconds."""
        if self.process is None or self.process.poll() is not None:
            return None
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
        self.process.kill()
        self.local = threading.local()
        return self.process.wait()

    def close(self, keep=False):
        """Stop it in an orderly way and remove its directory."""
        self.end()
        if not keep:
            shutil.rmtree(self.state, ignore_errors=True)
