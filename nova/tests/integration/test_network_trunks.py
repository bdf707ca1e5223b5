"""Trunks on hosts that are namespaces: guests send and receive the frames of subports with VLAN tags.

A kernel without the 8021q module has a process for each VLAN device, on the hosts and in the guests.
"""
import json
import time

import pytest

from nova.network.linux import driver
from nova.network.linux import runner
from nova.objects import network_info
from nova.tests.integration import vlan_devices
from nova.tests.support import network_overlay as overlays
from nova.tests.support.network_overlay import make_metadata
from nova.tests.support.network_overlay import metadata
from nova.tests.support.waiting import wait_for

pytestmark = overlays.pytestmark
run = runner.Runner()
FIXTURES = (make_metadata, metadata)
NATIVE = None                    # of untagged frames
SCRIPT = '''#!/bin/sh
[ "$1" = bound ] || exit 0
ip address replace $ip/$mask dev $interface
ip link set dev $interface mtu $mtu
echo "$ip|$mtu"
'''


@pytest.fixture
def world(tmp_path):
    made = overlays.World(tmp_path, agents=True)
    yield made
    made.close()


class TrunkGuest(overlays.Guest):
    """A guest whose device carries VLANs."""

    def __init__(self, world, host, port, name='trunk'):
        super().__init__(world, host, None, name, 'p1', None, port)
        self.runs_in(self.space)

    def runs_in(self, space):
        self.space, self.devices = space, vlan_devices.Runner(('ip', 'netns', 'exec', space))

    def device(self, number, mac):
        self.devices('ip', 'link', 'add', 'link', 'eth0', 'name', f'vl{number}', 'mtu', '1450', 'type', 'vlan', 'id',
                     str(number))
        self('ip', 'link', 'set', f'vl{number}', 'address', mac, 'up')

    def leased(self, number):
        """[address, MTU] that DHCP gives to a VLAN."""
        device = f'vl{number}' if number else 'eth0'
        script = self.script.with_name('udhcpc-vlan')
        script.write_text(SCRIPT)
        script.chmod(0o755)
        for _attempt in range(3):
            found = self('busybox', 'udhcpc', '-i', device, '-n', '-q', '-f', '-t', '8', '-T', '1', '-O', 'mtu',
                         '-s', str(script), check=False).strip()
            if found:
                return found.split('|')
        raise AssertionError(f'{device} has no lease')

    def reaches(self, number, address, seconds=3):
        device = f'vl{number}' if number else 'eth0'
        return bool(self('ping', '-I', device, '-i', '0.2', '-c', '2', '-W', '1', '-w', str(seconds), address,
                         check=False))


def vlan(port, number):
    return {'port_id': port['id'], 'segmentation_type': 'vlan', 'segmentation_id': number}


def address(port):
    return port['fixed_ips'][0]['ip_address']


def devices(host):
    return {link['ifname'] for link in json.loads(host.run('ip', '-json', 'link', 'show'))}


def of_trunk(host):
    return sorted(name for name in devices(host) if name[:2] in ('tb', 'ta') and name[:3] != 'tap'
                  or name.startswith('tapt'))


def test_guest_reaches_the_networks_of_its_subports(world, metadata):
    host, other = world.hosts
    plain, late = world.network(), world.network(cidr='10.9.0.0/24')
    tagged = world.network(cidr='10.8.0.0/24', allocation_pools=[{'start': '10.8.0.2', 'end': '10.8.0.200'}])
    parent, first, second = (world.make('demo', 'ports', network_id=network) for network in (plain, tagged, late))
    trunk = world.make('demo', 'trunks', port_id=parent['id'], sub_ports=[vlan(first, 100)])
    guest = TrunkGuest(world, host, parent['id'])
    assert guest.vif['network']['bridge'] == network_info.trunk_bridge(parent['id'])
    near, far, beside = world.boot(0, tagged, 'near'), world.boot(1, tagged, 'far'), world.boot(1, plain, 'beside')
    for each in (near, far, beside):
        each.dhcp()
    # untagged frames belong to the parent's network, tagged ones to that of the subport
    guest.device(100, first['mac_address'])
    assert guest.leased(NATIVE) == [address(parent), '1450']
    assert guest.leased(100) == [address(first), '1450']
    assert guest.reaches(NATIVE, beside.address)
    assert guest.reaches(100, near.address) and guest.reaches(100, far.address)
    assert far.pings(address(first)) and near.pings(address(first)) and beside.pings(address(parent))
    assert guest('ping', '-I', 'vl100', '-M', 'do', '-s', '1422', '-c', '1', '-W', '2', far.address, check=False)
    # metadata of the parent's server, from the address of the subport
    metadata.knows(guest)
    server = world.face('admin', 'GET', f'ports?network_id={tagged}&device_owner=network:dhcp').json()['ports'][0]
    guest('ip', 'route', 'replace', '169.254.169.254', 'via', address(server), 'dev', 'vl100')
    assert overlays.told(guest) == guest.instance.uuid
    # the filters of a subport are those of a port: no other addresses, and what its groups allow
    guest('ip', 'address', 'add', '10.8.0.222/24', 'dev', 'vl100')
    assert not guest('ping', '-I', '10.8.0.222', '-c', '1', '-W', '1', far.address, check=False)
    guest('ip', 'link', 'set', 'vl100', 'address', '02:00:00:00:00:99')
    assert not guest.reaches(100, far.address, 2)
    guest('ip', 'link', 'set', 'vl100', 'address', first['mac_address'])
    assert guest.reaches(100, far.address)
    world.put('demo', f"ports/{first['id']}", {'port': {'security_groups': []}})
    world.report()
    assert not far.pings(address(first), 2)
    # the host itself is not there, and a VLAN without a subport leads nowhere
    guest('ip', 'route', 'add', '192.0.2.1', 'dev', 'eth0')
    assert not guest.reaches(NATIVE, '192.0.2.1', 2)
    guest.device(300, first['mac_address'])
    guest('ip', 'address', 'add', '10.8.0.223/24', 'dev', 'vl300')
    assert not guest.reaches(300, far.address, 2)
    # subports come and go while the guest runs
    far_late = world.boot(1, late, 'late')
    far_late.dhcp()
    world.put('demo', f"trunks/{trunk['id']}/add_subports", {'sub_ports': [vlan(second, 1)]})
    world.report()
    guest.device(1, second['mac_address'])
    assert guest.leased(1)[0] == address(second) and guest.reaches(1, far_late.address)
    assert guest.reaches(NATIVE, beside.address)
    world.put('demo', f"trunks/{trunk['id']}/remove_subports", {'sub_ports': [{'port_id': first['id']}]})
    world.report()
    assert network_info.devname(first['id']) not in devices(host)
    assert not guest.reaches(100, far.address, 2) and guest.reaches(1, far_late.address)
    # what exists is adopted by the next process, and repaired
    host.run('ip', 'link', 'del', network_info.devname(second['id']))
    host.driver.linux = driver.LinuxDriver(host.conf, host.run)
    host.manager.sync()
    assert guest.reaches(1, far_late.address) and guest.reaches(NATIVE, beside.address)
    host.client.deallocate_for_instance(world.face.context, instance_uuid=guest.instance.uuid, host=host.name)
    assert of_trunk(host) == []
    assert other.name not in world.face('admin', 'GET', f"ports/{second['id']}").text


