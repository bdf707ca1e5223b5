"""Tokens that are none, logins that are none, and headers that claim who asks (classes E, F and N)."""
import base64
import functools
import json
from collections.abc import Iterator

from nova.tests.attacks import base
from nova.tests.attacks.base import Attack

# face: something that needs a token
NEEDS = {'compute': '/servers', 'image': '/images', 'network': '/ports', 'volume': '/volumes',
         'identity': '/auth/tokens'}


def _jwt(**header) -> str:
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip('=')
    return f'{part(header)}.{part({"sub": "admin", "roles": ["admin"], "exp": 9999999999})}.'


def forged(token: str) -> dict[str, str]:
    """{name: text that must be no token}, made of a good one."""
    found = {'empty': '', 'a space': ' ', 'None': 'None', 'null': 'null', 'true': 'true', 'zero': '0', 'a dot': '.',
             'ADMIN': 'ADMIN', 'a uuid': '0' * 32, 'a path': '../../etc/passwd', 'a quote': "' OR '1'='1",
             'a double quote': '" OR ""="', 'a format': '%s%s%s%n', 'a template': '{{7*7}}', 'a lookup': '${jndi:ldap://x}',
             'base64': base64.b64encode(b'admin').decode(), 'long': 'a' * 8000, 'longer': 'gAAAAA' + 'A' * 30000,
             'alg none': _jwt(alg='none', typ='JWT'), 'alg NONE': _jwt(alg='NONE'),
             'kid path': _jwt(alg='HS256', kid='../../../dev/null'), 'fernet-like': 'gAAAAABl' + 'A' * 100,
             'twice': token + token, 'cut': token[:-1], 'half': token[:len(token) // 2], 'upside down': token[::-1],
             'longer by one': token + 'A', 'with a prefix': 'Bearer ' + token, 'in quotes': f'"{token}"',
             'swapped case': token.swapcase(), 'list': f'{token},{token}',
             'more padding': token + '=', 'a quote behind it': token + "'"}
    step = max(1, len(token) // 24)
    for place in range(0, len(token), step):
        changed = 'A' if token[place] != 'A' else 'B'
        found[f'changed at {place}'] = token[:place] + changed + token[place + 1:]
    return found


CLAIMS = (
    {'X-User-Id': 'admin', 'X-Roles': 'admin', 'X-Identity-Status': 'Confirmed'},
    {'X-User-Id': 'admin', 'X-Project-Id': 'x', 'X-Roles': 'admin', 'X-Identity-Status': 'Confirmed',
     'X-Is-Admin-Project': 'True'},
    {'X_User_Id': 'admin', 'X_Roles': 'admin', 'X_Identity_Status': 'Confirmed'},
    {'X-Tenant-Id': 'x', 'X-Role': 'admin', 'X-User': 'admin', 'X-Identity-Status': 'Confirmed'},
    {'X-Service-Roles': 'service', 'X-Service-Identity-Status': 'Confirmed'},
    {'X-Service-Token': 'x'}, {'OpenStack-System-Scope': 'all'}, {'X-Token-Info': '{}'},
    {'Authorization': 'Basic YWRtaW46YWRtaW4='}, {'Authorization': 'Bearer x'}, {'X-Auth-User': 'admin'},
    {'X-Storage-Token': 'x'}, {'Cookie': 'X-Auth-Token=x'}, {'X-Forwarded-User': 'admin'}, {'Remote-User': 'admin'},
    {'X-Remote-User': 'admin'}, {'X-Forwarded-For': '127.0.0.1'}, {'X-Real-IP': '127.0.0.1'},
    {'X-Instance-ID': base.MISSING, 'X-Tenant-ID': 'x', 'X-Instance-ID-Signature': '0' * 64},
)

_USER = {'name': 'admin', 'domain': {'id': 'default'}}
LOGINS = {
    'no methods': {'identity': {'methods': []}}, 'nothing': {}, 'a list': {'identity': []},
    'no password': {'identity': {'methods': ['password'], 'password': {'user': _USER}}},
    **{f'password {kind}': {'identity': {'methods': ['password'], 'password': {'user': {**_USER, 'password': value}}}}
       for kind, value in (('null', None), ('empty', ''), ('true', True), ('a list', ['a']), ('an object', {'$ne': ''}),
                           ('a number', 0), ('nul', 'a\0b'), ('72 bytes', 'a' * 72), ('a megabyte', 'a' * 900_000),
                           ('quote', "' OR 1=1 --"), ('surrogate', '\ud800'))},
    **{f'user {kind}': {'identity': {'methods': ['password'], 'password': {'user': {
        'name': value, 'domain': {'id': 'default'}, 'password': 'x'}}}}
       for kind, value in (('null', None), ('empty', ''), ('a list', ['admin']), ('quote', "admin' --"),
                           ('nul', 'admin\0'), ('long', 'a' * 100_000), ('wildcard', '%'), ('space', 'admin '),
                           ('case', 'ADMIN'))},
    'unknown method': {'identity': {'methods': ['external'], 'external': {}}},
    'mapped': {'identity': {'methods': ['mapped'], 'mapped': {}}},
    'saml2': {'identity': {'methods': ['saml2'], 'saml2': {'identity_provider': 'x', 'protocol': 'x'}}},
    'oauth1': {'identity': {'methods': ['oauth1'], 'oauth1': {}}},
    'kerberos': {'identity': {'methods': ['kerberos'], 'kerberos': {}}},
    'trust': {'identity': {'methods': ['password'], 'password': {'user': {**_USER, 'password': 'x'}}},
              'scope': {'OS-TRUST:trust': {'id': base.MISSING}}},
    'many methods': {'identity': {'methods': ['password'] * 5000, 'password': {'user': {**_USER, 'password': 'x'}}}},
    'token of nothing': {'identity': {'methods': ['token'], 'token': {'id': ''}}},
    'token null': {'identity': {'methods': ['token'], 'token': {'id': None}}},
    'application credential': {'identity': {'methods': ['application_credential'], 'application_credential': {
        'id': base.MISSING, 'secret': 'x'}}},
    'application credential null': {'identity': {'methods': ['application_credential'], 'application_credential': {
        'id': None, 'secret': None}}},
    'application credential by name': {'identity': {'methods': ['application_credential'], 'application_credential': {
        'name': '%', 'user': _USER, 'secret': 'x'}}},
}


def attacks(stage) -> Iterator[Attack]:
    for face, path in NEEDS.items():
        if face not in stage.attacker.urls:
            continue
        for name, token in forged(stage.attacker.token).items():
            yield Attack('token', f'{face} {name}', functools.partial(_with_token, face, path, token))
        for number, headers in enumerate(CLAIMS):
            yield Attack('claim', f'{face} {number} {", ".join(headers)}',
                         functools.partial(_claiming, face, path, headers))
    for name, auth in LOGINS.items():
        yield Attack('login', name, functools.partial(_login, auth))
    for name, scope in _scopes(stage).items():
        yield Attack('scope', name, functools.partial(_rescope, scope))


def _with_token(face, path, token, stage):
    headers = {'X-Auth-Token': token, 'X-Subject-Token': token}
    try:
        answer = stage.anonymous.send('GET', face, path, headers=headers)
    except ValueError:                       # the client's library refuses to send it
        return None
    return base.refused(answer, (400, 401, 413, 431, 0))


def _claiming(face, path, headers, stage):
    return base.refused(stage.anonymous.send('GET', face, path, headers=headers), (401, 400))


def _login(auth, stage):
    body = json.dumps({'auth': auth}).encode()
    answer = stage.anonymous.send('POST', 'identity', '/auth/tokens', data=body,
                                  headers={'Content-Type': 'application/json'})
    return base.refused(answer, (400, 401, 403, 404, 413, 422, 429))


def _scopes(stage):
    victim = stage.victim.project_id
    return {'another project': {'project': {'id': victim}}, 'the system': {'system': {'all': True}},
            'the domain': {'domain': {'id': 'default'}}, 'admin by name': {'project': {
                'name': 'admin', 'domain': {'id': 'default'}}},
            'a project list': {'project': {'id': [stage.attacker.project_id, victim]}},
            'project null': {'project': {'id': None}}, 'project wildcard': {'project': {'id': '%'}}}


def _rescope(scope, stage):
    answer = stage.anonymous.send('POST', 'identity', '/auth/tokens', {'auth': {
        'identity': {'methods': ['token'], 'token': {'id': stage.attacker.token}}, 'scope': scope}})
    return base.refused(answer, (400, 401, 403, 404))
