"""Computes with guests of QEMU. Each is a separate host with a separate libvirt.

A host has a network namespace, as every compute of the fleet. It has its own directories in place of the paths that are
compiled into libvirt: tools/cluster/host.sh mounts them for each process that needs them. Processes outside reach
libvirt by the path of its socket.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time
import uuid

from cluster import settings
from cluster.processes import run

PLACES = ('run', 'etc', 'lib', 'log', 'cache')
ANSWERS_S, ENDS_S = 20, 10
QEMU_GROUP = 'libvirt-qemu'                # reads the keys for its own connections
# hosts let each other in by certificates of the fleet's own authority
TLS = '''listen_tls = 1
listen_tcp = 0
listen_addr = "{address}"
auth_tls = "none"
ca_file = "{pki}/cacert.pem"
cert_file = "{pki}/servercert.pem"
key_file = "{pki}/serverkey.pem"
'''
# there is no log daemon, and the cgroups of this machine are not its own
QEMU = 'stdio_handler = "file"\ncgroup_controllers = []\n'
# virsh list's choices -> power state
STATES = {'--state-shutoff': 4, '--state-running': 1, '--state-paused': 3, '--with-managed-save': 7, '--state-other': 6}


def directory(name):
    """Return the directory of a compute."""
    return settings.DIRECTORY / 'hosts' / name


def uri(name):
    return f'qemu+unix:///system?socket={directory(name)}/run/libvirt/libvirt-sock'


def in_namespace(name, *command):
    """Return the command prefix that runs a command in the network namespace of a host."""
    return ['unshare', '-m', settings.TREE / 'tools' / 'cluster' / 'host.sh', directory(name), *command]


def prepare(name):
    """Create directories and configuration of a host."""
    for made in (directory(name), *(directory(name) / place for place in PLACES)):
        made.mkdir(parents=True, exist_ok=True)
        made.chmod(0o755)                # users of QEMU and swtpm pass through, whatever the caller's umask is
    ident = uuid.uuid5(uuid.NAMESPACE_URL, str(directory(name)))
    place, address = directory(name) / 'etc', settings.compute_address(int(name.removeprefix('compute')))
    (place / 'libvirtd.conf').write_text(
        f'host_uuid = "{ident}"\nunix_sock_rw_perms = "0700"\nauth_unix_rw = "none"\n' + TLS.format(
            address=address, pki=place / 'pki'))
    (place / 'qemu.conf').write_text(QEMU + f'default_tls_x509_cert_dir = "{place / "pki"}"\n'
                                     'default_tls_x509_verify = 1\n')
    _certificates(name, address, place / 'pki')


def _certificates(name, address, pki):
    """Create the server and client certificates of a host under the file names of libvirt and QEMU."""
    from nova.runtime import certificates
    authority = certificates.Authority(settings.DIRECTORY / 'tls')
    pair = authority.pair(name, [address])
    pki.mkdir(exist_ok=True)
    pki.chmod(0o711)
    for source, kind, names in ((authority.trusted, 'ca', ('cacert.pem', 'ca-cert.pem')),
                                (pair.certificate, 'cert', ('{end}cert.pem', '{end}-cert.pem')),
                                (pair.key, 'key', ('{end}key.pem', '{end}-key.pem'))):
        for end in ('server', 'client') if kind != 'ca' else ('',):
            for each in names:
                made = pki / each.format(end=end)
                shutil.copyfile(source, made)
                made.chmod(0o640 if kind == 'key' else 0o644)
                if kind == 'key':
                    shutil.chown(made, group=QEMU_GROUP)


def migration_uri(name):
    """Return the URI of the libvirt of another host, with %s for its address."""
    return f'qemu+tls://%s/system?pkipath={directory(name)}/etc/pki'


def switched_on(name):
    """Remove the files that do not survive a reboot of a machine."""
    shutil.rmtree(directory(name) / 'run', ignore_errors=True)


def virsh(name, *words, **more):
    """Return the output of virsh on a host.

    :param more: arguments of subprocess.run
    :raises RuntimeError: libvirt does not answer, or refuses
    """
    try:
        return run('virsh', '-c', uri(name), *words, timeout=ANSWERS_S, **more)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f'libvirt of {name} does not answer') from None


def answers(name):
    def ready():
        with contextlib.suppress(RuntimeError):
            virsh(name, 'version')
            return True
        return False
    return ready


def guests(name):
    """Return {uuid: power state} of all domains of a host, regardless of the program that defined them.

    :raises RuntimeError: libvirt does not answer
    """
    commands = '; echo =; '.join(f'list --all --uuid {choice}' for choice in STATES)
    found = {}
    for state, listed in zip(STATES.values(), virsh(name, commands).split('='), strict=True):
        found.update(dict.fromkeys(listed.split(), state))
    return found


def switch_off(namespace):
    """End every process in the network namespace of a compute. Guests and DHCP servers survive their parents."""
    _end(lambda: _processes(namespace))


def _end(find):
    """
    :param find: function() -> pids that are left
    """
    for number, wait_s in ((signal.SIGTERM, ENDS_S), (signal.SIGKILL, ENDS_S)):
        left = find()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + wait_s
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = find()


def end_dhcp_servers():
    """End the DHCP servers of the fleet in the other namespaces of networks and routers, and in this one."""
    place = f'{settings.DIRECTORY}/'.encode()

    def left():
        found = []
        for entry in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            try:
                program, *arguments = entry.read_bytes().split(b'\0')
            except OSError:                      # it has ended
                continue
            if program.rpartition(b'/')[2] == b'dnsmasq' and any(place in argument for argument in arguments):
                found.append(int(entry.parent.name))
        return found
    _end(left)


def _processes(namespace):
    return [int(pid) for pid in run('ip', 'netns', 'pids', namespace).split()]
