"""How far the files of a guest that moves here have come: a record in their directory, by which a restart goes on.

It is there from the beginning of the copies until the guest is recorded, which is before it is started for the first
time, and where a guest's record is, it is not read: so what it describes is as it was sent, or made of that alone.
"""
from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from typing import Any

from nova import exception
from nova.runtime import versioned_records

NAME = 'arriving.json'
FORMAT = versioned_records.RecordFormat(
    name='record of an arriving guest', fields=frozenset({'move', 'host', 'files'}),
    parts={'files': frozenset({'size', 'written', 'offset'})}, required=frozenset({'move', 'files'}))
PART = '.part'                           # end of the name of a file that is not whole


@dataclasses.dataclass(frozen=True)
class Stamp:
    """A file as libvirt of its host describes it: while it is the same, so is the content.

    size     bytes
    written  when it was written last, with the fraction of the second; '' where libvirt does not say
    """

    size: int
    written: str


class Arrival:
    """
    :param directory: where the files arrive
    :param move: what they are from and for; copies for another move are not taken up
    :param host: where they arrive: others may share the directory of all guests
    """

    def __init__(self, directory: str, move: dict[str, Any], host: str | None = None) -> None:
        self._directory, self._move, self._host = directory, move, host
        self._files: dict[str, tuple[Stamp, int]] = {}
        self._unknown: dict[str, Any] = {}               # fields that another release has in the record

    @classmethod
    def interrupted(cls, directory: str, move: dict[str, Any], host: str | None = None) -> Arrival | None:
        """The one that has begun for such a move and not come to its end; what it does not know of is removed."""
        def made(values: dict[str, Any]) -> Arrival | None:
            if values['move'] != move:
                return None
            found = cls(directory, move, host)
            found._unknown = {name: value for name, value in values.items() if name not in FORMAT.known}
            found._files = {name: (Stamp(row['size'], row['written']), row['offset'])
                            for name, row in values['files'].items()}
            return found

        try:
            found = FORMAT.read_as(os.path.join(directory, NAME), made)
        except exception.RecordUnreadable:               # the files are copied again
            return None
        if found is not None:
            found._clean()
        return found

    def _clean(self) -> None:
        known = {NAME, *self._files, *(name + PART for name in self._files)}
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name not in known:
                    shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)

    def of(self, name: str) -> tuple[Stamp | None, int]:
        """(what the file was there, the offset before which all of it is here)"""
        return self._files.get(name, (None, 0))

    def bytes_here(self) -> int:
        """How much of the files is here, holes among it."""
        return sum(offset for _stamp, offset in self._files.values())

    def note(self, name: str, stamp: Stamp, offset: int) -> None:
        """Record that what is before ``offset`` is on the disk."""
        self._files[name] = (stamp, offset)
        self.begin()

    def begin(self) -> None:
        FORMAT.write(os.path.join(self._directory, NAME), {
            **self._unknown, 'move': self._move, 'host': self._host,
            'files': {name: {'size': stamp.size, 'written': stamp.written, 'offset': offset}
                      for name, (stamp, offset) in self._files.items()}})

    def end(self) -> None:
        """The guest is recorded."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, NAME))


def is_there(directory: str) -> bool:
    """Whether files arrive in a directory, or did when they were interrupted."""
    return os.path.exists(os.path.join(directory, NAME))


def host_of(directory: str) -> str | None:
    """The host whose the copies in a directory are; None: none arrive, or their record does not say it.

    :raises RecordUnreadable: it cannot be read
    """
    values = FORMAT.read(os.path.join(directory, NAME)) or {}
    return values.get('host')
