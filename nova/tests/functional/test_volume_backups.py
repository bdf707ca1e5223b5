"""Backups and transfers of volumes over HTTP, the read-only flag, metadata of snapshots, and what is refused."""
import json
import os
import uuid

import pytest

from nova.db.tables import volume as tables_volume
from nova.db.volumes import volumes as db
from nova.tests.functional import callers
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.volume_backups import ask
from nova.tests.support.volume_backups import ready


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    backups = tmp_path_factory.mktemp('another-disk')
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud'), volume__backup_directory=str(backups),
                               volume__gigabytes=80) as made:
        made.backups = backups
        yield made


@pytest.fixture
def user(cloud):
    """A member of a project that has no backups."""
    found = cloud.client(version='2.60')
    yield found
    for row in found.get('/volume/v3/backups').json()['backups']:
        found.delete('/volume/v3/backups/' + row['id'])


def volume(client, size=1, **values):
    ident = ask(client, 'POST', '/volumes', {'volume': {'size': size, **values}})['volume']['id']
    return ready(client, f'/volumes/{ident}', 'volume')['id']


def content(cloud, volume_id, data=None):
    path = cloud.state_path / 'volumes' / volume_id
    if data is not None:
        with open(path, 'r+b') as file:
            file.write(data)
    with open(path, 'rb') as file:
        return file.read(6)


def test_a_backup_outlives_its_volume(cloud, user):
    ident = volume(user, name='data', metadata={'a': 'b'})
    content(cloud, ident, b'before')
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident, 'name': 'b1', 'description': 'd'}})['backup']
    found = ready(user, f'/backups/{backup["id"]}', 'backup')
    assert (found['size'], found['volume_id'], found['name'], found['snapshot_id']) == (1, ident, 'b1', None)
    assert backup['id'] in os.listdir(cloud.backups)
    content(cloud, ident, b'after!')
    # onto itself
    restored = ask(user, 'POST', f'/backups/{backup["id"]}/restore', {'restore': {'volume_id': ident}})['restore']
    assert restored['volume_id'] == ident
    ready(user, f'/volumes/{ident}', 'volume')
    assert content(cloud, ident) == b'before'
    ready(user, f'/backups/{backup["id"]}', 'backup')
    # without a target
    content(cloud, ident, b'after!')
    new = ask(user, 'POST', f'/backups/{backup["id"]}/restore', {'restore': {'volume_id': None}})['restore']
    ready(user, f'/volumes/{new["volume_id"]}', 'volume')
    assert new['volume_id'] != ident and new['volume_name'] == 'b1'
    assert (content(cloud, ident), content(cloud, new['volume_id'])) == (b'after!', b'before')
    ready(user, f'/backups/{backup["id"]}', 'backup')
    ask(user, 'DELETE', f'/volumes/{ident}')
    # onto a new one
    made = ask(user, 'POST', f'/backups/{backup["id"]}/restore', {'restore': {'name': 'again'}})['restore']
    ready(user, f'/volumes/{made["volume_id"]}', 'volume')
    assert content(cloud, made['volume_id']) == b'before' and made['volume_name'] == 'again'
    ready(user, f'/backups/{backup["id"]}', 'backup')
    listed = ask(user, 'GET', '/backups/detail?name=b1', code=200)['backups']
    assert [each['id'] for each in listed] == [backup['id']]
    assert ask(user, 'GET', '/backups?status=error', code=200)['backups'] == []
    # other projects know nothing of it
    stranger = cloud.admin()
    assert ask(stranger, 'GET', '/backups', code=200)['backups'] == []
    ask(user, 'DELETE', f'/backups/{backup["id"]}')
    assert backup['id'] not in os.listdir(cloud.backups)
    ask(user, 'GET', f'/backups/{backup["id"]}', code=404)


def test_a_backup_of_a_volume_in_use_and_of_a_snapshot(cloud, user):
    image_id = user.upload_image()
    ident = volume(user)
    content(cloud, ident, b'in use')
    server = user.boot(image_id, networks='none')['id']
    user.wait_for(server)
    assert user.post(f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {'volumeId': ident}}
                     ).status_code == 200
    ready(user, f'/volumes/{ident}', 'volume', 'in-use')
    for more in ({}, {'force': False}):
        refused = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident, **more}}, 400)
        assert 'needs force' in str(refused)
        refused = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident, **more}}, 400)
        assert 'must be available' in str(refused)
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident, 'force': True}})['backup']['id']
    ready(user, f'/backups/{backup}', 'backup')
    assert (cloud.backups / backup).stat().st_size == 2 ** 30        # what is in it: integration/test_volume_exports.py
    of_volume = f'/snapshots?volume_id={ident}'
    assert ask(user, 'GET', of_volume, code=200)['snapshots'] == []              # the one that it was made of
    # not onto a volume that a server has
    refused = ask(user, 'POST', f'/backups/{backup}/restore', {'restore': {'volume_id': ident}}, 400)
    assert 'must be available' in str(refused)
    for version in ('3.65', '3.66'):         # openstackclient asks for 3.65, and never sends force
        taken = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}},
                    version=f'2.60, volume {version}')['snapshot']['id']
        ready(user, f'/snapshots/{taken}', 'snapshot')
        ask(user, 'DELETE', f'/snapshots/{taken}')
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident, 'force': True}})['snapshot']['id']
    ready(user, f'/snapshots/{snapshot}', 'snapshot')
    of_snapshot = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident, 'snapshot_id': snapshot}})
    of_snapshot = of_snapshot['backup']['id']
    assert ready(user, f'/backups/{of_snapshot}', 'backup')['snapshot_id'] == snapshot
    user.delete(f'/servers/{server}')
    user.wait_for(server, 'DELETED')
    for path in (f'/backups/{backup}', f'/backups/{of_snapshot}', f'/snapshots/{snapshot}'):
        ask(user, 'DELETE', path)


