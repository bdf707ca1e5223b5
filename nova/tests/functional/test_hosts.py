"""Services, hypervisors and availability zones."""
import datetime
import re

import pytest
import sqlalchemy as sa

from nova import utils
from nova.db.services import message_keys
from nova.db.tables import cell as tables_cell
from nova.tests.functional import cloud_rows


@pytest.fixture
def hosts(api):
    """host1 and host2 in zone nova (host2 silent), host3 in zone east, and a conductor; host1 has two servers."""
    with api.cell_db.writer() as conn:
        api.services_by_host = {
            'host1': cloud_rows.service(conn, 'host1'), 'host2': cloud_rows.service(conn, 'host2', seen_s=600),
            'host3': cloud_rows.service(conn, 'host3', zone='east'),
            'ctl': cloud_rows.service(conn, 'ctl', 'nova-conductor', 'internal')}
        api.nodes = {host: cloud_rows.node(conn, host, uptime='up 3 days' if host == 'host1' else None)
                     for host in ('host1', 'host2', 'host3')}
        cloud_rows.server(conn, 'host1', 1)
        cloud_rows.server(conn, 'host1', 2, task_state='rebooting')
    return api


# ---- services ----------------------------------------------------------------

def test_services_are_listed_with_state_and_zone(hosts):
    services = hosts.admin().get('/os-services', version='2.53').json['services']
    assert [(row['host'], row['binary'], row['state'], row['zone']) for row in services] == [
        ('host1', 'nova-compute', 'up', 'nova'), ('host2', 'nova-compute', 'down', 'nova'),
        ('host3', 'nova-compute', 'up', 'east'), ('ctl', 'nova-conductor', 'up', 'internal')]
    assert [row['id'] for row in services] == list(hosts.services_by_host.values())
    found = hosts.admin().get('/os-services?host=host3&binary=nova-compute').json['services']
    assert [row['id'] for row in found] == [3]
    assert hosts.admin().get('/os-services?binary=nova-api').json == {'services': []}
    assert hosts.client().get('/os-services').status == 403


def _legacy(hosts, action, version='2.52', **more):
    return hosts.admin().put(f'/os-services/{action}', {'host': 'host1', 'binary': 'nova-compute', **more},
                             version=version)


def _service(hosts):
    return hosts.admin().get('/os-services?host=host1', version='2.11').json['services'][0]


def test_changes_before_2_53(hosts):
    named = {'host': 'host1', 'binary': 'nova-compute'}
    assert _legacy(hosts, 'disable').json == {'service': {**named, 'status': 'disabled'}}
    assert _service(hosts)['status'] == 'disabled'
    answer = _legacy(hosts, 'disable-log-reason', disabled_reason='disk')
    assert answer.json == {'service': {**named, 'status': 'disabled', 'disabled_reason': 'disk'}}
    assert _service(hosts)['disabled_reason'] == 'disk'
    _legacy(hosts, 'enable')
    assert (_service(hosts)['status'], _service(hosts)['disabled_reason']) == ('enabled', None)
    assert _legacy(hosts, 'force-down', forced_down=True, version='2.11').json == {
        'service': {**named, 'forced_down': True}}
    assert _service(hosts)['state'] == 'down'


def test_bad_changes_before_2_53(hosts):
    assert _legacy(hosts, 'explode').status == 404
    assert _legacy(hosts, 'force-down', version='2.10').status == 404
    assert _legacy(hosts, 'disable-log-reason').status == 400
    assert _legacy(hosts, 'force-down').status == 400
    body = {'host': 'nowhere', 'binary': 'nova-compute'}
    assert hosts.admin().put('/os-services/disable', body).status == 404
    assert hosts.admin().put('/os-services/disable', {'host': 'host1'}).status == 400
    assert hosts.client().put('/os-services/disable', body).status == 403


