#!/usr/bin/env python3
"""Times the match of a path to its row: the route tree, and the Routes library, where installed, over the same rows.

usage: tools/bench/routing.py
"""
import statistics
import timeit

from nova.api import app
from nova.api import routing

PATHS = ('/servers/detail', '/servers/0a/os-instance-actions/req-1', '/flavors/1/os-extra_specs/a', '/os-services')
CALLS = 2000


def report(name, match):
    samples = [min(timeit.repeat(lambda: match(path), number=CALLS, repeat=5)) / CALLS * 1e6 for path in PATHS]
    print(f'{name:8} {min(samples):6.2f} to {max(samples):6.2f} us, median {statistics.median(samples):6.2f}')


def main():
    rows = [row for row in app.all_routes() if row.api]
    print(f'{len(rows)} rows')
    tree = routing.Tree(rows)
    report('tree', lambda path: tree.find(path.strip('/').split('/'), 'GET'))
    try:
        import routes
    except ImportError:
        print('Routes is not installed')
        return
    mapper = routes.Mapper()
    for row in rows:
        mapper.connect(row.path, controller=row.path)
    mapper.create_regs()
    report('Routes', mapper.match)


if __name__ == '__main__':
    main()
