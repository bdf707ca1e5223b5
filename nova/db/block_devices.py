"""Block device mappings of servers."""
import uuid as uuidlib

import sqlalchemy as sa

from nova import utils
from nova.db.tables_cell import block_device_mappings


def insert(conn, instance_uuid, devices):
    """Store the block devices of a server: a list of {column: value}."""
    if devices:
        names = {name for device in devices for name in device}
        conn.execute(sa.insert(block_device_mappings), [
            {'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'delete_on_termination': False,
             **dict.fromkeys(names), **device, 'instance_uuid': instance_uuid} for device in devices])


def by_instances(conn, uuids):
    """{instance uuid: [row]} of several servers; each has an entry."""
    found = {uuid: [] for uuid in uuids}
    statement = (sa.select(block_device_mappings).where(block_device_mappings.c.instance_uuid.in_(uuids))
                 .order_by(block_device_mappings.c.id))
    for row in conn.execute(statement).mappings():
        found[row['instance_uuid']].append(dict(row))
    return found


def by_instance(conn, uuid):
    """Rows of one server, in the order of their making."""
    return by_instances(conn, [uuid])[uuid]
