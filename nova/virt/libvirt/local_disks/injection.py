"""Injection of users' files into the file system of a new disk with guestfish. Disabled by default.

The host never mounts an untrusted file system: libguestfs starts a small virtual machine that mounts the disk and
receives the files (https://libguestfs.org/guestfs-security.1.html). A timeout ends guestfish and all its children.
"""
import ipaddress
import logging
import os
import posixpath
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.objects.network_info import Subnet
from nova.objects.network_info import Vif
from nova.virt.driver import SpawnRequest
from nova.virt.libvirt import xml

LOG = logging.getLogger(__name__)

OFF, FIND, WHOLE = -2, -1, 0             # [libvirt] inject_partition
INJECT_S = 600                           # timeout: without KVM, libguestfs takes long to build and boot its appliance
OPERATION = 'write files into the disk'
MODE, NETWORK_MODE = '0440', '0644'


def prepare(partition: int, network: bool = False) -> None:
    """Check the options and tools of the injection.

    :param network: whether guests' network configuration is written too
    :raises VirtError: injection is enabled and a tool is missing
    """
    if network and partition == OFF:
        raise _error('[libvirt] inject_network needs inject_partition')
    if partition != OFF and not shutil.which('guestfish'):
        raise _error('guestfish is not installed (Debian: libguestfs-tools and a kernel, linux-image-amd64)')


def inject(options: ConfigOpts.GroupAttr, disks: Sequence[xml.Disk], request: SpawnRequest) -> None:
    """Write users' files and the network configuration into the root disk of a server without a config drive.

    :raises VirtError: there are files to write, but this host does not inject files
    """
    if request.config_drive is not None:
        return
    possible = options.inject_partition != OFF and bool(disks and request.image)
    if request.injected_files and not possible:
        raise exception.VirtError(operation=OPERATION, reason=(
            '[libvirt] inject_partition of this host is -2, or the server boots from a volume; use a config '
            'drive instead'))
    network = interfaces_text(request.network_info) if options.inject_network and possible else None
    if request.injected_files or network is not None:
        write(disks[0], request.injected_files, options.inject_partition, network)


def write(disk: xml.Disk, files: Sequence[tuple[str, bytes]], partition: int, interfaces: str | None = None) -> None:
    """Write files into an unused disk, owned by root; an existing file is renamed to ``NAME.bak.TIME``.

    :param files: [(path, bytes)]
    :param partition: number of the root partition; FIND: the first with an OS; WHOLE: the disk is one file system
    :param interfaces: content of INTERFACES_PATH; None: do not write it. Without ``files``, failures are only
        logged
    :raises VirtError: the disk is not a file, is encrypted, or lacks the partition or a known file system
    """
    try:
        if disk.secret or disk.source:
            raise _error('the disk is encrypted, or in a pool of Ceph')
        with tempfile.TemporaryDirectory(prefix='nova-inject-') as place:
            network = None if interfaces is None else os.path.join(place, 'interfaces')
            if network is not None:
                with open(network, 'w') as file:
                    file.write(interfaces or '')
            _run(command(disk, _local(place, files), partition, f'{time.time():.4f}', network), place)
    except exception.VirtError as error:
        if files:
            raise
        LOG.warning('The network of a guest is not configured in %s: %s', disk.file, error.message)


def command(disk: xml.Disk, files: Sequence[tuple[str, str]], partition: int, stamp: str,
            interfaces: str | None = None) -> list[str]:
    """Return the arguments of guestfish, which ignores failures of commands that begin with "-".

    :param files: [(path in the guest, path here)]
    :param stamp: seconds since 1970, for the name of the old file
    :param interfaces: path on this host of the new INTERFACES_PATH
    """
    words = ['guestfish', '--rw', f'--format={disk.format}', '-a', disk.file]
    words += ['-i'] if partition == FIND else ['-m', f'/dev/sda{partition or ""}']
    steps: list[list[str]] = []
    if interfaces is not None:
        steps += _placed(INTERFACES_PATH, interfaces, stamp, NETWORK_MODE, '-')
    for path, here in files:
        target = posixpath.normpath('/' + path.lstrip('/'))
        steps += [['mkdir-p', posixpath.dirname(target)], *_placed(target, here, stamp, MODE, '')]
    words += ['--', *steps[0]]
    for step in steps[1:]:
        words += [':', *step]
    return words