def test_backups_have_quotas_and_refusals(cloud, user):
    ident = volume(user)
    admin, quotas = cloud.admin(), f'/os-quota-sets/{user.project_id}'
    ask(admin, 'PUT', quotas, {'quota_set': {'backups': 1}}, 200)
    try:
        backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident}})['backup']['id']
        ask(user, 'POST', '/backups', {'backup': {'volume_id': ident}}, 413)
        absolute = ask(user, 'GET', '/limits', code=200)['limits']['absolute']
        assert (absolute['maxTotalBackups'], absolute['totalBackupsUsed'], absolute['totalBackupGigabytesUsed']) == (
            1, 1, 1)
    finally:
        ask(admin, 'DELETE', quotas, code=200)
    for more, word in (({'incremental': True}, 'Incremental'), ({'container': 'x'}, 'container')):
        assert word in str(ask(user, 'POST', '/backups', {'backup': {'volume_id': ident, **more}}, 400))
    shown = ask(user, 'GET', f'/volumes/{ident}', code=200)['volume']
    types = ask(user, 'GET', '/types', code=200)['volume_types']
    for same in (shown['volume_type'], next(each['id'] for each in types if each['name'] == shown['volume_type'])):
        ask(user, 'POST', f'/volumes/{ident}/action', {'os-retype': {
            'new_type': same, 'migration_policy': 'never'}}, 400)
    ask(user, 'POST', f'/volumes/{ident}/action', {'os-retype': {'new_type': 'no-such-type'}}, 404)
    for wrong in ({}, {'new_type': None}, {'new_type': 'multiattach', 'migration_policy': 'x'}):
        ask(user, 'POST', f'/volumes/{ident}/action', {'os-retype': wrong}, 400)
    assert ask(user, 'GET', f'/volumes/{ident}', code=200)['volume'] == shown
    ready(user, f'/backups/{backup}', 'backup')
    ask(user, 'DELETE', f'/backups/{backup}')


def test_a_transfer_needs_its_key(cloud, user):
    ident, other = volume(user, name='gift'), cloud.admin()
    made = ask(user, 'POST', '/os-volume-transfer', {'transfer': {'volume_id': ident, 'name': 't'}})['transfer']
    assert ask(user, 'GET', f'/volumes/{ident}', code=200)['volume']['status'] == 'awaiting-transfer'
    assert 'auth_key' not in ask(user, 'GET', f'/os-volume-transfer/{made["id"]}', code=200)['transfer']
    assert [row['id'] for row in ask(user, 'GET', '/volume-transfers/detail', code=200)['transfers']] == [made['id']]
    accept = f'/os-volume-transfer/{made["id"]}/accept'
    ask(other, 'POST', accept, {'accept': {'auth_key': 'wrong'}}, 404)          # as if there were none
    ask(user, 'POST', accept, {'accept': {'auth_key': 'wrong'}}, 400)
    ask(user, 'DELETE', f'/volumes/{ident}', code=400)
    taken = ask(other, 'POST', accept, {'accept': {'auth_key': made['auth_key']}})['transfer']
    assert taken['volume_id'] == ident
    assert ready(other, f'/volumes/{ident}', 'volume')['os-vol-tenant-attr:tenant_id'] == other.project_id
    ask(user, 'GET', f'/volumes/{ident}', code=404)
    ask(other, 'POST', accept, {'accept': {'auth_key': made['auth_key']}}, 404)
    # taken back
    again = ask(other, 'POST', '/volume-transfers', {'transfer': {'volume_id': ident}})['transfer']
    ask(other, 'DELETE', f'/volume-transfers/{again["id"]}')
    ready(other, f'/volumes/{ident}', 'volume')
    ask(other, 'DELETE', f'/volumes/{ident}')


