"""Record of the transfer of an incoming guest's files, with which the transfer resumes after a restart.

This record is removed when the guest gets a guest record, before its first start on this host. Until then the files are
unchanged copies. If both records exist, this record is ignored.
"""
from __future__ import annotations

import dataclasses
import os
import shutil
from typing import TypedDict

from nova import exception
from nova.disk_files import files
from nova.runtime import versioned_records
from nova.virt.driver import GuestLocation

NAME = 'transfer.json'
FileRecord = TypedDict('FileRecord', {'size': int, 'written': str, 'offset': int})
# a move: location of the guest on its source, and {file name of a disk: bytes}
Move = TypedDict('Move', {'source': GuestLocation, 'sizes': dict[str, int]})
Record = TypedDict('Record', {'move': Move, 'host': str | None, 'files': dict[str, FileRecord]})
FORMAT = versioned_records.RecordFormat[Record](
    name='record of the transfer of an incoming guest', fields=frozenset(Record.__annotations__),
    parts={'files': frozenset(FileRecord.__annotations__)}, required=frozenset({'move', 'files'}))
PART = '.part'                           # suffix of an incomplete file


@dataclasses.dataclass(frozen=True)
class FileVersion:
    """Version of a file as libvirt on its host describes it; an equal version means equal content.

    size     bytes
    written  modification time with the fraction of the second; '' if libvirt does not report it
    """

    size: int
    written: str


class IncomingTransfer:
    """Transfer of files into a directory.

    :param directory: where the files arrive
    :param move: identifies the move; copies of another move are not resumed
    :param host: destination host; others may share the directory of all guests
    """

    def __init__(self, directory: str, move: Move, host: str | None = None) -> None:
        self._directory = directory
        self._record: Record = {'move': move, 'host': host, 'files': {}}   # a loaded record keeps its unknown fields
        self._files: dict[str, tuple[FileVersion, int]] = {}

    @classmethod
    def interrupted(cls, directory: str, move: Move, host: str | None = None) -> IncomingTransfer | None:
        """Return the interrupted transfer of the same move, or None. Remove files that its record does not list."""
        def made(values: Record) -> IncomingTransfer | None:
            if values['move'] != move:
                return None
            found = cls(directory, move, host)
            found._record = {**values, 'host': host}
            found._files = {name: (FileVersion(row['size'], row['written']), row['offset'])
                            for name, row in values['files'].items()}
            return found

        try:
            found = FORMAT.read_as(os.path.join(directory, NAME), made)
        except exception.RecordUnreadable:               # start again
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
        """Record that the data of a file before ``offset`` is on the disk of this host."""
        self._files[name] = (stamp, offset)
        self.begin()

    def begin(self) -> None:
        FORMAT.write(os.path.join(self._directory, NAME), {
            **self._record, 'files': {name: {'size': stamp.size, 'written': stamp.written, 'offset': offset}
                                      for name, (stamp, offset) in self._files.items()}})

    def end(self) -> None:
        """Remove the record of the transfer, because the guest now has a guest record."""
        files.remove(os.path.join(self._directory, NAME))


def is_there(directory: str) -> bool:
    """Return whether a transfer into a directory is in progress or interrupted."""
    return os.path.exists(os.path.join(directory, NAME))


def host_of(directory: str) -> str | None:
    """Return the destination host of the copies in a directory, or None if unknown.

    :raises RecordUnreadable: the record cannot be read
    """
    values = FORMAT.read(os.path.join(directory, NAME))
    return values and values.get('host')
