"""A small OpenID Connect provider for tests: authorization code flow with PKCE, and ID tokens signed with RS256."""
import base64
import contextlib
import hashlib
import html
import http.server
import json
import secrets
import threading
import time
import urllib.parse

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa

FORM = '''<!doctype html><html lang="en"><title>Company</title><main><h1>Company login</h1>
<form method="post" action="/login"><input type="hidden" name="request" value="{}">
<label for="user">User</label><input id="user" name="user">
<label for="password">Password</label><input id="password" name="password" type="password">
<button>Sign in</button></form></main></html>'''
LIFE_S = 300                     # of an ID token


class Provider:
    """
    :ivar users: {name: password}
    :ivar codes: {code: (request, user)}, each of which is good for one token
    """

    def __init__(self, users):
        self.users, self.client, self.secret = users, 'keystone', secrets.token_urlsafe(16)
        self.redirect_uri, self.issued = None, 0
        self.requests, self.codes = {}, {}
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @contextlib.contextmanager
    def serving(self):
        """Serve it at ``issuer`` until the end."""
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), type('Handler', (_Handler,), {'provider': self}))
        self.issuer = f'http://127.0.0.1:{server.server_port}'
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

    def asked(self, query):
        """The login page of an authorization request."""
        assert (query['client_id'], query['response_type'], query['code_challenge_method']) == (
            self.client, 'code', 'S256') and 'openid' in query['scope'].split()
        assert query['redirect_uri'] == self.redirect_uri and query['state'] and query['nonce']
        ident = secrets.token_urlsafe(16)
        self.requests[ident] = query
        return FORM.format(html.escape(ident))

    def login(self, form):
        """The address to which the browser returns with a code; None: the password is wrong."""
        query = self.requests.pop(form['request'])
        if not secrets.compare_digest(self.users.get(form['user'], ''), form['password'] or ' '):
            return None
        code = secrets.token_urlsafe(16)
        self.codes[code] = query, form['user']
        return f'{query["redirect_uri"]}?' + urllib.parse.urlencode({'code': code, 'state': query['state']})

    def token(self, form, authorization):
        """The answer to the client that brings a code."""
        expected = base64.b64encode(f'{self.client}:{self.secret}'.encode()).decode()
        assert authorization == f'Basic {expected}' and form['grant_type'] == 'authorization_code'
        query, user = self.codes.pop(form['code'])
        challenge = _encoded(hashlib.sha256(form['code_verifier'].encode()).digest())
        assert challenge == query['code_challenge'] and form['redirect_uri'] == query['redirect_uri']
        now = int(time.time())
        claims = {'iss': self.issuer, 'sub': f'id-of-{user}', 'aud': self.client, 'iat': now, 'exp': now + LIFE_S,
                  'nonce': query['nonce'], 'preferred_username': user}
        head = '.'.join(_encoded(json.dumps(part).encode()) for part in (
            {'alg': 'RS256', 'typ': 'JWT', 'kid': 'one'}, claims))
        signature = self._key.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256())
        self.issued += 1
        return {'access_token': secrets.token_urlsafe(16), 'token_type': 'Bearer', 'expires_in': LIFE_S,
                'id_token': f'{head}.{_encoded(signature)}'}

    def keys(self):
        numbers = self._key.public_key().public_numbers()
        return {'keys': [{'kty': 'RSA', 'kid': 'one', 'use': 'sig', 'alg': 'RS256', **{
            name: _encoded(value.to_bytes((value.bit_length() + 7) // 8, 'big'))
            for name, value in (('n', numbers.n), ('e', numbers.e))}}]}


def _encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


class _Handler(http.server.BaseHTTPRequestHandler):
    provider = None

    def do_GET(self):
        path, _, query = self.path.partition('?')
        if path == '/authorize':
            self._answer(200, self.provider.asked(dict(urllib.parse.parse_qsl(query))), 'text/html')
        elif path == '/jwks':
            self._answer(200, json.dumps(self.provider.keys()), 'application/json')
        else:
            self._answer(404, '', 'text/plain')

    def do_POST(self):
        sent = self.rfile.read(int(self.headers['Content-Length'])).decode()
        form = dict(urllib.parse.parse_qsl(sent, keep_blank_values=True))
        if self.path == '/token':
            found = self.provider.token(form, self.headers['Authorization'])
            self._answer(200, json.dumps(found), 'application/json')
        elif where := self.provider.login(form):
            self._answer(303, '', 'text/plain', ('Location', where))
        else:
            self._answer(403, '<main><h1>Wrong password</h1></main>', 'text/html')

    def _answer(self, code, text, kind, *headers):
        body = text.encode()
        self.send_response(code)
        for name, value in (*headers, ('Content-Type', f'{kind}; charset=utf-8'), ('Content-Length', len(body))):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        """Write nothing."""
