"""Blank machines of Debian's releases for a test: systemd in a container that reaches package servers."""
import contextlib
import fcntl
import ipaddress
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from nova.tests import long_runs
from nova.tests import plan
from nova.tests.integration import systemd_machine

TREE = pathlib.Path(__file__).resolve().parents[3]
# What a minimal server has besides; the first command of the README installs everything else.
PACKAGES = 'git,python3,ca-certificates,systemd-sysv,dbus'
RELEASES = {'debian-12': 'bookworm', 'debian-13': 'trixie'}
COMMIT_S = int(os.environ.get('NOVA_TEST_COMMIT', '0'))        # its time chooses the part of the list and the release
IN_TURN = sorted(RELEASES) if long_runs.LONG or os.environ.get('NOVA_TEST_TURN') == 'all' else [
    sorted(RELEASES)[COMMIT_S // plan.TURNS % len(RELEASES)]]
CACHE = pathlib.Path(os.environ.get('NOVA_TEST_ROOTS') or '/var/cache/nova-test-roots')
CLONE = '/root/nova'
START_S = 240
AUTHORITIES = 'etc/ssl/certs/ca-certificates.crt'
_CERTIFICATE = re.compile('-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----', re.S)
# The range of benchmarks (RFC 2544) has a /30 for each machine.
WIRES = ipaddress.ip_network('198.18.0.0/16')


def base(release):
    """Return the Path of the release's root; made once, and kept for later runs."""
    root = CACHE / RELEASES[release]
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f'{root.name}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            made = CACHE / f'{root.name}.new'
            shutil.rmtree(made, ignore_errors=True)
            done = subprocess.run(['debootstrap', '--variant=minbase', f'--include={PACKAGES}', root.name, made],
                                  capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f'no root of {release} can be made: {done.stdout[-300:]}{done.stderr[-300:]}')
            _let_reach_packages(made)
            made.rename(root)
    return root


def _let_reach_packages(root):
    """Reach package servers as this machine does: settings of apt and pip, authorities."""
    for file in pathlib.Path('/etc/apt/apt.conf.d').iterdir():
        text, copy = file.read_text(), root / 'etc/apt/apt.conf.d' / file.name
        if 'Acquire::' in text and 'IndexTargets' not in text and not copy.exists():
            shutil.copy(file, copy)
    if os.path.exists('/etc/pip.conf'):
        shutil.copy('/etc/pip.conf', root / 'etc')
    ours, theirs = (set(_CERTIFICATE.findall((place / AUTHORITIES).read_text())) for place in (pathlib.Path('/'), root))
    for number, text in enumerate(sorted(ours - theirs)):
        (root / f'usr/local/share/ca-certificates/test-{number}.crt').write_text(text + '\n')
    # What TMPDIR names may not be there.
    subprocess.run(['chroot', root, 'update-ca-certificates'], check=True, capture_output=True,
                   env={**os.environ, 'TMPDIR': '/tmp'})
    home = pathlib.Path.home() / '.config/pip/pip.conf'
    if home.exists():
        shutil.copytree(home.parent, root / 'root/.config/pip')


class FreshMachine:
    """A machine that can be switched on, used and switched off.

    root     Path where its files are seen from outside
    address  of its device up0
    """

    def __init__(self, root, namespace, address, console):
        self.root, self.address, self._namespace, self._console = root, address, namespace, console
        self._container = self._inside = None

    def power_on(self):
        with open(self._console, 'ab') as output:
            self._container = subprocess.Popen(
                ['systemd-nspawn', '--quiet', f'--directory={self.root}', '--boot', '--register=no', '--keep-unit',
                 f'--network-namespace-path=/run/netns/{self._namespace}', f'--machine={self._namespace}',
                 '--capability=CAP_NET_ADMIN', '--bind=/dev/net/tun', '--', 'systemd.unit=multi-user.target'],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, 'UNIFIED_CGROUP_HIERARCHY': 'yes', 'SYSTEMD_NSPAWN_API_VFS_WRITABLE': 'network'})
        self._inside = systemd_machine.Machine(self.root, systemd_machine.leader(self._container, self._console))
        self.wait(lambda: self.run('systemctl', 'is-system-running', check=False).strip() in ('running', 'degraded'))

    def power_off(self):
        """As an administrator does it: services stop in order, then guests."""
        self.run('systemctl', 'poweroff', check=False)
        try:
            self._container.wait(120)
        except subprocess.TimeoutExpired:
            self.cut_power()
            raise

    def cut_power(self):
        """Every process ends at once."""
        if self._container is not None and self._container.poll() is None:
            self._inside.kill()
            self._container.wait(60)

    def wait(self, condition, seconds=START_S):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self._console.read_text(errors='replace')[-3000:]
            time.sleep(0.2)

    def run(self, *command, **options):
        return self._inside.run(*command, **options)

    @property
    def leader(self):
        """The process outside that is 1 inside."""
        return self._inside.leader

    def popen(self, *command, **options):
        return self._inside.popen(*command, **options)

    def property(self, unit, name):
        return self._inside.property(unit, name)

    def log(self, unit):
        return self._inside.log(unit)


@contextlib.contextmanager
def machine(release, directory):
    """A FreshMachine of this release that is on, with a clone of this tree in CLONE.

    :param directory: Path of an empty directory that is not on an overlay itself
    """
    for command in ('debootstrap', 'systemd-nspawn', 'nsenter', 'nft', 'ip'):
        if not shutil.which(command):
            pytest.skip(f'{command} is not installed')
    if os.geteuid():
        pytest.skip('a container needs root')
    lower = base(release)
    root, upper, work = (directory / name for name in ('root', 'upper', 'work'))
    for place in (root, upper, work):
        place.mkdir()
    namespace = f'nova-{release}-{os.getpid()}'
    with contextlib.ExitStack() as stack:
        _mount(stack, lower, root, upper, work)
        address = stack.enter_context(wired(namespace))
        (root / 'etc/resolv.conf').unlink(missing_ok=True)
        shutil.copy('/etc/resolv.conf', root / 'etc/resolv.conf')
        (root / 'etc/hostname').write_text('fresh\n')
        (root / 'etc/hosts').write_text('127.0.0.1 localhost fresh\n')
        subprocess.run(['git', 'clone', '--quiet', '--no-hardlinks', TREE, root / CLONE.lstrip('/')], check=True)
        made = FreshMachine(root, namespace, address, directory / 'console')
        stack.callback(made.cut_power)
        made.power_on()
        yield made


def _mount(stack, lower, root, upper, work):
    layers = f'lowerdir={lower},upperdir={upper},workdir={work}'
    done = subprocess.run(['mount', '-t', 'overlay', 'overlay', '-o', layers, root], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f'no overlay can be made here: {done.stderr.strip()}')
    stack.callback(subprocess.run, ['umount', '--lazy', root], check=True)


@contextlib.contextmanager
def wired(namespace):
    """A network namespace with a device ``up0`` whose packets leave with this machine's address; the device's own."""
    number = os.getpid() % 16384
    wire = list(ipaddress.ip_network((int(WIRES.network_address) + 4 * number, 30)))
    outer, table = f'fresh{number}', f'nova_fresh_{number}'
    rules = (f'table ip {table} {{ chain post {{ type nat hook postrouting priority srcnat; '
             f'ip saddr {wire[2]} masquerade; }}; }}')
    commands = (
        f'ip netns add {namespace}', f'ip link add {outer} type veth peer name up0 netns {namespace}',
        f'ip address add {wire[1]}/30 dev {outer}', f'ip link set {outer} up',
        f'ip -n {namespace} link set lo up', f'ip -n {namespace} address add {wire[2]}/30 dev up0',
        f'ip -n {namespace} link set up0 up', f'ip -n {namespace} route add default via {wire[1]}')
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        subprocess.run(['nft', rules], check=True)
        pathlib.Path('/proc/sys/net/ipv4/ip_forward').write_text('1')
        yield str(wire[2])
    finally:
        for command in (f'ip link delete {outer}', f'ip netns delete {namespace}', f'nft delete table ip {table}'):
            subprocess.run(command.split(), check=False)
