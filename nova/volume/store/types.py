"""Volume types: two built-in types, and types created by administrators.

Extra specs without a scope are requirements for the backend: a volume of the type is created only if the backend meets
them. The only encryption is LUKS on the compute hosts. Specs that only drivers of other backends read are refused.
"""
from collections.abc import Callable
import logging
from typing import cast, TypedDict
import uuid

from oslo_db import exception as db_exc

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.projects import quotas
from nova.db.projects import storage_quotas
from nova.db.tables.rows import VolumeDefaultTypesRow
from nova.db.tables.volume import volume_types
from nova.db.volumes import keys
from nova.db.volumes import types as db
from nova.db.volumes import volumes as db_volumes
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.volume import api

LOG = logging.getLogger(__name__)

MULTIATTACH = 'volume:multiattach'           # policy rule of volumes that several servers can attach


class Type(TypedDict):
    """A volume type."""

    id: str
    name: str
    description: str | None
    extra_specs: dict[str, str]
    encryption: JsonObject | None
    is_public: bool
    qos_specs_id: str | None


Change = Callable[[Type], JsonObject]    # function(type) -> {column: value to write}

DEFAULT: Type = {'id': '0e3b6d3e-5b1d-4f0f-9a27-1f6f1d7c9c11', 'name': '__DEFAULT__', 'extra_specs': {},
                 'description': 'The default type', 'encryption': None, 'is_public': True, 'qos_specs_id': None}
TYPES: tuple[Type, ...] = (
    DEFAULT,
    {'id': '5d0f8c52-93b4-4c0e-8f3a-6a7f2f0d1b42', 'name': 'multiattach', 'encryption': None, 'is_public': True,
     'qos_specs_id': None,
     'description': 'Volumes that several servers may have at once', 'extra_specs': {'multiattach': '<is> True'}},
)
SPECS = {'multiattach': ('<is> True', '<is> False')}
ZONES = 'RESKEY:availability_zones'           # extra spec: zones of volumes of this type, separated by commas
SCOPES = ('', 'capabilities')                 # scopes of extra specs that name capabilities of the backend
# capabilities of the backend, as scheduler-stats shows them
BACKEND: dict[str, str | bool] = {
    'volume_backend_name': 'embedded', 'pool_name': 'default', 'storage_protocol': 'file', 'vendor_name': 'nova',
    'thin_provisioning_support': True, 'multiattach': True, 'QoS_support': False}
MAX_SPECS = 8                                 # maximum extra specs of a type
MAX_TYPES = 1000                              # maximum types created by administrators
MAX_DEFAULTS = 10000                          # maximum projects with a default type

CIPHER, KEY_BITS, FRONT_END, BACK_END = 'aes-xts-plain64', 256, 'front-end', 'back-end'
# attribute: (allowed values, default, reason of a refusal)
_ENCRYPTION: dict[str, tuple[tuple[Json, ...], Json, str]] = {
    'provider': (api.LUKS, None, 'hosts support only luks (version 1)'),
    'cipher': ((CIPHER,), CIPHER, f'only {CIPHER} is supported'),
    'key_size': ((KEY_BITS,), KEY_BITS, f'keys must have {KEY_BITS} bits'),
    'control_location': ((FRONT_END, BACK_END), FRONT_END, f'it is {FRONT_END} or {BACK_END}')}


def is_multiattach(kind: Type) -> bool:
    """Return whether volumes of a type support several servers."""
    return bool(kind['extra_specs'].get('multiattach') == SPECS['multiattach'][0])


def check_backend(kind: Type) -> None:
    """Check that the backend meets the extra specs of a type. Details are only logged: users may not see the specs.

    :raises BadRequest: the backend does not meet them
    """
    for name, value in kind['extra_specs'].items():
        scope, _, capability = name.rpartition(':')
        if name in SPECS or scope not in SCOPES:
            continue
        offered = BACKEND.get(capability)
        if value not in (str(offered), f'<is> {offered}') or offered is None:
            LOG.warning('Volume type %s requires %s %s. The backend has %s.', kind['name'], capability, value,
                        'no such capability' if offered is None else offered)
            raise exception.BadRequest(f'No backend meets the extra specs of volume type {kind["name"]}.')


def zone_of(kind: Type, asked: str | None, default: str) -> str:
    """Return the availability zone of a new volume.

    :param asked: the zone that the request names
    :param default: the zone of volumes of other types
    :raises InvalidInput: the type is restricted to other zones
    """
    allowed = [zone.strip() for zone in kind['extra_specs'].get(ZONES, '').split(',') if zone.strip()]
    zone = asked or (default if not allowed or default in allowed else allowed[0])
    if allowed and zone not in allowed:
        raise exception.InvalidInput(reason=f"Volume type {kind['name']} is not available in availability zone "
                                            f"'{zone}', only in {', '.join(allowed)}.")
    return zone


def _built_in(name: str | None) -> Type | None:
    return next((each for each in TYPES if not name or name in (each['id'], each['name'])), None)


