"""Every route of every face with input that nobody should send, over HTTP to the whole cloud.

What comes back is a documented fault of the face: never a 500, never a piece of the program. What another project
asks for changes nothing.
"""
import http.client
import json
import random
import re
import urllib.parse
import uuid

import pytest

from nova.api import app as compute_app
from nova.identity.rest import handlers as identity_handlers
from nova.image import resources as image_resources
from nova.image.rest import handlers as image_handlers
from nova.network.rest import app as network_app
from nova.tests import long_runs
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import isolation
from nova.volume.rest import handlers as volume_handlers

ROUNDS = 20 if long_runs.LONG else 3           # requests of each route
INTERNALS = re.compile(
    r'Traceback|File "|\.py\b|sqlalchemy|sqlite|SELECT |INSERT |<class|object at 0x|NoneType|KeyError')

HOSTILE = (None, True, 0, -1, 1.5, 2 ** 31, 2 ** 63, 10 ** 40, -10 ** 40, 1e308, '', ' ', '\n', '\t', '\u202e',
           '\ufffe',
           'é' * 200, 'x' * 256, 'x' * 70000, '9' * 400, '%00', '%', '%s%n%d', "' OR 1=1 --", '../../../etc/passwd',
           '/etc/passwd', '<script>', '${jndi:x}', '{{7*7}}', '\u0000', 'a\u0000b', '\ud800', [], {}, [None], [[]],
           [{}], {'': ''},
           {'x': {'y': [1]}}, [1, 'x'], [[[[[[]]]]]], {'\u0000': 1}, 'null', 'true', '0x10', '1e5', '-0', '١٢٣',
           '0' * 40,
           'NaN', '2026-99-99T99:99:99Z', '::1', '0.0.0.0/0', 'fe80::1%eth0', 'a' * 36, '-' * 36)
TEXTS = ('x', 'canary', '42', '1', 'default', 'public', 'active', '10.0.0.5', 'fa:16:3e:00:00:01', 'True', 'error',
         '2026-01-01T00:00:00Z', 'QUJD', 'raw', 'bare', 'HARD', 'tcp', 'ingress', 'a=b', 'in:x', '*')
