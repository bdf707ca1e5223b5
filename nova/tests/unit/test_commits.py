"""What follows a commit: functions of one key in the order of their transactions."""
import threading

import pytest
import sqlalchemy as sa

from nova.db import engine
from nova.runtime import commits


@pytest.fixture
def database(tmp_path):
    made = engine.Database(f'sqlite:///{tmp_path}/db')
    yield made
    made.dispose()


class Connection:
    """A connection of a transaction that a test ends by hand."""

    def __init__(self):
        self.info = {commits.AFTER: []}

    def end(self, committed=True):
        for function, otherwise in self.info[commits.AFTER]:
            chosen = function if committed else otherwise
            if chosen is not None:
                chosen()


def test_callbacks_run_in_the_order_of_registration():
    order, first, second, seen = commits.OrderedCallbacks(), Connection(), Connection(), []
    order.add(first, 'server', lambda: seen.append('first'))
    order.add(second, 'server', lambda: seen.append('second'))
    second.end()
    assert seen == []
    first.end()
    assert seen == ['first', 'second'] and not order.waiting


def test_callbacks_of_a_rollback_are_skipped():
    order, first, second, seen = commits.OrderedCallbacks(), Connection(), Connection(), []
    order.add(first, 'server', lambda: seen.append('first'))
    order.add(second, 'server', lambda: seen.append('second'))
    second.end()
    first.end(committed=False)
    assert seen == ['second'] and not order.waiting


def test_servers_do_not_wait_for_each_other():
    order, first, second, seen = commits.OrderedCallbacks(), Connection(), Connection(), []
    order.add(first, 'one', lambda: seen.append('one'))
    order.add(second, 'other', lambda: seen.append('other'))
    second.end()
    assert seen == ['other']


def test_a_transaction_that_is_run_again_is_followed_once(database):
    order, seen, tries = commits.OrderedCallbacks(), [], []

    def write(conn):
        tries.append(None)
        order.add(conn, 'server', lambda: seen.append(len(tries)))
        if len(tries) == 1:
            raise engine.db_exc.RetryRequest(Exception())
        conn.execute(sa.text('select 1'))
    database.run(write)
    assert seen == [2] and not order.waiting


def test_nothing_follows_what_was_not_committed(database):
    order, seen = commits.OrderedCallbacks(), []
    with pytest.raises(RuntimeError), database.writer() as conn:
        commits.after(conn, lambda: seen.append('after'))
        order.add(conn, 'server', lambda: seen.append('ordered'))
        raise RuntimeError
    with database.writer():
        pass
    assert seen == [] and not order.waiting


def test_many_threads_keep_the_order_of_one_server(database):
    order, seen, number = commits.OrderedCallbacks(), [], []

    def work():
        for _ in range(20):
            with database.writer() as conn:
                mine = len(number)
                number.append(mine)
                order.add(conn, 'server', lambda mine=mine: seen.append(mine))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == list(range(80))
