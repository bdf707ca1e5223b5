"""The life of servers in a cloud of several cells, over HTTP."""
import collections

import pytest
import sqlalchemy as sa
import webob

from nova import exception
from nova.api.metadata import app as metadata
from nova.db.moves import cell_transfer
from nova.db.placement import claims
from nova.db.servers import instances
from nova.db.servers import mappings
from nova.db.tables import cell as tables_cell
from nova.db.tables import network as tables_network
from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests.support import cells_cloud as shared_cells_cloud
from nova.tests.support.cells_cloud import act
from nova.tests.support.cells_cloud import gone
from nova.tests.support.cells_cloud import places
from nova.tests.support.cells_cloud import places_now
from nova.tests.support.waiting import wait_for

running = shared_cells_cloud.running


NEAR = {'one1': 'cell1', 'one2': 'cell1', 'two1': 'cell2', 'two2': 'cell2', None: 'cell0'}


@pytest.fixture
def image(running):
    return running.client().upload_image(data=b'\0' * 4096)


def check(running):
    """Rows, claims, guests and addresses agree in all cells; {uuid: (name of its cell, its host)}."""
    return waiting.settled(lambda: check_now(running))


def check_now(running):
    there = places_now(running)
    for name, host in there.values():
        assert NEAR[host] == name or host is None
    for db in running.databases().values():
        assert db.run(claims.audit) == []
    guests = {uuid: host for host, compute in running.computes().items() for uuid in compute.driver.guests()}
    assert guests == {uuid: host for uuid, (_, host) in there.items() if host}
    ports = tables_network.ports.c
    with running.api_db.reader() as conn:
        owners = set(conn.execute(sa.select(ports.device_id).where(ports.device_id != '')).scalars())
    assert owners <= there.keys()
    return there


def test_servers_of_all_cells_are_listed_and_managed(running, image):
    user, admin = running.client(), running.admin()
    user.boot(image, name='many', min_count=6, max_count=6)
    for number in range(4):
        user.boot(image, name=f'single-{number}')
    listed = user.get('/servers/detail').json()['servers']
    assert len(listed) == 10
    servers = [user.wait_for(server['id']) for server in listed]
    there = check(running)
    assert collections.Counter(name for name, _ in there.values()).keys() == {'cell1', 'cell2'}
    assert {server['id'] for server in user.get('/servers').json()['servers']} == there.keys()
    assert all(server['addresses'] for server in servers)
    chosen = {NEAR[host]: uuid for uuid, (_, host) in there.items()}

    for name in ('cell1', 'cell2') if long_runs.LONG else ('cell2',):
        uuid = chosen[name]
        for body, status in (({'os-stop': None}, 'SHUTOFF'), ({'os-start': None}, 'ACTIVE'),
                             ({'reboot': {'type': 'HARD'}}, 'ACTIVE'), ({'pause': None}, 'PAUSED'),
                             ({'unpause': None}, 'ACTIVE'), ({'suspend': None}, 'SUSPENDED'),
                             ({'resume': None}, 'ACTIVE'), ({'lock': None}, 'ACTIVE'), ({'unlock': None}, 'ACTIVE'),
                             ({'rescue': {}}, 'RESCUE'), ({'unrescue': None}, 'ACTIVE'),
                             ({'rebuild': {'imageRef': image}}, 'ACTIVE'), ({'shelve': None}, 'SHELVED'),
                             ({'unshelve': None}, 'ACTIVE'), ({'resize': {'flavorRef': '1'}}, 'VERIFY_RESIZE'),
                             ({'confirmResize': None}, 'ACTIVE')):
            act(user, uuid, body)
            user.wait_for(uuid, status)
        for body, status in (({'shelve': None}, 'SHELVED'), ({'shelveOffload': None}, 'SHELVED_OFFLOADED'),
                             ({'unshelve': None}, 'ACTIVE')):
            act(admin, uuid, body)
            admin.wait_for(uuid, status)
        act(admin, uuid, {'migrate': None})
        admin.wait_for(uuid, 'VERIFY_RESIZE')
        act(admin, uuid, {'revertResize': None})
        admin.wait_for(uuid)
        assert check(running)[uuid][0] == name                  # moves stay in the cell
        assert user.put(f'/servers/{uuid}', {'server': {'name': 'renamed'}}).json()['server']['name'] == 'renamed'
        actions = user.get(f'/servers/{uuid}/os-instance-actions').json()['instanceActions']
        assert actions[-1]['action'] == 'create' and all(row['message'] is None for row in actions)
    for uuid in there:
        gone(user, uuid)
    assert check(running) == {}
    assert user.get('/servers').json()['servers'] == []
    assert user.get('/limits').json()['limits']['absolute']['totalInstancesUsed'] == 0


