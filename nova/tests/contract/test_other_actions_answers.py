"""Answers of rescue, shelve, backup, password, consoles, diagnostics, … against the public facts, at every version at
which their fields change.
"""
import pytest

from nova.api.server_actions import remote_consoles
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.objects import numa
from nova.tests import server_rows
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

DIAGNOSTICS = {
    'state': 'running', 'hypervisor': 'fake', 'hypervisor_os': None, 'uptime': 9,
    'cpu_details': [{'id': 0, 'time': 1, 'utilisation': None}],
    'disk_details': [dict.fromkeys(('read_bytes', 'read_requests', 'write_bytes', 'write_requests',
                                    'errors_count'), 1)],
    'nic_details': [{'mac_address': 'fa:16:3e:00:00:01', **{
        f'{way}_{what}': None if what == 'rate' else 1 for way in ('rx', 'tx')
        for what in ('octets', 'errors', 'drop', 'packets', 'rate')}}],
    'memory_details': {'maximum': 512, 'used': None}}
CONSOLE = {'host': '192.0.2.1', 'port': 5900, 'tls_port': 5901, 'internal_access_path': None}
TOPOLOGY = numa.text_of_guest(numa.GuestTopology(cpu_policy='dedicated', cells=(numa.GuestCell(
    id=1, cpuset=frozenset({0, 1}), pcpuset=frozenset({0, 1}), memory=256, pagesize=4, cpu_pinning={0: 4, 1: 5},
    cpu_topology={'sockets': 1, 'cores': 1, 'threads': 2}),)))
NODE = {'vcpu_set': [0, 1], 'siblings': [[0, 1]], 'memory_mb': 256, 'host_node': 1, 'cpu_pinning': {'0': 4, '1': 5}}


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('other'), quota__instances=-1, quota__cores=-1, quota__ram=-1,
                              reclaim_instance_interval=60, spice__html5proxy_base_url='http://spice',
                              spice__spice_direct_proxy_base_url='http://direct', serial_console__base_url='ws://s',
                              mks__mksproxy_base_url='http://mks')
    fixture.compute.answers.update(get_console=CONSOLE, get_diagnostics=DIAGNOSTICS,
                                   get_console_screenshot='/9j/')
    made = fixture.client().post('/servers', fixture.body()).json['server']['id']
    with fixture.cell_db.writer() as conn:
        instances.update(conn, made, {'host': servers.HOST, 'node': servers.NODE, 'launched_at': server_rows.START,
                                      'numa_topology': TOPOLOGY, 'system_metadata': {'password': 'x'}})
    fixture.server_id = made
    yield fixture
    fixture.close()


def _console(name, console_type):
    return {name: {'type': console_type}}


def _token(api, version):
    answer = api.client().post(f'/servers/{api.server_id}/remote-consoles', {'remote_console': {
        'protocol': 'vnc', 'type': 'novnc'}}, version='2.6')
    return answer.json['remote_console']['url'].rpartition('%3D')[2]


ACTION = '/servers/{server}/action'
# operation, path, body, vm state before
OPERATIONS = [
    ('POST /servers/{}/action rescue', ACTION, {'rescue': None}, 'active'),
    ('POST /servers/{}/action unrescue', ACTION, {'unrescue': None}, 'rescued'),
    ('POST /servers/{}/action shelve', ACTION, {'shelve': None}, 'active'),
    ('POST /servers/{}/action shelveOffload', ACTION, {'shelveOffload': None}, 'shelved'),
    ('POST /servers/{}/action unshelve', ACTION, {'unshelve': None}, 'shelved'),
    ('POST /servers/{}/action createBackup', ACTION,
     {'createBackup': {'name': 'b', 'backup_type': 'daily', 'rotation': '1'}}, 'active'),
    ('POST /servers/{}/action changePassword', ACTION, {'changePassword': {'adminPass': 'p'}}, 'active'),
    ('POST /servers/{}/action trigger_crash_dump', ACTION, {'trigger_crash_dump': None}, 'active'),
    ('POST /servers/{}/action injectNetworkInfo', ACTION, {'injectNetworkInfo': None}, 'active'),
    ('POST /servers/{}/action restore', ACTION, {'restore': None}, 'soft-delete'),
    ('POST /servers/{}/action forceDelete', ACTION, {'forceDelete': None}, 'soft-delete'),
    ('POST /servers/{}/action os-getVNCConsole', ACTION, _console('os-getVNCConsole', 'novnc'), 'active'),
    ('POST /servers/{}/action os-getSPICEConsole', ACTION, _console('os-getSPICEConsole', 'spice-html5'), 'active'),
    ('POST /servers/{}/action os-getSerialConsole', ACTION, _console('os-getSerialConsole', 'serial'), 'active'),
    ('POST /servers/{}/action os-getRDPConsole', ACTION, _console('os-getRDPConsole', 'rdp-html5'), 'active'),
    ('POST /servers/{}/remote-consoles', '/servers/{server}/remote-consoles',
     {'remote_console': {'protocol': 'vnc', 'type': 'novnc'}}, 'active'),
    ('GET /os-console-auth-tokens/{}', '/os-console-auth-tokens/{token}', None, 'active'),
    ('GET /servers/{}/diagnostics', '/servers/{server}/diagnostics', None, 'active'),
    ('GET /servers/{}/os-console-screenshot', '/servers/{server}/os-console-screenshot', None, 'active'),
    ('GET /servers/{}/os-metrics', '/servers/{server}/os-metrics', None, 'active'),
    ('GET /servers/{}/os-server-password', '/servers/{server}/os-server-password', None, 'active'),
    ('DELETE /servers/{}/os-server-password', '/servers/{server}/os-server-password', None, 'active'),
    ('GET /servers/{}/topology', '/servers/{server}/topology', None, 'active'),
]
# other codes than that of success: RDP consoles are gone; until 2.30 tokens of theirs were the only ones shown
CODES = {('POST /servers/{}/action os-getRDPConsole', version): 400 for version in range(1, 6)}
CODES.update({('GET /os-console-auth-tokens/{}', version): 401 for version in range(1, 31)})


