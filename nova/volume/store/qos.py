"""QoS specs: I/O limits for volumes of a type. QEMU on the host of a server enforces them.

The limits are read when a volume is attached. Later changes do not affect the attachment.
"""
from collections.abc import Callable
import re
from typing import Any, cast, TypeVar
import uuid

from oslo_db import exception as db_exc

from nova import exception
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.tables.rows import VolumeQosSpecsRow
from nova.db.tables.rows import VolumeTypesRow
from nova.db.tables.volume import volume_qos_specs
from nova.db.tables.volume import volume_types
from nova.db.volumes import qos as db
from nova.db.volumes import volumes as db_volumes
from nova.hardware import disks
from nova.volume.store import types

CONSUMERS = ('back-end', 'front-end', 'both')
MAX_QOS_SPECS = 1000
_NUMBER = re.compile('[0-9]{1,18}')
_Result = TypeVar('_Result')


class QosSpecs:
    """QoS specs of volume types.

    :param database: the API database
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def every(self) -> list[VolumeQosSpecsRow]:
        with self._db.reader() as conn:
            return db.every(conn)

    def get(self, ident: str) -> VolumeQosSpecsRow:
        """Return QoS specs; raises NotFound."""
        with self._db.reader() as conn:
            return _found(conn, ident)

    def types(self, ident: str) -> list[VolumeTypesRow]:
        """Return the volume types that refer to QoS specs; raises NotFound."""
        with self._db.reader() as conn:
            return db.types(conn, _found(conn, ident)['id'])

    def create(self, name: str, consumer: str, specs: dict[str, str]) -> VolumeQosSpecsRow:
        """Create QoS specs; raises BadRequest, Conflict (the name exists)."""
        _check(specs)
        ident = str(uuid.uuid4())

        def write(conn: Connection) -> VolumeQosSpecsRow:
            if len(db.every(conn)) >= MAX_QOS_SPECS:
                raise exception.BadRequest(f'The limit of {MAX_QOS_SPECS} QoS specs is reached.')
            return cast(VolumeQosSpecsRow, db_volumes.insert(conn, volume_qos_specs, {
                'id': ident, 'name': name, 'consumer': consumer, 'specs': specs}))
        log.about(ident)
        try:
            return self._db.run(write)
        except db_exc.DBDuplicateEntry:
            raise exception.Conflict(f'QoS specs with the name {name} exist already.') from None

    def update(self, ident: str, consumer: str | None, specs: dict[str, str]) -> None:
        """Change the consumer, and add or replace specs; raises NotFound, BadRequest."""
        def write(conn: Connection, row: VolumeQosSpecsRow) -> None:
            wanted = {**row['specs'], **specs}
            _check(wanted)
            db_volumes.update(conn, volume_qos_specs, row['id'], {
                'specs': wanted, 'consumer': consumer or row['consumer']})
        self._change(ident, write)

    def unset(self, ident: str, keys: list[str]) -> None:
        """Remove specs.

        :raises NotFound: unknown QoS specs, or no such key
        :raises BadRequest: the remaining specs are invalid
        """
        def write(conn: Connection, row: VolumeQosSpecsRow) -> None:
            missing = [key for key in keys if key not in row['specs']]
            if missing:
                raise exception.NotFound(f'QoS specs {row["id"]} have no key {missing[0][:255]!r}.')
            wanted = {key: value for key, value in row['specs'].items() if key not in keys}
            _check(wanted)
            db_volumes.update(conn, volume_qos_specs, row['id'], {'specs': wanted})
        self._change(ident, write)

    def delete(self, ident: str, force: bool) -> None:
        """Delete QoS specs.

        :param force: also if volume types refer to them
        :raises NotFound:
        :raises BadRequest: a type refers to them
        """
        def write(conn: Connection, row: VolumeQosSpecsRow) -> None:
            if not force and db.types(conn, row['id']):
                raise exception.BadRequest(f'Volume types refer to QoS specs {row["id"]}. Disassociate them first.')
            db.release(conn, row['id'])
            db_volumes.delete(conn, volume_qos_specs, row['id'])
        self._change(ident, write)

    def associate(self, ident: str, type_id: str) -> None:
        """Associate QoS specs with a volume type.

        :raises NotFound: unknown QoS specs
        :raises VolumeTypeNotFound:
        :raises BadRequest: the type is built-in, or has other QoS specs
        """
        def write(conn: Connection, row: VolumeQosSpecsRow) -> None:
            kind = types.changeable(conn, type_id)
            if kind['qos_specs_id'] not in (None, row['id']):
                raise exception.BadRequest(f'Volume type {kind["name"]} has other QoS specs. Disassociate them first.')
            db_volumes.update(conn, volume_types, kind['id'], {'qos_specs_id': row['id']})
        self._change(ident, write)

    def disassociate(self, ident: str, type_id: str) -> None:
        """Remove QoS specs from a volume type.

        :raises NotFound: unknown QoS specs, or the type does not have them
        :raises VolumeTypeNotFound:
        """
        def write(conn: Connection, row: VolumeQosSpecsRow) -> None:
            kind = types.changeable(conn, type_id)
            if kind['qos_specs_id'] != row['id']:
                raise exception.NotFound(f'Volume type {kind["name"]} does not have QoS specs {row["id"]}.')
            db_volumes.update(conn, volume_types, kind['id'], {'qos_specs_id': None})
        self._change(ident, write)

    def disassociate_all(self, ident: str) -> None:
        """Remove QoS specs from all volume types that have them; raises NotFound."""
        self._change(ident, lambda conn, row: db.release(conn, row['id']))

    def _change(self, ident: str, write: Callable[[Connection, VolumeQosSpecsRow], _Result]) -> _Result:
        return self._db.run(lambda conn: write(conn, _found(conn, ident, lock=True)))


def _found(conn: Connection, ident: str, lock: bool = False) -> VolumeQosSpecsRow:
    row = db.get(conn, ident[:64], lock)
    if row is None:
        raise exception.NotFound(f'QoS specs {ident[:64]} could not be found.')
    return row


def _check(specs: dict[str, Any]) -> None:
    """Check that QEMU can enforce the specs; raises BadRequest."""
    for name, value in specs.items():
        if name not in disks.LIMITS:
            raise exception.BadRequest(f'The QoS spec {name[:80]!r} is not supported: the hosts of servers enforce '
                                       f'{", ".join(disks.LIMITS)}.')
        if not _NUMBER.fullmatch(value):
            raise exception.BadRequest(f'The QoS spec {name} is {value[:80]!r}, which is not a number.')
    refusal = disks.limits_refusal({name: int(value) for name, value in specs.items()})
    if refusal:
        raise exception.BadRequest(refusal)
