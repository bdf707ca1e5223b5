"""What guests need does not depend on the umask and the TMPDIR of who starts libvirt and nova-compute.

The needs of test_libvirt.py but for its libvirtd: the host has one of its own.
"""
import os
import tempfile

import pytest

from nova import states
from nova.tests.integration import moving
from nova.tests.support import libvirt as base
from nova.virt import driver

pytestmark = moving.needed
HOST = 'compute1'


@pytest.mark.parametrize('umask', [0o077, 0o022])
def test_a_guest_with_a_tpm_runs_and_its_disk_is_copied(umask, tmp_path, monkeypatch):
    tempfile.gettempdir()                    # what the test itself makes goes on where it was
    monkeypatch.setenv('TMPDIR', str(tmp_path))              # 0700: swtpm_setup runs as another user
    before = os.umask(umask)
    try:
        with moving.hosts(1) as made:
            found = made.drivers[HOST]
            if 'COMPUTE_SECURITY_TPM_2_0' not in found.guest_traits():
                pytest.skip('swtpm is not installed')
            instance = base.make_instance(memory_mb=96)
            instance.flavor = {'name': 'f', 'swap': 0, 'vcpus': 1, 'memory_mb': 96,
                               'extra_specs': {'hw:tpm_version': '2.0'}}
            found.spawn(None, instance, driver.SpawnRequest(image=made.images.show(None, base.DISK_ID),
                                                            network_info=[]))
            assert found.power_state(instance) == states.RUNNING
            found.power_off(instance)
            found.features[driver.Snapshot].snapshot(None, instance, 'copy', lambda state: None)
            assert made.images.uploads['copy'][0].startswith(b'QFI')
            found.destroy(None, instance, [])
    finally:
        os.umask(before)
