#!/usr/bin/env python3
"""Prove on real databases that parallel schedulers overcommit no host, break no group and exceed no quota.

usage: tools/proofs/placement.py [--database mariadb|postgresql|sqlite]... [--schedulers 3] [--threads 50]
           [--requests 2000] [--hosts 60] [--resizing 0.15] [--seed N]

A cloud of simulated hosts (rows; nothing runs on them) is filled until no host has room for one more server. Then
processes with a scheduler, a conductor and an API each serve clients. A request creates one to three servers. If the
cloud is 99 % full or more, a random server is deleted before. Many servers are members of groups (affinity, and
anti-affinity with one or two servers per host). All clients use the same group at the same moment, and most projects
have a tight quota. Some servers are resized, and the resize is confirmed or reverted. Some builds fail and go to
another host. Fifty other requests compete for the resources that one request releases.

During the run and at its end, this script reads the rows in one snapshot and checks their sums:

- no host uses more than its capacity of vCPUs, memory or disk
- the resources of servers and moves add up to the usage in the row of their host
- no host has more members of an anti-affinity group than its rule allows; those of an affinity group are on one host
- no project has more servers, vCPUs or memory than its quota, no group more members than it may have

It also checks at the end:

- no request got an error response
- every accepted server is on a host, has a fault with a reason, or was deleted
- no task is unfinished, and both databases have the same servers
- the audit of the product finds no drift

Prints a table. If there are violations, it prints a line for each of them and exits with 1.
"""
import argparse
import collections
import dataclasses
import json
import logging
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
import uuid

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

import sqlalchemy as sa

from nova import context
from nova import utils
from nova.db import engine
from nova.db import schema as migration
from nova.db.placement import claims
from nova.db.projects import flavors
from nova.db.projects import quotas
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.image.embedded import service as embedded
from nova.tests.integration import servers
from nova.virt import driver

WORKER = pathlib.Path(__file__).with_name('placement_worker.py')
# name -> (vCPUs, MB, GB); the first one fills
FLAVORS = {'small': (1, 512, 1), 'wide': (4, 512, 1), 'large': (2, 2048, 2), 'deep': (1, 512, 6)}
# project -> (share of the requests, limits)
PROJECTS = {
    'free': (5, {}),
    'few': (2, {'instances': 40}),
    'narrow': (2, {'cores': 80, 'instances': 60}),
    'small': (2, {'ram': 48 * 1024}),
}
MEMBERS = 10                       # that a group may have
GROUPS = [('affinity', None)] * 2 + [('anti-affinity', most) for most in (1, 2)]          # of each project
CHECK_S = 0.5                      # between two looks while it goes on
RESOURCES = ('vcpus', 'memory_mb', 'local_gb')
OVER = ('confirmed', 'reverted', 'completed', 'done', 'cancelled', 'error', 'failed')


# ---- the cloud -----------------------------------------------------------------

