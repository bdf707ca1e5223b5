#!/usr/bin/env python3
"""Compares ways to write the heartbeats of many services, on SQLite, MariaDB and PostgreSQL of its own.

usage: tools/bench/heartbeat_writes.py [--services 500] [--times 20] [database ...]

Prints the median milliseconds of one batch: one UPDATE for all of them, executemany, a transaction for each.
"""
import argparse
import pathlib
import statistics
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))


def ways(db, numbers):
    """{name: function that writes one batch}."""
    import sqlalchemy as sa
    from nova import utils
    from nova.db.services import heartbeats
    from nova.db.tables.cell import services

    one = sa.update(services).where(services.c.id == sa.bindparam('number')).values(
        last_seen_at=sa.bindparam('now', type_=services.c.last_seen_at.type))

    def many(conn):
        conn.execute(one, [{'number': number, 'now': utils.utcnow()} for number in numbers])

    def each():
        for number in numbers:
            db.run(lambda conn, number=number: conn.execute(one, {'number': number, 'now': utils.utcnow()}))
    return {'one UPDATE': lambda: db.run(heartbeats.seen, numbers), 'executemany': lambda: db.run(many),
            'a transaction each': each}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('databases', nargs='*', default=['sqlite', 'mariadb', 'postgresql'])
    parser.add_argument('--services', type=int, default=500)
    parser.add_argument('--times', type=int, default=20)
    args = parser.parse_args()
    import sqlalchemy as sa
    from nova import utils
    from nova.db import engine
    from nova.db.tables import cell as tables_cell
    from nova.tests.integration import servers

    for kind in args.databases:
        with servers.DATABASES[kind]() as database:
            db = engine.Database(database('bench'))
            tables_cell.metadata.create_all(db.engine)
            now = utils.utcnow()
            with db.writer() as conn:
                conn.execute(sa.insert(tables_cell.services), [
                    {'uuid': str(uuid.uuid4()), 'host': f'h{number}', 'binary': 'nova-compute', 'topic': 'compute',
                     'availability_zone': 'nova', 'version': 2, 'created_at': now, 'last_seen_at': now,
                     'disabled': False, 'forced_down': False} for number in range(args.services)])
                numbers = list(conn.execute(sa.select(tables_cell.services.c.id)).scalars())
            for name, write in ways(db, numbers).items():
                seconds = []
                for _ in range(args.times):
                    begin = time.perf_counter()
                    write()
                    seconds.append(time.perf_counter() - begin)
                print(f'{kind:12}{name:22}{statistics.median(seconds) * 1000:10.1f} ms', flush=True)
            db.dispose()


if __name__ == '__main__':
    main()
