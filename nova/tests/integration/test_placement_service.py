"""Claims of ports on a real Placement service: NOVA_TEST_PLACEMENT is the Python of an environment that has
``openstack-placement``. The tests are those of the small service, where that stands for it."""
import uuid

import pytest

from nova import conf as nova_conf
from nova import context
from nova.network.neutron import manager
from nova.tests import neutron_service
from nova.tests.functional import test_neutron_requests as small
from nova.tests.support import neutron as test_neutron
from nova.tests.support.placement_service import PYTHON
from nova.tests.support.placement_service import Placement
from nova.tests.support.placement_service import service


pytestmark = pytest.mark.skipif(not PYTHON, reason='NOVA_TEST_PLACEMENT is not set')

class Rig(small.Rig):
    def __init__(self, neutron, address, place):
        conf = nova_conf.new(
            files=[], network__backend='neutron', neutron__endpoint_override=address, neutron__auth_type='none',
            placement__auth_type='admin_token')
        from keystoneauth1 import loading
        loading.register_auth_conf_options(conf, 'placement')
        conf.register_opts(loading.get_auth_plugin_conf_options('admin_token'), 'placement')
        conf.set_override('endpoint', place, 'placement')
        conf.set_override('token', 'admin', 'placement')
        self.conf, self.neutron, self.placement = conf, neutron, Placement(place)
        self.api = small.api.API(conf)
        self.hosts, self.ctx = {}, context.admin_context()
        self.manager = manager.NeutronManager(conf, self.hosts.get, nodes=lambda: [
            (host, f'{host}.example', str(uuid.uuid5(uuid.NAMESPACE_DNS, host))) for host in ('host1', 'host2')])
        self.manager.begin()
        self.network = neutron.network(test_neutron.ALICE)


@pytest.fixture
def rig(tmp_path):
    neutron = neutron_service.Neutron(['host1', 'host2'])
    neutron.aliases += ['port-resource-request', 'port-resource-request-groups', 'segment']
    with neutron_service.listening(neutron) as address, service(tmp_path) as place:
        yield Rig(neutron, address, place)


def test_port_of_one_group_is_claimed_in_placement(rig):
    small.test_a_port_of_one_group_is_claimed_and_given_back(rig)


def test_port_claims_follow_a_move(rig):
    one, two = (small.below(rig.placement, f'{host}.example', 1000, 0)[0] for host in ('host1', 'host2'))
    port = rig.port(small.plain(600))
    rig.allocate([small.request(port_id=port)])
    rig.manager.prepare_for_instance(rig.ctx, small.server(), 'host2')
    assert [rig.placement.free(each, small.EGRESS) for each in (one, two)] == [400, 400]
    rig.manager.setup_for_instance(rig.ctx, small.server(), 'host2')
    assert [rig.placement.free(each, small.EGRESS) for each in (one, two)] == [1000, 400]
    assert rig.profile(port)['allocation'] == two
    rig.give_back()
    assert not rig.placement.allocations


def test_placement_selects_hosts_of_a_segment(rig):
    """Groups of one subtree, and hosts of a segment's aggregate."""
    from nova.network.neutron import reachable_hosts

    bridge, rate = small.below(rig.placement, 'host1.example', 1000, 50)
    small.below(rig.placement, 'host2.example', 50, 50)
    port = rig.port(small.grouped(100, 5))
    finder = reachable_hosts.HostFinder(rig.conf)
    assert finder.find(small.SERVER, [small.request(port_id=port)]).nodes == {'host1.example'}
    rig.allocate([small.request(port_id=port)])
    assert rig.profile(port)['allocation'] == {small.BANDWIDTH: bridge, small.RATE: rate}
    assert (rig.placement.free(bridge, small.INGRESS), rig.placement.free(rate, small.PACKETS)) == (900, 45)
    assert finder.find(small.SERVER, []).bound == {'host1'}
    segment, aggregate = str(uuid.uuid4()), str(uuid.uuid4())
    routed = rig.neutron.network(small.ALICE, '10.6.0.0/24')
    for row in rig.neutron.rows['subnets'].values():
        if row['network_id'] == routed:
            row['segment_id'] = segment
    segment_name = f'Neutron segment id {segment}'
    rig.placement.provider(segment, segment_name, aggregates=[aggregate])
    two = next(row for row in rig.placement.providers.values() if row['name'] == 'host2.example')
    rig.placement.call('PUT', f'/resource_providers/{two["uuid"]}/aggregates', json={
        'aggregates': [aggregate], 'resource_provider_generation': two['generation']})
    reached, = finder.find(small.OTHER, [small.request(network_id=routed)]).segments
    assert reached == ({aggregate}, {segment_name, 'host2.example'})
