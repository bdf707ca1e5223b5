"""QoS specs and quotas of volume types, attachments by actions, and files that become volumes, over HTTP."""
import functools
import threading
import uuid

import pytest

from nova.tests import races
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import waiting
from nova.tests.support.volume_types import ask
from nova.tests.support.volume_types import make
from nova.tests.support.volume_types import until
from nova.volume.store import managed


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud')) as made:
        yield made


@pytest.fixture
def admin(cloud):
    """An administrator; what a test has made goes."""
    found = cloud.admin()
    yield found
    for row in ask(found, 'GET', '/volumes/detail?all_tenants=1')['volumes']:
        ask(found, 'DELETE', f'/volumes/{row["id"]}?force=true', code=202)
    for row in ask(found, 'GET', '/types?is_public=None')['volume_types'][2:]:
        ask(found, 'DELETE', f'/types/{row["id"]}', code=202)
    for row in ask(found, 'GET', '/qos-specs')['qos_specs']:
        ask(found, 'DELETE', f'/qos-specs/{row["id"]}?force=true', code=202)


def specs(admin, name, **values):
    return ask(admin, 'POST', '/qos-specs', {'qos_specs': {'name': name, **values}})['qos_specs']


def volume(client, **values):
    made = ask(client, 'POST', '/volumes', {'volume': {'size': 1, **values}}, 202)['volume']['id']
    until(client, made)
    return made


# ---- QoS specs

def test_qos_specs_have_their_documented_fields(admin):
    made = specs(admin, 'slow', consumer='front-end', read_iops_sec='20000')
    assert made == {'id': made['id'], 'name': 'slow', 'consumer': 'front-end', 'specs': {'read_iops_sec': '20000'}}
    path = f'/qos-specs/{made["id"]}'
    assert ask(admin, 'GET', path)['qos_specs'] == made
    given = {'consumer': 'both', 'write_iops_sec': '7'}
    assert ask(admin, 'PUT', path, {'qos_specs': given})['qos_specs'] == given
    ask(admin, 'PUT', f'{path}/delete_keys', {'keys': ['read_iops_sec']}, 202)
    ask(admin, 'PUT', f'{path}/delete_keys', {'keys': ['read_iops_sec']}, 404)
    assert ask(admin, 'GET', path)['qos_specs'] == {**made, 'consumer': 'both', 'specs': {'write_iops_sec': '7'}}
    specs(admin, 'a')
    page = ask(admin, 'GET', '/qos-specs?limit=1')
    assert [row['name'] for row in page['qos_specs']] == ['a'] and page['qos_specs_links'][0]['rel'] == 'next'
    ask(admin, 'POST', '/qos-specs', {'qos_specs': {'name': 'slow'}}, 409)
    ask(admin, 'DELETE', path, code=202)
    ask(admin, 'GET', path, code=404)


@pytest.mark.parametrize('body', [
    {}, {'name': ''}, {'name': 'q', 'consumer': 'guest'}, {'name': 'q', 'minIOPS': '5'},
    {'name': 'q', 'read_iops_sec': 5}, {'name': 'q', 'read_iops_sec': 'x'},
    {'name': 'q', 'total_iops_sec': '5', 'read_iops_sec': '5'}, {'name': 'q', 'read_iops_sec_max': '5'},
    {'name': 'q', 'total_bytes_sec': '1000000000000001'}, {'name': 'q', 'size_iops_sec': '4096'}])
def test_specs_that_no_host_can_enforce_are_refused(admin, body):
    ask(admin, 'POST', '/qos-specs', {'qos_specs': body}, 400)


def test_qos_specs_are_for_administrators(cloud, admin):
    made, user = specs(admin, 'q'), cloud.client()
    for method, path, body in (('GET', '', None), ('POST', '', {'qos_specs': {'name': 'r'}}),
                               ('GET', f'/{made["id"]}', None), ('DELETE', f'/{made["id"]}', None),
                               ('GET', f'/{made["id"]}/associate?vol_type_id=x', None)):
        ask(user, method, f'/qos-specs{path}', body, 403)


