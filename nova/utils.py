"""Small pure helpers for several packages."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import dataclasses
import datetime
import hashlib
import json
import re
from threading import Event
import time
from typing import Any, TYPE_CHECKING, TypeVar

import orjson

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar('Record')
UNKNOWN_FIELDS = 'unknown_fields'                # dataclass field that keeps record fields unknown to this release
EC2_RESERVATION = 'ec2:reservation'              # metadata key of a server, see ec2_reservation
_RESERVATION = re.compile('(r-[0-9a-f]{17})/([0-9]{1,9})')


def utcnow() -> datetime.datetime:
    """Return the current time as naive UTC, as stored in the databases."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def from_timestamp(seconds: float) -> datetime.datetime:
    """Return the naive UTC datetime of seconds since the epoch."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)


def ec2_id(uuid: str | None, prefix: str = 'i') -> str | None:
    """Return the EC2 id of a uuid: a prefix and 17 hexadecimal digits (the format of EC2 since 2016)."""
    return f'{prefix}-{uuid.replace("-", "")[:17]}' if uuid else None


def key_type(public_key: str) -> str:
    """Return the type of a key pair: ``x509`` for a certificate, otherwise ``ssh``."""
    return 'x509' if 'CERTIFICATE' in public_key else 'ssh'


def ec2_reservation(metadata: Mapping[str, str]) -> tuple[str, int] | None:
    """Return (reservation id, MaxCount) of the RunInstances request that created a server, or None."""
    found = _RESERVATION.fullmatch(metadata.get(EC2_RESERVATION) or '')
    return (found[1], int(found[2])) if found else None


def end_of_second(moment: datetime.datetime) -> datetime.datetime:
    """Return the last microsecond of a time in whole seconds, as the upper limit of a filter. Other times stay."""
    return moment if moment.microsecond else moment.replace(microsecond=999999)


def isotime(moment: datetime.datetime | None) -> str | None:
    """Format a naive UTC datetime like most times of the compute API: ``2026-11-21T06:20:00Z``. None stays None."""
    return None if moment is None else moment.isoformat(timespec='seconds') + 'Z'


def exact_time(moment: datetime.datetime | None) -> str | None:
    """Format a naive UTC datetime with microseconds: ``2026-11-21T06:20:00.000000``. None stays None.

    Block Storage and some fields of the compute and identity APIs use this format, see the API reference.
    """
    return None if moment is None else moment.isoformat(timespec='microseconds')


def change_number() -> int:
    """Return the current time in microseconds, which a changed row stores so that readers can select newer rows.

    Clocks differ, and commits become visible out of order. A reader therefore reads again
    the last seconds before its previous read.
    """
    return time.time_ns() // 1000


@contextlib.contextmanager
def taken(event: Event) -> Iterator[bool]:
    """Context manager that yields whether an event is set, and clears the event before the block.

    If the block fails, the event is set again. An event that another thread sets during the block remains set.
    """
    found = event.is_set()
    if found:
        event.clear()
    try:
        yield found
    except BaseException:
        if found:
            event.set()
        raise


def host_id(host: str | None, project_id: str) -> str:
    """Return hostId of the compute API: a hash that identifies a host to one project, or '' if there is no host."""
    return hashlib.sha224(f'{project_id}{host}'.encode()).hexdigest() if host else ''


def dump_json(value: Mapping[str, Any] | list[Any]) -> str:
    return encode_json(value).decode()


def encode_json(value: object, default: Callable[[object], object] | None = None) -> bytes:
    """Encode a document as JSON.

    orjson rejects integers above 64 bits, such as the number of addresses of an IPv6 range. Such documents are encoded
    by the json module.

    :param default: function that converts a value of another type to a JSON type
    """
    try:
        return orjson.dumps(value, default=default)
    except orjson.JSONEncodeError as error:
        if 'Integer' not in str(error):
            raise
        return json.dumps(value, ensure_ascii=False, separators=(',', ':'), default=default, allow_nan=False).encode()


def load_json(text: str | bytes) -> Any:
    """Decode a JSON document. The caller declares the type of the result."""
    return orjson.loads(text)


def from_known(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """Create an object of a dataclass from a stored record.

    Fields that the class does not have are stored in its field ``unknown_fields``. They are ignored if the class has no
    field ``unknown_fields``.

    :raises TypeError: a field without a default is missing
    """
    known = {field.name for field in dataclasses.fields(kind)}       # type: ignore[arg-type]
    made = {name: value for name, value in values.items() if name in known}
    if UNKNOWN_FIELDS in known:
        made[UNKNOWN_FIELDS] = {name: value for name, value in values.items() if name not in known}
    return kind(**made)


def to_record(value: DataclassInstance) -> dict[str, Any]:
    """Convert an object of a dataclass to a record for storage, like dataclasses.asdict. Merge ``unknown_fields`` in.
    """
    found: dict[str, Any] = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return {**found.pop(UNKNOWN_FIELDS, {}), **found}


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_record(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def some(names: Iterable[str], most: int = 10) -> str:
    """Join the first ``most`` names in alphabetical order, and add the number of the other names."""
    names = sorted(names)
    return ', '.join(names[:most]) + (f' and {len(names) - most} more' if len(names) > most else '')