def test_snapshots_are_transferred_with_their_volume(cloud, user):
    ident, other = volume(user), cloud.admin()
    snapshots = [ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}})['snapshot']['id'] for _ in 'ab']
    for each in snapshots:
        ready(user, f'/snapshots/{each}', 'snapshot')
    for value in (True, 'true'):
        refused = ask(user, 'POST', '/volume-transfers', {'transfer': {
            'volume_id': ident, 'no_snapshots': value}}, 400)
        assert 'no_snapshots' in refused['badRequest']['message']
    assert ask(user, 'GET', f'/volumes/{ident}', code=200)['volume']['status'] == 'available'
    offer = ask(user, 'POST', '/volume-transfers', {'transfer': {
        'volume_id': ident, 'no_snapshots': False}})['transfer']
    accept = f'/volume-transfers/{offer["id"]}/accept', {'accept': {'auth_key': offer['auth_key']}}
    limits = f'/os-quota-sets/{other.project_id}'

    def used():
        found = ask(other, 'GET', f'{limits}?usage=True', code=200)['quota_set']
        return [found[name]['in_use'] for name in ('volumes', 'snapshots', 'gigabytes')]
    before = used()
    for name, value in (('snapshots', before[1] + 1), ('gigabytes', before[2] + 2)):
        ask(other, 'PUT', limits, {'quota_set': {name: value}}, 200)
        ask(other, 'POST', *accept, 413)
        ask(other, 'PUT', limits, {'quota_set': {name: -1}}, 200)
    assert ask(user, 'GET', f'/snapshots/{snapshots[0]}', code=200)['snapshot']['volume_id'] == ident
    ask(other, 'POST', *accept)
    assert used() == [before[0] + 1, before[1] + 2, before[2] + 3]
    for each in snapshots:
        ask(user, 'GET', f'/snapshots/{each}', code=404)
        assert ask(other, 'GET', f'/snapshots/{each}', code=200)['snapshot'][
            'os-extended-snapshot-attributes:project_id'] == other.project_id
    ask(other, 'DELETE', limits, code=200)
    ask(other, 'DELETE', f'/volumes/{ident}?cascade=True')


def test_a_volume_that_is_read_only(cloud, user):
    ident = volume(user)
    ask(user, 'POST', f'/volumes/{ident}/action', {'os-update_readonly_flag': {'readonly': True}})
    assert ask(user, 'GET', f'/volumes/{ident}', code=200)['volume']['metadata'] == {'readonly': 'True'}
    service = cloud.client('nova-service')
    admin = cloud.admin()
    held = ask(admin, 'POST', '/attachments', {'attachment': {
        'volume_uuid': ident, 'instance_uuid': '11111111-2222-3333-4444-555555555555',
        'connector': {'host': 'host1', 'ip': cloud.conf.my_ip}}}, 200)['attachment']
    assert held['connection_info']['access_mode'] == 'ro' and service is not None
    shown = [held, ask(admin, 'GET', f'/attachments/{held["id"]}', code=200)['attachment'],
             *ask(admin, 'GET', f'/attachments?id={held["id"]}&all_tenants=1', code=200)['attachments']]
    # without a connection of its own at hand it was rw
    assert [row['attach_mode'] for row in shown] == ['ro'] * 3
    refused = ask(user, 'POST', f'/volumes/{ident}/action', {'os-update_readonly_flag': {'readonly': False}}, 400)
    assert 'must be available' in str(refused)
    ask(admin, 'DELETE', f'/attachments/{held["id"]}', code=200)
    ask(user, 'POST', f'/volumes/{ident}/action', {'os-update_readonly_flag': {'readonly': False}})
    assert ask(user, 'GET', f'/volumes/{ident}', code=200)['volume']['metadata'] == {}


def test_volume_filters_and_snapshot_metadata_work(cloud, user):
    ident = volume(user, 2, name='two')
    for query, found in (('size=2', True), ('size=1', False), ('bootable=true', False), ('bootable=false', True),
                         ('multiattach=false', True), ("bootable=['0']&status=['available']", True),
                         ("bootable=['1']", False), ("status=['error', 'available']", True),
                         ("status=['error']", False), ("size=['1', '2']", True)):
        rows = ask(user, 'GET', f'/volumes/detail?name=two&{query}', code=200)['volumes']
        assert bool(rows) == found, query
    ask(user, 'GET', '/volumes?size=many', code=400)
    assert ask(user, 'GET', "/volumes/detail?metadata={'no such key':'b'}", code=200)['volumes'] == []
    noted = volume(user, name='noted', metadata={'mood': '😀'})
    for good in ('{"mood":"\\ud83d\\ude00"}', '{"mood":"😀"}', "{'mood':'😀'}"):
        found = ask(user, 'GET', f'/volumes/detail?metadata={good}', code=200)['volumes']
        assert [each['id'] for each in found] == [noted]
    for wrong in ("{'a':", "['a']", "{'a':1}", '{"a":true}', '{"a":"\\ud83d"}', "{'" + 'a' * 4096 + "':'b'}", '(' * 300,
                  '-' * 3000 + '1'):
        assert 'with texts as values' in str(ask(user, 'GET', f'/volumes/detail?metadata={wrong}', code=400))
    assert ask(user, 'GET', "/volumes/detail?status=['\\ud83d','x']", code=200)['volumes'] == []
    for wrong in ('gt:', 'soon', 'gt:2026-01-01,', ',' * 9, 'in:2026-01-01'):
        assert 'created_at must be' in str(ask(cloud.client(), 'GET', f'/volumes?created_at={wrong}', code=400,
                                               headers={'OpenStack-API-Version': 'volume 3.60'})), wrong
    volume(user, 2, name='two')
    counted = ask(user, 'GET', '/volumes?size=2&limit=1&with_count=true', code=200)
    assert counted['count'] == 2 and len(counted['volumes']) == 1 and counted['volumes_links']
    ask(user, 'GET', '/os-volume-transfer?sort=size:asc', code=400)
    ask(user, 'POST', f'/volumes/{ident}/action', {'os-set_image_metadata': {'metadata': {'os_type': 'linux'}}}, 200)
    assert ask(user, 'GET', f'/volumes/{ident}', code=200)['volume']['volume_image_metadata'] == {'os_type': 'linux'}
    ask(user, 'POST', f'/volumes/{ident}/action', {'os-unset_image_metadata': {'key': 'os_type'}}, 200)
    ask(user, 'POST', f'/volumes/{ident}/action', {'os-unset_image_metadata': {'key': 'os_type'}}, 404)
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}})['snapshot']['id']
    ready(user, f'/snapshots/{snapshot}', 'snapshot')
    path = f'/snapshots/{snapshot}/metadata'
    assert ask(user, 'POST', path, {'metadata': {'a': 'b'}}, 200) == {'metadata': {'a': 'b'}}
    assert ask(user, 'PUT', path, {'metadata': {'c': 'd'}}, 200) == ask(user, 'GET', path, code=200)
    ask(user, 'DELETE', path + '/c', code=200)
    ask(user, 'DELETE', path + '/c', code=404)


