"""Request specs in the API database, kept until the server is deleted.

The administrator's password is not stored here. The password is an argument of the action that sets it, and is deleted
when the action ends.
"""
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from nova import exception
from nova import objects
from nova.db import statements
from nova.db.tables.api import request_specs
from nova.objects.request_spec import RequestSpec

_OF_THEM = request_specs.c.instance_uuid.in_(sa.bindparam('uuids', expanding=True))
_MANY, _DELETE_MANY = sa.select(request_specs).where(_OF_THEM), sa.delete(request_specs).where(_OF_THEM)

_STORED_VERSION = objects.RequestSpec.VERSION.partition('.')[0] + '.0'


def _kept(spec: RequestSpec) -> dict[str, Any]:
    """Return the stored form: all fields, labelled with the first version of the object's major version.

    Older services can read this version, and ignore unknown fields.
    """
    primitive = spec.obj_to_primitive()
    return {**primitive, 'nova_object.version': _STORED_VERSION,
            'nova_object.data': {**primitive['nova_object.data'], 'admin_password': None}}


def insert(conn: sa.Connection, specs: list[RequestSpec]) -> None:
    """Insert the request specs (objects.RequestSpec) of servers."""
    conn.execute(statements.insert(request_specs), [
        {'instance_uuid': spec.instance_uuid, 'spec': _kept(spec)} for spec in specs])


def get_many(conn: sa.Connection, uuids: Iterable[str]) -> dict[str, RequestSpec]:
    """Return {instance uuid: RequestSpec} of the specs that exist."""
    rows = conn.execute(_MANY, {'uuids': list(uuids)})
    return {row.instance_uuid: objects.RequestSpec.obj_from_primitive(row.spec) for row in rows}


def get(conn: sa.Connection, uuid: str) -> RequestSpec:
    """Return the RequestSpec of a server.

    :raises InstanceNotFound: it does not exist
    """
    spec = get_many(conn, [uuid]).get(uuid)
    if spec is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    return spec


def update(conn: sa.Connection, spec: RequestSpec) -> None:
    """Update a stored spec, for example after a failed build or a rebuild."""
    statements.update(conn, request_specs, {'spec': _kept(spec)}, instance_uuid=spec.instance_uuid)


def pin(conn: sa.Connection, uuid: str, zone: str | None) -> None:
    """Restrict a server to this availability zone, or remove the restriction with None.

    :raises InstanceNotFound: it does not exist
    """
    spec = get(conn, uuid)
    spec.availability_zone = zone
    update(conn, spec)


def delete_many(conn: sa.Connection, uuids: list[str]) -> None:
    conn.execute(_DELETE_MANY, {'uuids': list(uuids)})
