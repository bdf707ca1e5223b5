"""What tests share with nova/tests/functional/test_refused_tokens.py."""
import datetime
import json
import threading

DOMAIN = {'id': 'default', 'name': 'Default'}
END = datetime.datetime(2999, 1, 2, 3, 4, 5)
TOKEN = {'token': {'methods': ['password'], 'issued_at': '2020-01-01T00:00:00.000000Z', 'catalog': [], 'roles': [],
                   'expires_at': END.isoformat() + 'Z', 'user': {'id': 'u', 'name': 'nova', 'domain': DOMAIN},
                   'project': {'id': 'p', 'name': 'p', 'domain': DOMAIN}}}


class Refusing:
    """A service that answers with one code, after ``before`` was called, and a Keystone at /keystone."""

    def __init__(self, code=401):
        self.code, self.before, self.logins, self.tokens = code, lambda: None, 0, []
        self._lock = threading.Lock()

    def __call__(self, environ, start_response):
        environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
        if environ['PATH_INFO'].startswith('/keystone'):
            return self._keystone(environ, start_response)
        self.before()
        self.tokens.append(environ.get('HTTP_X_AUTH_TOKEN'))
        start_response(f'{self.code} X', [('Content-Type', 'application/json')])
        return [b'{"fault": {"message": "x"}}']

    def _keystone(self, environ, start_response):
        if environ['REQUEST_METHOD'] == 'GET':
            start_response('200 OK', [('Content-Type', 'application/json')])
            return [json.dumps({'version': {'id': 'v3.14', 'status': 'stable', 'links': [
                {'rel': 'self', 'href': self.address + '/keystone/v3'}]}}).encode()]
        with self._lock:
            self.logins += 1
            token = f'own-{self.logins}'
        start_response('201 Created', [('Content-Type', 'application/json'), ('X-Subject-Token', token)])
        return [json.dumps(TOKEN).encode()]
