"""Sentences, nearest misses and dry runs, on tables made here."""
import uuid as uuidlib

import numpy as np
import pytest

from nova import exception
from nova.scheduler import decision
from nova.scheduler import dry_run
from nova.scheduler import explain
from nova.scheduler import filters
from nova.scheduler import pipeline
from nova.scheduler import placement_request
from nova.scheduler import weights
from nova.scheduler.filters import groups
from nova.tests import placement
from nova.tests.support import scheduler as tables

NAMES = tables.CONF.filter_scheduler.enabled_filters
FILTERS = filters.load(tables.CONF, NAMES)
WEIGHERS = weights.load(tables.CONF)
ORDER = pipeline.SPREAD
EVERYTHING = slice(0, 1000)


def request(**asked):
    return placement_request.Request(**{'resources': tables.SMALL, **asked})


def removal(count, reason, name='SomeFilter'):
    return explain.Removal(name, count, reason, ('secret',))


def report(table, wanted, seeds, page=EVERYTHING):
    return dry_run.report(table, wanted, decision.Rules(tuple(FILTERS), WEIGHERS, ORDER), seeds, page)


def seeds(count):
    return [str(uuidlib.UUID(int=number)) for number in range(1, count + 1)]


@pytest.mark.parametrize(('most', 'servers'), [(1, 'a server'), (2, '2 or more servers')])
def test_reason_of_anti_affinity_covers_hosts_with_more_servers(most, servers):
    asked = request(group=placement_request.Group('g', frozenset({'anti-affinity'}), most, None, {}))
    apart = next(each for each in FILTERS if isinstance(each, groups.ServerGroupAntiAffinityFilter))
    assert apart.reason(None, asked, None) == (
        f'has|have {servers} of the group with the policy anti-affinity already')


# ---- sentences -------------------------------------------------------------------

def test_a_sentence_fits_where_it_stands():
    many = [removal(number, f'are in the way of the server for reason number {number}') for number in range(1, 40)]
    text = explain.sentence(1000, many)
    assert len(text) <= explain.SENTENCE and text.startswith('1000 hosts: ')
    # the largest stay, in the order of the filters, and the rest is counted
    assert 'reason number 39' in text and 'reason number 1,' not in text
    told = [int(part.split()[0]) for part in text[len('1000 hosts: '):-1].split(', ')]
    assert sum(told) == sum(range(1, 40)) and text.endswith('for other reasons.')


def test_a_reason_without_end_is_cut():
    text = explain.sentence(3, [removal(3, 'are not in availability zone ' + 'z' * 500)])
    assert len(text) <= explain.SENTENCE and text.endswith('….')
    assert len(explain.sentence(3, [removal(3, 'x' * 500), removal(1, 'y' * 500)], 100)) <= 100


@pytest.mark.parametrize('placed', [0, 3])
def test_the_fault_has_room_for_it(placed):
    table = tables.hosts(*[{'disabled': True}] * 3)
    removals = [removal(1, 'x' * 300)]
    error = explain.no_valid_host(table, request(), FILTERS, removals, placed, 5)
    assert len(error.message) <= 255 and ('Only 3 of 5' in error.message) == bool(placed)


# ---- nearest misses ----------------------------------------------------------------

def test_the_nearest_lacks_the_fewest_things_and_of_those_the_least():
    table = tables.hosts(
        {'memory_mb_used': 8192, 'vcpus_used': 16},            # two things
        {'memory_mb_used': 8192}, {'memory_mb_used': 7936}, {'disabled': True}, {})
    table.host[4] = 'fine'
    texts = [str(miss) for miss in explain.nearest(table, request(), FILTERS)]
    assert texts == ['h2 lacks 256 MB of memory only', 'h1 lacks 512 MB of memory only', 'h3 is down or disabled',
                     'h0 lacks 1 vCPUs and lacks 512 MB of memory']
    assert len(explain.nearest(table, request(), FILTERS, limit=1)) == 1


def test_only_hosts_that_the_request_allows_come_near():
    table = tables.hosts(*[{'memory_mb_used': 8192}] * 4)
    assert [miss.host for miss in explain.nearest(table, request(host='h2'), FILTERS)] == ['h2']
    assert [miss.host for miss in explain.nearest(table, request(ignored=('h0', 'h1')), FILTERS)] == ['h2', 'h3']
    # of a forced host only what is asked of it counts
    table = tables.hosts({'disabled': True, 'memory_mb_used': 8192})
    miss, = explain.nearest(table, request(host='h0', forced=True), FILTERS)
    assert [name for name, _ in miss.failed_filters] == ['RamFilter']


class Odd:
    """A filter of others, which is written for one host at a time and counts how often it is asked."""

    asked = 0

    def host_passes(self, host_state, spec):
        Odd.asked += 1
        return int(host_state.host[1:]) % 2 == 1


