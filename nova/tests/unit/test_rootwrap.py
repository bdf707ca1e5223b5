"""nova-rootwrap: which commands stand for a privileged step, and that the program does those and no others."""
import base64
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import uuid

import pytest

from nova.cmd import rootwrap as command
from nova.tests.support import libvirt_remote as privileged
from nova.tests.support import passable
from nova.virt.libvirt.privileged import rootwrap

ETC = pathlib.Path(__file__).resolve().parents[3] / 'etc/nova'
UUID = str(uuid.UUID(int=1))
GUESTS = '/i'
DISK = f'{GUESTS}/{UUID}/disk'


def step(line):
    return rootwrap.step(line.split(), ('nova', '107'), GUESTS)


@pytest.mark.parametrize('line, name, values', [
    (f'/usr/bin/qemu-img info --output=json -U -f qcow2 {DISK}', 'qemu_img.info', {}),
    (f'qemu-img create -f qcow2 -o backing_file=/i/_base/x.raw,backing_fmt=raw {DISK} 10G', 'qemu_img.create',
     {'size': 10 << 30, 'backing_file': '/i/_base/x.raw', 'backing_format': 'raw'}),
    (f'qemu-img create -f qcow2 {DISK} 512 -b /i/_base/x.raw -F raw', 'qemu_img.create',
     {'size': 512, 'backing_file': '/i/_base/x.raw', 'backing_format': 'raw'}),
    (f'qemu-img resize -f qcow2 {DISK} 2M', 'qemu_img.resize', {'size': 2 << 20, 'backing_file': None}),
    (f'qemu-img rebase -f qcow2 -b /i/_base/x.raw -F raw {DISK}', 'qemu_img.rebase',
     {'backing_file': '/i/_base/x.raw', 'backing_format': 'raw'}),
    (f'qemu-img convert -f qcow2 -O raw {DISK} {DISK}.swap', 'qemu_img.convert',
     {'target': DISK + '.swap', 'target_format': 'raw', 'backing_file': None}),
])
def test_qemu_img_is_a_step_with_a_format(line, name, values):
    found = {'path': DISK, 'disk_format': 'qcow2', **values}
    assert step(line) == (name, found)


def test_rootwrap_reads_and_shares_files_of_a_guest():
    assert step(f'cat {GUESTS}/{UUID}/console.log') == ('guest.console', {'uuid': UUID})
    assert step(f'chown nova {DISK}') == step(f'chown 107 {DISK}') == ('guest.let_read', {'path': DISK})


@pytest.mark.parametrize('line', [
    'sh -c id', 'cat /etc/shadow', f'cat {GUESTS}/{UUID}/console.log /etc/shadow', f'chown root {DISK}', 'chown nova',
    f'qemu-img info {DISK}', f'qemu-img info -f qcow2 {DISK} {DISK}', f'qemu-img check -f qcow2 {DISK}', 'qemu-img',
    f'qemu-img create -f qcow2 -o encryption=on {DISK} 1G', f'qemu-img create -f qcow2 {DISK} -1',
    f'qemu-img convert -f qcow2 -O raw -n {DISK} {DISK}'])
def test_command_that_matches_no_allowed_step_is_refused(line):
    with pytest.raises(ValueError, match=r'\.\Z'):
        step(line)


@pytest.fixture
def place():
    """(configuration of nova-rootwrap, directory of the guests)"""
    with passable.directory() as made:
        guests = made / 'instances'
        guests.mkdir(mode=0o711)
        (guests / UUID).mkdir(mode=0o711)
        nobody = pwd.getpwnam('nobody')
        os.chown(guests / UUID, nobody.pw_uid, nobody.pw_gid)
        shutil.copytree(ETC / 'rootwrap.d', made / 'rootwrap.d')
        (made / 'nova.conf').write_text(f'[DEFAULT]\nstate_path = {made}\n')
        (made / 'rootwrap.conf').write_text(
            f'[DEFAULT]\nfilters_path = {made}/rootwrap.d\nconfig_file = {made}/nova.conf\n')
        for path in [made / 'rootwrap.conf', *(made / 'rootwrap.d').iterdir(), made / 'rootwrap.d']:
            path.chmod(path.stat().st_mode & ~0o022)
        yield made / 'rootwrap.conf', guests


@privileged.pytestmark
def test_the_program_does_steps_as_root_and_nothing_else(place):
    conf, guests = place
    disk, log = guests / UUID / 'disk', guests / UUID / 'console.log'
    log.write_text('said by the guest')
    log.chmod(0o600)

    def call(*words):
        return subprocess.run([sys.executable, '-m', 'nova.cmd.rootwrap', conf, *words], capture_output=True, text=True,
                              env={**os.environ, 'SUDO_UID': str(pwd.getpwnam('nobody').pw_uid)})
    made = call('qemu-img', 'create', '-f', 'qcow2', disk, '3M')
    assert made.returncode == 0, made.stderr
    assert disk.stat().st_uid == pwd.getpwnam('nobody').pw_uid
    assert json.loads(call('qemu-img', 'info', '-f', 'qcow2', disk).stdout)['virtual-size'] == 3 << 20
    assert call('cat', log).stdout == 'said by the guest'
    for words, code in ((['sh', '-c', 'id'], command.REFUSED), (['cat', '/etc/shadow'], command.REFUSED),
                        (['qemu-img', 'info', '-f', 'raw', '/etc/shadow'], command.REFUSED),
                        (['qemu-img', 'info', '-f', 'qcow2', disk.with_name('disk.eph0')], command.FAILED)):
        found = call(*words)
        assert (found.returncode, found.stdout) == (code, '') and 'nova-rootwrap: ' in found.stderr, words


@privileged.pytestmark
def test_filters_close_commands_and_are_roots_alone(place, capsys):
    conf, _guests = place
    filters = conf.parent / 'rootwrap.d' / 'compute.filters'
    assert command.allowed(str(conf)) == set(rootwrap.COMMANDS)
    filters.write_text('[Filters]\ncat: CommandFilter, /bin/cat, root\n')
    assert command.allowed(str(conf)) == {'cat'}
    assert command.main([str(conf), 'chown', 'nova', DISK]) == command.REFUSED
    filters.write_text('[Filters]\nkill: KillFilter, root, /usr/bin/x, -9\n')
    assert command.main([str(conf), 'cat', DISK]) == command.BAD_CONFIG
    filters.chmod(0o666)
    assert command.main([str(conf), 'cat', DISK]) == command.BAD_CONFIG
    assert command.main([str(conf)]) == command.main([]) == command.NO_COMMAND
    assert 'must not be writable by others' in capsys.readouterr().err


def test_an_unknown_option_is_a_wrong_command_line(capsys):
    """It was a missing command, 98."""
    assert command.main(['--unknown', 'cat']) == 2
    assert capsys.readouterr().err == (
        'nova-rootwrap: unrecognized arguments: --unknown; usage: nova-rootwrap CONFIG COMMAND [WORD...]\n')


def test_a_console_is_what_the_guest_printed(capsysbinary):
    command._show('guest.console', base64.b64encode(b'\xff\x00').decode())
    assert capsysbinary.readouterr().out == b'\xff\x00'