def test_server_without_a_valid_host_stays_in_cell0(running, image):
    user = running.client()
    for host in ('one1', 'one2', 'two1', 'two2'):
        answer = running.admin().put('/os-services/disable', {'host': host, 'binary': 'nova-compute'})
        assert answer.status_code == 200, answer.text
    running.scheduler.table.synchronize()
    uuid = user.boot(image)['id']
    server = user.wait_for(uuid, 'ERROR')
    assert 'No valid host was found' in server['fault']['message']
    assert places(running) == {uuid: ('cell0', None)}
    gone(user, uuid)
    assert check(running) == {}


def test_cells_that_are_disabled_or_down_get_none(running, image):
    user = running.client()
    running.update_cell('cell1', disabled=True)
    for _ in range(3):
        user.wait_for(user.boot(image)['id'])
    assert {name for name, _ in check(running).values()} == {'cell2'}
    running.update_cell('cell1', disabled=False)
    with running.down('cell2'):
        made = [user.boot(image)['id'] for _ in range(3)]
        for uuid in made:
            user.wait_for(uuid)
    there = check(running)
    assert {there[uuid][0] for uuid in made} == {'cell1'}


def test_server_group_policies_apply_across_cells(running, image):
    user = running.client(version='2.64')
    apart = user.post('/os-server-groups', {'server_group': {'name': 'apart', 'policy': 'anti-affinity'}})
    near = user.post('/os-server-groups', {'server_group': {'name': 'near', 'policy': 'affinity'}})
    made = {}
    for name, answer, count in (('apart', apart, 4), ('near', near, 3)):
        group = answer.json()['server_group']['id']
        for number in range(count):
            body = {'server': {'name': f'{name}-{number}', 'imageRef': image, 'flavorRef': '42', 'networks': 'auto'},
                    'os:scheduler_hints': {'group': group}}
            made.setdefault(name, []).append(user.post('/servers', body).json()['server']['id'])
    for uuids in made.values():
        for uuid in uuids:
            user.wait_for(uuid)
    there = check(running)
    assert sorted(there[uuid][1] for uuid in made['apart']) == ['one1', 'one2', 'two1', 'two2']
    assert len({there[uuid] for uuid in made['near']}) == 1


def test_the_quota_counts_all_cells(running, image):
    user, admin = running.client(), running.admin()
    answer = admin.put(f'/os-quota-sets/{user.project_id}', {'quota_set': {'instances': 4}})
    assert answer.status_code == 200, answer.text
    user.boot(image, min_count=4, max_count=4)
    for server in user.get('/servers').json()['servers']:
        user.wait_for(server['id'])
    assert {name for name, _ in check(running).values()} == {'cell1', 'cell2'}
    refused = user.post('/servers', {'server': {'name': 'x', 'imageRef': image, 'flavorRef': '42'}})
    assert refused.status_code == 403
    for server in user.get('/servers').json()['servers'][:1]:
        gone(user, server['id'])
    user.wait_for(user.boot(image)['id'])


def test_a_build_that_fails_goes_on_in_another_cell(running, image):
    for host in ('one1', 'one2'):
        running.computes()[host].driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='no')
    user = running.client()
    made = [user.boot(image)['id'] for _ in range(4)]
    for uuid in made:
        user.wait_for(uuid)
    there = check(running)
    assert {name for name, _ in there.values()} == {'cell2'}
    assert any(len(running.admin().get(f'/servers/{uuid}/os-instance-actions').json()['instanceActions']) == 1
               for uuid in made)
    for uuid in made:
        gone(user, uuid)
    assert check(running) == {}


