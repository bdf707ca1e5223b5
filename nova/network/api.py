"""What the compute API needs of the network service: checks before a server is made, and what servers show.

It reads the embedded network service's rows. Errors are those of a request for a server.
"""
from nova import exception
from nova.db import networks
from nova.db import ports
from nova.db import security_groups
from nova.db import tables_network as t
from nova.network import ipam
from nova.network import security
from nova.network import selection


class API:
    """The facade over the embedded network service.

    :param api_db: the API database
    """

    def __init__(self, api_db):
        self.api_db = api_db

    def validate_networks(self, context, requested, count=1):
        """Check the networks of a request for ``count`` servers of the caller's project.

        What is true now may change until the servers are built, which checks again.

        :param requested: as RequestSpec has it: None, 'auto', 'none', or [{'network_id', 'port_id',
                'fixed_ip', 'tag'}]
        :raises NetworkRequestInvalid: a network, port or address that the project cannot have
        :raises PortInUse, NetworkAmbiguous:
        """
        if requested == 'none' or requested == []:
            return
        with self.api_db.reader() as conn:
            if requested is None or requested == 'auto':
                chosen = selection.choose(networks.usable(conn, context.project_id))
                if not chosen and requested == 'auto':
                    raise exception.NetworkRequestInvalid(reason='no network is available to the project.')
                return
            given = ports.of_ids(conn, {r['port_id'] for r in requested if r.get('port_id')})
            usable = networks.usable(conn, context.project_id,
                                     {r['network_id'] for r in requested if r.get('network_id')})
            for request in requested:
                try:
                    self._check(conn, context.project_id, usable, given, request, count)
                except (exception.NotFound, exception.FixedIpInUse) as error:
                    raise exception.NetworkRequestInvalid(reason=error.message)
                except exception.InvalidInput as error:
                    raise exception.NetworkRequestInvalid(reason=error.kwargs['reason'])

    def _check(self, conn, project_id, usable, given, request, count):
        if count > 1 and (request.get('port_id') or request.get('fixed_ip')):
            raise exception.InvalidInput(reason='a port or a fixed IP serves one server only.')
        if request.get('port_id'):
            port = given.get(request['port_id'])
            if port is None or port['project_id'] != project_id:
                raise exception.PortNotFound(port_id=request['port_id'])
            if port['device_id']:
                raise exception.PortInUse(port_id=port['id'])
            return
        network, subnets = selection.usable_network(usable, request.get('network_id'), project_id)
        if request.get('fixed_ip'):
            ipam.check_free(conn, subnets, request['fixed_ip'])

    def check_security_groups(self, context, names):
        """Check that names or ids are groups of the caller's project.

        :raises SecurityGroupNotFound, SecurityGroupAmbiguous:
        """
        wanted = [name for name in names or () if name != security_groups.DEFAULT]
        if wanted:
            with self.api_db.reader() as conn:
                security.pick(security_groups.of_project(conn, context.project_id), wanted)

    def security_groups_for(self, context, instance_uuids):
        """{instance uuid: [{'id', 'name', 'description', 'project_id', …}]} of servers with ports, by
        name."""
        with self.api_db.reader() as conn:
            return security_groups.of_devices(conn, instance_uuids)

    def security_group_rules(self, context, group_ids):
        """{group id: [rule row]}"""
        found = {ident: [] for ident in group_ids}
        with self.api_db.reader() as conn:
            for rule in networks.many(conn, t.security_group_rules, group_ids, 'security_group_id'):
                found[rule['security_group_id']].append(rule)
        return found

    def list_networks(self, context):
        """Rows of the networks that the caller may see, by name."""
        with self.api_db.reader() as conn:
            return networks.page(
                conn, t.networks, networks.visible(context), [('name', 'asc'), ('id', 'asc')], None, None
            )

    def show_network(self, context, ident):
        """One row.

        :raises NetworkNotFound: none, or another project's
        """
        with self.api_db.reader() as conn:
            rows = networks.page(conn, t.networks, networks.visible(context) & (t.networks.c.id == ident),
                                 [('id', 'asc')], None, 1)
        if not rows:
            raise exception.NetworkNotFound(network_id=ident)
        return rows[0]

    def ports_of(self, context, instance_uuid):
        """Rows of a server's ports, in its order, each with 'fixed_ips' [{'subnet_id', 'ip_address'}]."""
        with self.api_db.reader() as conn:
            rows = ports.of_device(conn, instance_uuid)
            fixed = networks.addresses_of(conn, [row['id'] for row in rows])
        return [{**row, 'fixed_ips': fixed.get(row['id'], [])} for row in rows]
