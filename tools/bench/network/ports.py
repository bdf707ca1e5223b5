"""Measures ports made and given back by many threads: a second, and what one costs whatever else the machine does."""
import contextlib
import threading
import time
import uuid

import sqlalchemy as sa

from nova import objects

PROJECT = 'bench'


def instance():
    return objects.Instance(uuid=str(uuid.uuid4()), project_id=PROJECT, availability_zone=None, hostname='bench')


def allocate(made, ctx, host):
    server = instance()
    made.allocate_for_instance(ctx, instance=server, requested_networks=None, security_groups=None, host=host)
    return server


@contextlib.contextmanager
def server(kind, options=()):
    """URL of an empty database on a server of its own, that syncs what it commits.

    :param options: arguments of the server
    """
    from nova.tests.integration import servers

    with servers.DATABASES[kind.replace('mysqlclient', 'mariadb')](options) as url_of:
        url = url_of('bench')
        yield url.replace('+pymysql', '+mysqldb') if kind == 'mysqlclient' else url


def _counted():
    """(list that gets an entry a statement, one that gets an entry a commit) of all engines of this process."""
    statements, commits = [], []
    sa.event.listen(sa.engine.Engine, 'before_cursor_execute', lambda *_arguments: statements.append(None))
    sa.event.listen(sa.engine.Engine, 'commit', commits.append)
    return statements, commits


def rate(made, ctx, threads, seconds):
    """{figure: number}; a port that is made and given back counts once.

    ``processor_ms`` is this process's: what the database server needs is not in it.
    """
    done, until, lock = [0], time.monotonic() + seconds, threading.Lock()

    def work():
        while time.monotonic() < until:
            server = allocate(made, ctx, 'elsewhere')
            made.deallocate_for_instance(ctx, instance_uuid=server.uuid, host=None)
            with lock:
                done[0] += 1
    workers = [threading.Thread(target=work) for _ in range(threads)]
    statements, commits = _counted()
    begun, processor = time.monotonic(), time.process_time()
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    taken, processor = time.monotonic() - begun, time.process_time() - processor
    return {'per_second': round(done[0] / taken, 1), 'statements': round(len(statements) / done[0], 2),
            'transactions': round(len(commits) / done[0], 2), 'processor_ms': round(1000 * processor / done[0], 2)}
