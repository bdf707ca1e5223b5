"""What tests share with nova/tests/unit/test_network_manager.py."""
import uuid

from nova import conf as nova_conf
from nova import context
from nova import objects
from nova.db import engine
from nova.db.networks import networks
from nova.db.networks import security_groups      # noqa: F401
from nova.db.tables import network as t
from nova.network import fake
from nova.network import ipam
from nova.network import manager
from nova.network import setup
from nova.objects import network_info
from nova.tests import schemas

PROJECT = 'p1'


def make_instance(project=PROJECT):
    return objects.Instance(uuid=str(uuid.uuid4()), project_id=project, availability_zone=None)


class Rig:
    def __init__(self, path, url=None, **overrides):
        self.conf = nova_conf.new(files=[], network__driver='fake', **overrides)
        self.db = engine.Database(url or f'sqlite:///{path}/api.sqlite')
        schemas.create(self.db, 'api')
        self.network_id = setup.bootstrap(self.conf, self.db)
        self.manager = manager.NetworkManager(self.conf, self.db, 'host1', fake.FakeDriver(self.conf))
        self.methods = self.manager.methods
        self.context = context.admin_context()

    def allocate(self, instance=None, requested=None, groups=None, host='host1'):
        return self.manager.allocate_for_instance(
            self.context, instance=instance or make_instance(), requested_networks=requested,
            security_groups=groups, host=host)

    def deallocate(self, instance, host=None):
        self.manager.deallocate_for_instance(self.context, instance_uuid=instance.uuid, host=host)

    def add_network(self, project=PROJECT, cidr='10.9.0.0/29', shared=False):
        ident = str(uuid.uuid4())
        with self.db.writer() as conn:
            networks.insert(conn, t.networks, [{
                'id': ident, 'project_id': project, 'name': 'n', 'shared': shared, 'is_default': False,
                'admin_state_up': True, 'bridge': 'br' + ident[:11], 'mtu': 1500, 'description': ''}])
            networks.insert(conn, t.subnets, [{
                'id': str(uuid.uuid4()), 'project_id': project, 'network_id': ident, 'name': '', 'cidr': cidr,
                'ip_version': 4, 'gateway_ip': cidr.rpartition('.')[0] + '.1', 'enable_dhcp': True,
                'allocation_pools': [{'start': cidr.rpartition('.')[0] + '.2',
                                      'end': cidr.rpartition('.')[0] + '.6'}],
                'dns_nameservers': [], 'host_routes': [], 'description': ''}])
        return ident

    def add_port(self, network_id, project=PROJECT):
        ident = str(uuid.uuid4())
        with self.db.writer() as conn:
            networks.insert(conn, t.ports, [{
                'id': ident, 'project_id': project, 'network_id': network_id, 'name': 'mine',
                'mac_address': ipam.new_mac(), 'admin_state_up': True, 'status': 'DOWN', 'device_id': '',
                'device_owner': '', 'host': '', 'position': 0, 'tag': None, 'created_by_compute': False,
                'description': ''}])
        return ident


def address(vif):
    return network_info.fixed_ips(vif)[0][0]
