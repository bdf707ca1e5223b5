"""What tests share with nova/tests/unit/test_token_cache.py."""
import json
import threading

import pytest

from nova import conf as nova_conf
from nova.identity import auth
from nova.tests import image_service
from nova.web import paste_registry

DOMAIN = {'id': 'default', 'name': 'Default'}


class Keystone:
    """Knows every token; its answers end at ``end``."""

    def __init__(self):
        self.asked, self.end, self._lock = [], '2999-01-02T03:04:05.000000Z', threading.Lock()
        self.more = {}

    def __call__(self, environ, start_response):
        headers = [('Content-Type', 'application/json')]
        if environ['REQUEST_METHOD'] == 'POST':
            endpoints = [{'id': 'e', 'interface': interface, 'region': 'r', 'region_id': 'r',
                          'url': self.address + '/v3'}
                         for interface in ('public', 'internal', 'admin')]
            catalog = [{'type': 'identity', 'name': 'keystone', 'id': 'i', 'endpoints': endpoints}]
            body, headers = {'token': {**self._token(), 'catalog': catalog}}, [*headers, ('X-Subject-Token', 'own')]
            start_response('201 Created', headers)
        elif environ['PATH_INFO'].endswith('/auth/tokens'):
            with self._lock:
                self.asked.append((environ['HTTP_X_SUBJECT_TOKEN'], environ.get('QUERY_STRING', '')))
            body = {'token': {**self._token(), **self.more}}
            start_response('200 OK', headers)
        else:
            body = {'version': {'id': 'v3.14', 'status': 'stable', 'links': [
                {'rel': 'self', 'href': self.address + '/v3'}]}}
            start_response('200 OK', headers)
        return [json.dumps(body).encode()]

    def _token(self):
        return {'methods': ['password'], 'issued_at': '2020-01-01T00:00:00.000000Z', 'catalog': [], 'audit_ids': ['x'],
                'expires_at': self.end, 'user': {'id': 'u', 'name': 'nova', 'domain': DOMAIN},
                'roles': [{'id': 'r', 'name': 'member'}], 'project': {'id': 'p', 'name': 'p', 'domain': DOMAIN}}


@pytest.fixture
def keystone():
    made = Keystone()
    with image_service.listening(made) as made.address:
        yield made


def guarded(keystone, tmp_path, behind):
    """An application behind auth_token."""
    (tmp_path / 'own.conf').write_text(
        f'[keystone_authtoken]\nauth_type = password\nauth_url = {keystone.address}/v3\nusername = nova\npassword = p\n'
        'user_domain_id = default\nproject_name = service\nproject_domain_id = default\nservice_type = compute\n'
        'www_authenticate_uri = http://keystone.test/\n')
    conf = nova_conf.new(files=[str(tmp_path / 'own.conf')])
    return auth.authtoken_factory({'conf': paste_registry.register(conf)}, delay_auth_decision='true')(behind)
