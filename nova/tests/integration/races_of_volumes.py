"""Races for volumes, their devices and shares; see test_races.py."""
import collections
import uuid

from nova import context
from nova import exception
from nova import states
from nova.db.servers import block_devices
from nova.db.servers import instances
from nova.db.tables import cell as tables_cell
from nova.tests.support import waiting
from nova.tests.functional import servers as fixture
from nova.tests.integration.racing import Race
from nova.tests.integration.racing import THREADS
from nova.tests.integration.racing import equal
from nova.tests.integration.racing import race
from nova.tests.integration.racing import winners


@race
def one_volume_of_many_servers(cloud, project):
    volume_id = _volume(cloud, project)
    made = [project.server() for _ in range(THREADS)]

    def after():
        table = tables_cell.block_device_mappings
        assert project.count(table, table.c.volume_id == volume_id) == 1
        assert len(cloud.services.volumes.get(cloud.owner, volume_id)['attachments']) == 1
    return Race(lambda number: _attach(project, made[number], volume_id), winners(200, 400), after)


@race
def devices_of_one_server(cloud, project):
    made, volumes = project.server(), [_volume(cloud, project) for _ in range(THREADS)]

    def after():
        with cloud.cell_db.reader() as conn:
            assert len({row['device_name'] for row in block_devices.by_instance(conn, made)}) == THREADS
    return Race(lambda number: _attach(project, made, volumes[number]), collections.Counter({200: THREADS}), after)


@race
def detaches(cloud, project):
    volume_id, made = _volume(cloud, project), project.server()
    _hold(cloud, volume_id, made)
    return Race(lambda number: project.client().delete(f'/servers/{made}/os-volume_attachments/{volume_id}'),
                winners(202, 400))


@race
def detaches_without_a_host(cloud, project):
    """A shelved server lets its volume go at once."""
    volume_id, made = _volume(cloud, project), project.server()
    _hold(cloud, volume_id, made)
    with cloud.cell_db.writer() as conn:
        instances.update(conn, made, {'vm_state': states.SHELVED_OFFLOADED, 'host': None, 'node': None})

    def codes(found):
        assert found[202] >= 1 and found[202] + found[404] + found[400] == THREADS

    def after():
        assert cloud.services.volumes.get(cloud.owner, volume_id)['status'] == 'available'
        with cloud.cell_db.reader() as conn:
            assert block_devices.by_instance(conn, made) == []
    return Race(lambda number: project.client('2.20').delete(
        f'/servers/{made}/os-volume_attachments/{volume_id}'), codes, after)


@race
def a_shared_volume_is_let_go(cloud, project):
    """Whoever is the last leaves it available; each saw the others' attachments and left it in use."""
    volumes, caller = cloud.services.volumes, _context(project)
    volume_id = volumes.create(caller, 1, multiattach=True)['id']
    held = [volumes.attach(caller, volume_id, str(uuid.uuid4())) for _ in range(THREADS)]
    for attachment in held:
        volumes.complete(caller, attachment)

    def ask(number):
        volumes.detach(caller, held[number])
        return project.client().get('/os-keypairs')
    return Race(ask, collections.Counter({200: THREADS}), lambda: equal(
        volumes.get(caller, volume_id)['status'], 'available'))


@race
def attach_and_delete(cloud, project):
    made = [project.server() for _ in range(THREADS // 2)]
    volumes = [_volume(cloud, project) for _ in made]

    def codes(found):
        assert found[204] == len(made) and found[200] + found[409] == len(made)

    def after():
        for ident, volume_id in zip(made, volumes):
            with cloud.cell_db.reader() as conn:
                mapped = len(block_devices.by_instance(conn, ident))
            assert len(cloud.services.volumes.get(cloud.owner, volume_id)['attachments']) == mapped
    return Race([function for ident, volume_id in zip(made, volumes) for function in (
        lambda ident=ident, volume_id=volume_id: _attach(project, ident, volume_id),
        lambda ident=ident: project.client().delete(f'/servers/{ident}'))], codes, after)


@race
def a_private_type_for_one_project(cloud, project):
    volumes, caller = cloud.services.volumes, _context(project)
    kind = volumes.types.create(str(uuid.uuid4()), None, {}, is_public=False)['id']

    def ask(number):
        try:
            volumes.type_access.allow(kind, project.id)
        except exception.Conflict:
            return project.client().get('/servers/none')
        return project.client().get('/os-keypairs')

    def after():
        assert volumes.type_access.projects(volumes.types.find(kind, project.id)) == [project.id]
        assert volumes.create(caller, 1, volume_type=kind)['volume_type_id'] == kind
        volumes.type_access.forbid(kind, project.id)
        assert kind not in [row['id'] for row in volumes.types.every(project.id)]
    return Race(ask, winners(200, 404), after)


@race
def a_share_of_one_server(cloud, project):
    share_id, made = cloud.services.shares.add(project_id=project.id), project.server(vm_state=states.STOPPED)
    return Race(lambda number: project.client('2.97').post(f'/servers/{made}/shares', {
        'share': {'share_id': share_id}}), winners(201, 409))


def _volume(cloud, project):
    volumes = cloud.services.volumes
    made = volumes.create(_context(project), 1)['id']
    waiting.wait_for(lambda: volumes.get(cloud.owner, made)['status'] == 'available', 60, 'the volume')
    return made


def _context(project):
    return context.RequestContext(user_id=project.user, project_id=project.id, roles=['member'], overwrite=False)


def _attach(project, server_id, volume_id):
    return project.client().post(f'/servers/{server_id}/os-volume_attachments', {
        'volumeAttachment': {'volumeId': volume_id}})


def _hold(cloud, volume_id, server_id):
    volumes = cloud.services.volumes
    attachment = volumes.attach(cloud.owner, volume_id, server_id)
    volumes.connect(cloud.owner, attachment, {'host': fixture.HOST}, '/dev/vdb')
    volumes.complete(cloud.owner, attachment)
    with cloud.cell_db.writer() as conn:
        block_devices.insert(conn, server_id, [{
            'source_type': 'volume', 'destination_type': 'volume', 'volume_id': volume_id,
            'attachment_id': attachment, 'device_name': '/dev/vdb'}])
        block_devices.show_volumes(conn, server_id)
