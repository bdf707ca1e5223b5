#!/usr/bin/env python3
"""Compares WSGI servers under the compute API: one worker each, the same databases, the same requests.

usage: tools/bench/wsgi_servers.py [--servers 1000] [--seconds 5] [--clients 8] [--only NAME …]

Needs wrk (a load generator that costs little itself) and, in the environment of this Python, gunicorn, Granian and
uWSGI; what is missing is left out and said. Prints a row a server: requests a second, median and 99th percentile in
milliseconds, and resident memory.
"""
import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from local_cloud import LocalCloud
from local_cloud import free_port

BIN = pathlib.Path(sys.executable).parent
VERSION = '2.104'
MODULE = 'nova.cmd.api_wsgi:application'
SERVERS = {
    # name: (command, environment)
    'nova-api, native threads': (['nova-api', '--config-file', '{conf}'], {}),
    'nova-api, eventlet': (['nova-api', '--config-file', '{conf}'], {'NOVA_THREAD_MODEL': 'eventlet'}),
    'gunicorn, sync': (['gunicorn', '--bind', '127.0.0.1:{port}', '--workers', '1', '--log-level', 'error', MODULE],
                       {}),
    'gunicorn, 8 threads': (['gunicorn', '--bind', '127.0.0.1:{port}', '--workers', '1', '--threads', '8',
                             '--log-level', 'error', MODULE], {}),
    'Granian, 1 thread': (['granian', '--interface', 'wsgi', '--port', '{port}', '--workers', '1',
                           '--blocking-threads', '1', '--no-log', MODULE], {}),
    'Granian, 8 threads': (['granian', '--interface', 'wsgi', '--port', '{port}', '--workers', '1',
                            '--blocking-threads', '8', '--no-log', MODULE], {}),
    # Behind its own router, which keeps the connections: a worker on --http11-socket serves one connection until it
    # ends, and the other clients wait.
    'uWSGI, 1 thread': (['uwsgi', '--http', '127.0.0.1:{port}', '--http-keepalive=75', '--master', '--processes', '1',
                         '--enable-threads', '--disable-logging', '--wsgi', MODULE], {}),
    'uWSGI, 8 threads': (['uwsgi', '--http', '127.0.0.1:{port}', '--http-keepalive=75', '--master', '--processes', '1',
                          '--threads', '8', '--enable-threads', '--disable-logging', '--wsgi', MODULE], {}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--servers', type=int, default=1000, help='servers in the database (%(default)s)')
    parser.add_argument('--seconds', type=int, default=5, help='of each measurement (%(default)s)')
    parser.add_argument('--clients', type=int, default=8, help='connections at once (%(default)s)')
    parser.add_argument('--only', nargs='*', default=list(SERVERS), metavar='NAME', choices=list(SERVERS))
    given = parser.parse_args()
    if not shutil.which('wrk'):
        sys.exit('wsgi_servers.py needs wrk: install the Debian package of that name.')
    cloud = LocalCloud('fake', ['[quota]', 'instances = -1', 'cores = -1', 'ram = -1', '[network]',
                                'quota = port:-1', '[fake]', 'vcpus = 100000', 'memory_mb = 100000000',
                                'local_gb = 10000000'])
    try:
        server_id = prepare(cloud, given.servers)
        print(f'{"server":26}{"requests":>12}{"median ms":>12}{"99 % ms":>12}{"RSS MiB":>10}   path')
        for name in given.only:
            measure(name, cloud, server_id, given)
    finally:
        cloud.close()


def prepare(cloud, count):
    """The id of one of ``count`` servers; the all-in-one that made them has ended."""
    cloud.start()
    disk = cloud.state / 'disk'
    disk.write_bytes(b'\0' * 4096)
    image = cloud.add_image('bench', disk, 'raw')
    body = {'server': {'name': 'bench', 'imageRef': image, 'flavorRef': '42', 'min_count': 100,
                       'metadata': {'a': 'b'}}}
    for _ in range(-(-count // 100)):
        first = cloud.json('POST', '/servers', body)['server']['id']
    while cloud.json('GET', '/servers?status=BUILD&limit=1')['servers']:
        time.sleep(0.2)
    cloud.end()
    return first


def measure(name, cloud, server_id, given):
    command, environ = SERVERS[name]
    executable = BIN / command[0]
    if not executable.exists():
        print(f'{name:26}left out: {command[0]} is not installed next to {sys.executable}.')
        return
    port = free_port()
    directory = cloud.state / 'wsgi'
    directory.mkdir(exist_ok=True)
    conf = directory / 'nova.conf'
    conf.write_text(f'[DEFAULT]\nstate_path = {cloud.state}\ntransport_url = nova-inprocess:///bench\n'
                    f'[http]\nport = {port}\n[identity]\nbackend = embedded\n')
    words = [word.format(conf=conf, port=port) for word in command[1:]]
    environ = {**os.environ, **environ, 'OS_NOVA_CONFIG_DIR': str(directory)}
    process = subprocess.Popen([executable, *words], env=environ, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for path in (f'/v2.1/servers/{server_id}', '/v2.1/servers/detail?limit=100'):
            url = f'http://127.0.0.1:{port}{path}'
            wait_for(url, cloud.token)
            out = subprocess.run(['wrk', '-t1', f'-c{given.clients}', f'-d{given.seconds}s', '--latency',
                                  '-H', f'X-Auth-Token: {cloud.token}',
                                  '-H', f'OpenStack-API-Version: compute {VERSION}', url],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
            rate = re.search(r'Requests/sec:\s+([\d.]+)', out)[1]
            bad = re.search(r'Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)', out)
            print(f'{name:26}{rate:>12}{percentile(out, 50):>12}{percentile(out, 99):>12}{rss(process.pid):>10}   '
                  f'{path.replace(server_id, "ID")}{f"   NOT CLEAN: {bad[0]}" if bad else ""}', flush=True)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(url, token, seconds=30):
    deadline = time.monotonic() + seconds
    request = urllib.request.Request(url, headers={'X-Auth-Token': token})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                answer.read()
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f'{url} did not answer: {error}') from None
            time.sleep(0.2)


def percentile(out, which):
    """Milliseconds, from wrk's table of percentiles."""
    number, unit = re.search(rf'^\s+{which}%\s+([\d.]+)(us|ms|s)', out, re.M).groups()
    return f'{float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]:.2f}'


def rss(pid):
    """MiB of a process and its children."""
    total = 0
    for status in pathlib.Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError, ValueError):
            fields = status.read_text().rpartition(')')[2].split()
            if int(fields[2]) == pid:                     # process group
                total += int(fields[21]) * os.sysconf('SC_PAGE_SIZE')
    return f'{total / 1048576:.0f}'


if __name__ == '__main__':
    main()
