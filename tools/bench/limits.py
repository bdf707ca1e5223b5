#!/usr/bin/env python3
"""Compares data paths of the product with the same work done by hand: cp, hashes, virsh, qemu-img, a bare bridge.

usage: tools/bench/limits.py [--only upload,snapshot,volume,boot,traffic] [--guest DIRECTORY] [--repeat 3] [--mib 1024]

The product and the work by hand take turns, so that other work on the machine changes both. Each row has the medians
of both in seconds, their ratio, and the processor seconds of nova-all. The rows:

upload     PUT of an image of --mib MiB; by hand: cp, and the two checksums in two threads
snapshot   createImage of a running guest with --mib MiB of data; by hand: virsh backup-begin
volume     attach and detach of a volume; by hand: virsh attach-device and detach-device
boot       POST /servers until ACTIVE; by hand: virsh create of a guest with the same definition
traffic    between two ports of one host; by hand: between two devices on a bare bridge

upload needs nothing but the tree. The others need root; all but traffic a libvirt and --guest, the directory of
tools/guest-image.sh.
"""
import argparse
import contextlib
import hashlib
import http.client
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[2])]
from local_cloud import LocalCloud

MIB = 2 ** 20
PIECE = 1024 * 1024


def show(name, ours, by_hand, cpu, **more):
    """One row: medians of two lists of seconds, and of the processor seconds of nova-all."""
    one, other = statistics.median(ours), statistics.median(by_hand)
    print(f'{name:34} ours {one:7.3f} s  by hand {other:7.3f} s  ratio {one / other:5.2f}  '
          f'nova-all {statistics.median(cpu):6.3f} s of a processor',
          *(f'{key} {value}' for key, value in more.items()), flush=True)


def timed(function, *args):
    began = time.perf_counter()
    function(*args)
    return time.perf_counter() - began


@contextlib.contextmanager
def watched(cloud):
    """Yield a dict; at the end of the block it has the seconds of the wall and of nova-all's processor time."""
    found, cpu, began = {}, cloud.cpu_s(), time.perf_counter()
    yield found
    found.update(wall=time.perf_counter() - began, cpu=cloud.cpu_s() - cpu)


# ---- upload ------------------------------------------------------------------

def hashes(path):
    def one(algorithm):
        with open(path, 'rb') as file:
            hashlib.file_digest(file, algorithm)
    threads = [threading.Thread(target=one, args=(algorithm,)) for algorithm in ('md5', 'sha512')]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def put(cloud, path, image_id):
    base = urllib.parse.urlsplit(cloud.endpoints['image']).path.rstrip('/')
    connection = http.client.HTTPConnection('127.0.0.1', cloud.port, timeout=600)
    connection.blocksize = PIECE
    with open(path, 'rb') as file:
        connection.request('PUT', f'{base}/v2/images/{image_id}/file', file, {
            'X-Auth-Token': cloud.token, 'Content-Type': 'application/octet-stream',
            'Content-Length': str(os.path.getsize(path))})
        answer = connection.getresponse()
        text = answer.read()
    connection.close()
    if answer.status != 204:
        raise RuntimeError(f'upload: {answer.status} {text[:400]!r}')


def upload(args):
    cloud = LocalCloud()
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-limits.'))
    try:
        cloud.start()
        source, copy = directory / 'source', directory / 'copy'
        with open(source, 'wb') as file:
            for _each in range(args.mib):
                file.write(os.urandom(MIB))
        ours, cpu, by_cp, by_hash, peak = [], [], [], [], []
        for _round in range(args.repeat):
            image = cloud.json('POST', '/v2/images', {'name': 'limits', 'disk_format': 'raw',
                                                      'container_format': 'bare'}, service='image')
            (pathlib.Path('/proc') / str(cloud.process.pid) / 'clear_refs').write_text('5')      # the peak begins anew
            before = cloud.rss_mib()
            with watched(cloud) as found:
                put(cloud, source, image['id'])
            ours.append(found['wall'])
            cpu.append(found['cpu'])
            peak.append(peak_mib(cloud) - before)
            cloud.json('DELETE', f'/v2/images/{image["id"]}', service='image')
            by_cp.append(timed(shutil.copyfile, source, copy))
            copy.unlink()
            by_hash.append(timed(hashes, source))
        name = f'upload of {args.mib} MiB'
        show(name + ', cp', ours, by_cp, cpu, memory=f'+{max(peak):.0f} MiB')
        show(name + ', two hashes', ours, by_hash, cpu)
    finally:
        cloud.close()
        shutil.rmtree(directory)