# Bodies that are no documents, or not of the right form.
RAW = (b'', b'{', b'}', b'null', b'true', b'0', b'""', b'[]', b'{}', b'[[]]', b'\xff\xfe{}', b'\x00', b'{"a": NaN}',
       b'{"a": 1e999}', b'{"a":' * 5000 + b'1' + b'}' * 5000, b'[' * 100000, b'{"a": 1' + b'0' * 5000 + b'}',
       b'{"x": "\\ud800"}', b'{"x": "\xc3\x28"}', b'\xef\xbb\xbf{}', b'{"\\u0000": "\\u0000"}', b"{'a': 1}",
       b'{"server": {}, "server": {"name": "x"}}', b'a=b&c=d',
       b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
PARTS = ('x', '0', '-1', '42', 'detail', 'x' * 300, 'é', '%', '%00', '%2e%2e', '..%2f..', '%c0%af', '%ff',
         '%0d%0aX-Y: z',
         'a b', "'", ';', '*', '%F0%9F%92%A9', isolation.MISSING, isolation.MISSING.upper(),
         '{' + isolation.MISSING + '}')
QUERIES = ('limit', 'marker', 'sort_key', 'sort_dir', 'name', 'status', 'fields', 'all_tenants', 'deleted',
           'changes-since',
           'project_id', 'user_id', 'ip', 'tags', 'id', 'member_status', 'size_min', 'created_at', 'sort',
           'enabled',
           'user.id', 'x', '', 'fixed_ips', 'visibility', 'is_public', 'minRam', 'tenant_id', 'effective',
           'nocatalog')
HEADERS = ({}, {}, {}, {'OpenStack-API-Version': 'compute latest'}, {'OpenStack-API-Version': 'compute 2.'},
           {'OpenStack-API-Version': 'compute 2.99999'}, {'OpenStack-API-Version': 'x' * 5000},
           {'OpenStack-API-Version': 'compute'}, {'OpenStack-API-Version': ',,,compute 2.1, compute 2.2'},
           {'X-OpenStack-Nova-API-Version': '2.1.1'}, {'X-OpenStack-Nova-API-Version': '-1'},
           {'Content-Type': 'text/plain'}, {'Content-Type': 'application/json; charset=utf-7'},
           {'Content-Type': 'multipart/form-data; boundary='}, {'Content-Type': ''}, {'Content-Type': '\xff/\xfe'},
           {'Accept': 'text/html'}, {'Accept': '*/*;q=x'}, {'Accept-Language': 'x' * 1000}, {'Range': 'bytes=9-1'},
           {'Range': 'bytes=' + '9' * 30 + '-'}, {'X-OpenStack-Image-Size': '-1'}, {'If-Match': 'x'},
           {'X-Subject-Token': 'x' * 300}, {'X-Openstack-Request-Id': 'req-\xff'}, {'X-Service-Token': 'x'},
           {'X-HTTP-Method-Override': 'DELETE'}, {'X-Forwarded-For': '10.0.0.1'}, {'X-Instance-ID': 'x'},
           {'Expect': 'x'}, {'Accept-Encoding': 'x' * 100}, {'Cookie': '=;=' * 100})
PATCHES = 'application/openstack-images-v2.1-json-patch'


def _object(names):
    return {'type': 'object', 'properties': dict.fromkeys(names, {})}


def routes():
    """(method, path with {names}, JSON schema of the body or None, content type)."""
    found = []
    for row in compute_app.all_routes():
        if row.api and row.path != '/os-events':         # an answer without an end
            schema = row.body and row.body.schema(96)
            found += [(row.method, '/compute/v2.1' + row.path, schema, 'application/json'),
                      (row.method, '/compute/v2' + row.path, row.body and row.body.schema(1, True),
                       'application/json')]
    for row in identity_handlers.ROUTES:
        found.append((row.method, '/identity' + row.path, row.body and row.body.schema(),
                      'application/json'))
    for row in image_handlers.ROUTES:
        method, path = row.method, '/image' + row.path.replace('image_id', 'image')
        path = re.sub(r'\{(?!image\})\w+\}', '{part}', path)
        schema, kind = _object([*image_resources.FIELDS, 'own', 'kernel_id']), 'application/json'
        if method == 'PATCH':
            step = {'type': 'object', 'required': ['op', 'path'], 'properties': {
                'op': {'enum': ['add', 'remove', 'replace', 'move']}, 'value': {},
                'path': {'enum': ['/' + name for name in image_resources.FIELDS] + [
                    '/x', '', '/', '/tags/0', '/~2', '/a/b/c']}}}
            schema, kind = {'type': 'array', 'items': step}, PATCHES
        elif 'members' in path:
            schema = _object(['member', 'status'])
        found.append((method, path, schema if method in ('POST', 'PUT', 'PATCH') else None, kind))
    for name, resource in network_app.RESOURCES.items():
        for row in network_app.ROUTES:
            if row.path.split('/')[1] == name:
                schema = {'type': 'object', 'required': [resource.name], 'properties': {
                    resource.name: _object(resource.attributes)}} if row.body else None
                path = '/network/v2.0' + row.path.replace('{id}', '{%s}' % resource.name)
                found.append((row.method, path, schema, 'application/json'))
    for row in volume_handlers.ROUTES:
        schema = row.body and row.body.schema(0)
        if row.action and schema is None:
            schema = {'type': 'object', 'required': [row.action], 'properties': {row.action: {}}}
        path = re.sub(r'\{\w+\}', '{%s}' % row.path.split('/')[1].removesuffix('s'), row.path)
        found.append((row.method, '/volume/v3' + path, schema, 'application/json'))
    return found


ROUTES = routes()


class Fuzz:
    """Requests made of a seed; ``known`` are ids that exist."""

    def __init__(self, seed, known):
        self.rng, self.known = random.Random(seed), known
        self.ids = list(known.values())

    def value(self, schema, depth=0):
        """A value that mostly follows a JSON schema, and is hostile now and then."""
        rng = self.rng
        if rng.random() < 0.08 or depth > 6 or not isinstance(schema, dict):
            return rng.choice(HOSTILE)
        for key in ('anyOf', 'oneOf'):
            if key in schema:
                return self.value(rng.choice(schema[key]), depth + 1)
        if 'enum' in schema:
            return rng.choice(schema['enum'])
        kind = schema.get('type')
        kind = rng.choice(kind) if isinstance(kind, list) else kind
        if kind == 'object':
            names = [name for name in schema.get('properties', {})
                     if name in schema.get('required', ()) and rng.random() < 0.95 or rng.random() < 0.4]
            document = {name: self.value(schema['properties'][name], depth + 1) for name in names}
            for pattern in schema.get('patternProperties', {}).values():
                document[rng.choice(TEXTS)] = self.value(pattern, depth + 1)
            if rng.random() < 0.1:
                document[rng.choice(('extra', '', 'id', '__class__', 'x' * 300))] = rng.choice(HOSTILE)
            return document
        if kind == 'array':
            return [self.value(schema.get('items', {}), depth + 1) for _ in range(rng.randrange(4))]
        if kind in ('integer', 'number'):
            return rng.choice((0, 1, 2, -1, 64, 2 ** 31 - 1, '7'))
        if kind == 'boolean':
            return rng.choice((True, False, 'true', 'x'))
        if kind == 'null':
            return None
        return rng.choice(self.ids if rng.random() < 0.4 else TEXTS if rng.random() < 0.8 else HOSTILE)

    def path(self, template):
        def part(match):
            name, rng = match[1], self.rng
            candidates = [value for key, value in self.known.items() if key in name or key in template]
            if candidates and rng.random() < 0.7:
                return urllib.parse.quote(rng.choice(candidates), safe='')
            return urllib.parse.quote(rng.choice(PARTS), safe='%;\'*')
        path = re.sub(r'\{(\w+)\}', part, template)
        if self.rng.random() < 0.3:
            texts = [str(self.rng.choice(HOSTILE + TEXTS)).encode('utf-8', 'replace')
                     for _ in range(self.rng.randrange(1, 5))]
            path += '?' + '&'.join(
                f'{self.rng.choice(QUERIES)}={urllib.parse.quote(text)[:2000]}' for text in texts)
        return path

    def body(self, schema):
        if schema is None:
            return None if self.rng.random() < 0.8 else self.rng.choice(RAW)
        if self.rng.random() < 0.12:
            return self.rng.choice(RAW)
        text = json.dumps(self.value(schema))
        if self.rng.random() < 0.05:
            text = text[:self.rng.randrange(len(text) + 1)]
        return text.encode('utf-8', 'replace')


class Wire:
    """One kept connection, as plain as http.client has it."""

    def __init__(self, url):
        self._address, self._connection = urllib.parse.urlsplit(url).netloc, None

    def send(self, method, path, body, headers, chunked):
        """(status, body); once more on a new connection when the server has closed this one."""
        for last in (False, True):
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._address, timeout=120)
            try:
                self._request(method, path, body, headers, chunked)
                response = self._connection.getresponse()
                return response.status, response.read()
            except (http.client.HTTPException, OSError):
                self._connection = None
                if last:
                    raise

    def _request(self, method, path, body, headers, chunked):
        connection = self._connection
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if chunked:
            connection.putheader('Transfer-Encoding', 'chunked')
        elif body is not None:
            connection.putheader('Content-Length', str(len(body)))
        connection.endheaders()
        for piece in (body[:7], body[7:]) if chunked else (body or b'',):
            if piece:
                connection.send(b'%x\r\n%b\r\n' % (len(piece), piece) if chunked else piece)
        if chunked:
            connection.send(b'0\r\n\r\n')


