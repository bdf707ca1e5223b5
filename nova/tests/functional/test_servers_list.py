"""GET /servers and /servers/detail: who may filter by what, paging, deleted servers."""
import time
import urllib.parse

import pytest

from nova.db.servers import listing
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import servers


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('list'))
    mine = {'project_id': base.PROJECT}
    fixture.add_servers(
        server_rows.row(1, **mine, tags=',a,b,', locked=True), server_rows.row(2, **mine, tags=',a,'),
        server_rows.row(3, **mine, vm_state='stopped', key_name='key'),
        server_rows.row(4, **mine, host='host2', user_id='someone', config_drive=True),
        server_rows.row(5, project_id='c' * 32))
    gone = server_rows.row(6, **mine, vm_state='deleted', deleted_at=server_rows.START)
    fixture.add_servers(gone, deleted=True)
    yield fixture
    fixture.close()


def names(client, query='', version='2.104', path='/servers'):
    answer = client.get(f'{path}?{query}', version=version)
    assert answer.status == 200, answer.body
    return [int(server['name'].removeprefix('server-')) for server in answer.json['servers']]


@pytest.mark.parametrize('path', ['/servers', '/servers/detail'])
@pytest.mark.parametrize('query, version, expected',
                         [('', '2.1', [4, 3, 2, 1]),
                          ('name=server-%5B12%5D', '2.1', [2, 1]),
                          ('status=SHUTOFF', '2.1', [3]),
                          ('status=shutoff', '2.1', [3]),
                          ('status=NOTHING', '2.1', []),
                          ('flavor=42', '2.1', [4, 3, 2, 1]),
                          ('flavor=43', '2.1', []),
                          ('ip=10.0.0.5', '2.1', [2]),
                          ('ip6=fd00::3', '2.1', [4, 3, 2, 1]),
                          ('ip6=fd00::3', '2.5', [2]),
                          ('tags=a,b', '2.26', [1]),
                          ('not-tags=a', '2.26', [4, 3]),
                          ('tags-any=a,b', '2.26', [2, 1]),
                          ('not-tags-any=b', '2.26', [4, 3, 2]),
                          ('locked=true', '2.73', [1]),
                          ('locked=false', '2.73', [4, 3, 2]),
                          ('key_name=key', '2.82', [4, 3, 2, 1]),
                          ('key_name=key', '2.83', [3]),
                          ('user_id=someone', '2.83', [4]),
                          ('config_drive=1', '2.83', [4]),
                          ('vm_state=stopped', '2.83', [3]),
                          ('host=host2', '2.1', [4, 3, 2, 1]),
                          ('deleted=true', '2.1', [4, 3, 2, 1]),
                          ('changes-since=2026-01-01T12:00:04Z', '2.1', [6, 4]),
                          ('changes-before=2026-01-01T12:00:02Z', '2.66', [2, 1]),
                          ('unknown=1&_x=2', '2.74', [4, 3, 2, 1]),
                          ('created_at=2026-01-01T12:00:02Z', '2.83', [2]),
                          ('created_at=9999-12-31T23:59:59Z', '2.83', []),
                          ('sort_key=vm_state&sort_dir=desc&sort_key=display_name&sort_dir=asc', '2.1',
                           [3, 1, 2, 4]),
                          ('sort_dir=asc', '2.1', [1, 2, 3, 4]),
                          ('project_id=x&tenant_id=y', '2.1', [4, 3, 2, 1]),
                          ('reservation_id=r-12345678&limit=2', '2.1', [4, 3]),
                          ('limit=0', '2.1', [])])
def test_users_list_their_own_servers_by_filters(cloud, path, query, version, expected):
    assert names(cloud.client(), query, version, path) == expected


@pytest.mark.parametrize('query, expected',
                         [('', [4, 3, 2, 1]),
                          ('all_tenants', [5, 4, 3, 2, 1]),
                          ('all_tenants=0', [4, 3, 2, 1]),
                          (f'all_tenants=1&project_id={"c" * 32}', [5]),
                          ('all_tenants=1&host=host2', [4]),
                          ('all_tenants=1&deleted=true', [6]),
                          ('all_tenants=1&status=DELETED', [6]),
                          ('all_tenants=1&changes-since=2026-01-01T12:00:05Z', [6, 5]),
                          ('all_tenants=1&changes-since=2026-01-01T12:00:05Z&deleted=False', [5]),
                          ('all_tenants=1&sort_key=host&sort_dir=desc&limit=1', [4]),
                          ('all_tenants=1&power_state=4', [])])
