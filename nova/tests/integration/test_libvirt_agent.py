"""What QEMU's agent does in real guests; the same needs as test_libvirt.py."""
import re
import subprocess
import time

import pytest

from nova import exception
from nova import states
from nova.tests import long_runs
from nova.tests.support import libvirt as base
from nova.virt import driver as contract

pytestmark = base.pytestmark
state_path, module_rig, rig, instance = base.state_path, base.module_rig, base.rig, base.instance
WITH_AGENT = {'hw_qemu_guest_agent': 'yes'}


def spawn(rig, instance, **properties):
    """A guest with an agent whose system is up."""
    instance.image_properties = {**WITH_AGENT, **properties}
    base.spawn(rig, instance, image={**rig.image, 'properties': instance.image_properties})
    rig.booted(instance)


def answered(rig, instance, line, pattern):
    """What the guest answers to a line typed at its console."""
    rig.type(instance, line)
    return base.wait_for(lambda: re.search(pattern, rig.console(instance)), base.BOOT_SECONDS, f'{pattern!r}')[1]


def test_the_password_is_the_guests_and_its_addresses_are_known(rig, instance):
    spawn(rig, instance)
    rig.driver.features[contract.Password].set_admin_password(instance, 'my secret')
    found = answered(rig, instance, 'cat /etc/passwd', rb'root:(\$[^:]+):').decode()
    salt = re.fullmatch(r'\$6\$([^$]+)\$[^$]+', found)[1]
    assert [subprocess.run(['openssl', 'passwd', '-6', '-salt', salt, secret], check=True, capture_output=True,
                           text=True).stdout.strip() == found for secret in ('my secret', 'another')] == [True, False]
    vif = rig.vif()
    rig.driver.features[contract.Interfaces].attach_interface(None, instance, vif)
    answered(rig, instance, 'sleep 2; ip link set eth0 up; ip addr add 192.0.2.77/24 dev eth0; echo a$((1))dded',
             rb'(a1dded)')
    shown, = rig.driver.features[contract.Diagnostics].diagnostics(instance)['guest_interfaces']
    assert (shown['name'], shown['mac_address']) == ('eth0', vif['address']) and '192.0.2.77/24' in shown['addresses']


@pytest.mark.parametrize('operation', ['quiesce', 'password'])
def test_a_guest_without_an_agent_says_what_it_lacks(rig, instance, operation):
    base.spawn(rig, instance)
    with pytest.raises(exception.VirtError, match='hw_qemu_guest_agent=yes'):
        if operation == 'quiesce':
            rig.driver.features[contract.Quiesce].quiesce(instance)
        else:
            rig.driver.features[contract.Password].set_admin_password(instance, 'x')


def test_an_agent_that_does_not_answer_is_no_hang(rig, instance, monkeypatch):
    monkeypatch.setattr('nova.virt.libvirt.features.agent.AGENT_SECONDS', 2)
    instance.image_properties = {**WITH_AGENT, 'os_require_quiesce': 'yes'}
    base.spawn(rig, instance, image={**rig.image, 'properties': instance.image_properties})
    rig.driver.features[contract.Pause].pause(instance)
    began = time.monotonic()
    with pytest.raises(exception.VirtError, match='is paused'):
        rig.driver.features[contract.Password].set_admin_password(instance, 'x')
    with pytest.raises(exception.VirtError, match='is paused'):
        rig.driver.features[contract.Snapshot].snapshot(None, instance, 'refused', lambda step: None)
    assert 'refused' not in rig.uploads
    rig.driver.features[contract.Pause].unpause(instance)                     # its system has not started its agent yet
    with pytest.raises(exception.VirtError, match='does not answer|not connected'):
        rig.driver.features[contract.Password].set_admin_password(instance, 'x')
    assert rig.driver.power_state(instance) == states.RUNNING and time.monotonic() - began < 30


@long_runs.only
def test_a_guest_at_rest_writes_nothing_until_it_goes_on(rig, instance):
    spawn(rig, instance)
    rig.driver.features[contract.Quiesce].quiesce(instance)
    rig.type(instance, '(touch /root/file; echo written-$((40 + 2))) &')         # the shell itself writes nothing
    time.sleep(3)
    assert b'written-42' not in rig.console(instance)
    rig.driver.features[contract.Quiesce].unquiesce(instance)
    base.wait_for(lambda: b'written-42' in rig.console(instance), base.BOOT_SECONDS, 'the file')


@long_runs.only
def test_a_guest_that_a_crash_left_at_rest_goes_on(rig, instance, state_path):
    spawn(rig, instance)
    rig.driver.features[contract.Quiesce].quiesce(instance)
    other = base.make_driver(state_path, rig.images)
    other.init_host()
    other.stop()
    rig.type(instance, 'touch /root/file; echo written-$((40 + 2))')
    base.wait_for(lambda: b'written-42' in rig.console(instance), base.BOOT_SECONDS, 'the file')


@long_runs.only
def test_a_snapshot_has_what_was_not_written_out_yet(rig, instance, tmp_path):
    spawn(rig, instance, os_require_quiesce='yes')
    answered(rig, instance, 'echo only-in-memory-$((40 + 2)) >/root/file; echo d$((1))ne', rb'(d1ne)')
    rig.driver.features[contract.Snapshot].snapshot(None, instance, 'quiet', lambda step: None)
    file = tmp_path / 'snapshot'
    file.write_bytes(rig.uploads['quiet'][0])
    subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', file, tmp_path / 'raw'], check=True)
    assert subprocess.run(['grep', '-aq', 'only-in-memory-42', tmp_path / 'raw']).returncode == 0
    answered(rig, instance, 'touch /root/other; echo a$((1))ive', rb'(a1ive)')


def test_a_required_rest_that_is_not_to_be_had_ends_the_snapshot(rig, instance):
    instance.image_properties = {'os_require_quiesce': 'yes'}
    base.spawn(rig, instance)
    with pytest.raises(exception.VirtError, match='hw_qemu_guest_agent=yes'):
        rig.driver.features[contract.Snapshot].snapshot(None, instance, 'never', lambda step: None)
    assert 'never' not in rig.uploads and rig.driver.power_state(instance) == states.RUNNING
    rig.driver.power_off(instance)
    rig.driver.features[contract.Snapshot].snapshot(None, instance, 'off', lambda step: None)            # it is at rest
    assert 'off' in rig.uploads


@long_runs.only
def test_a_resumed_guest_knows_the_time(rig, instance):
    spawn(rig, instance)
    answered(rig, instance, 'date -s @1000000000; echo s$((1))t', rb'(s1t)')
    rig.driver.features[contract.Suspend].suspend(instance)
    rig.driver.features[contract.Suspend].resume(None, instance, [])
    found = int(answered(rig, instance, 'echo now $(date +%s)', rb'now (\d+)'))
    assert abs(found - time.time()) < 60