def find(conn: Connection, name: str | None, sees: nova_context.Projects | str, lock: bool = False) -> Type:
    """Return the type with an id or name; the default type for None and ''.

    :param sees: project of the caller, or ALL_PROJECTS
    :param lock: lock the type until the transaction ends
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
        """Return the type with an id or name, like the function ``find`` of this module."""
        built_in = _built_in(name)
        if built_in is not None:
            return built_in
        with self._db.reader() as conn:
            return find(conn, name, sees)

    def of_new(self, name: str | None, ctx: nova_context.RequestContext) -> Type:
        """Return the type of a new volume: the type with this name, or the default of the caller's project.

        :raises VolumeTypeNotFound:
        """
        with self._db.reader() as conn:
            return find(conn, name or db.default_of(conn, nova_context.the_project(ctx.project_id)), ctx.sees)

    def default_of(self, project_id: str) -> str:
        """Return the id of the type that is the default of a project; raises NotFound (none is set)."""
        with self._db.reader() as conn:
            found = db.default_of(conn, project_id)
        if found is None:
            raise exception.NotFound(f'Default type for project {project_id} not found.')
        return found

    def defaults(self) -> list[VolumeDefaultTypesRow]:
        """Return the default types of all projects that have one."""
        with self._db.reader() as conn:
            return db.defaults(conn)

    def set_default(self, project_id: str, name: str) -> VolumeDefaultTypesRow:
        """Set or replace the default type of a project.

        :raises VolumeTypeNotFound:
        :raises BadRequest: the type is private and the project has no access, or too many projects have a default
        """
        def write(conn: Connection) -> VolumeDefaultTypesRow:
            kind = find(conn, name or '?', nova_context.ALL_PROJECTS, lock=True)
            if not kind['is_public'] and project_id not in db.projects(conn, kind['id']):
                raise exception.BadRequest(f'Project {project_id} has no access to the private volume type '
                                           f'{kind["name"]}. Give it access first.')
            if db.default_of(conn, project_id) is None and len(db.defaults(conn)) >= MAX_DEFAULTS:
                raise exception.BadRequest(f'{MAX_DEFAULTS} projects have a default volume type. Unset one first.')
            db.set_default(conn, project_id, kind['id'])
            return {'project_id': project_id, 'type_id': kind['id']}
        return self._db.run(write)

    def unset_default(self, project_id: str) -> None:
        """Remove the default type of a project; idempotent."""
        self._db.run(db.unset_default, project_id)

    def create(self, name: str, description: str | None, specs: dict[str, str], is_public: bool = True) -> Type:
        """Create a type; raises VolumeTypeExists, BadRequest."""
        _check_specs(specs)
        ident = str(uuid.uuid4())

        def write(conn: Connection) -> Type:
            if len(db.every(conn, nova_context.ALL_PROJECTS)) >= MAX_TYPES:
                raise exception.BadRequest(f'The limit of {MAX_TYPES} volume types is reached.')
            return cast(Type, db_volumes.insert(conn, volume_types, {
                'id': ident, 'name': _name(conn, name), 'description': description, 'extra_specs': specs,
                'encryption': None, 'is_public': is_public, 'qos_specs_id': None}))
        log.about(ident)
        return self._written(name, write)

    def update(self, ident: str, name: str | None, values: JsonObject) -> Type:
        """Update a type. A type that becomes public loses its access list.

        :raises VolumeTypeNotFound, VolumeTypeExists:
        :raises BadRequest: a private type cannot be the default of a project
        """
        def write(conn: Connection) -> Type:
            row = changeable(conn, ident)
            if name is not None and name != row['name']:
                values['name'] = _name(conn, name)
                db.rename(conn, row['name'], name)
            if values.get('is_public') is False and row['is_public'] and db.is_default(conn, row['id']):
                raise exception.BadRequest('The volume type is the default of a project, which would lose access. '
                                           'Unset the default first.')
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
        """Delete a type; raises VolumeTypeNotFound, BadRequest (volumes have this type)."""
        def write(conn: Connection) -> None:
            row = _unused(conn, ident)
            if db.is_default(conn, row['id']):
                raise exception.BadRequest('The volume type is the default of a project. Unset the default first.')
            db.forbid(conn, row['id'])
            quotas.delete_resources(conn, [storage_quotas.of_type(noun, row['id']) for noun in storage_quotas.PER_TYPE])
            db_volumes.delete(conn, volume_types, row['id'])
        self._db.run(write)

    def set_specs(self, ident: str, given: dict[str, str]) -> dict[str, str]:
        """Add or replace extra specs; return all of them.

        :raises VolumeTypeNotFound:
        :raises BadRequest: too many or unsupported extra specs
        """
        def change(row: Type) -> JsonObject:
            _check_specs(given)
            specs: JsonObject = {**row['extra_specs'], **given}
            if len(specs) > MAX_SPECS:
                raise exception.BadRequest(f'A volume type has at most {MAX_SPECS} extra specs.')
            return {'extra_specs': specs}
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

        :param new: True: create the encryption. False: change it; values that are omitted, '' or 0 stay
        :raises VolumeTypeNotFound, BadRequest, NotFound: there is no encryption to change
        """
        def change(row: Type) -> JsonObject:
            before = row['encryption']
            if new and before is not None:
                raise exception.BadRequest('The volume type already has an encryption.')
            if not new and before is None:
                raise exception.NotFound()
            wanted = _checked(given if before is None else {
                **before, **{name: value for name, value in given.items() if value not in ('', 0)}})
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

    :raises VolumeTypeNotFound, BadRequest: the type is built-in
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


def _check_specs(given: dict[str, str]) -> None:
    for name, value in given.items():
        if '/' in name:                  # no path would name the extra spec
            raise exception.BadRequest(f'The name of extra spec {name[:80]!r} must not contain "/".')
        if name in SPECS and value not in SPECS[name]:
            raise exception.BadRequest(f'Extra spec {name} with value {value[:80]!r} is not supported. Use '
                                       f'{" or ".join(SPECS[name])}.')
        if name != ZONES and name.rpartition(':')[0] not in SCOPES:
            raise exception.BadRequest(f'Extra spec {name[:80]!r} is not supported: it is for drivers of other '
                                       f'backends. Use a capability of the backend, or {ZONES}.')


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
