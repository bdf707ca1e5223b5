"""Computes of tools/cluster.sh with libvirt: hosts of their own on one machine, and what is seen of their guests.

The needs of test_libvirt.py but for its libvirtd: each host has one.
"""
import os
import pathlib
import subprocess
import sys
import types
from concurrent import futures

import pytest

from nova import states
from nova.tests import long_runs
from nova.tests.integration import moving
from nova.tests.support import waiting
from nova.tests.support import libvirt as base
from nova.virt import driver as contract

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not (base.GUEST / 'guest.qcow2').exists(),
                                reason='needs root, and the guest image that NOVA_TEST_GUEST_DIR names')
NAMES = ('compute1', 'compute2')


def left_of(namespaces, before):
    """What an end must take away: network namespaces, processes in them, and mounts that others see.

    :param before: what mounts() gave
    """
    found = [line for line in subprocess.check_output(['ip', 'netns', 'list'], text=True).splitlines()
             if line.startswith(namespaces)]
    return found + [line for line in mounts() if line not in before]


def command(pid):
    """Words of a process; '' when it has ended."""
    try:
        return pathlib.Path(f'/proc/{pid}/cmdline').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ''


def mounts():
    return [line for line in pathlib.Path('/proc/mounts').read_text().splitlines() if '/libvirt' in line]


@pytest.fixture(scope='module')
def fleet():
    """(modules of tools/cluster, parts by name, drivers by host)."""
    before = mounts()
    with moving.place('nova-hosts-') as directory:
        from cluster import hosts
        from cluster import parts
        from cluster import prepare
        from cluster import settings
        assert settings.DIRECTORY == directory
        made = settings.save('mariadb', 2, libvirt=2)
        drivers = {}
        try:
            prepare.network(made)
            for name in NAMES:
                hosts.prepare(name)
            started = {part.name: part for part in parts.nova(made) if part.name.startswith('libvirt-')}
            with futures.ThreadPoolExecutor() as pool:
                assert list(pool.map(lambda part: part.start(), started.values())) == [True, True]
            assert not any(part.start() for part in started.values())
            for name in NAMES:
                images = base.Images()
                drivers[name] = base.make_driver(directory / name, images, libvirt__connection_uri=hosts.uri(name))
                drivers[name].init_host()
            yield types.SimpleNamespace(hosts=hosts, parts=started, drivers=drivers, prepare=prepare,
                                        namespaces=settings.NAMESPACES)
        finally:
            for driver in drivers.values():
                driver.stop()
            for part in parts.nova(made):
                part.stop()
            prepare.remove_network()

    def nothing_left():
        assert left_of(settings.NAMESPACES, before) == []
    waiting.settled(nothing_left)                        # a mount ends with the last process that is in it


@pytest.fixture(autouse=True)
def no_guests(fleet):
    yield
    for name, driver in fleet.drivers.items():
        for uuid in fleet.hosts.guests(name):            # as virsh has it: also what was done behind a compute's back
            fleet.hosts.virsh(name, 'undefine', uuid) if uuid not in driver.guests() else driver.destroy(
                None, base.make_instance(uuid=uuid), [])


def boot(fleet, name):
    instance = base.make_instance(memory_mb=96)
    image = base.Images().show(None, base.DISK_ID)
    base.spawn(types.SimpleNamespace(driver=fleet.drivers[name], image=image), instance)
    return instance


def differences(fleet, servers):
    """Sentences of tools/load.py. servers: {uuid: host}"""
    sys.path.insert(0, str(moving.TOOLS))
    import load
    cloud = types.SimpleNamespace(guests=lambda: {name: fleet.hosts.guests(name) for name in NAMES})
    return list(load.hypervisors(types.SimpleNamespace(
        cloud=cloud, instances={uuid: {'host': host, 'vm_state': states.ACTIVE} for uuid, host in servers.items()},
        shown={uuid: {'status': 'ACTIVE'} for uuid in servers})))


@long_runs.only
def test_each_host_has_its_own_guests_which_outlive_its_libvirt(fleet):
    servers = {name: boot(fleet, name) for name in NAMES}
    for name, instance in servers.items():
        assert fleet.hosts.guests(name) == fleet.drivers[name].guests() == {instance.uuid: states.RUNNING}
        processes = subprocess.check_output(['ip', 'netns', 'pids', fleet.namespaces + name], text=True).split()
        commands = [text for pid in processes if (text := command(pid))]
        assert [instance.uuid in text for text in commands if 'qemu-system' in text] == [True]
    assert differences(fleet, {instance.uuid: name for name, instance in servers.items()}) == []
    part, driver, instance = fleet.parts['libvirt-compute1'], fleet.drivers['compute1'], servers['compute1']
    assert part.kill()
    with pytest.raises(RuntimeError):
        fleet.hosts.guests('compute1')
    with futures.ThreadPoolExecutor() as pool:
        paused = pool.submit(driver.features[contract.Pause].pause, instance)             # waits
        assert part.start()
        paused.result()
    assert fleet.hosts.guests('compute1') == {instance.uuid: states.POWER_PAUSED}
    driver.features[contract.Pause].unpause(instance)
    base.wait_for(lambda: b'guest ready' in driver.console_output(instance), base.BOOT_SECONDS, 'the guest to boot')
    for name, instance in servers.items():
        fleet.drivers[name].destroy(None, instance, [])
        assert fleet.hosts.guests(name) == {}


def test_changes_made_with_virsh_are_detected(fleet):
    here, there = boot(fleet, 'compute1').uuid, boot(fleet, 'compute2').uuid
    servers = {here: 'compute1', there: 'compute2'}
    text = fleet.hosts.virsh('compute1', 'dumpxml', here)
    fleet.hosts.virsh('compute1', 'destroy', here)
    assert differences(fleet, servers) == [f'server {here} is ACTIVE, its guest has power state 4']
    fleet.hosts.virsh('compute1', 'undefine', here)
    assert differences(fleet, servers) == [f'server {here} is active and has no guest']
    file = pathlib.Path(fleet.drivers['compute1'].storage.path(here), 'twin.xml')
    file.write_text(text.replace(here, there))
    fleet.hosts.virsh('compute1', 'define', file)
    assert differences(fleet, servers) == [
        f'server {there} has guests on compute1, compute2', f'server {there} is ACTIVE, its guest has power state 4',
        f'server {here} is active and has no guest']