def test_servers_that_are_deleted_while_they_get_their_hosts(running, image):
    user = running.client()
    for _ in range(3):
        made = [user.boot(image)['id'] for _ in range(4)]
        for uuid in made:
            assert user.delete(f'/servers/{uuid}').status_code in (204, 404)
        for uuid in made:
            user.wait_for(uuid, 'DELETED')
    wait_for(lambda: not places(running))
    assert check(running) == {}


def test_audits_of_one_cell_leave_servers_of_the_others_alone(running, image):
    user = running.client()
    made = [user.boot(image)['id'] for _ in range(4)]
    for uuid in made:
        user.wait_for(uuid)
    there = check(running)
    for conductor in running.conductors():
        assert conductor.lost_mappings.remove_lost_mappings(0) == 0
        assert conductor.claim_check.audit() == [] and conductor.quota_check.count_soft_deleted() == 0
        assert [conductor.quota_check.count_sizes() for _ in range(2)] == [0, 0]
        assert conductor.reconciler.settle_cell_moves() == 0
        conductor.reconciler.reconcile()
    assert check(running) == there
    name = there[made[0]][0]
    with running.databases()[name].writer() as conn:
        conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid == made[0]))
    assert sum(conductor.lost_mappings.remove_lost_mappings(0) for conductor in running.conductors()) == 1


def test_the_metadata_service_knows_servers_of_all_cells(running, image):
    user = running.client()
    made = [user.boot(image, name=f'guest-{number}')['id'] for number in range(4)]
    addresses = {}
    for uuid in made:
        server = user.wait_for(uuid)
        addresses[uuid] = next(iter(server['addresses'].values()))[0]['addr']
    assert {name for name, _ in check(running).values()} == {'cell1', 'cell2'}
    for known in (running.cells, running.below['cell1'].cells):
        service = metadata.Application(running.conf, running.api_db, known)
        for uuid, address in addresses.items():
            request = webob.Request.blank('/openstack/latest/meta_data.json', remote_addr=address)
            answer = request.get_response(service)
            assert answer.status_code == 200 and answer.json['uuid'] == uuid
            password = webob.Request.blank('/openstack/latest/password', remote_addr=address, method='POST',
                                           body=b'secret').get_response(service)
            assert password.status_code == (200 if known is running.cells else 409)
    unknown = webob.Request.blank('/openstack/latest/meta_data.json', remote_addr='10.255.255.254')
    assert unknown.get_response(service).status_code == 404


def test_servers_left_between_cells_are_built_or_deleted(running, image, monkeypatch):
    """The servers that it has left between two cells are built, or deleted, by who notices."""
    user = running.client()
    monkeypatch.setattr(cell_transfer, 'clear', _die)
    made = [user.boot(image)['id'] for _ in range(2)]
    wait_for(lambda: all(_left_behind(running, uuid) for uuid in made))
    assert {server['id'] for server in user.get('/servers').json()['servers']} == set(made)
    monkeypatch.undo()
    user.delete(f'/servers/{made[1]}')
    monkeypatch.setattr(cell_transfer, 'ATTEMPT_TIMEOUT_S', -1)

    def taken_up():
        for conductor in running.conductors():
            conductor.reconciler.settle_cell_moves()
        for conductor in running.conductors():
            conductor.reconciler.reconcile()
        return user.get(f'/servers/{made[0]}').json()['server']['status'] == 'ACTIVE'
    wait_for(taken_up)
    user.wait_for(made[0])
    user.wait_for(made[1], 'DELETED')
    assert check(running).keys() == {made[0]}


def _die(*_args):
    raise exception.NovaException('This process is dead.')


def _left_behind(running, uuid):
    """Whether a server has gone to another cell, and its row in cell0 is still there."""
    with running.api_db.reader() as conn:
        moved = mappings.get(conn, uuid)['cell_uuid'] != running.cells.default.uuid
    with running.cell_db.reader() as conn:
        return moved and instances.existing(conn, [uuid])
