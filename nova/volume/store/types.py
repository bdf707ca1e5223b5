"""Volume types: two built-in ones, and those created by administrators.

Only supported settings are accepted: the extra spec ``multiattach``, and LUKS encryption on the hosts.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import cast, TypedDict
import uuid

from oslo_db import exception as db_exc

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.tables.volume import volume_types
from nova.db.volumes import keys
from nova.db.volumes import types as db
from nova.db.volumes import volumes as db_volumes
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.volume import api


class Type(TypedDict):
    """A volume type."""

    id: str
    name: str
    description: str | None
    extra_specs: dict[str, str]
    encryption: JsonObject | None
    is_public: bool


Change = Callable[[Type], JsonObject]    # a type -> values to write

DEFAULT: Type = {'id': '0e3b6d3e-5b1d-4f0f-9a27-1f6f1d7c9c11', 'name': '__DEFAULT__', 'extra_specs': {},
                 'description': 'The default type', 'encryption': None, 'is_public': True}
TYPES: tuple[Type, ...] = (
    DEFAULT,
    {'id': '5d0f8c52-93b4-4c0e-8f3a-6a7f2f0d1b42', 'name': 'multiattach', 'encryption': None, 'is_public': True,
     'description': 'Volumes that several servers may have at once', 'extra_specs': {'multiattach': '<is> True'}},
)
SPECS = {'multiattach': ('<is> True', '<is> False')}
MOST = 1000                              # types created by administrators

CIPHER, KEY_BITS, FRONT_END = 'aes-xts-plain64', 256, 'front-end'
# attribute: (allowed values, default, reason of a refusal)
_ENCRYPTION: dict[str, tuple[tuple[Json, ...], Json, str]] = {
    'provider': (api.LUKS, None, 'hosts support only luks (version 1)'),
    'cipher': ((CIPHER,), CIPHER, f'only {CIPHER} is supported'),
    'key_size': ((KEY_BITS,), KEY_BITS, f'keys must have {KEY_BITS} bits'),
    'control_location': ((FRONT_END,), FRONT_END, f'only {FRONT_END} is supported: the hosts of servers encrypt')}


def is_multiattach(kind: Type) -> bool:
    """Return whether volumes of a type support several servers."""
    return bool(kind['extra_specs'].get('multiattach') == SPECS['multiattach'][0])


def _built_in(name: str | None) -> Type | None:
    return next((each for each in TYPES if not name or name in (each['id'], each['name'])), None)


def find(conn: Connection, name: str | None, sees: nova_context.Projects | str, lock: bool = False) -> Type:
    """Return the type with an id or name; the default type for None and ''.

    :param sees: project of the caller, or ALL_PROJECTS
    :param lock: lock it until the transaction ends
    :raises VolumeTypeNotFound:
    """
    found = _built_in(name) or db.get(conn, str(name)[:255], sees, lock)
    if found is None:
        raise exception.VolumeTypeNotFound(name=str(name)[:255])
    return found


def ids(conn: Connection, names: set[str]) -> dict[str, str]:
    """Return {name: id} of volume types."""
    known = {each['name']: each['id'] for each in TYPES}
    if not names <= known.keys():
        known.update((row['name'], row['id']) for row in db.every(conn, nova_context.ALL_PROJECTS))
    return known


class Types:
    """Volume types.

    :param database: the API database
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def every(self, sees: nova_context.Projects | str) -> list[Type]:
        """Return the types accessible to a project, or all for ALL_PROJECTS."""
        with self._db.reader() as conn:
            return [*TYPES, *db.every(conn, sees)]

    def find(self, name: str | None, sees: nova_context.Projects | str) -> Type:
        """See the function with this name."""
        built_in = _built_in(name)
        if built_in is not None:
            return built_in
        with self._db.reader() as conn:
            return find(conn, name, sees)

    def create(self, name: str, description: str | None, specs: dict[str, str], is_public: bool = True) -> Type:
        """Create a type; raises VolumeTypeExists, BadRequest."""
        _check_specs(specs, None)
        ident = str(uuid.uuid4())

        def write(conn: Connection) -> Type:
            if len(db.every(conn, nova_context.ALL_PROJECTS)) >= MOST:
                raise exception.BadRequest(f'The limit of {MOST} volume types is reached.')
            return cast(Type, db_volumes.insert(conn, volume_types, {
                'id': ident, 'name': _name(conn, name), 'description': description, 'extra_specs': specs,
                'encryption': None, 'is_public': is_public}))
        log.about(ident)
        return self._written(name, write)

    def update(self, ident: str, name: str | None, values: JsonObject) -> Type:
        """Update a type. Making it public removes its access list.

        :raises VolumeTypeNotFound, VolumeTypeExists, BadRequest:
        """
        def write(conn: Connection) -> Type:
            row = changeable(conn, ident)
            if name is not None and name != row['name']:
                values['name'] = _name(conn, name)
                db.rename(conn, row['name'], name)
            if values.get('is_public'):
                db.forbid(conn, row['id'])
            return _write(conn, row, values)
        return self._written(name or '', write)

    def _written(self, name: str, write: Callable[[Connection], Type]) -> Type:
        try:
            return self._db.run(write)
        except db_exc.DBDuplicateEntry:
            raise exception.VolumeTypeExists(name=name) from None

    def delete(self, ident: str) -> None:
        """Delete a type; raises VolumeTypeNotFound, BadRequest (there are volumes of it)."""
        def write(conn: Connection) -> None:
            row = _unused(conn, ident)
            db.forbid(conn, row['id'])
            db_volumes.delete(conn, volume_types, row['id'])
        self._db.run(write)

    def set_specs(self, ident: str, given: dict[str, str]) -> dict[str, str]:
        """Add or replace extra specs; return all of them.

        :raises VolumeTypeNotFound, BadRequest: they are not supported, or contradict the type
        """
        def change(row: Type) -> JsonObject:
            _check_specs(given, row['encryption'])
            return {'extra_specs': {**row['extra_specs'], **given}}
        return self._change(ident, change)['extra_specs']

    def unset_spec(self, ident: str, name: str) -> None:
        """Remove an extra spec; raises VolumeTypeNotFound, MetadataItemNotFound, BadRequest."""
        def change(row: Type) -> JsonObject:
            if name not in row['extra_specs']:
                raise exception.MetadataItemNotFound(key=name[:255])
            return {'extra_specs': {key: value for key, value in row['extra_specs'].items() if key != name}}
        self._change(ident, change)

    def set_encryption(self, ident: str, given: JsonObject, new: bool) -> JsonObject:
        """Set the encryption of a type without volumes; return it.

        :param new: True: the type must have none; False: it must have one, and omitted values stay
        :raises VolumeTypeNotFound, BadRequest:
        """
        def change(row: Type) -> JsonObject:
            before = row['encryption']
            if new and before is not None:
                raise exception.BadRequest('The volume type already has an encryption.')
            if not new and before is None:
                raise exception.NotFound()
            if is_multiattach(row):
                raise exception.BadRequest('Volumes with multiattach cannot be encrypted.')
            wanted = _checked({**(before or {}), **given})
            return {'encryption': {**wanted, 'encryption_id': (before or {}).get('encryption_id') or str(uuid.uuid4()),
                                   'created_at': (before or {}).get('created_at') or _now(),
                                   'updated_at': None if before is None else _now()}}
        return self._change(ident, change, unused=True)['encryption'] or {}

    def delete_encryption(self, ident: str) -> None:
        """Remove the encryption of a type; raises VolumeTypeNotFound, NotFound, BadRequest."""
        def change(row: Type) -> JsonObject:
            if row['encryption'] is None:
                raise exception.NotFound()
            return {'encryption': None}
        self._change(ident, change, unused=True)

    def _change(self, ident: str, change: Change, unused: bool = False) -> Type:
        def write(conn: Connection) -> Type:
            row = (_unused if unused else changeable)(conn, ident)
            return _write(conn, row, change(row))
        return self._db.run(write)


