"""A share of CephFS in a real guest: Ceph of one node with its MDS, ceph-fuse, libvirt, virtiofsd, the guest's kernel.

The same needs as test_libvirt.py, and Ceph with ceph-mds, ceph-fuse, FUSE in the kernel.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import uuid

import pytest

from nova import exception
from nova.tests import ceph as cephs
from nova.tests import long_runs
from nova.tests.support import libvirt as base
from nova.tests.support import libvirt_shares as shares
from nova.virt import driver as contract
from nova.virt import virtiofsd

pytestmark = [base.pytestmark, long_runs.only]     # test_libvirt_shares has NFS, unit/test_virtiofsd the keeper
state_path, rig, instance = base.state_path, base.rig, base.instance
PROGRAM = '#!/bin/sh\nexec {python} -P -m nova.virt.virtiofsd "$@"\n'
PATH = '/volumes/_nogroup/one'


@pytest.fixture(scope='module')
def ceph(tmp_path_factory):
    why = cephs.missing(files=True) or (None if shutil.which('ceph-fuse') else 'ceph-fuse is not installed')
    if why or not os.path.exists('/dev/fuse'):
        pytest.skip(why or 'the kernel has no FUSE')
    directory = pathlib.Path('/tmp') / f'nova-ceph-{uuid.uuid4().hex[:8]}'
    made = cephs.Ceph(directory, files=True)
    yield made
    made.stop()
    shutil.rmtree(directory)


@pytest.fixture(scope='module')
def module_rig(state_path, ceph):
    try:
        virtiofsd.server()
    except ValueError as missing:
        pytest.skip(str(missing))
    program = state_path / 'nova-virtiofsd'
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    made = base.Rig(state_path)
    made.driver.stop()
    made.driver = base.make_driver(state_path, made.images, libvirt__virtiofsd_path=str(program))
    made.driver.init_host()
    yield made
    made.driver.stop()


@contextlib.contextmanager
def mounted(ceph, directory):
    """The whole file system, for its administrator."""
    directory.mkdir(exist_ok=True)
    keyring = ceph.directory / 'ceph.client.admin.keyring'
    subprocess.run(['ceph-fuse', '-c', ceph.conf, '-n', 'client.admin', '-k', keyring, directory], check=True,
                   capture_output=True, timeout=60)
    try:
        yield directory
    finally:
        subprocess.run(['umount', directory], check=True)


def access(ceph, name):
    """What Manila makes of a rule: a user of Ceph with rights for this path alone, and its key."""
    done = subprocess.run(
        ['ceph', '-c', ceph.conf, 'auth', 'get-or-create-key', f'client.{name}', 'mon', 'allow r', 'mds',
         f'allow rw path={PATH}', 'osd', 'allow rw tag cephfs data=shares'], check=True, capture_output=True, text=True)
    return {'user': name, 'key': done.stdout.strip()}


def processes(text):
    found = subprocess.run(['pgrep', '-af', text], stdout=subprocess.PIPE, text=True).stdout
    return [line for line in found.splitlines() if 'pgrep' not in line]


def test_a_guest_has_a_share_of_cephfs_until_it_is_detached(rig, instance, ceph, tmp_path):
    with mounted(ceph, tmp_path / 'all') as all_files:
        (all_files / PATH[1:]).mkdir(parents=True)
        (all_files / PATH[1:] / 'from-outside').write_text('seen-by-the-guest\n')
    given = access(ceph, f'nova-{uuid.uuid4()}')
    address, port = ceph.monitor
    found = {'share_id': str(uuid.uuid4()), 'tag': 'data', 'protocol': 'CEPHFS', 'access': given,
             'export_location': f'{address}:{port}:{PATH}'}
    base.spawn(rig, instance)
    rig.driver.power_off(instance)
    with pytest.raises(exception.VirtError, match='no Ceph user'):
        rig.driver.features[contract.Shares].attach_share(None, instance, {**found, 'access': None})
    for _ in range(2):                                               # again after a crash
        rig.driver.features[contract.Shares].attach_share(None, instance, found)
    place = rig.instances / instance.uuid
    key_file, = place.glob('share-*.key')
    assert key_file.read_text() == given['key'] and key_file.stat().st_mode & 0o777 == 0o600
    shares.started(rig, instance)
    shares.answered(rig, instance, 'mkdir -p /m; mount -t virtiofs data /m; cat /m/from-outside; echo',
                    rb'seen-by-the-guest')
    shares.answered(rig, instance, 'echo from-the-$((1))st >/m/inside; umount /m; echo w$((1))ritten', rb'w1ritten')
    server, = processes(f'ceph-fuse.*{given["user"]}')
    assert given['key'] not in server and not processes(given['key'])
    assert 'ceph-fuse' not in pathlib.Path('/proc/mounts').read_text()           # of virtiofsd alone
    rig.driver.power_off(instance)
    base.wait_for(lambda: not processes(f'ceph-fuse.*{given["user"]}'), 30, 'ceph-fuse to end')
    assert not shares.serving(instance)
    rig.driver.features[contract.Shares].detach_share(None, instance, found)
    assert not list(place.glob('share-*'))
    with mounted(ceph, tmp_path / 'all') as all_files:               # also what was in ceph-fuse's memory alone
        assert (all_files / PATH[1:] / 'inside').read_text() == 'from-the-1st\n'
    # with what is no key of Ceph the start ends, and says so
    rig.driver.features[contract.Shares].attach_share(None, instance, {**found,
                                                                       'access': {**given, 'key': 'QUJD' * 10}})
    with pytest.raises(exception.VirtError, match='vhost-user-fs'):
        rig.driver.power_on(None, instance, [])
    rig.driver.destroy(None, instance, [])
    assert rig.leftovers(instance.uuid) == [] and not processes(f'ceph-fuse.*{given["user"]}')
