"""Id maps of containers (user_namespaces(7)): they map user and group ids of containers to ids of the host."""
from collections.abc import Iterable
import dataclasses

from nova import exception

LARGEST = 1 << 32                        # number of 32-bit ids; the highest id is invalid


@dataclasses.dataclass(frozen=True)
class Range:
    """Map of ``count`` consecutive ids. ``guest`` is the first id in the container, ``host`` the first on the host."""

    guest: int
    host: int
    count: int


def parse(option: str, texts: Iterable[str]) -> tuple[Range, ...]:
    """Parse the values of [libvirt] uid_maps or gid_maps.

    :param texts: values of the form 'guest:host:count'
    :raises VirtError: the ranges overlap, omit the container's root, or map to a regular user of the host
    """
    ranges = tuple(sorted((Range(*(int(part) for part in text.split(':'))) for text in texts),
                          key=lambda each: each.guest))
    why = _wrong(ranges)
    if why:
        raise exception.VirtError(operation='run containers', reason=f'[libvirt] {option}: {why}')
    return ranges


def of(ranges: Iterable[Range], guest: int) -> int | None:
    """Return the host id to which a container's id is mapped, or None if the id is not mapped."""
    return next((each.host + guest - each.guest for each in ranges
                 if guest in range(each.guest, each.guest + each.count)), None)


def table(ranges: Iterable[Range]) -> str:
    """Return the content of /proc/<pid>/uid_map or gid_map for these ranges."""
    return ''.join(f'{each.guest} {each.host} {each.count}\n' for each in ranges)


def _wrong(ranges: tuple[Range, ...]) -> str:
    if of(ranges, 0) is None:
        return 'user 0 of containers has to be mapped to a user of the host'
    if any(each.host < 1000 for each in ranges):
        return 'ids below 1000 belong to system users of the host'
    if any(max(each.guest, each.host) + each.count >= LARGEST or not each.count for each in ranges):
        return 'an id is out of range'
    for ends in (sorted((each.guest, each.count) for each in ranges),
                 sorted((each.host, each.count) for each in ranges)):
        if any(first + count > second for (first, count), (second, _count) in zip(ends, ends[1:])):
            return 'ranges overlap'
    return ''
