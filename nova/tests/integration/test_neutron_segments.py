"""Guaranteed bandwidth and routed networks with a real Neutron (ML2/OVN, segments), a real Placement service, and the
whole cloud with the fake driver.

NOVA_TEST_NEUTRON is the Python of an environment that has ``neutron``, ``openstack-placement``, ``pymysql`` and
``pyuwsgi``; OVN and Open vSwitch are Debian's. The two switches have the dummy datapath: nothing of the host changes.
"""
import contextlib
import os
import pathlib
import subprocess
import types

import pytest
import requests as http

from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.integration import servers
from nova.tests.support import placement_service as test_placement_service

PYTHON = os.environ.get('NOVA_TEST_NEUTRON')
SCHEMA, OVN_SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema', '/usr/share/ovn/ovn-{}.ovsschema'
pytestmark = [pytest.mark.skipif(not PYTHON or not os.path.exists(OVN_SCHEMA.format('nb')),
                                 reason='NOVA_TEST_NEUTRON is not set, or OVN is not installed'),
              pytest.mark.timeout(600)]
HOSTS = {'one': 'rack1', 'two': 'rack2'}                  # host: its physical network
KBPS = 10000
EGRESS = 'NET_BW_EGR_KILOBIT_PER_SEC'
CONFIG = '''[DEFAULT]
auth_strategy = noauth
core_plugin = ml2
service_plugins = ovn-router,qos,segments,placement
transport_url = fake:/
api_paste_config = {paste}
state_path = {directory}
log_file = {directory}/neutron.log
dhcp_agent_notification = false
[nova]
auth_type = admin_token
endpoint = {compute}
token = {token}
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
[database]
connection = {database}
[oslo_concurrency]
lock_path = {directory}/lock
[ml2]
mechanism_drivers = ovn
type_drivers = local,flat,geneve
project_network_types = geneve
extension_drivers = port_security,qos
[ml2_type_geneve]
vni_ranges = 1:65536
max_header_size = 38
[ml2_type_flat]
flat_networks = *
[ovn]
ovn_nb_connection = unix:{directory}/ovn.sock
ovn_sb_connection = unix:{directory}/ovn.sock
'''
# without Keystone whoever asks is an administrator; the profiles of bindings are for services
APPLICATION = '''
from neutron.wsgi import api
def application(environ, start_response):
    return api.application({**environ, 'HTTP_X_ROLES': 'admin,service'}, start_response)
'''


class Programs:
    """Programs of the test, in a directory, which end with it."""

    def __init__(self, directory, stack):
        self.directory, self._stack = directory, stack

    def start(self, name, ready, *command, **environment):
        log = self.directory / f'{name}.out'
        process = self._stack.enter_context(servers._running(
            [str(word) for word in command], log, env={**os.environ, **environment}))
        servers._wait(ready, process, log)

    def database(self, name, socket, *files, **environment):
        self.start(name, socket.exists, 'ovsdb-server', *files, f'--remote=punix:{socket}',
                   f'--unixctl={self.directory}/{name}.ctl', **environment)


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def start_ovn(programs):
    """OVN's databases, and of each host a switch and a controller."""
    directory = programs.directory
    for kind in ('nb', 'sb'):
        run('ovsdb-tool', 'create', directory / f'{kind}.db', OVN_SCHEMA.format(kind))
    programs.database('ovn', directory / 'ovn.sock', directory / 'nb.db', directory / 'sb.db')
    where = f'unix:{directory}/ovn.sock'
    programs.start('northd', lambda: True, 'ovn-northd', f'--ovnnb-db={where}', f'--ovnsb-db={where}',
                   f'--unixctl={directory}/northd.ctl')
    for number, (host, rack) in enumerate(HOSTS.items(), 1):
        place = directory / host
        place.mkdir()
        environment = {'OVS_RUNDIR': str(place), 'OVN_RUNDIR': str(place)}
        run('ovsdb-tool', 'create', place / 'conf.db', SCHEMA)
        programs.database(f'ovsdb-{host}', place / 'db.sock', place / 'conf.db', **environment)
        run('ovs-vsctl', f'--db=unix:{place}/db.sock', '--no-wait', 'init', '--', 'set', 'Open_vSwitch', '.',
            f'external_ids:system-id={host}', f'external_ids:hostname={host}', f'external_ids:ovn-remote={where}',
            'external_ids:ovn-encap-type=geneve', f'external_ids:ovn-encap-ip=127.0.0.{number}',
            f'external_ids:ovn-bridge-mappings={rack}:br-rack',
            f'external_ids:ovn-cms-options="resource_provider_bandwidths=br-rack:{KBPS}:{KBPS},'
            f'resource_provider_hypervisors=br-rack:{host}"')
        programs.start(f'switch-{host}', lambda: True, 'ovs-vswitchd', f'unix:{place}/db.sock',
                       '--enable-dummy=override', '--disable-system', f'--unixctl={place}/switch.ctl', **environment)
        run('ovs-vsctl', '--timeout=30', f'--db=unix:{place}/db.sock', 'add-br', 'br-rack')
        programs.start(f'controller-{host}', lambda: True, 'ovn-controller', f'unix:{place}/db.sock', **environment)


