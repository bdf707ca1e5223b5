#!/usr/bin/env python3
"""Times PutObject and GetObject of a large object, with the disk itself, and prints a table.

usage: tools/bench/storage/objectstore.py [--size 1000] [--rounds 5] [--thread-model native] [--directory /var/tmp]

One all-in-one is a process of its own; the client is this one, one connection of plain sockets. An object has --size
million bytes, is on the disk when the server answers, and is not in the memory of the machine when it is read. The
disk's own rate is that of a file of the same bytes in the same directory, written in pieces of 1 MiB and synced, and
read in such pieces. What one thread needs for a digest, and a connection for the bytes, is printed with it, and
which of them bounds each row. Rounds go through all rows, so that each meets the same neighbours; rates, and those in
parts of the disk's in the same round, are medians. "CPU" is the processor time of the server, "memory" how much its
process grew to at most while the row ran.
"""
import argparse
import hashlib
import http.client
import json
import os
import pathlib
import socket
import statistics
import sys
import threading
import time
import urllib.parse

TREE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TREE), str(TREE / 'tools')]

import local_cloud

from nova.tests.attacks import objects

PIECE = 1 << 20
CHUNK = 64 << 10                    # of signed chunks, as clients have them
SAMPLE_S = 0.02


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--size', type=int, default=1000, metavar='MB')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--thread-model', default='native', choices=('native', 'eventlet'))
    parser.add_argument('--directory', type=pathlib.Path, default=pathlib.Path('/var/tmp'))
    given = parser.parse_args()
    print(f'load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {given.size} MB, {given.thread_model}')
    os.environ['TMPDIR'] = str(given.directory)
    cloud = local_cloud.LocalCloud('fake', [
        '[network]', 'driver = fake', '[image]', 'free_disk_reserve = 0', '[objectstore]', 'enabled = true',
        'port = 0'], given.thread_model)
    try:
        cloud.start()
        Bench(cloud, given.size * 10 ** 6).run(given.rounds)
    finally:
        cloud.end()
        cloud.close()
    return 0


class Session:
    """Session interface that objects.S3 needs."""

    def __init__(self, port):
        self.urls = {'s3': f'http://127.0.0.1:{port}/objectstore'}


