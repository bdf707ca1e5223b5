"""Rings of counters: slots, gaps, restarts, coarser steps, moves between hosts."""
import itertools
import math

import pytest

from nova.objects import counter_rings
from nova.objects import counters
from nova.objects.counters import Counters

T0 = 1_800_000_000           # begins a slot of each step
GIB = 2 ** 30


def sample(cpu_s=0, run='1', memory=GIB, **values):
    return Counters(run, memory, int(cpu_s * 10 ** 9), **values)


class World:
    """The rings of one server, as the database has them."""

    def __init__(self):
        self.stored, self.orders = {}, itertools.count(1)

    def record(self, taken, now, source=1, order=None):
        ring = counter_rings.CounterRing(self.stored.get(20))
        ended = ring.record(source, next(self.orders) if order is None else order, taken, now)
        for step, (number, values) in (ended or {}).items():
            coarse = counter_rings.Ring(step, self.stored.get(step))
            coarse.add(number, values)
            self.stored[step] = bytes(coarse.data)
        self.stored[20] = bytes(ring.data)
        return ended

    def run(self, begin, end, rate=.5, source=1, base=0.0, every=20):
        """Samples of a server that uses ``rate`` processors; the counter at the end."""
        for number, now in enumerate(range(begin, end + 1, every)):
            self.record(sample(base + rate * number * every), now, source)
        return base + rate * (end - begin) // every * every

    def cpu(self, step, since, now):
        return counter_rings.series(self.stored, step, since, now)['cpu']

    @property
    def total(self):
        return counter_rings.totals(self.stored)['cpu_seconds']


def test_a_slot_has_rates_and_the_mean_memory():
    world = World()
    world.record(sample(10, memory=GIB), T0)
    world.record(sample(15, memory=GIB, disk_read_bytes=None), T0 + 10)
    world.record(sample(20, memory=2 * GIB), T0 + 20)
    found = counter_rings.series(world.stored, 20, T0, T0 + 20)
    assert found['cpu'] == [.5, None] and found['memory_bytes'][0] == pytest.approx(1.5 * GIB, rel=1e-5)
    assert found['disk_read_bytes'] == [None, None]
    assert set(found) == {'cpu', 'memory_bytes', *counters.NAMES} - {'cpu_ns'}


