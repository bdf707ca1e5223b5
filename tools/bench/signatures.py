#!/usr/bin/env python3
"""Measures what the signature of a message costs, at its sender and at its receiver, without a broker between.

usage: tools/bench/signatures.py [--messages 5000] [--json]

Prints medians in milliseconds for a small message and for one with a whole server. Run it with the Python in which nova
is installed.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))


def measure(keys, interface, ctxt, message, count):
    signing, checking = [], []
    for _ in range(count):
        begin = time.perf_counter()
        signed = keys.signed('conductor', None, ctxt, message)
        between = time.perf_counter()
        keys.check('conductor', 'control', interface, dict(signed), message)
        checking.append((time.perf_counter() - between) * 1000)
        signing.append((between - begin) * 1000)
    both = [sum(pair) for pair in zip(signing, checking)]
    return {'sign_ms': round(statistics.median(signing), 4), 'check_ms': round(statistics.median(checking), 4),
            'both_ms': round(statistics.median(both), 4)}


def run(count):
    from nova import context
    from nova import objects
    from nova.conductor import interface
    from nova.rpc import serializer
    from nova.rpc import signatures

    keys, key = signatures.Signatures('require'), signatures.Key()
    keys.key, keys.trusted = key, lambda ident: signatures.Trusted('host1', key.public)
    ctxt = serializer.Serializer(host='host1').serialize_context(context.admin_context())
    instance = objects.Instance(uuid='c1fcfcbd-2a51-4d0a-9aa3-21b4b9d0f1a6', host='host1', display_name='bench',
                                vm_state='active', metadata={'a': 'b'}, network_info=[{'id': str(n)} for n in range(8)])
    messages = {'a small message': {'host': 'host1'}, 'a server': {'instance': instance, 'host': 'host1'}}
    return {name: measure(keys, interface.INTERFACE, ctxt, {
        'method': 'instances_on_host', 'version': '1.0', 'args': serializer.to_primitive(arguments)}, count)
        for name, arguments in messages.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--messages', type=int, default=5000)
    parser.add_argument('--json', action='store_true', help='print one JSON document')
    args = parser.parse_args()
    results = run(args.messages)
    if args.json:
        print(json.dumps(results))
        return
    for name, figures in results.items():
        print(f'{name:16}', '  '.join(f'{key} {value}' for key, value in figures.items()))


if __name__ == '__main__':
    main()