class Neutron:
    """Its API, as an administrator."""

    def __init__(self, address):
        self.address = address

    def call(self, method, path, **body):
        answer = http.request(method, f'{self.address}/v2.0/{path}', json=body or None, timeout=60)
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else {}

    def create(self, kind, path=None, **values):
        return self.call('POST', path or f'{kind}s', **{kind: values})[kind]


@pytest.fixture(scope='module')
def rig(tmp_path_factory):
    directory, port = tmp_path_factory.mktemp('neutron'), servers.free_port()
    address, binaries = f'http://127.0.0.1:{port}', pathlib.Path(PYTHON).parent
    (directory / 'placement').mkdir()
    with contextlib.ExitStack() as stack:
        programs = Programs(directory, stack)
        start_ovn(programs)
        place = stack.enter_context(test_placement_service.service(directory / 'placement', PYTHON))
        cloud = stack.enter_context(clouds.running(
            directory / 'cloud', hosts=list(HOSTS), network__backend='neutron', neutron__endpoint_override=address,
            neutron__auth_type='none', placement__endpoint_override=place, placement__auth_type='none',
            vif_plugging_timeout=0))
        demo, boss = cloud.client(version='2.74'), cloud.admin('2.74')
        placement = test_placement_service.Placement(place)
        waiting.wait_for(lambda: {row['name'] for row in placement.providers.values()} >= set(HOSTS), 60,
                         'the providers of hosts')
        databases = stack.enter_context(servers.SHARED['mariadb']())
        file = directory / 'neutron.conf'
        file.write_text(CONFIG.format(
            paste=binaries.parent / 'etc/neutron/api-paste.ini', directory=directory, placement=place, token=boss.token,
            compute=f'{cloud.url}/compute/v2.1', database=databases('neutron')))
        run(binaries / 'neutron-db-manage', '--config-file', file, 'upgrade', 'heads')
        (directory / 'app.py').write_text(APPLICATION)
        programs.start('neutron', lambda: servers.answers(port), binaries / 'uwsgi', '--http-socket',
                       f'127.0.0.1:{port}', '--wsgi-file', directory / 'app.py', '--master', '--processes', '1',
                       '--threads', '4', '--enable-threads', '--lazy-apps', '--buffer-size', '65535', '--die-on-term',
                       '--need-app', OS_NEUTRON_CONFIG_DIR=str(directory), OS_NEUTRON_CONFIG_FILES='neutron.conf')
        yield types.SimpleNamespace(cloud=cloud, demo=demo, boss=boss, placement=placement, neutron=Neutron(address),
                                    image=demo.upload_image(), project=demo.project_id)


