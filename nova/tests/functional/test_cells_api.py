"""Operations of the API on servers and hosts of several cells reach them there, and host names are of one cell."""
import pytest

from nova import context
from nova import exception
from nova.db.cells import rows as cell_rows
from nova.db.services import services
from nova.tests.functional import cells_cloud
from nova.tests.support.waiting import wait_for

HOSTS = {'one1': 'cell1', 'one2': 'cell1', 'two1': 'cell2', 'two2': 'cell2'}


@pytest.fixture
def running(tmp_path):
    with cells_cloud.running(tmp_path) as found:
        yield found


def mapped(running):
    with running.api_db.reader() as conn:
        return {host: name for name, _uuid, host in cell_rows.hosts(conn)}


def register(running, cell, host, identity):
    return running.below[cell].conductor.manager.methods.register_service(
        context.admin_context(), host, 'nova-compute', 'compute', 1, identity)


def has_service(running, cell, host):
    with running.below[cell].db.reader() as conn:
        return bool(services.list(conn, host=host, binary='nova-compute'))


def test_hosts_belong_to_the_cell_in_which_they_report_first(running):
    assert mapped(running) == HOSTS
    with pytest.raises(exception.HostInAnotherCell, match='one1 exists in cell cell1'):
        register(running, 'cell2', 'one1', 'other')
    assert not has_service(running, 'cell2', 'one1') and mapped(running) == HOSTS
    assert issubclass(exception.HostInAnotherCell, exception.ServiceExists)          # what ends a compute that starts


def test_a_deleted_service_frees_its_name(running):
    admin = running.admin(version='2.53')
    register(running, 'cell1', 'one3', 'mine')
    assert mapped(running)['one3'] == 'cell1'
    found, = [row for row in admin.get('/os-services').json()['services'] if row['host'] == 'one3']
    assert admin.delete(f'/os-services/{found["id"]}').status_code == 204
    assert 'one3' not in mapped(running) and not has_service(running, 'cell1', 'one3')
    register(running, 'cell2', 'one3', 'mine')
    assert mapped(running)['one3'] == 'cell2' and has_service(running, 'cell2', 'one3')


def test_a_host_of_a_cell_that_was_deleted_is_the_next_ones(running):
    with running.api_db.writer() as conn:
        cell_rows.map_host(conn, 'lost', 'no such cell')
    register(running, 'cell2', 'lost', 'mine')
    assert mapped(running)['lost'] == 'cell2'


def test_operations_reach_their_cell(running):
    user, admin = running.client(version='2.60'), running.admin(version='2.60')
    image = user.upload_image(data=b'\0' * 4096)
    by_host = {}
    for host in ('one1', 'two1'):
        made = admin.boot(image, name=host, availability_zone=f'nova:{host}', networks='auto', version='2.60')
        by_host[host] = made['id']
        assert admin.wait_for(made['id'])['OS-EXT-SRV-ATTR:host'] == host
    for host, uuid in by_host.items():
        path = f'/servers/{uuid}'
        attached = admin.post(path + '/os-interface', {'interfaceAttachment': {}})
        assert attached.status_code == 200, attached.text
        port = attached.json()['interfaceAttachment']['port_id']
        assert admin.delete(f'{path}/os-interface/{port}').status_code == 202
        wait_for(lambda: len(admin.get(path + '/os-interface').json()['interfaceAttachments']) == 1)
        console = admin.post(path + '/remote-consoles', {'remote_console': {'protocol': 'vnc', 'type': 'novnc'}})
        assert console.status_code == 200, console.text
        token = console.json()['remote_console']['url'].partition('token%3D')[2]
        shown = admin.get(f'/os-console-auth-tokens/{token}')
        assert shown.json()['console']['instance_uuid'] == uuid, shown.text
        told = admin.post('/os-server-external-events', {'events': [
            {'name': 'network-changed', 'server_uuid': uuid}]})
        assert told.status_code == 200 and told.json()['events'][0]['code'] == 200
        shown = admin.get(f'/os-hypervisors/detail?hypervisor_hostname_pattern={host}&with_servers=true').json()
        assert [server['uuid'] for server in shown['hypervisors'][0]['servers']] == [uuid]
        assert admin.post(path + '/action', {'removeSecurityGroup': {'name': 'default'}}).status_code == 202
        assert admin.post(path + '/action', {'addSecurityGroup': {'name': 'default'}}).status_code == 202
    everything = admin.post('/os-server-external-events', {'events': [
        {'name': 'network-changed', 'server_uuid': uuid} for uuid in by_host.values()]})
    assert [event['code'] for event in everything.json()['events']] == [200, 200]
    usage = admin.get('/os-simple-tenant-usage?detailed=1').json()['tenant_usages']
    assert {row['instance_id'] for project in usage for row in project['server_usages']} == set(by_host.values())


