"""Data that is dangerous by what it is: images, files for guests, filters that cost, addresses that lie."""
import base64
import json
import time
import urllib.parse

import pytest
import requests
import sqlalchemy as sa

from nova.api.metadata import app as metadata_app
from nova.db.tables import network as t
from nova.runtime import wsgi
from nova.tests import image_corpus as corpus
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import isolation
from nova.tests.support import waiting


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('input'), quota__instances=-1, quota__cores=-1,
                               quota__ram=-1) as made:
        yield made


@pytest.fixture(scope='module')
def demo(cloud):
    return cloud.client()


@pytest.fixture(scope='module')
def admin(cloud):
    return cloud.admin()


# ---- images (classes A and C)

def pieces(data, size=997):
    """The data in chunks that cut every header."""
    return (data[start:start + size] for start in range(0, len(data), size))


@pytest.mark.parametrize('name, data, declared, reason', corpus.DANGEROUS, ids=[row[0] for row in corpus.DANGEROUS])
def test_dangerous_images_are_refused_in_chunks(cloud, demo, name, data, declared, reason):
    container = declared if declared in ('aki', 'ari', 'ami') else 'bare'
    image = isolation_image(demo, disk_format=declared, container_format=container)
    sent = demo.request('PUT', f'/image/v2/images/{image}/file', data=pieces(bytes(data)),
                        headers={'Content-Type': 'application/octet-stream'})
    assert sent.status_code == 400 and reason in sent.json()['message'], sent.text
    shown = demo.get(f'/image/v2/images/{image}').json()
    assert shown['status'] == 'queued' and shown['size'] is None
    answer = demo.post('/servers', {'server': {'name': 'x', 'imageRef': image, 'flavorRef': '42',
                                               'networks': 'none'}},
                       version='2.37')
    assert answer.status_code == 400
    assert list((cloud.state_path / 'images').iterdir()) == []


def isolation_image(client, **fields):
    made = client.post('/image/v2/images', {'name': 'x', **fields})
    assert made.status_code == 201, made.text
    return made.json()['id']


# ---- files for guests (class D)

@pytest.mark.parametrize('path', ['/etc/../../../root/.ssh/authorized_keys', '../x', '..', '/', '', '.', '/a\0b',
                                  'a\nb', '/x' * 400,
                                  '\u202e', 'a/..'])
def test_hostile_personality_paths_cause_no_server_error(cloud, demo, path):
    image = image_of(demo)
    file = {'path': path, 'contents': base64.b64encode(b'x').decode()}
    answer = demo.post('/servers', {'server': {'name': 'x', 'imageRef': image, 'flavorRef': '42',
                                               'config_drive': True, 'personality': [file]}})
    assert answer.status_code in (400, 403), answer.text


def image_of(client):
    found = client.get('/image/v2/images?name=usable').json()['images']
    return found[0]['id'] if found else client.upload_image(name='usable')


# ---- what costs (class J)

@pytest.fixture(scope='module')
def many(demo):
    image = image_of(demo)
    answer = demo.post('/servers', {'server': {'name': 'a' * 200 + '!', 'imageRef': image, 'flavorRef': '42',
                                               'min_count': 50,
                                               'networks': 'none'}}, version='2.37')
    assert answer.status_code == 202, answer.text
    waiting.wait_for(lambda: not demo.get('/servers?status=BUILD').json()['servers'], 60, 'the servers to be built')


EVIL = ('(a+)+$', '(a|a)*$', '(a|aa)+$', '([a-zA-Z]+)*$', '(.*a){25}', '(x+x+)+y', '((a{0,100}){0,100}){0,100}',
        'a{1000}{1000}',
        '(?=a+)+b', r'(a)\1+$', '[' * 200, '(' * 120 + 'a' + ')' * 120, '.*' * 120, '\\', '(?P<x>a)(?P<x>b)',
        '(?i)' * 60)


@pytest.mark.parametrize('pattern', EVIL)
@pytest.mark.parametrize('name', ['name', 'ip'])
def test_filters_take_no_time(demo, many, pattern, name):
    begun = time.process_time()              # of client and services, whatever else this machine does
    answer = demo.get(f'/servers/detail?{name}={urllib.parse.quote(pattern)}')
    assert answer.status_code in (200, 400) and time.process_time() - begun < 2, answer.text[:200]