def test_subports_move_with_the_parent(world):
    source, dest = world.hosts
    plain, tagged = world.network(), world.network(cidr='10.8.0.0/24')
    parent, subport = (world.make('demo', 'ports', network_id=network) for network in (plain, tagged))
    world.make('demo', 'trunks', port_id=parent['id'], sub_ports=[vlan(subport, 100)])
    guest = TrunkGuest(world, source, parent['id'])
    guest.device(100, subport['mac_address'])
    peer = world.boot(0, tagged, 'peer')
    peer.dhcp()
    assert guest.leased(100)[0] == address(subport) and guest.reaches(100, peer.address)
    vif, = dest.client.prepare_for_instance(world.face.context, instance=guest.instance, host=dest.name)
    assert of_trunk(dest) == of_trunk(source) != []
    there = world.space('m' + guest.port[:8])
    run('ip', '-n', dest.space, 'link', 'add', vif['devname'], 'type', 'veth', 'peer', 'name', 'eth0', 'netns', there)
    run('ip', '-n', dest.space, 'link', 'set', vif['devname'], 'master', vif['network']['bridge'], 'up')
    run('ip', '-n', guest.space, 'link', 'set', 'eth0', 'down')
    dest.client.setup_for_instance(world.face.context, instance=guest.instance, host=dest.name)
    world.report()
    assert world.face('admin', 'GET', f"ports/{subport['id']}").json()['port']['binding:host_id'] == dest.name
    guest.runs_in(there)
    guest('ip', 'link', 'set', 'eth0', 'address', guest.mac, 'up')
    guest.device(100, subport['mac_address'])
    assert guest.leased(100)[0] == address(subport)
    assert guest.reaches(100, peer.address) and peer.pings(address(subport))
    wait_for(lambda: world.report() or of_trunk(source) == [], 10, 'the trunk to leave the source host')


def test_policy_of_a_subport_limits_its_frames_and_no_others(world):
    host, _other = world.hosts
    plain, tagged = world.network(), world.network(cidr='10.8.0.0/24')
    parent, below = (world.make('demo', 'ports', network_id=network) for network in (plain, tagged))
    world.make('demo', 'trunks', port_id=parent['id'], sub_ports=[vlan(below, 100)])
    guest = TrunkGuest(world, host, parent['id'])
    far, beside = world.boot(1, tagged, 'far'), world.boot(1, plain, 'beside')
    for each in (far, beside):
        each.dhcp()
    guest.device(100, below['mac_address'])
    assert guest.leased(NATIVE) and guest.leased(100)

    def received(device, to):
        """Of 150 frames of 1328 bytes in 1.5 seconds or more."""
        found = guest('ping', '-q', '-I', device, '-c', '150', '-i', '0.01', '-W', '1', '-s', '1300', to, check=False)
        return int(found.partition(' received')[0].rpartition(' ')[2])
    assert received('vl100', far.address) > 140
    policy = world.face('admin', 'POST', 'qos/policies', {'policy': {'shared': True}}).json()['policy']['id']
    made = world.face('admin', 'POST', f'qos/policies/{policy}/bandwidth_limit_rules', {
        'bandwidth_limit_rule': {'max_kbps': 100}})
    assert made.status_code == 201, made.text
    world.put('demo', f"ports/{below['id']}", {'port': {'qos_policy_id': policy}})
    world.report()
    # 12,500 bytes a second after a burst of 70,000, to which the kernel adds those of a second
    begun = time.monotonic()
    limited = received('vl100', far.address)
    assert limited > 20 and limited * 1328 < 70_000 + 12_500 * (1 + time.monotonic() - begun)
    assert received('eth0', beside.address) > 140
