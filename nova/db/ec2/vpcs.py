"""Created VPCs of the EC2 API, with their internet gateways, route tables, security groups and DHCP options."""
from collections.abc import Sequence
import dataclasses
import json
import uuid
from typing import Any

from oslo_db import exception as db_exc
import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db.tables import ec2 as t

# maximum gateways, route tables and DHCP options of a project, and routes of a route table
MAX_GATEWAYS, MAX_ROUTE_TABLES, MAX_DHCP_OPTIONS, MAX_ROUTES = 100, 200, 100, 15
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Known:
    """The VPC resources of a project. ``associations`` is {subnet: row}; the other fields are {id: row}, except:

    routes   {route table: {destination: internet gateway}}
    groups   {security group: VPC}
    options  {DHCP options: addresses of name servers}
    """

    vpcs: dict[str, Row]
    gateways: dict[str, Row]
    tables: dict[str, Row]
    routes: dict[str, dict[str, str]]
    associations: dict[str, Row]
    groups: dict[str, str]
    options: dict[str, list[str]]

    def name_servers_of(self, vpc_id: str) -> list[str] | None:
        """Return the name servers in a VPC's DHCP options, [] for the cloud's name servers, or None without such
        options.
        """
        ident = self.vpcs[vpc_id]['dhcp_options_id']
        return self.options.get(ident, []) if ident else None

    def main_of(self, vpc_id: str) -> str | None:
        """Return the id of a VPC's main route table."""
        return next((ident for ident, row in self.tables.items() if row['main_vpc_id'] == vpc_id), None)

    def gateway_of(self, vpc_id: str) -> str | None:
        """Return the id of the internet gateway attached to a VPC."""
        return next((ident for ident, row in self.gateways.items() if row['vpc_id'] == vpc_id), None)

    def table_of(self, vpc_id: str, subnet_id: str) -> str | None:
        """Return the id of the route table of a subnet in a VPC."""
        found = self.associations.get(subnet_id)
        return found['route_table_id'] if found else self.main_of(vpc_id)


def of_project(db: engine.Database, project_id: str) -> list[Row]:
    """Return the VPCs of a project."""
    with db.reader() as conn:
        return _rows(conn, t.ec2_vpcs, t.ec2_vpcs.c.project_id == project_id)


def groups_of_project(db: engine.Database, project_id: str) -> dict[str, str]:
    """Return {security group: VPC} of a project."""
    with db.reader() as conn:
        return {row['group_id']: row['vpc_id'] for row in _rows(
            conn, t.ec2_vpc_groups, t.ec2_vpc_groups.c.project_id == project_id)}


def known(db: engine.Database, project_id: str) -> Known:
    """Return all VPC resources of a project."""
    with db.reader() as conn:
        vpcs, gateways, tables = (_rows(conn, each, each.c.project_id == project_id) for each in (
            t.ec2_vpcs, t.ec2_internet_gateways, t.ec2_route_tables))
        mine = sa.select(t.ec2_route_tables.c.id).where(t.ec2_route_tables.c.project_id == project_id)
        routes: dict[str, dict[str, str]] = {}
        for row in _rows(conn, t.ec2_routes, t.ec2_routes.c.route_table_id.in_(mine)):
            routes.setdefault(row['route_table_id'], {})[row['destination']] = row['gateway_id']
        held = _rows(conn, t.ec2_route_associations, t.ec2_route_associations.c.route_table_id.in_(mine))
        groups = _rows(conn, t.ec2_vpc_groups, t.ec2_vpc_groups.c.project_id == project_id)
        options = _rows(conn, t.ec2_dhcp_options, t.ec2_dhcp_options.c.project_id == project_id)
    return Known({row['id']: row for row in vpcs}, {row['id']: row for row in gateways},
                 {row['id']: row for row in tables}, routes, {row['subnet_id']: row for row in held},
                 {row['group_id']: row['vpc_id'] for row in groups},
                 {row['id']: json.loads(row['name_servers']) for row in options})


def _rows(conn: sa.Connection, table: sa.Table, *wanted: sa.ColumnElement[bool]) -> list[Row]:
    order = table.c.created_at if 'created_at' in table.c else next(iter(table.primary_key))
    return [dict(row) for row in conn.execute(sa.select(table).where(*wanted).order_by(order)).mappings()]


