#!/usr/bin/env python3
"""Prints what a guest reads and writes of volumes by each way, compared with QEMU with a file and none of our parts.

usage: tools/bench/storage/disk_guests.py --guest DIRECTORY [--ways file,nbd,iscsi,rbd] [--requests 2000] [--mib 256]
                                  [--rounds 3]

A guest of the libvirt driver (QEMU without KVM, unless the machine has it) gets one volume after the other: a file, an
export of qemu-storage-daemon through a socket, a target of tgt, an image of a Ceph of one node. Next to it runs QEMU
with the same machine, processor, memory and system, as a user would start it, and has two disks: a second volume of the
same storage, without a setting, and a plain file. In both guests disk_io.c does requests one after the other
past the guest's page cache; they take turns. Needs root, libvirt, gcc, the directory of tools/guest-image.sh and,
for a way, what it is named after; a way whose parts are missing is left out, and named.
"""
import argparse
import contextlib
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing
import uuid

TREE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TREE))

from nova.virt import driver as contract

WAYS = ('file', 'nbd', 'iscsi', 'rbd')
SIZE = 2 ** 30                           # of a volume
PROGRAM = '/tmp/disk_io'
BOOT_S, LINE_S = 300, 900
NEEDED = 0.95                            # of what QEMU does by itself, the same way


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
    """Print a table for each kind of requests.

    :param guest: directory of tools/guest-image.sh
    :param requests: random ones of 4 KiB
    :param mib: sequential ones of 1 MiB
    """
    os.environ['NOVA_TEST_GUEST_DIR'] = str(guest)       # before the import, which reads it
    from nova.tests.support import libvirt as test_libvirt
    if test_libvirt._REASON:
        raise SystemExit(f'disk_guests: {test_libvirt._REASON}')
    kinds = [('write', 'seq', 2 ** 20, mib), ('read', 'seq', 2 ** 20, mib), ('write', 'random', 4096, requests),
             ('read', 'random', 4096, requests)]
    found = {}
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-disk-guests-', dir='/var/tmp'))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o711)                           # QEMU's user passes through
        tool = directory / 'tool'
        subprocess.run(['gcc', '-O2', '-static', '-o', tool, TREE / 'tools/bench/storage/disk_io.c'], check=True)
        length = tool.stat().st_size
        os.truncate(tool, -(-length // 2 ** 20) * 2 ** 20)
        ours = stack.enter_context(our_guest(directory, tool, length))
        file = file_node('file', sparse(directory, 'file'))
        for way in wanted:
            place = directory / f'with-{way}'
            place.mkdir(mode=0o711)
            try:
                with (STORAGES[way](place) as twins, ours.attached(twins.ours) as disk,
                      plain_guest(place, guest, ours.machine(), tool, twins.alone, file) as plain):
                    found[way] = compared(ours, disk, plain, kinds, rounds, own_file=way != 'file')
            except Missing as error:
                print(f'{way}: left out: {error}')
    for kind in kinds:
        show(kind, {way: rows[kind] for way, rows in found.items()})


def compared(ours, disk, plain, kinds, rounds, own_file):
    """{kind: [Rate of our guest, of QEMU alone the same way, of QEMU alone with a file]}, medians.

    Each kind is measured in turn, so that a busy minute hits all three, and one guest stands while another works.
    """
    guests = [(ours, disk), (plain, '/dev/vdc'), *([(plain, '/dev/vdd')] if own_file else [])]
    taken = {kind: [[] for _ in guests] for kind in kinds}
    ours.pause()
    plain.pause()
    for _ in range(rounds):
        for kind in kinds:
            for each, (guest, name) in zip(taken[kind], guests, strict=True):
                guest.go_on()
                each.append(rate(guest, name, kind))
                guest.pause()
    ours.go_on()                                         # it shall let the disk go
    medians = {kind: [Rate(*map(statistics.median, zip(*each, strict=True))) for each in rows]
               for kind, rows in taken.items()}
    return {kind: rows if own_file else [*rows, rows[-1]] for kind, rows in medians.items()}


class Rate(typing.NamedTuple):
    """
    requests   a second
    processor  of QEMU's processor time, the guest's system included, microseconds a request
    """

    requests: float
    processor: float


def rate(guest, disk, kind):
    what, order, length, count = kind
    begun = processor_s(guest.pid)
    text = guest.run(f'{PROGRAM} {disk} {what[0]} {order} {length} {count} || echo failed')
    used = processor_s(guest.pid) - begun
    match = re.search(r'took (\d+) us', text)
    if match is None:
        raise RuntimeError(f'the guest says {text[-300:]!r}')
    return Rate(count / max(int(match[1]), 1) * 1e6, used / count * 1e6)


def processor_s(pid):
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def show(kind, rows):
    what, order, length, _count = kind
    print(f'{what} {length // 1024} KiB {order:22} our guest  QEMU alone  ours of it  with a file  ours of it   '
          'processor time of a request')
    for way, (ours, alone, file) in rows.items():
        part = ours.requests / alone.requests
        cells = [f'{each.requests * length / 2 ** 20:.1f} MiB/s' if order == 'seq' else f'{each.requests:.0f}/s'
                 for each in (ours, alone, file)]
        print(f'    {way:27} {cells[0]:>12} {cells[1]:>12} {part:10.0%}  {cells[2]:>12} '
              f'{ours.requests / file.requests:10.0%}    {ours.processor:.0f} and {alone.processor:.0f} us, '
              f'{ours.processor / max(alone.processor, 1):.0%}'
              f'{"" if part >= NEEDED else "   (95 % are wanted)"}', flush=True)


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
        from nova.tests.support import libvirt_volumes as test_libvirt_volumes
        return test_libvirt_volumes.run(self.rig, self.instance, line)

    @contextlib.contextmanager
    def attached(self, info, name='/dev/vdc'):
        from nova.tests.support.waiting import wait_for
        device = {'uuid': str(uuid.uuid4()), 'volume_id': str(uuid.uuid4()), 'destination_type': 'volume',
                  'source_type': 'volume', 'device_name': name, 'volume_size': 1, 'boot_index': None,
                  'connection_info': info}
        self.rig.driver.features[contract.Volumes].attach_volume(None, self.instance, device)
        try:
            wait_for(lambda: os.path.basename(name) in self.run('ls /sys/block'), 60, 'the disk to be seen')
            yield name
        finally:
            self.rig.driver.features[contract.Volumes].detach_volume(None, self.instance, device)

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

    @property
    def pid(self):
        (file,) = pathlib.Path('/run/libvirt/qemu').glob(f'*{self.instance.uuid}*.pid')
        return int(file.read_text())

    def pause(self):
        self.rig.driver.features[contract.Pause].pause(self.instance)

    def go_on(self):
        self.rig.driver.features[contract.Pause].unpause(self.instance)


@contextlib.contextmanager
def our_guest(directory, tool, length):
    from nova.tests.support import libvirt as test_libvirt
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
    """QEMU as a user would start it; its console is a pipe.

    :param monitor: a socket that takes commands
    """

    def __init__(self, process, monitor):
        self._process, self._said, self.pid, self._monitor = process, b'', process.pid, socket.socket(socket.AF_UNIX)
        os.set_blocking(process.stdout.fileno(), False)
        from nova.tests.support.waiting import wait_for
        wait_for(lambda: monitor.exists() or process.poll() is not None, 20, 'the monitor')
        try:
            self._monitor.connect(str(monitor))
            self._command('')
        except OSError:                                  # it could not open a disk
            raise RuntimeError(f'QEMU says {process.communicate()[0][-300:]!r}') from None

    def _command(self, text):
        self._monitor.sendall(text.encode() + b'\n' * bool(text))
        said = b''
        while not said.endswith(b'(qemu) '):
            said += self._monitor.recv(4096)

    def pause(self):
        self._command('stop')

    def go_on(self):
        self._command('cont')

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
def plain_guest(directory, guest, machine, tool, data, file):
    """
    :param tool: file with disk_io
    :param data: words that give QEMU a node "data", its third disk
    :param file: words that give it a node "file", its fourth one
    """
    root, own_tool, length = directory / 'root', directory / 'tool', tool.stat().st_size
    shutil.copyfile(tool, own_tool)                      # the other guest has that file open
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-b', guest.resolve() / 'guest.qcow2', '-F', 'qcow2',
                    root, '1G'], check=True)
    same = f'cache={direct_io(directory)},discard=unmap,if=none'
    process = subprocess.Popen(
        ['qemu-system-x86_64', '-machine', f'{machine["type"]},accel={machine["accel"]}', '-cpu', machine['cpu'],
         '-m', str(machine['memory']), '-smp', str(machine['vcpus']), '-nodefaults', '-display', 'none', '-serial',
         'stdio', '-monitor', f'unix:{directory / "monitor"},server=on,wait=off',
         '-drive', f'file={root},format=qcow2,id=root,{same}', '-drive',
         f'file={own_tool},format=raw,id=tool,{same}', *data, *file,
         *(word for name in ('root,bootindex=1', 'tool', 'data', 'file')
           for word in ('-device', f'virtio-blk-pci,drive={name}'))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        made = Plain(process, directory / 'monitor')
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


# ---- storages: context managers that give Twins, two empty volumes of one storage

class Twins(typing.NamedTuple):
    """
    ours    the connection to the first one
    alone   words that give QEMU the second one as its node "data", without a setting
    """

    ours: dict
    alone: list


def sparse(directory, name):
    with open(directory / name, 'wb') as file:
        file.truncate(SIZE)
    return directory / name


def file_node(name, path):
    """The cache mode is that of our guest, or the two would not do the same."""
    direct = {'none': 'on', 'writeback': 'off'}[direct_io(path.parent)]
    return ['-blockdev', f'driver=raw,node-name={name},discard=unmap,cache.direct={direct},file.driver=file,'
            f'file.filename={path},file.discard=unmap,file.cache.direct={direct}']


@contextlib.contextmanager
def file_storage(directory):
    yield Twins({'driver_volume_type': 'local', 'data': {'device_path': str(sparse(directory, 'ours'))}},
                file_node('data', sparse(directory, 'alone')))


@contextlib.contextmanager
def nbd_storage(directory):
    """As the exporter opens a volume, but for TLS: what that costs is in disks.py."""
    program = shutil.which('qemu-storage-daemon')
    if program is None:
        raise Missing('qemu-storage-daemon is not installed')
    place = directory / 'nbd'
    place.mkdir(mode=0o711)
    words = [program]
    for name in ('ours', 'alone'):
        words += ['--blockdev', f'driver=file,node-name=file-{name},filename={sparse(directory, name)},locking=off,'
                  'discard=unmap', '--blockdev', f'driver=raw,node-name={name},file=file-{name},discard=unmap']
    words += ['--nbd-server', f'addr.type=unix,addr.path={place / "socket"}']
    for name in ('ours', 'alone'):
        words += ['--export', f'type=nbd,id=export-{name},node-name={name},name={name},writable=on']
    process = subprocess.Popen(words)
    try:
        from nova.tests.support.waiting import wait_for
        wait_for((place / 'socket').exists, 20, 'the export')
        (place / 'socket').chmod(0o666)
        yield Twins({'driver_volume_type': 'nbd', 'data': {'socket': str(place / 'socket'), 'export': 'ours'}},
                    ['-blockdev', f'driver=nbd,node-name=data,server.type=unix,server.path={place / "socket"},'
                     'export=alone'])
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def iscsi_storage(directory):
    if not (shutil.which('tgtd') and list(pathlib.Path('/usr/lib').glob('*/qemu/block-iscsi.so'))):
        raise Missing('tgt, or qemu-block-extra, is not installed')
    import libvirt
    from nova.tests.support import libvirt_iscsi as iscsi
    target = iscsi.Target(directory / 'ours')
    target.start()
    try:
        target.add_disk(2, sparse(directory, 'alone'))
        yield Twins(iscsi.connection(target),
                    ['-object', f'secret,id=chap,data={iscsi.PASSWORD}', '-blockdev',
                     f'driver=iscsi,node-name=data,transport=tcp,portal=127.0.0.1:{target.port},target={iscsi.IQN},'
                     f'lun=2,user={iscsi.USER},password-secret=chap,initiator-name=iqn.2026-11.org.example:alone'])
    finally:
        target.kill()
        forget_secrets(libvirt, iscsi.IQN)


@contextlib.contextmanager
def rbd_storage(directory):
    from nova.tests import ceph as cephs
    if reason := cephs.missing():
        raise Missing(reason)
    import libvirt
    from nova.tests.support import libvirt_ceph as test_libvirt_ceph
    with tempfile.TemporaryDirectory(prefix='nova-ceph-') as place:
        made = None
        try:
            made = cephs.Ceph(pathlib.Path(place), size='4G')
            for name in ('ours', 'alone'):
                made.rbd('create', '--size', '1G', name)
            host, port = made.monitor
            yield Twins(test_libvirt_ceph.device(made, 'ours')['connection_info'],
                        ['-object', f'secret,id=cephx,format=base64,data={made.key}', '-blockdev',
                         f'driver=rbd,node-name=data,pool={made.pool},image=alone,user={made.user},'
                         f'key-secret=cephx,server.0.host={host},server.0.port={port}'])
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