def test_types_refer_to_qos_specs(admin):
    made, kind = specs(admin, 'q'), make(admin, 'fast')
    path, of_type = f'/qos-specs/{made["id"]}', f'?vol_type_id={kind["id"]}'
    ask(admin, 'GET', f'{path}/associate{of_type}', code=202)
    assert ask(admin, 'GET', f'{path}/associations')['qos_associations'] == [
        {'association_type': 'volume_type', 'name': 'fast', 'id': kind['id']}]
    assert ask(admin, 'GET', f'/types/{kind["id"]}')['volume_type']['qos_specs_id'] == made['id']
    ask(admin, 'GET', f'/qos-specs/{specs(admin, "r")["id"]}/associate{of_type}', code=400)
    ask(admin, 'DELETE', path, code=400)
    ask(admin, 'GET', f'{path}/disassociate{of_type}', code=202)
    ask(admin, 'GET', f'{path}/disassociate{of_type}', code=404)
    assert ask(admin, 'GET', f'{path}/associations')['qos_associations'] == []
    ask(admin, 'GET', f'{path}/associate{of_type}', code=202)
    ask(admin, 'GET', f'{path}/disassociate_all', code=202)
    assert ask(admin, 'GET', f'/types/{kind["id"]}')['volume_type']['qos_specs_id'] is None
    builtin = ask(admin, 'GET', '/types')['volume_types'][0]['id']
    ask(admin, 'GET', f'{path}/associate?vol_type_id={builtin}', code=400)
    ask(admin, 'GET', f'{path}/associate?vol_type_id={uuid.uuid4()}', code=404)


def test_connection_of_a_volume_has_the_limits_of_its_type(admin):
    made, kind = specs(admin, 'q', total_bytes_sec='1048576'), make(admin, 'fast')
    ask(admin, 'GET', f'/qos-specs/{made["id"]}/associate?vol_type_id={kind["id"]}', code=202)
    limits = []
    for type_ in ('fast', None):
        body = {'volume_uuid': volume(admin, volume_type=type_), 'instance_uuid': str(uuid.uuid4()),
                'connector': {'host': 'fake-1'}}
        found = ask(admin, 'POST', '/attachments', {'attachment': body})['attachment']
        limits.append(found['connection_info'].get('qos_specs'))
        ask(admin, 'DELETE', f'/attachments/{found["id"]}')
    assert limits == [{'total_bytes_sec': '1048576'}, None]


# ---- quotas of single types

def test_quotas_of_a_type_bound_its_volumes(cloud, admin):
    user, kind = cloud.client(), make(admin, 'fast')
    path = f'/os-quota-sets/{user.project_id}'
    assert ask(admin, 'GET', path)['quota_set']['volumes_fast'] == -1
    given = {'volumes_fast': 1, 'gigabytes_fast': '3', 'groups': 5}
    shown = ask(admin, 'PUT', path, {'quota_set': given})['quota_set']
    assert [shown[name] for name in (*given, 'snapshots_fast', 'volumes_multiattach')] == [1, 3, 5, -1, -1]
    first = volume(user, volume_type='fast')
    ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'fast'}}, 413)
    ask(user, 'POST', f'/volumes/{first}/action', {'os-extend': {'new_size': 4}}, 413)
    other = volume(user)
    ask(user, 'POST', f'/volumes/{other}/action', {'os-retype': {'new_type': 'fast'}}, 413)
    usage = ask(user, 'GET', f'{path}?usage=true')['quota_set']
    assert usage['volumes_fast'] == {'limit': 1, 'in_use': 1, 'reserved': 0}
    assert usage['gigabytes_fast']['in_use'] == 1
    ask(admin, 'PUT', f'/types/{kind["id"]}', {'volume_type': {'name': 'faster'}})
    assert ask(user, 'GET', path)['quota_set']['volumes_faster'] == 1         # it belongs to the type, not to its name
    ask(admin, 'PUT', path, {'quota_set': {'volumes_fast': 1}}, 400)
    ask(admin, 'PUT', f'{path}?skip_validation=false', {'quota_set': {'volumes_faster': 0}}, 400)
    ask(admin, 'DELETE', path)
    assert ask(user, 'GET', path)['quota_set']['volumes_faster'] == -1


# ---- attachments by actions

def test_reserved_volume_is_attaching_until_it_is_released(cloud, admin):
    made = volume(admin)
    ask(cloud.client(), 'POST', f'/volumes/{made}/action', {'os-reserve': None}, 403)
    ask(admin, 'POST', f'/volumes/{made}/action', {'os-reserve': None}, 202)
    ask(admin, 'POST', f'/volumes/{made}/action', {'os-reserve': None}, 400)
    assert ask(admin, 'GET', f'/volumes/{made}')['volume']['status'] == 'attaching'
    ask(admin, 'POST', f'/volumes/{made}/action', {'os-unreserve': None}, 202)
    assert ask(admin, 'GET', f'/volumes/{made}')['volume']['status'] == 'available'


