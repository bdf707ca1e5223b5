#!/usr/bin/env python3
"""Compares this tree with another one: the same requests to an all-in-one of each, in turns.

usage: tools/bench/trees.py OTHER_TREE [--servers 300] [--rounds 15] [--starts 1] [--thread-model native|eventlet]
                               [--only TEXT]

OTHER_TREE has a virtual environment with its own package (.venv), as tools/lib.sh makes it: a work tree of the commit
before a change, say. Both clouds have the fake driver and SQLite. In each round both get the same number of requests of
a kind, the one that begins changes, so that what else the machine does meets both. Prints for each kind the medians of
the rounds in milliseconds of this tree's processor time and of the other's, and the median of the ratio within a round:
this tree's rate in parts of the other's; below 1 this tree is slower. Ends with 1 when a ratio is below the bound.

Two starts of one tree differ by up to a tenth, by where the memory of the process lies. With ``--starts`` both clouds
are started so often, and the means of the starts are compared; the last column is their standard error.
"""
import argparse
import collections
import pathlib
import statistics
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import all_in_one
from local_cloud import LocalCloud

BOUND = 0.97


class Side:
    """One tree's cloud and the requests to it."""

    def __init__(self, tree, servers, thread_model):
        self.cloud = LocalCloud(thread_model=thread_model, options=all_in_one.ROOM, command=tree / '.venv/bin/nova-all',
                                hash_rounds=None)
        self.cloud.start()
        self.bench = all_in_one.Bench(self.cloud, servers, all_in_one.CONCURRENCY)

    def fill(self):
        for begin in range(0, self.bench.servers, 100):
            self.bench.create('bench-base', min(100, self.bench.servers - begin))
            self.bench.settle('bench-base')
        self.bench.fill_servers()
        self.idents = [server['id'] for server in self.bench.names('bench-base', limit=1000)]

    def get(self, path, count, version):
        for number in range(count):
            status, data = self.cloud.call(
                'GET', path.format(id=self.idents[number % len(self.idents)]), version=version)
            if status != 200:
                raise SystemExit(f'GET {path}: {status} {data[:200]!r}')

    def boots(self, count):
        """So many servers one by one until all are ACTIVE, and their deletes until all are gone."""
        for number in range(count):
            self.bench.create(f'bench-many-{number}')
        self.bench.settle('bench-many-')
        self.bench.delete('bench-many-')

    def batch(self, count):
        self.bench.create('bench-batch', count)
        self.bench.settle('bench-batch')
        self.bench.delete('bench-batch')

    def spent(self, work):
        """Processor time of the cloud that some work takes, in milliseconds."""
        before = self.cloud.cpu_s()
        work(self)
        return (self.cloud.cpu_s() - before) * 1000


def kinds():
    """[(what it is, requests a round, function(side) that makes them)]."""
    def get(path, count, version):
        return f'GET {path} {version}', count, lambda side: side.get(path, count, version)

    yield get('/', 300, '2.1')
    yield get('/flavors/detail', 200, '2.1')
    for version in ('2.1', all_in_one.NEWEST):
        yield get('/servers/{id}', 200, version)
        yield get('/servers/detail?limit=100', 30, version)
        yield get('/servers/detail?limit=1000', 15, version)
    yield get('/servers?limit=1000', 40, '2.1')
    yield 'boot and delete, one by one', 20, lambda side: side.boots(20)
    yield 'boot and delete, one request', 50, lambda side: side.batch(50)


def compare(sides, rounds, work, count):
    """(processor time of a request of this tree, of the other, other / this): medians of the rounds."""
    spent, ratios = ([], []), []
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        took = {which: sides[which].spent(work) / count for which in order}
        for which, figures in enumerate(spent):
            figures.append(took[which])
        ratios.append(took[1] / took[0])
    return *(statistics.median(figures) for figures in spent), statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('other', type=pathlib.Path)
    parser.add_argument('--servers', type=int, default=300)
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--starts', type=int, default=1)
    parser.add_argument('--thread-model', choices=('native', 'eventlet'), default='native')
    parser.add_argument('--only', default='', help='a part of the names of the requests that are compared')
    args = parser.parse_args()

    found = collections.defaultdict(list)
    for _ in range(args.starts):
        for what, figures in one_start(args):
            found[what].append(figures)
            show(what, figures)
    slower = []
    for what, starts in found.items():
        this, other, ratio = (statistics.mean(figures) for figures in zip(*starts))
        if args.starts > 1:
            ratio = other / this
            show(what, (this, other, ratio), f'+- {error(starts):.2f}, {args.starts} starts')
        if ratio < BOUND:
            slower.append(what)
    if slower:
        print(f'Below {BOUND} of the other tree: {", ".join(slower)}')
    return 1 if slower else 0


def one_start(args):
    """Yield (request, figures of ``compare``) of a cloud of each tree."""
    sides = []
    try:
        for tree in (pathlib.Path(__file__).resolve().parents[2], args.other.resolve()):
            sides.append(Side(tree, args.servers, args.thread_model))
            sides[-1].fill()
        time.sleep(2)
        for what, count, work in kinds():
            if args.only not in what:
                continue
            for side in sides:
                work(side)                            # not counted: it fills caches
            yield what, compare(sides, args.rounds, work, count)
    finally:
        for side in sides:
            side.cloud.close()


def error(starts):
    """The standard error of the ratio of the means."""
    this, other, _ratios = zip(*starts)
    spread = sum((statistics.stdev(figures) / statistics.mean(figures)) ** 2 for figures in (this, other))
    return statistics.mean(other) / statistics.mean(this) * (spread / len(starts)) ** 0.5


def show(what, figures, more=''):
    this, other, ratio = figures
    print(f'{what:44} this tree {this:8.3f} ms  the other {other:8.3f} ms  rate {ratio:5.2f} of the other  {more}',
          flush=True)


if __name__ == '__main__':
    sys.exit(main())
