"""Servers of a fleet on a real Neutron with OVN: addresses, packets between hosts, and nothing left behind.

NOVA_TEST_NEUTRON_FLEET names the directory of a fleet that runs, made by
``NOVA_CLUSTER_DIR=… tools/cluster.sh up --network neutron --libvirt 2 --computes 2``.
"""
import os
import pathlib
import subprocess
import types
import uuid

import pytest

from nova.tests.support import waiting

FLEET = os.environ.get('NOVA_TEST_NEUTRON_FLEET')
pytestmark = pytest.mark.skipif(not FLEET or os.geteuid() != 0,
                                reason='needs root, and a fleet that NOVA_TEST_NEUTRON_FLEET names')
TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
HOSTS = ('compute1', 'compute2')


@pytest.fixture(scope='module')
def fleet(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('NOVA_CLUSTER_DIR', FLEET)
        patch.syspath_prepend(str(TOOLS))
        from cluster import hosts
        from cluster import neutron
        from cluster import parts
        from cluster import prepare
        from cluster import settings
        made = settings.load()
        cloud = prepare.cloud(made)
        cloud.compute.default_microversion = '2.74'
        network = cloud.network.find_network('private')
        place = tmp_path_factory.mktemp('neutron')
        name = 'test-' + uuid.uuid4().hex[:8]
        image = cloud.create_image(name, filename=f'{FLEET}/guest/guest.qcow2', container_format='bare',
                                   disk_format='qcow2', wait=True, validate_checksum=False)
        key = cloud.compute.create_keypair(name=name)
        (place / 'key').write_text(key.private_key)
        (place / 'key').chmod(0o600)
        group = cloud.network.create_security_group(name=name)
        rig = types.SimpleNamespace(
            cloud=cloud, service=prepare.cloud(made, 'nova', 'service'), network=network, image=image, key=key,
            group=group, name=name, place=place, neutron=neutron,
            hosts=hosts, parts={part.name: part for part in parts.all_of(made)}, settings=settings)
        yield rig
        cloud.compute.delete_keypair(key)
        cloud.image.delete_image(image)
        cloud.network.delete_security_group(group)


def boot(fleet, host, **values):
    flavor = fleet.cloud.compute.find_flavor('real.nano')
    values = {'networks': [{'uuid': fleet.network.id}], **values}
    made = fleet.cloud.compute.create_server(
        name=fleet.name, flavor_id=flavor.id, image_id=fleet.image.id, key_name=fleet.key.name,
        security_groups=[{'name': fleet.group.name}], **({'host': host} if host else {}), **values)
    return fleet.cloud.compute.wait_for_server(made, wait=120)


def allow(fleet, protocol, port=None):
    return fleet.cloud.network.create_security_group_rule(
        security_group_id=fleet.group.id, direction='ingress', protocol=protocol, port_range_min=port,
        port_range_max=port)


def console(fleet, server):
    def ready():
        text = fleet.cloud.compute.get_server_console_output(server, length=200)['output']
        return next((line for line in text.splitlines() if line.startswith('guest ready:')), None)
    return waiting.wait_for(ready, 180, 'the guest', 2)


def address(server, kind='fixed'):
    return next((entry['addr'] for entries in server.addresses.values() for entry in entries
                 if entry['OS-EXT-IPS:type'] == kind), None)


def ssh(fleet, to, *command):
    return subprocess.run(
        ['ssh', '-i', fleet.place / 'key', '-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null',
         '-o', 'ConnectTimeout=5', '-o', 'LogLevel=ERROR', f'root@{to}', *command], capture_output=True, text=True,
        timeout=60, check=False)


def pings(to):
    return subprocess.run(['ping', '-c', '1', '-W', '1', to], capture_output=True, check=False).returncode == 0


def ports(fleet, server):
    return list(fleet.cloud.network.ports(device_id=server.id))


def plugged(fleet, port_id):
    """Hosts whose Open vSwitch has a port of this id."""
    return [host for host in HOSTS if fleet.neutron.vsctl(
        host, '--columns=name', 'find', 'Interface', f'external_ids:iface-id={port_id}').strip()]


def delete(fleet, *servers):
    for server in servers:
        fleet.cloud.compute.delete_server(server)
    for server in servers:
        fleet.cloud.compute.wait_for_delete(server, wait=60)


def bindings(fleet, port_id):
    """Neutron shows them of ports of servers alone: it is taken for one."""
    fleet.service.network.update_port(port_id, device_owner='compute:none')
    return fleet.service.network.get(f'/ports/{port_id}/bindings').json()['bindings']


def test_servers_on_two_hosts_have_active_neutron_ports(fleet):
    servers = [boot(fleet, host) for host in HOSTS]
    for server, host in zip(servers, HOSTS, strict=True):
        port, = ports(fleet, server)
        assert (port.binding_host_id, port.status, port.project_id) == (host, 'ACTIVE', server.project_id)
        assert port.fixed_ips[0]['ip_address'] == address(server)
        assert plugged(fleet, port.id) == [host]
    for server in servers:
        line = console(fleet, server)
        assert f'address {address(server)}' in line          # by OVN's DHCP
        assert 'instance i-' in line or f'instance {server.id}' in line, line
        assert 'metadata service' in line and 'key yes' in line
    outside = fleet.cloud.network.find_network('public')
    floating = fleet.cloud.network.create_ip(floating_network_id=outside.id, port_id=ports(fleet, servers[0])[0].id)
    try:
        waiting.wait_for(lambda: address(fleet.cloud.compute.get_server(servers[0].id), 'floating'), 20,
                         'the floating IP in what the server shows')
        to = floating.floating_ip_address
        assert not pings(to)                                  # the group is closed
        rules = [allow(fleet, 'icmp'), allow(fleet, 'tcp', 22)]
        waiting.wait_for(lambda: pings(to), 20, 'an answer of the floating IP')
        found = waiting.wait_for(lambda: ssh(fleet, to, 'ping', '-c', '3', address(servers[1])), 30, 'ssh', 1)
        assert '3 packets received' in found.stdout, found    # to the other host, over Geneve
        fleet.cloud.network.delete_security_group_rule(rules[0])
        waiting.wait_for(lambda: not pings(to), 20, 'silence')
        fleet.cloud.network.delete_security_group_rule(rules[1])
    finally:
        fleet.cloud.network.delete_ip(floating)
    idents = [port.id for server in servers for port in ports(fleet, server)]
    delete(fleet, *servers)
    assert [ports(fleet, server) for server in servers] == [[], []]
    assert [plugged(fleet, ident) for ident in idents] == [[], []]


def test_moved_and_deleted_servers_leave_no_ports(fleet):
    compute = fleet.cloud.compute
    mine = fleet.cloud.network.create_port(network_id=fleet.network.id, name=fleet.name)
    server = boot(fleet, 'compute1', networks=[{'port': mine.id}])
    compute.stop_server(server)
    compute.wait_for_server(server, 'SHUTOFF', wait=60)
    compute.start_server(server)
    compute.wait_for_server(server, wait=60)
    made = compute.create_server_interface(server, net_id=fleet.network.id)
    assert plugged(fleet, made.port_id) == ['compute1']
    compute.delete_server_interface(made.port_id, server)
    waiting.wait_for(lambda: [port.id for port in ports(fleet, server)] == [mine.id], 90, 'the port to go')
    assert plugged(fleet, made.port_id) == []
    compute.shelve_server(server)
    compute.wait_for_server(server, 'SHELVED_OFFLOADED', wait=120)
    port, = ports(fleet, server)
    assert not port.binding_host_id and plugged(fleet, mine.id) == []
    compute.unshelve_server(server)
    server = compute.wait_for_server(server, wait=120)
    port, = ports(fleet, server)
    assert plugged(fleet, mine.id) == [port.binding_host_id] == [server.hypervisor_hostname or port.binding_host_id]
    delete(fleet, server)
    port = fleet.cloud.network.get_port(mine.id)
    assert (port.device_id, port.device_owner, port.binding_host_id, port.binding_profile) == ('', '', '', {})
    assert [each['host'] for each in bindings(fleet, mine.id) if each['host']] == []
    assert plugged(fleet, mine.id) == []
    fleet.cloud.network.delete_port(mine)


def test_an_evacuation_takes_the_port_along(fleet):
    compute = fleet.cloud.compute
    server = boot(fleet, 'compute1')
    port, = ports(fleet, server)
    service, = compute.services(binary='nova-compute', host='compute1')
    fleet.parts['compute1'].kill()
    compute.update_service_forced_down(service, forced=True)
    try:
        compute.evacuate_server(server, host='compute2')
        waiting.wait_for(lambda: 'compute2' in plugged(fleet, port.id), 120, 'the new host to plug the port', 1)
        compute.wait_for_server(server, wait=60)
        assert ports(fleet, server)[0].binding_host_id == 'compute2'
    finally:
        compute.update_service_forced_down(service, forced=False)
        fleet.parts['compute1'].start()
    waiting.wait_for(lambda: plugged(fleet, port.id) == ['compute2'], 120, 'the old host to unplug it', 1)
    delete(fleet, server)
    assert ports(fleet, server) == [] and plugged(fleet, port.id) == []


def chassis(fleet, port_id):
    """Where OVN has a port."""
    return subprocess.run(
        ['ovn-sbctl', f'--db=unix:{FLEET}/ovn/ovn.sock', '--bare', '--columns=chassis', 'find', 'Port_Binding',
         f'logical_port={port_id}'], check=True, capture_output=True, text=True).stdout.strip()


def test_trunk_parent_is_live_migrated(fleet):
    """Nobody plugged a port at the destination of a live migration, and libvirt refused the guest. Subports go too."""
    compute, network = fleet.cloud.compute, fleet.cloud.network
    below = network.create_network(name=fleet.name)
    network.create_subnet(network_id=below.id, ip_version=4, cidr='10.78.0.0/24', gateway_ip=None)
    parent = network.create_port(network_id=fleet.network.id, security_groups=[fleet.group.id])
    child = network.create_port(network_id=below.id)
    trunk = network.create_trunk(port_id=parent.id, sub_ports=[
        {'port_id': child.id, 'segmentation_type': 'vlan', 'segmentation_id': 101}])
    floating = network.create_ip(floating_network_id=network.find_network('public').id, port_id=parent.id)
    rule = allow(fleet, 'icmp')
    server = boot(fleet, 'compute1', networks=[{'port': parent.id}])
    console(fleet, server)
    waiting.wait_for(lambda: pings(floating.floating_ip_address), 30, 'an answer')
    before = chassis(fleet, child.id)
    compute.live_migrate_server(server, host='compute2', block_migration='auto')
    ends = waiting.wait_for(lambda: [entry.status for entry in compute.migrations(instance_uuid=server.id)
                                     if entry.status in ('completed', 'error', 'failed')], 120, 'the migration', 1)
    assert ends == ['completed']
    shown = compute.get_server(server.id)
    assert (shown.status, shown.compute_host) == ('ACTIVE', 'compute2')
    assert (network.get_port(parent.id).binding_host_id, plugged(fleet, parent.id)) == ('compute2', ['compute2'])
    waiting.wait_for(lambda: network.get_port(parent.id).status == 'ACTIVE' == network.get_port(child.id).status, 30,
                     'both ports', 1)
    assert before != chassis(fleet, child.id) == chassis(fleet, parent.id)
    waiting.wait_for(lambda: pings(floating.floating_ip_address), 30, 'an answer from the other host')
    assert [each['host'] for each in fleet.service.network.get(f'/ports/{parent.id}/bindings').json()['bindings']] == [
        'compute2']
    delete(fleet, server)
    assert plugged(fleet, parent.id) == []
    network.delete_ip(floating)
    network.delete_trunk(trunk)
    for port in (parent, child):
        network.delete_port(port)
    network.delete_network(below)
    network.delete_security_group_rule(rule)


def test_a_server_goes_to_a_host_of_the_segment(fleet):
    """Neutron makes the aggregate of a segment by the compute API and puts the host in; no host was found."""
    network = fleet.cloud.network
    routed = network.create_network(name=fleet.name, provider_network_type='flat', provider_physical_network='rack1')
    first, = network.segments(network_id=routed.id)
    second = network.create_segment(network_id=routed.id, network_type='flat', physical_network='rack2')
    for number, segment in enumerate((first, second)):
        network.create_subnet(network_id=routed.id, segment_id=segment.id, ip_version=4, cidr=f'10.8{number}.0.0/24',
                              gateway_ip=None)

    def members(segment):
        return next((each.hosts for each in fleet.cloud.compute.aggregates()
                     if each.name == f'Neutron segment id {segment.id}'), None)
    waiting.wait_for(lambda: members(first) == ['compute1'] and members(second) == ['compute2'], 60,
                     'the aggregates of the segments', 1)
    for segment, host, begin in ((second, 'compute2', '10.81.'), (first, 'compute1', '10.80.')):
        subnet, = network.subnets(network_id=routed.id, segment_id=segment.id)
        port = network.create_port(network_id=routed.id, fixed_ips=[{'subnet_id': subnet.id}])
        server = boot(fleet, None, networks=[{'port': port.id}])
        assert server.compute_host == host and address(server).startswith(begin)
        delete(fleet, server)
        network.delete_port(port)
    server = boot(fleet, None, networks=[{'uuid': routed.id}])              # anywhere, with an address of that segment
    assert address(server).startswith({'compute1': '10.80.', 'compute2': '10.81.'}[server.compute_host])
    delete(fleet, server)
    for subnet in network.subnets(network_id=routed.id):
        network.delete_subnet(subnet)
    network.delete_network(routed)
