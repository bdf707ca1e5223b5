"""Live migration, evacuation, hosts and what other services tell: answers against the public facts, at every version
at which a field of theirs changes.
"""
import json
import urllib.parse

import pytest
import sqlalchemy as sa

from nova import states
from nova.api import versions
from nova.db.moves import migrations as server_migrations
from nova.db.servers import block_devices
from nova.db.servers import instances
from nova.db.tables import cell as tables_cell
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

VOLUME = '70a599e0-31e7-49b7-b260-868f441e8633'
GONE = '/servers/{gone}/action'
ACTION = '/servers/{server}/action'


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    """A server on a host that lives, one on a host that is dead; the first has a volume and migrates when asked."""
    fixture = servers.Servers(tmp_path_factory.mktemp('live'), quota__instances=-1, quota__cores=-1, quota__ram=-1)
    fixture.compute.answers.update(host_power_action='rebooted')
    with fixture.cell_db.writer() as conn:
        fixture.add_host(conn, 'host2', 'node2', host_control=False)
    fixture.here = fixture.add_server(1)
    fixture.gone = fixture.add_server(2, host='dead', node='dead')
    with fixture.cell_db.writer() as conn:
        block_devices.insert(conn, fixture.here, [{
            'source_type': 'volume', 'destination_type': 'volume', 'volume_id': VOLUME, 'device_name': '/dev/vdb'}])
    yield fixture
    fixture.close()


def _migrate(api, version):
    body = {'host': None, 'block_migration': True}
    if version < 25:
        body['disk_over_commit'] = False
    if 30 <= version <= 67:
        body['force'] = False
    return {'os-migrateLive': body}


def _evacuate(api, version):
    body = {'adminPass': 'secret'}
    if version < 14:
        body['onSharedStorage'] = False
    if 29 <= version <= 67:
        body['force'] = 'False'
    return {'evacuate': body}


def _events(api, version):
    return {'events': [{'name': name, 'server_uuid': api.here, 'tag': 'POWER_ON'} for name in events_at(version)]}


def events_at(version):
    text = facts.fields_at('POST /os-server-external-events', 'request', version)['events[].name']
    return text.split('one of ')[1].split(' ')[0].split(',')


def _snapshot(api, version):
    return {'snapshot': {'volume_id': VOLUME, 'create_info': {
        'snapshot_id': 's', 'type': 'qcow2', 'new_file': 'f', 'id': VOLUME}}}


_MIGRATION = '/servers/{here}/migrations/{migration}'
_DELETE_INFO = '?' + urllib.parse.urlencode({'delete_info': json.dumps({'volume_id': VOLUME})})
# operation, path, what makes the body
OPERATIONS = [
    ('POST /servers/{}/action os-migrateLive', '/servers/{here}/action', _migrate),
    ('POST /servers/{}/action evacuate', GONE, _evacuate),
    ('DELETE /servers/{}/migrations/{}', _MIGRATION, None),
    ('POST /servers/{}/migrations/{}/action force_complete', _MIGRATION + '/action',
     lambda api, version: {'force_complete': None}),
    ('POST /os-server-external-events', '/os-server-external-events', _events),
    ('POST /os-assisted-volume-snapshots', '/os-assisted-volume-snapshots', _snapshot),
    ('DELETE /os-assisted-volume-snapshots/{}', '/os-assisted-volume-snapshots/s' + _DELETE_INFO, None),
    ('GET /os-hosts', '/os-hosts', None),
    ('GET /os-hosts/{}', '/os-hosts/host1', None),
    ('PUT /os-hosts/{}', '/os-hosts/host1',
     lambda api, version: {'status': 'Enable', 'maintenance_mode': 'disable'}),
    *((f'GET /os-hosts/{{}}/{action}', f'/os-hosts/host1/{action}', None)
      for action in ('reboot', 'shutdown', 'startup')),
]


