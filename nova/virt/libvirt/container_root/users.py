"""Which users of the host the users of containers are: user_namespaces(7)."""
from __future__ import annotations

from collections.abc import Iterable
import dataclasses

from nova import exception

LARGEST = 1 << 32                        # ids are numbers below it, and the last one means none


@dataclasses.dataclass(frozen=True)
class Range:
    """``count`` ids from ``guest`` on, which are those from ``host`` on for the host."""

    guest: int
    host: int
    count: int


def parse(option: str, texts: Iterable[str]) -> tuple[Range, ...]:
    """
    :param texts: 'guest:host:count' each
    :raises VirtError: they overlap, leave out the container's root, or let it be a user of the host's own
    """
    ranges = tuple(sorted((Range(*(int(part) for part in text.split(':'))) for text in texts),
                          key=lambda each: each.guest))
    why = _wrong(ranges)
    if why:
        raise exception.VirtError(operation='run containers', reason=f'[libvirt] {option}: {why}')
    return ranges


def of(ranges: Iterable[Range], guest: int) -> int | None:
    """The host's id of a container's; None: it has none."""
    return next((each.host + guest - each.guest for each in ranges
                 if guest in range(each.guest, each.guest + each.count)), None)


def table(ranges: Iterable[Range]) -> str:
    """As the kernel takes it in uid_map and gid_map."""
    return ''.join(f'{each.guest} {each.host} {each.count}\n' for each in ranges)


def _wrong(ranges: tuple[Range, ...]) -> str:
    if of(ranges, 0) is None:
        return 'the root of containers (0) has to be a user of the host'
    if any(each.host < 1000 for each in ranges):
        return 'ids below 1000 are those of the host itself'
    if any(max(each.guest, each.host) + each.count >= LARGEST or not each.count for each in ranges):
        return 'there are no such ids'
    for ends in (sorted((each.guest, each.count) for each in ranges),
                 sorted((each.host, each.count) for each in ranges)):
        if any(first + count > second for (first, count), (second, _count) in zip(ends, ends[1:])):
            return 'ranges overlap'
    return ''
