"""The search domain of a network: its ``dns_domain`` over the Networking API, on its hosts and in its guests' VIFs."""
import pytest

from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.network.host import network as host_network
from nova.tests.support import network_api as test_network_api
from nova.tests.support.network_neighbours import plumbed
from nova.tests.support.network_routers import ok


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def of_guests(face, network, port):
    with face.db.reader() as conn:
        row = db_networks.get(conn, t.networks, network)
    return host_network.vif(face.conf, {**port, 'tag': None}, row, [], [])['network']['dns_domain']


def test_the_domain_of_a_network_reaches_its_hosts_and_guests(face):
    """It was refused, and guests got no search domain."""
    made = ok(face('demo', 'POST', 'networks', {'network': {'dns_domain': 'Blue.example.'}}))
    network = made['id']
    assert made['dns_domain'] == 'blue.example.'
    ok(face('demo', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '10.0.0.0/24', 'ip_version': 4}}))
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))
    assert plumbed(face, network, port['id']).domain == of_guests(face, network, port) == 'blue.example'
    found = face('demo', 'GET', 'networks?dns_domain=blue.example.').json()['networks']
    assert [each['id'] for each in found] == [network]
    assert ok(face('demo', 'PUT', f'networks/{network}', {'network': {'dns_domain': ''}}), 200)['dns_domain'] == ''
    assert plumbed(face, network, port['id']).domain == '' and of_guests(face, network, port) == 'openstacklocal'
    face.conf.set_override('dhcp_domain', 'cloud.test', group='metadata')
    assert of_guests(face, network, port) == 'cloud.test'


@pytest.mark.parametrize('domain', ['blue.example', '.', 'a..b.', '-a.', 'x' * 64 + '.', 'a.' * 100, 'b\nc.', 7, None])
def test_invalid_dns_domain_is_refused(face, domain):
    answer = face('demo', 'POST', 'networks', {'network': {'dns_domain': domain}})
    assert answer.status_code == 400, answer.text
