#!/usr/bin/env python3
"""Times what the embedded block storage does to disks, and prints a table.

usage: tools/bench/storage/disks.py [--volumes 200] [--rounds 20] [--image 1024] [--guest DIRECTORY] [--guests 20]
                            [--only single,many,image,requests,memory,fetched,boots,guests]

- create, snapshot, attach and detach through the APIs of an all-in-one (fake driver, SQLite), until the volume is what
  the answer promises, compared with what the storage itself takes for it
- so many volumes at concurrency 8
- an image (MiB of random bytes, qcow2 and raw) copied to a volume, compared with qemu-img convert of the same file,
  without and with the flush that a volume has had when it is available; and once after a start, when the image is
  hashed, too
- writes and reads of 4 KiB and 1 MiB by QEMU's block layer (qemu-io) over an export with TLS, compared with the same on
  the file
- memory of nova-volume, a process of its own with a real RabbitMQ: after its start, and with so many volumes
- so many servers of one image on a host: how often it fetches the image
- with --guest (see tools/guest-image.sh) and libvirt: a server that boots from a volume, and one from an image, until
  its guest runs; and what tools/bench/storage/disk_guests.py prints
"""
import argparse
import concurrent.futures
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

TREE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TREE), str(TREE / 'tools' / 'bench' / 'storage')]

import requests

from nova import context
from nova.image.embedded import digests
from nova.runtime import certificates
from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.integration import prepared
from nova.tests.integration import servers

CONCURRENCY, POLL_S, IMAGE_SIZE_GIB, COPIES, BOOTS_S = 8, 0.005, 2, 5, 600
REQUESTS = ((4096, 4000), (2 ** 20, 400))                    # (bytes, how many of them)


PARTS = ('single', 'many', 'image', 'requests', 'memory', 'fetched', 'boots', 'guests')
MOST_MB = 100                            # of nova-volume
NEEDED = 1.1                             # of qemu-img's time for the same copy


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--volumes', type=int, default=200)
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--image', type=int, default=1024, metavar='MIB')
    parser.add_argument('--guest', type=pathlib.Path, metavar='DIRECTORY')
    parser.add_argument('--guests', type=int, default=20)
    parser.add_argument('--only', default=','.join(PARTS))
    arguments = parser.parse_args()
    parts = arguments.only.split(',')
    if not set(parts) <= set(PARTS):
        parser.error(f'parts are {", ".join(PARTS)}')
    print(f'load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors')
    options = {'volume__volumes': -1, 'volume__gigabytes': -1, 'image__free_disk_reserve': 0, 'my_ip': '127.0.0.1'}
    with _directory() as directory, cloud_fixture.running(directory, **options) as cloud:
        Bench(cloud).run(arguments, parts)
    if 'memory' in parts:
        with _directory() as directory:
            memory(directory, arguments.volumes)
    real = {'compute_driver': 'libvirt', 'libvirt__virt_type': 'qemu', 'quota__instances': -1, 'quota__cores': -1,
            'cpu_allocation_ratio': 100.0,           # what is counted is no time: the processors may be few
            'quota__ram': -1, **options}
    if arguments.guest and {'fetched', 'boots'} & set(parts):
        with _directory() as directory, cloud_fixture.running(directory, **real) as cloud:
            if 'fetched' in parts:
                fetched(cloud, arguments.guest, arguments.guests)
            if 'boots' in parts:
                guests(cloud, arguments.guest, 5)
    if arguments.guest and 'guests' in parts:
        import disk_guests
        disk_guests.measure(arguments.guest, disk_guests.WAYS, requests=2000, mib=256, rounds=3)
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

    def run(self, arguments, parts):
        for part, function, value in (('single', self.single, arguments.rounds),
                                      ('many', self.many, arguments.volumes), ('image', self.image, arguments.image),
                                      ('requests', self.reads_and_writes, None)):
            if part in parts:
                function(*([] if value is None else [value]))

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
            raw = os.path.join(directory, 'raw')
            with open(raw, 'wb') as file:
                for _ in range(size):
                    file.write(os.urandom(2 ** 20))
                file.truncate(IMAGE_SIZE_GIB << 30)
            for form in ('qcow2', 'raw'):
                source = os.path.join(directory, 'image')
                subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', form, raw, source], check=True)
                with open(source, 'rb') as file:
                    image = self.client.upload_image(file, f'random {form}', disk_format=form)
                self._copies(image, form, source, size)

    def _copies(self, image, form, source, size):
        """Ours and theirs in turn, so that a busy minute hits both."""
        target, ours, theirs, flushed = f'{source}.copy', [], [], []
        for _ in range(COPIES):
            seconds, volume = timed(lambda: self.volume(size=IMAGE_SIZE_GIB, imageRef=image))
            ours.append(seconds)
            self.client.delete(f'/volume/v3/volumes/{volume}')
            convert, flush = _converted(form, source, target)
            theirs.append(convert)
            flushed.append(convert + flush)
        self.cloud.images.store.digests = digests.Digests()      # as after a start
        hashed = timed(lambda: self.volume(size=IMAGE_SIZE_GIB, imageRef=image))[0]
        show(f'a volume of an image with {size} MiB of data, {form}', ours)
        show('    the first one after a start, which hashes it', [hashed])
        show('    qemu-img convert of the same file', theirs)
        part = statistics.median(ours) / statistics.median(flushed)
        show('    and with a flush', flushed,
             f'; ours takes {part:.0%}{"" if part <= NEEDED else " (110 % are wanted)"}')

    # ---- what a guest's QEMU sees

    def reads_and_writes(self):
        volume = self.volume()
        attachment = self.storage.attach(self.owner, volume, str(uuid.uuid4()))
        data = self.storage.connect(self.owner, attachment, {'host': 'far', 'ip': '192.0.2.1'}, '/dev/vdb')['data']
        authority = certificates.Authority(self.cloud.state_path / 'tls')
        pair, directory = authority.pair('far', ['far'], use=certificates.CLIENT), self.cloud.state_path / 'far'
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