def test_changes_from_2_53(hosts):
    admin, path = hosts.admin(version='2.53'), f'/os-services/{hosts.services_by_host["host1"]}'
    service = admin.put(path, {'status': 'disabled', 'disabled_reason': 'disk'}).json['service']
    assert (service['status'], service['disabled_reason']) == ('disabled', 'disk')
    assert admin.put(path, {'forced_down': 'yes'}).json['service']['state'] == 'down'
    service = admin.put(path, {'status': 'enabled', 'forced_down': False}).json['service']
    assert (service['status'], service['disabled_reason'], service['state']) == ('enabled', None, 'up')


@pytest.mark.parametrize('body', [{}, {'disabled_reason': 'x'}, {'status': 'enabled', 'disabled_reason': 'x'},
                                  {'status': 'off'}, {'status': 'disabled', 'disabled_reason': ''},
                                  {'host': 'host1', 'binary': 'nova-compute'}])
def test_bad_changes_from_2_53(hosts, body):
    path = f'/os-services/{hosts.services_by_host["host1"]}'
    assert hosts.admin().put(path, body, version='2.53').status == 400


def test_ids_from_2_53_are_uuids(hosts):
    admin = hosts.admin(version='2.53')
    assert admin.put('/os-services/disable', {'status': 'disabled'}).status == 400
    assert admin.put('/os-services/11111111-2222-3333-4444-555555555555', {'status': 'enabled'}).status == 404
    assert admin.put(f'/os-services/{hosts.services_by_host["ctl"]}', {'status': 'disabled'}).status == 400
    assert admin.delete('/os-services/1').status == 400


def test_service_with_servers_cannot_be_deleted(hosts):
    admin = hosts.admin(version='2.53')
    assert admin.delete(f'/os-services/{hosts.services_by_host["host1"]}').fault[:2] == ('conflictingRequest', 409)
    with hosts.cell_db.writer() as conn:
        cloud_rows.stop(conn, 'host3')
    assert admin.delete(f'/os-services/{hosts.services_by_host["host3"]}').status == 204
    assert admin.delete(f'/os-services/{hosts.services_by_host["host3"]}').status == 404
    assert [row['hypervisor_hostname'] for row in admin.get('/os-hypervisors').json['hypervisors']] == [
        'host1', 'host2']
    assert hosts.admin(version='2.52').delete('/os-services/2').status == 204
    assert hosts.admin(version='2.52').delete('/os-services/x').status == 400


def _add_key(hosts, host):
    with hosts.api_db.writer() as conn:
        message_keys.add(conn, host, f'key of {host}', b'k' * 32, message_keys.APPROVED)


def _has_key(hosts, host):
    with hosts.api_db.reader() as conn:
        return message_keys.has_good(conn, host)


def test_no_service_is_deleted_while_none_can_report(hosts):
    with hosts.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(
            last_seen_at=utils.utcnow() - datetime.timedelta(seconds=200)))
    answer = hosts.admin(version='2.53').delete(f'/os-services/{hosts.services_by_host["host3"]}')
    assert answer.status == 409 and 'no service of its cell has reported since' in answer.fault[2]


@pytest.mark.parametrize('host', ['host3', 'ctl'])
@pytest.mark.parametrize('forced_down', [False, True])
def test_a_running_service_is_not_deleted(hosts, host, forced_down):
    _add_key(hosts, host)
    with hosts.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(forced_down=forced_down))
    answer = hosts.admin(version='2.53').delete(f'/os-services/{hosts.services_by_host[host]}')
    assert answer.status == 409 and re.search(r'reported [0-9]+ s ago\. Stop it', answer.fault[2]), answer.body
    assert _has_key(hosts, host)
    assert host in {row['host'] for row in hosts.admin().get('/os-services').json['services']}


def test_host_keeps_its_key_if_its_service_comes_up_during_the_deletion(hosts, monkeypatch):
    _add_key(hosts, 'host2')
    write = hosts.cell_db.run

    def run(*args):
        with hosts.cell_db.writer() as conn:                   # a report comes before the transaction of the request
            conn.execute(sa.update(tables_cell.services).values(last_seen_at=utils.utcnow()))
        return write(*args)
    monkeypatch.setattr(hosts.cell_db, 'run', run)
    answer = hosts.admin(version='2.53').delete(f'/os-services/{hosts.services_by_host["host2"]}')
    assert answer.status == 409 and 'Stop it' in answer.fault[2], answer.body
    assert _has_key(hosts, 'host2')


