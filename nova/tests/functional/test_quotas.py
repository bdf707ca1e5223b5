"""Limits, quota sets, and the check in the transaction that uses them."""
import http.server
import threading

from oslo_config import cfg
import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova import utils
from nova.db.identity import directory
from nova.db.networks import limits
from nova.db.projects import quotas
from nova.db.tables import api as tables_api
from nova.db.tables import network as tables_network
from nova.identity import known_projects
from nova.tests.functional import base

OTHER = 'b' * 32


def _use(conn, project_id, number, vcpus=2, memory_mb=1024, user_id=base.USER):
    for index in range(number):
        conn.execute(sa.insert(tables_api.instance_mappings).values(
            instance_uuid=f'{project_id[:8]}-{index}-{utils.change_number()}', cell_uuid='c', project_id=project_id,
            user_id=user_id, vcpus=vcpus, memory_mb=memory_mb, created_at=utils.utcnow()))


def _set(api, values, project=base.PROJECT, query='', version='2.57'):
    return api.admin().put(f'/os-quota-sets/{project}{query}', {'quota_set': values}, version=version)


def test_limits_show_what_is_used(api):
    with api.api_db.writer() as conn:
        _use(conn, base.PROJECT, 3)
        _use(conn, OTHER, 1)
    absolute = api.client().get('/limits?reserved=False').json['limits']['absolute']
    assert {key: absolute[key] for key in absolute if key.startswith('total')} == {
        'totalCoresUsed': 6, 'totalInstancesUsed': 3, 'totalRAMUsed': 3072, 'totalServerGroupsUsed': 0,
        'totalFloatingIpsUsed': 0, 'totalSecurityGroupsUsed': 0}
    assert (absolute['maxTotalInstances'], absolute['maxTotalCores'], absolute['maxTotalRAMSize']) == (10, 20, 51200)
    assert absolute['maxPersonality'] == 5 and absolute['maxImageMeta'] == 128


def test_limits_of_another_project_need_an_administrator(api):
    with api.api_db.writer() as conn:
        _use(conn, OTHER, 1)
    assert api.client().get(f'/limits?tenant_id={OTHER}').status == 403
    absolute = api.admin().get(f'/limits?tenant_id={OTHER}').json['limits']['absolute']
    assert absolute['totalInstancesUsed'] == 1


def test_quotas_are_set_and_reset(api):
    answer = _set(api, {'instances': 7, 'cores': '-1', 'force': True})
    assert answer.json['quota_set']['instances'] == 7 and answer.json['quota_set']['cores'] == -1
    assert 'id' not in answer.json['quota_set']
    shown = api.client().get(f'/os-quota-sets/{base.PROJECT}').json['quota_set']
    assert (shown['id'], shown['instances'], shown['cores'], shown['ram']) == (base.PROJECT, 7, -1, 51200)
    defaults = api.client().get(f'/os-quota-sets/{base.PROJECT}/defaults').json['quota_set']
    assert (defaults['instances'], defaults['cores']) == (10, 20)
    assert api.admin().delete(f'/os-quota-sets/{base.PROJECT}').status == 202
    assert api.client().get(f'/os-quota-sets/{base.PROJECT}').json['quota_set']['instances'] == 10


def test_quota_changes_and_foreign_quotas_require_an_administrator(api):
    client, path = api.client(), f'/os-quota-sets/{OTHER}'
    assert client.get(path).status == 403 and client.get(path + '/detail').status == 403
    assert client.put(f'/os-quota-sets/{base.PROJECT}', {'quota_set': {'cores': -1}}).status == 403
    assert client.delete(f'/os-quota-sets/{base.PROJECT}').status == 403
    assert client.get('/os-quota-class-sets/default').status == 403


OPERATIONS = [('GET', ''), ('GET', '/detail'), ('GET', '/defaults'), ('PUT', '')]


def _codes(api, project):
    """{code of each operation on the quota of a project}"""
    return {api.admin().request(method, f'/os-quota-sets/{project}{more}', {'quota_set': {'cores': 9}}).status
            if method == 'PUT' else api.admin().get(f'/os-quota-sets/{project}{more}').status
            for method, more in OPERATIONS}


def test_quotas_of_unknown_projects_are_refused(api):
    """An administrator who mistypes an id is told so; what is left of a project that is gone can be deleted."""
    api.services.projects = known_projects.Embedded(api.api_db)
    api.api_db.run(directory.create, 'project', {'id': OTHER, 'domain_id': 'default', 'name': 'other', 'enabled': True,
                                                 'description': '', 'tags': [], 'created_at': utils.utcnow()})
    assert _codes(api, OTHER) == _codes(api, base.PROJECT) == {200}
    for unknown in ('c' * 32, 'x' * 300, 'a%00b', 'caf%C3%A9', '..%20'):
        assert _codes(api, unknown) == {400}, unknown
    assert 'no project' in api.admin().get('/os-quota-sets/nothing').fault[2]
    with api.api_db.reader() as conn:
        assert not quotas.own_limits(conn, 'c' * 32, ('cores',))
    assert api.admin().delete('/os-quota-sets/' + 'c' * 32).status == 202
    assert api.client().get('/os-quota-sets/nothing').status == 403, 'who may not look is not told'
    for project in (OTHER, 'nothing'):                  # everybody may see the defaults: they say nothing of a project
        assert api.client().get(f'/os-quota-sets/{project}/defaults').status == 200


