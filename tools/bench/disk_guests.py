#!/usr/bin/env python3
"""Prints what a guest reads and writes of volumes by each way, beside QEMU with a file and none of our parts.

usage: tools/bench/disk_guests.py --guest DIRECTORY [--ways file,nbd,iscsi,rbd] [--requests 2000] [--mib 256]
                                  [--rounds 3]

A guest of the libvirt driver (QEMU without KVM, unless the machine has it) gets one volume after the other: a file, an
export of qemu-storage-daemon through a socket, a target of tgt, an image of a Ceph of one node. Beside it runs QEMU
with the same machine, processor and memory, the same system and a file, as a user would start it. In both
tools/bench/disk_io.c does requests one after the other past the guest's page cache. Needs root, libvirt, gcc, the
directory of tools/guest-image.sh and, for a way, what it is named after; a way whose parts are missing is left out, and
named.
"""
import argparse
import contextlib
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

WAYS = ('file', 'nbd', 'iscsi', 'rbd')
SIZE = 2 ** 30                           # of a volume
PROGRAM = '/tmp/disk_io'
BOOT_S, LINE_S = 300, 900
NEEDED = 0.95                            # of what QEMU does by itself


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--guest', type=pathlib.Path, required=True, metavar='DIRECTORY')
    parser.add_argument('--ways', default=','.join(WAYS))
    parser.add_argument('--requests', type=int, default=2000)
    parser.add_argument('--mib', type=int, default=256)
    parser.add_argument('--rounds', type=int, default=3)
    arguments = parser.parse_args()
    wanted = arguments.ways.split(',')
    if not set(wanted) <= set(WAYS):
        parser.error(f'ways are {", ".join(WAYS)}')
    print(f'load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors')
    measure(arguments.guest, wanted, arguments.requests, arguments.mib, arguments.rounds)
    return 0


