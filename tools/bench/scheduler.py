#!/usr/bin/env python3
"""Measures the scheduler on simulated hosts: rows of compute nodes and services, and nothing behind them.

usage: tools/bench/scheduler.py [PART …] [--hosts 10000] [--database mariadb|mysqlclient|postgresql|sqlite]
                                [--callers 16] [--servers 8000] [--png FILE]

Parts, all by default:
  decision   one server's choice without a database, by the default filters and weighers, at 1,000 to 100,000 hosts,
             where all hosts would do and where one of a hundred would; --png draws the curve (needs matplotlib)
  refresh    the table's look at the database after 1,000 hosts have changed: their usage, then other columns
  memory     resident memory of a process with the table of --hosts hosts, before it and with it
  placement  durable placements a second of one scheduler process with --callers callers, then the latency at half of
             that rate; and how many servers the fullest of the hosts has, all of which were equal
MariaDB (mysqlclient: by the driver in C) and PostgreSQL are started privately and are gone at the end. Latencies
in milliseconds.
"""
import argparse
import contextlib
import itertools
import multiprocessing
import os
import pathlib
import signal
import statistics
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from nova.runtime import concurrency

PARTS = ('decision', 'refresh', 'memory', 'placement')
WARM = 5              # decisions that find out what a view remembers
SIZES = (1000, 2000, 5000, 10000, 20000, 50000, 100000)
AMOUNTS = {'vcpus': 1, 'memory_mb': 512, 'local_gb': 1}
CHANGED = 1000
CHUNK = 1000
CPU = {'arch': 'x86_64', 'model': 'EPYC', 'vendor': 'AMD',
       'topology': {'cells': 2, 'sockets': 1, 'cores': 32, 'threads': 2},
       'features': [f'feature{number}' for number in range(100)]}


def node(number, **values):
    """The columns of a compute node."""
    from nova import utils
    now = utils.utcnow()
    return {'uuid': str(uuid.UUID(int=number)), 'host': f'compute-{number:06}', 'node': f'node-{number:06}',
            'created_at': now, 'updated_at': now, 'change_number': utils.change_number(), 'usage_change_number': 0,
            'hypervisor_type': 'QEMU', 'hypervisor_version': 8002002, 'host_ip': '192.0.2.1', 'cpu_info': CPU,
            'vcpus': 128, 'memory_mb': 262144, 'local_gb': 8000, 'reserved_memory_mb': 512, 'reserved_disk_gb': 0,
            'cpu_allocation_ratio': 4.0, 'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0, 'vcpus_used': 0,
            'memory_mb_used': 0, 'local_gb_used': 0, 'running_vms': 0,
            'capabilities': {f'supports_{number}': True for number in range(30)},
            'supported_instances': [['x86_64', 'kvm', 'hvm']], **values}


def service(number):
    from nova import utils
    return {'uuid': str(uuid.UUID(int=number)), 'host': f'compute-{number:06}', 'binary': 'nova-compute',
            'topic': 'compute', 'availability_zone': 'nova', 'version': 1, 'created_at': utils.utcnow(),
            'last_seen_at': utils.utcnow(), 'disabled': False, 'forced_down': False}


def view(count, eligible):
    """A view of so many hosts, of which one in ``eligible`` has room."""
    from nova.scheduler import host_view
    shared, rows = node(0), []
    for number in range(count):
        full = number % eligible
        rows.append({**shared, 'id': number + 1, 'host': f'compute-{number:06}', 'node': f'node-{number:06}',
                     'cell': 'c', 'memory_mb_used': 262144 if full else number % 7 * 4096, 'vcpus_used': number % 7 * 8,
                     'local_gb_used': number % 5 * 100, 'aggregates': [], **{
                         name: service(0)[name] for name in ('availability_zone', 'disabled', 'forced_down',
                                                             'last_seen_at')}})
    return host_view.Hosts(rows)


def spec(server, index=0):
    """The request of one server."""
    from nova import objects
    from nova.tests import server_rows
    return objects.RequestSpec(
        instance_uuid=server, project_id='p', user_id='u', flavor={**server_rows.FLAVOR, 'extra_specs': {}},
        image={'id': server_rows.IMAGE_ID, 'properties': {}}, availability_zone=None, requested_networks='none',
        security_groups=[], injected_files=[], admin_password=None, block_devices=[], hints={}, force_host=None,
        force_node=None, requested_host=None, requested_node=None, retry_hosts=[], num_instances=1)


# ---- parts -------------------------------------------------------------------

