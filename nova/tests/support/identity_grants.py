"""What tests share with nova/tests/functional/test_identity_grants.py."""
import pytest

from nova.tests import identity_fixture


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


class Admin:
    """Requests of the administrator that must succeed."""

    def __init__(self, cloud):
        self._cloud, self.token = cloud, cloud.token()

    def __call__(self, method, path, body=None, code=None):
        reply = self._cloud.call(method, path, body, self.token)
        expected = {'GET': 200, 'POST': 201, 'PUT': 204, 'DELETE': 204, 'PATCH': 200, 'HEAD': 204}
        assert reply.status_int == (code or expected[method]), (method, path, reply.text)
        return reply.json if reply.body else None

    def make(self, noun, **fields):
        return self('POST', f'/v3/{noun}s', {noun: fields})[noun]

    def user(self, name='u'):
        return self.make('user', name=name, password='pw')['id']
