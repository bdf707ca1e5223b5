"""What a conductor decides about the servers of a host in maintenance, and the hosts that they may go to."""
import types

import numpy as np
import pytest

from nova.conductor.moves import maintenance as conductor
from nova.db.moves import maintenance
from nova.scheduler.filters import builtin

BOTH = {'live_migration': True, 'resize': True}
AWAY, BACK = {'direction': 'away', 'dest': None}, {'direction': 'back', 'dest': 'other'}


def server(vm_state='active', task_state=None, host='mine', flavor=None):
    return {'vm_state': vm_state, 'task_state': task_state, 'host': host, 'flavor': flavor or {'extra_specs': {}}}


@pytest.mark.parametrize(('row', 'entry', 'capabilities', 'wanted'), [
    (server(), AWAY, BOTH, conductor.LIVE), (server('paused'), AWAY, BOTH, conductor.LIVE),
    (server(), AWAY, {'resize': True}, conductor.COLD), (server('stopped'), AWAY, BOTH, conductor.COLD),
    (server('paused'), AWAY, {'resize': True}, maintenance.FAILED), (server(), AWAY, {}, maintenance.FAILED),
    (server('suspended'), AWAY, BOTH, maintenance.FAILED), (server('resized'), AWAY, BOTH, maintenance.FAILED),
    (server('error'), AWAY, BOTH, maintenance.FAILED),
    (server(task_state='rebooting'), AWAY, BOTH, maintenance.WAITING),
    (None, AWAY, BOTH, maintenance.DELETED), (server(host='other'), AWAY, BOTH, maintenance.SKIPPED),
    (server(host='other'), BACK, BOTH, conductor.LIVE), (server(), BACK, BOTH, maintenance.MOVED),
    (server(host='third'), BACK, BOTH, maintenance.SKIPPED), (server(host=None), BACK, BOTH, maintenance.SKIPPED)])
def test_planned_action_of_a_waiting_server_depends_on_its_state(row, entry, capabilities, wanted):
    what, reason = conductor.plan(row, entry, 'mine', capabilities, False)
    assert what == wanted and bool(reason) == (wanted in (maintenance.FAILED, maintenance.SKIPPED))


@pytest.mark.parametrize(('row', 'wanted'), [
    (server(), maintenance.FAILED), (server('stopped'), maintenance.FAILED),
    (server(task_state='rebooting'), maintenance.WAITING), (None, maintenance.DELETED)])
def test_servers_with_shares_are_not_moved(row, wanted):
    assert conductor.plan(row, AWAY, 'mine', BOTH, True)[0] == wanted


@pytest.mark.parametrize(('row', 'move', 'wanted'), [
    (None, {'status': 'error'}, maintenance.DELETED), (server(), None, maintenance.FAILED),
    (server('resized'), {'status': 'finished'}, conductor.CONFIRM),
    (server('resized', 'resize_confirming'), {'status': 'finished'}, None), (server(), {'status': 'running'}, None),
    (server(host='other'), {'status': 'completed', 'dest_compute': 'other'}, maintenance.MOVED),
    (server(host='other'), {'status': 'error', 'dest_compute': 'other'}, maintenance.MOVED),
    (server(), {'status': 'reverted', 'dest_compute': 'other'}, maintenance.FAILED),
    (server(), {'status': 'error', 'dest_compute': None}, maintenance.FAILED)])
def test_outcome_of_a_move_is_derived_from_server_and_migration(row, move, wanted):
    assert conductor.outcome(row, move) == wanted


def test_moves_stay_within_the_aggregate():
    hosts = types.SimpleNamespace(aggregates=[[{'id': 1}], [{'id': 2}, {'id': 1}], [{'id': 2}], []],
                                  all_pass=np.ones(4, dtype=bool), cached=lambda key, make: make())
    each = builtin.RequestedAggregateFilter(None)
    asked = types.SimpleNamespace(aggregate=1)
    assert each.mask(hosts, asked).tolist() == [True, True, False, False]
    assert each.mask(hosts, types.SimpleNamespace(aggregate=None)) is hosts.all_pass
    assert 'aggregate' in each.reason(hosts, asked, np.array([2]))