def faulty(method, path, status, body):
    """What is wrong with an answer, or None."""
    if status >= 500 and not (status == 501 and '/compute' in path):
        return 'an error of the server'
    if method == 'HEAD' or status in (204, 304):
        return 'a body where none may be' if body else None
    if status >= 400:
        try:
            document = json.loads(body)
        except ValueError:
            return 'no JSON'
        if not isinstance(document, dict) or INTERNALS.search(body.decode()):
            return 'no fault'
        if len(body) > 4000:
            return 'too long a fault'
    return None


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('fuzz'), quota__instances=500, quota__cores=-1,
                               quota__ram=-1, quota__key_pairs=2000) as made:
        yield made


@pytest.fixture(scope='module')
def admin(cloud):
    return cloud.admin()


@pytest.fixture(scope='module')
def owner(admin):
    return isolation.add_user(admin, 'project-own', 'member')


@pytest.fixture(scope='module')
def things(owner):
    return isolation.make_things(owner)


def known_of(things, client, sacrifice):
    """Ids by the names of the parts of paths."""
    return {'server': things['server'], 'image': things['image'], 'security_group': things['group'],
            'port': things['port'],
            'security_group_rule': things['rule'], 'network': things['network'], 'flavor': '42',
            'keypairs': things['key'],
            'instance-actions': things['request'], 'snapshot': things['volume_snapshot'], 'volume': things['volume'],
            'os-volume_attachments': things['volume'], **sacrifice}