def test_administrators_can_filter_servers_of_all_projects(cloud, query, expected):
    assert names(cloud.admin(), query) == expected


@pytest.mark.parametrize('query, version, code',
                         [('status=NOTHING', '2.38', 400),
                          ('status=DELETED', '2.1', 403),
                          ('all_tenants=1', '2.1', 403),
                          ('sort_key=nothing', '2.1', 400),
                          ('sort_key=host', '2.1', 403),
                          ('sort_dir=up', '2.1', 400),
                          ('sort_key=id', '2.75', 400),
                          ('limit=-1', '2.1', 400),
                          ('limit=x', '2.1', 400),
                          ('marker=nothing', '2.1', 400),
                          ('name=%5B', '2.1', 400),
                          ('name=(a)%5C1', '2.1', 400),
                          ('unknown=1', '2.75', 400),
                          ('changes-since=never', '2.1', 400),
                          ('locked=perhaps', '2.73', 400),
                          ('power_state=up', '2.83', 400),
                          ('created_at=soon', '2.83', 400),
                          ('sort_dir=asc&sort_dir=asc', '2.1', 400),
                          ('name=' +'x' * 300, '2.1', 400)])
def test_invalid_list_queries_are_refused(cloud, query, version, code):
    answer = cloud.client().get(f'/servers?{query}', version=version)
    assert answer.status == code, answer.body


def test_pages_are_linked(cloud):
    client, found, path = cloud.client(), [], '/servers?limit=3&status=ACTIVE&status=SHUTOFF'
    while path:
        answer = client.get(path, version='2.75').json
        found += [server['name'] for server in answer['servers']]
        links = answer.get('servers_links')
        path = links and links[0]['href'].removeprefix('http://cloud.test:8774/v2.1')
    assert found == ['server-4', 'server-3', 'server-2', 'server-1']


def test_a_page_is_never_longer_than_the_option(cloud, tmp_path):
    few = servers.Servers(tmp_path, api__max_limit=2)
    few.add_servers(*(server_rows.row(n, project_id=base.PROJECT) for n in range(3)))
    answer = few.client().get('/servers?limit=100').json
    few.close()
    assert len(answer['servers']) == 2 and answer['servers_links'][0]['rel'] == 'next'


def test_deleted_servers_show_as_deleted(cloud):
    shown = cloud.client().get('/servers/detail?changes-since=2026-01-01T12:00:06Z').json['servers']
    assert [server['status'] for server in shown] == ['DELETED']


def test_a_deleted_server_is_not_shown(cloud):
    uuid = cloud.admin().get('/servers?all_tenants=1&deleted=1').json['servers'][0]['id']
    assert cloud.client().get(f'/servers/{uuid}').status == 404


@pytest.mark.parametrize('server_id', ['x', 'detail2', '1' * 36, '%2e%2e', 'a' * 5000,
                                       '00000000-0000-0000-0000-000000000000'])
def test_unknown_server_ids_return_404(cloud, server_id):
    for method, path, body in (
        ('GET', '', None),
        ('DELETE', '', None),
        ('PUT', '', {'server': {'name': 'x'}}),
        ('POST', '/action', {'os-start': None}),
        ('GET', '/metadata', None),
        ('GET', '/ips', None),
        ('GET', '/os-instance-actions', None)):
        answer = cloud.client().request(method, f'/servers/{server_id}{path}', body)
        assert answer.status == 404, (method, path, answer.body)


def test_host_status_is_shown_to_administrators(cloud):
    admin = cloud.admin(project=base.PROJECT)
    shown = {server['name']: server['host_status'] for server in
             admin.get('/servers/detail', version='2.16').json['servers']}
    assert shown == {'server-1': 'UP', 'server-2': 'UP', 'server-3': 'UP', 'server-4': 'UNKNOWN'}


