"""What a port costs the database: alone, and together with those that come at the same time."""
import random

import pytest
import sqlalchemy as sa

from nova.network import allocation
from nova.tests.support import network_manager as unit

TOGETHER = 25
ALLOCATIONS = 7                  # statements, on a server one more that locks; whatever the number of servers
RETURNS = 7                      # one after the locks of the ports: whether floating addresses lead to them


@pytest.fixture
def rig(tmp_path):
    rig = unit.Rig(tmp_path, network__default_cidr='10.32.0.0/12')
    rig.deallocate(server := unit.make_instance())
    rig.allocate(server)
    yield rig
    rig.db.dispose()


def counted(rig, function):
    """(statements, transactions) of the function."""
    statements, commits = [], []
    listeners = (('before_cursor_execute', lambda *args: statements.append(args[2])), ('commit', commits.append))
    for event, function_of in listeners:
        sa.event.listen(rig.db.engine, event, function_of)
    function()
    for event, function_of in listeners:
        sa.event.remove(rig.db.engine, event, function_of)
    return len(statements), len(commits)


@pytest.mark.parametrize('number', [1, TOGETHER])
def test_statements_of_ports_made_and_given_back(rig, number, monkeypatch):
    # a search that begins near the end of the pool goes on at its beginning, with one statement more
    monkeypatch.setattr(random, 'randint', lambda first, last: (first + last) // 2)
    orders = [allocation.AllocationRequest(unit.make_instance(), None, None, 'elsewhere') for _ in range(number)]
    assert counted(rig, lambda: rig.manager._allocate(orders)) == (ALLOCATIONS, 1)
    returns = [allocation.ReleaseRequest(order.instance.uuid, None, None) for order in orders]
    assert counted(rig, lambda: rig.manager._release(returns)) == (RETURNS, 1)
