"""The device name of an attached volume: the one that the guest has, whatever the request asks for."""
import itertools

import pytest

from nova.tests.functional import servers

NUMBERS = itertools.count(1)


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('api'))
    with fixture.cell_db.writer() as conn:
        fixture.add_host(conn, 'real', 'real', device_names=False)
        fixture.add_host(conn, 'named', 'named', device_names=True)
        fixture.add_host(conn, 'older', 'older')
    yield fixture
    fixture.close()


@pytest.mark.parametrize(('host', 'wanted', 'shown', 'headers'), [
    ('real', '/dev/vdz', '/dev/vdb', {}), ('real', None, '/dev/vdb', {}), ('real', '/dev/vdb', '/dev/vdb', {}),
    ('real', '/dev/sdf', '/dev/sdf', {'X-Nova-Device-Name': 'label'}), ('named', '/dev/vdz', '/dev/vdz', {}),
    ('older', '/dev/vdz', '/dev/vdz', {})])
def test_the_answer_names_the_disk_of_the_guest(cloud, host, wanted, shown, headers):
    """The answer had the name of the request, and the guest another one."""
    server = cloud.add_server(next(NUMBERS), host=host, node=host, volumes=[])
    body = {'volumeAttachment': {'volumeId': cloud.add_volume(), **({'device': wanted} if wanted else {})}}
    answer = cloud.client().post(f'/servers/{server}/os-volume_attachments', body, headers=headers)
    assert answer.status == 200 and answer.json['volumeAttachment']['device'] == shown, answer.json
    listed = cloud.client().get(f'/servers/{server}/os-volume_attachments').json['volumeAttachments']
    assert [each['device'] for each in listed] == [shown]


def test_a_config_drive_is_a_disk_beside_the_others(cloud):
    server = cloud.add_server(next(NUMBERS), host='real', node='real', volumes=[], config_drive=True)
    shown = [cloud.client().post(f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {
        'volumeId': cloud.add_volume()}}).json['volumeAttachment']['device'] for _ in range(2)]
    assert shown == ['/dev/vdc', '/dev/vdd']


def test_a_name_that_another_disk_has_is_refused(cloud):
    server = cloud.add_server(next(NUMBERS), host='real', node='real', volumes=[])
    answer = cloud.client().post(f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {
        'volumeId': cloud.add_volume(), 'device': '/dev/vda'}})
    assert answer.status == 409
