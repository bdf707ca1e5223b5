#!/usr/bin/env python3
"""Proves that volumes in Ceph lose no acknowledged write and mix no blocks when the OSD is killed.

usage: tools/proofs/ceph.py [--seconds 60] [--volumes 3] [--seed N]        as root, with Debian's packages of Ceph

A Ceph of one node (tools/ceph.sh) has an image for each volume, and each has a writer as in tools/proofs/volumes.py:
QEMU's block layer (qemu-io) with librbd, and numbered blocks. Meanwhile SIGKILL strikes at random:

- the OSD, which is started again after up to three seconds
- the monitor, the same
- a writer, which begins again

What is read back on the way, and every block in the end, is compared as there. Prints a line of numbers, and exits with
1 and a line for each violation, when there is one.
"""
import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import volumes                           # the tool next to this one

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

from nova.tests import ceph as cephs

DAEMONS = {'OSD': 'osd.0', 'monitor': 'mon.a'}
SIZE = '8M'
ENDS_S = 120                             # that a Ceph which was killed may take until it answers again


class Volume(volumes.Volume):
    """An image of the pool with its writer, a thread."""

    def __init__(self, proof, ident):
        self.proof, self.id, self.name = proof, ident, uuid.UUID(ident).bytes
        self.acknowledged, self.possible = {}, collections.defaultdict(set)
        self.number = self.writes = self.reads = 0
        self.client, self._pattern = None, proof.directory / f'{ident}.pattern'
        proof.ceph.rbd('create', '--size', SIZE, ident)

    def _disk(self):
        ceph = self.proof.ceph
        return ['--image-opts', f'driver=rbd,pool={ceph.pool},image={self.id},conf={ceph.conf},user={ceph.user}']

    def _move(self):
        """It stays where it is."""


class Proof:
    def __init__(self, directory, arguments):
        self.directory, self.random = directory, random.Random(arguments.seed)
        self.over, self.violations, self.kills = threading.Event(), [], collections.Counter()
        (directory / 'ceph').mkdir()
        self.ceph = cephs.Ceph(directory / 'ceph')
        self.volumes = [Volume(self, str(uuid.uuid4())) for _ in range(arguments.volumes)]

    def violate(self, line):
        self.violations.append(line)
        print(f'VIOLATION {line}', flush=True)

    def run(self, seconds):
        threads = [threading.Thread(target=volume.work) for volume in self.volumes]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(1, 4))
            self._kill(self.random.choice(('OSD', 'OSD', 'monitor', 'writer', 'writer')))
        self.over.set()
        for thread in threads:
            thread.join()
        self._check()

    def _kill(self, kind):
        if kind == 'writer':
            client = self.random.choice(self.volumes).client
            if client is None:
                return
            client.process.kill()
        else:
            pid = int((self.directory / 'ceph' / 'run' / f'{DAEMONS[kind]}.pid').read_text())
            os.kill(pid, signal.SIGKILL)
            time.sleep(self.random.uniform(0, 3))
            self.ceph.start()
        self.kills[kind] += 1

    def _check(self):
        for volume in self.volumes:
            path = self.directory / volume.id
            self.ceph.rbd('export', '--no-progress', volume.id, str(path), timeout=ENDS_S)
            content = path.read_bytes()
            for block in range(volumes.BLOCKS):
                volume.check(block, content[block * volumes.BLOCK:][:volumes.BLOCK], 'found')
            if not volume.writes:
                self.violate(f'{volume.id} was never written')

    def end(self):
        self.over.set()
        for volume in self.volumes:
            volume.drop()
        subprocess.run([cephs.TOOL, 'stop', self.directory / 'ceph'])

    def line(self):
        total = {name: sum(getattr(volume, name) for volume in self.volumes) for name in ('writes', 'reads')}
        return (f'{total["writes"]} acknowledged writes, {total["reads"]} reads compared; killed: '
                + ', '.join(f'{kind} {number}' for kind, number in sorted(self.kills.items()))
                + f'; {len(self.violations)} violations')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--volumes', type=int, default=3)
    parser.add_argument('--seed', type=int, default=random.randrange(2 ** 32))
    arguments = parser.parse_args()
    reason = cephs.missing() or (None if shutil.which('qemu-io') else 'qemu-io is not installed')
    if reason:
        print(reason)
        return 2
    directory = pathlib.Path(tempfile.mkdtemp(prefix='ceph-proof-'))
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
