#!/usr/bin/env python3
"""Times GET /servers/detail?limit=1000 over many servers, at the first, the middle and the last page.

usage: tools/bench/listing.py [--servers 100000[,1000000...]] [--limit 1000] [--repeat 11] [--version 2.104]
                              [--url DATABASE | --server mariadb|mysqlclient|postgresql]

Makes the servers in the database of --url (an empty one of MariaDB or PostgreSQL), on a server that is started for it
with 4 GiB of memory, or in SQLite in a temporary directory, with metadata, tags, addresses and volumes, and asks the
application in this process, without HTTP. Prints of each list the median and the largest time, and the median of this
process's CPU time, in milliseconds. Of several numbers of servers, the smallest first, each list is also given in
parts of its median at the first number.
"""
import argparse
import contextlib
import gc
import statistics
import sys
import tempfile
import time
import uuid

import sqlalchemy as sa

from nova.runtime import concurrency

PROJECTS = 10
CHUNK = 2000
MEMORY = (('-c', 'shared_buffers=4GB'), ('--innodb-buffer-pool-size=4G', '--innodb-log-file-size=1G'))
PAGES = ('first', 'middle', 'last')
LISTS = (('all_tenants=1', True), ('', False), ('status=ACTIVE', False), ('name=server-1', False),
         ('sort_key=display_name&sort_dir=asc', False), ('tags=web', False),
         ('changes-since=2026-01-02T00:00:00Z', False))


def fill(db, first, count):
    """Make the servers from number ``first`` to ``count``."""
    from nova.tests import server_rows

    for begin in range(first, count, CHUNK):
        rows = [server_rows.row(
            number, project_id=project(number), metadata={'role': f'r{number % 7}', 'number': str(number)},
            tags=f',web,n{number % 50},', description=f'server number {number}',
            volumes=[{'id': str(uuid.UUID(int=number)), 'delete_on_termination': False}])
            for number in range(begin, min(begin + CHUNK, count))]
        with db.writer() as conn:
            server_rows.insert(conn, rows)
    analyze = {'sqlite': 'ANALYZE', 'postgresql': 'ANALYZE instances'}.get(db.url.get_backend_name(),
                                                                            'ANALYZE TABLE instances')
    with db.writer() as conn:
        conn.execute(sa.text(analyze))


def project(number):
    """One project has half of all servers."""
    return 'a' * 32 if number % 2 else f'{number % PROJECTS:032x}'


def markers(db, whole):
    """{page: uuid of the last server before it}, of all servers or of the large project, newest first."""
    from nova.db.tables.cell import instances

    statement = sa.select(instances.c.uuid).order_by(instances.c.created_at.desc(), instances.c.id.desc())
    if not whole:
        statement = statement.where(instances.c.project_id == 'a' * 32)
    with db.reader() as conn:
        uuids = list(conn.execute(statement).scalars())
    return {'first': None, 'middle': uuids[len(uuids) // 2], 'last': uuids[-1002 if len(uuids) > 1002 else 0]}


def measure(request, repeat):
    """(the last answer, milliseconds of each, milliseconds of this process's CPU time of each) of a request.

    :param request: function that makes it and returns the answer
    """
    times, work = [], []
    for _ in range(repeat):
        begin, began = time.perf_counter(), time.process_time()
        answer = request()
        times.append((time.perf_counter() - begin) * 1000)
        work.append((time.process_time() - began) * 1000)
        if answer.status not in (200, 202):
            raise SystemExit(f'{answer.status} {answer.body[:300]}')
    return answer, times, work


def lists(api, args, first):
    """Print a row for each list and page; {(list, page): median} of them.

    :param first: what this returned of the first number of servers, or {}
    """
    begins, medians = {whole: markers(api.cell_db, whole) for whole in (True, False)}, {}
    for query, whole in LISTS:
        client = api.admin() if whole else api.client()
        for page in PAGES:
            marker = begins[whole][page]
            path = f'/servers/detail?limit={args.limit}&{query}' + (f'&marker={marker}' if marker else '')
            answer, times, work = measure(lambda: client.get(path, version=args.version), args.repeat)
            medians[query, page] = median = statistics.median(times)
            parts = f'  {median / first[query, page]:5.2f} of the first' if first else ''
            print(f'{query or "own project":40} {page:7} {len(answer.json["servers"]):5} servers '
                  f'{len(answer.body) / 1024:7.0f} KiB  median {median:7.1f}  '
                  f'largest {max(times):7.1f} ms  CPU {statistics.median(work):7.1f}{parts}', flush=True)
    return medians


@contextlib.contextmanager
def cloud(url):
    """A fixture of the API whose cell is in the database of ``url``, or in SQLite."""
    from nova.db import engine
    from nova.db import schema as migration
    from nova.db.cells import cells
    from nova.network import api as network_api
    from nova.tests.functional import base

    with tempfile.TemporaryDirectory() as directory:
        api = base.ApiFixture(directory)
        api.services.networks = network_api.API(api.api_db, api.conf)
        if url:
            api.cell_db = engine.Database(url)
            migration.metadata('cell').create_all(api.cell_db.engine)
            api.services.cells = cells.Cells(api.conf, api.api_db, db=api.cell_db)
        yield api
        api.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--servers', default='100000')
    parser.add_argument('--limit', type=int, default=1000)
    parser.add_argument('--repeat', type=int, default=11)
    parser.add_argument('--version', default='2.104')
    database = parser.add_mutually_exclusive_group()
    database.add_argument('--url')
    database.add_argument('--server', choices=('mariadb', 'mysqlclient', 'postgresql'))
    args = parser.parse_args()

    concurrency.setup()
    from network import ports as network_ports

    with contextlib.ExitStack() as stack:
        url = stack.enter_context(network_ports.server(
            args.server, MEMORY[args.server != 'postgresql'])) if args.server else args.url
        api, made, first = stack.enter_context(cloud(url)), 0, {}
        for count in sorted(map(int, args.servers.split(','))):
            begin = time.perf_counter()
            fill(api.cell_db, made, count)
            made = count
            print(f'{count} servers in {api.cell_db.url.get_backend_name()}, made in '
                  f'{time.perf_counter() - begin:.1f} s; GET /servers/detail?limit={args.limit} at {args.version}',
                  flush=True)
            gc.collect()
            gc.freeze()                  # as the daemons do when they have started
            medians = lists(api, args, first)
            first = first or medians
    return 0


if __name__ == '__main__':
    sys.exit(main())