def attack(client, fuzz, rounds):
    """Send it all; [(what is wrong, request, answer)] and the codes that came."""
    wrong, codes, wire, rng = [], set(), Wire(client.url), fuzz.rng
    for method, template, schema, kind in ROUTES:
        for _ in range(rounds if (method, template) != ('DELETE', '/identity/v3/auth/tokens') else 0):
            path, body = fuzz.path(template), fuzz.body(schema)
            headers = {'X-Auth-Token': client.token, 'Content-Type': kind,
                       'OpenStack-API-Version': rng.choice(('compute 2.1', 'compute 2.60', 'compute 2.96')),
                       **rng.choice(HEADERS)}
            try:
                status, text = wire.send(method, path, body, headers, body is not None and rng.random() < 0.1)
            except (http.client.HTTPException, OSError) as error:
                status, text, problem = 0, b'', f'no answer: {error!r}'
            else:
                problem = faulty(method, path, status, text)
            codes.add(status)
            if problem:
                wrong.append((problem, method, path[:300], (body or b'')[:300], status, text[:400]))
    return wrong, codes


def test_another_projects_input_changes_nothing(cloud, admin):
    """Before the administrator's, which may remove what every project needs."""
    owner = isolation.add_user(admin, 'project-victim', 'member')
    things = isolation.make_things(owner)
    other = isolation.add_user(admin, 'project-other', 'member')
    before = isolation.everything(owner, things)
    known = known_of(things, other, {'user': owner.user_id, 'project': owner.project_id})
    wrong, codes = attack(other, Fuzz(2, known), ROUNDS)
    assert not wrong, '\n'.join(map(str, wrong[:20]))
    assert {200, 400, 403, 404} <= codes
    assert isolation.everything(owner, things) == before


def test_random_administrator_input_causes_no_server_error(cloud, admin, things):
    """Who may everything gets as far as input can get: still no error of the server, and the cloud lives on."""
    sacrifice = isolation.add_user(admin, 'sacrifice', 'member')
    role = isolation.one(admin, '/identity/v3/roles', 'role', name='sacrifice')['id']
    flavor = isolation.one(admin, '/flavors', 'flavor', name='sacrifice', ram=1, vcpus=1, disk=1,
                           id='sacrifice')['id']
    known = known_of(things, admin, {'user': sacrifice.user_id, 'project': sacrifice.project_id, 'role': role,
                                     'flavor': flavor})
    wrong, codes = attack(admin, Fuzz(1, known), ROUNDS)
    assert not wrong, '\n'.join(map(str, wrong[:20]))
    assert {200, 202, 204, 400, 404, 409} <= codes           # it did get somewhere
    assert admin.get('/servers/detail?all_tenants=1', version='2.96').status_code == 200
    assert admin.get('/image/v2/images').status_code == admin.get('/network/v2.0/ports').status_code == 200


def test_random_input_without_a_token_causes_no_server_error(cloud, admin, things):
    """Without a token there is nothing behind the doors."""
    class Nobody:
        url, token = admin.url, 'gAAAA' + uuid.uuid4().hex
    wrong, codes = attack(Nobody, Fuzz(3, known_of(things, admin, {'user': 'x'})), 2)
    assert not wrong, '\n'.join(map(str, wrong[:20]))
    assert codes <= {200, 300, 302, 400, 401, 404, 405, 406, 413, 415, 429}