# ---- volumes of backups, and what the body of a new volume may hold ----------

def test_a_new_volume_of_a_backup_has_its_data(cloud, user):
    """backup_id was ignored: the volume was empty."""
    ident = volume(user, name='data')
    content(cloud, ident, b'before')
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident}})['backup']['id']
    ready(user, f'/backups/{backup}', 'backup')
    late, since = cloud.client(), {'headers': {'OpenStack-API-Version': 'volume 3.47'}}
    made = ask(late, 'POST', '/volumes', {'volume': {'backup_id': backup, 'size': 2, 'name': 'again', 'metadata': {
        'a': 'b'}}}, **since)['volume']['id']
    found = ready(user, f'/volumes/{made}', 'volume')
    assert (found['size'], found['name'], found['metadata']) == (2, 'again', {'a': 'b'})
    assert content(cloud, made) == b'before'
    made = ask(late, 'POST', '/volumes', {'volume': {'backup_id': backup}}, **since)['volume']['id']
    assert ready(user, f'/volumes/{made}', 'volume')['size'] == 1
    for body, words in (({'backup_id': backup, 'size': 1, 'source_volid': ident}, 'only one of'),
                        ({'backup_id': backup, 'availability_zone': 'nowhere'}, "zone 'nowhere' is invalid")):
        assert words in ask(late, 'POST', '/volumes', {'volume': body}, 400, **since)['badRequest']['message']
    older = ask(user, 'POST', '/volumes', {'volume': {'backup_id': backup, 'size': 1}}, 400)
    assert '3.47' in older['badRequest']['message']
    admin = cloud.admin()
    others = ask(admin, 'POST', '/backups', {'backup': {'volume_id': volume(admin)}})['backup']['id']
    ready(admin, f'/backups/{others}', 'backup')
    for ref in (ident, others):
        ask(late, 'POST', '/volumes', {'volume': {'backup_id': ref}}, 404, **since)


@pytest.mark.parametrize('key, value', [('group_id', 'g'), ('consistencygroup_id', 'g')])
def test_groups_of_volumes_are_refused(user, key, value):
    refused = ask(user, 'POST', '/volumes', {'volume': {'size': 1, key: value}}, 400)
    assert 'groups are not supported' in refused['badRequest']['message']
    volume(user, **{key: None})


def test_hints_of_new_volumes_are_refused_unless_one_backend_meets_them(user):
    first = ask(user, 'POST', '/volumes', {'volume': {'size': 1}})['volume']['id']
    refused = ask(user, 'POST', '/volumes', {'volume': {'size': 1}, 'OS-SCH-HNT:scheduler_hints': {
        'different_host': [first]}}, 400)
    assert 'different_host is not supported: there is one backend' in refused['badRequest']['message']
    ask(user, 'POST', '/volumes', {'volume': {'size': 1}, 'scheduler_hints': ['same_host']}, 400)
    ask(user, 'POST', '/volumes', {'volume': {'size': 1}, 'OS-SCH-HNT:scheduler_hints': {'same_host': [first]}})


def test_the_status_of_a_snapshot_is_reset_and_reported(cloud, user):
    admin, ident = cloud.admin(), volume(user)
    made = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}})['snapshot']['id']
    path = f'/snapshots/{made}'
    ready(user, path, 'snapshot')
    ask(admin, 'POST', f'{path}/action', {'os-update_snapshot_status': {'status': 'available'}}, 400)
    ask(admin, 'POST', f'{path}/action', {'os-reset_status': {'status': 'creating'}})
    assert ask(user, 'GET', path, code=200)['snapshot']['status'] == 'creating'
    ask(admin, 'POST', f'{path}/action', {'os-update_snapshot_status': {'status': 'available'}})
    assert ask(user, 'GET', path, code=200)['snapshot']['status'] == 'available'


