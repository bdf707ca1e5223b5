"""A real QEMU guest gets CPUs and memory while it runs; the same needs as test_libvirt.py.

The kernel of the guest finds what comes by itself. Whether it uses it is for its system to say (udev rules); the small
one of the tests has none, so the test says it at the console.
"""
import re

import pytest

from nova import exception
from nova.hardware import growth
from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests.support import libvirt as base
from nova.virt import driver as contract
from nova.virt.libvirt.features import growth as life_growth

pytestmark = base.pytestmark
libvirt = base.libvirt
state_path, module_rig, rig, instance = base.state_path, base.module_rig, base.rig, base.instance
SYSTEM = '/sys/devices/system'
MOST = {'hw:max_vcpus': '4', 'hw:max_mem_mb': '1024'}


def seen(instance):
    """(vCPUs, most of them, MiB of memory, modules of memory, number of the process) of the running guest."""
    connection = libvirt.open(base.URI)
    domain = connection.lookupByUUIDString(instance.uuid)
    root = base.etree.fromstring(domain.XMLDesc(0))
    found = (domain.vcpusFlags(libvirt.VIR_DOMAIN_AFFECT_LIVE), domain.maxVcpus(),
             int(root.findtext('memory')) // 1024, len(root.findall('devices/memory')), domain.ID())
    connection.close()
    return found


def limits(instance):
    """{disk: (bytes written, reads) a second} of the running guest."""
    connection = libvirt.open(base.URI)
    domain = connection.lookupByUUIDString(instance.uuid)
    found = {}
    for disk in base.etree.fromstring(domain.XMLDesc(0)).findall('devices/disk/target'):
        values = domain.blockIoTune(disk.get('dev'), libvirt.VIR_DOMAIN_AFFECT_LIVE)
        found[disk.get('dev')] = values['write_bytes_sec'], values['read_iops_sec']
    connection.close()
    return found


def most_of(rig, instance):
    """(CPUs, CPUs for which it has made room at its boot, MiB of memory) that the guest's kernel uses when it is told
    to use all that it has found.
    """
    rig.type(instance, f'cd {SYSTEM}; for each in cpu/cpu[1-9]*/online memory/memory*/online; do echo 1 >$each; done')
    rig.type(instance, 'echo "<$(grep -c ^processor /proc/cpuinfo) $(sed s/.*-// cpu/possible) '
                       '$(ls -d memory/memory[0-9]* | wc -l) '
                       '$(cat memory/memory*/online | tr -d 0 | tr -d "\\n" | wc -c)>"')
    found = []

    def answered():
        found[:] = re.findall(rb'<([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+)>', rig.driver.console_output(instance))
        return found
    waiting.wait_for(answered, base.BOOT_SECONDS, 'the answer')
    cpus, last, blocks, online = map(int, found[-1])
    assert online == blocks
    return cpus, last + 1, blocks * growth.BLOCK_MB


def sizes(vcpus, memory_mb):
    return {'name': f'of {vcpus}', 'vcpus': vcpus, 'memory_mb': memory_mb}


def begin(rig, instance, **specs):
    instance.memory_mb = 256                     # Linux sets 64 MiB aside where memory may come above 4 GiB
    instance.flavor = {'name': 'small', 'swap': 0, 'extra_specs': specs}
    base.spawn(rig, instance)
    rig.booted(instance)


def test_a_running_guest_grows(rig, instance):
    begin(rig, instance, **MOST)
    vcpus, most, memory, modules, ident = seen(instance)
    assert (vcpus, most, memory, modules) == (1, 4, 256, 0)
    for _again in (1, 2):                        # repeated after a crash it changes nothing
        rig.driver.features[contract.Growth].grow(instance, sizes(3, 384))
        assert seen(instance) == (3, 4, 384, 1, ident)
    limit = {'extra_specs': {**MOST, 'quota:disk_write_bytes_sec': '10485760', 'quota:disk_read_iops_sec': '200'}}
    rig.driver.features[contract.Growth].grow(instance, {**sizes(3, 384), **limit})
    assert limits(instance) == {'vda': (10485760, 200)}
    rig.driver.features[contract.Growth].grow(instance, {**sizes(4, 1024), 'extra_specs': MOST})
    assert seen(instance) == (4, 4, 1024, 2, ident) and limits(instance) == {'vda': (0, 0)}
    guest = rig.driver.storage.load(instance.uuid)
    assert (guest.resources.vcpus, guest.resources.memory_mb, guest.identity.facts['flavor']) == (4, 1024, 'of 4')
    cpus, room, memory = most_of(rig, instance)
    assert (cpus, memory) == (room, 1024)
    # Linux 6.12 makes no room for vCPUs that are absent at its boot where no KVM tells it that it is a guest.
    assert room == 4 or room == 1 and rig.driver.platform.virt_type == 'qemu'
    with pytest.raises(exception.VirtError, match='lower maximum of CPUs'):
        rig.driver.features[contract.Growth].grow(instance, sizes(5, 1024))
    # started again it is all one piece
    rig.driver.reboot(None, instance, [], True)
    assert seen(instance)[:4] == (4, 4, 1024, 0)
    # one that is off has it at its next start
    rig.driver.power_off(instance)
    guest.resources.vcpus, guest.resources.memory_mb = 1, 256
    rig.driver.storage.save(guest)
    rig.driver.features[contract.Growth].grow(instance, sizes(2, 512))
    rig.driver.power_on(None, instance, [])
    assert seen(instance)[:4] == (2, 4, 512, 0)


@long_runs.only
def test_a_guest_without_room_stays_as_it_is(rig, instance):
    begin(rig, instance)
    before = seen(instance)
    for more in (sizes(2, 256), sizes(1, 384)):
        with pytest.raises(exception.VirtError, match='lower maximum of CPUs'):
            rig.driver.features[contract.Growth].grow(instance, more)
    assert seen(instance) == before


@long_runs.only
def test_memory_without_the_cpus_is_taken_back(rig, instance):
    """QEMU refuses the CPUs: the guest, which has not taken the memory up, gives it back."""
    begin(rig, instance, **MOST)
    before = seen(instance)
    plugged = rig.driver.hypervisor.guest('plug', instance.uuid, life_growth.plug, 384)
    assert seen(instance)[2:4] == (384, 1)
    rig.driver.features[contract.Growth].take_back(instance.uuid, plugged)
    assert seen(instance) == before