class Keystone(http.server.BaseHTTPRequestHandler):
    """Answers with the code that is the project's id; other projects get no answer."""

    def do_GET(self):
        project = self.path.removeprefix('/identity/v3/projects/')
        if self.headers['X-Auth-Token'] == 'of-the-caller' and project.isdigit():
            self.send_response(int(project))
            self.send_header('Location', '/identity/v3/projects/200')
            self.send_header('Content-Length', '0')
            self.end_headers()

    def log_message(self, *_arguments):
        """Not on the terminal."""


@pytest.mark.threads
@pytest.mark.parametrize('suffix', ['', '/', '/v3', '/v3/'])
def test_keystone_is_asked_as_the_caller(suffix):
    """What it does not say is no refusal."""
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Keystone) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        conf = _keystone_conf(f'http://127.0.0.1:{server.server_port}/identity{suffix}')
        asked = known_projects.Keystone(conf)
        caller = context.RequestContext(auth_token='of-the-caller', overwrite=False)
        assert {code: asked.exists(caller, code) for code in ('200', '404', '403', '401', '500', '302', 'silent')} == {
            '200': True, '404': False, '403': None, '401': None, '500': None, '302': None, 'silent': None}
        assert asked.exists(context.RequestContext(overwrite=False), '200') is None
        assert asked.exists(caller, '../users') is asked.exists(caller, '..') is False
        server.shutdown()
    assert asked.exists(caller, '200') is None
    assert known_projects.Keystone(_keystone_conf(None)).exists(caller, '200') is None


def _keystone_conf(uri):
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt('www_authenticate_uri', default=uri), cfg.StrOpt('cafile'), cfg.BoolOpt('insecure')],
                       group='keystone_authtoken')
    conf([])
    return conf


@pytest.mark.parametrize('values', [{'instances': -2}, {'instances': 'many'}, {'instances': 2 ** 31},
                                    {'boats': 1}, {'instances': None}, {'injected_files': 1}])
def test_invalid_limits_return_400(api, values):
    assert _set(api, values).fault[:2] == ('badRequest', 400)


def test_quota_below_usage_needs_force(api):
    with api.api_db.writer() as conn:
        _use(conn, base.PROJECT, 3)
    assert _set(api, {'instances': 2}).status == 400
    assert _set(api, {'instances': 3}).status == 200
    assert _set(api, {'instances': 2, 'force': 'true'}).status == 200
    assert _set(api, {'instances': -1}).status == 200


def test_user_quota_is_within_that_of_the_project(api):
    query = f'?user_id={base.USER}'
    assert _set(api, {'instances': 11}, query=query).status == 400, 'more than the project has'
    assert _set(api, {'instances': 4}, query=query).json['quota_set']['instances'] == 4
    path = f'/os-quota-sets/{base.PROJECT}'
    assert api.client().get(path + query).json['quota_set']['instances'] == 4
    assert api.client().get(path).json['quota_set']['instances'] == 10
    api.admin().delete(path + query)
    assert api.client().get(path + query).json['quota_set']['instances'] == 10


def test_quota_detail_shows_the_usage(api):
    with api.api_db.writer() as conn:
        _use(conn, base.PROJECT, 2)
    detail = api.client().get(f'/os-quota-sets/{base.PROJECT}/detail').json['quota_set']
    assert detail['instances'] == {'limit': 10, 'in_use': 2, 'reserved': 0}
    assert detail['cores'] == {'limit': 20, 'in_use': 4, 'reserved': 0}


def test_default_class_changes_every_project(api):
    body = {'quota_class_set': {'instances': 33}}
    assert api.admin().put('/os-quota-class-sets/default', body).json['quota_class_set']['instances'] == 33
    assert api.client().get(f'/os-quota-sets/{base.PROJECT}').json['quota_set']['instances'] == 33
    assert api.admin().get('/os-quota-class-sets/default').json['quota_class_set']['instances'] == 33


# ---- check_and_use -----------------------------------------------------------

def _create(api, count, vcpus=1, memory_mb=64, project=base.PROJECT):
    def run(conn):
        limits = quotas.limits_of(conn, api.conf, project)
        quotas.check_and_use(conn, limits, project, base.USER, count, vcpus, memory_mb)
        _use(conn, project, count, vcpus, memory_mb)
    api.api_db.run(run)


