#!/usr/bin/env python3
"""Measures the all-in-one: starts nova-all on the fake driver and SQLite in a directory of its own and times the API.

usage: tools/bench/all_in_one.py [--servers 1000] [--concurrency 8] [--thread-model native|eventlet] [--json FILE]

Prints a row a measurement: median and 95th percentile in milliseconds, the rate, and the processor time of the cloud
per request, which a busy machine changes least. What a thousand requests would be needed for (hosts, volumes and
addresses of servers) is written into the database of the cell. Standard library only; run it with any Python, nova-all
is taken from PATH or from the tree's virtual environment.
"""
import argparse
import contextlib
import json
import os
import pathlib
import sqlite3
import statistics
import sys
import threading
import time
import urllib.parse
import uuid
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from local_cloud import LocalCloud

NEWEST = '2.104'
ROOM = ('[quota]', 'instances = -1', 'cores = -1', 'ram = -1', '[network]', 'quota = port:-1',
        '[fake]', 'vcpus = 100000', 'memory_mb = 100000000', 'local_gb = 10000000')
MANY = 1000                  # flavors and hypervisors present for their lists
CONCURRENCY = 8
POLL = 0.05                  # seconds between two looks at servers that change


class Bench:
    def __init__(self, cloud, servers, concurrency):
        self.cloud, self.servers, self.concurrency = cloud, servers, concurrency
        self.results = {}
        empty = cloud.state / 'empty.img'
        empty.write_bytes(b'\0' * 4096)
        self.image = cloud.add_image('bench', empty, 'raw')
        self.flavor = cloud.json('POST', '/flavors', {'flavor': {
            'name': 'bench', 'ram': 64, 'vcpus': 1, 'disk': 1, 'id': 'bench'}})['flavor']['id']

    def record(self, name, **figures):
        self.results[name] = figures
        print(f'{name:52}', '  '.join(f'{key} {value}' for key, value in figures.items()), flush=True)

    def measure(self, name, request, count, concurrency=1, warmup=3, seconds=20):
        for number in range(warmup):
            request(number)
        samples, lock, numbers, failed = [], threading.Lock(), iter(range(count)), []
        cpu, begin = self.cloud.cpu_s(), time.perf_counter()

        def worker(_):
            while time.perf_counter() - begin < seconds:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                start = time.perf_counter()
                status, _data = request(number)
                (samples if status < 300 else failed).append((time.perf_counter() - start) * 1000)
        with futures.ThreadPoolExecutor(concurrency) as pool:
            list(pool.map(worker, range(concurrency)))
        wall = time.perf_counter() - begin
        samples.sort()
        self.record(f'{name}, concurrency {concurrency}', median_ms=round(statistics.median(samples), 2),
                    p95_ms=round(samples[int(len(samples) * 0.95)], 2), per_s=round(len(samples) / wall, 1),
                    cpu_ms=round((self.cloud.cpu_s() - cpu) * 1000 / len(samples), 2), failed=len(failed))

    def create(self, name, count=1, **values):
        server = {'name': name, 'flavorRef': self.flavor, 'imageRef': self.image, 'networks': 'none', **values}
        if count > 1:
            server.update(min_count=count, max_count=count)
        return self.cloud.call('POST', '/servers', {'server': server}, version='2.37')

    def names(self, name, **query):
        query = urllib.parse.urlencode({'name': '^' + name, **query})
        return self.cloud.json('GET', '/servers?' + query)['servers']

    def settle(self, name):
        while self.names(name, status='BUILD', limit=1):
            time.sleep(POLL)
        wrong = self.names(name, status='ERROR', limit=1)
        if wrong:
            detail = self.cloud.json('GET', f'/servers/{wrong[0]["id"]}')['server']
            raise RuntimeError(f'{detail["name"]} is in ERROR: {detail.get("fault")}')

    def delete(self, name):
        while True:
            found = [server['id'] for server in self.names(name, limit=1000)]
            if not found:
                return
            with futures.ThreadPoolExecutor(self.concurrency) as pool:
                list(pool.map(lambda ident: self.cloud.call('DELETE', '/servers/' + ident), found))
            while self.names(name, limit=1):
                time.sleep(POLL)

    def boots(self, label, count=200):
        accepted, active = [], []
        for number in range(22):
            start = time.perf_counter()
            _status, data = self.create(f'bench-one-{number}')
            accepted.append((time.perf_counter() - start) * 1000)
            ident = json.loads(data)['server']['id']
            while self.cloud.json('GET', '/servers/' + ident)['server']['status'] != 'ACTIVE':
                time.sleep(0.005)
            active.append((time.perf_counter() - start) * 1000)
        for what, samples in (('POST /servers until 202', accepted[2:]), ('one server until ACTIVE', active[2:])):
            samples.sort()
            self.record(f'{label}{what}', median_ms=round(statistics.median(samples), 2),
                        p95_ms=round(samples[int(len(samples) * 0.95)], 2))
        self.delete('bench-one-')
        cpu, begin = self.cloud.cpu_s(), time.perf_counter()
        self.measure(f'{label}POST /servers', lambda number: self.create(f'bench-many-{number}'), count,
                     self.concurrency, warmup=0, seconds=300)
        self.settle('bench-many-')
        wall = time.perf_counter() - begin
        self.record(f'{label}{count} servers until all are ACTIVE', servers_per_s=round(count / wall, 1),
                    cpu_ms_per_server=round((self.cloud.cpu_s() - cpu) * 1000 / count, 1))
        cpu, begin = self.cloud.cpu_s(), time.perf_counter()
        self.delete('bench-many-')
        self.record(f'{label}{count} deletes until all are gone',
                    servers_per_s=round(count / (time.perf_counter() - begin), 1),
                    cpu_ms_per_server=round((self.cloud.cpu_s() - cpu) * 1000 / count, 1))
        begin = time.perf_counter()
        self.create('bench-batch', 100)
        self.settle('bench-batch')
        self.record(f'{label}one request of 100 until all are ACTIVE',
                    servers_per_s=round(100 / (time.perf_counter() - begin), 1))
        self.delete('bench-batch')

    def reads(self):
        missing = self.servers
        while missing > 0:
            self.create('bench-base', min(100, missing))
            missing -= 100
            self.settle('bench-base')
        get = self.cloud.call
        idents = [server['id'] for server in self.names('bench-base', limit=1000)]
        for concurrency in (1, self.concurrency):
            self.measure('GET / (version document)', lambda _: get('GET', '/'), 500, concurrency)
            self.measure('GET /flavors/detail', lambda _: get('GET', '/flavors/detail'), 300, concurrency)
            for version in ('2.1', NEWEST):
                self.measure(f'GET /servers/ID {version}', lambda number: get(
                    'GET', '/servers/' + idents[number % len(idents)], version=version), 500, concurrency)
                self.measure(f'GET /servers/detail?limit=100 {version}', lambda _: get(
                    'GET', '/servers/detail?limit=100', version=version), 100, concurrency)
                self.measure(f'GET /servers/detail?limit=1000 {version}', lambda _: get(
                    'GET', '/servers/detail?limit=1000', version=version), 30, concurrency)
            self.measure('GET /servers?limit=1000 2.1', lambda _: get('GET', '/servers?limit=1000'), 60, concurrency)
        self.full_reads()

    def full_reads(self):
        """Lists of servers that have everything, and of many flavors and hypervisors."""
        get = self.cloud.call
        self.fill_servers()
        for limit, count in ((100, 100), (1000, 30)):
            for concurrency in (1, self.concurrency):
                self.measure(f'GET /servers/detail?limit={limit} {NEWEST}, with all relations', lambda _: get(
                    'GET', f'/servers/detail?limit={limit}', version=NEWEST), count, concurrency)
        for number in range(MANY):
            self.cloud.json('POST', '/flavors', {'flavor': {
                'name': f'many-{number}', 'ram': 64, 'vcpus': 1, 'disk': 1}})
        with self.hypervisors():
            for path in ('/flavors/detail', '/os-hypervisors/detail'):
                for concurrency in (1, self.concurrency):
                    self.measure(f'GET {path} of {MANY} {NEWEST}', lambda _: get(
                        'GET', path, version=NEWEST), 30, concurrency)

    @contextlib.contextmanager
    def cell(self):
        """The database of the cell, in a transaction."""
        database = sqlite3.connect(self.cloud.state / 'cell1.sqlite', timeout=60)
        database.row_factory = sqlite3.Row
        with contextlib.closing(database), database:
            yield database

    def fill_servers(self):
        """Metadata, tags, a server group, addresses and a volume for every server, each of its own."""
        self.create('bench-net', networks='auto')
        self.settle('bench-net')
        with self.cell() as database:
            text = database.execute("SELECT network_info FROM instances WHERE display_name = 'bench-net'").fetchone()[0]
            port = json.loads(text)[0]
            address = port['network']['subnets'][0]['ips'][0]['address']
            for row in database.execute('SELECT id FROM instances').fetchall():
                number, own = row['id'], str(uuid.uuid4())
                database.execute(
                    'UPDATE instances SET metadata = ?, tags = ?, server_group_id = ?, network_info = ?, volumes = ? '
                    'WHERE id = ?', (
                        json.dumps({'role': 'web', 'number': str(number)}), f',web,n{number % 50},',
                        str(uuid.UUID(int=number % 10)),
                        text.replace(port['id'], own).replace(address, f'10.{number >> 16}.{number >> 8 & 255}.'
                                                                       f'{number & 255}'),
                        json.dumps([{'id': own, 'delete_on_termination': False}]), number))

    @contextlib.contextmanager
    def hypervisors(self):
        """Hosts that are not there, disabled so that no server goes to one; removed afterwards."""
        with self.cell() as database:
            for table, condition in (('services', "topic = 'compute'"), ('compute_nodes', '1 = 1')):
                row = dict(database.execute(f'SELECT * FROM {table} WHERE {condition} LIMIT 1').fetchone())
                names = [name for name in row if name != 'id']
                columns, marks = ', '.join(f'"{name}"' for name in names), ', '.join('?' * len(names))
                for number in range(MANY - 1):
                    made = {**row, 'uuid': str(uuid.uuid4()), 'host': f'bench-{number}', 'node': f'bench-{number}',
                            'disabled': True}
                    database.execute(f'INSERT INTO {table} ({columns}) VALUES ({marks})',
                                     [made[name] for name in names])
        try:
            yield
        finally:
            with self.cell() as database:
                for table in ('services', 'compute_nodes'):
                    database.execute(f"DELETE FROM {table} WHERE host LIKE 'bench-%'")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--servers', type=int, default=1000, help='servers present for the reads')
    parser.add_argument('--concurrency', type=int, default=CONCURRENCY)
    parser.add_argument('--thread-model', choices=('native', 'eventlet'), default='native')
    parser.add_argument('--json', help='also write the figures to this file')
    args = parser.parse_args()
    cloud = LocalCloud(thread_model=args.thread_model, options=ROOM, hash_rounds=None)
    try:
        load = os.getloadavg()[0]
        started = cloud.start()
        bench = Bench(cloud, args.servers, args.concurrency)
        bench.record('machine', cores=os.cpu_count(), load_before=round(load, 1))
        bench.record('first start until it serves', seconds=round(started, 2))
        time.sleep(2)
        bench.record('memory, idle', rss_mib=cloud.rss_mib())
        bench.boots('')
        bench.reads()
        bench.boots(f'with {args.servers} servers: ')
        bench.record('memory, afterwards', rss_mib=cloud.rss_mib())
    finally:
        cloud.close()
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {'thread_model': args.thread_model, 'cores': os.cpu_count(), 'results': bench.results}, indent=1) + '\n')


if __name__ == '__main__':
    main()
