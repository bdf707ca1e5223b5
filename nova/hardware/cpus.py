"""Text forms of CPU sets and sizes of memory pages.

``0-3,^2,8`` is 0, 1, 3 and 8; see the extra specs in
https://docs.openstack.org/nova/latest/configuration/extra-specs.html.
"""
import re
from collections.abc import Iterable

LIMIT = 1 << 13                # CPU numbers must be below this limit, so that a parsed range needs little memory
_PART = re.compile(r'(\^?)\s*([0-9]{1,6})(?:\s*-\s*([0-9]{1,6}))?\Z')
# size of a memory page: KiB, or a number with a unit
SIZE = r'0*(?P<number>[1-9][0-9]{0,11}) ?((?P<unit>[kmgt])i?b?)?'
_SIZE = re.compile(SIZE, re.IGNORECASE)
_UNITS = {'': 1, 'k': 1, 'm': 1 << 10, 'g': 1 << 20, 't': 1 << 30}      # KiB


def parse(text: str) -> frozenset[int]:
    """Return the frozenset of CPUs in a text.

    :raises ValueError: the text is malformed
    """
    named, excluded = _named(text)
    return named - excluded


def mask(text: str, vcpus: int) -> frozenset[int]:
    """Parse a set of a guest's vCPUs. A text with only exclusions selects all other vCPUs.

    :raises ValueError: the text is malformed, or names a CPU that the guest does not have
    """
    named, excluded = _named(text)
    everything = guest(vcpus)
    if not named | excluded <= everything:
        raise ValueError(f'{text!r} names CPUs that a guest with {vcpus} vCPUs does not have')
    return (named or everything) - excluded


def guest(vcpus: int) -> frozenset[int]:
    """Return the vCPUs of a guest.

    :raises ValueError: the vCPUs exceed LIMIT
    """
    if vcpus > LIMIT:
        raise ValueError(f'{vcpus} vCPUs are more than {LIMIT}')
    return frozenset(range(vcpus))


def show(cpus: Iterable[int]) -> str:
    """Return the set as text with ranges: ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ','.join(str(first) if first == last else f'{first}-{last}' for first, last in ranges)


def page_size(text: str) -> int | str:
    """Parse ``hw:mem_page_size``: 'small', 'large', 'any', KiB or a number with a unit (2MB). Return the word or KiB.

    :raises ValueError: the text is malformed
    """
    word = str(text).strip()
    if word.lower() in ('small', 'large', 'any'):
        return word.lower()
    match = _SIZE.fullmatch(word)
    if not match:
        raise ValueError(f'{text!r} is not a page size')
    return int(match['number']) * _UNITS[(match['unit'] or '').lower()]


def _named(text: str) -> tuple[frozenset[int], frozenset[int]]:
    named: set[int] = set()
    excluded: set[int] = set()
    for part in str(text).split(','):
        match = _PART.match(part.strip())
        if not match:
            raise ValueError(f'{text!r} is not a set of CPUs')
        first, last = int(match[2]), int(match[3] or match[2])
        if first > last or last >= LIMIT:
            raise ValueError(f'{text!r} has an invalid range')
        (excluded if match[1] else named).update(range(first, last + 1))
    return frozenset(named), frozenset(excluded)
