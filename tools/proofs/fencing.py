#!/usr/bin/env python3
"""Proves that the guest of a host which only counts as dead writes nothing more once its server is evacuated.

usage: tools/proofs/fencing.py [--without-guard] [--short]        as root, with Debian's packages of Ceph and QEMU

A Ceph of one node (tools/ceph.sh) and the embedded block storage with its exporter have a server for each kind of disk
in KINDS. QEMU's block layer (qemu-io) stands for the guest on the dead host, and stays alive. It is started as a host
starts a guest, with its clients recorded, and writes numbered blocks. Then the fence of the product runs as the next
host runs it, a second QEMU opens the disk and writes, and the first one goes on writing.

    alive     the first QEMU has written, and reaches the storage all the time
    cut off   the first QEMU is stopped before its first write, until Ceph has forgotten it (30 s), and then goes on: it
              has neither a watch nor a lock
    refused   the next host lacks the rights that a fence needs: the evacuation has to stop

The checker reads the blocks of each disk in the end. A violation is:

- a write of the first QEMU that is acknowledged after the second one was started
- a block that does not have the last number acknowledged to the QEMU that owns the disk by then
- of a disk that several servers have: a server that is not evacuated and loses it

--without-guard ignores the result of the fence, and leaves the export open: the checker has to report violations, or
the proof is worth nothing. Prints a line for each run, and exits with 1 when there was a violation.
"""
import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import uuid

import volumes                           # the tool next to this one

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

from nova import context
from nova import exception
from nova.db import engine
from nova.db.tables import volume as tables
from nova.runtime import certificates
from nova.tests import ceph as cephs
from nova.tests import ports
from nova.virt import driver
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import pool
from nova.virt.libvirt.local_disks import rbd
from nova.virt.libvirt.moves import fencing
from nova.virt.libvirt.domain import volume_disks as disk

DISKS, VOLUMES, IMAGES, SECOND = 'vms', 'volumes', 'images', 'second'
ROOT, CLONE, DATA, OTHER_POOL, ENCRYPTED, SHARED, EXPORTED = KINDS = (
    'root disk', 'volume of an image', 'data volume', 'second pool', 'encrypted volume', 'multiattached volume',
    'exported file')
MIB = 1 << 20
BLOCK, BLOCKS = 4096, 16
HEADER = struct.Struct('>16sQQQ')        # disk, writer, block, number
FIRST, NEXT, SIBLING = 1, 2, 3           # writers
FORGETS_S = 60                           # Ceph forgets a client 30 s after it has heard of it
DEAD, HERE = 'dead', 'here'
OWNER = context.RequestContext(user_id='u', project_id='proof', roles=['member'], overwrite=False)
PASSPHRASE = 'of the proof'
ALLOWED, REFUSED = 'nova', 'blind'       # users of Ceph of the next host
# user: rights of mon, rights of osd
USERS = {
    ALLOWED: ('profile rbd', f'profile rbd pool={DISKS}, ' + ', '.join(
        f'profile rbd-read-only pool={name}' for name in (VOLUMES, SECOND, IMAGES))),
    # as the host of the report had it: no right to the images, and none to the blocklist
    REFUSED: ('allow r', f'profile rbd pool={DISKS}, profile rbd-read-only pool={VOLUMES}'),
    'cinder': ('profile rbd', ', '.join(f'profile rbd pool={name}' for name in (DISKS, VOLUMES, SECOND))
               + f', profile rbd-read-only pool={IMAGES}')}


