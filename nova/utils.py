"""Small pure helpers that several rooms need."""
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
from typing import Any, TypeVar

import orjson

Record = TypeVar('Record')
UNKNOWN_FIELDS = 'unknown_fields'                # field of a dataclass: what another release has in the record
EC2_RESERVATION = 'ec2:reservation'              # item of a server's metadata, see ec2_reservation
_RESERVATION = re.compile('(r-[0-9a-f]{17})/([0-9]{1,9})')


def utcnow() -> datetime.datetime:
    """Now in UTC, without a zone, without microseconds' loss: the form in which the databases hold times."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def from_timestamp(seconds: float) -> datetime.datetime:
    """The naive UTC datetime of seconds since the epoch."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)


def ec2_id(uuid: str | None, prefix: str = 'i') -> str | None:
    """The EC2 form of an id: 17 hexadecimal digits, as EC2 has had them since 2016, taken from the uuid."""
    return f'{prefix}-{uuid.replace("-", "")[:17]}' if uuid else None


def key_type(public_key: str) -> str:
    """The type of a key pair: ``x509`` of a certificate, otherwise ``ssh``."""
    return 'x509' if 'CERTIFICATE' in public_key else 'ssh'


def ec2_reservation(metadata: Mapping[str, str]) -> tuple[str, int] | None:
    """(the reservation that RunInstances has noted in a server's metadata, instances at most); None: it has not."""
    found = _RESERVATION.fullmatch(metadata.get(EC2_RESERVATION) or '')
    return (found[1], int(found[2])) if found else None


def end_of_second(moment: datetime.datetime) -> datetime.datetime:
    """The last moment that is shown as this one: answers name times in whole seconds, and clients ask with those."""
    return moment if moment.microsecond else moment.replace(microsecond=999999)


def isotime(moment: datetime.datetime | None) -> str | None:
    """``2026-11-21T06:20:00Z`` for a naive UTC datetime, None for None: the form of the compute API."""
    return None if moment is None else moment.isoformat(timespec='seconds') + 'Z'


def exact_time(moment: datetime.datetime | None) -> str | None:
    """``2026-11-21T06:20:00.000000`` for a naive UTC datetime, None for None: the form of Block Storage, and of those
    fields of the compute and identity APIs whose samples in the API reference have it."""
    return None if moment is None else moment.isoformat(timespec='microseconds')


def change_number() -> int:
    """Microseconds since the epoch: the number that a changed row carries, so that readers find what is new.

    Clocks differ and commits become visible out of order, so readers look back over an overlapping window.
    """
    return time.time_ns() // 1000


@contextlib.contextmanager
def taken(event: Event) -> Iterator[bool]:
    """A block for what is to be done when a threading.Event was set; gets whether it was since the block before.

    One that is set meanwhile is reported now or the next time, and one that the block could do nothing about,
    because it failed, the next time.
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
    """The opaque name of a host in the eyes of one project; '' without a host."""
    return hashlib.sha224(f'{project_id}{host}'.encode()).hexdigest() if host else ''


def dump_json(value: dict[str, Any] | list[Any]) -> str:
    return encode_json(value).decode()


def encode_json(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """A document as JSON.

    An integer above 64 bits, as the number of addresses of an IPv6 range, is written in full; orjson refuses it.

    :param default: makes something of a value that JSON does not have
    """
    try:
        return orjson.dumps(value, default=default)
    except orjson.JSONEncodeError as error:
        if 'Integer' not in str(error):
            raise
        return json.dumps(value, ensure_ascii=False, separators=(',', ':'), default=default, allow_nan=False).encode()


def load_json(text: str) -> Any:
    return orjson.loads(text)


def from_known(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """A dataclass from a stored record.

    Fields that this release does not have are kept in the field ``unknown_fields``, or ignored if the class has none.

    :raises TypeError: a field without a default is missing
    """
    known = {field.name for field in dataclasses.fields(kind)}       # type: ignore[arg-type]
    made = {name: value for name, value in values.items() if name in known}
    if UNKNOWN_FIELDS in known:
        made[UNKNOWN_FIELDS] = {name: value for name, value in values.items() if name not in known}
    return kind(**made)


def to_record(value: Any) -> Any:
    """The values of a dataclass for a stored record: as dataclasses.asdict, with ``unknown_fields`` in their places."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {field.name: to_record(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {**found.pop(UNKNOWN_FIELDS, {}), **found}
    if isinstance(value, dict):
        return {name: to_record(each) for name, each in value.items()}
    return [to_record(each) for each in value] if isinstance(value, (list, tuple)) else value


def some(names: Iterable[str], most: int = 10) -> str:
    """The first of some names in a sentence, and how many more there are."""
    names = sorted(names)
    return ', '.join(names[:most]) + (f' and {len(names) - most} more' if len(names) > most else '')