def _write(conn: Connection, row: Type, values: JsonObject) -> Type:
    db_volumes.update(conn, volume_types, row['id'], values)
    return cast(Type, {**row, **values})             # values are columns of the table


def changeable(conn: Connection, ident: str) -> Type:
    """Lock and return the row of a type.

    :raises VolumeTypeNotFound, BadRequest: it is a built-in one
    """
    row = find(conn, ident or '?', nova_context.ALL_PROJECTS, lock=True)
    if any(row['id'] == each['id'] for each in TYPES):
        raise exception.BadRequest(f'The volume type {row["name"]} is built-in: create another type.')
    return row


def _unused(conn: Connection, ident: str) -> Type:
    row = changeable(conn, ident)
    if db.has_volumes(conn, row['name']) or keys.of_type(conn, row['id']):
        raise exception.BadRequest('The type is in use by volumes, or by copies of encrypted volumes.')
    return row


def _name(conn: Connection, name: str) -> str:
    """Check the name of a new type; raises VolumeTypeExists, BadRequest."""
    if not name.strip():
        raise exception.BadRequest('A volume type needs a name.')
    if _built_in(name) or db.get(conn, name, nova_context.ALL_PROJECTS):
        raise exception.VolumeTypeExists(name=name)
    return name


def _check_specs(given: dict[str, str], encryption: JsonObject | None) -> None:
    for name, value in given.items():
        if value not in SPECS.get(name, ()):
            raise exception.BadRequest(f'Extra spec {name[:80]!r} with value {value[:80]!r} is not supported. '
                                       f'Supported is multiattach with {" or ".join(SPECS["multiattach"])}.')
    if encryption is not None and given.get('multiattach') == SPECS['multiattach'][0]:
        raise exception.BadRequest('Encrypted volumes do not support multiattach.')


def _checked(given: JsonObject) -> JsonObject:
    """Check an encryption and complete it with defaults.

    :raises BadRequest: not supported
    """
    made: JsonObject = {}
    for name, (values, default, why) in _ENCRYPTION.items():
        made[name] = default if given.get(name) is None else given[name]
        if made[name] not in values:
            raise exception.BadRequest(f'The {name} {str(made[name])[:80]!r} of an encryption is not supported: {why}.')
    return made


def _now() -> str:
    return utils.utcnow().isoformat(timespec='microseconds')
