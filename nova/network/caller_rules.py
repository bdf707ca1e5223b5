"""Policy checks of the Networking API for users of the compute API.

The compute API calls functions of the embedded network service in the API's process. Checks of port rules add the role
service to the user's roles, because the compute API is a service. A policy file may restrict users further.
doc/source/admin/policy.rst has the rules of each operation. If Neutron is used, it checks the user's token.
"""
from collections.abc import Mapping, Sequence
import copy
from typing import Any, TypeVar

from nova import exception
from nova import policy
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import ports
from nova.db.tables import rows as db_rows
from nova.network.rest import permissions

SERVICE = 'service'
Row = TypeVar('Row', bound=Mapping[str, Any])


class CallerRules:
    """Policy checks for users.

    :param rules: policy of the Networking API; None: callers inside the deployment are not checked
    """

    def __init__(self, rules: policy.Policy | None = None) -> None:
        self._rules = rules

    def caller(self, context: RequestContext) -> RequestContext:
        """Return the user's context with the policy of the Networking API and the role ``service``."""
        if self._rules is None:
            return context
        made = copy.copy(context)
        made.rules, made.service_roles = self._rules, [*context.service_roles, SERVICE]
        return made

    def _caller_of(self, context: RequestContext, rule: str) -> RequestContext:
        made = self.caller(context)
        if '_port' in rule:
            made.roles = [*context.roles, SERVICE]
        return made

    def allows(self, conn: Connection, context: RequestContext, rule: str, values: Mapping[str, Any],
               network: db_rows.NetworksRow | None = None) -> bool:
        """Return whether a rule allows the user to use a resource.

        :param values: row or new values of the resource
        :param network: network of the resource, from networks.usable(…); None: it is read if the rule depends on it
        """
        if self._rules is None:
            return True
        caller = self._caller_of(context, rule)
        where = permissions.target_of(caller, rule, values)
        if network is not None:
            where |= permissions.attributes_of_network(network, bool(network['shared']))
        elif 'network_id' in values:
            where = permissions.in_network(conn, caller, rule, where, values['network_id'])
        return permissions.allows(caller, rule, where)

    def check(self, conn: Connection, context: RequestContext, rule: str, values: Mapping[str, Any],
              network: db_rows.NetworksRow | None = None) -> None:
        """:raises PolicyDenied: see ``allows``"""
        if not self.allows(conn, context, rule, values, network):
            raise exception.PolicyDenied(rule=rule)

    def readable(self, conn: Connection, context: RequestContext, rule: str, rows: Sequence[Row],
                 of_network: bool = False) -> list[Row]:
        """Return the rows that a rule allows the user to read.

        :param of_network: whether the rows are ports or subnets; their rules may depend on the network
        """
        if self._rules is None:
            return list(rows)
        allowed = permissions.readable(conn, self._caller_of(context, rule), rule, rows, of_network)
        return [row for row, may in zip(rows, allowed) if may]

    def depends_on_resource(self, context: RequestContext, rule: str, project_id: str) -> bool:
        """Return whether a rule may deny the user access to ports of the project's servers.

        If False, the caller of this method need not read the ports.
        """
        if self._rules is None:
            return False
        caller, values = self._caller_of(context, rule), {'project_id': project_id, 'device_owner': ports.OF_SERVERS}
        return bool(permissions.further(caller, rule)) or not permissions.allows(
            caller, rule, permissions.target_of(caller, rule, values))

    # ---- ports of servers

    def check_new_port(self, conn: Connection, context: RequestContext, project_id: str, network: db_rows.NetworksRow,
                       fixed_ip: str | None) -> None:
        """Check the rules of a new port of a server.

        :raises PolicyDenied:
        """
        values = {'project_id': project_id, 'network_id': network['id'], 'device_owner': ports.OF_SERVERS}
        for rule in ('create_port', *(('create_port:fixed_ips', 'create_port:fixed_ips:ip_address') if fixed_ip else
                                      ())):
            self.check(conn, context, rule, values, network)

    def check_ports(self, conn: Connection, context: RequestContext, rules: Sequence[str],
                    rows: Sequence[db_rows.PortsRow]) -> None:
        """:raises PolicyDenied: the user may not change one of the ports"""
        for row in rows:
            for rule in rules:
                self.check(conn, context, rule, row)
