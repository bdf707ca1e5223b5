"""Requests about volumes at the same moment: one wins, the others get the documented refusal, nothing is lost."""
import pytest
import sqlalchemy as sa

from nova import exception
from nova.db.servers import block_devices
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import races
from nova.tests.functional import servers


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path, quota__instances=-1, quota__cores=-1, quota__ram=-1)
    yield fixture
    fixture.close()


def server(cloud, number=0):
    return cloud.add_server(number, host=servers.HOST, node=servers.NODE)


def attach(cloud, server_id, volume_id):
    return lambda: cloud.client().post(f'/servers/{server_id}/os-volume_attachments',
                                       {'volumeAttachment': {'volumeId': volume_id}})


def devices(cloud):
    with cloud.cell_db.reader() as conn:
        return [dict(row) for row in conn.execute(sa.select(tables_cell.block_device_mappings)).mappings()]


def test_one_of_several_servers_gets_the_volume(cloud):
    for _ in range(5):
        volume_id = cloud.add_volume()
        cloud.compute.sent.clear()
        answers = races.at_once(*(attach(cloud, server(cloud, number), volume_id) for number in range(6)))
        assert sorted(answer.status for answer in answers) == [200] + [400] * 5
        assert len(cloud.compute.sent) == 1
        held, = [row for row in devices(cloud) if row['volume_id'] == volume_id]
        volume = cloud.services.volumes.get(cloud.owner, volume_id)
        assert [each['id'] for each in volume['attachments']] == [held['attachment_id']]
        assert volume['status'] == 'reserved'


def test_a_server_gets_a_volume_once(cloud):
    for shared in (False, True):
        volume_id, server_id = cloud.add_volume(multiattach=shared), server(cloud)
        client = cloud.client(version='2.60')
        answers = races.at_once(*[lambda: client.post(f'/servers/{server_id}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': volume_id}})] * 6)
        assert sorted(answer.status for answer in answers) == [200] + [400] * 5
        assert len(cloud.services.volumes.get(cloud.owner, volume_id)['attachments']) == 1


def test_each_volume_gets_a_device_of_its_own(cloud):
    server_id = server(cloud)
    answers = races.at_once(*(attach(cloud, server_id, cloud.add_volume()) for _ in range(8)))
    assert {answer.status for answer in answers} == {200}
    assert {answer.json['volumeAttachment']['device'] for answer in answers} == {f'/dev/vd{c}' for c in 'bcdefghi'}


def test_a_server_has_as_many_disks_as_letters(cloud):
    server_id = server(cloud)
    volumes = [cloud.add_volume() for _ in range(30)]
    codes = [answer.status for answer in races.at_once(*(attach(cloud, server_id, each) for each in volumes))]
    assert sorted(codes) == [200] * 25 + [403] * 5


def test_one_of_several_new_servers_boots_from_the_volume(cloud):
    volume_id = cloud.add_volume(image_id=cloud.image_id)
    body = {'server': {'name': 'vm', 'flavorRef': '1', 'block_device_mapping_v2': [
        {'source_type': 'volume', 'uuid': volume_id, 'boot_index': 0}]}}
    answers = races.at_once(*[lambda: cloud.client().post('/servers', body)] * 6)
    assert sorted(answer.status for answer in answers) == [202] + [400] * 5
    assert len(devices(cloud)) == 1
    with cloud.api_db.reader() as conn:       # and the others use no quota
        assert conn.execute(sa.select(sa.func.count()).select_from(tables_api.instance_mappings)).scalar() == 1


def test_one_of_several_detaches_wins(cloud):
    server_id = server(cloud)
    volume_id = cloud.add_volume(server_id)
    answers = races.at_once(*[lambda: cloud.client().delete(
        f'/servers/{server_id}/os-volume_attachments/{volume_id}')] * 5)
    assert sorted(answer.status for answer in answers) == [202] + [400] * 4
    assert len(cloud.compute.sent) == 1


def test_a_delete_overtakes_an_attach(cloud):
    """Whichever comes first, no volume stays with a server that is being deleted without a mapping that says so."""
    for _ in range(10):
        volume_id, server_id = cloud.add_volume(), server(cloud)
        attached, deleted = races.at_once(attach(cloud, server_id, volume_id),
                                          lambda server_id=server_id: cloud.client().delete(f'/servers/{server_id}'))
        assert deleted.status == 204 and attached.status in (200, 409)
        with cloud.cell_db.reader() as conn:
            mapped = [row['volume_id'] for row in block_devices.by_instance(conn, server_id)]
        held = cloud.services.volumes.get(cloud.owner, volume_id)['attachments']
        assert mapped == ([volume_id] if attached.status == 200 else []) and len(held) == len(mapped)


def test_a_quota_of_volumes_is_never_exceeded(cloud):
    cloud.conf.set_override('volumes', 5, group='volume')

    def create():
        try:
            return cloud.add_volume()
        except exception.QuotaExceeded:
            return None
    assert sum(made is not None for made in races.at_once(*[create] * 12)) == 5
