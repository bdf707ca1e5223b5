#!/usr/bin/env python3
"""Prove that exported volumes lose no acknowledged write and mix no blocks when any process is killed.

usage: tools/proofs/volumes.py [--seconds 60] [--volumes 4] [--hosts 3] [--seed N]
       tools/proofs/volumes.py --guests 2 --guest DIRECTORY [--seconds 60] [--seed N]

The embedded block storage runs as a process of its own, with its exporters, over NBD with TLS. Each volume has a
writer: QEMU's own client (qemu-io) with the certificate of its host. It writes numbered blocks, each of which names its
volume, its place and its number. A write counts as acknowledged when the following flush is acknowledged. During the
writes, SIGKILL ends at random:

- the storage, which is started again
- an exporter, which the storage starts again
- a writer, which begins again
- and a volume moves to another host, whose attachment is opened before the one of the old host is closed

Blocks are compared during the run, and all blocks at its end. A block must have the ID of its volume and its place. Its
number must be the last acknowledged one, or one of the later writes in progress. A host without an attachment must not
write.

Prints a line of numbers. If there are violations, it prints a line for each of them and exits with 1.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.db import engine
from nova.db.tables import volume as tables
from nova.runtime import certificates
from nova.tests import ports
from nova.volume import embedded
from nova.volume.exports import daemon

BLOCK, BLOCKS = 4096, 64
HEADER = struct.Struct('>16sQQ')                 # volume, block, number
OWNER = context.RequestContext(user_id='u', project_id='proof', roles=['member'], overwrite=False)
ANSWER_S, STARTS = 10, 20


# ---- the storage, a process of its own -------------------------------------------

def storage(directory, port):
    conf = nova_conf.new(files=[], host='storage', my_ip='127.0.0.1', state_path=str(directory),
                         volume__export_port=port, libvirt__sandbox_qemu_img=False, image__free_disk_reserve=0)
    return embedded.EmbeddedVolumes(conf, engine.Database(f'sqlite:///{directory}/api.sqlite'), None)


def serve(directory, port):
    """Answer lines of JSON, [method, arguments...], until it is killed."""
    volumes = storage(directory, port)
    volumes.recover()
    print('"ready"', flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = ['ok', getattr(volumes, name)(OWNER, *arguments)]
        except exception.NovaException as error:
            answer = ['refused', str(error)]
        print(json.dumps(answer, default=str), flush=True)


class Storage:
    """The storage process, and calls to it, which are repeated after a kill."""

    def __init__(self, directory, port):
        self.directory, self._port, self.kills = directory, port, 0
        self._lock, self._process = threading.Lock(), None
        self._start()

    def _start(self):
        for _ in range(STARTS):
            with open(self.directory / 'storage.log', 'w') as log:
                self._process = subprocess.Popen(
                    [sys.executable, __file__, '--serve', self.directory, str(self._port)], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=log, text=True)
            if self._process.stdout.readline() == '"ready"\n':
                return                               # else it was killed while it started
            self._process.wait()
        raise RuntimeError('the storage does not start: ' + (self.directory / 'storage.log').read_text()[-2000:])

    def call(self, name, *arguments):
        """Return the response; a call that a kill interrupted is repeated.

        :raises InvalidVolume: it refuses
        """
        with self._lock:
            while True:
                try:
                    self._process.stdin.write(json.dumps([name, *arguments]) + '\n')
                    self._process.stdin.flush()
                    line = self._process.stdout.readline()
                except OSError:
                    line = ''
                if line:
                    break
                self._process.wait()
                self._start()
        kind, value = json.loads(line)
        if kind == 'refused':
            raise exception.InvalidVolume(reason=value)
        return value

    def kill(self):
        self._process.kill()
        self.kills += 1

    def end(self):
        self._process.kill()
        self._process.wait()


# ---- a writer --------------------------------------------------------------------

class Client:
    """qemu-io on one disk.

    :param options: words that name it
    """

    def __init__(self, options):
        self.process = subprocess.Popen(['qemu-io', *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self._left = b''
        self._until(b'qemu-io> ')

    def run(self, command):
        """Return the output of a command.

        :raises OSError: it failed, or the program has ended
        """
        self.process.stdin.write(command.encode() + b'\n')
        self.process.stdin.flush()
        said = self._until(b'qemu-io> ').decode(errors='replace')
        if 'failed' in said or 'error' in said.lower():
            raise OSError(said)
        return said

    def _until(self, mark):
        deadline = time.monotonic() + ANSWER_S
        while mark not in self._left:
            left = deadline - time.monotonic()
            if left < 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise OSError('no answer')
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise OSError('it has ended')
            self._left += more
        said, _, self._left = self._left.partition(mark)
        return said

    def end(self):
        self.process.kill()
        self.process.communicate()


class Volume:
    """A volume with its writer, a thread."""

    def __init__(self, proof, ident, host):
        self.proof, self.id, self.host, self.name = proof, ident, host, uuid.UUID(ident).bytes
        self.server = str(uuid.uuid4())
        self.acknowledged, self.possible = {}, collections.defaultdict(set)
        self.number = self.writes = self.reads = self.moves = self.fenced = 0
        self.client, self.attachment, self.data = None, *self._attached(host)
        self._pattern = proof.directory / f'{ident}.pattern'

    def _attached(self, host):
        proof = self.proof
        attachment = proof.storage.call('attach', self.id, self.server)
        data = proof.storage.call('connect', attachment, {'host': host, 'ip': '192.0.2.1'}, '/dev/vdb')['data']
        proof.storage.call('complete', attachment)
        return attachment, data

    def work(self):
        while not self.proof.over.is_set():
            try:
                if self.client is None:
                    self.client = Client(self._disk())
                    self._read()
                self._write(self.proof.random.randrange(BLOCKS))
                if self.proof.random.random() < 0.05:
                    self._read()
                if self.proof.random.random() < 0.01:
                    self._move()
            except (OSError, ValueError, exception.NovaException):
                self.drop()
                time.sleep(0.1)
        self.drop()

    def _disk(self):
        """Words for qemu-io: the export, with the certificate of its host."""
        data = self.data
        return ['--object', 'tls-creds-x509,id=tls,endpoint=client,verify-peer=on,'
                            f'dir={self.proof.credentials[self.host]}', '--image-opts',
                f'driver=nbd,server.type=inet,server.host={data["host"]},server.port={data["port"]},'
                f'export={data["export"]},tls-creds=tls']

    def drop(self):
        client, self.client = self.client, None
        if client is not None:
            client.end()

    def _write(self, block):
        self.number += 1
        number = self.number
        self.possible[block].add(number)
        self._pattern.write_bytes((HEADER.pack(self.name, block, number) * (BLOCK // HEADER.size + 1))[:BLOCK])
        self.client.run(f'write -s {self._pattern} {block * BLOCK} {BLOCK}')
        self.client.run('flush')
        self.acknowledged[block], self.possible[block] = number, {number}
        self.writes += 1

    def _read(self):
        block = self.proof.random.randrange(BLOCKS)
        said = self.client.run(f'read -v {block * BLOCK} 32')
        found = bytes.fromhex(''.join(''.join(line.split('  ')[1:3]).replace(' ', '')[:32] if '  ' in line else ''
                                      for line in said.splitlines() if re.match(r'[0-9a-f]{8}:', line)))
        self.check(block, found, 'read')
        self.reads += 1

    def _move(self):
        """Move the volume to another host and close the attachment of the first one."""
        before, old, client = self.attachment, self.host, self.client
        there = self.proof.random.choice([host for host in self.proof.hosts if host != old])
        attachment, data = self._attached(there)
        self.host, self.attachment, self.data = there, attachment, data
        self.proof.storage.call('detach', before)
        self.client = None
        self._pattern.write_bytes(HEADER.pack(b'\xff' * 16, 0, 0) * 128 + bytes(BLOCK - 128 * HEADER.size))
        try:
            client.run(f'write -s {self._pattern} 0 {BLOCK}')
            client.run('flush')
            self.proof.violate(f'{self.id}: host {old} wrote after its attachment was gone')
        except (OSError, ValueError):
            self.fenced += 1
        client.end()
        self.moves += 1

    def check(self, block, found, how):
        """Compare the header of a block with the permitted values."""
        allowed = self.possible[block] or {0}
        if block not in self.acknowledged:
            allowed = allowed | {0}
        name, place, number = HEADER.unpack(found[:HEADER.size].ljust(HEADER.size, b'\0'))
        if found[:HEADER.size] == bytes(HEADER.size) and 0 in allowed:
            return
        if name != self.name or place != block:
            self.proof.violate(f'{self.id}: {how} at block {block} what is of {name.hex()}, block {place}')
        elif number not in allowed:
            self.proof.violate(f'{self.id}: {how} at block {block} number {number}; {sorted(allowed)} could be there')


# ---- all of it -------------------------------------------------------------------

class Proof:
    def __init__(self, directory, arguments):
        self.directory, self.random = directory, random.Random(arguments.seed)
        self.over, self.violations, self.kills = threading.Event(), [], collections.Counter()
        self.hosts = [f'host{number}' for number in range(1, arguments.hosts + 1)]
        self.credentials = {host: self._certificate(host) for host in self.hosts}
        db = engine.Database(f'sqlite:///{directory}/api.sqlite')
        tables.volumes.metadata.create_all(db.engine)
        db.dispose()
        self.storage = Storage(directory, ports.free(ports.EXPORTS, needed=arguments.hosts))
        self.volumes = []
        for number in range(arguments.volumes):
            made = self.storage.call('create', 1)
            while self.storage.call('get', made['id'])['status'] != 'available':
                time.sleep(0.05)
            self.volumes.append(Volume(self, made['id'], self.hosts[number % len(self.hosts)]))

    def _certificate(self, name):
        authority = certificates.Authority(self.directory / 'tls')
        made, directory = authority.pair(name, [name], use=certificates.CLIENT), self.directory / f'client-{name}'
        directory.mkdir()
        for source, target in ((authority.trusted, 'ca-cert.pem'), (made.certificate, 'client-cert.pem'),
                               (made.key, 'client-key.pem')):
            shutil.copyfile(source, directory / target)
        return directory

    def violate(self, line):
        self.violations.append(line)
        print(f'VIOLATION {line}', flush=True)

    def exporters(self):
        """Pids of the daemons."""
        found = []
        for path in (self.directory / 'volumes' / 'exports').glob(f'*/{daemon.PID}'):
            try:
                pid = int(path.read_text())
                if os.readlink(f'/proc/{pid}/cwd') == os.path.realpath(path.parent):
                    found.append(pid)
            except (OSError, ValueError):
                continue
        return found

    def run(self, seconds):
        threads = [threading.Thread(target=volume.work) for volume in self.volumes]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0.5, 2))
            self._kill()
        self.over.set()
        for thread in threads:
            thread.join()
        self._check()

    def _kill(self):
        kinds = {'storage': self.storage.kill, 'exporter': self._kill_exporter, 'writer': self._kill_writer}
        kind = self.random.choice(('storage', 'exporter', 'exporter', 'writer', 'writer'))
        self.kills[kind] += 1
        kinds[kind]()

    def _kill_exporter(self):
        for pid in self.random.sample(found := self.exporters(), min(1, len(found))):
            os.kill(pid, signal.SIGKILL)

    def _kill_writer(self):
        client = self.random.choice(self.volumes).client
        if client is not None:
            client.process.kill()

    def _check(self):
        for volume in self.volumes:
            with open(self.directory / 'volumes' / volume.id, 'rb') as file:
                for block in range(BLOCKS):
                    file.seek(block * BLOCK)
                    volume.check(block, file.read(BLOCK), 'found')
            if not volume.writes:
                self.violate(f'{volume.id} was never written')
            for held in self.storage.call('get', volume.id)['attachments']:
                self.storage.call('detach', held['id'])
        if self.exporters():
            self.violate(f'{len(self.exporters())} exporters are left over')

    def end(self):
        self.over.set()
        self.storage.end()
        for pid in self.exporters():
            os.kill(pid, signal.SIGKILL)

    def line(self):
        total = {name: sum(getattr(volume, name) for volume in self.volumes)
                 for name in ('writes', 'reads', 'moves', 'fenced')}
        return (f'{total["writes"]} acknowledged writes, {total["reads"]} reads compared, {total["moves"]} moves '
                f'between hosts, {total["fenced"]} of which found the old host shut out; killed: '
                + ', '.join(f'{kind} {number}' for kind, number in sorted(self.kills.items()))
                + f'; {len(self.violations)} violations')


def of_guests(count, guest, seconds, seed):
    """Run the proof with real guests; return 1 if a block was lost or mixed."""
    os.environ['NOVA_TEST_GUEST_DIR'] = guest            # read where the hosts are described
    from nova.tests.integration import killed_writers
    from nova.tests.integration import moving_cloud
    with moving_cloud.fleet(1) as fleet:
        proof = killed_writers.Proof(fleet, lambda line: print(line, flush=True))
        proof.boot(count)
        proof.run(seconds, seed)
        fleet.clear()
    for sentence in proof.violations:
        print(f'VIOLATION {sentence}')
    print(f'seed {seed}: {proof.line()}')
    return int(bool(proof.violations))


def main():
    if sys.argv[1:2] == ['--serve']:
        serve(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--volumes', type=int, default=4)
    parser.add_argument('--hosts', type=int, default=3)
    parser.add_argument('--seed', type=int, default=random.randrange(2 ** 32))
    parser.add_argument('--guests', type=int, default=0, help='so many real guests write')
    parser.add_argument('--guest', help='directory of the guest image')
    arguments = parser.parse_args()
    if arguments.guests:
        if not arguments.guest:
            parser.error('--guests needs the directory of a guest image: --guest')
        return of_guests(arguments.guests, arguments.guest, arguments.seconds, arguments.seed)
    for program in (daemon.PROGRAM, 'qemu-io'):
        if shutil.which(program) is None:
            print(f'{program} is not installed.')
            return 2
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-volume-proof-', dir='/var/tmp'))
    proof = Proof(directory, arguments)
    try:
        proof.run(arguments.seconds)
    finally:
        proof.end()
        shutil.rmtree(directory, ignore_errors=True)
    print(f'seed {arguments.seed}: {proof.line()}')
    return int(bool(proof.violations))


if __name__ == '__main__':
    sys.exit(main())