def make_hosts(conn, count, dice):
    """Create hosts of different sizes. Memory is usually exhausted first."""
    now = utils.utcnow()
    services, nodes = [], []
    for number in range(count):
        name = f'host{number:03}'
        slots = dice.randint(6, 18)
        services.append({
            'uuid': str(uuid.uuid4()), 'host': name, 'binary': 'nova-compute', 'topic': 'compute', 'version': 1,
            'availability_zone': 'nova', 'created_at': now, 'last_seen_at': now, 'disabled': False,
            'forced_down': False})
        nodes.append({
            'uuid': str(uuid.uuid4()), 'host': name, 'node': name, 'created_at': now, 'updated_at': now,
            'change_number': utils.change_number(), 'hypervisor_type': 'fake', 'hypervisor_version': 1,
            'vcpus': max(4, slots * 3 // 4), 'cpu_allocation_ratio': 2.0, 'memory_mb': slots * 512 + 512,
            'reserved_memory_mb': 512, 'ram_allocation_ratio': 1.0, 'local_gb': slots * 2, 'reserved_disk_gb': 0,
            'disk_allocation_ratio': 1.0,
            'capabilities': {driver.name_of(feature): True for feature in driver.FEATURES},
            'supported_instances': []})
    conn.execute(sa.insert(tables_cell.services), services)
    conn.execute(sa.insert(tables_cell.compute_nodes), nodes)


def make_flavors(conn):
    for name, (vcpus, memory_mb, root_gb) in FLAVORS.items():
        flavors.create(conn, {'flavor_id': name, 'name': name, 'vcpus': vcpus, 'memory_mb': memory_mb,
                              'root_gb': root_gb})


def make_image(db, directory):
    """The id of an active image; its data is never requested."""
    from nova.image.embedded.images import EmbeddedImages
    images = EmbeddedImages(embedded.Store(db, str(directory)))
    owner = context.admin_context()
    image = images.create(owner, {'name': 'proof', 'disk_format': 'raw', 'container_format': 'bare',
                                  'visibility': 'public'})
    data = directory / 'data'
    data.write_bytes(b'\0' * 4096)
    images.upload(owner, image['id'], str(data), 'raw')
    return image['id']


class Cloud:
    """Two databases with hosts, flavors, an image, quotas and groups.

    :param url_of: function(name) -> URL of a new database
    """

    def __init__(self, url_of, directory, hosts, seed):
        self.urls = {'api': str(url_of('api')), 'cell': str(url_of('cell1'))}
        self.api_db, self.cell_db = (engine.Database(self.urls[name], pool_size=2, max_overflow=2)
                                     for name in ('api', 'cell'))
        for branch, db in (('api', self.api_db), ('cell', self.cell_db)):
            migration.metadata(branch).create_all(db.engine)
        self.images = directory / 'images'
        self.images.mkdir()
        dice = random.Random(seed)
        self.cell_db.run(make_hosts, hosts, dice)
        self.api_db.run(make_flavors)
        self.image = make_image(self.api_db, self.images)
        for project, (_share, limits) in PROJECTS.items():
            self.api_db.run(quotas.set_limits, project, {**limits, 'server_group_members': MEMBERS})
        self.snapshots = {name: sa.create_engine(url, **({} if url.startswith('sqlite') else {
            'isolation_level': 'REPEATABLE READ'})) for name, url in self.urls.items()}

    def options(self, **more):
        return {**self.urls, 'images': str(self.images), 'image': self.image, 'flavors': list(FLAVORS),
                'projects': {project: share for project, (share, _limits) in PROJECTS.items()}, 'filler': 'free',
                'groups': {}, **more}

    def close(self):
        for each in (*self.snapshots.values(), self.api_db, self.cell_db):
            each.dispose()


def _group(policy, most):
    rules = {} if most is None else {'rules': {'max_server_per_host': most}}
    return {'server_group': {'name': 'proof', 'policy': policy, **rules}}


# ---- the proof: rows and plain arithmetic --------------------------------------

def size(vcpus, memory_mb, root_gb, ephemeral_gb):
    """{resource: amount} of a server that boots from an image, without swap."""
    return {'vcpus': vcpus, 'memory_mb': memory_mb, 'local_gb': root_gb + ephemeral_gb}


def _columns(table, *names):
    return sa.select(*(table.c[name] for name in names))


class Cell:
    """The rows of the cell's database at one moment."""

    def __init__(self, conn):
        self.nodes = conn.execute(sa.select(tables_cell.compute_nodes)).mappings().all()
        self.servers = conn.execute(_columns(
            tables_cell.instances, 'uuid', 'project_id', 'host', 'node', 'vm_state', 'task_state', 'vcpus', 'memory_mb',
            'root_gb', 'ephemeral_gb', 'server_group_id', 'fault')).mappings().all()
        self.moves = conn.execute(_columns(
            tables_cell.migrations, 'instance_uuid', 'status', 'claimed_host', 'claimed_node', 'claimed_vcpus',
            'claimed_memory_mb', 'claimed_local_gb', 'old_flavor', 'new_flavor', 'dest_compute')).mappings().all()

    def usage(self):
        """Return {(host, node): Counter of resources of servers and moves}."""
        found = collections.defaultdict(collections.Counter)
        for row in self.servers:
            if row['host'] is not None:
                amounts = size(row['vcpus'], row['memory_mb'], row['root_gb'], row['ephemeral_gb'])
                found[row['host'], row['node']].update({**amounts, 'servers': 1})
        for row in self.moves:
            if row['claimed_host'] is not None:
                found[row['claimed_host'], row['claimed_node']].update({
                    'servers': 1, **{name: row['claimed_' + name] for name in RESOURCES}})
        return found

    def fullness(self):
        """Return the used part of all memory, 0 to 1."""
        used = sum(amounts['memory_mb'] for amounts in self.usage().values())
        return used / sum(node['memory_mb'] - node['reserved_memory_mb'] for node in self.nodes)

    def hosts_over(self):
        usage = self.usage()
        for node in self.nodes:
            used = usage.pop((node['host'], node['node']), collections.Counter())
            capacity = {
                'vcpus': node['vcpus'] * node['cpu_allocation_ratio'],
                'memory_mb': (node['memory_mb'] - node['reserved_memory_mb']) * node['ram_allocation_ratio'],
                'local_gb': (node['local_gb'] - node['reserved_disk_gb']) * node['disk_allocation_ratio']}
            for name, most in capacity.items():
                if used[name] > most:
                    yield f'{node["host"]} has {used[name]} {name} of {most}'
                if used[name] != node[name + '_used']:
                    yield f'{node["host"]} says that {node[name + "_used"]} {name} are used; they are {used[name]}'
            if used['servers'] != node['running_vms']:
                yield f'{node["host"]} says that it has {node["running_vms"]} servers; they are {used["servers"]}'
        yield from (f'{used["servers"]} servers are on {place}, which is not there' for place, used in usage.items())

    def groups_over(self, rules):
        """
        :param rules: {group: (policy, most servers per host)}
        """
        of = {row['uuid']: row['server_group_id'] for row in self.servers}
        now, possible = collections.defaultdict(set), collections.defaultdict(set)
        for row in self.servers:
            if row['host'] is not None:
                now[row['server_group_id']].add((row['uuid'], row['host']))
                possible[row['server_group_id']].add((row['uuid'], row['host']))
        for row in self.moves:
            if row['claimed_host'] is not None and row['instance_uuid'] in of:
                possible[of[row['instance_uuid']]].add((row['instance_uuid'], row['claimed_host']))
        for group, (policy, most) in rules.items():
            if policy == 'affinity':
                hosts = {host for _, host in now[group]}
                if len(hosts) > 1:
                    yield f'affinity group {group} is on {sorted(hosts)}'
            else:
                counted = collections.Counter(host for _, host in possible[group])
                yield from (f'anti-affinity group {group} has {number} of {most} servers on {host}'
                            for host, number in counted.items() if number > most)


class Api:
    """The rows of the API database at one moment."""

    def __init__(self, conn):
        self.mappings = conn.execute(_columns(
            tables_api.instance_mappings, 'instance_uuid', 'project_id', 'vcpus', 'memory_mb', 'server_group_id',
            'queued_for_delete')).mappings().all()

    def quotas_over(self):
        used, members = collections.defaultdict(collections.Counter), collections.Counter()
        for row in self.mappings:
            members[row['server_group_id']] += row['server_group_id'] is not None
            if not row['queued_for_delete']:
                used[row['project_id']].update(instances=1, cores=row['vcpus'], ram=row['memory_mb'])
        for project, (_share, limits) in PROJECTS.items():
            yield from (f'project {project} has {used[project][name]} {name} of {most}'
                        for name, most in limits.items() if used[project][name] > most)
        yield from (f'group {group} has {number} of {MEMBERS} members'
                    for group, number in members.items() if number > MEMBERS)

    def against(self, cell):
        """Return the differences between the two databases when no task is running."""
        ours, theirs = {row['instance_uuid']: row for row in self.mappings}, {row['uuid']: row for row in cell.servers}
        yield from (f'{server} has a mapping and no server' for server in ours.keys() - theirs.keys())
        yield from (f'{server} is a server without a mapping' for server in theirs.keys() - ours.keys())
        larger = {}
        for row in cell.moves:
            if row['status'] not in OVER:
                larger[row['instance_uuid']] = [row['old_flavor'], row['new_flavor']]
        for server in ours.keys() & theirs.keys():
            for name in ('vcpus', 'memory_mb'):
                least = max([theirs[server][name], *(flavor[name] for flavor in larger.get(server, ()))])
                if ours[server][name] != least:
                    yield f'the quota counts {ours[server][name]} {name} of {server}, which has {least}'


def unsettled(cell):
    """Return the servers that have neither a host nor a fault."""
    for row in cell.servers:
        if row['task_state'] is not None or row['vm_state'] not in ('active', 'resized', 'error'):
            yield f'{row["uuid"]} is left {row["vm_state"]}, {row["task_state"]}'
        elif row['vm_state'] == 'error' and (row['host'] or not row['fault']):
            yield f'{row["uuid"]} is in ERROR on {row["host"]}, and says {row["fault"]}'
        elif row['vm_state'] != 'error' and row['host'] is None:
            yield f'{row["uuid"]} is {row["vm_state"]} on no host'


# ---- the run --------------------------------------------------------------------

@dataclasses.dataclass
class Result:
    """Result of a run.

    counts   Counter of answers ('boot 202'), 'servers' that were accepted, 'no host' for so many of them, 'moves' that
             found one
    looks    snapshots that were taken while it went on
    full     (least, most) part of all memory that was used in them
    failed   sentences, one for each violation
    """

    database: str
    requests: int
    counts: collections.Counter
    looks: int
    full: tuple
    seconds: float
    failed: list


class Watch(threading.Thread):
    """Takes snapshots while servers come and go."""

    def __init__(self, cloud, rules):
        super().__init__()
        self._cloud, self._rules, self._stop_it = cloud, rules, threading.Event()
        self.failed, self.full = [], []

    def run(self):
        while not self._stop_it.wait(CHECK_S):
            cell, api = look(self._cloud)
            self.full.append(cell.fullness())
            self.failed += list(violations(cell, api, self._rules))

    def end(self):
        self._stop_it.set()
        self.join()


def look(cloud):
    """(Cell, Api), each at one moment."""
    found = []
    for name, kind in (('cell', Cell), ('api', Api)):
        with cloud.snapshots[name].connect() as conn:
            found.append(kind(conn))
    return found


def violations(cell, api, rules):
    yield from cell.hosts_over()
    yield from cell.groups_over(rules)
    yield from api.quotas_over()


def start(options):
    process = subprocess.Popen([sys.executable, '-W', 'ignore', str(WORKER)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    process.stdin.write(json.dumps(options))
    process.stdin.close()
    return process


def finish(process):
    """Return the result of a worker.

    :raises RuntimeError: it died
    """
    text = process.stdout.read()
    if process.wait():
        raise RuntimeError('a worker died')
    return json.loads(text)


def work(options):
    return finish(start(options))


def unplaced(cloud):
    """Return how often no host was found for a server."""
    events = tables_cell.instance_action_events
    statement = sa.select(sa.func.count()).where(events.c.event == 'conductor_build_instance',
                                                 events.c.result == 'Error')
    with cloud.cell_db.reader() as conn:
        return conn.execute(statement).scalar()


def prove(database, url_of, directory, *, schedulers=3, threads=50, requests=2000, hosts=60, resizing=0.15, seed=None,
          report=print):
    """A Result.

    :param url_of: function(name) -> URL of a new database
    :param threads, requests: of all processes in total
    """
    seed = seed if seed is not None else random.SystemRandom().randrange(10 ** 6)
    cloud = Cloud(url_of, directory, hosts, seed)
    wanted = [(project, row) for project in PROJECTS for row in GROUPS]
    try:
        first = work(cloud.options(work='prepare', seed=seed, bodies=[
            (project, _group(*row)) for project, row in wanted]))
        failed, groups = first['errors'], collections.defaultdict(list)
        for (project, _row), group in zip(wanted, first['found']['groups'], strict=True):
            groups[project].append(group)
        rules = {group: row for (_project, row), group in zip(wanted, first['found']['groups'], strict=True)}
        before = unplaced(cloud)
        watch = Watch(cloud, rules)
        report(f'{database}: {hosts} hosts with {first["found"]["placed"]} servers are full to '
             f'{100 * look(cloud)[0].fullness():.1f} %; seed {seed}')
        watch.start()
        begin = time.monotonic()
        try:
            workers = [start(cloud.options(
                work='run', number=number, schedulers=schedulers, threads=_part(threads, schedulers, number),
                requests=_part(requests, schedulers, number), resizing=resizing, seed=seed + number,
                groups=groups)) for number in range(schedulers)]
            results = [finish(each) for each in workers]
            seconds = time.monotonic() - begin
        finally:
            watch.end()
        results.append(work(cloud.options(work='settle', seed=seed)))
        failed += watch.failed + [text for each in results for text in each['errors']] + results[-1]['found']
        cell, api = look(cloud)
        failed += [*violations(cell, api, rules), *api.against(cell), *unsettled(cell)]
        failed += [f'the audit has corrected {row}' for row in cloud.cell_db.run(claims.audit)]
        counts = sum((collections.Counter(each['counts']) for each in results), collections.Counter())
        counts['no host'] = unplaced(cloud) - before
        counts['moves'] = sum(row['dest_compute'] is not None for row in cell.moves)
        return Result(database, requests, counts, len(watch.full),
                      (min(watch.full, default=0), max(watch.full, default=0)), seconds, failed)
    finally:
        cloud.close()


def _part(whole, parts, number):
    return whole // parts + (number < whole % parts)


def table(results, schedulers, threads):
    """Return the result as a table of text."""
    head = ('database', 'schedulers', 'threads', 'requests', 'per second', 'servers', 'no host', 'over quota',
            'deleted', 'moves', 'memory full', 'looks', 'violations')
    rows = [head]
    for each in results:
        counts = each.counts
        rows.append((each.database, schedulers, threads, each.requests, f'{each.requests / each.seconds:.0f}',
                     counts['servers'], counts['no host'], counts['boot 403'], counts['DELETE 204'],
                     counts['moves'], f'{100 * each.full[0]:.1f}-{100 * each.full[1]:.1f} %', each.looks,
                     len(each.failed)))
    texts = [[str(value) for value in row] for row in rows]
    widths = [max(len(row[number]) for row in texts) for number in range(len(head))]
    return ['  '.join(value.rjust(width) for value, width in zip(row, widths, strict=True)) for row in texts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--database', action='append', choices=sorted(servers.DATABASES),
                        help='may be repeated; MariaDB and PostgreSQL unless given')
    parser.add_argument('--schedulers', type=int, default=3, help='processes')
    parser.add_argument('--threads', type=int, default=50, help='of all processes in total')
    parser.add_argument('--requests', type=int, default=2000)
    parser.add_argument('--hosts', type=int, default=60)
    parser.add_argument('--resizing', type=float, default=0.15, help='how many requests resize a server, 0 to 1')
    parser.add_argument('--seed', type=int, default=None)
    given = vars(parser.parse_args())
    logging.disable(logging.WARNING)
    sys.stdout.reconfigure(line_buffering=True)
    results = []
    for name in given.pop('database') or ['mariadb', 'postgresql']:
        with servers.DATABASES[name]() as url_of, tempfile.TemporaryDirectory(prefix='nova-proof-') as directory:
            results.append(prove(name, url_of, pathlib.Path(directory), **given))
        for sentence, number in collections.Counter(results[-1].failed).most_common(50):
            print(f'  {number} x {sentence}')
    print('\n'.join(table(results, given['schedulers'], given['threads'])))
    sys.exit(1 if any(each.failed for each in results) else 0)


if __name__ == '__main__':
    main()
