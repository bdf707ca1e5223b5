"""How route tables reach the network service.

A route table reaches guests by DHCP: a subnet's gateway is set where its table sends everything to the internet
gateway; otherwise its guests get the routes that they have. What they may reach at all is for security groups to
say.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
import contextlib
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.db.ec2 import vpcs as db

EVERYTHING = '0.0.0.0/0'
JOINS = ('network:router_interface', 'network:router_interface_distributed', 'network:ha_router_replicated_interface')
PART = 50                                     # ids of one query
TRIES = 3


def joins(req: operations.Request, routers: Sequence[str]) -> list[dict[str, Any]]:
    """The ports by which routers are in subnets."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(routers), PART):
        found += req.call('network', 'GET', '/ports', query={'device_id': list(routers[start:start + PART])})['ports']
    return [port for port in found if port['device_owner'] in JOINS]


def subnets(req: operations.Request, uuids: Iterable[str]) -> list[dict[str, Any]]:
    """Subnets of these ids."""
    wanted, found = list(uuids), []
    for start in range(0, len(wanted), PART):
        found += req.call('network', 'GET', '/subnets', query={'id': wanted[start:start + PART]})['subnets']
    return found


def groups(req: operations.Request) -> list[dict[str, Any]]:
    """The security groups of the project."""
    return req.pages('network', '/security-groups', 'security_groups', {'project_id': req.project_id})


def undo(req: operations.Request, method: str, path: str, body: Any = None) -> None:
    """Take back what a failed request has done to the network service, as far as that goes."""
    with contextlib.suppress(errors.ServiceRefused, errors.Ec2Error):
        req.call('network', method, path, body)


def write_routes(req: operations.Request, vpc: str) -> None:
    """Make the subnets of a VPC what its route tables say, and look whether another request has changed them meanwhile.

    :raises ServiceRefused: the network service does not take it
    """
    known = db.known(req.api_db, req.project_id)
    for _try in range(TRIES):
        joined = [fixed for port in joins(req, [vpc]) for fixed in port['fixed_ips']]
        routers = {fixed['subnet_id']: fixed['ip_address'] for fixed in joined}
        for row in subnets(req, routers):
            wanted = _wanted(known, vpc, row, routers[row['id']])
            if row['ip_version'] == 4 and any(row[name] != value for name, value in wanted.items()):
                req.call('network', 'PUT', f'/subnets/{row["id"]}', {'subnet': wanted})
        before, known = known, db.known(req.api_db, req.project_id)
        if known == before:
            return


def _wanted(known: db.Known, vpc: str, subnet: dict[str, Any], router: str) -> dict[str, Any]:
    """The gateway, the routes and the name servers of a subnet.

    :param router: the address of the VPC's router in it
    """
    if vpc not in known.vpcs:
        return {}
    table, attached = known.table_of(vpc, subnet['id']), known.gateway_of(vpc)
    out = sorted(where for where, gateway in known.routes.get(table or '', {}).items() if gateway == attached)
    servers = known.name_servers_of(vpc)
    resolvers = {} if servers is None else {'dns_nameservers': servers}
    if EVERYTHING in out:
        return {'gateway_ip': router, 'host_routes': [], **resolvers}
    return {**resolvers, 'gateway_ip': None, 'host_routes': [{'destination': where, 'nexthop': router}
                                                for where in [known.vpcs[vpc]['cidr'], *out]]}


def find(req: operations.Request, known: db.Known, prefix: str, shown: str) -> str:
    """The uuid of an internet gateway or a route table of the project.

    :raises Ec2Error: there is none
    """
    ident = req.uuid(prefix, shown)
    if ident not in (known.gateways if prefix == 'igw' else known.tables):
        raise errors.not_found(prefix, shown)
    return ident


def find_vpc(req: operations.Request, known: db.Known, shown: str) -> str:
    """The uuid of a VPC that was made.

    :raises Ec2Error: there is none, or it is the first one
    """
    if shown == req.vpc:
        raise errors.unsupported('The routers of the first VPC are those of the network service. CreateVpc makes '
                                 'another one.')
    ident = req.uuid('vpc', shown)
    if ident not in known.vpcs:
        raise errors.not_found('vpc', shown)
    return ident
