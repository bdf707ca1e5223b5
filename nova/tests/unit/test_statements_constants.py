"""Conditions whose values are known when a statement is made, or whose number is."""
import pytest
import sqlalchemy as sa

from nova.db import statements
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import cell as tables


@pytest.fixture
def conn():
    engine = sa.create_engine('sqlite://')
    with engine.begin() as conn:
        conn.exec_driver_sql('CREATE TABLE instances (uuid, task_state, progress, updated_at)')
        conn.exec_driver_sql("INSERT INTO instances (uuid) VALUES ('u')")
        yield conn
    engine.dispose()



def _holds(conn, task, expect):
    conn.exec_driver_sql('UPDATE instances SET task_state = ?', (task,))
    return instances.set_where(conn, 'u', {'progress': 1}, {'task_state': expect})


@pytest.mark.parametrize('expect, found', [
    (['a'], ['a']), ('a', ['a']), (['a', 'b'], ['a', 'b']), ({'a', 'b', 'x'}, ['a', 'b']), (None, [None]),
    (['b', None], ['b', None]), (['a', 'b', None], ['a', 'b', None]), ([], []), ([instances.SET], ['a', 'b', 'c']),
    ([f'x{number}' for number in range(instances.FEW)] + ['c'], ['c']), (['z'] * 40 + [None, 'b'], ['b', None])])
def test_expected_values_are_conditions_of_the_statement(conn, expect, found):
    held = [task for task in (None, 'a', 'b', 'c') if _holds(conn, task, expect)]
    assert sorted(held, key=str) == sorted(found, key=str)


def test_many_values_are_one_statement():
    """How many there are is said by a host, and statements are kept."""
    sizes = {instances._expected('u', {'task_state': ['x'] * number})[0] for number in range(2, 200)}
    assert len(sizes) == instances.FEW


def test_constants_are_no_parameters():
    for statement in (instance_actions._update_of(False, False), instance_actions._OPEN_OF_MANY):
        text = statement.compile()
        assert "'attach_volume'" in str(text) and not any('action_' in name for name in text.params)
    with pytest.raises(ValueError, match='words'):
        statements.one_of(tables.instances.c.uuid, ["it's"])
