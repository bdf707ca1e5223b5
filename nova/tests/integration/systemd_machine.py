"""A machine of its own for a test: a living systemd in a container over a copy-on-write view of these files."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import pytest

START_S = 240                # on a busy machine
TREE = pathlib.Path(__file__).resolve().parents[3]
NAME = 'nova-test-machine'
# What the units may not see in a home directory (ProtectHome) stands in /opt, where an operator would install it.
PYTHON, PACKAGES, SOURCE = '/opt/nova/python', '/opt/nova/packages', '/opt/nova/source'
PROGRAM = f'''#!/bin/sh
export PYTHONHOME={PYTHON} LD_LIBRARY_PATH={PYTHON}/lib PYTHONPATH={SOURCE}:{PACKAGES}
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
exec {PYTHON}/bin/python3 -S {{what}} "$@"
'''
ENVIRONMENT = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root',
               'LANG': 'C.UTF-8'}


class Machine:
    """``root`` is where its files are seen from outside."""

    def __init__(self, root, leader):
        self.root, self.leader = root, leader

    def run(self, *command, check=True, seconds=600, env=None):
        """A command of the machine's root; what it prints.

        :raises AssertionError: it failed, and ``check``
        """
        done = subprocess.run(self._entered(command), capture_output=True, text=True, timeout=seconds,
                              stdin=subprocess.DEVNULL, env=ENVIRONMENT | (env or {}))
        assert not check or done.returncode == 0, f'{command}: {done.stdout[-2000:]}{done.stderr[-3000:]}'
        return done.stdout

    def popen(self, *command, env=None):
        """The same, begun; a Popen whose output is dropped."""
        return subprocess.Popen(self._entered(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=ENVIRONMENT | (env or {}))

    def _entered(self, command):
        return ['nsenter', '--target', str(self.leader), '--mount', '--uts', '--ipc', '--net', '--pid', '--', *command]

    def write(self, path, text, mode=0o644):
        file = self.root / path.lstrip('/')
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def kill(self):
        """End every process of it at once."""
        os.kill(self.leader, signal.SIGKILL)

    def property(self, unit, name):
        return self.run('systemctl', 'show', '--value', '--property', name, unit).strip()

    def log(self, unit):
        """The end of a unit's journal."""
        return self.run('journalctl', '--no-pager', '--lines=80', '--unit', unit, check=False)


def _needed():
    for command in ('systemd-nspawn', 'nsenter', 'systemctl'):
        if not shutil.which(command):
            pytest.skip(f'{command} is not installed')
    if os.geteuid():
        pytest.skip('a container needs root')


@contextlib.contextmanager
def machine(directory):
    """A Machine that has booted, with the programs of this tree in /usr/local/bin.

    :param directory: Path of an empty directory that is not on an overlay itself
    """
    _needed()
    root, upper, work = (directory / name for name in ('root', 'upper', 'work'))
    for place in (root, upper, work):
        place.mkdir()
    with contextlib.ExitStack() as stack:
        mounted = subprocess.run(['mount', '-t', 'overlay', 'overlay', '-o',
                                  f'lowerdir=/,upperdir={upper},workdir={work}', root], capture_output=True, text=True)
        if mounted.returncode:
            pytest.skip(f'no overlay can be made here: {mounted.stderr.strip()}')
        stack.callback(subprocess.run, ['umount', root], check=True)
        shutil.rmtree(root / 'var/log/journal', ignore_errors=True)
        (root / 'etc/hosts').write_text(f'127.0.0.1 localhost {NAME}\n')
        (root / 'etc/hostname').write_text(f'{NAME}\n')
        (root / 'etc/machine-id').write_text('')
        # the container's control groups are the host's, and not its own to part
        with open(root / 'etc/libvirt/qemu.conf', 'a') as file:
            file.write('cgroup_controllers = []\n')
        _programs(root)
        output = stack.enter_context(open(directory / 'console', 'wb'))
        base = pathlib.Path(sys.executable).resolve().parents[1]
        container = subprocess.Popen(
            ['systemd-nspawn', '--quiet', f'--directory={root}', '--boot', '--register=no', '--keep-unit',
             '--private-network', f'--machine={NAME}', '--capability=CAP_NET_ADMIN', '--bind=/dev/net/tun',
             f'--bind-ro={base}:{PYTHON}', f'--bind-ro={TREE}:{SOURCE}',
             f'--bind-ro={sysconfig.get_path("purelib")}:{PACKAGES}', '--', 'systemd.unit=basic.target'],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        stack.callback(_end, container)
        made = Machine(root, leader(container, directory / 'console'))
        deadline = time.monotonic() + START_S
        while made.run('systemctl', 'is-active', 'basic.target', check=False).strip() != 'active':
            assert time.monotonic() < deadline, (directory / 'console').read_text(errors='replace')[-3000:]
            time.sleep(0.2)
        yield made


def _programs(root):
    entries = (TREE / 'setup.cfg').read_text().partition('console_scripts =')[2].partition('\n\n')[0]
    rows = [line.strip().split(' = ') for line in entries.splitlines() if ' = nova.cmd' in line]
    for name, target in [*rows, ('openstack', None)]:
        what = '-m openstackclient.shell'
        if target:
            module, function = target.split(':')
            what = f"-c 'import sys; from {module} import {function}; sys.exit({function}())'"
        program = root / 'usr/local/bin' / name
        program.unlink(missing_ok=True)
        program.write_text(PROGRAM.format(what=what))
        program.chmod(0o755)


def leader(container, console):
    """The process that is 1 in the container, once it is there."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert container.poll() is None, console.read_text(errors='replace')[-3000:]
        children = pathlib.Path(f'/proc/{container.pid}/task/{container.pid}/children').read_text().split()
        for child in children:
            with contextlib.suppress(OSError):
                if pathlib.Path(f'/proc/{child}/comm').read_text() in ('systemd\n', 'init\n'):
                    return int(child)
        time.sleep(0.1)
    raise AssertionError(console.read_text(errors='replace')[-3000:])


def _end(container):
    container.terminate()
    try:
        container.wait(30)
    except subprocess.TimeoutExpired:
        container.kill()
        container.wait()
