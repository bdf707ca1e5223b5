"""The same services over the real in-process bus: servers, queues and serialization between them."""

import pytest

from nova import states
from nova.compute import interface as compute_interface
from nova.conductor import interface as conductor_interface
from nova.network import interface as network_interface
from nova.rpc import bus
from nova.rpc import interface
from nova.scheduler import interface as scheduler_interface
from nova.tests import core
from nova.tests.support import waiting
from nova.tests.support.waiting import wait_for


@pytest.fixture
def cloud(tmp_path):
    cloud = core.Cloud(tmp_path)
    real = bus.Bus(cloud.conf, f'nova-inprocess:///{tmp_path.name}')
    compute = cloud.computes['host1']
    interfaces = {'compute': compute_interface, 'conductor': conductor_interface, 'network': network_interface,
                  'scheduler': scheduler_interface}
    client = {name: real.client(module.INTERFACE) for name, module in interfaces.items()}
    compute.host.conductor.client, compute.host.network.client = client['conductor'], client['network']
    conductor = cloud.new_conductor(**{name: client[name] for name in ('compute', 'network', 'scheduler')})
    cloud.client = client
    known = [row for row in network_interface.INTERFACE.methods.values() if hasattr(cloud.network, row.name)]
    servers = [real.serve(interface_of, manager, 'host1') for interface_of, manager in (
        (compute_interface.INTERFACE, compute), (conductor_interface.INTERFACE, conductor),
        (interface.Interface('network', network_interface.INTERFACE.version, *known), cloud.network),
        (scheduler_interface.INTERFACE, cloud.scheduler))]
    for server in servers:
        server.start()
    yield cloud
    for server in servers:
        server.stop()
    cloud.close()


def test_servers_run_through_their_life_over_the_bus(cloud):
    uuids = [cloud.create()[0] for _ in range(20)]
    wait_for(lambda: all(cloud.row(uuid)['vm_state'] == states.ACTIVE for uuid in uuids))
    uuid = uuids[0]
    cloud.act(uuid, 'os-stop', clean_shutdown=True)
    wait_for(lambda: cloud.row(uuid)['vm_state'] == states.STOPPED)
    cloud.act(uuid, 'rebuild', preserve_ephemeral=False, spec=cloud.conductor.methods.get_request_spec(None, uuid))
    wait_for(lambda: cloud.row(uuid)['task_state'] is None)
    assert cloud.row(uuid)['vm_state'] == states.STOPPED
    cloud.computes['host1'].driver.machine.change_by_itself(uuids[1], states.SHUTDOWN)
    wait_for(lambda: cloud.row(uuids[1])['vm_state'] == states.STOPPED)
    assert cloud.client['compute'].ping(cloud.ctx, server='host1') == 'pong'
    cloud.computes['host1'].recovery.recover()
    for each in uuids:
        cloud.delete(each)
    wait_for(lambda: all(cloud.gone(each) for each in uuids))
    wait_for(lambda: cloud.network.allocated == {})
    waiting.settled(cloud.check)


def test_no_valid_host_keeps_its_facts_over_the_bus(cloud):
    uuid, = cloud.create(flavor={'vcpus': 1000})
    wait_for(lambda: cloud.row(uuid)['vm_state'] == states.ERROR)
    assert 'has too few free vCPUs' in cloud.row(uuid)['fault']['message']
    assert 'CoreFilter removed 1' in cloud.row(uuid)['fault']['details']
