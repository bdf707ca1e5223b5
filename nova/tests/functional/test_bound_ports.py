"""Addresses of ports that servers have, changed in the Network API: filters, DHCP, metadata and the server follow."""
import pytest

from nova.db.networks import ports as db_ports
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support.floating_addresses import make

V6 = {'ip_version': 6, 'ipv6_ra_mode': 'dhcpv6-stateful', 'ipv6_address_mode': 'dhcpv6-stateful'}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('bound') / 'state', quota__instances=-1, quota__cores=-1,
                        quota__ram=-1) as made:
        made.boss, made.user = made.admin('2.95'), made.client(version='2.95')
        made.image = made.boss.upload_image(visibility='public')
        made.inside = make(made.user, 'networks', name='inside')['id']
        # tests name addresses outside the pool, from which ports take random ones
        made.v4 = make(made.user, 'subnets', network_id=made.inside, cidr='10.8.0.0/24', ip_version=4,
                       allocation_pools=[{'start': '10.8.0.100', 'end': '10.8.0.200'}])['id']
        made.v6 = make(made.user, 'subnets', network_id=made.inside, cidr='2001:db8:8::/64', **V6)['id']
        yield made


@pytest.fixture
def bound(cloud):
    """(id of a server, its port)"""
    port = make(cloud.user, 'ports', network_id=cloud.inside)
    ident = cloud.user.boot(cloud.image, networks=[{'port': port['id']}])['id']
    cloud.user.wait_for(ident)
    return ident, cloud.user.get(f"/network/v2.0/ports/{port['id']}").json()['port']


def put(client, port, **values):
    return client.put(f"/network/v2.0/ports/{port['id']}", {'port': values})


def addresses(port):
    return sorted(entry['ip_address'] for entry in port['fixed_ips'])


def shows(cloud, ident, wanted):
    """Wait until a server shows these addresses and no others."""
    def shown():
        found = cloud.user.get(f'/servers/{ident}').json()['server']['addresses'].get('inside', [])
        return sorted(each['addr'] for each in found) == sorted(wanted)
    waiting.wait_for(shown, 20, f'server {ident} to show {wanted}')


def plumbed(cloud, port):
    """(addresses of a port in its host's filters, addresses that DHCP leases to it)"""
    manager = next(part.manager for part in cloud.services if part.binary == 'nova-network')
    state = manager.load()
    found, = [each for each in state.ports if each.id == port['id']]
    leases = [lease['address'] for overlay in state.overlays for lease in overlay.leases
              if lease['mac'] == port['mac_address']]
    return sorted(found.addresses), sorted(leases)


def test_port_takes_the_addresses_that_it_has(cloud, bound):
    ident, port = bound
    for client in (cloud.user, cloud.boss):
        for given in (port['fixed_ips'], port['fixed_ips'][::-1],
                      [{'ip_address': entry['ip_address']} for entry in port['fixed_ips']],
                      [{'subnet_id': entry['subnet_id']} for entry in port['fixed_ips']]):
            answer = put(client, port, fixed_ips=given)
            assert answer.status_code == 200, answer.text
            assert addresses(answer.json()['port']) == addresses(port)
    unchanged = put(cloud.user, port, fixed_ips=port['fixed_ips']).json()['port']
    before = cloud.user.get(f"/network/v2.0/ports/{port['id']}").json()['port']
    assert unchanged == before
    shows(cloud, ident, addresses(port))


def test_changed_addresses_of_a_bound_port_are_carried_out(cloud, bound):
    ident, port = bound
    kept = next(entry for entry in port['fixed_ips'] if entry['subnet_id'] == cloud.v4)['ip_address']
    for wanted in ([kept, '10.8.0.70'], [kept, '10.8.0.71', '2001:db8:8::71'], ['10.8.0.72'], [], [kept]):
        answer = put(cloud.user, port, fixed_ips=[{'ip_address': each} for each in wanted])
        assert answer.status_code == 200, answer.text
        assert addresses(answer.json()['port']) == sorted(wanted)
        shows(cloud, ident, wanted)
        assert plumbed(cloud, port) == (sorted(wanted), sorted(wanted))
    listed = cloud.user.get(f'/servers/{ident}/os-interface').json()['interfaceAttachments']
    assert [entry['ip_address'] for entry in listed[0]['fixed_ips']] == [kept]
    moved = put(cloud.user, port, fixed_ips=[{'ip_address': '10.8.0.75'}])
    assert moved.status_code == 200
    with cloud.api_db.reader() as conn:                  # whose metadata a request from an address gets
        found = [db_ports.device_by_network(conn, cloud.inside, each, 'host1') for each in (kept, '10.8.0.75')]
    assert found == [None, ident]


def test_address_of_another_port_is_refused(cloud, bound):
    ident, port = bound
    other = make(cloud.user, 'ports', network_id=cloud.inside)
    for wanted, code in ((addresses(other)[0], 409), ('10.99.0.1', 400)):
        answer = put(cloud.user, port, fixed_ips=[*port['fixed_ips'], {'ip_address': wanted}])
        assert answer.status_code == code, answer.text
    now = cloud.user.get(f"/network/v2.0/ports/{port['id']}").json()['port']
    assert addresses(now) == addresses(port)
    shows(cloud, ident, addresses(port))


def test_floating_address_leaves_with_the_address_that_it_led_to(cloud, bound):
    ident, port = bound
    outside = make(cloud.boss, 'networks', name='public', **{'router:external': True})['id']
    make(cloud.boss, 'subnets', network_id=outside, cidr='172.24.4.0/24', ip_version=4, enable_dhcp=False)
    router = make(cloud.user, 'routers', name='r', external_gateway_info={'network_id': outside})['id']
    joined = cloud.user.put(f'/network/v2.0/routers/{router}/add_router_interface', {'subnet_id': cloud.v4})
    assert joined.status_code == 200, joined.text
    floating = make(cloud.user, 'floatingips', floating_network_id=outside, port_id=port['id'])
    path = f"/network/v2.0/floatingips/{floating['id']}"
    assert put(cloud.user, port, fixed_ips=port['fixed_ips']).status_code == 200
    assert cloud.user.get(path).json()['floatingip']['port_id'] == port['id']
    assert put(cloud.user, port, fixed_ips=[{'ip_address': '10.8.0.90'}]).status_code == 200
    left = cloud.user.get(path).json()['floatingip']
    assert (left['port_id'], left['fixed_ip_address'], left['status']) == (None, None, 'DOWN')
    shows(cloud, ident, ['10.8.0.90'])
