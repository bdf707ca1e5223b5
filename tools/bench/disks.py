#!/usr/bin/env python3
"""Times what the embedded block storage does to disks, and prints a table.

usage: tools/bench/disks.py [--volumes 200] [--rounds 20] [--image 256] [--guest DIRECTORY]

- create, snapshot, attach and detach through the APIs of an all-in-one (fake driver, SQLite), until the volume is what
  the answer promises, beside what the storage itself takes for it
- so many volumes at concurrency 8
- an image (MiB of random bytes, qcow2) copied to a volume, beside qemu-img convert of the same file
- writes and reads of 4 KiB and 1 MiB by QEMU's block layer (qemu-io) over an export with TLS, beside the same on the
  file
- with --guest (see tools/guest-image.sh) and libvirt: a server that boots from a volume beside one from an image, until
  its guest runs
"""
import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

from nova import context
from nova.runtime import certificates
from nova.tests.functional import cloud as cloud_fixture

CONCURRENCY, POLL_S, IMAGE_SIZE_GIB = 8, 0.005, 2
REQUESTS = ((4096, 4000), (2 ** 20, 400))                    # (bytes, how many of them)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--volumes', type=int, default=200)
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--image', type=int, default=256, metavar='MIB')
    parser.add_argument('--guest', type=pathlib.Path, metavar='DIRECTORY')
    arguments = parser.parse_args()
    print(f'load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors')
    options = {'volume__volumes': -1, 'volume__gigabytes': -1, 'image__free_disk_reserve': 0, 'my_ip': '127.0.0.1'}
    with _directory() as directory, cloud_fixture.running(directory, **options) as cloud:
        Bench(cloud).run(arguments)
    if arguments.guest:
        with _directory() as directory, cloud_fixture.running(
                directory, compute_driver='libvirt', libvirt__virt_type='qemu', **options) as cloud:
            guests(cloud, arguments.guest, 5)
    return 0


@contextlib.contextmanager
def _directory():
    made = pathlib.Path(tempfile.mkdtemp(prefix='nova-disks-', dir='/var/tmp'))
    made.chmod(0o711)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def show(what, seconds, more=''):
    ordered = sorted(seconds)
    print(f'{what:58} {statistics.median(ordered) * 1000:8.1f} ms, p95 {ordered[int(len(ordered) * 0.95)] * 1000:8.1f}'
          f'{more}', flush=True)


def timed(function, *args):
    begun = time.perf_counter()
    found = function(*args)
    return time.perf_counter() - begun, found