def _converted(form, source, target):
    """Seconds of a conversion to a raw file, and of its flush."""
    convert, _done = timed(lambda: subprocess.run(['qemu-img', 'convert', '-f', form, '-O', 'raw', source, target],
                                                  check=True))
    with open(target, 'rb') as file:
        flush, _none = timed(os.fsync, file.fileno())
    os.unlink(target)
    return convert, flush


CONFIG = '''
[DEFAULT]
transport_url = {url}
state_path = {state}
host = storage
my_ip = 127.0.0.1
[volume]
port = {port}
volumes = -1
gigabytes = -1
[image]
free_disk_reserve = 0
[identity]
password_hash_rounds = 4
'''


def memory(directory, count):
    """Return the resident memory of nova-volume as a separate process."""
    broker, port = servers.virtual_host(), servers.free_port()
    config = directory / 'nova.conf'
    config.write_text(CONFIG.format(url=broker.url, state=directory, port=port))
    first = prepared.prepare(config, 'http://127.0.0.1:9')
    first.close()
    url, headers = f'http://127.0.0.1:{port}/volume/v3', {'X-Auth-Token': first.token}
    with open(directory / 'log', 'wb') as log:
        process = subprocess.Popen([prepared.BIN / 'nova-volume', '--config-file', config], stdout=log, stderr=log,
                                   env=prepared.environment())
    try:
        waiting.wait_for(lambda: servers.answers(port), 120, 'nova-volume')
        session = requests.Session()
        session.trust_env = False
        session.get(f'{url}/volumes', headers=headers).raise_for_status()
        begun = resident(process.pid)
        for _ in range(count):
            session.post(f'{url}/volumes', json={'volume': {'size': 1}}, headers=headers).raise_for_status()
        session.get(f'{url}/volumes/detail', headers=headers).raise_for_status()
        most = resident(process.pid)
    finally:
        process.terminate()
        process.wait(60)
    print(f'memory of nova-volume: {begun:.1f} MB after its start, {most:.1f} MB with {count} volumes'
          f'{"" if most <= MOST_MB else f" (at most {MOST_MB} are wanted)"}', flush=True)


def resident(pid):
    """MB, of a million bytes."""
    found = re.search(r'VmRSS:\s+(\d+) kB', pathlib.Path(f'/proc/{pid}/status').read_text())
    return int(found[1]) * 1024 / 1e6


def fetched(cloud, directory, count):
    """How often a host fetches an image for so many servers that are requested at once."""
    client, requested = cloud.client(version='2.60'), []
    image = client.upload_image((directory / 'guest.qcow2').read_bytes(), 'guest', disk_format='qcow2')
    download = cloud.images.download
    cloud.images.download = lambda ctx, ident, *more: requested.append(ident) or download(ctx, ident, *more)
    try:
        begun = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(CONCURRENCY) as pool:
            servers_ = list(pool.map(lambda number: client.boot(image, name=f'g{number}', networks='none')['id'],
                                     range(count)))
        for server in servers_:
            client.wait_for(server, timeout=BOOTS_S)
        seconds = time.perf_counter() - begun
    finally:
        del cloud.images.download
    for server in servers_:
        client.delete(f'/servers/{server}')
    for server in servers_:
        client.wait_for(server, 'DELETED', timeout=BOOTS_S)
    print(f'{count} servers of one image on one host: it was fetched {requested.count(image)} time(s), '
          f'{seconds:.1f} s until all are ACTIVE', flush=True)


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