def prepare(api, operation):
    """The server as the operation needs it; the number of its live migration when it is to have one."""
    with api.cell_db.writer() as conn:
        for uuid, host in ((api.here, servers.HOST), (api.gone, 'dead')):
            instances.update(conn, uuid, {'vm_state': states.ACTIVE, 'task_state': None, 'host': host})
            for move in server_migrations.open_of(conn, uuid):
                server_migrations.release(conn, move['id'], status='error')
        if '/migrations/' not in operation:
            return None
        instances.update(conn, api.here, {'task_state': states.MIGRATING})
        return server_migrations.create(conn, api.owner, instances.get(conn, api.here), 'live-migration', 'running',
                                        dest_compute='host2')['id']


def _cases():
    for operation, path, body in OPERATIONS:
        method, pattern, *action = operation.split(' ')
        row = facts.routes()[method, pattern, ''.join(action)]
        since, until = max(facts.minor(row['min']), 1), facts.minor(row['max'])
        for version in sorted({*facts.boundaries(operation, 'response', since, until),
                               *facts.boundaries(operation, 'request', since, until)}):
            yield pytest.param(operation, path, body, version, int(row['success']), id=f'{operation} 2.{version}')


@pytest.fixture(scope='module', autouse=True)
def capable(api):
    with api.cell_db.writer() as conn:
        table = tables_cell.compute_nodes
        conn.execute(sa.update(table).where(table.c.host == servers.HOST).values(capabilities={
            'live_migration': True, 'assisted_snapshots': True, 'host_control': True}))


@pytest.mark.parametrize('operation,path,body,version,code', _cases())
def test_responses_have_the_documented_fields(api, operation, path, body, version, code):
    path = path.format(here=api.here, gone=api.gone, migration=prepare(api, operation))
    answer = api.admin(project=base.PROJECT).request(operation.split(' ')[0], path, body and body(api, version),
                                                     version=f'2.{version}')
    assert answer.status == code, answer.body
    fields = facts.fields_at(operation, 'response', version)
    assert facts.differences(operation, version, answer.json) == [] if fields else not answer.body


@pytest.mark.parametrize('version', [1, 24, 25, 29, 30, 33, 34, 67, 68, versions.MAX_VERSION])
@pytest.mark.parametrize('field', ['block_migration', 'disk_over_commit', 'force', 'host', 'more'])
def test_live_migration_fields_match_the_microversion(api, version, field):
    prepare(api, '')
    body = _migrate(api, version)['os-migrateLive']
    body.pop(field, None)
    required = {'block_migration', 'host'} | ({'disk_over_commit'} if version < 25 else set())
    client = api.admin(project=base.PROJECT, version=f'2.{version}')
    assert client.post(f'/servers/{api.here}/action', {'os-migrateLive': body}).status == (
        400 if field in required else 202)
    prepare(api, '')
    body[field] = {'host': None, 'more': 1}.get(field, True)
    known = required | ({'force'} if 30 <= version <= 67 else set())
    answer = client.post(f'/servers/{api.here}/action', {'os-migrateLive': body})
    # a forced one needs a host
    assert answer.status == (202 if field in known and field != 'force' else 400), answer.body


@pytest.mark.parametrize('version', [1, 50, 51, 75, 76, 81, 82, 92, 93, versions.MAX_VERSION])
def test_external_event_names_match_the_microversion(api, version):
    known = set(events_at(version))
    for name in events_at(versions.MAX_VERSION):
        answer = api.admin().post('/os-server-external-events', {'events': [
            {'name': name, 'server_uuid': api.here, 'tag': 'POWER_OFF'}]}, version=f'2.{version}')
        assert answer.status == (200 if name in known else 400), name


@pytest.mark.parametrize(('operation', 'path', 'since', 'until'), [
    ('GET', '/os-hosts', 1, 42), ('PUT', '/os-hosts/host1', 1, 42), ('GET', '/os-hosts/host1/reboot', 1, 42),
    ('POST', '/servers/{here}/migrations/1/action', 22, None), ('DELETE', '/servers/{here}/migrations/1', 24, None)])
def test_operation_returns_404_outside_its_versions(api, operation, path, since, until):
    for version in {since - 1, (until or 103) + 1} - {0, 104}:
        answer = api.admin().request(operation, path.format(here=api.here), {'force_complete': None},
                                     version=f'2.{version}')
        assert answer.status == 404
