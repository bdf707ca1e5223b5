"""Keystone behind an OpenID Connect client, which stands in for Apache with mod_auth_openidc.

A program in the environment of Keystone. It protects the addresses of federated logins: a browser without a session is
sent to the provider, and Keystone gets the claims of the ID token as mod_auth_openidc sets them.
"""
import base64
import hashlib
import http.cookies
import json
import os
import re
import secrets
import socketserver
import urllib.parse
import urllib.request
from wsgiref import simple_server

import jwt

PROTECTED = re.compile(r'/v3/auth/OS-FEDERATION/(?:websso/openid|identity_providers/[^/]+/protocols/openid/websso)')
CALLBACK = '/v3/oidc_callback'
SESSION, STATE = 'oidc_session', 'oidc_state'


class Front:
    """WSGI application.

    :param application: of Keystone
    """

    def __init__(self, application, issuer, client, secret):
        self._application, self._issuer, self._client, self._secret = application, issuer, client, secret
        self._pending, self._sessions = {}, {}

    def __call__(self, environ, start_response):
        for name in [name for name in environ if name.startswith('HTTP_OIDC_')]:
            del environ[name]                              # a claim comes from the provider alone
        path = environ['PATH_INFO']
        if path != CALLBACK and not PROTECTED.fullmatch(path):
            return self._application(environ, start_response)
        cookies = http.cookies.SimpleCookie(environ.get('HTTP_COOKIE', ''))
        given = {name: morsel.value for name, morsel in cookies.items()}
        base = f'http://{environ["HTTP_HOST"]}'
        if path == CALLBACK:
            return self._return(environ, start_response, given, base + CALLBACK)
        claims = self._sessions.get(given.get(SESSION))
        if claims is None:
            return self._leave(start_response, f'{base}{path}?{environ["QUERY_STRING"]}', base + CALLBACK)
        environ.update({f'HTTP_OIDC_{name.upper()}': str(value) for name, value in claims.items()})
        return self._application(environ, start_response)

    def _leave(self, start_response, target, callback):
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        self._pending[state] = nonce, verifier, target
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b'=').decode()
        query = urllib.parse.urlencode({
            'response_type': 'code', 'client_id': self._client, 'redirect_uri': callback, 'scope': 'openid profile',
            'state': state, 'nonce': nonce, 'code_challenge': challenge, 'code_challenge_method': 'S256'})
        return _redirect(start_response, f'{self._issuer}/authorize?{query}', STATE, state)

    def _return(self, environ, start_response, given, callback):
        query = dict(urllib.parse.parse_qsl(environ['QUERY_STRING']))
        if not query.get('state') or query['state'] != given.get(STATE):
            start_response('400 Bad Request', [('Content-Type', 'text/plain')])
            return [b'The state is not that of this browser.\n']
        nonce, verifier, target = self._pending.pop(query['state'])
        pair = base64.b64encode(f'{self._client}:{self._secret}'.encode()).decode()
        found = _fetched(urllib.request.Request(f'{self._issuer}/token', urllib.parse.urlencode({
            'grant_type': 'authorization_code', 'code': query['code'], 'redirect_uri': callback,
            'code_verifier': verifier}).encode(), {'Authorization': f'Basic {pair}'}))
        token = found['id_token']
        keys = {key['kid']: key for key in _fetched(f'{self._issuer}/jwks')['keys']}
        claims = jwt.decode(token, jwt.PyJWK(keys[jwt.get_unverified_header(token)['kid']]).key, algorithms=['RS256'],
                            audience=self._client, issuer=self._issuer,
                            options={'require': ['exp', 'iat', 'iss', 'aud', 'sub', 'nonce']})
        if claims['nonce'] != nonce:
            raise ValueError('the nonce is not that of the request')
        session = secrets.token_urlsafe(32)
        self._sessions[session] = claims
        return _redirect(start_response, target, SESSION, session)


def _fetched(request):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return json.load(answer)


def _redirect(start_response, where, name, value):
    start_response('302 Found', [('Location', where), ('Content-Length', '0'),
                                 ('Set-Cookie', f'{name}={value}; Path=/; HttpOnly; SameSite=Lax')])
    return []


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


def main():
    from keystone.wsgi import api
    front = Front(api.application, *(os.environ[f'OIDC_{name}'] for name in ('ISSUER', 'CLIENT', 'SECRET')))
    simple_server.make_server('127.0.0.1', int(os.environ['PORT']), front, _Server).serve_forever()


if __name__ == '__main__':
    main()
