"""Versioned records: state files in JSON that one release writes and another release reads.

A record is a JSON object. Two fields are its header:

    version      format version of the release that has last written the record
    readable_by  lowest format version with which a release can read the record

A record without a header has version 1. The rules for a change are in doc/source/contributor/records.rst:

* A release that adds a field raises ``version`` but not ``readable_by``: the previous release can read the record.
* A release that changes the meaning of a field raises both numbers: the previous release refuses the record.
* A release that reads and rewrites a record keeps the fields that it does not know.
"""
from collections.abc import Callable, Mapping
import dataclasses
import json
import logging
import os
from typing import Any, cast, Generic, TypeVar

from nova import exception
from nova import utils
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.runtime import durable_files

LOG = logging.getLogger(__name__)

VERSION, READABLE_BY = 'version', 'readable_by'
MAX_BYTES = 16 * 1024 * 1024             # maximum size of a record; larger files are refused
_UNEXPECTED = (AttributeError, KeyError, TypeError, ValueError)

Values = TypeVar('Values', bound=Mapping[str, object])        # the fields of a record except its header
Made = TypeVar('Made')


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordFormat(Generic[Values]):
    """The format of one kind of record.

    name         noun phrase for messages
    version      version that this release writes
    readable_by  lowest format version with which a release can read records of this release
    fields       names of the fields; None: the keys of the record are ids
    parts        {'field' or 'field.field': field names of the objects in this field}
    required     names of fields that every record has
    upgrades     {version: function(record of that version) -> record of the next version}. It keeps unknown fields,
                 also of the next version: an older release may have rewritten a newer record
    mode         file permissions
    """

    name: str
    version: int = 1
    readable_by: int = 1
    fields: frozenset[str] | None
    parts: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    required: frozenset[str] = frozenset()
    upgrades: Mapping[int, Callable[[JsonObject], JsonObject]] = dataclasses.field(default_factory=dict)
    mode: int = durable_files.PRIVATE

    def __post_init__(self) -> None:
        upgraded = sorted(self.upgrades)
        if upgraded != list(range(self.oldest, self.version)) or not 1 <= self.readable_by <= self.version:
            raise ValueError(f'{self.name}: the upgrades {upgraded} do not lead to version {self.version}')
        named = self.required | {name.partition('.')[0] for name in self.parts}
        if self.fields is not None and not named <= self.fields:
            raise ValueError(f'{self.name}: a required field or a part is not in the fields')

    @property
    def oldest(self) -> int:
        """The lowest version that this release reads."""
        return min(self.upgrades, default=self.version)

    @property
    def readable(self) -> str:
        """The versions that this release reads, for messages."""
        return f'version {self.version}' if self.oldest == self.version else (
            f'versions {self.oldest} to {self.version}')

    # ---- values

    def with_header(self, values: Values) -> Values:
        """Return the record with the header of this release."""
        header = {VERSION: self.version, READABLE_BY: self.readable_by}
        return cast(Values, {**header, **values, **header})

    def checked(self, found: Json, source: durable_files.Path) -> Values:
        """Return a record without its header, converted to the version of this release. Unknown fields are kept.

        :param source: path or id of the record, for messages
        :raises RecordUnreadable: another release wrote it in a version that this release cannot read, or it is damaged
        """
        if not isinstance(found, dict):
            raise self._unreadable(source, 'it is not a JSON object')
        values = dict(found)
        version, readable_by = values.pop(VERSION, 1), values.pop(READABLE_BY, 1)
        if type(version) is not int or type(readable_by) is not int or not 1 <= readable_by <= version:
            raise self._unreadable(source, f'its version {str(version)[:40]} is not a version number')
        if readable_by > self.version:
            raise self._unreadable(source, (
                f'a newer release wrote it in version {version}, which needs version {readable_by} or later, and this '
                f'release reads {self.readable}. Upgrade this service'))
        if version < self.oldest:
            raise self._unreadable(source, (
                f'an older release wrote it in version {version}, and this release reads {self.readable}. Start the '
                f'release before this one once'))
        try:
            for each in range(version, self.version):
                values = self.upgrades[each](values)
        except _UNEXPECTED as error:
            raise self._unreadable(source, f'a field has an unexpected value ({error!r})') from None
        missing = self.required - values.keys()
        if missing:
            raise self._unreadable(source, f'it lacks {", ".join(sorted(missing))}')
        return cast(Values, values)

    # ---- text

    def encode(self, values: Values) -> bytes:
        """Serialize a record."""
        return json.dumps(self.with_header(values), indent=1).encode()

    def decode(self, data: str | bytes, source: durable_files.Path) -> Values:
        """Parse a record.

        :raises RecordUnreadable: as ``checked``
        """
        if len(data) > MAX_BYTES:
            raise self._unreadable(source, f'it has more than {MAX_BYTES} bytes')
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise self._unreadable(source, 'it is empty' if not data else 'it is not JSON') from None
        return self.checked(found, source)

    # ---- files

    def read(self, path: durable_files.Path) -> Values | None:
        """Return the record of a file, or None if there is no file.

        :raises RecordUnreadable: as ``checked``, or the file cannot be opened
        """
        try:
            with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), 'rb') as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(path, error.strerror or repr(error)) from None
        return self.decode(data, path)

    def read_as(self, path: durable_files.Path, make: Callable[[Values], Made]) -> Made | None:
        """Read a record and return ``make(record)``, or None if there is no file.

        :raises RecordUnreadable: as ``read``, or ``make`` raises an error
        """
        values = self.read(path)
        return None if values is None else self.made(values, make, path)

    def made(self, values: Values, make: Callable[[Values], Made], source: durable_files.Path) -> Made:
        """Return ``make(values)``; convert errors that unexpected values cause.

        :raises RecordUnreadable: ``make`` raises an error
        """
        try:
            return make(values)
        except _UNEXPECTED as error:
            raise self._unreadable(source, f'a field has an unexpected value ({error!r})') from None

    def write(self, path: durable_files.Path, values: Values, owner: tuple[int, int] | None = None) -> None:
        """Replace the record of a file.

        :param values: all fields, also unknown ones that the record had before
        :raises OSError:
        """
        durable_files.replace(path, self.encode(values), self.mode, owner)

    def _unreadable(self, source: durable_files.Path, reason: str) -> exception.RecordUnreadable:
        return exception.RecordUnreadable(name=self.name, source=str(source), reason=reason)


def fields_of(kind: type[Any]) -> frozenset[str]:
    """Return the names of the fields of a dataclass that is stored as a record."""
    return frozenset(field.name for field in dataclasses.fields(kind)) - {utils.UNKNOWN_FIELDS}


class UnreadableRecords:
    """Unreadable records; each error is logged once."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def add(self, source: str, error: exception.NovaException) -> None:
        """Log the error of a record, unless its last error was the same."""
        if self._reasons.get(source) != error.message:
            self._reasons[source] = error.message
            LOG.error('%s Only what this record describes is affected.', error.message)

    def discard(self, source: str) -> None:
        """Forget the error of a record that is readable again or was removed."""
        self._reasons.pop(source, None)

    def discard_missing(self) -> None:
        """Forget the errors of removed files."""
        for source in list(self._reasons):
            if not os.path.lexists(source):
                self.discard(source)

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def __contains__(self, source: object) -> bool:
        return source in self._reasons
