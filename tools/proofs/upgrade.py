#!/usr/bin/env python3
"""Upgrade a deployment of the previous release under load, daemon by daemon, over RabbitMQ and a real database.

    tools/proofs/upgrade.py [mariadb|postgresql] [--computes 6] [--clients 4] [--servers 10] [--pause 5] [--keep DIR]

Ends with 0 when every request was served, no server was lost and every guest is where its row says.
"""
import argparse
import pathlib
import sys
import tempfile
import time

from nova.tests.integration import servers
from nova.tests.older_release import rolling
from nova.tests.older_release import tree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('database', nargs='?', choices=('mariadb', 'postgresql'), default='mariadb')
    for name, default in (('computes', 6), ('clients', 4), ('servers', 10)):
        parser.add_argument(f'--{name}', type=int, default=default)
    parser.add_argument('--pause', type=float, default=5, help='seconds of load between two replaced daemons')
    parser.add_argument('--keep', type=pathlib.Path, help='directory for logs; a temporary one unless given')
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = given.keep or pathlib.Path(temporary)
        (directory / 'old').mkdir(parents=True)
        old = tree.exported(directory / 'old')
        if old is None:
            sys.exit(f'This clone does not have {tree.PREVIOUS}: fetch the whole history.' if tree.PREVIOUS else
                     'There is no release before this one: rolling upgrades begin with 1.0.')
        with servers.rabbitmq() as broker, servers.DATABASES[given.database]() as database:
            fleet = rolling.Fleet(directory, broker.url, database, old, given.computes, given.clients, _say)
            try:
                result = fleet.upgrade(given.servers, given.pause)
            finally:
                fleet.end()
    for what, seconds in result.steps:
        print(f'{seconds:8.1f} s  {what}')
    print('answers:', ', '.join(f'{method} {code}: {number}' for (method, code), number in
                                sorted(result.answers.items())))
    print('servers made:', ', '.join(f'{number} {when}' for when, number in sorted(result.servers.items())))
    for failure in result.failures:
        print('FAILED:', failure)
    print('nothing was lost' if not result.failures else f'{len(result.failures)} failures')
    return 1 if result.failures else 0


def _say(sentence):
    print(time.strftime('%H:%M:%S'), sentence, flush=True)


if __name__ == '__main__':
    sys.exit(main())