def test_places_in_any_cell_may_be_named(running):
    admin = running.admin(version='2.74')
    image = admin.upload_image(data=b'\0' * 4096)
    server = {'name': 'a', 'imageRef': image, 'flavorRef': '42', 'networks': 'none'}
    for host in HOSTS:
        answer = admin.post('/servers', {'server': {**server, 'host': host}})
        assert answer.status_code == 202, answer.text
    for place in ({'host': 'nowhere'}, {'availability_zone': 'nowhere'}):
        answer = admin.post('/servers', {'server': {**server, **place}})
        assert answer.status_code == 400, answer.text
        with running.down('cell2'):                       # which may have it
            assert admin.post('/servers', {'server': {**server, **place}}).status_code == 503


def test_cell_that_is_down_is_reported_and_skipped(running):
    admin = running.admin(version='2.53')
    with running.down('cell2'):
        hosts = [row['service']['host'] for row in admin.get('/os-hypervisors/detail').json()['hypervisors']]
        assert sorted(hosts) == ['one1', 'one2']
        shown = {row['host']: row['status'] for row in admin.get('/os-services?binary=nova-compute',
                                                                 version='2.69').json()['services']}
        assert shown == {'one1': 'enabled', 'one2': 'enabled', 'two1': 'UNKNOWN', 'two2': 'UNKNOWN'}
        for path in ('/os-migrations', '/os-simple-tenant-usage', '/os-instance_usage_audit_log', '/servers',
                     '/os-aggregates', '/os-availability-zone/detail', '/os-hypervisors/statistics'):
            assert admin.get(path).status_code == 200, path
        # what may be there cannot be said not to be
        unknown = '00000000-0000-0000-0000-00000000000f'
        for path in (f'/os-hypervisors/{unknown}', f'/servers?marker={unknown}',
                     f'/os-console-auth-tokens/{unknown}', f'/os-simple-tenant-usage?marker={unknown}'):
            assert admin.get(path).status_code == 503, path
        assert admin.put(f'/os-services/{unknown}', {'status': 'enabled'}).status_code == 503


def test_cell_list_shows_which_cells_respond(running):
    user, admin = running.client(), running.admin()
    image = user.upload_image(data=b'\0' * 4096)
    admin.wait_for(admin.boot(image, availability_zone='nova:one1', networks='none', version='2.60')['id'])

    def listed():
        return {row['name']: (row['state'], row['hosts'], row['servers'])
                for row in admin.get('/os-cell-mappings').json()['cell_mappings']}
    assert listed() == {'cell0': ('up', 0, 0), 'cell1': ('up', 2, 1), 'cell2': ('up', 2, 0)}
    assert user.get('/os-cell-mappings').status_code == 403
    with running.down('cell2'):
        assert listed()['cell2'] == ('down', 2, 0)


def test_no_partial_lists_where_the_operator_wants_none(tmp_path):
    with cells_cloud.running(tmp_path, api__list_records_by_skipping_down_cells=False) as running:
        admin = running.admin()
        paths = ('/servers?all_tenants=1', '/servers/detail?all_tenants=1', '/os-services', '/os-hypervisors',
                 '/os-migrations', '/os-simple-tenant-usage')
        for path in paths:
            assert admin.get(path).status_code == 200, path
        with running.down('cell2'):
            for path in paths:
                assert admin.get(path).status_code == 503, path
                assert admin.get(path, version='2.69').status_code == 200, path        # which can say so
            assert admin.get('/servers').status_code == 200        # the project has none there: this is no part