class Bench:
    """:param size: bytes of the object"""

    def __init__(self, cloud, size):
        self.cloud, self.size = cloud, size
        self.piece = os.urandom(PIECE)
        self.file = cloud.state / 'plain'
        self.s3 = objects.S3(Session(cloud.port), self.keys())
        self.pid = cloud.process.pid

    def keys(self):
        connection = http.client.HTTPConnection('127.0.0.1', self.cloud.port)
        head = {'X-Auth-Token': self.cloud.token, 'Content-Type': 'application/json'}
        connection.request('GET', '/identity/v3/auth/tokens', headers={**head, 'X-Subject-Token': self.cloud.token})
        token = json.loads(connection.getresponse().read())['token']
        connection.request('POST', f'/identity/v3/users/{token["user"]["id"]}/credentials/OS-EC2',
                           json.dumps({'tenant_id': token['project']['id']}), head)
        return json.loads(connection.getresponse().read())['credential']

    def run(self, rounds):
        self.ask('PUT', '/bench', {'content-length': '0'}, ())
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        unsigned, signed = {'x-amz-content-sha256': objects.UNSIGNED}, {'x-amz-content-sha256': digest.hexdigest()}
        rows = {'disk, written and synced': self.write, 'PutObject, unsigned': lambda: self.put(unsigned),
                'PutObject, with its SHA-256': lambda: self.put(signed),
                'PutObject, signed chunks of 64 KiB': self.put_chunks, 'disk, read': self.read,
                'GetObject': self.get}
        seconds, cpu = {name: [] for name in rows}, {name: [] for name in rows}
        memory = dict.fromkeys(rows, 0)
        self.put(unsigned)
        base = self.resident()
        print(f'memory of the process after a first object {base / 2 ** 20:.0f} MiB')
        for _round in range(rounds):
            for name, function in rows.items():
                peak, before = Peak(self.resident), self.worked()
                seconds[name].append(function())
                cpu[name].append(self.worked() - before)
                memory[name] = max(memory[name], peak.stop() - base)
        for name, found in seconds.items():
            disk = seconds['disk, read' if name == 'GetObject' else 'disk, written and synced']
            part = statistics.median(whole / each for whole, each in zip(disk, found, strict=True))
            more = (f' {part:6.0%} of the disk, CPU {statistics.median(cpu[name]):.2f} s, '
                    f'memory +{max(0, memory[name]) / 2 ** 20:.1f} MiB')
            rate = self.size / statistics.median(found) / 10 ** 6
            print(f'{name:36} {rate:7.0f} MB/s' + ('' if name.startswith('disk') else more))
        disk = self.rate(statistics.median(seconds['disk, written and synced']))
        read = self.rate(statistics.median(seconds['disk, read']))
        parts = {name: self.rate(function()) for name, function in {
            'SHA-256': lambda: self.count(hashlib.sha256), 'MD5': lambda: self.count(hashlib.md5),
            'a local connection': self.transfer}.items()}
        for name, rate in parts.items():
            print(f'{name + ", the same bytes":36} {rate:7.0f} MB/s')
        wire = parts['a local connection']
        for name, most in {'PutObject, unsigned': {'the disk': disk, 'a local connection': wire},
                           'PutObject, with its SHA-256': {'the disk': disk, 'a local connection': wire,
                                                           'SHA-256': parts['SHA-256']},
                           'GetObject': {'the disk': read, 'a local connection': wire}}.items():
            slowest = min(most, key=most.get)
            print(f'{name}: at most {most[slowest]:.0f} MB/s by {slowest}, and reaches '
                  f'{self.rate(statistics.median(seconds[name])) / most[slowest]:.0%} of that')

    def rate(self, seconds):
        """MB/s of the object in so many seconds."""
        return self.size / seconds / 10 ** 6

    def count(self, kind):
        """Seconds that one thread needs for the digest of the object, in pieces as the server reads them."""
        digest, piece = kind(), self.piece[:CHUNK]
        begun = time.perf_counter()
        for _ in range(self.size // CHUNK):
            digest.update(piece)
        return time.perf_counter() - begun

    def transfer(self):
        """Seconds that the object needs from one socket of this process to another one, and nothing else."""
        def send(sock):
            for piece in self.pieces():
                sock.sendall(piece)
            sock.close()
        with socket.create_server(('127.0.0.1', 0)) as server:
            begun = time.perf_counter()
            thread = threading.Thread(target=send, args=(socket.create_connection(server.getsockname()),))
            thread.start()
            taken, buffer = server.accept()[0], bytearray(PIECE)
            with taken:
                while taken.recv_into(buffer):
                    pass
        thread.join()
        return time.perf_counter() - begun

    def pieces(self):
        left = self.size
        while left:
            piece = self.piece[:min(PIECE, left)]
            left -= len(piece)
            yield piece

    def resident(self):
        with open(f'/proc/{self.pid}/statm') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE')

    def worked(self):
        with open(f'/proc/{self.pid}/stat') as file:
            fields = file.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    # ---- what is timed: seconds

    def write(self):
        self.file.unlink(missing_ok=True)
        begun = time.perf_counter()
        with open(self.file, 'wb') as file:
            for piece in self.pieces():
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        return time.perf_counter() - begun

    def read(self):
        forget(self.file)
        begun = time.perf_counter()
        with open(self.file, 'rb', buffering=0) as file:
            while file.read(PIECE):
                pass
        return time.perf_counter() - begun

    def put(self, headers):
        self.remove()
        begun = time.perf_counter()
        self.ask('PUT', '/bench/object', {**headers, 'content-length': str(self.size)}, self.pieces())
        return time.perf_counter() - begun

    def put_chunks(self):
        """Frames are made before the time begins: it is the server's that counts."""
        count, rest = divmod(self.size, CHUNK)
        lines = [f'{size:x};chunk-signature={"0" * 64}\r\n\r\n' for size in (CHUNK, rest, 0)]
        length = count * (CHUNK + len(lines[0])) + (rest + len(lines[1]) if rest else 0) + len(lines[2])
        kind = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD'
        sent = self.s3.signed('PUT', '/bench/object', headers={
            'x-amz-content-sha256': kind, 'x-amz-decoded-content-length': str(self.size)})
        frames = self.s3.framed(sent, (self.piece[:CHUNK] if number < count else self.piece[:rest]
                                       for number in range(count + bool(rest))))
        frames = list(frames)
        assert sum(map(len, frames)) == length
        self.remove()
        begun = time.perf_counter()
        self.send(sent, {'content-length': str(length)}, frames)
        return time.perf_counter() - begun

    def get(self):
        for path in (self.cloud.state / 'objects' / 'contents').glob('*/*'):
            forget(path)
        buffer, left = bytearray(PIECE), self.size
        begun = time.perf_counter()
        connection = self.begin(self.s3.signed('GET', '/bench/object'), {})
        answer = connection.getresponse()
        while left and (count := answer.readinto(buffer)):
            left -= count
        assert answer.status == 200 and not left, answer.status
        connection.close()
        return time.perf_counter() - begun

    def remove(self):
        """What was written before, as of the plain file: the blocks of a new one are the same for both."""
        connection = self.begin(self.s3.signed('DELETE', '/bench/object'), {})
        connection.getresponse().read()
        connection.close()

    def ask(self, method, path, headers, pieces):
        signed = {name: value for name, value in headers.items() if name.startswith('x-amz-')}
        self.send(self.s3.signed(method, path, headers=signed), headers, pieces)

    def send(self, sent, headers, pieces):
        connection = self.begin(sent, headers)
        for piece in pieces:
            connection.send(piece)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f'{sent["method"]} {sent["path"]}: {answer.status} {text[:300]!r}')

    def begin(self, sent, headers):
        url = urllib.parse.urlsplit(f'http://127.0.0.1:{self.cloud.port}/objectstore')
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=300)
        connection.putrequest(sent['method'], url.path + sent['path'], skip_host=True, skip_accept_encoding=True)
        for name, value in {**sent['headers'], **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


class Peak:
    """The largest of what a function gives, until it is stopped."""

    def __init__(self, function):
        self._function, self._most, self._ended = function, 0, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.wait(SAMPLE_S):
            self._most = max(self._most, self._function())

    def stop(self):
        self._ended.set()
        self._thread.join()
        return self._most


def forget(path):
    """Let the machine keep nothing of a file in its memory."""
    with open(path, 'rb') as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == '__main__':
    sys.exit(main())
