"""A whole cloud in this process: the real services, the fake driver, real HTTP on a free port."""
import contextlib
import json
import time
import urllib.parse

import yaml

from nova import conf as nova_conf
from nova.cloud import all_in_one as cloud
from nova.tests import openapi_answers
from nova.tests import schemas
from nova.tests.support import http_session
from nova.tests.support import waiting

FAST = {'identity__password_hash_rounds': 4, 'graceful_shutdown_timeout': 5, 'report_interval': 1,
        'objectstore__port': 0}


class Cloud(cloud.Cloud):
    """
    :param directory: its state; started again there it is the same cloud
    :param hosts: names of fake compute hosts; None: one
    :param overrides: options as nova.conf.new takes them
    """

    def __init__(self, directory, hosts=None, **overrides):
        super().__init__(nova_conf.new(files=[], **{
            'state_path': str(directory), 'compute_driver': 'fake', 'network__driver': 'fake', 'http__port': 0,
            'host': 'host1', **FAST, **overrides}), hosts)

    def _migrate(self, database, branch):
        schemas.migrate(database, branch)

    def client(self, name='nova-demo', version=None):
        """A Client logged in as one of clouds.yaml: nova-admin, nova-demo or nova-service."""
        entry = yaml.safe_load(self.clouds_yaml.read_text())['clouds'][name]['auth']
        return Client(self.url, entry['username'], entry['password'], entry['project_name'], version,
                      str(self.authority) if self.authority else True)

    def admin(self, version=None):
        return self.client('nova-admin', version)


class Client:
    """HTTP with a token; paths are below the root, or below /compute/v2.1 when they start with /servers, …

    :param version: microversion sent with every request, None for none
    :param verify: file with the certificate authority to trust, True for those of the system
    """

    def __init__(self, url, user, password, project, version=None, verify=True):
        self.url, self.version = url, version
        self.session = http_session.Session()
        self.session.verify = verify
        answer = self.session.post(url + '/identity/v3/auth/tokens', json={'auth': {
            'identity': {'methods': ['password'], 'password': {
                'user': {'name': user, 'password': password, 'domain': {'id': 'default'}}}},
            'scope': {'project': {'name': project, 'domain': {'id': 'default'}}}}})
        answer.raise_for_status()
        self.token = answer.headers['X-Subject-Token']
        self.project_id = answer.json()['token']['project']['id']
        self.user_id = answer.json()['token']['user']['id']

    def request(self, method, path, body=None, version=None, **more):
        headers = {'X-Auth-Token': self.token, **more.pop('headers', {})}
        version = version or self.version
        if version:
            headers['OpenStack-API-Version'] = f'compute {version}'
        if not path.startswith(('/compute', '/identity', '/image', '/network', '/volume', '/key-manager', '/v2')):
            path = '/compute/v2.1' + path
        answer = self.session.request(method, self.url + path, json=body, headers=headers, **more)
        if not more.get('stream'):                     # the text of a stream has no end
            openapi_answers.check(method, path, body, answer.status_code, answer.headers, answer.text)
        return answer

    def get(self, path, **more):
        return self.request('GET', path, **more)

    def post(self, path, body=None, **more):
        return self.request('POST', path, body, **more)

    def put(self, path, body=None, **more):
        return self.request('PUT', path, body, **more)

    def delete(self, path, **more):
        return self.request('DELETE', path, **more)

    # ---- what most tests do

    def upload_image(self, data=b'\0' * 1048576, name='test', **fields):
        """An active raw image; returns its id."""
        made = self.post('/image/v2/images', {'name': name, 'disk_format': 'raw', 'container_format': 'bare',
                                              **fields})
        assert made.status_code == 201, made.text
        image_id = made.json()['id']
        sent = self.request('PUT', f'/image/v2/images/{image_id}/file', data=data,
                            headers={'Content-Type': 'application/octet-stream'})
        assert sent.status_code == 204, sent.text
        return image_id

    def boot(self, image_id, name='server', flavor='42', version=None, **fields):
        """POST /servers; the document of the answer."""
        server = {'name': name, 'imageRef': image_id, 'flavorRef': flavor, **fields}
        answer = self.post('/servers', {'server': server}, version=version)
        assert answer.status_code == 202, answer.text
        return answer.json()['server']

    def wait_for(self, server_id, status='ACTIVE', timeout=120):
        """The server once it has this status, None when it is gone and status is 'DELETED'.

        The longer it takes, the less often it is asked for: real guests boot for seconds, beside others that need the
        processor.
        """
        begun, limit = time.monotonic(), waiting.Limit(timeout)
        while True:
            answer = self.get(f'/servers/{urllib.parse.quote(server_id)}')
            if answer.status_code == 404 and status == 'DELETED':
                return None
            assert answer.status_code == 200, answer.text
            server = answer.json()['server']
            if server['status'] == status and server['OS-EXT-STS:task_state'] is None:
                return server
            assert server['status'] != 'ERROR' or status == 'ERROR', json.dumps(server, indent=1)
            assert not limit.is_over(), f"still {server['status']} {server['OS-EXT-STS:task_state']}"
            time.sleep(min(0.25, max(0.02, (time.monotonic() - begun) / 20)))


@contextlib.contextmanager
def running(directory, hosts=None, kind=None, **overrides):
    """A started Cloud, or one of another kind, stopped at the end."""
    made = (kind or Cloud)(directory, hosts, **overrides)
    made.start()
    try:
        yield made
    finally:
        made.stop(5)