def exists(db: engine.Database, kind: str, project_id: str, ident: str) -> bool:
    """Tell whether a project has an internet gateway or a route table with this id.

    :param kind: ``igw`` or ``rtb``
    """
    table = {'igw': t.ec2_internet_gateways, 'rtb': t.ec2_route_tables}[kind]
    with db.reader() as conn:
        return bool(_rows(conn, table, table.c.project_id == project_id, table.c.id == ident))


def add_vpc(conn: sa.Connection, project_id: str, router_id: str, cidr: str) -> None:
    """Create a VPC with its main route table."""
    now = utils.utcnow()
    conn.execute(sa.insert(t.ec2_vpcs).values(id=router_id, project_id=project_id, cidr=cidr, created_at=now))
    conn.execute(sa.insert(t.ec2_route_tables).values(
        id=str(uuid.uuid4()), project_id=project_id, vpc_id=router_id, main_vpc_id=router_id, created_at=now))


def remove_vpc(conn: sa.Connection, ident: str) -> None:
    """Remove a VPC with its route tables; its internet gateway is kept."""
    tables = [row['id'] for row in _rows(conn, t.ec2_route_tables, t.ec2_route_tables.c.vpc_id == ident)]
    for table in tables:
        remove_table(conn, table)
    conn.execute(sa.update(t.ec2_internet_gateways).where(t.ec2_internet_gateways.c.vpc_id == ident).values(
        vpc_id=None))
    conn.execute(sa.delete(t.ec2_vpc_groups).where(t.ec2_vpc_groups.c.vpc_id == ident))
    conn.execute(sa.delete(t.ec2_vpcs).where(t.ec2_vpcs.c.id == ident))


def add_gateway(conn: sa.Connection, project_id: str) -> str | None:
    """Create an internet gateway and return its id, or None if the project has MAX_GATEWAYS."""
    if len(_rows(conn, t.ec2_internet_gateways, t.ec2_internet_gateways.c.project_id == project_id)) >= MAX_GATEWAYS:
        return None
    ident = str(uuid.uuid4())
    conn.execute(sa.insert(t.ec2_internet_gateways).values(
        id=ident, project_id=project_id, vpc_id=None, created_at=utils.utcnow()))
    return ident


def attach_gateway(db: engine.Database, ident: str, vpc_id: str) -> bool:
    """Attach an internet gateway; return False if it is attached or the VPC has another one."""
    c = t.ec2_internet_gateways.c
    try:
        return bool(db.run(lambda conn: conn.execute(sa.update(t.ec2_internet_gateways).where(
            c.id == ident, c.vpc_id.is_(None)).values(vpc_id=vpc_id)).rowcount))
    except db_exc.DBDuplicateEntry:
        return False


def detach_gateway(conn: sa.Connection, ident: str, vpc_id: str) -> None:
    c = t.ec2_internet_gateways.c
    conn.execute(sa.update(t.ec2_internet_gateways).where(c.id == ident, c.vpc_id == vpc_id).values(vpc_id=None))


def remove_gateway(conn: sa.Connection, ident: str) -> bool:
    """Remove an internet gateway and the routes to it; return False if it is attached."""
    c = t.ec2_internet_gateways.c
    if not conn.execute(sa.delete(t.ec2_internet_gateways).where(c.id == ident, c.vpc_id.is_(None))).rowcount:
        return False
    conn.execute(sa.delete(t.ec2_routes).where(t.ec2_routes.c.gateway_id == ident))
    return True


def add_table(conn: sa.Connection, ident: str, project_id: str, vpc_id: str) -> bool:
    """Create a route table; return False if the project has MAX_ROUTE_TABLES."""
    if len(_rows(conn, t.ec2_route_tables, t.ec2_route_tables.c.project_id == project_id)) >= MAX_ROUTE_TABLES:
        return False
    conn.execute(sa.insert(t.ec2_route_tables).values(
        id=ident, project_id=project_id, vpc_id=vpc_id, main_vpc_id=None, created_at=utils.utcnow()))
    return True