def test_keys_that_are_not_known_are_refused(cloud, user):
    """They were passed over, so that a misspelt word was accepted and nothing done. A new volume is open before
    microversion 3.53, as in Cinder; all other bodies are closed at each."""
    late, since = cloud.client(), {'headers': {'OpenStack-API-Version': 'volume 3.53'}}
    for body, key in (({'volume': {'size': 1, 'sise': 2}}, 'sise'), ({'volume': {'size': 1}, 'volumes': 1}, 'volumes')):
        refused = ask(late, 'POST', '/volumes', body, code=400, **since)
        assert f"unknown key '{key}'" in refused['badRequest']['message']
    ident = ready(user, '/volumes/' + ask(user, 'POST', '/volumes', {'volume': {
        'size': 1, 'source_replica': None}})['volume']['id'], 'volume')['id']
    ask(user, 'POST', '/volumes', {'volume': {'size': 1}, 'volumes': 1}, code=400)
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {
        'volume_id': ident, 'display_description': 'd'}})['snapshot']
    ready(user, f'/snapshots/{snapshot["id"]}', 'snapshot')
    for method, path, body in (
            ('PUT', f'/volumes/{ident}', {'volume': {'name': 'n', 'size': 2}}),
            ('POST', f'/volumes/{ident}/action', {'os-extend': {'new_size': 2, 'force': True}}),
            ('POST', '/snapshots', {'snapshot': {'volume_id': ident, 'volume': ident}}),
            ('PUT', f'/snapshots/{snapshot["id"]}', {'snapshot': {'name': 'n', 'volume_id': ident}}),
            ('POST', '/backups', {'backup': {'volume_id': ident, 'increment': True}}),
            ('POST', '/volume-transfers', {'transfer': {'volume_id': ident, 'no_snapshot': True}})):
        assert 'unknown key' in ask(user, method, path, body, code=400)['badRequest']['message'], body
    long = ask(user, 'PUT', f'/volumes/{ident}', {'volume': {letter * 60000: 1 for letter in 'abcd'}}, code=400)
    assert len(long['badRequest']['message']) < 400
    assert ask(user, 'GET', f'/volumes/{ident}', code=200)['volume']['size'] == 1
    ask(user, 'DELETE', f'/snapshots/{snapshot["id"]}')


def test_zones_of_volumes_are_those_of_hosts(cloud, user):
    refused = ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'availability_zone': 'attic'}}, 400)
    assert "'attic' is invalid" in refused['badRequest']['message']
    made = cloud.admin().post('/os-aggregates', {'aggregate': {
        'name': 'attic', 'availability_zone': 'attic'}})
    assert made.status_code == 200, made.text
    assert 'attic' in [each['zoneName'] for each in ask(
        user, 'GET', '/os-availability-zone', code=200)['availabilityZoneInfo']]
    volume(user, availability_zone='attic')


def test_nothing_is_put_onto_a_read_only_volume(cloud, user):
    ident = volume(user)
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident}})['backup']['id']
    ready(user, f'/backups/{backup}', 'backup')
    ask(user, 'POST', f'/volumes/{ident}/action', {'os-update_readonly_flag': {'readonly': True}})
    refused = ask(user, 'POST', f'/backups/{backup}/restore', {'restore': {'volume_id': ident}}, 400)
    assert 'read-only' in refused['badRequest']['message']
    image = user.upload_image()
    refused = ask(user, 'POST', f'/volumes/{ident}/action', {'os-reimage': {'image_id': image}}, 400)
    assert 'read-only' in refused['badRequest']['message']
    assert ready(user, f'/backups/{backup}', 'backup')['status'] == 'available'


@pytest.mark.parametrize('path, body', [
    ('/volumes/{volume}/action', {'os-update_readonly_flag': {'readonly': 'ture'}}),
    ('/volumes/{volume}/action', {'os-set_bootable': {'bootable': 'ye'}}),
    ('/volumes', {'volume': {'size': 1, 'multiattach': 'maybe'}}),
    ('/snapshots', {'snapshot': {'volume_id': '{volume}', 'force': 'what'}}),
    ('/backups', {'backup': {'volume_id': '{volume}', 'force': 'what'}}),
    ('/backups', {'backup': {'volume_id': '{volume}', 'availability_zone': 'nowhere'}}),
    ('/volume-transfers', {'transfer': {'volume_id': '{volume}', 'no_snapshots': 'what'}}),
])
def test_misspelt_boolean_is_refused(user, path, body):
    """It counted as false: a volume that was to be read-only stayed writable."""
    ident = volume(user)
    filled = json.loads(json.dumps(body).replace('{volume}', ident))
    assert 'badRequest' in ask(user, 'POST', path.format(volume=ident), filled, 400)
    found = ready(user, f'/volumes/{ident}', 'volume')
    assert (found['metadata'], found['bootable']) == ({}, 'false')


def test_invalid_query_flags_return_400(user):
    for query in ('all_tenants=mine', 'with_count=ye', 'bootable=perhaps', "bootable=['perhaps']", "bootable=['1'"):
        ask(user, 'GET', f'/volumes?{query}', code=400)
    assert ask(user, 'GET', '/volumes?with_count=true&bootable=0', code=200)['count'] >= 0


