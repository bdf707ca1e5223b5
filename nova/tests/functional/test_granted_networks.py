"""Servers of administrators in networks of other projects."""
import pytest

from nova import exception
from nova import objects
from nova.db.servers import request_specs
from nova.tests.functional import cloud as clouds
from nova.tests.support import network_manager as unit
from nova.tests.support.floating_addresses import make


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('granted') / 'state') as made:
        made.boss, made.user = made.admin('2.95'), made.client(version='2.95')
        made.image = made.boss.upload_image(visibility='public')
        made.network = make(made.user, 'networks', name='theirs')['id']
        make(made.user, 'subnets', network_id=made.network, cidr='10.17.0.0/24', ip_version=4)
        yield made


def test_an_administrator_names_a_network_of_another_project(cloud):
    ident = cloud.boss.boot(cloud.image, networks=[{'uuid': cloud.network}])['id']
    cloud.boss.wait_for(ident)
    port, = cloud.boss.get(f'/network/v2.0/ports?device_id={ident}').json()['ports']
    assert port['network_id'] == cloud.network
    assert list(cloud.boss.get(f'/servers/{ident}').json()['server']['addresses']) == ['theirs']


def test_other_users_do_not(cloud):
    network = make(cloud.boss, 'networks', name='of-the-administrator')['id']
    make(cloud.boss, 'subnets', network_id=network, cidr='10.18.0.0/24', ip_version=4)
    answer = cloud.user.post('/servers', {'server': {
        'name': 's', 'imageRef': cloud.image, 'flavorRef': '1', 'networks': [{'uuid': network}]}})
    assert answer.status_code == 400 and 'could not be found' in answer.text


def test_a_host_grants_nothing(tmp_path):
    """What the API has stored with the request counts, not what the message of a host says."""
    rig = unit.Rig(tmp_path)
    try:
        network = rig.add_network(project='p2')
        for stored, granted in ((None, False), ([_request(network)], False), ([_request(network, granted=True)], True)):
            server = unit.make_instance()
            with rig.db.writer() as conn:
                request_specs.insert(conn, [objects.RequestSpec(
                    instance_uuid=server.uuid, project_id=unit.PROJECT, requested_networks=stored)])
            if granted:
                vif, = rig.allocate(server, [_request(network)])
                assert vif['network']['id'] == network
            else:
                with pytest.raises(exception.NetworkNotFound):
                    rig.allocate(server, [_request(network, granted=True)])
    finally:
        rig.db.dispose()


def _request(network, **more):
    return {'network_id': network, 'port_id': None, 'fixed_ip': None, 'tag': None, **more}