def test_all_that_is_missing_is_named(api):
    _create(api, 9)
    with pytest.raises(exception.QuotaExceeded) as caught:
        _create(api, 2, vcpus=6, memory_mb=1)
    assert caught.value.message == ('Quota exceeded for instances, cores: Requested 2, 12, but already used 9, 9 '
                                    'of 10, 20 instances, cores')
    _create(api, 1)
    with pytest.raises(exception.QuotaExceeded):
        _create(api, 1)
    _create(api, 1, project=OTHER)


def test_quota_minus_1_is_unlimited(api):
    _set(api, {'instances': -1, 'cores': -1})
    _create(api, 50)


@pytest.mark.threads
def test_parallel_requests_cannot_exceed_together(api):
    refused = []

    def create():
        try:
            _create(api, 3)
        except exception.QuotaExceeded:
            refused.append(1)
    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with api.api_db.reader() as conn:
        assert quotas.usage(conn, base.PROJECT)['instances'] == 9
    assert len(refused) == 5


# ---- users -------------------------------------------------------------------

def _limits(api):
    with api.api_db.reader() as conn:
        return quotas.limits_of(conn, api.conf, base.PROJECT)


def test_a_user_has_a_bound_within_the_project(api):
    _set(api, {'instances': 2, 'ram': 100}, query=f'?user_id={base.USER}')
    _create(api, 1)
    with pytest.raises(exception.QuotaExceeded) as caught:
        _create(api, 2)
    assert caught.value.message == ('Quota exceeded for instances, ram: Requested 2, 128, but already used 1, 64 '
                                    'of 2, 100 instances, ram')
    with api.api_db.writer() as conn:
        _use(conn, base.PROJECT, 3, user_id='another')          # nobody else has that bound
        quotas.check_and_use(conn, _limits(api), base.PROJECT, 'another', 5, 1, 64)
    with pytest.raises(exception.QuotaExceeded):
        _create(api, 2, memory_mb=1)


def test_servers_are_created_as_far_as_the_quota_allows(api):
    _set(api, {'cores': 5}, query=f'?user_id={base.USER}')
    with api.api_db.writer() as conn:
        limits = _limits(api)
        assert quotas.fit(conn, limits, base.PROJECT, base.USER, 1, 8, 2, 64) == 2
        assert quotas.fit(conn, limits, base.PROJECT, 'another', 1, 8, 2, 64) == 8
        assert quotas.fit(conn, limits, base.PROJECT, 'another', 1, 80, 2, 64) == 10
        with pytest.raises(exception.QuotaExceeded, match='Requested 6, but already used 0 of 5 cores'):
            quotas.fit(conn, limits, base.PROJECT, base.USER, 3, 8, 2, 64)


def test_a_server_of_a_bounded_user_cannot_grow_beyond(api):
    _set(api, {'cores': 5}, query=f'?user_id={base.USER}')
    with api.api_db.writer() as conn:
        _use(conn, base.PROJECT, 2)
        uuid = conn.execute(sa.select(tables_api.instance_mappings.c.instance_uuid)).scalars().first()
        with pytest.raises(exception.QuotaExceeded):
            quotas.check_and_grow(conn, _limits(api), base.PROJECT, uuid, 4, 1024)
        quotas.check_and_grow(conn, _limits(api), base.PROJECT, uuid, 3, 1024)


@pytest.mark.threads
def test_parallel_requests_of_a_user_cannot_exceed_together(api):
    _set(api, {'instances': 5}, query=f'?user_id={base.USER}')
    limits, refused = _limits(api), []

    def create():
        def run(conn):
            quotas.check_and_use(conn, limits, base.PROJECT, base.USER, 1, 1, 1)
            _use(conn, base.PROJECT, 1, 1, 1)
        try:
            api.api_db.run(run)
        except exception.QuotaExceeded:
            refused.append(1)
    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 3


def test_bounds_of_a_user_are_shown_and_refused(api):
    query = f'?user_id={base.USER}'
    with api.api_db.writer() as conn:
        _use(conn, base.PROJECT, 3)
        _use(conn, base.PROJECT, 2, user_id='another')
    assert _set(api, {'instances': 2}, query=query).status == 400, 'less than the user has'
    assert _set(api, {'instances': 2, 'force': True}, query=query).status == 200
    assert _set(api, {'instances': -1}, query=query).status == 400, 'more than the project has'
    assert _set(api, {'instances': 3}, query=query).status == 200
    detail = api.client().get(f'/os-quota-sets/{base.PROJECT}/detail{query}').json['quota_set']
    assert detail['instances'] == {'limit': 3, 'in_use': 3, 'reserved': 0}
    # users go with their project
    api.admin().delete(f'/os-quota-sets/{base.PROJECT}')
    assert api.client().get(f'/os-quota-sets/{base.PROJECT}{query}').json['quota_set']['instances'] == 10


