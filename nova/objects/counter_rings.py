"""Ring buffers of counters: usage of a server or host in the last hour, day and week, in bounded space.

A ring is an array of slots. Each slot covers one step, a fixed number of seconds. The values of a slot are the
measured seconds, the memory in byte-seconds, and the increase of each counter. All values are sums, so a coarse slot is
the sum of fine slots. A value that the driver does not know is NaN. See ADR 0032.

    ring = CounterRing(data)
    ended = ring.record(source, order, sample, now)         # {step: (number of a coarse slot, its values)}
"""
import math
import struct
import typing

from nova.objects import counters
from nova.objects.counters import Counters

STEPS = {counters.SAMPLE_S: 181, 120: 721, 900: 673}  # {step in s: number of slots in an hour, day or week, plus 1}
FINEST, *COARSE = STEPS
MAX_GAP_S = 100              # a longer interval between two samples counts only in the totals, not in slots
FORMAT = 1                   # a stored ring of another format is replaced by an empty one
UNKNOWN = -1
# added to a counter of an earlier sample, if the last sample did not have it. A release without this value counts
# nothing for the missing time, and continues with the next sample.
MISSED = 1 << 62

SlotValues = tuple[float, ...]
_HEAD = struct.Struct('<Bq')                             # format, number of the newest slot
_STATE = struct.Struct(f'<ddI{2 * len(counters.NAMES)}q')      # see CounterRing
_SLOT = struct.Struct(f'<{2 + len(counters.NAMES)}f')
_EMPTY: SlotValues = (0.0,) * (2 + len(counters.NAMES))
_SLOTS = _HEAD.size + _STATE.size


class Ring:
    """Ring of the slots of one step. The number of a slot is its time since 1970, divided by the step.

    :param step: one of STEPS
    :param data: stored ring, None for a new one
    """

    def __init__(self, step: int, data: bytes | None = None) -> None:
        self.step, self._count = step, STEPS[step]
        size = _SLOTS + self._count * _SLOT.size
        self.data = bytearray(data if data is not None and len(data) == size and data[0] == FORMAT else size)
        self.data[0] = FORMAT

    @property
    def newest(self) -> int:
        """Number of the newest slot."""
        return int(_HEAD.unpack_from(self.data)[1])

    def add(self, number: int, values: typing.Iterable[float]) -> None:
        """Add values to a slot; a slot older than the ring's oldest slot is ignored."""
        newest = self.newest
        if number <= newest - self._count:
            return
        if number - newest >= self._count:
            self.data[_SLOTS:] = bytes(len(self.data) - _SLOTS)
        else:
            for skipped in range(newest + 1, number + 1):
                _SLOT.pack_into(self.data, self._place(skipped), *_EMPTY)
        _HEAD.pack_into(self.data, 0, FORMAT, max(newest, number))
        place = self._place(number)
        _SLOT.pack_into(self.data, place, *map(sum, zip(_SLOT.unpack_from(self.data, place), values)))

    def get(self, number: int) -> SlotValues:
        """Return the values of a slot; zeros if the ring does not have it."""
        newest = self.newest
        return _SLOT.unpack_from(self.data, self._place(number)) if newest - self._count < number <= newest else _EMPTY

    def total(self, begin: int, end: int) -> SlotValues:
        """Return the sum of the slots from ``begin`` (included) to ``end`` (excluded)."""
        return tuple(map(sum, zip(*map(self.get, range(begin, end)))))

    def _place(self, number: int) -> int:
        return _SLOTS + number % self._count * _SLOT.size


