"""What a server shows of the floating addresses that lead to it."""
import pytest

from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support.floating_addresses import make


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('floating') / 'state') as made:
        made.boss, made.user = made.admin('2.95'), made.client(version='2.95')
        made.image = made.boss.upload_image(visibility='public')
        made.outside = make(made.boss, 'networks', name='public', **{'router:external': True})['id']
        make(made.boss, 'subnets', network_id=made.outside, cidr='172.24.4.0/24', ip_version=4, enable_dhcp=False)
        yield made


@pytest.fixture(scope='module')
def server(cloud):
    """(id of a server behind a router, id of its port)"""
    network = make(cloud.user, 'networks', name='inside')['id']
    subnet = make(cloud.user, 'subnets', network_id=network, cidr='10.7.0.0/24', ip_version=4)['id']
    router = make(cloud.user, 'routers', name='r', external_gateway_info={'network_id': cloud.outside})['id']
    joined = cloud.user.put(f'/network/v2.0/routers/{router}/add_router_interface', {'subnet_id': subnet})
    assert joined.status_code == 200, joined.text
    ident = cloud.user.boot(cloud.image, networks=[{'uuid': network}])['id']
    cloud.user.wait_for(ident)
    port, = cloud.user.get(f'/network/v2.0/ports?device_id={ident}').json()['ports']
    return ident, port['id']


def shows(cloud, ident, *wanted):
    """Wait until these are the floating addresses of the server, and no others."""
    def shown():
        addresses = cloud.user.get(f'/servers/{ident}').json()['server']['addresses']['inside']
        return {each['addr'] for each in addresses if each['OS-EXT-IPS:type'] == 'floating'} == set(wanted)
    waiting.wait_for(shown, 20, f'server {ident} to show {wanted}')


def test_a_server_shows_the_floating_address_that_leads_to_it(cloud, server):
    """It never did where the address was given to its port by the Networking API, which is how all clients do it:
    the host of the server was not told, and the server showed for ever what was there when it was built."""
    ident, port = server
    made = make(cloud.user, 'floatingips', floating_network_id=cloud.outside)
    path, address = f"/network/v2.0/floatingips/{made['id']}", made['floating_ip_address']
    assert cloud.user.put(path, {'floatingip': {'port_id': port}}).status_code == 200
    shows(cloud, ident, address)
    assert cloud.user.put(path, {'floatingip': {'port_id': None}}).status_code == 200
    shows(cloud, ident)
    assert cloud.user.delete(path).status_code == 204
    made = make(cloud.user, 'floatingips', floating_network_id=cloud.outside, port_id=port)
    shows(cloud, ident, made['floating_ip_address'])
    assert cloud.user.delete(f"/network/v2.0/floatingips/{made['id']}").status_code == 204
    shows(cloud, ident)


def test_the_actions_of_the_compute_api_do_the_same(cloud, server):
    ident, _port = server
    made = make(cloud.user, 'floatingips', floating_network_id=cloud.outside)
    for action, wanted in (('addFloatingIp', [made['floating_ip_address']]), ('removeFloatingIp', [])):
        answer = cloud.user.post(f'/servers/{ident}/action', {action: {'address': made['floating_ip_address']}},
                                 version='2.1')
        assert answer.status_code == 202, answer.text
        shows(cloud, ident, *wanted)
    assert cloud.user.post(f'/servers/{ident}/action', {'addFloatingIp': {'address': made['floating_ip_address']}},
                           version='2.1').status_code == 202
    shows(cloud, ident, made['floating_ip_address'])
    assert cloud.user.delete(f"/os-floating-ips/{made['id']}", version='2.1').status_code == 202
    shows(cloud, ident)


def test_addfloatingip_takes_the_address_of_the_first_interface(cloud):
    """It took the lowest address of all interfaces: here of a network without a router."""
    idents = []
    for name, cidr in (('routed', '192.168.77.0/24'), ('apart', '10.66.0.0/24')):
        idents.append(make(cloud.user, 'networks', name=name)['id'])
        subnet = make(cloud.user, 'subnets', network_id=idents[-1], cidr=cidr, ip_version=4)['id']
        if name == 'routed':
            router = make(cloud.user, 'routers', name='r2', external_gateway_info={'network_id': cloud.outside})['id']
            assert cloud.user.put(f'/network/v2.0/routers/{router}/add_router_interface',
                                  {'subnet_id': subnet}).status_code == 200
    ident = cloud.user.boot(cloud.image, networks=[{'uuid': each} for each in idents])['id']
    cloud.user.wait_for(ident)
    made = make(cloud.user, 'floatingips', floating_network_id=cloud.outside)
    answer = cloud.user.post(f'/servers/{ident}/action', {'addFloatingIp': {'address': made['floating_ip_address']}},
                             version='2.1')
    assert answer.status_code == 202, answer.text
    fixed = cloud.user.get(f"/network/v2.0/floatingips/{made['id']}").json()['floatingip']['fixed_ip_address']
    assert fixed.startswith('192.168.77.')