@pytest.mark.parametrize('path', [
    '/volumes', '/volumes/detail', '/snapshots', '/snapshots/detail', '/backups', '/backups/detail', '/attachments',
    '/os-volume-transfer', '/volume-transfers/detail', '/types', '/limits'])
def test_lists_have_no_filters_that_do_nothing(user, path):
    """They were left out, so that a client took all rows for those that it requested: to delete them, say."""
    assert 'metadata' in str(ask(user, 'GET', f'{path}?metadata=a', code=400))       # unknown, or no dictionary
    for query, shown in (('stauts=error', 'stauts'), ('x' * 300 + '=1', 'x' * 64 + ' '),
                         ('created_at=gt:2026-01-01', 'created_at'), ('name~=x&group_id=g', 'group_id, name~')):
        assert f'Invalid filters {shown}' in str(ask(user, 'GET', f'{path}?{query}', code=400))


def test_documented_list_filters_work(cloud, user):
    """What openstacksdk, gophercloud and Horizon send."""
    ident = volume(user, name='one', description='text')
    for query, found in (('user_id=nobody', False), ('description=text', True), ('description=other', False),
                         (f'project_id={user.project_id}', True), ('project_id=other', False),
                         ('project_id=other&all_tenants=1', False), ('display_name=one', True)):
        rows = ask(user, 'GET', f'/volumes/detail?name=one&{query}', code=200)['volumes']
        assert bool(rows) == found, query
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}})['snapshot']['id']
    ready(user, f'/snapshots/{snapshot}', 'snapshot')
    for query, found in (('volume_size=1', True), ('volume_size=2', False), (f'id={snapshot}', True), ('id=x', False)):
        assert bool(ask(user, 'GET', f'/snapshots?volume_id={ident}&{query}', code=200)['snapshots']) == found, query
    admin = cloud.admin()
    of_project = f'/volumes?name=one&project_id={user.project_id}'
    assert ask(admin, 'GET', of_project, code=200)['volumes'] == []
    assert ask(admin, 'GET', of_project + '&all_tenants=1', code=200)['volumes']


def test_transfers_are_filtered_by_their_volumes(user):
    """Horizon sends the filters of its list of volumes."""
    plain, hidden = volume(user, name='one', metadata={'k': 'v'}), volume(user, name='two', size=2)
    made = [ask(user, 'POST', '/volume-transfers', {'transfer': {'volume_id': ident, 'name': 'mine'}})['transfer']['id']
            for ident in (plain, hidden)]
    for query, found in (('', made), ('status=awaiting-transfer', made), ('status=available&bootable=1', []),
                         ('size=2', made[1:]), ("status=['awaiting-transfer', 'available']&size=1", made[:1]),
                         ("metadata={'k': 'v'}", made[:1]), ('display_name=two', made[1:]), ('name=two', []),
                         (f'volume_id={plain}&size=2', []), ('name=mine&bootable=0&all_tenants=1', made)):
        for path in ('/os-volume-transfer/detail', '/volume-transfers'):
            rows = ask(user, 'GET', f'{path}?{query}&with_count=1&sort=created_at:asc', code=200)
            assert ([row['id'] for row in rows['transfers']], rows['count']) == (found, len(found)), query
    for ident in made:
        ask(user, 'DELETE', f'/volume-transfers/{ident}')


def test_pages_with_an_offset_lose_no_row(user):
    """The address of the next page had it, too, so that each page left rows out."""
    for _ in range(4):
        volume(user, name='paged')
    first = ask(user, 'GET', '/volumes?name=paged&offset=1&limit=1', code=200)
    found, following = list(first['volumes']), first['volumes_links'][0]['href']
    assert 'offset' not in following
    found += ask(user, 'GET', f'/volumes?{following.partition("?")[2]}', code=200)['volumes']
    assert [row['id'] for row in found] == [
        row['id'] for row in ask(user, 'GET', '/volumes?name=paged', code=200)['volumes']][1:3]


def test_volume_types_are_paged(user):
    """All came whatever the limit was, and after any marker: a client that pages by itself did not come to an end."""
    every = [row['name'] for row in ask(user, 'GET', '/types', code=200)['volume_types']]
    first = ask(user, 'GET', '/types?limit=1', code=200)
    assert [row['name'] for row in first['volume_types']] == every[:1]
    query = first['volume_types_links'][0]['href'].partition('?')[2]
    assert [row['name'] for row in ask(user, 'GET', f'/types?{query}', code=200)['volume_types']] == every[1:2]
    assert ask(user, 'GET', '/types?limit=0', code=200) == {'volume_types': []}
    assert [row['name'] for row in ask(user, 'GET', '/types?sort=name:desc', code=200)['volume_types']] == sorted(
        every, reverse=True)
    for query in ('marker=x', 'limit=x', 'sort=extra_specs', 'sort_dir=up'):
        ask(user, 'GET', f'/types?{query}', code=400)


def test_attachments_are_sorted(cloud, user):
    """sort_key and sort_dir were accepted and did nothing."""
    admin = cloud.admin()
    for number in range(2):
        ask(admin, 'POST', '/attachments', {'attachment': {
            'volume_uuid': volume(admin), 'instance_uuid': str(uuid.UUID(int=number + 1))}}, 200)

    def listed(query):
        return [row['id'] for row in ask(admin, 'GET', f'/attachments?{query}', code=200)['attachments']]
    assert listed('sort_dir=desc') == listed('sort=created_at:desc') == listed('')[::-1] != []
    assert listed('attach_status=attached') == []