def _cases():
    for operation, path, body, vm_state in OPERATIONS:
        method, pattern, *action = operation.split(' ')
        own = {'min': '2.1', 'max': '', 'success': '200'}
        row = own if operation in facts.own() else facts.routes()[method, pattern, ''.join(action)]
        since, until = max(facts.minor(row['min']), 1), facts.minor(row['max'])
        versions = {*facts.boundaries(operation, 'response', since, until),
                    *facts.boundaries(operation, 'request', since, until)}
        for version in sorted(versions | ({30, 31} if 'tokens' in operation else set())):
            code = CODES.get((operation, version)) or int(row['success'])
            yield pytest.param(operation, path, body, vm_state, version, code, id=f'{operation} 2.{version}')


@pytest.mark.parametrize('operation,path,body,vm_state,version,code', _cases())
def test_responses_have_the_documented_fields(api, operation, path, body, vm_state, version, code):
    with api.cell_db.writer() as conn:
        instances.update(conn, api.server_id, {'vm_state': vm_state, 'task_state': None})
        instance_actions.finish(conn, api.server_id)
    path = path.format(server=api.server_id, token=_token(api, version) if '{token}' in path else None)
    answer = api.admin(project=base.PROJECT).request(operation.split(' ')[0], path, body, version=f'2.{version}')
    assert answer.status == code, answer.body
    if code >= 400:
        return
    fields = facts.fields_at(operation, 'response', version)
    if not fields:
        assert not answer.body
    else:
        assert facts.differences(operation, version, answer.json) == []


@pytest.mark.parametrize(('rule_passes', 'fields'), [(True, {'host_node', 'cpu_pinning'}), (False, set())])
def test_host_fields_of_a_topology_require_the_policy_rule(api, rule_passes, fields):
    with api.cell_db.writer() as conn:
        instances.update(conn, api.server_id, {'numa_topology': TOPOLOGY})
    client = api.admin(project=base.PROJECT) if rule_passes else api.client()
    shown = client.get(f'/servers/{api.server_id}/topology', version='2.78').json
    hidden = {'host_node', 'cpu_pinning'} - fields
    assert shown == {'pagesize_kb': 4, 'nodes': [{name: value for name, value in NODE.items() if name not in hidden}]}


CONSOLES = [(kind, name) for name, (kind, option) in remote_consoles.TYPES.items() if option]


@pytest.mark.parametrize(('protocol', 'console_type'), CONSOLES)
def test_every_console_type_is_created_at_the_newest_version(api, protocol, console_type):
    with api.cell_db.writer() as conn:
        instances.update(conn, api.server_id, {'vm_state': 'active', 'task_state': None})
    answer = api.client().post(f'/servers/{api.server_id}/remote-consoles', {'remote_console': {
        'protocol': protocol, 'type': console_type}}, version='2.99')
    assert answer.status == 200 and answer.json['remote_console']['type'] == console_type
    assert facts.differences('POST /servers/{}/remote-consoles', 99, answer.json) == []