@pytest.fixture(scope='module')
def kept(tmp_path_factory):
    """One server that lives, one that may be restored, one that is gone."""
    fixture = servers.Servers(tmp_path_factory.mktemp('kept'))
    mine = {'project_id': base.PROJECT}
    fixture.add_servers(server_rows.row(1, **mine), server_rows.row(2, **mine, vm_state='soft-delete'))
    fixture.add_servers(server_rows.row(3, **mine, vm_state='deleted', deleted_at=server_rows.START), deleted=True)
    yield fixture
    fixture.close()


@pytest.mark.parametrize('query, user, admin', [
    ('', [1], [1]), ('soft_deleted=true', [1], [2, 1]), ('deleted=true', [1], [3]),
    ('deleted=true&soft_deleted=true', [1], [3, 2]), ('deleted=&soft_deleted=', [1], [3, 2]),
    ('deleted=true&soft_deleted=false', [1], [3]), ('deleted=false', [1], [1]),
    ('status=SOFT_DELETED', [2], [2]), ('vm_state=soft-delete', [2], [2]),
    ('changes-since=2026-01-01T12:00:00Z', [3, 2, 1], [3, 2, 1]),
    ('changes-since=2026-01-01T12:00:00Z&deleted=false', [3, 2, 1], [2, 1])])
def test_soft_deleted_servers_are_listed_on_request(kept, query, user, admin):
    version = '2.83' if 'vm_state' in query else '2.1'
    assert names(kept.client(), query, version) == user
    assert names(kept.admin(project=base.PROJECT), query, version) == admin


@pytest.mark.parametrize('path', ['/servers', '/servers/detail'])
def test_a_period_that_ends_before_it_begins(cloud, path):
    query = 'changes-since=2026-01-02T00:00:00Z&changes-before=2026-01-01T00:00:00Z'
    assert cloud.client().get(f'{path}?{query}', version='2.66').fault[:2] == ('badRequest', 400)
    assert names(cloud.client(), query, '2.65', path) == [], 'changes-before means nothing yet'


@pytest.mark.parametrize('marker', [None, 'deleted'])
def test_marker_outside_of_the_list_is_refused(cloud, marker):
    admin = cloud.admin(project=base.PROJECT)
    if marker:
        marker = admin.get('/servers?all_tenants=1&deleted=1').json['servers'][0]['id']
    foreign = admin.get(f'/servers?all_tenants=1&project_id={"c" * 32}').json['servers'][0]['id']
    for wanted in (marker or '1' * 36, foreign):
        answer = cloud.client().get(f'/servers?marker={wanted}')
        assert answer.fault == ('badRequest', 400, f'marker [{wanted}] not found')


def test_matching_ends_at_a_deadline(cloud, monkeypatch):
    monkeypatch.setattr(listing, 'MATCH_S', -1)
    assert cloud.client().get('/servers?name=%5Bs%5D').fault[:2] == ('badRequest', 400)
    assert names(cloud.client(), 'name=server') == [4, 3, 2, 1], 'plain text is no expression'


@pytest.mark.parametrize('pattern', ['(a+)+$', '(a|aa)*b', '(.*)*x', 'a{1,1000}{1,1000}', '\\1', '(?=a)', 'x' * 300])
def test_no_expression_takes_long(cloud, pattern):
    """Class J: neither nested repetition nor a huge automaton holds up the API."""
    begin = time.process_time()
    answer = cloud.client().get('/servers?' + urllib.parse.urlencode({'name': pattern, 'ip': pattern}))
    assert answer.status in (200, 400) and time.process_time() - begin < 2


def test_changes_before_names_the_second_that_servers_show(tmp_path):
    """The client gives the time that a server shows, which has no fractions: the server is among the answers."""
    fixture = servers.Servers(tmp_path)
    moment = server_rows.START.replace(microsecond=700000)
    fixture.add_servers(server_rows.row(1, project_id=base.PROJECT, updated_at=moment))
    shown = fixture.client().get('/servers/detail').json['servers'][0]['updated']
    found = [names(fixture.client(), f'changes-before={text}', '2.66')
             for text in (shown, shown.replace('Z', '.600000Z'), shown.replace('Z', '.800000Z'))]
    fixture.close()
    assert found == [[1], [], [1]]
