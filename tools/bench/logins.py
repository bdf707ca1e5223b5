#!/usr/bin/env python3
"""What a flood of logins costs others: an all-in-one whose hashes are as slow as in production, 64 clients with random
names, and with them an honest client of the other faces and an honest login from another address.

    NOVA_THREAD_MODEL=eventlet tools/bench/logins.py --seconds 10
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from nova.runtime import concurrency

concurrency.setup()

import yaml

from nova.identity import hashing
from nova.identity import passwords
from nova.tests import login_flood
from nova.tests.functional import cloud as cloud_fixture

PATHS = ('/compute/v2.1/servers/detail', '/image/v2/images', '/network/v2.0/networks', '/identity/v3/auth/tokens')
ROUNDS = 11


def gets(client, seconds):
    """Seconds of each GET, of one client that asks the faces in turn."""
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        for path in PATHS:
            start = time.monotonic()
            answer = client.get(path, headers={'X-Subject-Token': client.token})
            found.append(time.monotonic() - start)
            assert answer.status_code == 200, answer.text
    return found


def logins(port, password, number, address='127.0.0.2'):
    """[(status, seconds)]"""
    return [login_flood.ask(port, address, login_flood.request('demo', password)) for _ in range(number)]


def shown(name, seconds):
    ordered = sorted(seconds)
    print(f'{name:34} median {statistics.median(ordered) * 1000:8.1f} ms   p95 '
          f'{ordered[int(len(ordered) * 0.95)] * 1000:8.1f} ms   longest {ordered[-1] * 1000:8.1f} ms   '
          f'({len(ordered)})')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seconds', type=float, default=10)
    parser.add_argument('--clients', type=int, default=64)
    options = parser.parse_args()
    start = time.monotonic()
    passwords.hashed('x', ROUNDS)
    print(f'{concurrency.model()} threads, {hashing.workers()} hashing; one hash takes '
          f'{(time.monotonic() - start) * 1000:.0f} ms')
    with tempfile.TemporaryDirectory() as directory, cloud_fixture.running(
            directory, identity__password_hash_rounds=ROUNDS) as cloud:
        port = int(cloud.url.rpartition(':')[2])
        password = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-demo']['auth']['password']
        client = cloud.client()
        shown('GET, quiet', gets(client, options.seconds / 2))
        shown('login, quiet', [seconds for _code, seconds in logins(port, password, 10)])
        with login_flood.running(port, options.clients) as answers:
            shown('GET, in the flood', gets(client, options.seconds))
            found = logins(port, password, 10)
        shown('login from elsewhere, in the flood', [seconds for _code, seconds in found])
        print(f'codes of those logins: {[code for code, _seconds in found]}; answers to the flood: {answers}')


if __name__ == '__main__':
    main()
