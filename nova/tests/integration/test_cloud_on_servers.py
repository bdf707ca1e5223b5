"""A whole cloud on MariaDB and on PostgreSQL: the queries of every part, and what the databases must arbitrate."""
import concurrent.futures
import os
import subprocess
import sys
import threading
import time

import pytest

from nova.tests import long_runs
from nova.tests.functional import cloud as fixture
from nova.tests.integration import servers

SERVERS = [name for name in servers.SHARED if name != 'sqlite']
# Tests of transactions that run on the database that a variable names: races whose locks are the databases' own, and in
# long runs all of them. Claims race on PostgreSQL in test_races.py and test_lost_connections.py.
LOCKS = {'mariadb': ('nova/tests/functional/test_core_claims.py', 'nova/tests/functional/test_core_moves_races.py',
                     'nova/tests/functional/test_retention.py'),
         'postgresql': ('nova/tests/functional/test_retention.py',)}
ALL = ('nova/tests/functional/test_core_claims.py', 'nova/tests/functional/test_network_databases.py',
       'nova/tests/functional/test_core_moves_races.py',
       'nova/tests/functional/test_core_numa.py', 'nova/tests/functional/test_pci.py',
       'nova/tests/functional/test_aggregates.py', 'nova/tests/functional/test_pci_moving.py',
       'nova/tests/functional/test_server_groups.py', 'nova/tests/functional/test_group_policies.py',
       'nova/tests/functional/test_retention.py')


@pytest.fixture(scope='module', params=SERVERS)
def database(request):
    """(name of the kind, function(name) -> URL of a new database)."""
    with servers.SHARED[request.param]() as url_of:
        yield request.param, url_of


@pytest.fixture(scope='module')
def cloud(database, tmp_path_factory):
    kind, url_of = database
    with fixture.running(tmp_path_factory.mktemp(kind) / 'state', ['host1', 'spare'],
                         api_database__connection=url_of('whole_api'),
                         database__connection=url_of('whole_cell')) as made:
        disabled = made.admin().put('/os-services/disable', {'host': 'spare', 'binary': 'nova-compute'})
        assert disabled.status_code == 200, disabled.text                    # it gets no servers
        yield made


def test_servers_run_through_their_life_on_shared_databases(cloud):
    client = cloud.client()
    image = client.upload_image()
    made = [client.boot(image, name=f'web-{number}', version='2.52', networks='auto', tags=['a', 'b'],
                        metadata={'k': 'v'})['id'] for number in range(5)]
    for server in made:
        assert client.wait_for(server)['status'] == 'ACTIVE'
    addresses = {ip['addr'] for server in client.get('/servers/detail').json()['servers']
                 for ips in server['addresses'].values() for ip in ips}
    assert len(addresses) == 5

    def names(query, version='2.104'):
        answer = client.get('/servers/detail?' + query, version=version)
        assert answer.status_code == 200, answer.text
        return sorted(server['name'] for server in answer.json()['servers'])
    everyone = [f'web-{number}' for number in range(5)]
    assert names('name=web') == names('name=^web-[0-4]$') == names('status=ACTIVE') == everyone
    assert names('tags=a,b') == names('tags-any=a,zz') == names('not-tags=zz') == everyone
    assert names('tags=zz') == names('name=WEB-') == []
    assert names(f'ip={addresses.copy().pop()}') != []
    assert names('changes-since=2020-01-01T00:00:00Z') == everyone
    assert names('sort_key=display_name&sort_dir=asc&limit=2') == ['web-0', 'web-1']
    first = client.get('/servers?sort_key=display_name&sort_dir=asc&limit=2').json()
    assert len(first['servers']) == 2 and first['servers_links']
    marker = first['servers'][-1]['id']
    assert names(f'sort_key=display_name&sort_dir=asc&marker={marker}') == everyone[2:]

    assert client.post(f'/servers/{made[0]}/action', {'os-stop': None}).status_code == 202
    assert client.wait_for(made[0], 'SHUTOFF')
    assert names('status=SHUTOFF') == ['web-0']
    assert client.put(f'/servers/{made[1]}', {'server': {'name': 'other'}}).status_code == 200
    assert client.post(f'/servers/{made[1]}/metadata', {'metadata': {'more': '1'}}).json() == {
        'metadata': {'k': 'v', 'more': '1'}}
    actions = client.get(f'/servers/{made[0]}/os-instance-actions').json()['instanceActions']
    assert [action['action'] for action in actions] == ['stop', 'create']
    client.delete(f'/servers/{made[2]}')
    deadline = time.monotonic() + 120
    while client.get(f'/servers/{made[2]}').status_code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    since = names('changes-since=2020-01-01T00:00:00Z')
    assert len(since) == 5 and 'web-2' in since          # the deleted one is told, too