def decision(args):
    from nova import conf as nova_conf
    from nova.scheduler import filters
    from nova.scheduler import pipeline
    from nova.scheduler import placement_request
    from nova.scheduler import weights

    conf = nova_conf.new(files=[])
    using, weighers = filters.load(conf, conf.filter_scheduler.enabled_filters), weights.load(conf)
    print(f'{"decision":28}{"all hosts: median":>18}{"p99":>8}{"1 % of them: median":>21}{"p99":>8}')
    curve = []
    for count in SIZES:
        row = []
        for eligible in (1, 100):
            hosts, times = view(count, eligible).copy(), []
            for _ in range(WARM + max(200, 2_000_000 // count)):
                server = str(uuid.uuid4())
                request = placement_request.Request(AMOUNTS, spec=spec(server))
                begin = time.perf_counter()
                ranking, = pipeline.choose(hosts, request, using, weighers, [server],
                                           enough_hosts=pipeline.MAX_CANDIDATES)
                hosts.consume(ranking[0], AMOUNTS)
                times.append((time.perf_counter() - begin) * 1000)
            times = sorted(times[WARM:])
            row += [statistics.median(times), times[int(len(times) * 0.99)]]
        curve.append((count, row[0], row[2]))
        print(f'{count:>10,} hosts{"":12}{row[0]:>18.3f}{row[1]:>8.3f}{row[2]:>21.3f}{row[3]:>8.3f}', flush=True)
    if args.png:
        draw(args.png, curve)


def draw(path, curve):
    try:
        import matplotlib
    except ImportError:
        print('The curve is not drawn: matplotlib is not installed.')
        return
    matplotlib.use('Agg')
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 4))
    counts = [count for count, _, _ in curve]
    axes.loglog(counts, [found for _, found, _ in curve], 'o-', label='all hosts would do')
    axes.loglog(counts, [found for _, _, found in curve], 's-', label='1 % of them would do')
    axes.loglog(counts, [curve[-1][1] * count / counts[-1] for count in counts], ':', color='grey', label='linear')
    axes.set_xlabel('hosts')
    axes.set_ylabel('one decision, median, ms')
    axes.grid(True, which='both', alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f'The curve is in {path}.')


class Cloud:
    """Databases with hosts, and a scheduler."""

    def __init__(self, url_of, count):
        from nova import conf as nova_conf
        from nova.db import engine
        from nova.db import schema as migration
        from nova.db.cells import cells
        from nova.db.tables import cell as tables_cell
        import sqlalchemy as sa

        self.conf = nova_conf.new(files=[], service_down_time=86400)
        self.api_db, self.db = (engine.Database(url_of(name), max_overflow=100) for name in ('api', 'cell'))
        for branch, db in (('api', self.api_db), ('cell', self.db)):
            migration.metadata(branch).create_all(db.engine)
        self.cells = cells.Cells(self.conf, self.api_db, self.db)
        for table, row in ((tables_cell.compute_nodes, node), (tables_cell.services, service)):
            for begin in range(0, count, CHUNK):
                with self.db.writer() as conn:
                    conn.execute(sa.insert(table), [row(number) for number in range(begin, min(begin + CHUNK, count))])

    def scheduler(self):
        from nova.scheduler import manager
        made = manager.SchedulerManager(self.conf, self.api_db, self.cells)
        made.start()
        return made

    def servers(self, count):
        """Uuids of servers that wait for a host."""
        from nova.tests import server_rows
        made = []
        for begin in range(0, count, CHUNK):
            rows = [server_rows.row(number, host=None, node=None, availability_zone=None, vm_state='building',
                                    task_state='scheduling', network_info=[]) for number in range(begin, begin + CHUNK)]
            with self.db.writer() as conn:
                server_rows.insert(conn, rows)
            made += [row['uuid'] for row in rows]
        return made[:count]

    def close(self):
        self.api_db.dispose()
        self.db.dispose()


@contextlib.contextmanager
def cloud(args, count):
    from nova.tests.integration import servers
    with servers.DATABASES[args.database.replace('mysqlclient', 'mariadb')]() as url_of:
        driver = ('+pymysql', '+mysqldb') if args.database == 'mysqlclient' else ('', '')
        made = Cloud(lambda name: url_of(name).replace(*driver), count)
        try:
            yield made
        finally:
            made.close()


