#!/usr/bin/env python3
"""Times lists of servers, one server and POST /servers in deployments of few and of many cells.

usage: tools/bench/cells.py [--cells 1,100] [--servers 10000] [--limit 1000] [--repeat 7] [--server mariadb|postgresql]

The same servers are in one cell, or spread over so many: each a database of its own on one MariaDB or PostgreSQL that
is started for it, or a file of SQLite. The default cell has none. The application is called in this process, without
HTTP; it is at home in the default cell, as in a fleet. Prints the median and the largest time and the median of this
process's CPU time in milliseconds, and each median in parts of that at the first number of cells. A project that has a
thousand servers in one cell alone is one of the rows; theirs are the oldest. POST /servers is until 202: who builds the
server is not here.
"""
import argparse
import contextlib
import gc
import itertools
import statistics
import sys
import tempfile

import listing
import sqlalchemy as sa

from nova.runtime import concurrency

HOME = 'b' * 32                                # the project whose servers are in one cell
IN_ONE = 1000


def made(numbers, **values):
    """Rows of servers; the higher its number the newer a server."""
    from nova.tests import server_rows

    return [server_rows.row(number, **{
        'project_id': 'a' * 32, 'metadata': {'number': str(number)}, 'description': f'server number {number}',
        **values}) for number in numbers]


class Deployment:
    """An application over so many cells, and the servers in them."""

    def __init__(self, directory, url_of, count, servers):
        from nova.tests.functional import servers as fixture

        self.api = fixture.Servers(directory)
        self.cells = [(f'{number:08}'.ljust(36, '0'), self._cell(f'{number:08}', url_of(f'of{count}_{number}')))
                      for number in range(count)]
        self.api.services.cells.refresh()
        for number, cell in enumerate(self.cells):
            self._fill(cell, made(range(IN_ONE + number, IN_ONE + servers, count)))
        self._fill(self.cells[0], made(range(IN_ONE), project_id=HOME))

    def _cell(self, name, url):
        from nova.db import engine
        from nova.db.tables import api as tables
        from nova.tests import schemas

        database = engine.Database(url)
        schemas.create(database, 'cell')
        with self.api.api_db.writer() as conn:
            conn.execute(sa.insert(tables.cells).values(
                uuid=name.ljust(36, '0'), name=name, transport_url='', disabled=False,
                database_url=database.url.render_as_string(hide_password=False)))
        return database

    def _fill(self, cell, rows):
        from nova.db.tables import api as tables
        from nova.tests import server_rows

        uuid, database = cell
        with database.writer() as conn:
            server_rows.insert(conn, rows)
        with self.api.api_db.writer() as conn:
            conn.execute(sa.insert(tables.instance_mappings), [{
                'instance_uuid': row['uuid'], 'cell_uuid': uuid, 'project_id': row['project_id'],
                'user_id': row['user_id'], 'vcpus': 1, 'memory_mb': 64, 'created_at': row['created_at']}
                for row in rows])

    def requests(self, limit):
        """[(what it is, function that makes the request)]."""
        every, numbers = f'/servers/detail?all_tenants=1&limit={limit}', itertools.count()

        def get(project, path):
            client = self.api.admin(version='2.104', project=project)
            return lambda: client.get(path)

        def post():
            return admin.post('/servers', {'server': {'name': f'new-{next(numbers)}', 'flavorRef': '1',
                                                      'imageRef': self.api.image_id, 'networks': 'none'}})
        admin = self.api.admin(version='2.104', project='c' * 32)
        page = admin.get(every).json['servers']
        if len(page) < limit:
            raise SystemExit(f'{len(page)} servers on a page of {limit}: more servers are needed.')
        return (('all projects, first page', get('c' * 32, every)),
                ('all projects, second page', get('c' * 32, f'{every}&marker={page[-1]["id"]}')),
                ('a project in all cells', get('a' * 32, f'/servers/detail?limit={limit}')),
                ('a project in one cell', get(HOME, f'/servers/detail?limit={limit}')),
                ('a project in one cell, ten names', get(HOME, '/servers?limit=10')),
                ('one server', get(HOME, f'/servers/{page[0]["id"]}')),
                ('POST /servers until 202', post))

    def close(self):
        self.api.close()
        self.api.services.cells.close()
        for _uuid, database in self.cells:
            database.dispose()


@contextlib.contextmanager
def databases(kind, directory):
    """function(name) -> URL of a new, empty database."""
    if kind is None:
        yield f'sqlite:///{directory}/{{}}.sqlite'.format
        return
    from nova.tests.integration import servers

    with servers.DATABASES[kind](('--max-connections=2000',) if kind == 'mariadb' else (
            '-c', 'max_connections=2000')) as url_of:
        yield url_of


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cells', default='1,100')
    parser.add_argument('--servers', type=int, default=10000)
    parser.add_argument('--limit', type=int, default=1000)
    parser.add_argument('--repeat', type=int, default=7)
    parser.add_argument('--server', choices=('mariadb', 'postgresql'))
    args = parser.parse_args()

    concurrency.setup()
    first = {}
    for count in map(int, args.cells.split(',')):
        with tempfile.TemporaryDirectory() as directory, databases(args.server, directory) as url_of:
            deployment = Deployment(directory, url_of, count, args.servers)
            print(f'{args.servers + IN_ONE} servers in {count} cells, {args.server or "sqlite"}', flush=True)
            gc.collect()
            gc.freeze()
            for what, request in deployment.requests(args.limit):
                request()                    # not counted: it opens connections
                _answer, times, work = listing.measure(request, args.repeat)
                median = statistics.median(times)
                first.setdefault(what, median)
                print(f'{what:34} median {median:7.1f}  largest {max(times):7.1f} ms  '
                      f'CPU {statistics.median(work):7.1f}  '
                      f'{median / first[what]:5.2f} of the first', flush=True)
            deployment.close()
    return 0


if __name__ == '__main__':
    sys.exit(main())