def _placed(target: str, here: str, stamp: str, mode: str, may_fail: str) -> list[list[str]]:
    """Return the guestfish commands that back up an existing file and write a new file, owned by root."""
    return [['-mv', target, f'{target}.bak.{stamp}'], [f'{may_fail}upload', here, target],
            [f'{may_fail}chown', '0', '0', target], [f'{may_fail}chmod', mode, target]]


def _local(place: str, files: Sequence[tuple[str, bytes]]) -> list[tuple[str, str]]:
    found = []
    for number, (path, data) in enumerate(files):
        found.append((path, os.path.join(place, str(number))))
        with open(found[-1][1], 'wb') as file:
            file.write(data)
    return found


def _run(words: list[str], place: str) -> None:
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               cwd=place, env={**os.environ, 'LIBGUESTFS_BACKEND': 'direct'}, start_new_session=True)
    try:
        errors = process.communicate(timeout=INJECT_S)[1]
    except subprocess.TimeoutExpired:
        raise _error(f'it took more than {INJECT_S} seconds') from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        lines = errors.decode(errors='replace').strip().splitlines()
        raise _error(lines[0][:200] if lines else f'guestfish ended with {process.returncode}')


def _error(reason: str) -> exception.VirtError:
    return exception.VirtError(operation=OPERATION, reason=reason)


INTERFACES_PATH = '/etc/network/interfaces'
INTERFACES_HEADER = ('# Written when this server was made; nothing keeps it up to date.\n\n'
                     'auto lo\niface lo inet loopback\n')
_FAMILY = {4: 'inet', 6: 'inet6'}


def interfaces_text(network_info: list[Vif]) -> str:
    """Return a guest's /etc/network/interfaces with the current addresses, for ifupdown.

    https://manpages.debian.org/bookworm/ifupdown/interfaces.5.en.html describes the file.

    :param network_info: VIFs (nova/objects/network_info.py), named eth0, eth1, … in the guest
    """
    return INTERFACES_HEADER + ''.join(_interface(f'eth{number}', vif) for number, vif in enumerate(network_info))


def _interface(name: str, vif: Vif) -> str:
    stanzas = [_stanza(name, subnet, ip['address']) for subnet in vif['network']['subnets'] for ip in subnet['ips']]
    return f'\nauto {name}\n' + ''.join(stanzas or [f'iface {name} inet manual\n'])


def _stanza(name: str, subnet: Subnet, address: str) -> str:
    family = _FAMILY[subnet['version']]
    if not subnet.get('cidr'):
        return f'iface {name} {family} dhcp\n'
    cidr = ipaddress.ip_network(subnet['cidr'])
    lines = [f'iface {name} {family} static', f'    address {ipaddress.ip_address(address)}',
             f'    netmask {cidr.netmask if cidr.version == 4 else cidr.prefixlen}']
    if gateway := subnet.get('gateway'):
        lines.append(f'    gateway {ipaddress.ip_address(gateway)}')
    servers = ' '.join(str(ipaddress.ip_address(server)) for server in subnet.get('dns') or ())
    if servers:
        lines.append(f'    dns-nameservers {servers}')
    for route in subnet.get('routes') or ():
        target, hop = ipaddress.ip_network(route['destination']), ipaddress.ip_address(route['nexthop'])
        lines.append(f'    up ip route add {target} via {hop} dev {name}')
    return '\n'.join(lines) + '\n'