def test_a_sample_between_two_slots_is_divided():
    world = World()
    world.record(sample(0), T0 + 15)
    world.record(sample(20), T0 + 35)                        # 5 s in the first slot, 15 s in the second
    assert world.cpu(20, T0, T0 + 20) == [1, 1]
    ring = counter_rings.Ring(20, world.stored[20])
    assert ring.get(T0 // 20)[:1] == (5,) and ring.get(T0 // 20 + 1)[2] == pytest.approx(15e9)


def test_jitter_leaves_no_holes():
    world = World()
    for number in range(600):
        world.record(sample(number), T0 + number * 20.07)
    end = int(T0 + 599 * 20.07)
    assert None not in world.cpu(20, end - 3500, end)


def test_the_ring_of_an_hour_wraps_and_stays_bounded():
    world = World()
    world.run(T0, T0 + 2 * 3600)
    now = T0 + 2 * 3600
    found = world.cpu(20, now - 3600, now)
    assert len(found) == 181 and found[:-1] == [.5] * 180
    assert world.cpu(20, T0, T0 + 3560) == [None] * 179      # overwritten
    assert [len(world.stored[step]) // 44 for step in (20, 120, 900)] == [184, 724, 676]       # slots and a head


def test_coarse_slots_are_sums_of_fine_ones():
    world = World()
    world.run(T0, T0 + 1800, rate=.25)
    for step in (120, 900):
        found = world.cpu(step, T0, T0 + 1800 - step)
        assert found == [.25] * (1800 // step)
    week = counter_rings.Ring(900, world.stored[900])
    assert week.get(T0 // 900)[:1] == (900,)


def test_the_open_slot_of_a_coarse_step_comes_from_the_fine_ring():
    world = World()
    world.run(T0, T0 + 60)
    assert 900 not in world.stored and world.cpu(900, T0, T0 + 60) == [.5]
    assert world.cpu(120, T0, T0 + 300) == [.5, None, None]  # also after the last sample of a stopped server


def test_a_gap_is_null_and_its_increase_is_in_the_total():
    world = World()
    world.run(T0, T0 + 100)
    world.record(sample(1000), T0 + 1000)
    world.record(sample(1010), T0 + 1020)
    found = world.cpu(20, T0, T0 + 1020)
    assert found[:5] == [.5] * 5 and found[5:50] == [None] * 45 and found[50] == .5
    assert world.total == 1010
    assert world.cpu(120, T0, T0 + 960) == [.5] + [None] * 7 + [.5]


def test_a_gap_of_more_than_a_day_clears_what_it_passes():
    world = World()
    world.run(T0, T0 + 3600)
    later = T0 + 2 * 86400
    world.run(later, later + 240)
    assert world.cpu(20, later, later + 220) == [.5] * 12
    assert world.cpu(120, later - 86280, later - 120) == [None] * 719
    assert world.cpu(900, T0, T0 + 2700) == [.5] * 4         # a week still has them


@pytest.mark.parametrize('after', [0, 3, 80])
def test_a_restart_or_a_move_continues_the_counters(after):
    """The counter of the new run begins at 0, and may already be above the last one of the old run."""
    world = World()
    world.run(T0, T0 + 60)
    assert world.total == 30
    world.record(sample(after), T0 + 80, source=2)
    assert world.total == 30 + after
    world.record(sample(after + 10), T0 + 100, source=2)
    assert world.total == 40 + after
    assert world.cpu(20, T0, T0 + 80) == [.5, .5, .5, after / 20, .5]


def test_a_late_message_changes_nothing():
    world = World()
    world.run(T0, T0 + 60)
    before = dict(world.stored)
    assert world.record(sample(5), T0 + 80, order=1) is None
    assert world.stored == before


def test_counters_never_go_backwards():
    """The sum over disks sinks when one is detached."""
    world = World()
    world.record(sample(disk_read_bytes=500), T0)
    world.record(sample(disk_read_bytes=100), T0 + 20)
    world.record(sample(disk_read_bytes=160), T0 + 40)
    assert counter_rings.totals(world.stored)['disk_read_bytes'] == 560
    assert counter_rings.series(world.stored, 20, T0, T0 + 20)['disk_read_bytes'] == [0, 3]


def test_an_unknown_value_is_null_and_not_counted():
    world = World()
    for number, value in enumerate((None, 100, 120, None, None, 180, 240)):
        world.record(sample(network_receive_bytes=value), T0 + 20 * number)
    found = counter_rings.series(world.stored, 20, T0, T0 + 119)['network_receive_bytes']
    # the increase of three intervals, 60, is no rate of the last one
    assert found == [None, 1, None, None, None, 3]
    assert counter_rings.totals(world.stored)['network_receive_bytes'] == 140
    world.run(T0 + 140, T0 + 280, base=1)
    assert math.isnan(counter_rings.Ring(120, world.stored[120]).get(T0 // 120)[8])


def test_the_clock_of_the_conductors_may_step_back():
    world = World()
    world.run(T0, T0 + 600)
    world.record(sample(310), T0 - 7200)
    world.record(sample(320), T0 - 7180)
    assert world.total == 320 and world.cpu(20, T0, T0 + 580) == [.5] * 30


def test_a_ring_of_another_format_begins_again():
    assert counter_rings.Ring(20, b'\x07' * 8129).newest == 0
    assert counter_rings.Ring(20, b'').data == counter_rings.Ring(20).data


def test_the_largest_counter_does_not_overflow():
    world = World()
    most = Counters('1', counters.MAX, *[counters.MAX] * len(counters.NAMES))
    for number in range(3):
        world.record(most, T0 + 20 * number, source=number + 1)
    assert counter_rings.totals(world.stored)['disk_read_bytes'] == counters.MAX


def test_the_step_follows_from_the_age():
    assert [counter_rings.finest_step(age) for age in (0, 3600, 3601, 86400, 604800, 10 ** 9)] == [
        20, 20, 120, 120, 900, 900]


@pytest.mark.parametrize('found', [
    [], {'a': None}, {'a': []}, {'a': ['1', *[0] * 9]}, {'a': ['1', *[0] * 9, -1]}, {'a': ['1', *[0] * 9, 1.5]},
    {'a': ['1', *[0] * 9, True]}, {'a': ['1', *[0] * 9, 2 ** 63]}])
def test_malformed_messages_are_refused(found):
    with pytest.raises(ValueError):
        counters.loaded(found)
    assert counters.loaded({'a': ['1', *[None] * 10, 'later']}) == {'a': Counters('1')}