def peak_mib(cloud):
    for line in pathlib.Path(f'/proc/{cloud.process.pid}/status').read_text().splitlines():
        if line.startswith('VmHWM:'):
            return int(line.split()[1]) / 1024


# ---- guests ------------------------------------------------------------------

PROMPT = '/ # '
POLL = 0.05                  # each look costs nova-all some milliseconds
WAIT_S = 600
FOUND_S = 3                  # in which a guest finds a disk that has come
BACKUP = '<domainbackup><disks><disk name="vda" backup="yes" type="file"><driver type="qcow2"/>' \
         '<target file="{path}"/></disk></disks></domainbackup>'
DISK = '<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="{path}"/>' \
       '<target dev="vdq" bus="virtio"/></disk>'
BEHIND = 600 * MIB           # where the data begins: the file system of the guest image is smaller


def virsh(*words):
    return subprocess.run(['virsh', '-q', '-c', 'qemu:///system', *map(str, words)], check=True, text=True,
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout


def until(condition, what):
    deadline = time.monotonic() + WAIT_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise RuntimeError(f'not in {WAIT_S} s: {what}')
        time.sleep(POLL)
    return found


class Guests:
    """An all-in-one with libvirt, and servers of the test guest."""

    def __init__(self, guest):
        self.cloud = LocalCloud(driver='libvirt', options=('[network]', 'driver = fake'))
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-limits.', dir='/var/tmp'))
        for path in (self.cloud.state, self.directory):              # QEMU's user passes through
            path.chmod(0o711)
        self.cloud.start()
        self.guest, self.made = guest, []
        self.flavor = self.cloud.json('POST', '/flavors', {'flavor': {
            'name': 'limits', 'ram': 256, 'vcpus': 1, 'disk': 8, 'id': 'limits'}})['flavor']['id']

    def image(self, mib=0):
        """The id of an image of the guest, with so much random data behind its file system."""
        path = self.directory / 'image.raw'
        subprocess.run(['qemu-img', 'convert', '-O', 'raw', self.guest / 'guest.qcow2', path], check=True)
        with open(path, 'r+b') as file:
            file.seek(BEHIND)
            for _each in range(mib):
                file.write(os.urandom(MIB))
        try:
            image = self.cloud.json('POST', '/v2/images', {'name': 'limits', 'disk_format': 'raw',
                                                           'container_format': 'bare'}, service='image')
            put(self.cloud, path, image['id'])
        finally:
            path.unlink()
        return image['id']

    def boot(self, image):
        """The id of a server that is ACTIVE."""
        server = self.cloud.json('POST', '/servers', {'server': {
            'name': 'limits', 'flavorRef': self.flavor, 'imageRef': image, 'networks': 'none'}}, version='2.37')
        ident = server['server']['id']
        until(lambda: self.status(ident) == 'ACTIVE', f'{ident} is ACTIVE')
        return ident

    def status(self, ident):
        server = self.cloud.json('GET', f'/servers/{ident}')['server']
        if server['status'] == 'ERROR':
            raise RuntimeError(f'{ident} is in ERROR: {server.get("fault")}')
        return server['status']

    def booted(self, ident):
        """Wait for the prompt of the guest."""
        action = {'os-getConsoleOutput': {'length': 20}}
        until(lambda: PROMPT in self.cloud.json('POST', f'/servers/{ident}/action', action)['output'],
              f'{ident} has booted')

    def act(self, ident, action, status):
        self.cloud.json('POST', f'/servers/{ident}/action', {action: None})
        until(lambda: self.status(ident) == status, f'{ident} is {status}')

    def delete(self, ident):
        self.cloud.json('DELETE', f'/servers/{ident}')
        until(lambda: self.cloud.call('GET', f'/servers/{ident}')[0] == 404, f'{ident} is gone')

    def close(self):
        self.cloud.close()
        shutil.rmtree(self.directory)


@contextlib.contextmanager
def guests(args):
    if args.guest is None:
        raise SystemExit('the rows of guests need --guest')
    made = Guests(args.guest)
    try:
        yield made
    finally:
        for ident in [each['id'] for each in made.cloud.json('GET', '/servers')['servers']]:
            made.delete(ident)
        made.close()


def snapshot(args):
    with guests(args) as made:
        cloud, ours, by_hand, cpu, written = made.cloud, [], [], [], []
        ident = made.boot(made.image(args.mib))
        made.booted(ident)
        copy, document = made.directory / 'copy.qcow2', made.directory / 'backup.xml'
        document.write_text(BACKUP.format(path=copy))
        for _round in range(args.repeat):
            before = written_mib(cloud)
            with watched(cloud) as found:
                image = cloud.json('POST', f'/servers/{ident}/action', {'createImage': {'name': 'copy'}},
                                   version='2.45')['image_id']
                until(lambda: cloud.json('GET', f'/v2/images/{image}', service='image')['status'] == 'active',
                      'the image is active')
            ours.append(found['wall'])
            cpu.append(found['cpu'])
            written.append(written_mib(cloud) - before)
            cloud.json('DELETE', f'/v2/images/{image}', service='image')
            until(lambda: cloud.json('GET', f'/servers/{ident}')['server']['OS-EXT-STS:task_state'] is None,
                  'the server has no task')
            by_hand.append(timed(backup, ident, document))
            copy.unlink()
        show(f'snapshot of {args.mib} MiB, backup-begin', ours, by_hand, cpu,
             written=f'{max(written):.0f} MiB by nova-all')


def written_mib(cloud):
    """MiB that nova-all itself has written with system calls."""
    for line in pathlib.Path(f'/proc/{cloud.process.pid}/io').read_text().splitlines():
        if line.startswith('wchar:'):
            return int(line.split()[1]) / MIB


def backup(ident, document):
    virsh('backup-begin', ident, document)
    until(lambda: 'Completed' in virsh('domjobinfo', ident, '--completed', '--keep-completed')
          and 'None' in virsh('domjobinfo', ident), 'the backup is complete')


def volume(args):
    with guests(args) as made:
        cloud = made.cloud
        ident = made.boot(made.image())
        made.booted(ident)
        disk, document = made.directory / 'disk.raw', made.directory / 'disk.xml'
        disk.touch()
        os.truncate(disk, 1 << 30)
        document.write_text(DISK.format(path=disk))
        held = cloud.json('POST', '/volumes', {'volume': {'size': 1}}, service='block-storage')['volume']['id']

        def is_now(status):
            return cloud.json('GET', f'/volumes/{held}', service='block-storage')['volume']['status'] == status

        def attached():
            return {line.split()[0] for line in virsh('domblklist', ident).splitlines() if line.strip()}
        until(lambda: is_now('available'), 'the volume is available')
        found = {'attach': ([], [], []), 'detach': ([], [], [])}
        path = f'/servers/{ident}/os-volume_attachments'
        for _round in range(args.repeat):
            for name, ask, status in (
                    ('attach', ('POST', path, {'volumeAttachment': {'volumeId': held}}), 'in-use'),
                    ('detach', ('DELETE', f'{path}/{held}'), 'available')):
                ours, _by_hand, cpu = found[name]
                with watched(cloud) as seen:
                    cloud.json(*ask)
                    until(lambda status=status: is_now(status), f'the volume is {status}')
                ours.append(seen['wall'])
                cpu.append(seen['cpu'])
                time.sleep(FOUND_S)
            for name, there in (('attach', True), ('detach', False)):
                began = time.perf_counter()
                virsh(f'{name}-device', ident, document, '--live')
                until(lambda there=there: ('vdq' in attached()) == there, name)
                found[name][1].append(time.perf_counter() - began)
                time.sleep(FOUND_S)
        for name, figures in found.items():
            show(f'{name} a volume, virsh', *figures)


def boot(args):
    with guests(args) as made:
        image, ours, by_hand, cpu = made.image(), [], [], []
        made.delete(made.boot(image))                # fetches the image
        document = made.directory / 'domain.xml'
        for _round in range(args.repeat):
            with watched(made.cloud) as seen:
                ident = made.boot(image)
            ours.append(seen['wall'])
            cpu.append(seen['cpu'])
            made.act(ident, 'os-stop', 'SHUTOFF')
            other = str(uuid.uuid4())
            name = virsh('domname', ident).strip()
            document.write_text(virsh('dumpxml', ident, '--inactive').replace(f'>{ident}<', f'>{other}<').replace(
                f'<name>{name}</name>', f'<name>limits-{other}</name>'))
            by_hand.append(timed(virsh, 'create', document))
            virsh('destroy', other)
            made.delete(ident)
        show('POST until ACTIVE, virsh create', ours, by_hand, cpu)


# ---- traffic -----------------------------------------------------------------

PINGS = 1000
SECONDS = 1
TURNS = 5                    # in each of --repeat
HEARS = """
import socket, time
sock, got, began = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0, None
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
sock.bind(("", 5002))
print(1, flush=True)
buffer = bytearray(2000)
while True:
    size = sock.recv_into(buffer)
    began = began or time.monotonic()
    if size == 1:
        break
    got += size
print(got, time.monotonic() - began)
"""
SENDS = """
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((sys.argv[1], 5002))
ends, data = time.monotonic() + float(sys.argv[2]), bytes(1400)
while time.monotonic() < ends:
    for _each in range(50):
        sock.send(data)
for _each in range(20):
    time.sleep(0.02)
    try:
        sock.send(b"x")
    except OSError:
        break
"""


def udp(source, sink):
    """Bits a second that arrive."""
    process = subprocess.Popen(['ip', 'netns', 'exec', sink.space, 'python3', '-c', HEARS], stdout=subprocess.PIPE,
                               text=True)
    try:
        process.stdout.readline()
        subprocess.run(['ip', 'netns', 'exec', source.space, 'python3', '-c', SENDS, sink.address, str(SECONDS)],
                       check=True)
        got, seconds = map(float, process.stdout.readline().split())
        return 8 * got / seconds
    finally:
        process.kill()
        process.wait()


def ping(source, sink):
    """Mean seconds of the faster 95 % of the round trips; each is printed in whole microseconds."""
    text = subprocess.run(['ip', 'netns', 'exec', source.space, 'ping', '-n', '-i', '0.002', '-c', str(PINGS),
                           sink.address], check=True, stdout=subprocess.PIPE, text=True).stdout
    times = sorted(float(word[5:]) for word in text.split() if word.startswith('time='))
    return statistics.mean(times[:len(times) * 95 // 100]) / 1000


def traffic(args):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / 'network'))
    import traffic as bridges
    with tempfile.TemporaryDirectory() as directory, bridges.guests(pathlib.Path(directory)) as (_world, ours, bare):
        for measure, name, unit, scale in ((udp, 'UDP, datagrams of 1,400 bytes', 'Gbit/s', 1e9),
                                           (ping, 'round trip of ping', 'us', 1e-6)):
            found = [(measure(*ours[:2]), measure(*bare[:2])) for _turn in range(args.repeat * TURNS)]
            one, other = (statistics.median(each) / scale for each in zip(*found, strict=True))
            ratio = statistics.median(mine / theirs for mine, theirs in found)
            print(f'{name:34} ours {one:7.2f} {unit}  bare bridge {other:7.2f} {unit}  ratio {ratio:5.2f}', flush=True)


ROWS = {'upload': upload, 'snapshot': snapshot, 'volume': volume, 'boot': boot, 'traffic': traffic}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--only', default=','.join(ROWS), help='some of these rows')
    parser.add_argument('--guest', type=pathlib.Path, help='directory of tools/guest-image.sh')
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--mib', type=int, default=1024, help='of an image, and of data of a guest')
    args = parser.parse_args()
    for name in args.only.split(','):
        ROWS[name](args)


if __name__ == '__main__':
    main()