def test_a_user_may_have_fewer_server_groups_and_key_pairs(api):
    _set(api, {'server_groups': 1, 'key_pairs': 0}, query=f'?user_id={base.USER}')
    body = {'server_group': {'name': 'g', 'policies': ['affinity']}}
    assert [api.client().post('/os-server-groups', body).status for _ in range(2)] == [200, 403]
    assert api.client(user='another').post('/os-server-groups', body).status == 200
    assert api.client().post('/os-keypairs', {'keypair': {'name': 'k'}}).status == 403
    used = api.client().get(f'/os-quota-sets/{base.PROJECT}/detail?user_id={base.USER}').json['quota_set']
    assert used['server_groups'] == {'limit': 1, 'in_use': 1, 'reserved': 0}


def test_limits_of_networks_are_the_network_services(tmp_path):
    api = base.ApiFixture(tmp_path, network__quota={'security_group': 7, 'floatingip': 3})
    with api.api_db.writer() as conn:
        conn.execute(sa.insert(tables_network.security_groups).values(
            id='g', project_id=base.PROJECT, name='g', description='', created_at=utils.utcnow(),
            updated_at=utils.utcnow()))
    absolute = api.client().get('/limits', version='2.35').json['limits']['absolute']
    shown = [absolute[key] for key in ('maxSecurityGroups', 'totalSecurityGroupsUsed', 'maxTotalFloatingIps')]
    assert shown == [7, 1, 3]
    detail = api.client().get(f'/os-quota-sets/{base.PROJECT}/detail').json['quota_set']
    assert detail['security_groups'] == {'limit': 7, 'in_use': 1, 'reserved': 0}
    assert detail['fixed_ips'] == {'limit': -1, 'in_use': 0, 'reserved': 0}
    path = f'/os-quota-sets/{base.PROJECT}'
    refused = _set(api, {'security_groups': 0, 'fixed_ips': 50, 'cores': 30}, version='2.35')
    assert refused.status == 400 and 'security_groups must be greater than or equal' in str(refused.json)
    assert api.client().get(path).json['quota_set']['fixed_ips'] == -1
    api.api_db.run(limits.replace, base.PROJECT, {'network': 5})          # set by the Networking API
    wanted = {'security_groups': 99, 'fixed_ips': 50, 'floating_ips': 4, 'security_group_rules': 5}
    changed = _set(api, wanted, version='2.35')
    assert changed.status == 200 and changed.json['quota_set'].items() >= wanted.items(), changed.json
    assert api.client().get(path).json['quota_set']['security_groups'] == 99
    assert api.client().get('/limits', version='2.35').json['limits']['absolute']['maxSecurityGroupRules'] == 5
    with api.api_db.reader() as conn:                       # what the network service enforces
        assert limits.of(conn, base.PROJECT) == {
            'network': 5, 'security_group': 99, 'port': 50, 'floatingip': 4, 'security_group_rule': 5}
    assert _set(api, {'security_groups': 0, 'force': True}, version='2.35').json['quota_set']['security_groups'] == 0
    for refused in (_set(api, {'security_groups': 3}, version='2.35', query='?user_id=u'),
                    api.admin().put('/os-quota-class-sets/default', {'quota_class_set': {'fixed_ips': 3}})):
        assert refused.status == 400 and 'whole projects' in str(refused.json)
    assert _set(api, {'security_groups': 0, 'cores': 9}, version='2.35', query='?user_id=u').status == 200
    assert 'security_groups' not in api.client().get(f'/os-quota-sets/{base.PROJECT}', version='2.36').json['quota_set']
    for version, query, left in (('2.36', '', 50), ('2.35', '?user_id=u', 50), ('2.35', '', -1)):
        assert api.admin().delete(path + query, version=version).status == 202
        assert api.client().get(path, version='2.35').json['quota_set']['fixed_ips'] == left
    assert api.client().get(path, version='2.35').json['quota_set']['security_groups'] == 7
    with api.api_db.reader() as conn:
        assert limits.of(conn, base.PROJECT) == {'network': 5}
    api.close()


@pytest.mark.parametrize('path, name', [
    ('/os-quota-class-sets/{}', 'quota_class_set'), ('/os-quota-sets/project?user_id={}', 'quota_set')])
def test_limits_of_an_id_that_the_database_would_cut_are_refused(api, path, name):
    admin, body = api.admin(), {name: {'cores': 3}}
    assert admin.put(path.format('x' * 255), body).status == 200
    _name, code, message = admin.put(path.format('x' * 256), body).fault
    assert code == 400 and message.endswith('has at most 255 characters.')