@pytest.mark.parametrize('path', [
    '/servers?limit=' + '9' * 300, '/servers?limit=99999999999999999999', '/servers?limit=-1', '/servers?limit=1e9',
    '/servers?' + '&'.join(f'k{n}=v' for n in range(3000)), '/servers?' + '&'.join(['name=a'] * 3000),
    '/servers?' + '&'.join(['sort_key=uuid'] * 400), '/servers?sort_key=__class__', '/servers?sort_key=user_data',
    '/servers?sort_key=' + 'x' * 30000, '/servers/detail?tags=' + ','.join(map(str, range(5000))),
    '/servers?marker=' + 'x' * 30000,
    '/image/v2/images?limit=' + '9' * 300, '/image/v2/images?' + '&'.join(f'p{n}=v' for n in range(3000)),
    '/image/v2/images?id=in:' + ','.join(['x'] * 10000), '/image/v2/images?sort=' + 'name:asc,' * 2000,
    '/image/v2/images?sort_key=data_id', '/image/v2/images?sort_key=owner', '/image/v2/images?tag=' + 'x' * 30000,
    '/network/v2.0/ports?' + '&'.join(f'id={n}' for n in range(5000)), '/network/v2.0/ports?limit=' + '9' * 300,
    '/network/v2.0/ports?' + '&'.join(['sort_key=id&sort_dir=asc'] * 500),
    '/network/v2.0/ports?' + 'fields=x&' * 5000,
    '/identity/v3/projects?' + '&'.join(f'n{n}=x' for n in range(5000)), '/flavors?limit=' + '9' * 300,
    '/flavors?sort_key=' + 'x' * 10000, '/os-keypairs?limit=' + '9' * 300])
def test_huge_queries_are_answered_quickly(demo, many, path):
    begun = time.process_time()
    answer = demo.get(path, version='2.96')
    assert answer.status_code in (200, 400, 403, 413, 414), answer.text[:300]
    assert time.process_time() - begun < 2 and (answer.status_code == 200 or len(answer.text) < 3000)


@pytest.mark.parametrize('document', [
    b'{"server": ' + b'{"a":' * 30000 + b'1' + b'}' * 30000 + b'}',
    b'{"server": {' + b','.join(b'"k%d": 1' % n for n in range(9000)) + b'}}',
    b'{"server": {"metadata": {' + b','.join(b'"k%d": "v"' % n for n in range(6000))
    + b'}, "name": "x", "flavorRef": "42"}}',
    b'{"server": {"name": ' + b'9' * 100000 + b'}}',
    b'{"server": {"networks": [' + b','.join([b'{}'] * 30000) + b']}}',
    b'{"server": {"tags": [' + b','.join(b'"%d"' % n for n in range(9000)) + b']}}'])
def test_huge_documents_are_answered_quickly(demo, document):
    for path in ('/compute/v2.1/servers', '/network/v2.0/ports', '/identity/v3/auth/tokens', '/image/v2/images'):
        begun = time.process_time()
        answer = demo.request('POST', path, data=document, headers={'Content-Type': 'application/json'},
                              version='2.96')
        assert answer.status_code in (400, 401, 403, 413), (path, answer.status_code, answer.text[:300])
        assert time.process_time() - begun < 2 and len(answer.text) < 3000


# ---- the metadata service (class F)

@pytest.fixture(scope='module')
def metadata(cloud):
    """The metadata service of this cloud on an address of its own; the URL."""
    cloud.conf.set_override('shared_secret', 'proxy secret', group='metadata')
    server = wsgi.Server(metadata_app.Application(cloud.conf, cloud.api_db, cloud.cells), '127.0.0.1', 0)
    server.start()
    yield f'http://127.0.0.1:{server.port}'
    server.stop(1)


@pytest.fixture(scope='module')
def guests(cloud, admin):
    """Servers of two projects, each with user data of its own: {side: (id, project, address)}."""
    found = {}
    for side in ('mine', 'theirs'):
        client = isolation.add_user(admin, side, 'member')
        made = client.boot(client.upload_image(), networks='auto', version='2.37',
                           user_data=base64.b64encode(f'canary-{side}'.encode()).decode())
        server = client.wait_for(made['id'])
        address = next(iter(server['addresses'].values()))[0]['addr']
        found[side] = made['id'], client.project_id, address
    return found


