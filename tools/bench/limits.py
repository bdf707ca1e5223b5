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
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[2])]
from local_cloud import LocalCloud

MIB = 2 ** 20
PIECE = 1024 * 1024


def show(name, ours, by_hand, cpu, **more):
    """One row: medians of two lists of seconds, and of the processor seconds of nova-all."""
    one, other = statistics.median(ours), statistics.median(by_hand)
    print(f'{name:34} ours {one:7.3f} s  by hand {other:7.3f} s  ratio {one / other:5.2f}  '
          f'nova-all {statistics.median(cpu):6.3f} s of a processor', *(f'{key} {value}' for key, value in more.items()),
          flush=True)


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


ROWS = {'upload': upload}


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