def test_volume_is_attached_and_detached_by_actions(admin):
    made, server = volume(admin), str(uuid.uuid4())
    action = f'/volumes/{made}/action'
    ask(admin, 'POST', action, {'os-attach': {'instance_uuid': server, 'mode': 'ro'}}, 400)
    ask(admin, 'POST', action, {'os-reserve': None}, 202)
    ask(admin, 'POST', action, {'os-attach': {'instance_uuid': server, 'mountpoint': '/dev/vdb', 'mode': 'rw'}}, 202)
    shown = ask(admin, 'GET', f'/volumes/{made}')['volume']
    held, = shown['attachments']
    assert (shown['status'], held['server_id'], held['device']) == ('in-use', server, '/dev/vdb')
    ask(admin, 'POST', action, {'os-attach': {'instance_uuid': server}}, 400)
    ask(admin, 'POST', action, {'os-unreserve': None}, 202)
    assert ask(admin, 'GET', f'/volumes/{made}')['volume']['status'] == 'in-use'
    ask(admin, 'POST', action, {'os-detach': {'attachment_id': str(uuid.uuid4())}}, 400)
    ask(admin, 'POST', action, {'os-detach': {'attachment_id': held['attachment_id']}}, 202)
    assert ask(admin, 'GET', f'/volumes/{made}')['volume']['status'] == 'available'


# ---- files that are not volumes

def test_volume_leaves_and_returns_with_its_data(cloud, admin):
    made = volume(admin, name='v', metadata={'a': 'b'})
    ask(cloud.client(), 'POST', f'/volumes/{made}/action', {'os-unmanage': {}}, 403)
    ask(admin, 'POST', f'/volumes/{made}/action', {'os-unmanage': {}}, 202)
    ask(admin, 'GET', f'/volumes/{made}', code=404)
    reference, host = {'source-name': f'volume-{made}'}, 'nova@embedded#default'
    assert ask(admin, 'GET', f'/os-volume-manage?host={host.replace("#", "%23")}')['manageable-volumes'] == [
        {'reference': reference, 'size': 1, 'safe_to_manage': True}]
    for body, code in (({'host': 'other', 'ref': reference}, 400), ({'host': host, 'ref': {'source-id': '1'}}, 400),
                       ({'host': host, 'ref': {'source-name': '../x'}}, 400),
                       ({'host': host, 'ref': {'source-name': 'missing'}}, 400),
                       ({'host': host, 'ref': reference, 'volume_type': 'missing'}, 404)):
        ask(admin, 'POST', '/os-volume-manage', {'volume': body}, code)
    ask(cloud.client(), 'POST', '/os-volume-manage', {'volume': {'host': host, 'ref': reference}}, 403)
    back = ask(admin, 'POST', '/os-volume-manage', {'volume': {
        'host': host, 'ref': reference, 'name': 'v', 'bootable': True, 'metadata': {'a': 'b'}}}, 202)['volume']
    shown = ask(admin, 'GET', f'/volumes/{back["id"]}')['volume']
    assert [shown[name] for name in ('status', 'size', 'name', 'bootable', 'metadata', 'volume_type')] == [
        'available', 1, 'v', 'true', {'a': 'b'}, '__DEFAULT__']
    assert ask(admin, 'GET', '/os-volume-manage/detail')['manageable-volumes'] == []


def test_a_file_is_managed_once(cloud, admin, monkeypatch):
    """The second of two requests at the same moment got 500."""
    made, listed, list_files = volume(admin), threading.Barrier(2), managed.Managed.unmanaged
    ask(admin, 'POST', f'/volumes/{made}/action', {'os-unmanage': {}}, 202)

    def unmanaged(self):
        found = list_files(self)
        listed.wait(60)
        return found
    monkeypatch.setattr(managed.Managed, 'unmanaged', unmanaged)
    body = {'volume': {'host': 'nova@embedded#default', 'ref': {'source-name': f'volume-{made}'}}}
    answers = races.at_once(*(functools.partial(each.post, '/volume/v3/os-volume-manage', body)
                              for each in (admin, cloud.admin())))
    assert sorted(answer.status_code for answer in answers) == [202, 409], [answer.text for answer in answers]
    refused, = (answer.json() for answer in answers if answer.status_code == 409)
    assert 'another request has managed or moved it' in refused['conflictingRequest']['message']
    monkeypatch.undo()
    back, = (answer.json()['volume']['id'] for answer in answers if answer.status_code == 202)
    assert ask(admin, 'GET', f'/volumes/{back}')['volume']['status'] == 'available'
    assert ask(admin, 'GET', '/os-volume-manage')['manageable-volumes'] == []


def test_volume_with_a_snapshot_is_not_unmanaged(admin):
    made = volume(admin)
    snapshot = ask(admin, 'POST', '/snapshots', {'snapshot': {'volume_id': made}}, 202)['snapshot']['id']
    ask(admin, 'POST', f'/volumes/{made}/action', {'os-unmanage': {}}, 400)
    waiting.wait_for(lambda: ask(admin, 'GET', f'/snapshots/{snapshot}')['snapshot']['status'] == 'available', 60,
                     'the snapshot')
    ask(admin, 'DELETE', f'/snapshots/{snapshot}', code=202)
