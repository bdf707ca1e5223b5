"""Route tables of EC2, applied to subnets of the network service.

Guests receive the routes through DHCP. A subnet gets a gateway if its route table has a default route to the internet
gateway. Otherwise its guests get host routes. A guest can ignore these routes, so security groups must restrict the
traffic.
"""
from collections.abc import Callable, Iterable, Sequence
import contextlib
from typing import Any, cast

from nova.db.ec2 import vpcs as db
from nova.ec2 import calls
from nova.ec2 import errors
from nova.ec2 import operations
from nova.json_types import JsonObject

EVERYTHING = '0.0.0.0/0'
JOINS = ('network:router_interface', 'network:router_interface_distributed', 'network:ha_router_replicated_interface')
PART = 50                                     # maximum IDs in one query
MAX_ATTEMPTS = 3


def joins(req: operations.Request, routers: Sequence[str]) -> list[dict[str, Any]]:
    """Return the ports that connect the routers to subnets."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(routers), PART):
        found += req.call('network', 'GET', '/ports', query={'device_id': list(routers[start:start + PART])})['ports']
    return [port for port in found if port['device_owner'] in JOINS]


def subnets(req: operations.Request, uuids: Iterable[str]) -> list[dict[str, Any]]:
    """Return the subnets with these IDs."""
    wanted, found = list(uuids), []
    for start in range(0, len(wanted), PART):
        found += req.call('network', 'GET', '/subnets', query={'id': wanted[start:start + PART]})['subnets']
    return found


def groups(req: operations.Request) -> list[dict[str, Any]]:
    """Return the project's security groups; see ``with_known_rules``."""
    found = req.pages('network', '/security-groups', 'security_groups', {'project_id': req.project_id})
    return [with_known_rules(group) for group in found]


def with_known_rules(group: JsonObject) -> JsonObject:
    """Return a security group without its rules for address groups: EC2 has no such rules."""
    rules = cast('list[JsonObject]', group['security_group_rules'])
    return {**group, 'security_group_rules': [rule for rule in rules if not rule.get('remote_address_group_id')]}


def undo(req: operations.Request, method: str, path: str, body: calls.Document | None = None) -> None:
    """Undo a call of a failed request; errors are ignored."""
    with contextlib.suppress(errors.ServiceRefused, errors.Ec2Error):
        req.call('network', method, path, body)


def write_routes(req: operations.Request, vpc: str) -> None:
    """Apply the route tables of a VPC to its subnets, and repeat if another request has changed the tables.

    :raises ServiceRefused: the network service refuses the change
    :raises Ec2Error: the route tables changed during each attempt
    """
    known = db.known(req.api_db, req.project_id)
    for _try in range(MAX_ATTEMPTS):
        joined = [fixed for port in joins(req, [vpc]) for fixed in port['fixed_ips']]
        routers = {fixed['subnet_id']: fixed['ip_address'] for fixed in joined}
        for row in subnets(req, routers):
            wanted = _wanted(known, vpc, row, routers[row['id']])
            if row['ip_version'] == 4 and any(row[name] != value for name, value in wanted.items()):
                req.call('network', 'PUT', f'/subnets/{row["id"]}', {'subnet': wanted})
        before, known = known, db.known(req.api_db, req.project_id)
        if known == before:
            return
    raise errors.Ec2Error('Unavailable', 'Other requests keep changing the routes of the VPC, so that its subnets may '
                                         'have old ones. Repeat the request when they are complete.', 503)


def apply_changed(req: operations.Request, vpc: str, undo: Callable[[], object]) -> None:
    """Apply the changed route tables of a VPC to its subnets.

    :param undo: reverts the change of the tables after an error, so that the client can repeat its request
    :raises ServiceRefused, Ec2Error: see ``write_routes``
    """
    with contextlib.ExitStack() as after:
        after.callback(restore_routes, req, vpc)
        after.callback(undo)
        write_routes(req, vpc)
        after.pop_all()


def restore_routes(req: operations.Request, vpc: str) -> None:
    """Apply the reverted route tables to subnets that a failed request has changed; errors are ignored."""
    with contextlib.suppress(errors.ServiceRefused, errors.Ec2Error):
        write_routes(req, vpc)


def _wanted(known: db.Known, vpc: str, subnet: dict[str, Any], router: str) -> dict[str, Any]:
    """Return the gateway, host routes and name servers that a subnet must have.

    :param router: address of the VPC's router in the subnet
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
    """Return the UUID of an internet gateway or route table of the project.

    :raises Ec2Error: the resource does not exist
    """
    ident = req.uuid(prefix, shown)
    if ident not in (known.gateways if prefix == 'igw' else known.tables):
        raise errors.not_found(prefix, shown)
    return ident


def find_vpc(req: operations.Request, known: db.Known, shown: str) -> str:
    """Return the UUID of a VPC other than the default one.

    :raises Ec2Error: the VPC does not exist, or is the default VPC
    """
    if shown == req.vpc:
        raise errors.unsupported('The default VPC is managed by the network service. Use CreateVpc to create another '
                                 'VPC.')
    ident = req.uuid('vpc', shown)
    if ident not in known.vpcs:
        raise errors.not_found('vpc', shown)
    return ident
