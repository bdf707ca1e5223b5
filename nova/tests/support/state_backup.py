"""What tests share with nova/tests/functional/test_state_backup.py."""
import threading
import time

from nova.db import state_backup as rows


def counted(databases, seconds=3):
    """Moments of two databases, while others write a number to the first and then to the second one: [(n1, n2)]."""
    for db in databases:
        with db.writer() as conn:
            conn.exec_driver_sql('CREATE TABLE counted (n INTEGER)')
            conn.exec_driver_sql('INSERT INTO counted VALUES (0)')
    stop, errors = threading.Event(), []

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            for db in databases:
                try:
                    db.run(lambda conn, number=number: conn.exec_driver_sql(f'UPDATE counted SET n = {number}'))
                except Exception as error:
                    errors.append(error)
                time.sleep(0)            # a green thread gives way here alone
    thread = threading.Thread(target=write)
    thread.start()
    found, deadline = [], time.monotonic() + seconds
    try:
        while time.monotonic() < deadline or len(found) < 5:
            with rows.moment(databases) as connections:
                before = [conn.exec_driver_sql('SELECT n FROM counted').scalar() for conn in connections]
                time.sleep(0.05)
                after = [conn.exec_driver_sql('SELECT n FROM counted').scalar() for conn in reversed(connections)]
            assert before == after[::-1]
            found.append(tuple(before))
            time.sleep(0.01)             # for the writer, which waits for the lock
    finally:
        stop.set()
        thread.join()
    assert errors == []
    return found


def check_counted(found):
    """The second database is never ahead, and at most one write behind."""
    assert all(first - second in (0, 1) for first, second in found), found
    assert found[-1][0] > found[0][0]                        # there were writes between
