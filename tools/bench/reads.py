#!/usr/bin/env python3
"""Measures one SELECT of one row in a transaction, and without one, in turns, on a database server of its own.

usage: tools/bench/reads.py [mariadb] [mysqlclient] [postgresql]

Prints medians in microseconds: processor time of this process, elapsed time, and processor time of the database
servers of this kind on the machine. Run it with the Python in which nova is installed.
"""
import collections
import contextlib
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import sqlalchemy as sa

from nova.db import engine
from nova.tests.integration import servers

RUNS, READS = 12, 200
TABLE = sa.Table('read', sa.MetaData(), sa.Column('a', sa.Integer, primary_key=True), sa.Column('b', sa.String(50)))
ONE = sa.select(TABLE).where(TABLE.c.a == sa.bindparam('key'))
TICK_US = 1e6 / os.sysconf('SC_CLK_TCK')
PROGRAMS = {'mariadb': b'mariadbd', 'mysqlclient': b'mariadbd', 'postgresql': b'postgres'}


def of_servers(program):
    """Microseconds of processor time of all processes of a program."""
    spent = 0
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            if program in (entry / 'cmdline').read_bytes():
                fields = (entry / 'stat').read_text().rpartition(')')[2].split()
                spent += (int(fields[11]) + int(fields[12])) * TICK_US
    return spent


def measure(kind):
    with servers.CLIENTS[kind]() as url_of:
        database = engine.Database(url_of('reads'))
        TABLE.metadata.create_all(database.engine)
        database.run(lambda conn: conn.execute(sa.insert(TABLE), [
            {'a': number, 'b': 'x' * 40} for number in range(1, 101)]))
        ways = {'in a transaction': database.engine.connect, 'without one': database.reader}
        found = collections.defaultdict(list)
        for _ in range(RUNS):
            for name, connection in ways.items():
                before = time.process_time() * 1e6, time.perf_counter() * 1e6, of_servers(PROGRAMS[kind])
                for _ in range(READS):
                    with connection() as conn:
                        conn.execute(ONE, {'key': 5}).all()
                after = time.process_time() * 1e6, time.perf_counter() * 1e6, of_servers(PROGRAMS[kind])
                found[name].append([(end - begin) / READS for begin, end in zip(before, after, strict=True)])
        for name, rows in found.items():
            client, elapsed, server = (round(statistics.median(column)) for column in zip(*rows, strict=True))
            print(f'{kind:12} {name:18} client {client}  elapsed {elapsed}  server {server}', flush=True)
        database.dispose()


def main():
    for kind in sys.argv[1:] or PROGRAMS:
        measure(kind)


if __name__ == '__main__':
    main()
