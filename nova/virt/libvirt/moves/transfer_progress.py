"""Progress of the transfer of an incoming guest's files: a record in their directory for a resume after a restart.

The record exists from the beginning of the copies until the guest is recorded, before its first start. It is ignored
once the guest has a record. Until then no guest has written to the files.
"""
from __future__ import annotations

import dataclasses
import os
import shutil
from typing import Any

from nova import exception
from nova.disk_files import files
from nova.runtime import versioned_records

NAME = 'transfer.json'
FORMAT = versioned_records.RecordFormat(
    name='record of the transfer of an incoming guest', fields=frozenset({'move', 'host', 'files'}),
    parts={'files': frozenset({'size', 'written', 'offset'})}, required=frozenset({'move', 'files'}))
PART = '.part'                           # suffix of an incomplete file


@dataclasses.dataclass(frozen=True)
class FileVersion:
    """Description of a file by its host's libvirt: the same description implies the same content.

    size     bytes
    written  modification time with the fraction of the second; '' if libvirt does not report it
    """

    size: int
    written: str


class IncomingTransfer:
    """Transfer of files into a directory.

    :param directory: where the files arrive
    :param move: source and purpose; copies of another move are not resumed
    :param host: destination host; others may share the directory of all guests
    """

    def __init__(self, directory: str, move: dict[str, Any], host: str | None = None) -> None:
        self._directory, self._move, self._host = directory, move, host
        self._files: dict[str, tuple[FileVersion, int]] = {}
        self._unknown: dict[str, Any] = {}               # fields that another release has in the record

    @classmethod
    def interrupted(cls, directory: str, move: dict[str, Any], host: str | None = None) -> IncomingTransfer | None:
        """Return the interrupted transfer of the same move, or None; files that it does not list are removed."""
        def made(values: dict[str, Any]) -> IncomingTransfer | None:
            if values['move'] != move:
                return None
            found = cls(directory, move, host)
            found._unknown = {name: value for name, value in values.items() if name not in FORMAT.known}
            found._files = {name: (FileVersion(row['size'], row['written']), row['offset'])
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

    def of(self, name: str) -> tuple[FileVersion | None, int]:
        """Return (description of the source file, offset up to which it is copied)."""
        return self._files.get(name, (None, 0))

    def bytes_here(self) -> int:
        """Return the bytes of the copied data, including holes."""
        return sum(offset for _stamp, offset in self._files.values())

    def note(self, name: str, stamp: FileVersion, offset: int) -> None:
        """Record that the data before ``offset`` is on the disk."""
        self._files[name] = (stamp, offset)
        self.begin()

    def begin(self) -> None:
        FORMAT.write(os.path.join(self._directory, NAME), {
            **self._unknown, 'move': self._move, 'host': self._host,
            'files': {name: {'size': stamp.size, 'written': stamp.written, 'offset': offset}
                      for name, (stamp, offset) in self._files.items()}})

    def end(self) -> None:
        """Remove the record of the transfer, because the guest is recorded now."""
        files.remove(os.path.join(self._directory, NAME))


def is_there(directory: str) -> bool:
    """Return whether a transfer into a directory is in progress or interrupted."""
    return os.path.exists(os.path.join(directory, NAME))


def host_of(directory: str) -> str | None:
    """Return the destination host of the copies in a directory, or None if unknown.

    :raises RecordUnreadable: the record cannot be read
    """
    values = FORMAT.read(os.path.join(directory, NAME)) or {}
    return values.get('host')
