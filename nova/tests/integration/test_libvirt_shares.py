"""Shares of real guests by virtiofs; the same needs as test_libvirt.py, and virtiofsd.

The kernels of test machines have no NFS: a program in the place of mount.nfs, seen by nova-virtiofsd alone, mounts the
directory of the export itself. All else is real: libvirt, nova-virtiofsd, virtiofsd, the guest's kernel.
"""
import pathlib
import subprocess
import sys
import uuid

import pytest

from nova import exception
from nova.tests import long_runs
from nova.tests.support import libvirt as base
from nova.tests.support import libvirt_shares
from nova.tests.support.libvirt_shares import answered
from nova.tests.support.libvirt_shares import serving
from nova.tests.support.libvirt_shares import started
from nova.virt import driver as contract
from nova.virt import virtiofsd

instance = libvirt_shares.instance
rig = libvirt_shares.rig


pytestmark = base.pytestmark
state_path = base.state_path
MOUNT_NFS = """#!/bin/sh
# usage: mount.nfs SERVER:DIRECTORY TARGET [-o OPTIONS]
case "$*" in *nosuid,nodev,noexec*) exec mount --bind "${1#*:}" "$2" ;; esac
echo "mount.nfs: unsafe options: $*" >&2; exit 1
"""
PROGRAM = """#!/bin/sh
if [ "$NOVA_TEST_INSIDE" != yes ]; then
    NOVA_TEST_INSIDE=yes exec unshare -m --propagation slave "$0" "$@"
fi
mount --bind {stand_in} /sbin/mount.nfs && exec {python} -P -m nova.virt.virtiofsd "$@"
"""


def share(directory, tag='data', host='192.0.2.9'):
    return {'share_id': str(uuid.uuid4()), 'tag': tag, 'protocol': 'NFS', 'export_location': f'{host}:{directory}'}


@pytest.fixture(scope='module')
def module_rig(state_path):
    try:
        virtiofsd.server()
    except ValueError as missing:
        pytest.skip(str(missing))
    stand_in, program = state_path / 'mount.nfs', state_path / 'nova-virtiofsd'
    stand_in.write_text(MOUNT_NFS)
    program.write_text(PROGRAM.format(stand_in=stand_in, python=sys.executable))
    for file in (stand_in, program):
        file.chmod(0o755)
    made = base.Rig(state_path)
    made.driver.stop()
    made.driver = base.make_driver(state_path, made.images, libvirt__virtiofsd_path=str(program))
    made.driver.init_host()
    yield made
    made.driver.stop()


@pytest.fixture
def export(state_path):
    made = state_path / 'export'
    made.mkdir(exist_ok=True)
    return made


def test_a_guest_reads_and_writes_its_share_until_it_is_detached(rig, instance, export):
    (export / 'from-outside').write_text('seen-by-the-guest')
    found = share(export)
    base.spawn(rig, instance)
    with pytest.raises(exception.VirtError, match='is not off'):
        rig.driver.features[contract.Shares].attach_share(None, instance, found)
    rig.driver.power_off(instance)
    rig.driver.features[contract.Shares].attach_share(None, instance, found)
    rig.driver.features[contract.Shares].attach_share(None, instance, found)                   # again after a crash
    started(rig, instance)
    answered(rig, instance, 'mkdir -p /m; mount -t virtiofs data /m; cat /m/from-outside; echo', rb'seen-by-the-guest')
    answered(rig, instance, 'echo from-the-$((1))st >/m/inside; sync; echo w$((1))ritten', rb'w1ritten')
    assert (export / 'inside').read_text() == 'from-the-1st\n'
    assert str(export) not in pathlib.Path('/proc/mounts').read_text()   # of virtiofsd alone
    with pytest.raises(exception.VirtError, match='is not off'):
        rig.driver.features[contract.Shares].detach_share(None, instance, found)
    rig.booted_again(instance, lambda: rig.driver.reboot(None, instance, [], hard=True))
    answered(rig, instance, 'mkdir -p /m; mount -t virtiofs data /m; cat /m/inside; echo r$((1))ead',
             rb'from-the-1st\s+r1ead')
    rig.driver.power_off(instance)
    rig.driver.features[contract.Shares].detach_share(None, instance, found)
    rig.driver.features[contract.Shares].detach_share(None, instance, found)
    assert not list((rig.instances / instance.uuid).glob('share-*'))
    rig.driver.power_on(None, instance, [])
    assert '<filesystem' not in subprocess.check_output(['virsh', '-c', base.URI, 'dumpxml', instance.uuid], text=True)


@long_runs.only
def test_unmountable_share_fails_the_start_and_destroy_removes_share_mounts(rig, instance, export):
    kept = export / 'kept'
    kept.write_text('of others')
    base.spawn(rig, instance)
    rig.driver.power_off(instance)
    for values in ({'protocol': 'CIFS'}, {'export_location': '-o evil:/x'}, {'share_id': '../x'}):
        with pytest.raises(exception.VirtError):
            rig.driver.features[contract.Shares].attach_share(None, instance, {**share(export), **values})
    assert not list((rig.instances / instance.uuid).glob('share-*'))
    missing = share(export / 'missing')
    rig.driver.features[contract.Shares].attach_share(None, instance, missing)
    with pytest.raises(exception.VirtError, match=r'vhost-user-fs|-fs\.sock'):
        rig.driver.power_on(None, instance, [])
    rig.driver.features[contract.Shares].detach_share(None, instance, missing)
    rig.driver.features[contract.Shares].attach_share(None, instance, share(export))
    rig.driver.power_on(None, instance, [])
    rig.driver.destroy(None, instance, [])
    assert rig.leftovers(instance.uuid) == [] and kept.read_text() == 'of others'
    # libvirt has told it to end, and waits for QEMU alone
    base.wait_for(lambda: not serving(instance), 30, 'virtiofsd to end')