class Bench:
    """:param cloud: with the fake driver"""

    def __init__(self, cloud):
        self.cloud, self.client = cloud, cloud.client(version='2.60')
        self.storage, self.files = cloud.volumes, cloud.volumes.files
        self.owner = context.RequestContext(user_id='u', project_id=self.client.project_id, roles=['member'],
                                            overwrite=False)

    def run(self, arguments):
        self.single(arguments.rounds)
        self.many(arguments.volumes)
        self.image(arguments.image)
        self.reads_and_writes()

    # ---- one volume at a time

    def volume(self, **values):
        made = self.client.post('/volume/v3/volumes', {'volume': {'size': 1, **values}}).json()['volume']['id']
        self.until(f'/volume/v3/volumes/{made}', 'volume', 'available')
        return made

    def snapshot(self, volume_id):
        made = self.client.post('/volume/v3/snapshots', {'snapshot': {'volume_id': volume_id, 'force': True}})
        self.until(f'/volume/v3/snapshots/{made.json()["snapshot"]["id"]}', 'snapshot', 'available')

    def until(self, path, key, status):
        while (found := self.client.get(path).json()[key]['status']) != status:
            if found == 'error':
                raise RuntimeError(f'{path} is in error')
            time.sleep(POLL_S)

    def single(self, rounds):
        server = self.client.boot(self.client.upload_image(), networks='none')['id']
        self.client.wait_for(server)
        taken = {name: [] for name in ('create', 'snapshot', 'attach', 'detach')}
        own = {name: [] for name in taken}
        for _ in range(rounds):
            seconds, volume = timed(self.volume)
            taken['create'].append(seconds)
            with open(self.files.volume(volume), 'r+b') as file:
                file.write(os.urandom(2 ** 20))
            taken['snapshot'].append(timed(self.snapshot, volume)[0])
            taken['attach'].append(timed(self._attach, server, volume)[0])
            taken['detach'].append(timed(self._detach, server, volume)[0])
            self._own(own)
        for name in taken:
            show(f'{name} a volume of 1 GiB, by the API', taken[name])
            show('    the storage by itself', own[name])

    def _attach(self, server, volume):
        answer = self.client.post(f'/servers/{server}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': volume}})
        if answer.status_code != 200:
            raise RuntimeError(answer.text)
        self.until(f'/volume/v3/volumes/{volume}', 'volume', 'in-use')

    def _detach(self, server, volume):
        self.client.delete(f'/servers/{server}/os-volume_attachments/{volume}')
        self.until(f'/volume/v3/volumes/{volume}', 'volume', 'available')

    def _own(self, own):
        """The same without the APIs, the services and the driver."""
        def create():
            made = self.storage.create(self.owner, 1)['id']
            while self.storage.get(self.owner, made)['status'] != 'available':
                time.sleep(POLL_S)
            return made

        def attach():
            attachment = self.storage.attach(self.owner, volume, str(uuid.uuid4()))
            self.storage.connect(self.owner, attachment, {'host': self.cloud.conf.host}, '/dev/vdb')
            self.storage.complete(self.owner, attachment)
            return attachment
        seconds, volume = timed(create)
        own['create'].append(seconds)
        with open(self.files.volume(volume), 'r+b') as file:
            file.write(os.urandom(2 ** 20))
        own['snapshot'].append(timed(lambda: self.storage.create_snapshot(self.owner, volume, 's'))[0])
        seconds, attachment = timed(attach)
        own['attach'].append(seconds)
        own['detach'].append(timed(self.storage.detach, self.owner, attachment)[0])

    # ---- many

    def many(self, count):
        with concurrent.futures.ThreadPoolExecutor(CONCURRENCY) as pool:
            begun = time.perf_counter()
            taken = list(pool.map(lambda _: timed(self.volume)[0], range(count)))
            seconds = time.perf_counter() - begun
        show(f'{count} volumes, concurrency {CONCURRENCY}, until available', taken, f', {count / seconds:.1f}/s')

    # ---- copies of images

    def image(self, size):
        with tempfile.TemporaryDirectory(dir=self.cloud.state_path) as directory:
            raw, qcow2 = os.path.join(directory, 'raw'), os.path.join(directory, 'qcow2')
            with open(raw, 'wb') as file:
                for _ in range(size):
                    file.write(os.urandom(2 ** 20))
                file.truncate(IMAGE_SIZE_GIB << 30)
            subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', raw, qcow2], check=True)
            with open(qcow2, 'rb') as file:
                image = self.client.upload_image(file, 'random', disk_format='qcow2')
            ours, theirs = [], []
            for _ in range(3):
                ours.append(timed(lambda: self.volume(size=IMAGE_SIZE_GIB, imageRef=image))[0])
                os.unlink(raw)
                theirs.append(timed(lambda: subprocess.run(
                    ['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', qcow2, raw], check=True))[0])
        show(f'a volume of an image with {size} MiB of data, qcow2', ours)
        show('    qemu-img convert of the same file', theirs)

    # ---- what a guest's QEMU sees

    def reads_and_writes(self):
        volume = self.volume()
        attachment = self.storage.attach(self.owner, volume, str(uuid.uuid4()))
        data = self.storage.connect(self.owner, attachment, {'host': 'far', 'ip': '192.0.2.1'}, '/dev/vdb')['data']
        authority = certificates.Authority(self.cloud.state_path / 'tls')
        pair, directory = authority.pair('far', ['far']), self.cloud.state_path / 'far'
        directory.mkdir()
        for source, target in ((authority.trusted, 'ca-cert.pem'), (pair.certificate, 'client-cert.pem'),
                               (pair.key, 'client-key.pem')):
            shutil.copyfile(source, directory / target)
        export = (f'driver=nbd,server.type=inet,server.host={data["host"]},server.port={data["port"]},'
                  f'export={data["export"]},tls-creds=tls')
        tls = ('--object', f'tls-creds-x509,id=tls,endpoint=client,verify-peer=on,dir={directory}')
        local = self.cloud.state_path / 'plain'
        with open(local, 'wb') as file:
            file.truncate(2 ** 30)
        try:
            for what in ('write', 'read'):
                for length, count in REQUESTS:
                    row = [self._io(what, length, count, options)
                           for options in ((*tls, '--image-opts', export), ('-f', 'raw', str(local)))]
                    print(f'{what} {length // 1024} KiB, one after the other: export {row[0]}; file {row[1]}',
                          flush=True)
        finally:
            self.storage.detach(self.owner, attachment)

    @staticmethod
    def _io(what, length, count, options):
        """Requests by QEMU's block layer, the last one a flush."""
        lines = ''.join(f'{what} -q {number * length} {length}\n' for number in range(count)) + 'flush\n'
        seconds, done = timed(lambda: subprocess.run(['qemu-io', *options], input=lines, capture_output=True,
                                                     text=True))
        if done.returncode or 'rror' in done.stdout + done.stderr:
            raise RuntimeError(done.stderr or done.stdout[-500:])
        return f'{count * length / seconds / 2 ** 20:.0f} MiB/s, {count / seconds:.0f}/s'


def guests(cloud, directory, rounds):
    """A server of a volume and one of an image, until its guest runs."""
    client = cloud.client(version='2.60')
    image = client.upload_image((directory / 'guest.qcow2').read_bytes(), 'guest', disk_format='qcow2')
    devices = [{'source_type': 'image', 'destination_type': 'volume', 'uuid': image, 'boot_index': 0, 'volume_size': 1,
                'delete_on_termination': True}]

    def boot(**fields):
        server = client.boot(image, networks='none', **fields)['id']
        client.wait_for(server)
        return server
    for what, fields in (('an image', {}), ('a new volume of that image', {'block_device_mapping_v2': devices})):
        taken = []
        for number in range(rounds + 1):                     # the first one fetches the image
            seconds, server = timed(lambda fields=fields: boot(**fields))
            taken += [seconds] * bool(number)
            client.delete(f'/servers/{server}')
            client.wait_for(server, 'DELETED')
        show(f'boot a server from {what}, QEMU, until ACTIVE', taken)


if __name__ == '__main__':
    sys.exit(main())