class CounterRing(Ring):
    """The finest ring of a server, with the state of its counters.

    at      time of the last sample, in seconds since 1970; 0 before the first one
    order   monotonic time of the last sample on its host
    source  number that identifies the host and the run (Counters.run); if it changes, the counters restart at 0
    last    counters of the last sample: UNKNOWN, or that of an earlier sample plus MISSED, if it did not have one
    totals  counters since the server was first measured, over all hosts and runs
    """

    def __init__(self, data: bytes | None = None) -> None:
        super().__init__(FINEST, data)
        self.at, self.order, self.source, *numbers = _STATE.unpack_from(self.data, _HEAD.size)
        self.last, self.totals = numbers[:len(counters.NAMES)], numbers[len(counters.NAMES):]

    def record(self, source: int, order: float, sample: Counters, now: float,
               ) -> dict[int, tuple[int, SlotValues]] | None:
        """Add a sample.

        The increase since the last sample is divided between the slots of this interval, in proportion to the part of
        the interval in each slot. If the last sample did not have the counter, the increase is of a longer time, and
        counts only in the totals.

        :param now: seconds since 1970
        :returns: {step: (number, values)} of the coarser slots that have ended since the last sample; None if the
            sample is not newer than the last one, and is ignored
        """
        is_new_run = source != self.source
        if not is_new_run and order <= self.order:
            return None
        first = not self.at
        increase = []
        for place, value in enumerate(sample[2:]):
            before = 0 if is_new_run else self.last[place]
            missed = before >= MISSED
            before -= MISSED * missed
            if value is None:
                grown = UNKNOWN
                self.last[place] = UNKNOWN if is_new_run or before == UNKNOWN else before + MISSED
            else:
                value = min(value, MISSED - 1)
                grown = UNKNOWN if before == UNKNOWN else max(0, value - before)
                self.last[place] = value
            self.totals[place] = min(counters.MAX, self.totals[place] + max(0, grown))
            increase.append(math.nan if missed or grown == UNKNOWN else float(grown))
        was_at, self.at, self.order, self.source = self.at, now, order, source
        ended = {}
        if 0 < now - was_at <= MAX_GAP_S:
            self._spread(was_at, now, sample.memory_bytes, increase)
        if not first:
            ended = {step: (number, self.total_of(step, number)) for step in COARSE
                     for number in [int(was_at // step)] if number < now // step}
        _STATE.pack_into(self.data, _HEAD.size, self.at, self.order, self.source, *self.last, *self.totals)
        return ended

    def _spread(self, begin: float, end: float, memory: int | None, increase: list[float]) -> None:
        for number in range(int(begin // self.step), int(end // self.step) + 1):
            seconds = min(end, (number + 1) * self.step) - max(begin, number * self.step)
            share = seconds / (end - begin)
            if seconds > 0:
                self.add(number, (seconds, math.nan if memory is None else memory * seconds,
                                  *(value * share for value in increase)))

    def total_of(self, step: int, number: int) -> SlotValues:
        """Return the values of a coarser slot, computed from the slots that this ring has."""
        return self.total(number * step // self.step, (number + 1) * step // self.step)


# ---- what clients see

# {name of a series: (index of its value in a slot, factor)}
SERIES = {'cpu': (2, 1e-9), 'memory_bytes': (1, 1.0),
          **{name: (place, 1.0) for place, name in enumerate(counters.NAMES, start=2) if name != 'cpu_ns'}}


def finest_step(age_s: float) -> int:
    """Return the finest step whose ring covers the last ``age_s`` seconds; the coarsest step if no ring does."""
    return next((step for step in STEPS if age_s <= reach_s(step)), COARSE[-1])


def reach_s(step: int) -> int:
    """Return how many seconds the ring of a step reaches back."""
    return step * (STEPS[step] - 1)


def series(stored: typing.Mapping[int, bytes], step: int, since: float, now: float,
           ) -> dict[str, list[float | None]]:
    """Return {name in SERIES: values of the slots from the time ``since`` to the time ``now``}.

    A value is the mean over the measured part of its slot, or None if nothing was measured:

    cpu            seconds of processor time per second
    memory_bytes   bytes
    others         bytes, requests or packets per second

    :param stored: {step: data} of the finest ring and the ring of ``step``, as far as they exist
    """
    fine, ring = CounterRing(stored.get(FINEST)), Ring(step, stored.get(step))
    # a coarser ring gets a slot only when the slot has ended: for the open slot, sum the finest ring
    open_slot = int(fine.at // step) if step != FINEST else None
    slots = [fine.total_of(step, number) if number == open_slot else ring.get(number)
             for number in range(int(since // step), int(now // step) + 1)]
    return {name: [_shown(slot[place] * factor, slot[0]) for slot in slots] for name, (place, factor) in SERIES.items()}


def _shown(value: float, seconds: float) -> float | None:
    return float(f'{value / seconds:.6g}') if seconds and math.isfinite(value) else None


def totals(stored: typing.Mapping[int, bytes]) -> dict[str, float]:
    """Return {name: counter since the server was first measured}; ``cpu_seconds`` in seconds."""
    found = dict(zip(counters.NAMES, CounterRing(stored.get(FINEST)).totals))
    return {'cpu_seconds': found.pop('cpu_ns') / 1e9, **found}
