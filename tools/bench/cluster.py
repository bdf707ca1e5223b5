#!/usr/bin/env python3
"""Measures a fleet on one machine: separate processes, RabbitMQ, MariaDB, fake computes.

usage: tools/bench/cluster.py [figures] [boots] [heartbeats] [--computes 20] [--servers 100] [--driver pymysql]
       [--simulated 1000 10000] [--json F]

figures     what users see: times of boots, deletes, stops, reads and lists; at the end a table of them with what is
            wanted and with a calibration of the machine, by which runs of different machines can be compared. They
            are taken as the benchmark took its figures from which the wanted ones come: one server at a time on a
            cloud that is idle before its POST; and eight clients that only POST, or only DELETE, while one asks for
            the list five times a second. Besides, eight clients that each ask for their server fifty times a second
            until it is ACTIVE
boots       servers a second from POST to ACTIVE, messages and SQL statements of one boot, processor time of every
            process for a boot and a delete, memory of every daemon before and after
heartbeats  the load of many simulated computes: see tools/bench/simulated.py
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fleet import Fleet
from fleet import secrets_of

POLL_S, LIST_S = 0.02, 0.2
QUIET_S = 2                    # far more than a boot takes
HEARTBEATS = ('arrive', 'heartbeat', 'register_service', 'report_service', 'report_nodes')
MANY = 8000                    # simulated computes for which a second conductor is started
CALM_S = 10                    # seconds over which the load without servers is taken
ADDITIONS = 5_000_000          # of the calibration
# name of a figure: its key, what is wanted
WANTED = {
    'POST /servers until 202': ('median_ms', 12),
    'one server until ACTIVE': ('median_ms', 60),
    'POSTs at concurrency 8 until all ACTIVE': ('servers_per_s', 45),
    'one request of 100': ('servers_per_s', 100),
    'deletes at concurrency 8': ('servers_per_s', 60),
    'stop, SHUTOFF, start, ACTIVE': ('median_ms', 60),
    'GET /servers/ID, 2.1': ('median_ms', 2),
    'GET /flavors/detail, 2.1': ('median_ms', 1.5),
    'GET /servers/detail?limit=1000, 2.1': ('median_ms', 50),
    'GET /servers/detail?limit=1000, 2.104': ('median_ms', 60),
    'resident memory of an idle compute': ('mib', 55),
}


class Bench:
    def __init__(self, fleet):
        self.fleet, self.results = fleet, {}

    def record(self, name, **figures):
        self.results[name] = figures
        print(f'{name:44}', '  '.join(f'{key} {value}' for key, value in figures.items()), flush=True)

    def machine(self):
        self.record('machine', cores=os.cpu_count(), load=' '.join(f'{value:.1f}' for value in os.getloadavg()))

    def calibrate(self):
        """How fast the machine is: additions of Python, and 200 writes that reach the disk."""
        begin, total = time.perf_counter(), 0
        for number in range(ADDITIONS):
            total += number
        loop = time.perf_counter() - begin
        begin = time.perf_counter()
        with tempfile.TemporaryFile(dir=self.fleet.directory) as file:
            for _ in range(200):
                file.write(b'x' * 4096)
                file.flush()
                os.fsync(file.fileno())
        self.record('calibration', python_loop_s=round(loop, 4), fsync_ms=round(
            (time.perf_counter() - begin) * 5, 2))

    def compare(self):
        """Print what was measured next to what is wanted (rates: more is better), and times in loops."""
        loop_ms = self.results['calibration']['python_loop_s'] * 1000
        print(f'\n{"":44} {"measured":>9} {"wanted":>8} {"of wanted":>9} {"loops":>8}')
        for name, (key, wanted) in WANTED.items():
            found = self.results[name][key]
            took = {'median_ms': found, 'servers_per_s': 1000 / found}.get(key)
            loops = f'{took / loop_ms:8.4f}' if took is not None else f'{"":8}'
            print(f'{name:44} {found:9} {wanted:8} {found / wanted:9.2f} {loops} {key}', flush=True)

    # ---- what users see

    def figures(self, count):
        self.alone(20)
        self.posts(count)
        self.boots(count)
        self.one_request(100)
        self.stops()
        while (have := sum(self.fleet.states().values())) < 1000:
            self.fleet.create('many', min(100, 1000 - have))
            self.settle()
        ident = self.fleet.json('GET', '/servers?limit=1')['servers'][0]['id']
        for path, version in ((f'/servers/{ident}', '2.1'), ('/flavors/detail', '2.1'),
                              ('/servers/detail?limit=1000', '2.1'), ('/servers/detail?limit=1000', '2.104')):
            name = f'GET {path.replace(ident, "ID")}, {version}'
            self.timed(name, 20, lambda _number, path=path, version=version: self.fleet.call('GET', path,
                                                                                            version=version))
        self.deletes(count)
        self.record('resident memory of an idle compute', mib=max(
            rss for name, (_cpu, rss) in self.fleet.usage().items() if name.startswith('compute')))

    def timed(self, name, count, function):
        """The median and the 95th of 100 of what a call takes."""
        found = []
        for number in range(count):
            begin = time.perf_counter()
            function(number)
            found.append(time.perf_counter() - begin)
        self.times(name, found)

    def times(self, name, seconds):
        found = sorted(each * 1000 for each in seconds)
        self.record(name, median_ms=round(statistics.median(found), 1), p95_ms=round(
            found[int(len(found) * 0.95)], 1))

    def alone(self, count):
        """One server after the other, each gone before the next one."""
        accepted, active = [], []
        for number in range(count):
            begin = time.perf_counter()
            ident = self._post(number)
            accepted.append(time.perf_counter() - begin)
            self.wait_active(ident)
            active.append(time.perf_counter() - begin)
            self.fleet.json('DELETE', f'/servers/{ident}')
            while self.fleet.call('GET', f'/servers/{ident}')[0] != 404:
                time.sleep(POLL_S)
        self.times('POST /servers until 202', accepted)
        self.times('one server until ACTIVE', active)

    def _post(self, number):
        status, _headers, data = self.fleet.create(f'posted-{number}')
        if status != 202:
            raise RuntimeError(data)
        return json.loads(data)['server']['id']

    def settle(self):
        """Wait until no server is built any more: all are ACTIVE then."""
        while self.fleet.json('GET', '/servers?status=BUILD&limit=1')['servers']:
            time.sleep(LIST_S)
        if error := self.fleet.states().get('error'):
            raise RuntimeError(f'{error} servers are in ERROR')

    def stops(self):
        ident = self.fleet.json('GET', '/servers?limit=1')['servers'][0]['id']

        def cycle(_number):
            for action, wanted in (('os-stop', 'SHUTOFF'), ('os-start', 'ACTIVE')):
                self.fleet.json('POST', f'/servers/{ident}/action', {action: None})
                while self.fleet.json('GET', f'/servers/{ident}')['server']['status'] != wanted:
                    time.sleep(POLL_S / 4)
        self.timed('stop, SHUTOFF, start, ACTIVE', 10, cycle)

    def deletes(self, count):
        idents = [each['id'] for each in self.fleet.json('GET', f'/servers?limit={count}')['servers']]
        have, before, begin = sum(self.fleet.states().values()), self.fleet.usage(), time.perf_counter()
        with futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda ident: self.fleet.json('DELETE', f'/servers/{ident}'), idents))
        while self._left() > have - len(idents):
            time.sleep(LIST_S)
        self.record('deletes at concurrency 8', servers=len(idents), servers_per_s=round(
            len(idents) / (time.perf_counter() - begin), 1))
        self.cpu('  CPU of one delete, ms', before, len(idents))

    def _left(self):
        return sum(number for state, number in self.fleet.states().items() if state != 'deleted')

    # ---- boots

    def until_active(self, name):
        """Seconds from POST to ACTIVE of one server."""
        begin = time.perf_counter()
        self.wait_active(self._post(name))
        return time.perf_counter() - begin

    def wait_active(self, ident):
        while (state := self.fleet.json('GET', f'/servers/{ident}')['server']['status']) != 'ACTIVE':
            if state == 'ERROR':
                raise RuntimeError(f'{ident} is in ERROR')
            time.sleep(POLL_S)

    def posts(self, count, concurrency=8):
        """Clients that only POST; one asks for the list until no server is built any more."""
        before, begin = self.fleet.usage(), time.perf_counter()
        with futures.ThreadPoolExecutor(concurrency) as pool:
            list(pool.map(self._post, range(count)))
        accepted = time.perf_counter() - begin
        self.settle()
        wall = time.perf_counter() - begin
        self.record(f'POSTs at concurrency {concurrency} until all ACTIVE', servers_per_s=round(count / wall, 1),
                    accepted_per_s=round(count / accepted, 1))
        self.cpu('  CPU of one boot, ms', before, count)

    def boots(self, count, concurrency=8):
        before, begin = self.fleet.usage(), time.perf_counter()
        with futures.ThreadPoolExecutor(concurrency) as pool:
            seconds = sorted(pool.map(lambda number: self.until_active(f'one-{number}'), range(count)))
        wall = time.perf_counter() - begin
        self.record(f'POST to ACTIVE, concurrency {concurrency}', servers_per_s=round(count / wall, 1),
                    median_ms=round(statistics.median(seconds) * 1000), p95_ms=round(
                        seconds[int(count * 0.95)] * 1000))
        self.cpu('  CPU of one boot, ms', before, count)

    def one_request(self, count):
        before, begin = self.fleet.usage(), time.perf_counter()
        status, _headers, data = self.fleet.create('many', count)
        if status != 202:
            raise RuntimeError(data)
        self.settle()
        self.record(f'one request of {count}', servers_per_s=round(count / (time.perf_counter() - begin), 1))
        self.cpu('  CPU of one boot, ms', before, count)

    def cpu(self, name, before, count):
        spent = collections.Counter()
        for process, (seconds, _rss) in self.fleet.usage().items():
            spent[process.rstrip('0123456789')] += (seconds - before[process][0]) * 1000 / count
        self.record(name, **{process: round(value, 1) for process, value in sorted(spent.items())})

    def costs(self, count=10):
        """Messages and statements of one boot after the other, without those of the same time at rest."""
        messages, statements = Messages(self.fleet), Statements(self.fleet)
        with messages, statements:
            time.sleep(CALM_S)
            rest, rest_sql = messages.counts.copy(), statements.counts()
            begin = time.perf_counter()
            for number in range(count):
                status, _headers, data = self.fleet.create(f'cost-{number}')
                if status != 202:
                    raise RuntimeError(data)
                time.sleep(QUIET_S)              # no client asks meanwhile: the requests would count
            share = (time.perf_counter() - begin) / CALM_S
            sent = {name: (value - rest[name] - rest[name] * share) / count
                    for name, value in messages.counts.items() if name not in HEARTBEATS}
            done = {name: (value - rest_sql[name] - rest_sql[name] * share) / count
                    for name, value in statements.counts().items()}
        self.record('messages of one boot (budget 6)', **{name: round(value, 1) for name, value in sorted(
            sent.items()) if value > 0.05})
        self.record('  all', calls_and_casts=round(sum(value for name, value in sent.items()
                                                            if name != 'replies'), 1))
        self.record('SQL statements of one boot (budget 25)', **{name: round(value, 1) for name, value in sorted(
            done.items())})

    def memory(self, when='at rest'):
        found = collections.defaultdict(list)
        for name, (_cpu, rss) in self.fleet.usage().items():
            found[name.rstrip('0123456789')].append(rss)
        for name, values in sorted(found.items()):
            self.record(f'memory of {name} {when}', rss_mib=max(values))

    def credentials(self):
        """Places of the first compute's process that have the password of the database: none."""
        process = self.fleet.processes.get('compute1')
        if process is not None:
            found = secrets_of(process.pid, self.fleet.password, self.fleet.cell_db.url.port)
            self.record('database credentials in a compute', found=', '.join(found) or 'none')


