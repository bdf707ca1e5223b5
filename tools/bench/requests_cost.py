#!/usr/bin/env python3
"""Measures what the requests that a fleet answers most cost the API: its processor time, with a database server.

usage: tools/bench/requests_cost.py [mariadb|mysqlclient|postgresql] [--rounds 9] [--profile REQUEST]

The application is called in this process, without HTTP, Keystone or RabbitMQ; the database server is one of its own.
The last row is the check of a token that Keystone has checked before, in front of an application that does nothing.
Prints for each request the least and the median of the rounds, in milliseconds of this process. --profile prints
instead where the calls of one of them go. Run it with the Python in which nova is installed.
"""
import argparse
import cProfile
import gc
import pathlib
import pstats
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from nova.runtime import concurrency

concurrency.setup()
from nova.identity import auth
from nova.tests import image_service
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import servers as fixtures
from nova.tests.integration import servers
from nova.tests.support import token_cache as test_token_cache

SERVERS = 1000


def requests(cloud):
    """{what it is: (number of them in a round, function)}"""
    client, ident = cloud.client(), cloud.idents[0]
    found = {}

    def get(path, version, count):
        found[f'GET {path.replace(ident, "ID")} {version}'] = count, lambda: answered(client.get(path, version=version))

    def answered(answer, expected=200):
        if answer.status != expected:
            raise SystemExit(f'{answer.status} {answer.body[:200]!r}')
    for version in ('2.1', '2.104'):
        get(f'/servers/{ident}', version, 200)
        get('/servers/detail?limit=1000', version, 5)
    get('/flavors/detail', '2.1', 200)
    get('/servers?limit=1000', '2.1', 10)
    body = cloud.body()
    found['POST /servers'] = 30, lambda: answered(client.post('/servers', body), 202)
    return found


def known_token(directory, keystone):
    """A function that checks one token."""
    def nothing(environ, start_response):
        start_response('200 OK', [])
        return []
    application = test_token_cache.guarded(keystone, pathlib.Path(directory), auth.KeystoneContext(nothing))
    environ = {'REQUEST_METHOD': 'GET', 'PATH_INFO': '/v2.1/servers', 'SCRIPT_NAME': '', 'QUERY_STRING': '',
               'HTTP_X_AUTH_TOKEN': 'g' * 180, 'HTTP_HOST': 'cloud.test', 'SERVER_NAME': 'cloud.test',
               'SERVER_PORT': '80', 'wsgi.url_scheme': 'http', 'wsgi.errors': sys.stderr, 'REMOTE_ADDR': '192.0.2.7'}
    return lambda: list(application(dict(environ), lambda status, headers, *more: None))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('database', nargs='?', default='mariadb', choices=list(servers.CLIENTS))
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--profile', metavar='REQUEST', help='the beginning of its name')
    args = parser.parse_args()
    keystone = test_token_cache.Keystone()
    with servers.CLIENTS[args.database]() as url_of, tempfile.TemporaryDirectory() as directory, \
            image_service.listening(keystone) as keystone.address:
        cloud = fixtures.Servers(directory, url_of=url_of, quota__instances=-1, quota__cores=-1, quota__ram=-1)
        rows = [server_rows.row(number, project_id=base.PROJECT) for number in range(SERVERS)]
        cloud.add_servers(*rows)
        cloud.idents = [row['uuid'] for row in rows]
        kinds = {**requests(cloud), 'a token that is known': (500, known_token(directory, keystone))}
        gc.collect()                                      # as daemons do
        gc.freeze()
        if args.profile:
            name = next(name for name in kinds if name.startswith(args.profile))
            count, function = kinds[name]
            function()
            profile = cProfile.Profile()
            profile.enable()
            for _ in range(count):
                function()
            profile.disable()
            print(name, count)
            pstats.Stats(profile).sort_stats('tottime').print_stats(60)
            cloud.close()
            return
        for name, (count, function) in kinds.items():
            took = []
            for number in range(args.rounds + 1):
                begin = time.process_time()
                for _ in range(count):
                    function()
                if number:                                # the first round fills caches
                    took.append((time.process_time() - begin) / count * 1000)
            print(f'{name:40} least {min(took):8.3f}  median {statistics.median(took):8.3f}', flush=True)
        cloud.close()


if __name__ == '__main__':
    main()