def measure(guest, wanted, requests, mib, rounds):
    """Print the table.

    :param guest: directory of tools/guest-image.sh
    :param requests: random ones of 4 KiB
    :param mib: sequential ones of 1 MiB
    """
    os.environ['NOVA_TEST_GUEST_DIR'] = str(guest)       # before the import, which reads it
    from nova.tests.integration import test_libvirt
    if test_libvirt._REASON:
        raise SystemExit(f'disk_guests: {test_libvirt._REASON}')
    kinds = [('write', 'seq', 2 ** 20, mib), ('read', 'seq', 2 ** 20, mib), ('write', 'random', 4096, requests),
             ('read', 'random', 4096, requests)]
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-disk-guests-', dir='/var/tmp'))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o711)                           # QEMU's user passes through
        tool = directory / 'tool'
        subprocess.run(['gcc', '-O2', '-static', '-o', tool, TREE / 'tools/bench/disk_io.c'], check=True)
        length = tool.stat().st_size
        os.truncate(tool, -(-length // 2 ** 20) * 2 ** 20)
        ours = stack.enter_context(our_guest(directory, tool, length))
        found = {}
        for way in wanted:
            try:
                with STORAGES[way](directory) as info, ours.attached(info) as disk:
                    found[way] = rates(ours, disk, kinds, rounds)
            except Missing as error:
                print(f'{way}: left out: {error}')
        machine = ours.machine()
    # when our guest is gone, or both would share the processors
    with tempfile.TemporaryDirectory(prefix='nova-disk-guests-', dir='/var/tmp') as place:
        place = pathlib.Path(place)
        subprocess.run(['gcc', '-O2', '-static', '-o', place / 'tool', TREE / 'tools/bench/disk_io.c'], check=True)
        os.truncate(place / 'tool', -(-length // 2 ** 20) * 2 ** 20)
        with plain_guest(place, guest, machine, length) as plain:
            alone = rates(plain, '/dev/vdc', kinds, rounds)
    for kind in kinds:
        what, order, length, _count = kind
        print(f'{what} {length // 1024} KiB {order}: QEMU alone with a file {shown(alone[kind], length)}')
        for way, rate in found.items():
            part = rate[kind] / alone[kind]
            print(f'    {way:6} {shown(rate[kind], length)}, {part:.0%}'
                  f'{"" if part >= NEEDED or way != "file" else " (95 % are wanted)"}', flush=True)


def shown(rate, length):
    return f'{rate * length / 2 ** 20:.1f} MiB/s, {rate:.0f}/s'


def rates(guest, disk, kinds, rounds):
    """{kind: requests a second}, the median of the rounds."""
    taken = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:                               # one after the other, so that a busy minute hits them all
            what, order, length, count = kind
            text = guest.run(f'{PROGRAM} {disk} {what[0]} {order} {length} {count} || echo failed')
            match = re.search(r'took (\d+) us', text)
            if match is None:
                raise RuntimeError(f'the guest says {text[-300:]!r}')
            taken[kind].append(count / max(int(match[1]), 1) * 1e6)
    return {kind: statistics.median(every) for kind, every in taken.items()}


class Missing(Exception):
    """A part that a way needs is not installed."""


# ---- guests

def fetched(length):
    """The line that brings the program from the guest's second disk."""
    return f'head -c {length} /dev/vdb >{PROGRAM}; chmod +x {PROGRAM}; ls -l {PROGRAM}'


class Ours:
    def __init__(self, rig, instance):
        self.rig, self.instance = rig, instance

    def run(self, line):
        from nova.tests.integration import test_libvirt_volumes
        return test_libvirt_volumes.run(self.rig, self.instance, line)

    @contextlib.contextmanager
    def attached(self, info, name='/dev/vdc'):
        from nova.tests.waiting import wait_for
        device = {'uuid': str(uuid.uuid4()), 'volume_id': str(uuid.uuid4()), 'destination_type': 'volume',
                  'source_type': 'volume', 'device_name': name, 'volume_size': 1, 'boot_index': None,
                  'connection_info': info}
        self.rig.driver.attach_volume(None, self.instance, device)
        try:
            wait_for(lambda: os.path.basename(name) in self.run('ls /sys/block'), 60, 'the disk to be seen')
            yield name
        finally:
            self.rig.driver.detach_volume(None, self.instance, device)

    def machine(self):
        """What the other QEMU has to have, too."""
        from xml.etree import ElementTree as etree
        text = subprocess.run(['virsh', '-c', 'qemu:///system', 'dumpxml', self.instance.uuid], check=True,
                              capture_output=True, text=True).stdout
        root = etree.fromstring(text)
        cpu = root.find('cpu')
        kvm = root.get('type') == 'kvm'
        model = 'host' if kvm else 'max' if cpu is None or cpu.get('mode') == 'maximum' else (
            cpu.findtext('model') or 'max')
        return {'type': root.find('os/type').get('machine'), 'accel': 'kvm' if kvm else 'tcg', 'cpu': model,
                'memory': int(root.findtext('memory')) // 1024, 'vcpus': int(root.findtext('vcpu'))}


@contextlib.contextmanager
def our_guest(directory, tool, length):
    from nova.tests.integration import test_libvirt
    rig = test_libvirt.Rig(directory)
    instance = test_libvirt.make_instance()
    try:
        test_libvirt.spawn(rig, instance)
        rig.booted(instance)
        made = Ours(rig, instance)
        with made.attached({'driver_volume_type': 'local', 'data': {'device_path': str(tool)}}, '/dev/vdb'):
            made.run(fetched(length))
            yield made
    finally:
        rig.driver.destroy(None, instance, [])
        rig.driver.stop()


class Plain:
    """QEMU as a user would start it; its console is a pipe."""

    def __init__(self, process):
        self._process, self._said = process, b''
        os.set_blocking(process.stdout.fileno(), False)

    def wait_for(self, text, begin, timeout):
        deadline = time.monotonic() + timeout
        while text not in self._said[begin:]:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f'QEMU says {self._said[-300:]!r}')
            self._said += self._process.stdout.read() or b''
            time.sleep(0.02)

    def run(self, line):
        mark, begin = uuid.uuid4().hex, len(self._said)
        self._process.stdin.write(f'{line}; echo "{mark[:16]}""{mark[16:]}"\n'.encode())
        self._process.stdin.flush()
        self.wait_for(mark.encode(), begin, LINE_S)
        return self._said[begin:].decode(errors='replace')


@contextlib.contextmanager
def plain_guest(directory, guest, machine, length):
    with open(directory / 'data', 'wb') as file:
        file.truncate(SIZE)
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-b', guest.resolve() / 'guest.qcow2', '-F', 'qcow2',
                    directory / 'root', '1G'], check=True)
    direct = direct_io(directory)
    drives = [f'file={directory / name},format={form},if=virtio,cache={cache},discard=unmap'
              for name, form, cache in (('root', 'qcow2', direct), ('tool', 'raw', direct), ('data', 'raw', direct))]
    process = subprocess.Popen(
        ['qemu-system-x86_64', '-machine', f'{machine["type"]},accel={machine["accel"]}', '-cpu', machine['cpu'],
         '-m', str(machine['memory']), '-smp', str(machine['vcpus']), '-nodefaults', '-display', 'none', '-serial',
         'stdio', *(word for drive in drives for word in ('-drive', drive))], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        made = Plain(process)
        made.wait_for(b'/ # ', 0, BOOT_S)
        made.run(fetched(length))
        yield made
    finally:
        process.kill()
        process.wait()


def direct_io(directory):
    """The cache mode that the driver chooses for files here."""
    from nova.virt.libvirt.local_disks import files
    return 'none' if files._direct_io(str(directory)) else 'writeback'


# ---- storages: context managers that give a connection to an empty volume

def sparse(directory, name):
    with open(directory / name, 'wb') as file:
        file.truncate(SIZE)
    return directory / name


@contextlib.contextmanager
def file_storage(directory):
    yield {'driver_volume_type': 'local', 'data': {'device_path': str(sparse(directory, 'file'))}}


@contextlib.contextmanager
def nbd_storage(directory):
    """As the exporter opens a volume, but for TLS: what that costs is in disks.py."""
    program = shutil.which('qemu-storage-daemon')
    if program is None:
        raise Missing('qemu-storage-daemon is not installed')
    path, place = sparse(directory, 'exported'), directory / 'nbd'
    place.mkdir(mode=0o711)
    process = subprocess.Popen(
        [program, '--blockdev', f'driver=file,node-name=file,filename={path},locking=off,discard=unmap',
         '--blockdev', 'driver=raw,node-name=raw,file=file,discard=unmap',
         '--nbd-server', f'addr.type=unix,addr.path={place / "socket"}',
         '--export', 'type=nbd,id=e,node-name=raw,name=volume,writable=on'])
    try:
        from nova.tests.waiting import wait_for
        wait_for((place / 'socket').exists, 20, 'the export')
        (place / 'socket').chmod(0o666)
        yield {'driver_volume_type': 'nbd', 'data': {'socket': str(place / 'socket'), 'export': 'volume'}}
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def iscsi_storage(directory):
    if not (shutil.which('tgtd') and list(pathlib.Path('/usr/lib').glob('*/qemu/block-iscsi.so'))):
        raise Missing('tgt, or qemu-block-extra, is not installed')
    import libvirt
    from nova.tests.integration import test_libvirt_iscsi
    place = directory / 'tgt'
    place.mkdir()
    target = test_libvirt_iscsi.Target(place / 'disk')
    target.start()
    try:
        yield test_libvirt_iscsi.device(target)['connection_info']
    finally:
        target.kill()
        forget_secrets(libvirt, test_libvirt_iscsi.IQN)


@contextlib.contextmanager
def rbd_storage(directory):
    from nova.tests import ceph as cephs
    if reason := cephs.missing():
        raise Missing(reason)
    import libvirt
    from nova.tests.integration import test_libvirt_ceph
    with tempfile.TemporaryDirectory(prefix='nova-ceph-') as place:
        made = None
        try:
            made = cephs.Ceph(pathlib.Path(place), size='4G')
            made.rbd('create', '--size', '1G', 'bench')
            yield test_libvirt_ceph.device(made, 'bench')['connection_info']
        finally:
            forget_secrets(libvirt, test_libvirt_ceph.SECRET)
            subprocess.run([cephs.TOOL, 'stop', place], check=made is not None)


def forget_secrets(libvirt, text):
    connection = libvirt.open('qemu:///system')
    for secret in connection.listAllSecrets():
        if text in secret.usageID() or text == secret.UUIDString():
            secret.undefine()
    connection.close()


STORAGES = {'file': file_storage, 'nbd': nbd_storage, 'iscsi': iscsi_storage, 'rbd': rbd_storage}

if __name__ == '__main__':
    sys.exit(main())
