"""Claims of ports on a real Placement service: NOVA_TEST_PLACEMENT is the Python of an environment that has
``openstack-placement``. The tests are those of the small service, where that stands for it."""
import contextlib
import os
import subprocess
import time
import uuid

import pytest
import requests as http

from nova import conf as nova_conf
from nova import context
from nova.network.neutron import manager
from nova.tests import neutron_service
from nova.tests.functional import test_neutron
from nova.tests.functional import test_neutron_requests as small
from nova.tests.integration import servers

PYTHON = os.environ.get('NOVA_TEST_PLACEMENT')
pytestmark = pytest.mark.skipif(not PYTHON, reason='NOVA_TEST_PLACEMENT is not set')

SERVE = '''
import socketserver, sys
from wsgiref import simple_server
from placement.wsgi import init_application
class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
application = init_application()
def serve(environ, start_response):                       # whoever asks is the administrator
    return application({**environ, 'HTTP_X_AUTH_TOKEN': 'admin'}, start_response)
simple_server.make_server('127.0.0.1', int(sys.argv.pop()), serve, Server).serve_forever()
'''
HEADERS = {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.36', 'Accept': 'application/json'}


@contextlib.contextmanager
def service(directory, python=PYTHON):
    """The address of a service with an empty database."""
    (directory / 'placement.conf').write_text(
        f'[api]\nauth_strategy = noauth2\n[placement_database]\nsync_on_startup = true\n'
        f'connection = sqlite:///{directory}/placement.sqlite\n')
    port, log = servers.free_port(), (directory / 'log').open('wb')
    process = subprocess.Popen([python, '-c', SERVE, str(port)], stdout=log, stderr=log,
                               env={**os.environ, 'OS_PLACEMENT_CONFIG_DIR': str(directory)})
    try:
        for _ in range(600):
            assert process.poll() is None, (directory / 'log').read_text()
            if servers.answers(port):
                break
            time.sleep(0.1)
        yield f'http://127.0.0.1:{port}'
    finally:
        process.terminate()
        process.wait()
        log.close()


class Placement:
    """What tests of the small service prepare and look at, of a real one."""

    def __init__(self, address):
        self.address, self.before_claim = address, None

    def call(self, method, path, **more):
        answer = http.request(method, self.address + path, headers=HEADERS, timeout=30, **more)
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else {}

    @property
    def providers(self):
        return {row['uuid']: {**row, 'parent': row['parent_provider_uuid']}
                for row in self.call('GET', '/resource_providers')['resource_providers']}

    @property
    def allocations(self):
        return {consumer: each for provider in self.providers for consumer, each in self.call(
            'GET', f'/resource_providers/{provider}/allocations')['allocations'].items()}

    def provider(self, ident, name, parent=None, inventory=(), traits=(), aggregates=()):
        self.call('POST', '/resource_providers', json={'uuid': ident, 'name': name, **(
            {'parent_provider_uuid': parent} if parent else {})})
        inventory = {key: {'total': total} for key, total in dict(inventory).items() if total}
        for what, body in (('inventories', {'inventories': inventory}), ('traits', {'traits': list(traits)}),
                           ('aggregates', {'aggregates': list(aggregates)})):
            for trait in traits if what == 'traits' else ():
                self.call('PUT', f'/traits/{trait}')
            self.call('PUT', f'/resource_providers/{ident}/{what}',
                      json={**body, 'resource_provider_generation': self.providers[ident]['generation']})
        return ident

    def free(self, ident, resource):
        total = self.call('GET', f'/resource_providers/{ident}/inventories')['inventories'][resource]['total']
        return total - self.call('GET', f'/resource_providers/{ident}/usages')['usages'][resource]

    def root(self, ident):
        return self.providers[ident]['root_provider_uuid']


class Rig(small.Rig):
    def __init__(self, neutron, address, place):
        conf = nova_conf.new(
            files=[], network__backend='neutron', neutron__endpoint_override=address, neutron__auth_type='none',
            placement__auth_type='admin_token')
        from keystoneauth1 import loading
        loading.register_auth_conf_options(conf, 'placement')
        conf.register_opts(loading.get_auth_plugin_conf_options('admin_token'), 'placement')
        conf.set_override('endpoint', place, 'placement')
        conf.set_override('token', 'admin', 'placement')
        self.conf, self.neutron, self.placement = conf, neutron, Placement(place)
        self.api = small.api.API(conf)
        self.hosts, self.ctx = {}, context.admin_context()
        self.manager = manager.NeutronManager(conf, self.hosts.get, nodes=lambda: [
            (host, f'{host}.example', str(uuid.uuid5(uuid.NAMESPACE_DNS, host))) for host in ('host1', 'host2')])
        self.manager.begin()
        self.network = neutron.network(test_neutron.ALICE)


@pytest.fixture
def rig(tmp_path):
    neutron = neutron_service.Neutron(['host1', 'host2'])
    neutron.aliases += ['port-resource-request', 'port-resource-request-groups', 'segment']
    with neutron_service.listening(neutron) as address, service(tmp_path) as place:
        yield Rig(neutron, address, place)


def test_a_port_of_one_group(rig):
    small.test_a_port_of_one_group_is_claimed_and_given_back(rig)


def test_moves(rig):
    one, two = (small.below(rig.placement, f'{host}.example', 1000, 0)[0] for host in ('host1', 'host2'))
    port = rig.port(small.plain(600))
    rig.allocate([small.request(port_id=port)])
    rig.manager.prepare_for_instance(rig.ctx, small.server(), 'host2')
    assert [rig.placement.free(each, small.EGRESS) for each in (one, two)] == [400, 400]
    rig.manager.setup_for_instance(rig.ctx, small.server(), 'host2')
    assert [rig.placement.free(each, small.EGRESS) for each in (one, two)] == [1000, 400]
    assert rig.profile(port)['allocation'] == two
    rig.give_back()
    assert not rig.placement.allocations


def test_hosts_and_groups_and_segments(rig):
    """Groups of one subtree, and hosts of a segment's aggregate."""
    from nova.network.neutron import reachable_hosts

    bridge, rate = small.below(rig.placement, 'host1.example', 1000, 50)
    small.below(rig.placement, 'host2.example', 50, 50)
    port = rig.port(small.grouped(100, 5))
    finder = reachable_hosts.HostFinder(rig.conf)
    assert finder.find(small.SERVER, [small.request(port_id=port)]).nodes == {'host1.example'}
    rig.allocate([small.request(port_id=port)])
    assert rig.profile(port)['allocation'] == {small.BANDWIDTH: bridge, small.RATE: rate}
    assert (rig.placement.free(bridge, small.INGRESS), rig.placement.free(rate, small.PACKETS)) == (900, 45)
    assert finder.find(small.SERVER, []).bound == {'host1'}
    segment, aggregate = str(uuid.uuid4()), str(uuid.uuid4())
    routed = rig.neutron.network(small.ALICE, '10.6.0.0/24')
    for row in rig.neutron.rows['subnets'].values():
        if row['network_id'] == routed:
            row['segment_id'] = segment
    segment_name = f'Neutron segment id {segment}'
    rig.placement.provider(segment, segment_name, aggregates=[aggregate])
    two = next(row for row in rig.placement.providers.values() if row['name'] == 'host2.example')
    rig.placement.call('PUT', f'/resource_providers/{two["uuid"]}/aggregates', json={
        'aggregates': [aggregate], 'resource_provider_generation': two['generation']})
    reached, = finder.find(small.OTHER, [small.request(network_id=routed)]).segments
    assert reached == ({aggregate}, {segment_name, 'host2.example'})
