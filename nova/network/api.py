"""Network operations for the compute API: checks of requests, and the network data of servers in responses.

This module accesses the API database directly, without RPC calls to the embedded network service.
"""
from collections.abc import Callable, Collection, Iterator
import contextlib
from typing import Any, Literal

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import guarantees as db_guarantees
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.db.tables import rows as db_rows
from nova.network import attach
from nova.network import caller_rules
from nova.network import floating
from nova.network import groups
from nova.network import ipam
from nova.network import quotas
from nova.network import security
from nova.network import selection
from nova.network.rest.request import Deps
from nova.network.rest import faults
from nova.network.rest import topology
from nova.objects.network_info import PortRequest
from nova.policy import Policy


class API:
    """Facade of the embedded network service for the compute API.

    :param api_db: the API database
    :param conf: the configuration
    :param rules: policy of the Networking API for users; None: callers inside the deployment are not checked
    """

    def __init__(self, api_db: Database, conf: ConfigOpts, rules: Policy | None = None) -> None:
        self.api_db, self.conf, self._rules = api_db, conf, caller_rules.CallerRules(rules)

    def caller(self, context: RequestContext) -> RequestContext:
        """Return the context of a user for operations of the Networking API in this process."""
        return self._rules.caller(context)

    def groups_of(self, context: RequestContext) -> groups.Groups:
        """Return the operations on security groups for the caller."""
        return groups.Groups(self.conf, self.api_db, self._rules, context)

    def floating_ips_of(self, context: RequestContext) -> floating.FloatingIps:
        """Return the operations on floating addresses for the caller."""
        return floating.FloatingIps(self.api_db, self.conf, context, self._rules)

    def validate_networks(self, context: RequestContext, requested: list[PortRequest] | str | None,
                          count: int = 1, guarantees: bool = True,
                          groups: Collection[str] = ()) -> selection.CheckedNetworks:
        """Check the networks of a request for ``count`` servers of the caller's project.

        The build checks again, because the state may have changed by then.

        :param requested: as in RequestSpec: None, 'auto', 'none', or [{'network_id', 'port_id', 'fixed_ip', 'tag'}]
        :param guarantees: whether ports may request guaranteed bandwidth or packet rates
        :param groups: names of security groups, for new ports
        :raises NetworkRequestInvalid: the project cannot use a network, port or address, or ``groups`` has
            groups other than the default group, and a network has no port security
        :raises PortInUse, NetworkAmbiguous, PolicyDenied, QuotaExceeded:
        """
        if requested == 'none' or requested == []:
            return selection.CheckedNetworks(requested, False)
        project_id = nova_context.the_project(context.project_id)
        with self.api_db.reader() as conn:
            if not (requested is None or isinstance(requested, str)):
                return self._check_all(conn, context, requested, count, guarantees, groups)
            usable, room = self._usable_and_room(conn, context, project_id)
            chosen = selection.choose(usable)
            found = [usable[str(request['network_id'])][0] for request in chosen]
            for network in found:
                self._rules.check_new_port(conn, context, project_id, network, None)
            if not chosen and requested == 'auto':
                self._rules.check(conn, context, 'get_auto_allocated_topology', {'project_id': project_id})
                with _as_invalid_request():
                    topology.check(conn)
            secured = [_are_used(network, groups) for network in found]
            self._check_room(conn, project_id, room, count * len(chosen))
            marked = self._marked(conn, chosen, {}, usable, guarantees)
            if marked is not chosen:
                requested = marked
        if chosen and requested == 'auto':
            requested = None
        return selection.CheckedNetworks(requested, any(secured) or not secured)

    def ensure_network(self, context: RequestContext) -> None:
        """Create a network for the caller's project if the project cannot use any network.

        :raises NetworkRequestInvalid: the administrator has not prepared automatic allocation, or a quota is exceeded
        """
        project_id = nova_context.the_project(context.project_id)
        with self.api_db.reader() as conn:
            usable = self._usable(conn, context, project_id)
        if not selection.choose(usable):
            with _as_invalid_request():
                self.api_db.run(ipam.retry_on_duplicate(topology.make), Deps(self.conf, self.api_db), project_id)

    def _check_room(self, conn: Connection, project_id: str, room: int | None, wanted: int) -> None:
        """Check the quota of ports.

        :param room: number of new ports that the quota allows; None: any number
        :raises QuotaExceeded:
        """
        if room is not None and 0 < wanted > room:
            quotas.check_unlocked(conn, self.conf, 'port', project_id, wanted)

    def _marked(self, conn: Connection, requests: list[PortRequest], given: dict[str, db_rows.PortsRow],
                usable: selection.Usable, allowed: bool) -> list[PortRequest]:
        """Mark the requests if a port needs guaranteed resources; the scheduler then selects hosts that have them.

        :param given: {id: row} of the requested ports
        :param usable: the requested networks
        :param allowed: whether ports may need guarantees
        """
        ports = [given[str(request['port_id'])] for request in requests if request.get('port_id')]
        nets = {ident: network for ident, (network, _subnets) in usable.items()}
        nets |= {row['id']: row for row in networks.many(
            conn, t.networks, {port['network_id'] for port in ports} - nets.keys())}
        policies = [(port['network_id'], port['qos_policy_id']) for port in ports]
        policies += [(str(request['network_id']), None) for request in requests if not request.get('port_id')]
        if not db_guarantees.needs(conn, policies, nets):
            return requests
        if not allowed:
            raise exception.NetworkRequestInvalid(
                reason='servers with ports that request a bandwidth or packet rate need microversion 2.72 or later.')
        return [{**request, selection.GUARANTEED: True} for request in requests]

    def _usable(self, conn: Connection, context: RequestContext, project_id: str,
                idents: set[str] | None = None) -> selection.Usable:
        """Return the networks and subnets from networks.usable() that the caller may read."""
        return self._allowed(conn, context, networks.usable(conn, project_id, idents))

    def _usable_and_room(self, conn: Connection, context: RequestContext, project_id: str,
                         idents: set[str] | None = None) -> tuple[selection.Usable, int | None]:
        """Return (result of ``_usable``, number of new ports that the quota allows or None)."""
        found, room = networks.usable_and_room(conn, project_id, idents, quotas.limit(self.conf, 'port'))
        return self._allowed(conn, context, found), room

    def _allowed(self, conn: Connection, context: RequestContext, found: selection.Usable) -> selection.Usable:
        return {ident: (network, subnets) for ident, (network, subnets) in found.items()
                if self._rules.allows(conn, context, 'get_network', network)}

    def _ports(self, conn: Connection, context: RequestContext, idents: set[str]) -> dict[str, db_rows.PortsRow]:
        """Return {id: row} of the ports that the caller may read."""
        rows = list(ports.seen(conn, context, idents).values())
        return {row['id']: row for row in self._rules.readable(conn, context, 'get_port', rows, True)}

    def _check_all(self, conn: Connection, context: RequestContext, requested: list[PortRequest], count: int,
                   guaranteed: bool, groups: Collection[str]) -> selection.CheckedNetworks:
        project_id = nova_context.the_project(context.project_id)
        given = self._ports(conn, context, _named(requested, 'port_id'))
        named = _named(requested, 'network_id')
        usable, room = self._usable_and_room(conn, context, project_id, named)
        granted = named if context.is_admin else set()
        for request in requested:
            try:
                self._check(conn, context, project_id, usable, given, request, count, granted)
            except (exception.NotFound, exception.FixedIpInUse) as error:
                raise exception.NetworkRequestInvalid(reason=error.message)
            except exception.InvalidInput as error:
                raise exception.NetworkRequestInvalid(reason=error.kwargs['reason'])
        secured = [_are_used(usable[str(request['network_id'])][0], groups) for request in requested
                   if not request.get('port_id')]
        self._check_room(conn, project_id, room, count * len(secured))
        own = {ident for ident, (network, _subnets) in usable.items() if selection.is_of_project(network, project_id)}
        checked: list[PortRequest] = [
            request if request.get('port_id') or request['network_id'] in own else {**request, selection.GRANTED: True}
            for request in requested]
        return selection.CheckedNetworks(self._marked(conn, checked, given, usable, guaranteed), any(secured),
                                         groups=tuple(security_groups.names_of_ports(conn, list(given))))

    def _check(self, conn: Connection, context: RequestContext, project_id: str, usable: selection.Usable,
               given: dict[str, db_rows.PortsRow], request: PortRequest, count: int,
               granted: Collection[str] = ()) -> None:
        port_id, fixed_ip = request.get('port_id'), request.get('fixed_ip')
        if count > 1 and (port_id or fixed_ip):
            raise exception.InvalidInput(reason='a port or a fixed IP can be used by one server only.')
        if port_id:
            port = given.get(port_id)
            if port is None or port['project_id'] != project_id:
                raise exception.PortNotFound(port_id=port_id)
            if port['device_id']:
                raise exception.PortInUse(port_id=port['id'])
            return
        network, subnets = selection.usable_network(usable, request.get('network_id'), project_id, granted)
        self._rules.check_new_port(conn, context, project_id, network, fixed_ip)
        if fixed_ip:
            ipam.check_free(conn, subnets, fixed_ip, anywhere=network['project_id'] == project_id)

    def check_attach(self, context: RequestContext, project_id: str, server_networks: set[str],
                     request: PortRequest) -> selection.CheckedNetworks:
        """Complete and check a request to attach a port to a server of a project.

        The attachment checks again, because the state may have changed by then.

        :param server_networks: ids of the server's networks, preferred if the request names no network
        :param request: {'port_id', 'network_id', 'fixed_ip'}
        :returns: the request; if it has neither port nor network, with a chosen network
        :raises NetworkNotFound, PortNotFound, PortInUse, FixedIpInUse, NetworkAmbiguous, InvalidInput,
            NetworkRequestInvalid, PolicyDenied:
        """
        with self.api_db.reader() as conn:
            if not request['port_id'] and not request['network_id']:
                usable = self._usable(conn, context, project_id)
                only = {ident: usable[ident] for ident in server_networks if ident in usable}
                chosen = selection.choose(only if len(only) == 1 else usable)
                if not chosen:
                    raise exception.NetworkRequestInvalid(reason='no network is available to the project.')
                request = {**request, 'network_id': chosen[0]['network_id']}
            given = self._ports(conn, context, _named([request], 'port_id'))
            usable = self._usable(conn, context, project_id, _named([request], 'network_id'))
            self._check(conn, context, project_id, usable, given, request, 1)
        return selection.CheckedNetworks([request])

    def check_detach(self, context: RequestContext, project_id: str, instance_uuid: str,
                     port_id: str | None = None) -> None:
        """Refuse a caller that may not delete the ports which the service created for a server.

        :param project_id: project of the server
        :param port_id: port to detach; None: the server is deleted with all ports
        :raises PolicyDenied:
        """
        if not self._rules.depends_on_resource(context, 'delete_port', project_id):
            return
        with self.api_db.reader() as conn:
            self._rules.check_ports(conn, context, ['delete_port'], [
                row for row in ports.of_device(conn, instance_uuid)
                if row['created_by_compute'] and port_id in (None, row['id'])])

    def check_addresses(self, context: RequestContext, instance_uuid: str) -> None:
        """Refuse a caller that may not change the addresses of a server's ports; raises PolicyDenied."""
        with self.api_db.reader() as conn:
            self._rules.check_ports(conn, context, ['update_port', 'update_port:fixed_ips'],
                                    ports.of_device(conn, instance_uuid))

    def check_security_groups(self, context: RequestContext, names: list[str]) -> list[str]:
        """Resolve names or ids of the caller's groups; return the names that the server will show.

        :raises SecurityGroupNotFound, SecurityGroupAmbiguous:
        """
        wanted = [name for name in names or () if name != security_groups.DEFAULT]
        if not wanted:
            return list(names or ())
        project_id = nova_context.the_project(context.project_id)
        with self.api_db.reader() as conn:
            security.resolve_groups(conn, project_id, wanted)
            rows = security_groups.of_project(conn, project_id)
            for row in rows:
                self._check_group(conn, context, row, {row['id'], row['name']} & {*wanted})
        known = {row['id']: row['name'] for row in rows}
        return list(dict.fromkeys(known.get(name, name) for name in names))

    def _check_group(self, conn: Connection, context: RequestContext, row: db_rows.SecurityGroupsRow,
                     named: Collection[str]) -> None:
        """:raises SecurityGroupNotFound: the request names a group that the caller may not read"""
        if named and not self._rules.allows(conn, context, 'get_security_group', row):
            raise exception.SecurityGroupNotFound(security_group_id=next(iter(named)))

    def security_groups_for(self, context: RequestContext,
                            instance_uuids: list[str]) -> dict[str, list[db_rows.SecurityGroupsRow]]:
        """Return {instance uuid: [row of a security group]} of servers with ports; groups are sorted by name."""
        with self.api_db.reader() as conn:
            return security_groups.of_devices(conn, instance_uuids)

    def group_names_of(self, context: RequestContext, instance_uuids: list[str]) -> dict[str, list[str]]:
        """Return {instance uuid: names of its ports' groups} of servers with ports, in one SELECT.

        :raises Unavailable: the network service does not answer
        """
        with self.api_db.reader() as conn:
            return security_groups.names_of_devices(conn, instance_uuids)

    def add_security_group(self, context: RequestContext, project_id: str, instance_uuid: str, name: str) -> None:
        """Add all ports of a server to a group.

        :param name: name or id of the group
        :raises SecurityGroupNotFound, SecurityGroupAmbiguous:
        :raises NetworkRequestInvalid: the server has no port
        """
        self.api_db.run(self._change_groups, context, project_id, instance_uuid, name, security_groups.join)

    def remove_security_group(self, context: RequestContext, project_id: str, instance_uuid: str,
                              name: str) -> None:
        """Remove all ports of a server from a group.

        :raises SecurityGroupNotFound: no such group, or no port of the server is in it
        :raises SecurityGroupAmbiguous:
        """
        self.api_db.run(self._change_groups, context, project_id, instance_uuid, name, security_groups.leave)

    def _change_groups(self, conn: Connection, context: RequestContext, project_id: str, instance_uuid: str, name: str,
                       change: Callable[..., Any]) -> None:
        group_id, = security.resolve_groups(
            conn, project_id, [name],
            security_groups.ensure_default(conn, project_id) if name == security_groups.DEFAULT else None, lock=True)
        group = networks.lock(conn, t.security_groups, group_id)
        if group is None:                        # deleted concurrently
            raise exception.SecurityGroupNotFound(security_group_id=name)
        self._check_group(conn, context, group, [name])
        secured = [port for port in ports.of_device(conn, instance_uuid) if port['port_security_enabled']]
        self._rules.check_ports(conn, context, ['update_port'], secured)
        idents = [port['id'] for port in secured]
        if not idents and change is security_groups.join:
            raise exception.NetworkRequestInvalid(reason='the server has no port with port security.')
        if not change(conn, idents, group_id) and change is security_groups.leave:
            raise exception.SecurityGroupNotFound(security_group_id=name)

    def security_group_rules(self, context: RequestContext,
                             group_ids: list[str]) -> dict[str, list[db_rows.SecurityGroupRulesRow]]:
        """Return {group id: [rule row]}."""
        found: dict[str, list[db_rows.SecurityGroupRulesRow]] = {ident: [] for ident in group_ids}
        with self.api_db.reader() as conn:
            for rule in networks.many(conn, t.security_group_rules, group_ids, 'security_group_id'):
                found[rule['security_group_id']].append(rule)
        return found

    def security_groups_by_id(self, context: RequestContext, group_ids: set[str]) -> dict[str,
                              db_rows.SecurityGroupsRow]:
        """Return {id: row} of groups of any project."""
        with self.api_db.reader() as conn:
            return {row['id']: row for row in networks.many(conn, t.security_groups, group_ids)}

    def list_networks(self, context: RequestContext) -> list[db_rows.NetworksRow]:
        """Return the rows of the networks visible to the caller, sorted by name."""
        with self.api_db.reader() as conn:
            rows = networks.page(conn, t.networks, networks.visible(context), [('name', 'asc'), ('id', 'asc')], None,
                                 None)
            return self._readable(conn, context, rows)

    def _readable(self, conn: Connection, context: RequestContext,
                  rows: list[db_rows.NetworksRow]) -> list[db_rows.NetworksRow]:
        """Return the networks that the caller may read."""
        shared = networks.shared_among(conn, [row['id'] for row in rows], context.project_id)
        views = [{**row, 'shared': row['shared'] or row['id'] in shared, 'router:external': row['external']}
                 for row in rows]
        readable = {view['id'] for view in self._rules.readable(conn, context, 'get_network', views)}
        return [row for row in rows if row['id'] in readable]

    def show_network(self, context: RequestContext, ident: str) -> db_rows.NetworksRow:
        """Return one row.

        :raises NetworkNotFound: there is no such network, or it is not visible to the caller
        """
        with self.api_db.reader() as conn:
            rows = networks.page(conn, t.networks, networks.visible(context) & (t.networks.c.id == ident),
                                 [('id', 'asc')], None, 1)
            rows = self._readable(conn, context, rows)
        if not rows:
            raise exception.NetworkNotFound(network_id=ident)
        return rows[0]

    def subnets_of(self, context: RequestContext, network_ids: list[str]) -> dict[str, list[db_rows.SubnetsRow]]:
        """Return {network id: [subnet row]}, oldest first."""
        found: dict[str, list[db_rows.SubnetsRow]] = {ident: [] for ident in network_ids}
        with self.api_db.reader() as conn:
            rows = networks.many(conn, t.subnets, network_ids, 'network_id')
            for row in self._rules.readable(conn, context, 'get_subnet', rows, True):
                found[row['network_id']].append(row)
        return {ident: sorted(rows, key=lambda row: (row['created_at'], row['id'])) for ident, rows in found.items()}

    def ports_of(self, context: RequestContext, instance_uuid: str) -> list[dict[str, Any]]:
        """Return the rows of a server's ports in order, each with 'fixed_ips' [{'subnet_id', 'ip_address'}]."""
        with self.api_db.reader() as conn:
            rows = self._rules.readable(conn, context, 'get_port', ports.of_device(conn, instance_uuid), True)
            fixed = networks.addresses_of(conn, [row['id'] for row in rows])
        return [{**row, 'fixed_ips': fixed.get(row['id'], [])} for row in rows]


@contextlib.contextmanager
def _as_invalid_request() -> Iterator[None]:
    """Raise NetworkRequestInvalid if no network can be created for the project."""
    try:
        yield
    except (faults.AutoAllocationFailure, faults.OverQuota) as error:
        raise exception.NetworkRequestInvalid(
            reason=f'no network is available to the project, and none can be created: {error.message}') from None


def _named(requests: list[PortRequest], name: Literal['network_id', 'port_id']) -> set[str]:
    """Return the ids of the ports, or of the networks, that port requests name."""
    return {ident for ident in (request.get(name) for request in requests) if ident}


def _are_used(network: db_rows.NetworksRow, names: Collection[str]) -> bool:
    """Return whether new ports in the network get security groups.

    :raises NetworkRequestInvalid: new ports get none, but ``names`` has groups other than the default
    """
    return security.check_used(network['id'], attach.has_port_security(network), names)
