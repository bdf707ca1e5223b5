#!/usr/bin/env python3
"""Creates and deletes servers for long and prints what nova-all holds meanwhile: memory, threads, files, databases.

usage: tools/bench/soak.py [--servers 100000] [--every 5000] [--concurrency 8] [--most-slope MIB] [--owners]

nova-all runs on the fake driver and SQLite in a directory of its own. Each server gets a port; every tenth one has a
volume attached and is deleted with it. The volume is deleted afterwards. A row is printed every --every servers. The
last lines have the slope of the resident memory over the last half of the rows in MiB for 1,000 servers, and what is
left over: servers and volumes. The exit code is 1 if something is left over or the slope exceeds --most-slope.

--owners adds to each row what SQLite and the C library hold, which no tracer of Python sees. With --trace nova-all is
traced by tracemalloc from a quarter of the servers on, and the lines are printed that own the memory which came between
the middle and the end. Tracing makes nova-all several times slower; 1,000 servers are enough.
"""
import argparse
import ctypes
import gc
import itertools
import json
import os
import pathlib
import statistics
import sys
import threading
import time
import tracemalloc
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from local_cloud import LocalCloud

MIB = 2 ** 20
ROOM = ('[quota]', 'instances = -1', 'cores = -1', 'ram = -1', '[network]', 'quota = port:-1',
        '[volume]', 'backend = embedded', 'volumes = -1')
VOLUME_EACH = 10             # servers, one of which has a volume
POLL = 0.1                   # s: a shorter one makes half of the load requests that only ask
WAIT_S = 300                 # for one change of a server or volume
TRACED = 'NOVA_SOAK_TRACED'  # directory of the snapshots of a traced nova-all
FRAMES = 3                  # of the stacks that tracemalloc keeps
OWNERS = 25                  # that are printed


class Soak:
    """Servers that come and go."""

    def __init__(self, cloud):
        self.cloud = cloud
        empty = cloud.state / 'empty.img'
        empty.write_bytes(b'\0' * 4096)
        self.image = cloud.add_image('soak', empty, 'raw')
        self.flavor = cloud.json('POST', '/flavors', {'flavor': {
            'name': 'soak', 'ram': 64, 'vcpus': 1, 'disk': 1, 'id': 'soak'}})['flavor']['id']

    def one(self, number):
        """One server from its POST until it is gone."""
        cloud = self.cloud
        ident = cloud.json('POST', '/servers', {'server': {
            'name': f'soak-{number}', 'flavorRef': self.flavor, 'imageRef': self.image, 'networks': 'auto'}},
            version='2.37')['server']['id']
        self._until(lambda: self._status(ident) == 'ACTIVE', f'server {ident} is ACTIVE')
        volume = None
        if number % VOLUME_EACH == 0:
            volume = cloud.json('POST', '/volumes', {'volume': {'size': 1}}, service='block-storage')['volume']['id']
            self._until(lambda: self._volume(volume) == 'available', f'volume {volume} is available')
            cloud.json('POST', f'/servers/{ident}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}})
            self._until(lambda: self._volume(volume) == 'in-use', f'volume {volume} is in use')
        cloud.json('DELETE', f'/servers/{ident}')
        self._until(lambda: cloud.call('GET', f'/servers/{ident}')[0] == 404, f'server {ident} is gone')
        if volume:
            self._until(lambda: self._volume(volume) == 'available', f'volume {volume} is available again')
            cloud.json('DELETE', f'/volumes/{volume}', service='block-storage')
            self._until(lambda: self._volume(volume) is None, f'volume {volume} is gone')

    def _status(self, ident):
        server = self.cloud.json('GET', f'/servers/{ident}')['server']
        if server['status'] == 'ERROR':
            raise RuntimeError(f'server {ident} is in ERROR: {server.get("fault")}')
        return server['status']

    def _volume(self, ident):
        status, data = self.cloud.call('GET', f'/volumes/{ident}', service='block-storage')
        if status == 404:
            return None
        if status != 200:
            raise RuntimeError(f'volume {ident}: {status} {data[:200]!r}')
        found = json.loads(data)['volume']['status']
        if found.startswith('error'):
            raise RuntimeError(f'volume {ident} has the status {found}')
        return found

    @staticmethod
    def _until(condition, what):
        deadline = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f'not in {WAIT_S} s: {what}')
            time.sleep(POLL)

    def left_over(self):
        """[text] of servers and volumes that are still there."""
        self.cloud.local.connection = None           # of this thread, which has rested: the server has closed it
        servers = self.cloud.json('GET', '/servers/detail?all_tenants=1')['servers']
        volumes = self.cloud.json('GET', '/volumes/detail?all_tenants=1', service='block-storage')['volumes']
        return [*(f'server {each["id"]} {each["status"]}' for each in servers),
                *(f'volume {each["id"]} {each["status"]} {each["attachments"]}' for each in volumes)]


def row(cloud, servers, began):
    """Return the present resources of the process."""
    process = pathlib.Path('/proc') / str(cloud.process.pid)
    status = dict(line.split(':', 1) for line in (process / 'status').read_text().splitlines())
    sizes = {end: sum(path.stat().st_size for path in cloud.state.glob('*.sqlite' + end)) / MIB for end in ('', '-wal')}
    return {'servers': servers, 'minutes': round((time.monotonic() - began) / 60, 1),
            'resident MiB': round(int(status['VmRSS'].split()[0]) / 1024, 1),
            'threads': int(status['Threads']), 'files': len(list((process / 'fd').iterdir())),
            'databases MiB': round(sizes[''], 1), 'WAL MiB': round(sizes['-wal'], 1)}