def at(cloud, server_id, address):
    """Give a server's port this address in the database: as if its guest asked from there."""
    with cloud.api_db.writer() as conn:
        port = conn.execute(sa.select(t.ports.c.id).where(t.ports.c.device_id == server_id)).scalar()
        conn.execute(sa.update(t.addresses).where(t.addresses.c.port_id == port).values(address=address))


LIES = ('X-Forwarded-For', 'X-Real-IP', 'Forwarded', 'X-Client-IP', 'X-Remote-Addr', 'Remote-Addr', 'REMOTE_ADDR',
        'X-Originating-IP', 'True-Client-IP', 'Via')


def test_a_guest_cannot_be_another_one(cloud, metadata, guests):
    mine, theirs = guests['mine'], guests['theirs']
    at(cloud, mine[0], '127.0.0.1')
    try:
        path = metadata + '/openstack/latest/user_data'
        assert requests.get(path).text == 'canary-mine'
        for name in LIES:
            for value in (theirs[2], f'for={theirs[2]}', f'{theirs[2]}, 127.0.0.1'):
                assert requests.get(path, headers={name: value}).text == 'canary-mine'
        lies = {'X-Instance-ID': theirs[0], 'X-Tenant-ID': theirs[1]}
        for headers in (lies, {**lies, 'X-Instance-ID-Signature': ''},
                        {**lies, 'X-Instance-ID-Signature': '0' * 64},
                        {**lies, 'X-Instance-ID-Signature': 'é'.encode()}, {'X-Instance-ID-Signature': 'x'},
                        {'X-Instance-ID': ''}, {'X-Instance-ID': theirs[0], 'X-Forwarded-For': theirs[2]}):
            answer = requests.get(path, headers=headers)
            assert answer.status_code == 403 and 'canary' not in answer.text, headers
    finally:
        at(cloud, mine[0], mine[2])
    assert requests.get(metadata + '/openstack/latest/user_data').status_code == 404      # 127.0.0.1 is nobody again


@pytest.mark.parametrize('method', ['GET', 'PUT', 'POST', 'DELETE', 'HEAD', 'TRACE', 'BREW'])
@pytest.mark.parametrize('path', [
    '/', '/latest', '/latest/', '/latest/meta-data/../../x', '/latest/%2e%2e/', '/latest/%ff', '/%00',
    '/openstack/latest/password',
    '/openstack/content/..%2f..%2fetc%2fpasswd', '/openstack/content/9999', '/openstack/latest/x' * 50,
    '/latest/meta-data/public-keys/0=x',
    '/latest/meta-data/public-keys/-1/openssh-key', '//latest', '/2009-04-04/user-data',
    '/openstack/%F0%9F%92%A9/x', '/' + 'a/' * 5000])
def test_hostile_metadata_paths_cause_no_server_error(cloud, metadata, guests, method, path):
    mine = guests['mine']
    at(cloud, mine[0], '127.0.0.1')
    try:
        answer = requests.Session().send(prepared(method, metadata, path), timeout=10)
        assert answer.status_code in (200, 400, 403, 404, 405, 409), (answer.status_code, answer.text)
        assert 'Traceback' not in answer.text and 'root:' not in answer.text
    finally:
        at(cloud, mine[0], mine[2])


def prepared(method, url, path):
    request = requests.Request(method, url, data=b'\xff\x00' if method in ('POST', 'PUT') else None).prepare()
    request.url = url + path
    return request


def test_user_data_is_bounded(demo):
    image = image_of(demo)
    for data, expected in ((b'x' * 49000, 202), (b'x' * 49200, 400), (b'x' * 60000, 400)):
        answer = demo.post('/servers', {'server': {
            'name': 'x', 'imageRef': image, 'flavorRef': '42', 'networks': 'none',
            'user_data': base64.b64encode(data).decode()}}, version='2.37')
        assert answer.status_code == expected, json.dumps(answer.json())[:200]
