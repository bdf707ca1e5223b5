"""Default network of a deployment, and address of its metadata server."""
import ipaddress
import uuid

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.network import ipam
from nova.network import managers


def bootstrap(conf: ConfigOpts, api_db: Database) -> str:
    """Create the default network, shared by all projects, unless it exists; return its id."""
    options = conf.network

    def make(conn: Connection) -> str:
        found = networks.default_id(conn)
        if found:
            return found
        cidr = ipam.parse_cidr(options.default_cidr)
        gateway = cidr.network_address + 1
        network = {
            'id': str(uuid.uuid4()), 'project_id': '', 'name': options.default_network_name, 'shared': True,
            'is_default': True, 'admin_state_up': True, 'bridge': options.bridge, 'mtu': options.mtu, 'description': ''}
        networks.insert(conn, t.networks, [network])
        networks.insert(conn, t.subnets, [{
            'id': str(uuid.uuid4()), 'project_id': '', 'network_id': network['id'],
            'name': options.default_network_name, 'cidr': str(cidr), 'ip_version': 4, 'gateway_ip': str(gateway),
            'enable_dhcp': managers.load(conf).serves_dhcp, 'allocation_pools': ipam.default_pools(cidr, gateway),
            'dns_nameservers': [], 'host_routes': [], 'description': ''}])
        return str(network['id'])

    return api_db.run(make)


def default_id(api_db: Database) -> str | None:
    """Return the id of the default network, or None."""
    with api_db.reader() as conn:
        return networks.default_id(conn)


def metadata_address(conf: ConfigOpts, api_db: Database) -> tuple[str, int]:
    """Return (address, port) of the metadata server, which receives the redirected requests to 169.254.169.254."""
    if conf.network.metadata_host:
        return conf.network.metadata_host, conf.metadata.port
    with api_db.reader() as conn:
        gateway = networks.default_gateway(conn)
    if gateway is None:
        raise exception.NetworkNotFound(network_id=conf.network.default_network_name)
    return str(ipaddress.ip_address(gateway)), conf.metadata.port
