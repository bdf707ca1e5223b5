#!/usr/bin/env python3
"""Many consoles through one process: its memory, its CPU time, and how long a key stroke takes.

    tools/bench/consoles.py [--sessions 200] [--seconds 20] [--rate 5]

Starts a nova-all with the fake driver, lets tokens lead to serial ports of its own that echo, and opens a session for
each, from several addresses of loopback, because one client has a bound. First no user types, then in each session
a user types so many keys a second. This process has the other ends: it competes for the processors.
"""
import argparse
import asyncio
import os
import pathlib
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

import requests
from websockets.asyncio import client as websocket
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from local_cloud import free_port

BIN = pathlib.Path(sys.executable).parent
PER_ADDRESS = 50


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sessions', type=int, default=200)
    parser.add_argument('--seconds', type=int, default=20)
    parser.add_argument('--rate', type=float, default=5, help='keys a second in each session')
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as state:
        log = open(os.path.join(state, 'log'), 'w')
        process = subprocess.Popen([BIN / 'nova-all', '--driver', 'fake', '--port', str(free_port()),
                                    '--state-path', state], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline()
            url = line.split()[4].rstrip(',')
            asyncio.run(measure(given, process.pid, url, pathlib.Path(state)))
        finally:
            process.terminate()
            process.wait()


class Client:
    """The compute API as the demo user."""

    def __init__(self, url, state):
        auth = yaml.safe_load((state / 'clouds.yaml').read_text())['clouds']['nova-demo']['auth']
        domain = {'id': 'default'}
        answer = requests.post(f'{url}/identity/v3/auth/tokens', json={'auth': {
            'identity': {'methods': ['password'], 'password': {'user': {
                'name': auth['username'], 'password': auth['password'], 'domain': domain}}},
            'scope': {'project': {'name': auth['project_name'], 'domain': domain}}}})
        self._url, self._headers = url, {'X-Auth-Token': answer.headers['X-Subject-Token'],
                                         'OpenStack-API-Version': 'compute 2.99'}

    def call(self, method, path, **more):
        headers = {**self._headers, **more.pop('headers', {})}
        answer = requests.request(method, self._url + path, headers=headers, **more)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def server(client):
    image = client.call('POST', '/image/v2/images', json={
        'name': 'x', 'disk_format': 'raw', 'container_format': 'bare'})
    client.call('PUT', f"/image/v2/images/{image['id']}/file", data=b'\0' * 1048576,
                headers={'Content-Type': 'application/octet-stream'})
    made = client.call('POST', '/compute/v2.1/servers', json={'server': {
        'name': 'x', 'imageRef': image['id'], 'flavorRef': '42', 'networks': 'none'}})['server']['id']
    while client.call('GET', f'/compute/v2.1/servers/{made}')['server']['status'] != 'ACTIVE':
        time.sleep(0.2)
    return made


async def measure(given, pid, url, state):
    async def echo(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()
    port = (await asyncio.start_server(echo, '127.0.0.1', 0)).sockets[0].getsockname()[1]
    client = Client(url, state)
    made = server(client)
    wanted = {'remote_console': {'protocol': 'serial', 'type': 'serial'}}
    urls = [client.call('POST', f'/compute/v2.1/servers/{made}/remote-consoles', json=wanted)['remote_console']['url']
            for _ in range(given.sessions)]
    with sqlite3.connect(state / 'cell1.sqlite') as database:
        database.execute("UPDATE console_auth_tokens SET host = '127.0.0.1', port = ?", (port,))
    before = memory(pid)
    begun = time.monotonic()
    sockets = [await opened(url, number) for number, url in enumerate(urls)]
    took, during = time.monotonic() - begun, memory(pid)
    print(f'{given.sessions} sessions opened in {took:.1f} s; resident memory {before:.0f} MiB before, {during:.0f} '
          f'MiB with them: {(during - before) * 1024 / given.sessions:.0f} KiB each')
    for what, rate in (('no user types', 0), (f'{given.rate:g} keys a second each', given.rate)):
        cpu, delays = processor(pid), []
        await asyncio.gather(*(type_at(one, rate, given.seconds, delays) for one in sockets))
        used = 100 * (processor(pid) - cpu) / given.seconds
        said = f'{what}: {used:.1f} % of one processor'
        if delays:
            delays = sorted(1000 * delay for delay in delays)
            said += (f'; {len(delays)} key strokes, until their echo: median {statistics.median(delays):.1f} ms, '
                     f'99 % {delays[len(delays) * 99 // 100]:.1f} ms, worst {delays[-1]:.1f} ms')
        print(said)
    for one in sockets:
        await one.close()


async def opened(url, number):
    parts = urllib.parse.urlsplit(url)
    sock = socket.socket()
    sock.bind((f'127.0.1.{1 + number // PER_ADDRESS}', 0))
    sock.connect((parts.hostname, parts.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return await websocket.connect(url, sock=sock, subprotocols=['binary'], compression=None, ping_interval=None)


async def type_at(one, rate, seconds, delays):
    end = time.monotonic() + seconds
    if not rate:
        await asyncio.sleep(seconds)
    while rate and time.monotonic() < end:
        begun = time.monotonic()
        await one.send(b'x')
        await one.recv()
        delays.append(time.monotonic() - begun)
        await asyncio.sleep(max(0, begun + 1 / rate - time.monotonic()))


def memory(pid):
    """MiB."""
    text = pathlib.Path(f'/proc/{pid}/status').read_text()
    return int(next(line for line in text.splitlines() if line.startswith('VmRSS')).split()[1]) / 1024


def processor(pid):
    """Seconds."""
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


if __name__ == '__main__':
    main()
