"""Which users of the host the users of containers are: user_namespaces(7)."""
from __future__ import annotations

from collections.abc import Iterable
import dataclasses

from nova import exception

LARGEST = 1 << 32                        # ids are numbers below it, and the last one means none


@dataclasses.dataclass(frozen=True)
class Range:
    """``count`` ids from ``inside`` on, which are those from ``outside`` on for the host."""

    inside: int
    outside: int
    count: int


def parse(option: str, texts: Iterable[str]) -> tuple[Range, ...]:
    """
    :param texts: 'inside:outside:count' each
    :raises VirtError: they overlap, leave out the container's root, or let it be a user of the host's own
    """
    ranges = tuple(sorted((Range(*(int(part) for part in text.split(':'))) for text in texts),
                          key=lambda each: each.inside))
    why = _wrong(ranges)
    if why:
        raise exception.VirtError(operation='run containers', reason=f'[libvirt] {option}: {why}')
    return ranges


def of(ranges: Iterable[Range], inside: int) -> int | None:
    """The host's id of a container's; None: it has none."""
    return next((each.outside + inside - each.inside for each in ranges
                 if inside in range(each.inside, each.inside + each.count)), None)


def table(ranges: Iterable[Range]) -> str:
    """As the kernel takes it in uid_map and gid_map."""
    return ''.join(f'{each.inside} {each.outside} {each.count}\n' for each in ranges)


def _wrong(ranges: tuple[Range, ...]) -> str:
    if of(ranges, 0) is None:
        return 'the root of containers (0) has to be somebody'
    if any(each.outside < 1000 for each in ranges):
        return 'ids below 1000 are those of the host itself'
    if any(max(each.inside, each.outside) + each.count >= LARGEST or not each.count for each in ranges):
        return 'there are no such ids'
    for ends in (sorted((each.inside, each.count) for each in ranges),
                 sorted((each.outside, each.count) for each in ranges)):
        if any(first + count > second for (first, count), (second, _count) in zip(ends, ends[1:])):
            return 'ranges overlap'
    return ''