def test_volume_service_of_an_all_in_one_is_listed(cloud, user):
    """The process that answers has no row of its own, and runs."""
    rows = ask(cloud.admin(), 'GET', '/os-services', code=200)['services']
    assert [(row['binary'], row['state'], row['host']) for row in rows if row['updated_at']] == [
        ('cinder-volume', 'up', 'nova@embedded'), ('cinder-scheduler', 'up', cloud.conf.host),
        ('cinder-backup', 'up', cloud.conf.host)]
    ask(user, 'GET', '/os-services', code=403)


def test_limits_of_another_project_are_shown_to_administrators(cloud, user):
    """``openstack limits show --project`` had those of the administrator's own project."""
    volume(user)
    for name in ('project_id', 'tenant_id'):
        shown = ask(cloud.admin(), 'GET', f'/limits?{name}={user.project_id}', code=200)['limits']['absolute']
        assert shown == ask(user, 'GET', '/limits', code=200)['limits']['absolute'] and shown['totalVolumesUsed'] > 0
        ask(user, 'GET', f'/limits?{name}=another', code=404)


def test_project_in_the_path_selects_the_project_of_administrators(cloud, user):
    """What administrators made there, and listed, was of their own project."""
    for method, body in (('GET', None), ('POST', {'volume': {'size': 1}})):
        answer = ask(cloud.admin(), method, f'/{user.project_id}/volumes', body, 400)
        assert 'differs from the token' in str(answer)
    assert 'volumes' in ask(user, 'GET', f'/{user.project_id}/volumes', code=200)
    ask(user, 'GET', '/another/volumes', code=404)
    ask(cloud.admin(), 'GET', '/nothing-of-the-kind', code=404)


def test_only_administrators_force_states_and_deletion_of_snapshots_and_backups(cloud, user):
    """``volume snapshot delete --force``, ``volume backup delete --force`` and ``volume backup set --state``."""
    ident, admin = volume(user), cloud.admin()
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}})['snapshot']['id']
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident}})['backup']['id']
    for path, key in ((f'/snapshots/{snapshot}', 'snapshot'), (f'/backups/{backup}', 'backup')):
        ready(user, path, key)
        for action in ({'os-reset_status': {'status': 'error'}}, {'os-force_delete': None}):
            ask(user, 'POST', f'{path}/action', action, 403)
        ask(admin, 'POST', f'{path}/action', {'os-reset_status': {'status': 'restoring'}}, 400)
        ask(admin, 'POST', f'{path}/action', {'os-reset_status': {'status': 'error'}})
        assert ask(user, 'GET', path, code=200)[key]['status'] == 'error'
        ask(admin, 'POST', f'{path}/action', {'os-force_delete': None})
        ask(user, 'GET', path, code=404)


def test_services_force_and_reset_nothing(cloud, user):
    """The role service lets a caller attach and detach volumes, and no more."""
    admin = cloud.admin()
    service = callers.Identity(admin).in_project('demo', 'service')
    ident = volume(user)
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}})['snapshot']['id']
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident}})['backup']['id']
    ready(user, f'/snapshots/{snapshot}', 'snapshot')
    for path, key in ((f'/volumes/{ident}', 'volume'), (f'/snapshots/{snapshot}', 'snapshot'),
                      (f'/backups/{backup}', 'backup')):
        ready(user, path, key)
        for action in ({'os-reset_status': {'status': 'error'}}, {'os-force_delete': None}):
            ask(service, 'POST', f'{path}/action', action, 403)
        assert ask(user, 'GET', path, code=200)[key]['status'] == 'available'
        ask(admin, 'POST', f'{path}/action', {'os-reset_status': {'status': 'error'}})
    ask(service, 'DELETE', f'/volumes/{ident}?force=true', code=403)
    ask(service, 'POST', f'/snapshots/{snapshot}/action', {'os-update_snapshot_status': {'status': 'error'}})
    for path in (f'/snapshots/{snapshot}', f'/backups/{backup}', f'/volumes/{ident}'):
        ask(admin, 'POST', f'{path}/action', {'os-force_delete': None})


def test_a_backup_that_is_restored_is_not_forced_away(cloud, user):
    ident, admin = volume(user), cloud.admin()
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident}})['backup']['id']
    ready(user, f'/backups/{backup}', 'backup')
    with cloud.api_db.writer() as conn:
        db.update(conn, tables_volume.volumes, ident, {'backup_id': backup, 'status': 'restoring-backup'})
        db.update(conn, tables_volume.volume_backups, backup, {'status': 'restoring'})
    for action in ({'os-reset_status': {'status': 'available'}}, {'os-force_delete': None}):
        assert 'in progress' in str(ask(admin, 'POST', f'/backups/{backup}/action', action, 400))
    with cloud.api_db.writer() as conn:                      # the restore was lost with the volume
        db.update(conn, tables_volume.volumes, ident, {'status': 'error'})
    ask(user, 'DELETE', f'/backups/{backup}', code=400)
    ask(admin, 'POST', f'/backups/{backup}/action', {'os-force_delete': None})