def remove_table(conn: sa.Connection, ident: str) -> None:
    """Remove a route table with its routes and associations."""
    conn.execute(sa.delete(t.ec2_route_associations).where(t.ec2_route_associations.c.route_table_id == ident))
    conn.execute(sa.delete(t.ec2_routes).where(t.ec2_routes.c.route_table_id == ident))
    conn.execute(sa.delete(t.ec2_route_tables).where(t.ec2_route_tables.c.id == ident))


def set_main(conn: sa.Connection, vpc_id: str, table_id: str) -> None:
    """Make a route table the main one of its VPC."""
    c = t.ec2_route_tables.c
    conn.execute(sa.update(t.ec2_route_tables).where(c.main_vpc_id == vpc_id).values(main_vpc_id=None))
    conn.execute(sa.update(t.ec2_route_tables).where(c.id == table_id, c.vpc_id == vpc_id).values(main_vpc_id=vpc_id))


def put_route(conn: sa.Connection, table_id: str, destination: str, gateway_id: str, replace: bool) -> bool:
    """Create or replace a route. Return False if the route to create exists, or if the route to replace does not exist.

    :param replace: whether to replace an existing route
    """
    c = t.ec2_routes.c
    if replace:
        return bool(conn.execute(sa.update(t.ec2_routes).where(
            c.route_table_id == table_id, c.destination == destination).values(gateway_id=gateway_id)).rowcount)
    return bool(engine.insert_ignore(conn, t.ec2_routes, {
        'route_table_id': table_id, 'destination': destination, 'gateway_id': gateway_id}).rowcount)


def remove_route(conn: sa.Connection, table_id: str, destination: str) -> bool:
    """Remove a route; return False if it does not exist."""
    c = t.ec2_routes.c
    return bool(conn.execute(sa.delete(t.ec2_routes).where(
        c.route_table_id == table_id, c.destination == destination)).rowcount)


def associate(conn: sa.Connection, subnet_id: str, table_id: str, ident: str | None = None) -> str | None:
    """Associate a subnet with a route table; return the association's id, or None if the subnet already has a route
    table.

    :param ident: id of the association; None: a new one
    """
    ident = ident or str(uuid.uuid4())
    made = engine.insert_ignore(conn, t.ec2_route_associations, {
        'subnet_id': subnet_id, 'id': ident, 'route_table_id': table_id})
    return ident if made.rowcount else None


def disassociate(conn: sa.Connection, subnet_id: str) -> None:
    conn.execute(sa.delete(t.ec2_route_associations).where(t.ec2_route_associations.c.subnet_id == subnet_id))


def add_group(conn: sa.Connection, project_id: str, group_id: str, vpc_id: str) -> None:
    """Add a security group to a VPC."""
    conn.execute(sa.insert(t.ec2_vpc_groups).values(group_id=group_id, project_id=project_id, vpc_id=vpc_id))


def remove_group(conn: sa.Connection, group_id: str) -> None:
    conn.execute(sa.delete(t.ec2_vpc_groups).where(t.ec2_vpc_groups.c.group_id == group_id))


def add_options(conn: sa.Connection, project_id: str, name_servers: Sequence[str]) -> str | None:
    """Create an option set and return its id, or None if the project already has MAX_DHCP_OPTIONS sets.

    :param name_servers: at most four addresses
    """
    table = t.ec2_dhcp_options
    count = sa.select(sa.func.count()).select_from(table).where(table.c.project_id == project_id)
    if conn.execute(count).scalar_one() >= MAX_DHCP_OPTIONS:
        return None
    ident = str(uuid.uuid4())
    conn.execute(sa.insert(table).values(id=ident, project_id=project_id, name_servers=json.dumps(list(name_servers)),
                                         created_at=utils.utcnow()))
    return ident


def associate_options(conn: sa.Connection, vpc_id: str, ident: str | None) -> None:
    """Set a VPC's option set, or remove it with None."""
    conn.execute(sa.update(t.ec2_vpcs).where(t.ec2_vpcs.c.id == vpc_id).values(dhcp_options_id=ident))


def remove_options(conn: sa.Connection, ident: str) -> bool:
    """Remove an option set; return False if a VPC uses it."""
    if conn.execute(sa.select(t.ec2_vpcs.c.id).where(t.ec2_vpcs.c.dhcp_options_id == ident)).first():
        return False
    conn.execute(sa.delete(t.ec2_dhcp_options).where(t.ec2_dhcp_options.c.id == ident))
    return True