def network(rig, rack):
    return rig.neutron.create('network', name=rack, project_id=rig.project, **{
        'provider:network_type': 'flat', 'provider:physical_network': rack})


def subnet(rig, of, cidr, **values):
    return rig.neutron.create('subnet', network_id=of['id'], project_id=rig.project, ip_version=4, cidr=cidr, **values)


def boot(rig, **networks):
    return rig.demo.boot(rig.image, networks=[networks])['id']


def delete(rig, *made):
    for server in made:
        rig.demo.delete(f'/servers/{server}')
    for server in made:
        rig.demo.wait_for(server, 'DELETED')


def host_of(rig, server):
    port, = rig.neutron.call('GET', f'ports?device_id={server}')['ports']
    return port['binding:host_id'], port['fixed_ips'][0]['ip_address'], port


def test_a_guaranteed_bandwidth_is_claimed(rig):
    """Of what Neutron reports that the bridge of a host has; the server goes there, and holds it until it goes."""
    placement = rig.placement
    bridge = waiting.wait_for(lambda: next((
        ident for ident, row in placement.providers.items()
        if row['parent'] and row['name'].startswith('two:') and row['name'].endswith('br-rack')), None), 60,
        'the provider of the bridge')
    policy = rig.neutron.create('policy', 'qos/policies', name='p', project_id=rig.project)
    rig.neutron.create('minimum_bandwidth_rule', f'qos/policies/{policy["id"]}/minimum_bandwidth_rules', min_kbps=6000,
                       direction='egress')
    net = network(rig, 'rack2')
    subnet(rig, net, '10.79.0.0/24')
    ports = [rig.neutron.create('port', network_id=net['id'], project_id=rig.project, qos_policy_id=policy['id'])
             for _ in range(2)]
    server = boot(rig, port=ports[0]['id'])
    rig.demo.wait_for(server)
    host, _address, port = host_of(rig, server)
    assert host == 'two' and bridge in port['binding:profile']['allocation'].values()
    assert placement.free(bridge, EGRESS) == KBPS - 6000
    second = boot(rig, port=ports[1]['id'])
    assert 'No valid host' in rig.demo.wait_for(second, 'ERROR')['fault']['message']
    delete(rig, server, second)
    assert placement.free(bridge, EGRESS) == KBPS
    for port in ports:
        rig.neutron.call('DELETE', f'ports/{port["id"]}')
    rig.neutron.call('DELETE', f'networks/{net["id"]}')


def test_a_server_goes_to_a_host_of_the_segment(rig):
    """Neutron makes the aggregate of a segment by the compute API and puts the host in there: no host was found."""
    net = network(rig, 'rack1')
    first, = rig.neutron.call('GET', f'segments?network_id={net["id"]}')['segments']
    second = rig.neutron.create('segment', network_id=net['id'], network_type='flat', physical_network='rack2')
    subnets = [subnet(rig, net, f'10.8{number}.0.0/24', segment_id=segment['id'])
               for number, segment in enumerate((first, second))]

    def members():
        return {row['name']: row['hosts'] for row in rig.boss.get('/os-aggregates').json()['aggregates']}
    expected = {f'Neutron segment id {segment["id"]}': [host]
                for segment, host in zip((first, second), HOSTS, strict=True)}
    waiting.wait_for(lambda: members() == expected, 60, 'the aggregates of the segments')
    for each, host in zip(reversed(subnets), reversed(HOSTS), strict=True):
        port = rig.neutron.create('port', network_id=net['id'], project_id=rig.project,
                                  fixed_ips=[{'subnet_id': each['id']}])
        server = boot(rig, port=port['id'])
        rig.demo.wait_for(server)
        assert host_of(rig, server)[0] == host
        delete(rig, server)
    server = boot(rig, uuid=net['id'])                    # anywhere, with an address of the segment that is there
    rig.demo.wait_for(server)
    host, address, _port = host_of(rig, server)
    assert address.startswith({'one': '10.80.', 'two': '10.81.'}[host])
    delete(rig, server)
