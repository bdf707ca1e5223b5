"""A libvirt that stands still, and parts of a host that are installed while nova-compute runs.

The needs of test_libvirt.py but for its libvirtd: the host has one of its own.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from nova import exception
from nova import states
from nova.tests.integration import moving
from nova.tests.support import libvirt as base
from nova.virt.libvirt import host as hypervisor

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not (base.GUEST / 'guest.qcow2').exists(),
                                reason='needs root, and the guest image that NOVA_TEST_GUEST_DIR names')
HOST = 'compute1'
PARTS = {'/usr/share/qemu/firmware': {'COMPUTE_FIRMWARE_UEFI', 'COMPUTE_SECURITY_UEFI_SECURE_BOOT'},
         '/usr/bin/swtpm': {'COMPUTE_SECURITY_TPM_2_0', 'COMPUTE_SECURITY_TPM_CRB', 'COMPUTE_SECURITY_TPM_TIS'}}


@pytest.fixture(scope='module')
def fleet():
    with moving.hosts(1, drivers=False) as made:
        yield made


@pytest.fixture(scope='module')
def libvirtd(fleet):
    """Pid of the host's libvirtd: its mounts are below the fleet's directory."""
    found = [int(pid) for pid in subprocess.check_output(['pgrep', '-x', 'libvirtd'], text=True).split()
             if fleet.directory.name in pathlib.Path(f'/proc/{pid}/mountinfo').read_text()]
    assert len(found) == 1
    return found[0]


def test_firmware_and_tpm_that_are_installed_later_are_found_without_a_restart(fleet, libvirtd):
    empty = tempfile.mkdtemp(dir='/var/tmp')
    hidden = []

    def inside(*command):
        subprocess.check_call(['nsenter', '-t', str(libvirtd), '-m', *command])
    try:
        for path in PARTS:
            inside('mount', '--bind', empty if os.path.isdir(path) else '/dev/null', path)
            hidden.append(path)
        driver = fleet.make_driver(HOST)
        traits = set().union(*PARTS.values())
        assert not traits & set(driver.guest_traits())
        while hidden:
            inside('umount', hidden.pop())
        driver.resources()                                   # the next report of the host
        assert traits <= set(driver.guest_traits())
    finally:
        while hidden:
            inside('umount', hidden.pop())
        shutil.rmtree(empty)


def test_a_libvirt_that_stands_still_is_reported_and_changes_no_guest(fleet, libvirtd, monkeypatch):
    monkeypatch.setattr(hypervisor, 'RESTARTS_S', 5)
    driver = fleet.drivers.get(HOST) or fleet.make_driver(HOST)
    reports = []
    driver.watch_hypervisor(reports.append)
    instance = fleet.spawn(HOST)
    fleet.booted(HOST, instance)
    try:
        os.kill(libvirtd, signal.SIGSTOP)
        base.wait_for(lambda: reports, 90, 'the report that libvirt does not answer')
        assert len(reports) == 1 and 'libvirt does not answer' in reports[0]
        with pytest.raises(exception.HypervisorUnreachable):
            driver.reboot(None, instance, [], hard=True)
        with pytest.raises(exception.HypervisorUnreachable):
            driver.destroy(None, instance, [])
    finally:
        os.kill(libvirtd, signal.SIGCONT)
    base.wait_for(lambda: reports[1:] == [''], 90, 'the report that libvirt answers')
    assert driver.guests() == {instance.uuid: states.RUNNING}
    fleet.type(HOST, instance, 'echo still-$((40 + 2))', 'still-42')          # the same guest, not another boot
    driver.destroy(None, instance, [])
    assert driver.guests() == {}
