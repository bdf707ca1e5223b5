"""nova-volume: the embedded block storage as a service of its own beside a whole cloud, with real HTTP and tokens."""
import contextlib
import datetime
import http.client
import json
import time
import urllib.parse

import pytest
import sqlalchemy as sa

from nova import exception
from nova import policies
from nova import policy
from nova import utils
from nova.cloud import assembly
from nova.cloud import block_storage
from nova.cmd import volume as command
from nova.db.services import services
from nova.db.tables import cell as tables_cell
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.waiting import wait_for


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud'), volume__backend='none', volume__port=0,
                               http__trusted_proxies=['127.0.0.8'],
                               oslo_middleware__enable_proxy_headers_parsing=True) as made:
        yield made


@pytest.fixture(scope='module')
def daemon(cloud):
    """(its URL, the service)."""
    rules = policy.Policy(cloud.conf, policies.BLOCK_STORAGE)
    cloud.conf.set_override('backend', 'embedded', group='volume')
    try:
        storage = assembly.volumes(cloud.conf, cloud.api_db, cloud.images, cloud.cells)
    finally:
        cloud.conf.set_override('backend', 'none', group='volume')
    service = block_storage.service(cloud.conf, cloud.bus, storage)
    server = block_storage.server(cloud.conf, cloud.api_db, storage, rules)
    service.start()
    server.start()
    yield f'http://127.0.0.1:{server.port}', service
    server.stop(5)
    assert service.stop(5)


def ask(client, url, method='GET', body=None, **headers):
    answer = client.session.request(method, url, json=body, headers={'X-Auth-Token': client.token, **headers})
    return answer.status_code, answer.json() if answer.content else None


def test_it_serves_volumes_to_who_has_a_token(cloud, daemon):
    url, _service = daemon
    user, admin = cloud.client(), cloud.admin()
    assert user.session.get(f'{url}/volume/').status_code == 200
    assert user.session.get(f'{url}/volume/v3/volumes').status_code == 401
    code, made = ask(user, f'{url}/volume/v3/volumes', 'POST', {'volume': {'size': 1, 'name': 'data'}})
    ident = made['volume']['id']
    assert code == 202
    for path in (f'/volume/v3/volumes/{ident}', f'/v3/volumes/{ident}', f'/v3/{user.project_id}/volumes/{ident}'):
        wait_for(lambda path=path: ask(user, url + path)[1]['volume']['status'] == 'available', 20, 'the volume')
    # what only services may do
    body = {'os-update_snapshot_status': {'status': 'error', 'progress': '0%'}}
    code, snapshot = ask(user, f'{url}/v3/snapshots', 'POST', {'snapshot': {'volume_id': ident}})
    snapshot_id = snapshot['snapshot']['id']
    wait_for(lambda: ask(user, f'{url}/v3/snapshots/{snapshot_id}')[1]['snapshot']['status'] == 'available', 20, 'it')
    assert ask(user, f'{url}/v3/snapshots/{snapshot_id}/action', 'POST', body)[0] == 403
    assert ask(admin, f'{url}/v3/snapshots/{snapshot_id}/action', 'POST', body)[0] == 202
    assert ask(user, f'{url}/v3/snapshots/{snapshot_id}')[1]['snapshot']['status'] == 'available'   # it was complete


@pytest.mark.parametrize('source, link, address', [
    ('127.0.0.8', 'https://api.example.org/volume/v3/', '198.51.100.7'), ('127.0.0.9', None, '127.0.0.9')])
def test_it_knows_clients_behind_a_proxy(cloud, daemon, source, link, address):
    """Links led from TLS to plain HTTP, and the audit log had the address of the proxy."""
    url, user = urllib.parse.urlsplit(daemon[0]), cloud.client()

    def call(method, path, body=None):
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20, source_address=(source, 0))
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body), {
                'Content-Type': 'application/json', 'X-Auth-Token': user.token, 'X-Forwarded-For': '198.51.100.7',
                'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'api.example.org'})
            return json.load(connection.getresponse())
    assert call('GET', '/volume/')['versions'][0]['links'][0]['href'] == (link or daemon[0] + '/volume/v3/')
    made = call('POST', '/volume/v3/volumes', {'volume': {'size': 1, 'name': 'proxied'}})['volume']['id']
    found = wait_for(lambda: user.get(f'/os-audit?target_id={made}').json()['audit_records'], 20, 'its record')
    assert {row['remote_address'] for row in found} == {address}


def test_it_is_among_the_services(cloud, daemon):
    def found():
        rows = cloud.admin().get('/os-services').json()['services']
        return [(row['binary'], row['state'], row['status']) for row in rows if row['binary'] == 'nova-volume']
    wait_for(found, 20, 'its heartbeat')
    assert found() == [('nova-volume', 'up', 'enabled')]
    before = time.monotonic()
    assert daemon[1].ready() and time.monotonic() - before < 30


def test_its_services_have_the_names_of_the_block_storage_api(cloud, daemon):
    url, admin = f'{daemon[0]}/v3/os-services', cloud.admin()
    wait_for(lambda: 'nova-volume' in str(admin.get('/os-services').json()), 20, 'its heartbeat')
    code, shown = ask(admin, url)
    rows = {row.pop('binary'): row for row in shown['services']}
    hosts = {binary: row.pop('host') for binary, row in rows.items()}
    assert code == 200 and all(row.pop('updated_at') for row in rows.values())
    assert hosts == {'cinder-volume': 'nova@embedded', 'cinder-scheduler': cloud.conf.host,
                     'cinder-backup': cloud.conf.host}
    assert all(row == {
        'zone': 'internal', 'state': 'up', 'status': 'enabled', 'disabled_reason': None,
        'replication_status': 'disabled', 'active_backend_id': None, 'frozen': False} for row in rows.values())
    for query, count in (('binary=cinder-volume', 1), ('service=cinder-backup', 1), ('host=other', 0),
                         ('host=nova@embedded', 1), ('host=nova', 1), ('binary=nova-volume', 0),
                         (f'host={cloud.conf.host}&binary=cinder-scheduler', 1)):
        assert len(ask(admin, f'{url}?{query}')[1]['services']) == count, query
    assert 'Invalid filters zone' in str(ask(admin, f'{url}?zone=nova'))
    newest = ask(admin, url, **{'OpenStack-API-Version': 'volume 3.49'})[1]['services'][0]
    assert (newest['cluster'], newest['backend_state']) == (None, 'up')
    assert ask(cloud.client(), url)[0] == 403


def test_a_daemon_that_is_silent_is_down(cloud, daemon):
    with cloud.cell_db.writer() as conn:
        services.report(conn, 'gone', 'nova-volume', 'volume', 'nova', 1)
        conn.execute(sa.update(tables_cell.services).where(tables_cell.services.c.host == 'gone').values(
            last_seen_at=utils.utcnow() - datetime.timedelta(hours=1)))
    rows = ask(cloud.admin(), f'{daemon[0]}/v3/os-services?host=gone')[1]['services']
    assert [(row['host'], row['binary'], row['state']) for row in rows] == [
        ('gone@embedded', 'cinder-volume', 'down'), ('gone', 'cinder-scheduler', 'down'),
        ('gone', 'cinder-backup', 'down')]


def test_another_backend_is_refused(cloud):
    with pytest.raises(exception.InvalidInput, match='must be embedded'):
        command.parts(cloud.conf)
