"""The network configuration that Debian's cloud-init writes from network_data.json.

Needs Debian packages of cloud-init from this machine's apt; they are unpacked, not installed.
"""
import pytest
import yaml

from nova.tests.integration import cloud_init
from nova.tests.support import metadata as documents
from nova.virt import metadata

NAMES = {f'fa:16:3e:00:00:0{number}': f'eth{number}' for number in range(3)}


@pytest.fixture(scope='module')
def modules(tmp_path_factory):
    return cloud_init.unpacked(tmp_path_factory.mktemp('cloud-init'))


@pytest.fixture
def written(modules, tmp_path):
    def write(renderer, *interfaces):
        document = metadata.network_data(list(interfaces), 'cloud.test')
        return cloud_init.written(modules, tmp_path, renderer, document, NAMES)
    return write


@pytest.mark.parametrize(('mode', 'expected'), [
    ('slaac', 'iface eth0 inet6 auto'), ('dhcpv6-stateful', 'iface eth0 inet6 dhcp'),
    ('dhcpv6-stateless', 'iface eth0 inet6 auto'), (None, 'iface eth0 inet6 static')])
def test_a_guest_waits_for_dhcpv6_where_it_is_served_alone(written, mode, expected):
    """All IPv6 networks were ipv6_dhcp, from which cloud-init writes dhcp."""
    text = written('eni', documents.interface(documents.subnet(4, dhcp=True), documents.subnet(6, mode)))
    assert [line for line in text.splitlines() if line.startswith('iface eth0 inet6')] == [expected]
    assert 'dns-search cloud.test' in text


def test_networkd_sets_no_mtu_where_dhcp_announces_it(written):
    text = written('networkd', documents.interface(documents.subnet(4, dhcp=True), documents.subnet(6, 'slaac')))
    assert 'DHCP=ipv4' in text.splitlines() and 'MTUBytes' not in text


def test_static_interfaces_have_name_servers_search_domain_mtu_and_a_metric(written):
    text = written('netplan', *(documents.interface(documents.subnet(4), number=number, domain=f'd{number}.example')
                                for number in range(2)), documents.interface(documents.subnet(4, dhcp=True), number=2))
    found = yaml.safe_load(text)['network']['ethernets']
    for number in range(2):
        assert found[f'eth{number}']['nameservers'] == {'addresses': ['10.0.0.2'], 'search': [f'd{number}.example']}
    assert (found['eth0']['mtu'], 'mtu' in found['eth2']) == (1400, False)
    metrics = [route.get('metric') for number in range(2) for route in found[f'eth{number}']['routes']
               if route['to'] == '0.0.0.0/0']
    assert metrics == [None, 1025]
