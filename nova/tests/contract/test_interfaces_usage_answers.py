"""Interfaces, security groups of servers, usage and what was removed: real answers against the public facts."""
import datetime
import uuid

import pytest
import sqlalchemy as sa

from nova import utils
from nova.conductor import manager as conductor_manager
from nova.conductor.cell_services import CellServices
from nova.db.networks import security_groups
from nova.db.servers import instances
from nova.db.tables import network as tables_network
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

PORT, ADDRESS = str(uuid.UUID(int=5)), '10.44.0.77'


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    """A server with a port in a group, and another one that is deleted."""
    fixture = servers.Servers(tmp_path_factory.mktemp('contract'))
    now = utils.utcnow()
    fixture.server = fixture.add_server(1, launched_at=now - datetime.timedelta(hours=3))
    fixture.add_server(2, launched_at=now - datetime.timedelta(hours=3))
    fixture.add_port(PORT, device_id=fixture.server, host=servers.HOST, tag='t')
    with fixture.api_db.writer() as conn:
        subnet = conn.execute(sa.select(tables_network.subnets.c.id)).scalar()
        conn.execute(sa.insert(tables_network.addresses).values(
            subnet_id=subnet, number=1, address=ADDRESS, port_id=PORT))
        group = security_groups.ensure_default(conn, base.PROJECT)
        security_groups.bind(conn, [(PORT, group)])
    gone = fixture.add_server(3, launched_at=now - datetime.timedelta(hours=2))
    with fixture.cell_db.writer() as conn:
        instances.destroy(conn, gone, now)
    conductor_manager.ConductorManager(CellServices(
        conf=fixture.conf, api_db=fixture.api_db, cells=fixture.cells, scheduler=None, compute=None, network=None,
        images=None)).methods.audit_instance_usage(fixture.owner, servers.HOST)
    yield fixture
    fixture.close()


USAGE = '/os-simple-tenant-usage'
AUDIT = '/os-instance_usage_audit_log'
# operation, path, body, code
OPERATIONS = [
    ('GET /servers/{}/os-interface', '/servers/{server}/os-interface', None, 200),
    ('GET /servers/{}/os-interface/{}', f'/servers/{{server}}/os-interface/{PORT}', None, 200),
    ('POST /servers/{}/os-interface', '/servers/{server}/os-interface', {}, 200),
    ('DELETE /servers/{}/os-interface/{}', f'/servers/{{server}}/os-interface/{PORT}', None, 202),
    ('GET /servers/{}/os-security-groups', '/servers/{server}/os-security-groups', None, 200),
    ('POST /servers/{}/action addSecurityGroup', '/servers/{server}/action',
     {'addSecurityGroup': {'name': 'default'}}, 202),
    ('POST /servers/{}/action removeSecurityGroup', '/servers/{server}/action',
     {'removeSecurityGroup': {'name': 'default'}}, 202),
    ('GET /os-simple-tenant-usage', USAGE + '?detailed=1', None, 200),
    ('GET /os-simple-tenant-usage/{}', f'{USAGE}/{base.PROJECT}', None, 200),
    ('GET /os-instance_usage_audit_log', AUDIT, None, 200),
    ('GET /os-instance_usage_audit_log/{}', AUDIT + '/2026-07-05 12:00:00', None, 200),
    ('GET /os-baremetal-nodes', '/os-baremetal-nodes', None, 501),
    ('GET /os-baremetal-nodes/{}', '/os-baremetal-nodes/n', None, 501),
    ('POST /os-baremetal-nodes', '/os-baremetal-nodes', {}, 400),
    ('DELETE /os-baremetal-nodes/{}', '/os-baremetal-nodes/n', None, 400),
    ('POST /os-baremetal-nodes/{}/action add_interface', '/os-baremetal-nodes/n/action',
     {'add_interface': {'address': 'aa:aa:aa:aa:aa:aa'}}, 400),
    ('POST /os-baremetal-nodes/{}/action remove_interface', '/os-baremetal-nodes/n/action',
     {'remove_interface': {'address': 'aa:aa:aa:aa:aa:aa'}}, 400),
]
# what answers 410 now; RDP consoles, the other removed thing, answer 400
REMOVED = [' '.join(key).strip() for key, row in facts.routes().items()
           if row['success'] == 'removed' and '410' in row['errors']]
OPERATIONS += [(operation, operation.split(' ')[1].replace('{}', 'x'),
                {operation.split(' ')[2]: None} if operation.count(' ') == 2 else {}, 410) for operation in REMOVED]


def _cases():
    for operation, path, body, code in OPERATIONS:
        method, pattern, *action = operation.split(' ')
        row = facts.routes()[method, pattern, ''.join(action)]
        since, until = max(facts.minor(row['min']), 1), facts.minor(row['max'])
        for version in facts.boundaries(operation, 'response', since, until):
            yield pytest.param(operation, path, body, code, version, id=f'{operation} 2.{version}')


@pytest.mark.parametrize('operation, path, body, code, version', _cases())
def test_interface_and_usage_responses_have_the_documented_fields(api, operation, path, body, code, version):
    method = operation.split(' ')[0]
    if 'SecurityGroup' in operation:
        with api.api_db.writer() as conn:
            security_groups.join(conn, [PORT], security_groups.ensure_default(conn, base.PROJECT))
    answer = api.admin(project=base.PROJECT).request(
        method, path.format(server=api.server), body if method in ('POST', 'PUT') else None, version=f'2.{version}')
    assert answer.status == code, answer.body
    if code == 200:
        assert facts.differences(operation, version, answer.json) == []
    elif code == 202:
        assert answer.body == b''
    else:
        key = {400: 'badRequest', 410: 'computeFault', 501: 'notImplemented'}[code]
        assert answer.fault[:2] == (key, code)


@pytest.mark.parametrize('operation, path', [(row[0], row[1]) for row in OPERATIONS if row[3] in (400, 501)])
def test_proxy_operations_return_404_from_2_36(api, operation, path):
    method, _path, *action = operation.split(' ')
    body = {action[0]: {}} if action else {}
    answer = api.admin().request(method, path, body if method == 'POST' else None, version='2.36')
    assert answer.status == 404


@pytest.mark.parametrize('path, key', [
    (f'{USAGE}?detailed=1&limit=1', 'tenant_usages_links'), (f'{USAGE}/{base.PROJECT}?limit=1', 'tenant_usage_links')])
def test_paged_usage_has_links_since_2_40(api, path, key):
    answer = api.admin().get(path, version='2.40').json
    operation = 'GET ' + USAGE + ('/{}' if key == 'tenant_usage_links' else '')
    assert key in answer and facts.differences(operation, 40, answer) == []


def test_tag_of_an_interface_is_refused_before_2_49(api):
    body = {'interfaceAttachment': {'tag': 't'}}
    path = f'/servers/{api.server}/os-interface'
    assert api.client().post(path, body, version='2.48').status == 400
    assert api.client().post(path, body, version='2.49').status == 200


def test_removed_operation_needs_a_caller(api):
    assert api.client(project=None).get('/os-agents').status == 401


@pytest.mark.parametrize('version', [101, 102])
@pytest.mark.parametrize('path', ['/servers/{server}/os-interface', '/servers/{server}/os-security-groups', AUDIT])
def test_unknown_query_keys_are_refused_at_2_102(api, path, version):
    answer = api.admin(project=base.PROJECT).get(path.format(server=api.server) + '?x=1', version=f'2.{version}')
    assert answer.status == (400 if version == 102 else 200)