@pytest.mark.parametrize('status, missing, after', [
    ('error', True, 'error'), ('available', True, 'error'), ('restoring', True, 'error'),
    ('restoring', False, 'available')])
def test_start_reports_a_complete_backup_without_its_file(cloud, user, caplog, status, missing, after):
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': volume(user)}})['backup']['id']
    ready(user, f'/backups/{backup}', 'backup')
    with cloud.api_db.writer() as conn:
        db.update(conn, tables_volume.volume_backups, backup, {'status': status})
    if missing:
        (cloud.backups / backup).unlink()
    cloud.volumes.jobs.recover()
    assert ask(user, 'GET', f'/backups/{backup}', code=200)['backup']['status'] == after
    reported = f'The file of backup {backup} is missing.' in caplog.text
    assert reported == (missing and status != 'error')
    caplog.clear()
    cloud.volumes.jobs.recover()
    assert backup not in caplog.text                         # once is enough


def test_a_backup_that_waits_for_its_snapshot_is_not_forced_away(cloud, user):
    """That of a volume in use has a snapshot of its own, which nobody would have removed."""
    ident, admin = volume(user), cloud.admin()
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident}})['backup']['id']
    ready(user, f'/backups/{backup}', 'backup')
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}})['snapshot']['id']
    ready(user, f'/snapshots/{snapshot}', 'snapshot')
    with cloud.api_db.writer() as conn:
        db.update(conn, tables_volume.volume_snapshots, snapshot, {'status': 'creating'})
        db.update(conn, tables_volume.volume_backups, backup, {'status': 'creating', 'snapshot_id': snapshot})
    for action in ({'os-reset_status': {'status': 'available'}}, {'os-force_delete': None}):
        assert 'in progress' in str(ask(admin, 'POST', f'/backups/{backup}/action', action, 400))
    with cloud.api_db.writer() as conn:
        db.update(conn, tables_volume.volume_snapshots, snapshot, {'status': 'error'})
    ask(admin, 'POST', f'/backups/{backup}/action', {'os-force_delete': None})


def test_transfer_of_a_reset_volume_is_replaced(cloud, user):
    """The next offer met the row of the one before, and was an internal error."""
    ident = volume(user)
    first = ask(user, 'POST', '/volume-transfers', {'transfer': {'volume_id': ident}})['transfer']
    ask(cloud.admin(), 'POST', f'/volumes/{ident}/action', {'os-reset_status': {'status': 'available'}})
    second = ask(user, 'POST', '/volume-transfers', {'transfer': {'volume_id': ident}})['transfer']
    ask(user, 'GET', f'/volume-transfers/{first["id"]}', code=404)
    ask(user, 'POST', f'/volume-transfers/{second["id"]}/accept', {'accept': {'auth_key': second['auth_key']}})


def test_a_volume_that_is_in_use_by_its_status_alone_grows(cloud, user):
    """Nobody had it, and nobody was asked: it had the new size, and its file the old one."""
    ident = volume(user)
    ask(cloud.admin(), 'POST', f'/volumes/{ident}/action', {'os-reset_status': {'status': 'in-use'}})
    ask(cloud.client(), 'POST', f'/volumes/{ident}/action', {'os-extend': {'new_size': 2}},
        headers={'OpenStack-API-Version': 'volume 3.42'})
    assert os.path.getsize(cloud.state_path / 'volumes' / ident) == 2 << 30


def test_a_delete_that_is_forced(cloud, user):
    """``force`` was accepted, and the volume's status asked for all the same."""
    ident, admin = volume(user), cloud.admin()
    ask(admin, 'POST', f'/volumes/{ident}/action', {'os-reset_status': {'status': 'creating'}})
    ask(user, 'DELETE', f'/volumes/{ident}?force=true', code=403)
    ask(admin, 'DELETE', f'/volumes/{ident}', code=400)
    ask(admin, 'DELETE', f'/volumes/{ident}?force=true')
    ask(user, 'GET', f'/volumes/{ident}', code=404)


def test_a_server_has_a_volume_as_it_is_set(cloud, user):
    ident, admin = volume(user), cloud.client('nova-service')
    body = {'attachment': {'volume_uuid': ident, 'instance_uuid': str(uuid.uuid4()), 'mode': 'ro'}}
    refused = user.request('POST', '/volume/v3/attachments', body, headers={'X-Service-Token': admin.token})
    assert refused.status_code in (400, 403) and user.get(f'/volume/v3/volumes/{ident}').json()[
        'volume']['status'] == 'available'


def test_metadata_of_a_snapshot_with_its_name(user):
    made = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': volume(user)}})['snapshot']['id']
    ready(user, f'/snapshots/{made}', 'snapshot')
    shown = ask(user, 'PUT', f'/snapshots/{made}', {'snapshot': {'name': 'n', 'metadata': {'a': 'b'}}}, 200)['snapshot']
    assert (shown['name'], shown['metadata']) == ('n', {'a': 'b'})
    ask(user, 'DELETE', f'/snapshots/{made}')
