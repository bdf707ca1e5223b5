"""Request specs: what was asked for, in the API database, until the server is deleted.

The administrator's password is not kept here: it is an argument of the action that sets it, and gone when that ends.
"""
import sqlalchemy as sa

from nova import exception
from nova import objects
from nova.db.tables_api import request_specs


def _kept(spec):
    primitive = spec.obj_to_primitive()
    return {**primitive, 'nova_object.data': {**primitive['nova_object.data'], 'admin_password': None}}


def insert(conn, specs):
    """Store objects.RequestSpec, one a server."""
    conn.execute(sa.insert(request_specs), [
        {'instance_uuid': spec.instance_uuid, 'spec': _kept(spec)} for spec in specs])


def get_many(conn, uuids):
    """{instance uuid: RequestSpec} of those that exist."""
    rows = conn.execute(sa.select(request_specs).where(request_specs.c.instance_uuid.in_(uuids)))
    return {row.instance_uuid: objects.RequestSpec.obj_from_primitive(row.spec) for row in rows}


def get(conn, uuid):
    """The RequestSpec of a server.

    :raises InstanceNotFound:
    """
    spec = get_many(conn, [uuid]).get(uuid)
    if spec is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    return spec


def update(conn, spec):
    """Store a spec again: where building has failed already, a new image after a rebuild."""
    conn.execute(sa.update(request_specs).where(request_specs.c.instance_uuid == spec.instance_uuid)
                 .values(spec=_kept(spec)))


def delete_many(conn, uuids):
    conn.execute(sa.delete(request_specs).where(request_specs.c.instance_uuid.in_(uuids)))
