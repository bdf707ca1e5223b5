"""Debian guests of tools/debian-guest.sh on real libvirt: cloud-init sets a key and grows the disk, the agent answers.

Needs what test_libvirt.py does, and what the script needs. NOVA_TEST_DEBIAN_GUEST_DIR names a directory that keeps the
images between runs.
"""
import json
import os
import pathlib
import re
import subprocess

import pytest

from nova.cmd.manage import main as manage
from nova.tests import long_runs
from nova.tests.functional import cloud as clouds
from nova.tests.support import libvirt as base
from nova.virt import driver as contract

pytestmark = [base.pytestmark, long_runs.only]
state_path, module_rig, rig, instance = base.state_path, base.module_rig, base.rig, base.instance
TREE = pathlib.Path(__file__).parents[3]
IMAGE_ID = '00000000-0000-0000-0000-00000000000d'
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm2xwBDwNhQv3aQdkbkEXZkG4YB8gkH1eJ3t0nqJwqe someone'
# What the guest says on its console at the end of its first boot.
SAYS = ('size=$(df --output=size -BM / | tail -n 1 | tr -d " M"); '
        'key=$(cut -d " " -f 2 /home/debian/.ssh/authorized_keys); '
        'echo "guest says: root $size MiB, key $key, ssh $(systemctl is-active ssh), host $(hostname)" >/dev/ttyS0')
BOOT_SECONDS = 1800                      # emulated, on a busy machine


@pytest.fixture(scope='module', params=['bookworm', 'trixie'])
def image(request, tmp_path_factory):
    directory = os.environ.get('NOVA_TEST_DEBIAN_GUEST_DIR') or tmp_path_factory.mktemp('debian')
    made = subprocess.run([TREE / 'tools' / 'debian-guest.sh', '--suite', request.param, directory], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if 'is missing; install' in made.stdout or 'install: apt-get' in made.stdout:
        pytest.skip(made.stdout.strip())
    assert made.returncode == 0, made.stdout
    return pathlib.Path(directory) / f'debian-{request.param}.qcow2'


@pytest.mark.parametrize('firmware', ['bios', 'uefi'])
def test_cloud_init_sets_the_key_and_grows_the_disk(rig, instance, image, firmware, monkeypatch):
    monkeypatch.setitem(rig.images.rows, IMAGE_ID, ('qcow2', image))
    properties = {'hw_qemu_guest_agent': 'yes', 'hw_firmware_type': firmware}
    instance.image_properties, instance.memory_mb, instance.root_gb = properties, 768, 5
    base.spawn(rig, instance, image={**rig.images.show(None, IMAGE_ID), 'properties': properties}, config_drive={
        'openstack/latest/meta_data.json': json.dumps({
            'uuid': instance.uuid, 'name': 'grown', 'hostname': 'grown', 'public_keys': {'mine': KEY}}).encode(),
        'openstack/latest/user_data': ('#cloud-config\n' + json.dumps({'runcmd': [['sh', '-c', SAYS]]})).encode()})
    said = base.wait_for(lambda: re.search(
        rb'guest says: root (\d+) MiB, key (\S*), ssh (\S+), host (\S+)', rig.console(instance)), BOOT_SECONDS,
        'cloud-init to end')
    size, key, ssh, host = (word.decode() for word in said.groups())
    assert 4500 < int(size) < 5120 and key == KEY.split()[1] and (ssh, host) == ('active', 'grown')
    rig.driver.features[contract.Quiesce].quiesce(instance)       # QEMU's guest agent freezes the file systems
    rig.driver.features[contract.Quiesce].unquiesce(instance)


def test_a_rescue_with_the_same_image_runs_from_the_rescue_disk(rig, instance, image, monkeypatch):
    """Both disks have the same UUIDs; with UEFI the guest started its own root."""
    monkeypatch.setitem(rig.images.rows, IMAGE_ID, ('qcow2', image))
    properties = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}
    chosen = {**rig.images.show(None, IMAGE_ID), 'properties': properties}
    instance.image_properties, instance.memory_mb, instance.root_gb, instance.image_id = properties, 768, 5, IMAGE_ID
    base.spawn(rig, instance, image=chosen)
    rig.driver.power_off(instance)
    rig.driver.features[contract.Rescue].rescue(None, instance, [], chosen, 'x', [])
    base.wait_for(lambda: b' vdb: vdb1' in rig.console(instance), BOOT_SECONDS, 'the rescue system to see its disks')
    before, _seen, after = rig.console(instance).partition(b'[vdb] ')
    # the rescue disk, and long before; systemd may write into the line of a later mount
    assert re.search(rb'EXT4-fs \(vda\d\): (re-)?mounted', before), before[-4000:]
    assert not re.search(rb'EXT4-fs \(vdb', after)


def test_prepare_finds_out_what_suits_it(image, tmp_path, capsys):
    with clouds.running(tmp_path / 'state') as cloud:
        assert manage.main(['image', 'prepare', str(image), '--state-path', str(cloud.state_path)]) == 0
        assert 'It boots with BIOS and UEFI' in capsys.readouterr().out
        found, = cloud.client().get('/image/v2/images').json()['images']
    expected = {'hw_firmware_type': 'bios', 'hw_qemu_guest_agent': 'yes', 'architecture': 'x86_64', 'min_disk': 2}
    assert {name: found.get(name) for name in expected} == expected