def refresh(args):
    from nova import utils
    from nova.db.tables import cell as tables_cell
    from nova.scheduler import host_table
    import sqlalchemy as sa

    nodes = tables_cell.compute_nodes
    with cloud(args, args.hosts) as made:
        table = host_table.HostTable(made.cells)
        begin = time.perf_counter()
        table.hosts()
        took = (time.perf_counter() - begin) * 1000
        print(f'{args.hosts:,} hosts, {args.database}: the table is read in {took:.0f} ms')
        for what, number, columns in (
                ('nothing has changed', None, ()),
                (f'{CHANGED} hosts: usage', 'usage_change_number', ('memory_mb_used', 'vcpus_used', 'running_vms')),
                (f'{CHANGED} hosts: other columns', 'change_number', ('reserved_memory_mb',))):
            times = []
            for _ in range(11):
                time.sleep(0.2)                            # what has just been seen is not read again
                with made.db.writer() as conn:
                    for name in columns:
                        conn.execute(sa.update(nodes).where(nodes.c.id <= CHANGED).values(
                            {name: nodes.c[name] + 1, number: utils.change_number()}))
                begin = time.perf_counter()
                table.hosts()
                times.append((time.perf_counter() - begin) * 1000)
            print(f'refresh, {what:30} median {statistics.median(times):8.2f}  largest {max(times):8.2f}', flush=True)


def memory(args):
    """In a process of its own."""
    found = multiprocessing.get_context('spawn').Pool(1)
    with found as pool:
        before, after = pool.apply(_memory, (args,))
    print(f'memory: {before:.0f} MB before, {after:.0f} MB with {args.hosts:,} hosts')


def _memory(args):
    args.database = 'sqlite'
    with cloud(args, args.hosts) as made:
        before = _resident()
        scheduler = made.scheduler()
        for server in made.servers(100):
            scheduler.methods.select_destinations(None, spec(server), [server])
        return before, _resident()


def _resident():
    with open('/proc/self/status') as file:
        return int(next(line for line in file if line.startswith('VmRSS')).split()[1]) / 1024


def placement(args):
    from nova.db.tables import cell as tables_cell
    import sqlalchemy as sa

    with cloud(args, args.hosts) as made:
        scheduler = made.scheduler()
        run(scheduler, made.servers(500), args.callers)                      # connections, statements
        rate, times, work = run(scheduler, made.servers(args.servers), args.callers)
        print(f'{args.hosts:,} hosts, {args.database}, {args.callers} callers: {rate:.0f} placements a second, median '
              f'{statistics.median(times):.1f}, p99 {sorted(times)[int(len(times) * 0.99)]:.1f}; '
              f'{work * 1000:.3f} ms of processor time each', flush=True)
        half = min(rate / 2, args.rate or rate)
        _, times, work = run(scheduler, made.servers(args.servers), args.callers, half)
        print(f'at {half:.0f} a second: median {statistics.median(times):.1f}, '
              f'p99 {sorted(times)[int(len(times) * 0.99)]:.1f}; {work * 1000:.3f} ms of processor time each')
        nodes = tables_cell.compute_nodes
        with made.db.reader() as conn:
            most, total = conn.execute(
                sa.select(sa.func.max(nodes.c.running_vms), sa.func.sum(nodes.c.running_vms))).one()
        print(f'{total:,} servers on {args.hosts:,} equal hosts: {most} on the fullest')


def run(scheduler, servers, callers, rate=None):
    """(placements a second, [latency in ms], processor time of each) of these servers.

    :param rate: a second; None: each caller asks again at once. A latency counts from when its turn was.
    """
    specs = [spec(server) for server in servers]
    turns, times, errors = itertools.count(), [None] * len(servers), []
    begin, began = time.perf_counter() + 0.05, time.process_time()

    def caller():
        try:
            while (turn := next(turns)) < len(servers):
                due = begin + turn / rate if rate else time.perf_counter()
                time.sleep(max(0, due - time.perf_counter()))
                chosen, = scheduler.methods.select_destinations(None, specs[turn], [servers[turn]])
                assert chosen
                times[turn] = (time.perf_counter() - due) * 1000
        except Exception as error:
            errors.append(error)
            raise
    threads = [threading.Thread(target=caller, daemon=True) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return len(servers) / (time.perf_counter() - begin), times, (time.process_time() - began) / len(servers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('parts', nargs='*', metavar='PART', help=', '.join(PARTS))
    parser.add_argument('--hosts', type=int, default=10000)
    parser.add_argument('--database', choices=('mariadb', 'mysqlclient', 'postgresql', 'sqlite'), default='mariadb')
    parser.add_argument('--callers', type=int, default=16)
    parser.add_argument('--servers', type=int, default=8000)
    parser.add_argument('--rate', type=float, help='placements a second when latency is measured; at most half of all')
    parser.add_argument('--png', help='file for the curve of the decisions')
    parser.add_argument('--thread-model', choices=concurrency.MODELS, default=concurrency.DEFAULT_MODEL)
    args = parser.parse_args()
    wrong = set(args.parts) - set(PARTS)
    if wrong:
        parser.error(f'there is no part {", ".join(wrong)}; there are {", ".join(PARTS)}')
    concurrency.setup(args.thread_model)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))      # the database ends with us
    print(f'load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores')
    for name in args.parts or PARTS:
        globals()[name](args)


if __name__ == '__main__':
    main()