def test_the_quota_holds_under_parallel_requests(cloud):
    admin, client = cloud.admin(), cloud.client()
    image = client.upload_image()
    used = len(client.get('/servers').json()['servers'])
    body = {'quota_set': {'instances': used + 3}}
    assert admin.put(f'/os-quota-sets/{client.project_id}', body).status_code == 200

    def create(number):
        return client.post('/servers', {'server': {
            'name': f'race-{number}', 'flavorRef': '42', 'imageRef': image, 'networks': 'none'}},
            version='2.37').status_code
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        codes = list(pool.map(create, range(12)))
    assert sorted(codes) == [202] * 3 + [403] * 9


def at_once(function, count):
    """Codes of the answers to ``function(number)``, all asked at the same moment; a failing test shows the answers."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        return function(number)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(run, range(count)))
    for answer in answers:
        print(answer.status_code, answer.text[:500])
    return sorted(answer.status_code for answer in answers)


def test_parallel_requests_create_one_name_and_one_zone(cloud):
    admin = cloud.admin()
    assert at_once(lambda number: admin.post('/os-aggregates', {'aggregate': {'name': 'taken'}}), 8) == (
        [200] + [409] * 7)
    made = [admin.post('/os-aggregates', {'aggregate': {
        'name': f'a{number}', 'availability_zone': f'z{number}'}}).json()['aggregate']['id'] for number in range(6)]
    assert at_once(lambda number: admin.put(f'/os-aggregates/{made[number]}', {'aggregate': {'name': 'new'}}), 6) == (
        [200] + [409] * 5)
    free = cloud.hosts[-1]
    assert at_once(lambda number: admin.post(f'/os-aggregates/{made[number]}/action', {
        'add_host': {'host': free}}), 6) == [200] + [409] * 5
    zone = next(service['zone'] for service in admin.get('/os-services').json()['services']
                if service['host'] == free and service['binary'] == 'nova-compute')
    assert zone in {f'z{number}' for number in range(6)}
    mine = [number for number in made if admin.get(f'/os-aggregates/{number}').json()['aggregate']['hosts']]
    assert at_once(lambda number: admin.post(f'/os-aggregates/{mine[0]}/action', {
        'remove_host': {'host': free}}), 4) == [200] + [404] * 3


def test_the_quotas_of_groups_hold_under_parallel_requests(cloud):
    admin, client = cloud.admin(), cloud.client('nova-admin')
    image = admin.upload_image()
    path = f'/os-quota-sets/{client.project_id}'
    assert admin.put(path, {'quota_set': {'server_groups': 3, 'server_group_members': 4,
                                          'instances': -1, 'cores': -1, 'ram': -1}}).status_code == 200
    assert at_once(lambda number: client.post('/os-server-groups', {
        'server_group': {'name': 'g', 'policies': ['affinity']}}), 8) == [200] * 3 + [403] * 5
    group = client.get('/os-server-groups').json()['server_groups'][0]['id']
    assert at_once(lambda number: client.post('/servers', {
        'server': {'name': f'g-{number}', 'flavorRef': '42', 'imageRef': image, 'networks': 'none'},
        'os:scheduler_hints': {'group': group}}, version='2.37'), 10) == [202] * 4 + [403] * 6
    assert len(client.get(f'/os-server-groups/{group}').json()['server_group']['members']) == 4


def test_race_tests_pass_on_mariadb_and_postgresql(database):
    kind, url_of = database
    name = {'mariadb': 'MYSQL', 'postgresql': 'POSTGRESQL'}[kind]
    environ = {**os.environ, f'NOVA_TEST_{name}_URL': url_of('races')}
    races = ALL if long_runs.LONG else LOCKS[kind]
    done = subprocess.run([sys.executable, '-m', 'pytest', '-q', '-rp', '-p', 'no:cacheprovider', *races,
                           '-k', name.lower()], env=environ, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = {line.split()[1].partition('::')[0] for line in done.stdout.splitlines() if line.startswith('PASSED ')}
    assert passed == set(races)
