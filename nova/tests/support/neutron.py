"""What tests share with nova/tests/functional/test_neutron.py."""
import pytest

from nova import conf as nova_conf
from nova import context
from nova import objects
from nova.network.neutron import api
from nova.network.neutron import manager
from nova.tests import neutron_service

ALICE, BOB = 'a' * 32, 'b' * 32
SERVER, OTHER = '11111111-2222-3333-4444-555555555555', '66666666-2222-3333-4444-555555555555'


def user(project=ALICE):
    return context.RequestContext(user_id='u', project_id=project, roles=['member'], overwrite=False,
                                  auth_token='x:' + project)


def server(uuid=SERVER, project=ALICE):
    return objects.Instance(uuid=uuid, project_id=project, availability_zone=None)


def request(**values):
    return {'network_id': None, 'port_id': None, 'fixed_ip': None, 'tag': None, **values}


class Rig:
    """The service, the compute API's facade, and the network service that compute hosts ask."""

    def __init__(self, neutron, address):
        conf = nova_conf.new(files=[], network__backend='neutron', neutron__endpoint_override=address,
                             neutron__auth_type='none')
        self.neutron, self.api = neutron, api.API(conf)
        self.hosts, self.projects = {}, {SERVER: ALICE, OTHER: ALICE}
        self.manager = manager.NeutronManager(conf, self.hosts.get, project_of=self.projects.get)
        self.ctx = context.admin_context()

    def allocate(self, requests, uuid=SERVER, host='host1', groups=None):
        return self.manager.allocate_for_instance(self.ctx, server(uuid), requests, groups, host)

    def give_back(self, uuid=SERVER, host=None):
        self.manager.deallocate_for_instance(self.ctx, uuid, host)


@pytest.fixture
def rig():
    neutron = neutron_service.Neutron(['host1', 'host2'])
    with neutron_service.listening(neutron) as address:
        yield Rig(neutron, address)


@pytest.fixture(scope='module')
def neutron():
    return neutron_service.Neutron(['host1', 'host2'])