def test_the_key_of_a_host_is_revoked_with_its_compute(hosts):
    for host in ('host2', 'host3'):
        _add_key(hosts, host)
    with hosts.cell_db.writer() as conn:
        network = cloud_rows.service(conn, 'host2', 'nova-network', seen_s=600)
    admin = hosts.admin(version='2.53')
    assert admin.delete(f'/os-services/{network}').status == 204
    assert _has_key(hosts, 'host2'), 'its compute signs with it'
    assert admin.delete(f'/os-services/{hosts.services_by_host["host2"]}').status == 204
    assert not _has_key(hosts, 'host2') and _has_key(hosts, 'host3')


def test_the_key_of_a_host_is_revoked_with_its_last_service(hosts):
    _add_key(hosts, 'net1')
    with hosts.cell_db.writer() as conn:
        network = cloud_rows.service(conn, 'net1', 'nova-network', seen_s=600)
    assert hosts.admin(version='2.53').delete(f'/os-services/{network}').status == 204
    assert not _has_key(hosts, 'net1')


# ---- hypervisors -------------------------------------------------------------

def test_hypervisors_are_listed(hosts):
    rows = hosts.admin().get('/os-hypervisors').json['hypervisors']
    assert rows == [{'id': number, 'hypervisor_hostname': f'host{number}', 'state': state, 'status': 'enabled'}
                    for number, state in ((1, 'up'), (2, 'down'), (3, 'up'))]
    assert [row['id'] for row in hosts.admin().get('/os-hypervisors', version='2.53').json['hypervisors']] == (
        list(hosts.nodes.values()))
    assert hosts.client().get('/os-hypervisors').status == 403


def test_hypervisor_usage_is_shown_at_2_28(hosts):
    row = hosts.admin().get('/os-hypervisors/1', version='2.28').json['hypervisor']
    assert (row['free_ram_mb'], row['free_disk_gb'], row['current_workload'], row['running_vms']) == (8192, 50, 1, 2)
    assert row['cpu_info'] == {'arch': 'x86_64'}
    assert row['service'] == {'id': 1, 'host': 'host1', 'disabled_reason': None}
    assert hosts.admin().get('/os-hypervisors/1', version='2.27').json['hypervisor']['cpu_info'] == (
        '{"arch":"x86_64"}')
    path = f'/os-hypervisors/{hosts.nodes["host1"]}'
    row = hosts.admin().get(path, version='2.88').json['hypervisor']
    assert row['uptime'] == 'up 3 days' and 'vcpus' not in row
    assert row['service']['id'] == hosts.services_by_host['host1']


def test_unknown_hypervisors_return_404(hosts):
    admin = hosts.admin()
    assert admin.get('/os-hypervisors/99').status == 404
    assert admin.get('/os-hypervisors/x').status == 404
    assert admin.get(f'/os-hypervisors/{hosts.nodes["host1"]}').status == 404, 'numbers before 2.53'
    assert admin.get('/os-hypervisors/1', version='2.53').status == 400
    assert admin.get('/os-hypervisors/11111111-2222-3333-4444-555555555555', version='2.53').status == 404


def test_uptime_is_shown_for_running_hosts(hosts):
    assert hosts.admin().get('/os-hypervisors/1/uptime').json['hypervisor']['uptime'] == 'up 3 days'
    assert hosts.admin().get('/os-hypervisors/2/uptime').fault[:2] == ('notImplemented', 501)


