"""DHCP options of the EC2 API: name servers of created VPCs."""
from __future__ import annotations

from collections.abc import Sequence
import json
import uuid

import sqlalchemy as sa

from nova import utils
from nova.db.tables import ec2 as t

MOST = 100                                # maximum number of option sets of a project


def add(conn: sa.Connection, project_id: str, name_servers: Sequence[str]) -> str | None:
    """Create an option set and return its id, or None if the project already has MOST sets.

    :param name_servers: at most four addresses
    """
    table = t.ec2_dhcp_options
    count = sa.select(sa.func.count()).select_from(table).where(table.c.project_id == project_id)
    if conn.execute(count).scalar_one() >= MOST:
        return None
    ident = str(uuid.uuid4())
    conn.execute(sa.insert(table).values(id=ident, project_id=project_id, name_servers=json.dumps(list(name_servers)),
                                         created_at=utils.utcnow()))
    return ident


def associate(conn: sa.Connection, vpc_id: str, ident: str | None) -> None:
    """Set a VPC's option set, or remove it with None."""
    conn.execute(sa.update(t.ec2_vpcs).where(t.ec2_vpcs.c.id == vpc_id).values(dhcp_options_id=ident))


def remove(conn: sa.Connection, ident: str) -> bool:
    """Remove an option set; return False if a VPC uses it."""
    if conn.execute(sa.select(t.ec2_vpcs.c.id).where(t.ec2_vpcs.c.dhcp_options_id == ident)).first():
        return False
    conn.execute(sa.delete(t.ec2_dhcp_options).where(t.ec2_dhcp_options.c.id == ident))
    return True