def test_filters_for_one_host_at_a_time_are_asked_of_few():
    using = [*FILTERS, filters.PerHost(tables.CONF, Odd())]
    table = tables.hosts(*[{'memory_mb_used': 8192}] * 900, *[{}] * 100)
    Odd.asked = 0
    # of those that have room every other one passes all
    left, _ = placement.narrow(table, request(), using)
    assert [table.host[position] for position in left] == [f'h{number}' for number in range(901, 1000, 2)]
    assert Odd.asked == 100
    misses = explain.nearest(table, request(), using, left)
    assert [miss.host for miss in misses] == ['h900', 'h902', 'h904', 'h906', 'h908']
    assert misses[0].failed_filters == (('Odd', 'does not pass Odd'),) and Odd.asked <= 100 + explain.MAX_EXAMINED_HOSTS


def test_details_name_hosts_and_the_sentence_does_not():
    table = tables.hosts(*[{'memory_mb_used': 8192}] * 60)
    with pytest.raises(exception.NoValidHost) as caught:
        pipeline.choose(table, request(), FILTERS, WEIGHERS, seeds(1))
    details = caught.value.kwargs['details'].splitlines()
    assert details[0].startswith('RamFilter removed 60: have too little free memory') and details[0].endswith('h49, …')
    assert details[1:] == [f'Nearest: h{number} lacks 512 MB of memory only' for number in range(5)]
    assert not any(host in caught.value.message for host in table.host)


# ---- dry runs and replays ----------------------------------------------------------

def test_the_same_rows_and_uuid_give_the_same_host():
    for seed in seeds(20):
        first, again = (pipeline.choose(tables.hosts(count=30), request(), FILTERS, WEIGHERS, [seed])[0]
                        for _ in range(2))
        assert first.tolist() == again.tolist()


def test_another_order_of_the_rows_makes_no_difference():
    """Another scheduler, or a dry run, may have read them in another one."""
    rows = tables.hosts(count=30).rows
    ordered, turned = type(tables.hosts(count=1))(rows), type(tables.hosts(count=1))(rows[::-1])
    for seed in seeds(20):
        chosen = [table.host[pipeline.choose(table, request(), FILTERS, WEIGHERS, [seed])[0]].tolist()
                  for table in (ordered, turned)]
        assert chosen[0] == chosen[1]


def test_a_host_that_passes_no_filter_makes_no_difference():
    changes = [{}] * 20
    plain, more = tables.hosts(*changes), tables.hosts(*changes, *[{'disabled': True}] * 7)
    for seed in seeds(20):
        assert (report(plain, request(), [seed])['choices'] == report(more, request(), [seed])['choices'])


@pytest.mark.parametrize('count', [1, 7, 40])
def test_a_report_says_what_choosing_does(count):
    dice = np.random.default_rng(count)
    table = tables.hosts(*[{'memory_mb_used': int(used), 'disabled': bool(used % 7 == 0)}
                           for used in dice.integers(0, 9000, count)])
    for seed in seeds(5):
        told = report(table, request(), [seed])
        left, removals = placement.narrow(pipeline.mutable_view(table, request()), request(), FILTERS)
        assert told['remaining'] == len(left) == len(told['ranking'])
        assert {row['name']: (row['removed'], row['reason']) for row in told['filters'] if row['removed']} == {
            each.filter: (each.count, each.reason) for each in removals}
        assert told['hosts'] - sum(row['removed'] for row in told['filters']) == told['remaining']
        if len(left):
            ranking, = pipeline.choose(table, request(), FILTERS, WEIGHERS, [seed], ORDER)
            assert [row['host'] for row in told['ranking']] == table.host[ranking].tolist()
            assert told['choices'][0]['host'] == told['ranking'][0]['host']
        else:
            with pytest.raises(exception.NoValidHost) as caught:
                pipeline.choose(table, request(), FILTERS, WEIGHERS, [seed], ORDER)
            assert told['reason'] == caught.value.kwargs['reason'] and told['choices'] == []


def test_a_report_changes_no_view():
    table = tables.hosts(count=5)
    before = {name: used.copy() for name, used in table.used.items()}
    report(table, request(), seeds(3))
    assert all((table.used[name] == before[name]).all() for name in before) and not table.running_vms.any()


def test_lists_are_pages():
    table = tables.hosts(*[{'memory_mb_used': 8192}] * 30, *[{}] * 30)
    told = report(table, request(), seeds(1), slice(5, 15))
    assert len(told['ranking']) == 10
    ram = next(row for row in told['filters'] if row['name'] == 'RamFilter')
    assert (ram['removed'], [host['host'] for host in ram['hosts']]) == (30, [f'h{number}' for number in range(5, 15)])
