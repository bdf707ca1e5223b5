#!/usr/bin/env python3
"""Hostile connections along with honest clients of an all-in-one with fake computes, and of its metadata service.

usage: tools/bench/http_flood.py [--model native|eventlet] [--count 500] [--clients 20] [--usual 10] [--seconds 120]

It prints for each request of the honest clients how often it was answered, its median and its worst time in ms, alone
and during the flood, and what was wrong. Exit code 1: an answer was wrong, or a median more than doubled (plus 250 ms).
The test of the same kind, which takes some 20 seconds, is nova/tests/perf/test_http_flood.py.
"""
import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from nova.runtime import concurrency


def show(title, found):
    print(f'{title:44}{"usual":>8}{"median":>10}{"worst":>10}{"flooded":>12}{"median":>10}{"worst":>10}')
    for name, before in found['usual']['answers'].items():
        after = found['flooded']['answers'][name]
        print(f'{name:44}{before["count"]:8}{before["median_ms"]:10}{before["worst_ms"]:10}'
              f'{after["count"]:12}{after["median_ms"]:10}{after["worst_ms"]:10}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', choices=concurrency.MODELS, default='native')
    parser.add_argument('--count', type=int, default=500, help='hostile connections')
    parser.add_argument('--clients', type=int, default=20, help='honest clients')
    parser.add_argument('--usual', type=int, default=10, help='seconds without the flood')
    parser.add_argument('--seconds', type=int, default=120, help='seconds with it')
    given = parser.parse_args()
    concurrency.setup(given.model)

    from nova.tests.functional import cloud as cloud_fixture
    from nova.tests.perf import http_flood
    from nova.tests.support import http_flood as flooding

    sizes = {'count': given.count, 'clients': given.clients, 'usual_s': given.usual, 'flood_s': given.seconds}
    wrong = []
    with tempfile.TemporaryDirectory() as directory, cloud_fixture.running(
            pathlib.Path(directory), metadata__request_rate=10000) as cloud:
        for title, compare in (('all-in-one', flooding.flood), ('metadata', flooding.flood_metadata)):
            found = compare(cloud, **sizes)
            show(f'{title}, {given.model}', found)
            wrong += http_flood.late(found)
    print('\n'.join(wrong) or 'no answer was late')
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main())
