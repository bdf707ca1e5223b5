#!/usr/bin/env python3
"""Measures a call between two services of one process: the real bus, its threads, a server's object as argument.

usage: tools/bench/rpc.py [--thread-model native|eventlet] [--calls 2000] [--url URL] [--json]

Prints median and 95th percentile in milliseconds, and the processor time of this process for one call (both sides, the
broker not), for a small argument, for a whole instance, and for 8 callers at once. --url names a broker instead of the
bus of one process: rabbit://... and nova-rabbit://... are the two drivers for RabbitMQ. Run it with the Python in which
nova is installed.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import sys
import time
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from nova.runtime import concurrency


class Echo:
    def echo(self, context, value):
        return value


def measure(client, context, value, calls):
    samples = []
    for _ in range(calls + calls // 10):
        begin = time.perf_counter()
        client.echo(context, value=value)
        samples.append((time.perf_counter() - begin) * 1000)
    samples = sorted(samples[calls // 10:])              # the first ones start threads
    return {'median_ms': round(statistics.median(samples), 3), 'p95_ms': round(samples[int(len(samples) * 0.95)], 3)}


def counted(function, calls):
    """Its figures, and the processor time of a call."""
    spent = time.process_time()
    found = function()
    return {**found, 'cpu_ms': round((time.process_time() - spent) * 1000 / calls, 3)}


def at_once(client, context, value, calls, callers=8):
    begin = time.perf_counter()
    with futures.ThreadPoolExecutor(callers) as pool:
        list(pool.map(lambda _number: client.echo(context, value=value), range(calls)))
    return {'calls_per_s': round(calls / (time.perf_counter() - begin))}


def made(kind, row, calls):
    for _ in range(calls):
        kind.from_row(row)
    return {}


def _row(kind):
    """The row of a server, with a value in each column."""
    now = datetime.datetime(2026, 1, 1)
    values = {'UUID': 'c1fcfcbd-2a51-4d0a-9aa3-21b4b9d0f1a6', 'String': 'bench', 'UtcType': now, 'Integer': 1,
              'Boolean': False, 'JsonType': {'a': 'b'}}
    return {name: values[field.describe().removeprefix('Nullable').strip('_')] for name, field in kind.fields.items()}


def run(calls, url):
    # The thread model comes before any other import.
    from nova import conf
    from nova import context
    from nova import objects
    from nova.rpc import bus
    from nova.rpc import inprocess
    from nova.rpc import interface

    echo = interface.Interface('echo', '1.0', interface.Method('echo', ('value',), call=True))
    messages = bus.Bus(conf.new(files=[]), url or f'{inprocess.SCHEME}:///bench')
    server = messages.serve(echo, Echo(), 'host')
    server.start()
    client, admin = messages.client(echo), context.admin_context()
    row = _row(objects.Instance)
    instance = objects.Instance.from_row(row)
    try:
        every = calls + calls // 10
        return {'a small argument': counted(lambda: measure(client, admin, {'a': 1}, calls), every),
                'an instance, there and back': counted(lambda: measure(client, admin, instance, calls), every),
                'an instance made of its row': counted(lambda: made(objects.Instance, row, calls), calls),
                'a small argument, 8 callers': counted(lambda: at_once(client, admin, {'a': 1}, calls), calls)}
    finally:
        server.stop()
        server.wait(5)
        messages.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--thread-model', choices=concurrency.MODELS, default=concurrency.DEFAULT_MODEL)
    parser.add_argument('--calls', type=int, default=2000)
    parser.add_argument('--url', help='of a broker')
    parser.add_argument('--json', action='store_true', help='print one JSON document')
    args = parser.parse_args()
    concurrency.setup(args.thread_model)
    results = run(args.calls, args.url)
    if args.json:
        print(json.dumps(results))
        return
    for name, figures in results.items():
        where = args.url.partition(':')[0] if args.url else 'in-process'
        print(f'{where} call, {args.thread_model}, {name:28}',
              '  '.join(f'{key} {value}' for key, value in figures.items()))


if __name__ == '__main__':
    main()