class Statements:
    """Statements that the database has executed, by kind."""

    def __init__(self, fleet):
        self._db = fleet.cell_db

    def __enter__(self):
        self._set('ON')

    def __exit__(self, *_):
        self._set('OFF')

    def _set(self, value):
        with self._db.engine.connect() as conn:
            conn.exec_driver_sql("SET GLOBAL log_output = 'TABLE'")
            conn.exec_driver_sql(f'SET GLOBAL general_log = {value}')
            if value == 'ON':
                conn.exec_driver_sql('TRUNCATE mysql.general_log')

    def counts(self):
        with self._db.engine.connect() as conn:
            rows = conn.exec_driver_sql("SELECT argument FROM mysql.general_log WHERE command_type = 'Query'").scalars()
            return collections.Counter(_kind(text) for text in rows)


def _kind(text):
    text = bytes(text).decode(errors='replace') if not isinstance(text, str) else text
    word = text.split(None, 1)[0].upper() if text.strip() else ''
    if text in ('SELECT 1', 'select 1'):
        return 'pings'
    return 'statements' if word in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') else 'transactions'


class Messages:
    """Count published messages by method, with RabbitMQ's tracing."""

    def __init__(self, fleet):
        self._broker, self.counts = fleet.broker, collections.Counter()
        self._stopping = threading.Event()

    def _control(self, *arguments):
        cookie = (self._broker.directory / '.erlang.cookie').read_text()
        subprocess.run([self._broker._control, '-n', self._broker._environment['RABBITMQ_NODENAME'],
                        '--erlang-cookie', cookie, *arguments], check=True, stdout=subprocess.DEVNULL,
                       env=self._broker._environment)

    def __enter__(self):
        self._control('trace_on')
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join()
        self._control('trace_off')

    def _follow(self):
        import amqp
        with amqp.Connection(f'127.0.0.1:{self._broker.port}', 'guest', 'guest') as connection:
            channel = connection.channel()
            queue = channel.queue_declare('', exclusive=True).queue
            channel.queue_bind(queue, 'amq.rabbitmq.trace', 'publish.#')
            channel.basic_consume(queue, no_ack=True, callback=self._count)
            while not self._stopping.is_set():
                try:
                    connection.drain_events(timeout=0.5)
                except TimeoutError:
                    continue

    def _count(self, message):
        body = json.loads(message.body)
        inner = json.loads(body.get('oslo.message', '{}'))
        method = inner.get('method')
        if method is None:
            method = 'replies'
        self.counts[method] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', nargs='*', help='figures, boots, heartbeats; without a name all')
    parser.add_argument('--computes', type=int, default=20)
    parser.add_argument('--servers', type=int, default=200, help='of the measurements at concurrency 8')
    parser.add_argument('--driver', default='pymysql', choices=('pymysql', 'mysqldb'), help='driver of MariaDB')
    parser.add_argument('--simulated', type=int, nargs='*', default=[1000, 10000], help='numbers of simulated computes')
    parser.add_argument('--seconds', type=int, default=60, help='of the measurement of heartbeats')
    parser.add_argument('--json', help='also write the figures to this file')
    args = parser.parse_args()
    what, results = args.what or ['figures', 'boots', 'heartbeats'], {}
    if 'figures' in what:
        with Fleet(args.computes, driver=args.driver) as fleet:
            bench = Bench(fleet)
            bench.machine()
            bench.calibrate()
            fleet.flavor()
            bench.until_active('first')
            bench.figures(args.servers)
            bench.compare()
            results.update({f'figures: {name}': value for name, value in bench.results.items()})
    if 'boots' in what:
        with Fleet(args.computes, driver=args.driver) as fleet:
            bench = Bench(fleet)
            bench.machine()
            fleet.flavor()
            bench.memory()
            bench.until_active('first')
            bench.costs()
            bench.boots(args.servers)
            bench.one_request(100)
            bench.memory('after boots')
            bench.deletes(args.servers)
            bench.credentials()
            results.update(bench.results)
    if 'heartbeats' in what:
        import simulated
        for number in args.simulated:
            more = [f'conductor{each}' for each in range(2, 2 + number // MANY)]
            with Fleet(0, daemons=('conductor', *more, 'scheduler', 'network', 'api')) as fleet:
                bench = Bench(fleet)
                bench.machine()
                simulated.measure(bench, number, args.seconds)
                results.update({f'{number}: {name}': value for name, value in bench.results.items()})
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + '\n')


if __name__ == '__main__':
    main()
