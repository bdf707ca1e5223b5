"""The all-in-one as a whole: start, serve, stop, start again."""
import stat

import pytest
import requests

from nova import exception
from nova.tests.functional import cloud
from nova.tests.integration import servers


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('cloud') / 'state') as made:
        yield made


def test_a_server_is_built_and_deleted(running):
    client = running.client()
    made = client.boot(client.upload_image())
    server = client.wait_for(made['id'])
    assert server['addresses']['private'][0]['addr'].startswith('10.44.0.')
    assert client.delete(f"/servers/{made['id']}").status_code == 204
    assert client.wait_for(made['id'], 'DELETED') is None


def test_every_face_answers(running):
    admin = running.admin()
    index = admin.session.get(running.url).json()['services']
    assert set(index) == {'identity', 'image', 'network', 'volume', 'compute', 'key-manager', 'ec2'}
    assert index.pop('ec2') == running.url + '/services/Cloud'           # which has no document of its versions
    for url in index.values():
        assert admin.session.get(url + '/', headers={'X-Auth-Token': admin.token}).status_code in (200, 300), url
    for path in ('/v2.1/servers', '/compute/v2.1/servers', '/v2/servers', '/identity/v3/projects',
                 '/image/v2/images', '/network/v2.0/networks', '/volume/v3/volumes'):
        assert admin.get(path).status_code == 200, path


@pytest.mark.parametrize('path', ['/v2.1/servers', '/compute/v2.1/servers', '/v2/servers', '/identity/v3/projects',
                                  '/image/v2/images', '/network/v2.0/networks', '/volume/v3/volumes'])
def test_nothing_is_served_without_a_token(running, path):
    forged = {'X-User-Id': 'a', 'X-Project-Id': 'b', 'X-Roles': 'admin', 'X-Identity-Status': 'Confirmed'}
    for headers in ({}, forged, {**forged, 'X-Auth-Token': 'gAAAAAforged'}):
        answer = requests.get(running.url + path, headers=headers, timeout=10)
        assert answer.status_code == 401, headers


def test_all_services_are_up(running):
    services = running.admin().get('/os-services').json()['services']
    assert {(service['binary'], service['state']) for service in services} == {
        (binary, 'up') for binary in ('nova-conductor', 'nova-scheduler', 'nova-network', 'nova-compute')}


def test_files_are_private(running):
    # Others may pass through to the disks of guests, which run as another user, and see nothing on the way.
    assert stat.S_IMODE(running.state_path.stat().st_mode) in (0o700, 0o711)
    assert stat.S_IMODE(running.clouds_yaml.stat().st_mode) == 0o600


def test_two_clouds_cannot_share_a_directory(running):
    with pytest.raises(exception.InvalidInput, match='in use by process'):
        cloud.Cloud(running.state_path).start()
    assert running.client().get('/servers').status_code == 200


def test_two_clouds_in_one_process_know_nothing_of_each_other(running, tmp_path):
    with cloud.running(tmp_path / 'other') as other:
        flavor = {'flavor': {'name': 'theirs', 'vcpus': 1, 'ram': 64, 'disk': 0, 'id': 'theirs'}}
        assert other.admin().post('/flavors', flavor).status_code == 200
        assert running.admin().get('/flavors/theirs').status_code == 404
        stolen = other.admin().token
        assert requests.get(running.url + '/v2.1/servers', headers={'X-Auth-Token': stolen},
                            timeout=10).status_code == 401


def test_a_second_start_changes_nothing(tmp_path):
    state, port = tmp_path / 'state', servers.free_port()
    with cloud.running(state, http__port=port) as first:
        client = first.client()
        made = client.boot(client.upload_image())
        client.wait_for(made['id'])
        told = first.clouds_yaml.read_text()
        flavors = client.get('/flavors').json()
        networks = client.get('/network/v2.0/networks').json()
    with cloud.running(state, http__port=port) as second:
        client = second.client()
        assert second.clouds_yaml.read_text() == told
        assert client.get('/flavors').json() == flavors
        assert client.get('/network/v2.0/networks').json() == networks
        assert client.wait_for(made['id'])['status'] == 'ACTIVE'


def test_another_driver_is_refused(tmp_path):
    from nova import conf as nova_conf
    from nova.cloud import drivers
    with cloud.running(tmp_path / 'state'):
        pass
    conf = nova_conf.new(files=[], state_path=str(tmp_path / 'state'))
    with pytest.raises(exception.InvalidInput, match='--driver fake'):
        drivers.choose(conf, 'libvirt')
    assert drivers.choose(conf, 'auto') is None
    assert (conf.compute_driver, conf.network.driver) == ('fake', 'fake')


def test_configured_driver_is_used(tmp_path):
    from nova import conf as nova_conf
    from nova.cloud import drivers
    file = tmp_path / 'nova.conf'
    for name, fits in (('fake', True), ('ironic', False)):
        file.write_text(f'[DEFAULT]\ncompute_driver = {name}\n')
        conf = nova_conf.new(files=[str(file)], state_path=str(tmp_path / 'state'))
        if fits:
            assert drivers.choose(conf) is None and conf.network.driver == 'fake'
        else:
            with pytest.raises(exception.InvalidInput, match='libvirt or fake, not ironic'):
                drivers.choose(conf)


def test_cloud_runs_several_hosts(tmp_path):
    with cloud.running(tmp_path / 'state', hosts=['host1', 'host2', 'host3']) as made:
        names = {row['hypervisor_hostname'] for row in made.admin().get('/os-hypervisors').json()['hypervisors']}
        assert names == {'host1', 'host2', 'host3'}


def test_a_taken_port_leaves_nothing_behind(running, tmp_path):
    port = int(running.url.rpartition(':')[2])
    with pytest.raises(exception.InvalidInput, match='Cannot listen'):
        cloud.Cloud(tmp_path / 'state', http__port=port).start()
    with cloud.running(tmp_path / 'state') as made:
        assert made.client().get('/servers').status_code == 200


def test_a_failed_first_start_does_not_choose_the_driver(running, tmp_path):
    from nova.cloud import drivers
    made = cloud.Cloud(tmp_path / 'state', http__port=int(running.url.rpartition(':')[2]))
    with pytest.raises(exception.InvalidInput, match='Cannot listen'):
        made.start()
    assert drivers.read(made.conf) is None
    drivers.choose(made.conf, 'libvirt')
    assert made.conf.compute_driver == 'libvirt'


def test_an_option_without_a_meaning_is_what_the_start_says(tmp_path):
    """Stopping what was never whole said something else instead."""
    with pytest.raises(exception.InvalidOption, match='both have 2-3'):
        cloud.Cloud(tmp_path / 'state', compute__cpu_shared_set='0-3', compute__cpu_dedicated_set='2-5').start()
    with cloud.running(tmp_path / 'state') as made:
        assert made.client().get('/servers').status_code == 200
