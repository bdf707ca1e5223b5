#!/usr/bin/env python3
"""Times the match of a path to its rows, over all rows of an API: for every path the best of some runs.

usage: tools/bench/routing.py [--calls 200] [--repeat 5]

Prints the median, the slowest paths, and whether all stay below the 30 us that ADR 0003 allows.
"""
import argparse
import timeit

from nova.api import app
from nova.web import mapper as mappers

MOST_US = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--calls', type=int, default=200)
    parser.add_argument('--repeat', type=int, default=5)
    args = parser.parse_args()

    rows = [row for row in app.all_routes() if row.api]
    mapper = mappers.Mapper(rows)
    found = []
    for path, method in sorted({(row.path, row.method) for row in rows}):
        segments = path.strip('/').replace('{', 'a').replace('}', 'b').split('/') if path != '/' else []
        runs = timeit.repeat(lambda: mapper.find(segments, method), number=args.calls, repeat=args.repeat)
        found.append((min(runs) / args.calls * 1e6, method, path))
    found.sort()
    print(f'{len(rows)} rows, {len({path for _us, _method, path in found})} paths: '
          f'median {found[len(found) // 2][0]:.1f} us')
    for us, method, path in found[-3:]:
        print(f'{us:6.1f} us  {method} {path}')
    return found[-1][0] > MOST_US


if __name__ == '__main__':
    raise SystemExit(main())
