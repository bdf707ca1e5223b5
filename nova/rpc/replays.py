"""Replay protection across restarts: each message number is accepted once.

The newest numbers are kept in memory and in two files of fixed-size records. When the newer file is full, the older
file is dropped. The latest time of a key's dropped messages becomes the key's floor. A message with an unknown number
and a time at or before the floor is refused, because it may be a replay.
"""
from collections.abc import Iterator
import contextlib
import logging
import os
import struct
import threading
from typing import Any

from nova import exception
from nova.runtime import versioned_records

LOG = logging.getLogger(__name__)

MAX_NUMBERS = 200_000         # maximum message numbers: about 30 MB in memory and 8 MB in files
FLOORS = versioned_records.RecordFormat[dict[str, int]](
    name='record of the latest times of dropped message numbers', fields=None)
RECORD = struct.Struct('>20s12sQ')      # id of the key, number, time of the message in seconds


class Replays:
    """The numbers (nonces) of the received messages.

    :param path: prefix of the file names; None: keep the numbers in memory only. A failure to write the files is logged
        once, and messages are still accepted
    :param most: maximum number of kept numbers
    :param keep_s: seconds after which a message is refused as too old
    """

    def __init__(self, path: str | None, keep_s: float, most: int = MAX_NUMBERS) -> None:
        self._path, self._most, self._keep_s = path, most, keep_s
        self._older: dict[bytes, int] = {}
        self._newer: dict[bytes, int] = {}
        self._floors: dict[str, int] = {}
        self._lock, self._file, self._failed = threading.Lock(), -1, False
        if path is not None:
            self._read(path)

    def check(self, key_id: str, number: str, at: int) -> None:
        """Record a message.

        :param key_id, number: hexadecimal, of 20 and 12 bytes
        :param at: time of the message in seconds since the epoch
        :raises MessageRepeated: the number is known
        :raises MessageRefused: the message is so old that its number may have been dropped
        """
        record = bytes.fromhex(key_id) + bytes.fromhex(number)
        with self._lock:
            if record in self._newer or record in self._older:
                raise exception.MessageRepeated()
            if at <= self._floors.get(key_id, -1):
                raise exception.MessageRefused(reason='it may be a replay: its message number may have been dropped')
            if len(self._newer) >= self._most // 2:
                self._drop(at)
            self._newer[record] = at
            self._append(record + at.to_bytes(8, 'big'))

    def _drop(self, now: int) -> None:
        """Drop the older half of the numbers, and raise the floors of their keys."""
        for record, at in self._older.items():
            key_id = record[:20].hex()
            self._floors[key_id] = max(at, self._floors.get(key_id, -1))
        self._floors = {key_id: floor for key_id, floor in self._floors.items() if floor > now - self._keep_s}
        self._older, self._newer = self._newer, {}
        if self._path is None:
            return
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        with self._using_files():
            FLOORS.write(f'{self._path}.floors', self._floors)
            os.replace(f'{self._path}.newer', f'{self._path}.older')

    # ---- files

    def _read(self, path: str) -> None:
        with self._using_files():
            self._older, self._newer = _records(f'{path}.older'), _records(f'{path}.newer')
        try:
            self._floors = FLOORS.read_as(f'{path}.floors', _floors) or {}
        except exception.RecordUnreadable as error:
            LOG.error('%s A message whose number was dropped may be accepted again until it is too old.', error.message)

    def _append(self, record: bytes) -> None:
        if self._path is None:
            return
        with self._using_files():
            if self._file < 0:
                os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
                self._file = _private(f'{self._path}.newer', os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
                whole = os.fstat(self._file).st_size // RECORD.size * RECORD.size
                os.ftruncate(self._file, whole)              # a crash may have left an incomplete record
            if os.write(self._file, record) < len(record):   # file system full: the next call truncates the file
                os.close(self._file)
                self._file = -1

    @contextlib.contextmanager
    def _using_files(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            LOG.log(logging.DEBUG if self._failed else logging.WARNING, 'Message numbers cannot be kept in %s and '
                    'do not survive a restart: %s', self._path, error)
            self._failed = True
        else:
            self._failed = False


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _floors(values: dict[str, Any]) -> dict[str, int]:
    return {key_id: int(floor) for key_id, floor in values.items()}


def _records(path: str) -> dict[bytes, int]:
    try:
        with open(path, 'rb') as file:
            content = file.read()
    except FileNotFoundError:
        return {}
    whole = len(content) // RECORD.size * RECORD.size
    return {key + number: at for key, number, at in RECORD.iter_unpack(content[:whole])}
