"""Live migration of a guest with a port whose tap must be there before its QEMU; the needs are those of moving.py.

Each host has a privileged part in which ``vif.plug`` makes a tap in the host's namespace, as os-vif does it, without an
Open vSwitch. How Neutron with OVN takes it is seen in test_neutron_fleet.py.
"""
import errno
import os
import subprocess

import pytest

from nova.runtime import privileges
from nova.tests.integration import moving

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.virt.libvirt.privileged import remote

pytestmark = moving.needed
ONE, TWO = 'compute1', 'compute2'
PORT = 'aaaaaaaa-1111-2222-3333-444444444444'
TAP = 'tapaaaaaaaa-11'


def vif(bridge='br-int'):
    return {'id': PORT, 'address': 'fa:16:3e:00:00:01', 'type': 'ovs', 'devname': TAP, 'active': True, 'tag': None,
            'vnic_type': 'normal', 'details': {},
            'network': {'id': PORT, 'label': 'net', 'bridge': bridge, 'mtu': 1442, 'subnets': []}}


class Taps:
    """What a privileged part does with ports.

    :param namespace: of the host
    :param file: where it notes the bridges
    :param known: bridges that the host has; another one does not unplug a tap that is there
    """

    def __init__(self, namespace, file, known):
        self._namespace, self._file, self._known = namespace, file, known

    def plug(self, uuid, port):
        if port['device'] not in self._ip('-o', 'link'):
            self._ip('tuntap', 'add', port['device'], 'mode', 'tap')
        self._note('+', port)

    def unplug(self, uuid, port):
        if port['device'] in self._ip('-o', 'link'):
            if port['bridge'] not in self._known:
                raise OSError(errno.ENODEV, f'There is no bridge {port["bridge"]}.')
            self._ip('tuntap', 'delete', port['device'], 'mode', 'tap')
        self._note('-', port)

    def _note(self, sign, port):
        with open(self._file, 'a') as file:
            file.write(f'{sign}{port["bridge"]}\n')

    def _ip(self, *words):
        return subprocess.run(['ip', '-n', self._namespace, *words], check=True, capture_output=True, text=True).stdout


class Hosts(moving.Hosts):
    def helper_of(self, name, conf):
        own = {ONE: 'tbr-one', TWO: 'tbr-two'}[name]
        taps = Taps(self.namespace(name), self.directory / f'{name}.ports', ('br-int', own))
        made = privileges.Helper({
            **remote.operations(conf, os.path.join(conf.state_path, 'instances'), os.getuid()),
            'vif.plug': taps.plug, 'vif.unplug': taps.unplug}, remote.failure, remote.CALLERS)
        made.fork()
        return made

    def taps(self):
        """Hosts that have the tap."""
        return [name for name in self.names if TAP in subprocess.run(
            ['ip', '-n', self.namespace(name), '-o', 'link'], check=True, capture_output=True, text=True).stdout]

    def bridges(self, name):
        """What was plugged (+) and unplugged (-) on a host."""
        return (self.directory / f'{name}.ports').read_text().split()


@pytest.fixture(scope='module')
def fleet():
    with moving.hosts(kind=Hosts) as made:
        yield made


@pytest.fixture(autouse=True)
def clean(fleet):
    yield
    fleet.clear()


def test_destination_has_the_tap_before_the_guest_arrives(fleet):
    """libvirt refused the guest: "target managed='no' but specified dev doesn't exist". The parent of a trunk has a
    bridge of its own on each host."""
    instance = fleet.spawn(ONE, [vif('tbr-one')])
    assert fleet.taps() == [ONE]
    fleet.migrate(ONE, TWO, instance, vifs=[vif('tbr-two')])
    fleet.only_at(TWO, instance)
    assert fleet.taps() == [TWO]
    assert set(fleet.bridges(ONE)) == {'+tbr-one', '-tbr-one'} and fleet.bridges(TWO)[-1] == '+tbr-two'


def test_rollback_removes_the_tap_of_the_destination(fleet):
    instance = fleet.spawn(ONE, [vif()])
    facts = fleet.prepare(ONE, TWO, instance, [vif()])
    assert fleet.taps() == [ONE, TWO]
    fleet.live(TWO).rollback_live_migration(None, instance, [], facts)
    fleet.only_at(ONE, instance)
    assert fleet.taps() == [ONE]


def test_rollback_on_shared_disks_removes_the_tap():
    """The record beside the disks names the bridge of the source; the attempt after it begins anew."""
    with moving.hosts(kind=Hosts, share='shared') as shared:
        instance = shared.spawn(ONE, [vif('tbr-one')])
        for _ in range(2):
            facts = shared.prepare(ONE, TWO, instance, [vif('tbr-two')])
            assert shared.taps() == [ONE, TWO]
        shared.live(TWO).rollback_live_migration(None, instance, [], facts)
        shared.only_at(ONE, instance)
        assert shared.taps() == [ONE]
        shared.clear()


def test_host_that_died_before_the_rollback_removes_the_tap_at_its_start():
    """A rollback that never came on shared disks left the tap until the next attempt."""
    with moving.hosts(kind=Hosts, share='shared') as shared:
        instance = shared.spawn(ONE, [vif('tbr-one')])
        shared.prepare(ONE, TWO, instance, [vif('tbr-two')])
        assert shared.taps() == [ONE, TWO]
        assert shared.live(TWO).incoming_guests() == [instance.uuid] and shared.live(ONE).incoming_guests() == []
        shared.live(TWO).discard_incoming_guest(instance.uuid)
        shared.only_at(ONE, instance)
        assert shared.taps() == [ONE] and shared.live(TWO).incoming_guests() == []
        shared.clear()