def slope(rows):
    """MiB of resident memory for 1,000 servers, over the last half of the rows."""
    half = rows[len(rows) // 2:]
    return statistics.linear_regression([each['servers'] / 1000 for each in half],
                                        [each['resident MiB'] for each in half]).slope


def show(values):
    print('  '.join(f'{value:>13}' for value in values), flush=True)


def run(args):
    """(rows, what is left over, failures) of one soak."""
    cloud = LocalCloud(options=ROOM, command=os.path.abspath(__file__) if args.owners else None)
    if args.owners:
        os.environ[TRACED] = str(cloud.state)
    try:
        cloud.start()
        soak, rows, failures, began = Soak(cloud), [], [], time.monotonic()
        numbers, lock, count = itertools.count(), threading.Lock(), args.servers // args.every

        def work(until):
            while True:
                with lock:
                    number = next(numbers)
                    if number >= until:
                        return
                try:
                    soak.one(number)
                except Exception as error:
                    failures.append(f'server {number}: {error!r}')

        with futures.ThreadPoolExecutor(args.concurrency) as pool:
            for until in range(args.every, args.servers + 1, args.every):
                numbers = itertools.count(until - args.every)
                cloud.login()                                        # tokens end
                list(pool.map(work, [until] * args.concurrency))
                rows.append(row(cloud, until, began) | (ask(cloud.state, 'figures') if args.owners else {}))
                if len(rows) == 1:
                    show(rows[0])
                show(rows[-1].values())
                if args.trace and len(rows) in {count // part for part in (4, 2, 1)}:
                    ask(cloud.state, 'trace')
        if args.trace:
            print_owners(cloud.state)
        return rows, soak.left_over(), failures
    finally:
        cloud.close(keep=args.keep)
        if args.keep:
            print(f'kept: {cloud.state}')


# ---- owners of memory --------------------------------------------------------

def ask(directory, what):
    """Have a nova-all that answers here write its figures, or begin to trace or write a snapshot; its figures."""
    wanted = directory / 'wanted'
    (directory / 'wanted.part').write_text(what)
    (directory / 'wanted.part').rename(wanted)
    while wanted.exists():
        time.sleep(POLL)
    return json.loads((directory / 'figures.json').read_text())


def print_owners(directory):
    first, last = (tracemalloc.Snapshot.load(str(path)) for path in sorted(directory.glob('snapshot-*.trace'))[-2:])
    ignored = [tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, '<frozen importlib*>')]
    first, last = first.filter_traces(ignored), last.filter_traces(ignored)
    total = sum(each.size_diff for each in last.compare_to(first, 'filename'))
    print(f'Python objects: {total / MIB:+.2f} MiB between the two snapshots')
    for each in last.compare_to(first, 'traceback')[:OWNERS]:
        print(f'{each.size_diff / 1024:+10.1f} KiB  {each.count_diff:+6} blocks')
        for line in list(each.traceback)[-6:]:
            print(f'      {line}')


def answering():
    """nova-all that answers ``ask``."""
    directory = pathlib.Path(os.environ[TRACED])
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
    threading.Thread(target=_answer, args=(directory,), daemon=True).start()
    from nova.cmd import all as nova_all
    sys.argv[0] = 'nova-all'
    return nova_all.main()


def _answer(directory):
    wanted = directory / 'wanted'
    for number in itertools.count():
        while not wanted.exists():
            time.sleep(0.2)
        gc.collect()
        if wanted.read_text() == 'trace':
            if tracemalloc.is_tracing():
                tracemalloc.take_snapshot().dump(str(directory / f'snapshot-{number:03}.trace'))
            else:
                tracemalloc.start(FRAMES)
        (directory / 'figures.json').write_text(json.dumps(_figures()))
        wanted.unlink()


class _Malloc(ctypes.Structure):
    """struct mallinfo2 of glibc 2.33 and later: bytes of all arenas."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        'arena', 'ordblks', 'smblks', 'hblks', 'hblkhd', 'usmblks', 'fsmblks', 'uordblks', 'fordblks', 'keepcost')]


def _figures():
    libc, sqlite = ctypes.CDLL(None), ctypes.CDLL('libsqlite3.so.0')
    libc.mallinfo2.restype, sqlite.sqlite3_memory_used.restype = _Malloc, ctypes.c_int64
    found = libc.mallinfo2()
    return {'SQLite MiB': round(sqlite.sqlite3_memory_used() / MIB, 1),
            'malloc MiB': round((found.uordblks + found.hblkhd) / MIB, 1),
            'its free MiB': round(found.fordblks / MIB, 1), 'blocks': sys.getallocatedblocks()}


def main():
    if os.environ.get(TRACED):
        return answering()
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--servers', type=int, default=100_000)
    parser.add_argument('--every', type=int, default=5000, help='servers of one row')
    parser.add_argument('--concurrency', type=int, default=8)
    parser.add_argument('--most-slope', type=float, help='MiB for 1,000 servers')
    parser.add_argument('--owners', action='store_true', help='what SQLite and the C library hold')
    parser.add_argument('--trace', action='store_true', help='print which lines own the memory that came')
    parser.add_argument('--keep', action='store_true', help='keep the state directory')
    args = parser.parse_args()
    args.owners |= args.trace
    rows, left, failures = run(args)
    for text in [*failures[:20], *(f'left over: {each}' for each in left)]:
        print(text)
    found = slope(rows) if len(rows) > 3 else None
    if found is not None:
        print(f'{found:.2f} MiB of resident memory for 1,000 servers, over the last half')
    bad = bool(left or failures) or (args.most_slope is not None and (found is None or found > args.most_slope))
    return int(bad)


if __name__ == '__main__':
    sys.exit(main())