def test_hypervisor_search_path_works_before_2_53(hosts):
    found = hosts.admin().get('/os-hypervisors/ost2/search').json['hypervisors']
    assert [row['hypervisor_hostname'] for row in found] == ['host2']
    assert hosts.admin().get('/os-hypervisors/%25/search').status == 404
    found = hosts.admin().get('/os-hypervisors/host/servers').json['hypervisors']
    assert [len(row.get('servers', ())) for row in found] == [2, 0, 0]
    assert 'servers' not in found[1]
    assert {server['name'] for server in found[0]['servers']} == {'server-1', 'server-2'}


def test_hypervisor_search_is_a_query_since_2_53(hosts):
    admin = hosts.admin()
    query = '/os-hypervisors?hypervisor_hostname_pattern=host2&with_servers=true'
    assert 'servers' not in admin.get(query, version='2.74').json['hypervisors'][0]
    assert admin.get(query, version='2.75').json['hypervisors'][0]['servers'] == []
    assert len(admin.get('/os-hypervisors/detail?with_servers=1', version='2.53').json[
        'hypervisors'][0]['servers']) == 2
    assert admin.get('/os-hypervisors?hypervisor_hostname_pattern=none', version='2.53').status == 404
    assert admin.get('/os-hypervisors?hypervisor_hostname_pattern=host&limit=1', version='2.53').status == 400
    assert admin.get('/os-hypervisors?with_servers=maybe', version='2.53').status == 400
    assert admin.get('/os-hypervisors?limit=1&limit=2', version='2.53').status == 400


def test_hypervisors_are_paged_since_2_33(hosts):
    admin = hosts.admin()
    body = admin.get('/os-hypervisors/detail?limit=2', version='2.33').json
    assert body['hypervisors_links'][0]['href'].endswith('/os-hypervisors/detail?limit=2&marker=2')
    rest = admin.get('/os-hypervisors/detail?limit=2&marker=2', version='2.33').json
    assert [row['id'] for row in rest['hypervisors']] == [3] and 'hypervisors_links' not in rest
    assert admin.get('/os-hypervisors?marker=9', version='2.33').status == 400
    marker = hosts.nodes['host1']
    rows = admin.get(f'/os-hypervisors?marker={marker}', version='2.53').json['hypervisors']
    assert [row['hypervisor_hostname'] for row in rows] == ['host2', 'host3']
    assert admin.get('/os-hypervisors?marker=1', version='2.53').status == 400


def test_hypervisor_statistics_sum_all_hosts(hosts):
    numbers = hosts.admin().get('/os-hypervisors/statistics').json['hypervisor_statistics']
    assert numbers == {
        'count': 3, 'vcpus': 24, 'vcpus_used': 12, 'memory_mb': 49152, 'memory_mb_used': 24576,
        'free_ram_mb': 24576, 'local_gb': 300, 'local_gb_used': 150, 'free_disk_gb': 150, 'running_vms': 6,
        'disk_available_least': 120, 'current_workload': 1}


# ---- zones -------------------------------------------------------------------

def test_availability_zones_are_listed_for_users(hosts):
    zones = hosts.client().get('/os-availability-zone').json['availabilityZoneInfo']
    assert zones == [{'zoneName': zone, 'zoneState': {'available': True}, 'hosts': None} for zone in ('east', 'nova')]
    _legacy_disable = {'host': 'host3', 'binary': 'nova-compute'}
    hosts.admin().put('/os-services/disable', _legacy_disable)
    zones = hosts.client().get('/os-availability-zone').json['availabilityZoneInfo']
    assert [(zone['zoneName'], zone['zoneState']['available']) for zone in zones] == [
        ('east', False), ('nova', True)]


def test_zone_details_need_an_administrator(hosts):
    assert hosts.client().get('/os-availability-zone/detail').status == 403
    zones = hosts.admin().get('/os-availability-zone/detail').json['availabilityZoneInfo']
    assert [zone['zoneName'] for zone in zones] == ['east', 'internal', 'nova']
    computes = zones[2]['hosts']
    assert (computes['host1']['nova-compute']['available'], computes['host2']['nova-compute']['available']) == (
        True, False)
    assert list(zones[1]['hosts']) == ['ctl']