class Writer:
    """A QEMU that has a disk open, and writes numbered blocks.

    :param server: the Server
    :param kind: FIRST, NEXT or SIBLING
    :param blocks: those that it writes
    """

    def __init__(self, server, kind, blocks=range(BLOCKS)):
        self.kind, self.blocks, self.acknowledged, self.server = kind, blocks, {}, server
        self.client = volumes.Client(server.options(kind))
        server.proof.stack.callback(self.end)

    def write(self):
        """Number of blocks whose write and flush were acknowledged."""
        done, pattern = 0, self.server.proof.directory / f'pattern-{self.server.ident}'
        for block in self.blocks:
            number = self.acknowledged.get(block, 0) + 1
            text = HEADER.pack(self.server.ident.bytes, self.kind, block, number)
            pattern.write_bytes((text * (BLOCK // HEADER.size + 1))[:BLOCK])
            try:
                self.client.run(f'write -s {pattern} {block * BLOCK} {BLOCK}')
                self.client.run('flush')
            except OSError:
                continue
            self.acknowledged[block] = number
            done += 1
        return done

    def signal(self, number):
        os.kill(self.client.process.pid, number)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGCONT)
        self.client.end()


class Server:
    """A server with one disk.

    evacuated   whether the next host has started it
    """

    def __init__(self, proof, kind):
        self.proof, self.kind, self.ident, self.evacuated = proof, kind, uuid.uuid4(), False
        self.clients, self.sibling = None, None
        getattr(self, '_make_' + {ROOT: 'root', CLONE: 'clone', EXPORTED: 'export', ENCRYPTED: 'encrypted'}.get(
            kind, 'blank'))()

    # ---- its disk

    @property
    def image(self):
        """pool/image"""
        if self.kind == ROOT:
            return f'{DISKS}/{self.ident}_disk'
        return f'{SECOND if self.kind == OTHER_POOL else VOLUMES}/volume-{self.ident}'

    def _make_root(self):
        self.proof.rbd('create', '--size', '8M', self.image)

    _make_blank = _make_root

    def _make_clone(self):
        image = f'{IMAGES}/{self.ident}'
        self.proof.rbd('create', '--size', '8M', image)
        self.proof.rbd('snap', 'create', '--no-progress', f'{image}@snap')
        self.proof.rbd('snap', 'protect', f'{image}@snap')
        self.proof.rbd('clone', f'{image}@snap', self.image)

    def _make_encrypted(self):
        subprocess.run(['qemu-img', 'create', '-q', '-f', 'luks', '--object', self.proof.secret, '-o',
                        'key-secret=key,iter-time=10', self._url('cinder'), '8M'], check=True)

    def _make_export(self):
        storage_ = self.proof.exporter
        self.volume = storage_.create(OWNER, 1)['id']
        while storage_.get(OWNER, self.volume)['status'] != 'available':
            time.sleep(0.05)
        self.attachments = {FIRST: self._attached(DEAD)}

    def _attached(self, host):
        attachment = self.proof.exporter.attach(OWNER, self.volume, str(self.ident))
        info = self.proof.exporter.connect(OWNER, attachment, {'host': host, 'ip': '192.0.2.1'}, '/dev/vdb')
        self.proof.exporter.complete(OWNER, attachment)
        return attachment, info

    def _url(self, user):
        return f'rbd:{self.image}:id={user}:conf={self.proof.ceph.conf}'

    def options(self, kind):
        """Words for qemu-io."""
        place = f'conf={self.proof.ceph.conf},user=cinder'
        name, _slash, image = self.image.partition('/')
        if self.kind == EXPORTED:
            data = self.attachments[kind][1]['data']
            credentials = self.proof.certificate(DEAD if kind == FIRST else HERE)
            return ['--object', f'tls-creds-x509,id=tls,endpoint=client,verify-peer=on,dir={credentials}',
                    '--image-opts', f'driver=nbd,server.type=inet,server.host={data["host"]},'
                                    f'server.port={data["port"]},export={data["export"]},tls-creds=tls']
        if self.kind == ENCRYPTED:
            return ['--object', self.proof.secret, '--image-opts', f'driver=luks,key-secret=key,file.driver=rbd,'
                    f'file.pool={name},file.image={image},file.conf={self.proof.ceph.conf},file.user=cinder']
        return ['--image-opts', f'driver=rbd,pool={name},image={image},{place}']

    def device(self):
        """The server's block device as its former host had it; None: the disk is no volume."""
        if self.kind == ROOT:
            return None
        attachment, info = self.attachments[FIRST] if self.kind == EXPORTED else ('a', {
            'driver_volume_type': 'rbd', 'multiattach': self.kind == SHARED, 'data': {
                'name': self.image, 'hosts': [self.proof.ceph.address], 'ports': ['6789']}})
        return {'destination_type': 'volume', 'volume_id': str(self.ident), 'attachment_id': attachment,
                'connection_info': info}

    # ---- its life

    def start(self):
        """As a host starts a guest: its clients are known before it runs an instruction."""
        source = {'type': 'network', 'protocol': 'rbd', 'name': self.image}
        guest = xml.Guest(str(self.ident), 'a', '/', 'qemu', 1, 64, '/log', [])
        if self.kind == SHARED:
            self.sibling = Writer(self, SIBLING, range(BLOCKS, 2 * BLOCKS))
        if self.kind == ROOT:
            guest.disks = [xml.Disk('/disk', 'raw', 'vda', source=source)]
        elif self.kind != EXPORTED:
            guest.volumes = [disk.Volume(str(self.ident), 'vda', 'virtio', source, shareable=self.kind == SHARED)]
        with self.proof.recorder.starting(guest):
            self.first = Writer(self, FIRST)
        self.clients = self.proof.recorded.get(str(self.ident))

    def evacuate(self, user, guard):
        """As the next host does.

        :param guard: an evacuation stops where the fence does not succeed
        """
        device = self.device()
        former = driver.FormerHost(DEAD, False, [device] if device else [], self.clients)
        try:
            fencing.fence(self.proof.stored(user), self.proof.pool(user), str(self.ident), former)
        except exception.NotFenced as error:
            if guard:
                self.refusal = error.message
                return
        if self.kind == EXPORTED:
            if guard:                    # as disconnect_volumes does
                self.proof.exporter.detach(OWNER, self.attachments[FIRST][0])
            self.attachments[NEXT] = self._attached(HERE)
        self.next, self.evacuated = Writer(self, NEXT), True

    def check(self):
        """Sentences: what is wrong."""
        owner = self.next if self.evacuated else self.first
        expected = {block: (FIRST, number) for block, number in self.before.items()}
        expected.update({block: (owner.kind, number) for block, number in owner.acknowledged.items()})
        content = self._content()
        for block in range(BLOCKS):
            found = HEADER.unpack(content[block * BLOCK:][:HEADER.size])
            wanted = expected.get(block)
            if found[:1] == (bytes(16),) and wanted is None:
                continue
            if found != (self.ident.bytes, *(wanted or (0, 0))[:1], block, (wanted or (0, 0))[1]):
                yield f'block {block} has number {found[3]} of writer {found[1]}, not {wanted}'
        if self.evacuated and self.late:
            yield f'the first QEMU wrote {self.late} blocks after the second one was started'
        if self.evacuated and self.next.acknowledged.keys() != set(range(BLOCKS)):
            yield 'the second QEMU could not write'
        if self.sibling is not None and self.lost:
            yield f'a server that is not evacuated could not write {self.lost} blocks'

    def _content(self):
        for writer in (self.first, self.sibling, getattr(self, 'next', None)):
            if writer is not None:
                writer.end()
        path = self.proof.directory / f'content-{self.ident}'
        if self.kind == EXPORTED:
            return (self.proof.directory / 'volumes' / self.volume).read_bytes()[:BLOCKS * BLOCK]
        if self.kind == ENCRYPTED:
            subprocess.run(['qemu-img', 'convert', '--object', self.proof.secret, '-O', 'raw', '--image-opts',
                            self.options(FIRST)[-1], path], check=True)
        else:
            self.proof.rbd('export', '--no-progress', self.image, path)
        return path.read_bytes()


class Proof:
    """A Ceph, a block storage that exports files, and the next host.

    :param directory: an empty one
    :param stack: an ExitStack that ends all of it
    """

    def __init__(self, directory, stack):
        self.directory, self.stack, self.recorded, self.violations = directory, stack, {}, []
        (directory / 'ceph').mkdir()
        stack.callback(subprocess.run, [cephs.TOOL, 'stop', directory / 'ceph'])
        self.ceph = cephs.Ceph(directory / 'ceph')
        for name in (VOLUMES, IMAGES, SECOND):
            self._admin('ceph', 'osd', 'pool', 'create', name)
            self._admin('rbd', 'pool', 'init', name)
        for user, (mon, osd) in USERS.items():
            words = ('caps',) if user == ALLOWED else ('get-or-create',)
            self._admin('ceph', 'auth', *words, f'client.{user}', 'mon', mon, 'osd', osd, *(
                () if user == ALLOWED else ('-o', str(directory / 'ceph' / f'ceph.client.{user}.keyring'))))
        self.secret = f'secret,id=key,data={PASSPHRASE}'
        self.recorder = disk_clients.DiskClients(self.pool(ALLOWED))
        self.recorder.record = self._record
        db = engine.Database(f'sqlite:///{directory}/api.sqlite')
        tables.volumes.metadata.create_all(db.engine)
        db.dispose()
        self.exporter = volumes.storage(directory, ports.free(ports.EXPORTS, needed=2))
        stack.callback(self._end_exports)

    def _record(self, ident, images, started):
        self.recorded[ident] = {**({} if started else self.recorded.get(ident, {})), **images}

    def _end_exports(self):
        for path in (self.directory / 'volumes' / 'exports').glob(f'*/{volumes.daemon.RECORD}'):
            volumes.daemon.Daemon(str(path.parent)).kill()

    def _admin(self, program, *words):
        return subprocess.run([program, '-c', self.ceph.conf, *words], check=True, capture_output=True, text=True,
                              timeout=120).stdout

    def rbd(self, *words):
        return self._admin('rbd', *map(str, words))

    def pool(self, user):
        return pool.Pool(DISKS, str(self.ceph.conf), user, 60)

    def stored(self, user):
        """The disks of the next host."""
        place = rbd.Rbd(self.pool(user), None, HERE, None, 'writeback', 60)
        return storage.Storage(str(self.directory / 'instances'), None, None, disks=place, host=HERE)

    def certificate(self, name):
        directory = self.directory / f'client-{name}'
        if not directory.exists():
            authority = certificates.Authority(self.directory / 'tls')
            made = authority.pair(name, [name])
            directory.mkdir()
            for source, target in ((authority.trusted, 'ca-cert.pem'), (made.certificate, 'client-cert.pem'),
                                   (made.key, 'client-key.pem')):
                shutil.copyfile(source, directory / target)
        return directory

    def run(self, name, kinds=KINDS, user=ALLOWED, guard=True, cut=False):
        """Evacuate a server of each kind: [Server]. What is wrong is added to ``violations``."""
        servers = [Server(self, kind) for kind in kinds]
        for server in servers:
            server.start()
            if not cut:
                server.first.write()
            server.before = dict(server.first.acknowledged)
        if cut:
            self._forget(servers)
        for server in servers:
            server.evacuate(user, guard)
            if server.evacuated:
                server.next.write()
        for server in servers:
            server.first.signal(signal.SIGCONT)
            server.late = server.first.write()
            server.lost = 0 if server.sibling is None else BLOCKS - server.sibling.write()
            if server.evacuated:
                server.next.write()
        for server in servers:
            self.violations += [f'{name}, {server.kind}: {what}' for what in server.check()]
        stopped = sum(not server.evacuated for server in servers)
        print(f'{name}: {len(servers) - stopped} servers evacuated, {stopped} evacuations stopped; '
              f'{len(self.violations)} violations so far', flush=True)
        return servers

    def _forget(self, servers):
        """Stop the first QEMUs until Ceph knows nothing of them."""
        for server in servers:
            server.first.signal(signal.SIGSTOP)
        deadline = time.monotonic() + FORGETS_S
        for server in servers:
            while server.kind != EXPORTED and not {address for each in (server.clients or {}).values()
                                                   for address in each or ()}.isdisjoint(
                                                       self.pool(ALLOWED).watchers(server.image)):
                if time.monotonic() > deadline:
                    raise RuntimeError(f'Ceph does not forget the client of the {server.kind}')
                time.sleep(0.5)


@contextlib.contextmanager
def proof():
    directory = pathlib.Path(tempfile.mkdtemp(prefix='fence-', dir='/var/tmp'))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        yield Proof(directory, stack)


def missing():
    """Why it cannot run here; None: it can."""
    programs = ('qemu-io', volumes.daemon.PROGRAM)
    absent = next((f'{program} is not installed' for program in programs if shutil.which(program) is None), None)
    return cephs.missing() or absent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--without-guard', action='store_true', help='ignore the result of the fence')
    parser.add_argument('--short', action='store_true', help='no client is cut off until Ceph has forgotten it')
    arguments = parser.parse_args()
    reason = missing()
    if reason:
        print(reason)
        return 2
    with proof() as made:
        if arguments.without_guard:
            made.run('alive, without the guard', user=REFUSED, guard=False)
        else:
            made.run('alive')
            made.run('refused', user=REFUSED)
        if not arguments.short:
            made.run('cut off', user=REFUSED if arguments.without_guard else ALLOWED,
                     guard=not arguments.without_guard, cut=True)
        for line in made.violations:
            print(f'VIOLATION {line}')
        return int(bool(made.violations))


if __name__ == '__main__':
    sys.exit(main())
