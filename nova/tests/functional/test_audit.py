"""The audit log over HTTP: who did what, from where, with what result; who may read it; what never gets into it."""
import base64
import concurrent.futures
import datetime
import json
import uuid

import pytest
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.cert import authorities
from nova.cert import signing
from nova.cmd.manage import main as manage
from nova.db.audit import log
from nova.db.audit import records as db_audit
from nova.db.tables.audit import chain
from nova.db.tables.audit import records
from nova.runtime import metrics
from nova.tests.functional import base
from nova.tests.functional import cloud as whole
from nova.tests.functional import notifications
from nova.tests.functional import servers
from nova.tests.support.waiting import wait_for

CANARY = 'canary-8d1f'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('audit')) as cloud:
        yield cloud


@pytest.fixture
def api(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def rows(*databases):
    found = []
    for database in databases:
        with database.reader() as conn:
            found += [dict(row) for row in conn.execute(sa.select(records)).mappings()]
    return found


def of(answer, client, query=''):
    """The records of a request, as its own caller reads them."""
    request_id = answer.headers['x-openstack-request-id']
    listed = client.get(f'/os-audit?request_id={request_id}{query}')
    assert listed.status_code == 200, listed.text
    return listed.json()['audit_records']


def newest(client, query='all_projects=true'):
    return client.get(f'/os-audit?{query}&limit=1').json()['audit_records'][0]


# ---- what is recorded ------------------------------------------------------------

def test_a_server_is_made_renamed_and_deleted(cloud):
    client = cloud.client()
    image = client.upload_image()
    answer = client.post('/servers', {'server': {'name': 'a', 'imageRef': image, 'flavorRef': '42'}})
    server = answer.json()['server']['id']
    record, = of(answer, client)
    assert (record['action'], record['target_type'], record['target_id']) == (
        'os_compute_api:servers:create', 'servers', server)
    assert (record['outcome'], record['code'], record['user_id']) == ('accepted', 202, client.user_id)
    assert record['remote_address'] == '127.0.0.1' and record['route'] == '/servers'
    client.wait_for(server)
    record, = of(client.post(f'/servers/{server}/action', {'os-stop': None}), client)
    assert (record['action'], record['route'], record['target_id']) == (
        'os_compute_api:servers:stop', '/servers/{id}/action:os-stop', server)
    record, = of(client.put(f'/servers/{server}/metadata/k', {'meta': {'k': 'v'}}), client)
    assert (record['target_type'], record['target_id'], record['target_part']) == ('servers/metadata', server, 'k')
    client.wait_for(server, 'SHUTOFF')
    record, = of(client.delete(f'/servers/{server}'), client)
    assert (record['action'], record['code']) == ('os_compute_api:servers:delete', 204)
    # where its write is: two in the cell's database, for an action and for the create in the API's
    assert {row['action'] for row in rows(cloud.cell_db)} >= {'os_compute_api:servers:stop'}
    assert {row['action'] for row in rows(cloud.api_db)} >= {'os_compute_api:servers:create'}


def test_reads_are_not_recorded(cloud):
    client = cloud.client()
    for path in ('/servers', '/flavors/detail', '/limits', '/os-audit'):
        assert of(client.get(path), client) == []


def test_audit_record_of_a_creation_has_the_new_resource_as_target(cloud):
    admin = cloud.admin()
    for path, body, key in (
            ('/os-keypairs', {'keypair': {'name': 'k1'}}, 'name'),
            ('/flavors', {'flavor': {'name': 'f1', 'ram': 1, 'vcpus': 1, 'disk': 1}}, 'id'),
            ('/os-server-groups', {'server_group': {'name': 'g', 'policies': ['affinity']}}, 'id'),
            ('/os-aggregates', {'aggregate': {'name': 'a'}}, 'id')):
        answer = admin.post(path, body)
        assert answer.status_code == 200, answer.text
        (thing,) = answer.json().values()
        record, = of(answer, admin)
        assert record['target_id'] == str(thing[key]) and record['outcome'] == 'accepted'


FACES = (
    ('/image/v2/images', {'name': 'i', 'disk_format': 'raw', 'container_format': 'bare'}, 'image:create_image',
     'images'),
    ('/network/v2.0/security-groups', {'security_group': {'name': 's'}}, 'network:create_security_group',
     'security_groups'),
    ('/volume/v3/volumes', {'volume': {'size': 1, 'name': 'v'}}, 'volume:create_volume', 'volumes'),
    ('/identity/v3/projects', {'project': {'name': 'p1'}}, 'identity:create_project', 'projects'),
)


@pytest.mark.parametrize(('path', 'body', 'action', 'kind'), FACES)
def test_writes_of_all_embedded_apis_are_audited(cloud, path, body, action, kind):
    admin = cloud.admin()
    before = len([row for row in rows(cloud.api_db) if row['action'] == action])
    answer = admin.post(path, body)
    made = answer.json()
    made = made if 'id' in made else next(iter(made.values()))
    found = [row for row in rows(cloud.api_db) if row['action'] == action]
    assert len(found) == before + 1
    record = found[-1]
    assert (record['target_type'], record['target_id']) == (kind, made['id'])
    assert (record['outcome'], record['code'], record['user_id'], record['project_id']) == (
        'accepted', answer.status_code, admin.user_id, admin.project_id)
    assert record['remote_address'] == '127.0.0.1'
    unknown = admin.delete(f'{path}/{uuid.uuid4()}')
    record = newest(admin, f'outcome=failed&target_type={kind}')
    assert (record['code'], record['method']) == (unknown.status_code, 'DELETE') and unknown.status_code == 404


def test_faces_refuse_with_a_record(cloud):
    client = cloud.client()
    answer = client.post('/identity/v3/projects', {'project': {'name': 'p2'}})
    assert answer.status_code == 403
    record = newest(client, 'action=identity:create_project')
    assert (record['outcome'], record['code'], record['user_id']) == ('denied', 403, client.user_id)


def test_a_token_without_a_project_leaves_its_refusal(cloud):
    """Who probes what such a token may do is seen."""
    admin = cloud.admin()
    session = cloud.client().session
    for scope in ({'system': {'all': True}}, {'domain': {'id': 'default'}}):
        answer = admin.post('/identity/v3/auth/tokens', {'auth': {
            'identity': {'methods': ['token'], 'token': {'id': admin.token}}, 'scope': scope}})
        headers = {'X-Auth-Token': answer.headers['X-Subject-Token']}
        server = str(uuid.uuid4())
        for path, body, action in (
                ('/v2.1/os-keypairs', {'keypair': {'name': 'k'}}, 'os_compute_api:os-keypairs:create'),
                (f'/v2.1/servers/{server}/action', {'os-stop': None}, 'compute:post /servers/{id}/action'),
                ('/network/v2.0/networks', {'network': {}}, 'network:post'),
                (f'/volume/v3/{admin.project_id}/volumes', {'volume': {'size': 1}}, 'volume:post')):
            refused = session.post(cloud.url + path, json=body, headers=headers)
            assert refused.status_code == 403, (path, refused.text)
            record = newest(admin, f'all_projects=true&action={action}')
            assert (record['outcome'], record['code'], record['user_id'], record['project_id']) == (
                'denied', 403, admin.user_id, None)


def test_requests_to_the_identity_service_have_an_id(cloud):
    client = cloud.client()
    answer = client.post('/identity/v3/projects', {'project': {'name': 'p3'}})
    record = newest(client, 'action=identity:create_project')
    assert record['request_id'] == answer.headers['x-openstack-request-id'].strip() and record['request_id']


def test_scheduler_explanation_is_not_recorded_in_the_audit_log(cloud):
    admin = cloud.admin('2.104')
    answer = admin.post('/os-scheduler/explain', {'server': {
        'name': 'x', 'imageRef': str(uuid.uuid4()), 'flavorRef': '42', 'networks': 'none'}})
    assert of(answer, admin) == []


def test_logins_are_audited(cloud):
    client = cloud.client()                                  # one that succeeds
    record = newest(client, 'action=identity:login')
    assert (record['outcome'], record['code']) == ('accepted', 201)
    assert (record['user_id'], record['project_id'], record['target_id']) == (
        client.user_id, client.project_id, client.user_id)
    body = {'auth': {'identity': {'methods': ['password'], 'password': {'user': {
        'id': client.user_id, 'password': CANARY}}}}}
    answer = client.session.post(cloud.url + '/identity/v3/auth/tokens', json=body)
    assert answer.status_code == 401
    record = newest(cloud.admin(), 'all_projects=true&action=identity:login&outcome=denied')
    assert (record['code'], record['target_id'], record['user_id']) == (401, client.user_id, None)
    assert record['project_id'] is None and record['remote_address'] == '127.0.0.1'


def test_an_application_credential_is_named(cloud):
    client = cloud.client()
    made = client.post(f'/identity/v3/users/{client.user_id}/application_credentials', {
        'application_credential': {'name': 'script'}}).json()['application_credential']
    login = client.session.post(cloud.url + '/identity/v3/auth/tokens', json={'auth': {'identity': {
        'methods': ['application_credential'],
        'application_credential': {'id': made['id'], 'secret': made['secret']}}}})
    assert login.status_code == 201
    client.token = login.headers['X-Subject-Token']
    record, = of(client.post('/os-keypairs', {'keypair': {'name': 'k2'}}), client)
    assert (record['credential_id'], record['user_id']) == (made['id'], client.user_id)


def test_a_repeated_request_says_that_it_is_one(cloud):
    client = cloud.client()
    first, again = (client.post('/os-keypairs', {'keypair': {'name': 'once'}}, headers={'Idempotency-Key': 'abc'})
                    for _ in range(2))
    assert first.json() == again.json()
    assert [row['reason'] for row in of(first, client)] == [None]
    assert [row['reason'] for row in of(again, client)] == ['IdempotentReplay']


# ---- in the same transaction -----------------------------------------------------

def forbid(database, table):
    with database.writer() as conn:
        conn.exec_driver_sql(f"CREATE TRIGGER broken BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END")


def allow(database):
    with database.writer() as conn:
        conn.exec_driver_sql('DROP TRIGGER broken')


def test_change_is_not_made_if_its_audit_record_cannot_be_written(api):
    admin = api.admin()
    forbid(api.api_db, 'audit_records')
    assert admin.post('/flavors', {'flavor': {'name': 'x', 'ram': 1, 'vcpus': 1, 'disk': 1}}).status == 500
    allow(api.api_db)
    assert 'x' not in [flavor['name'] for flavor in admin.get('/flavors').json['flavors']]


def test_rolled_back_change_is_recorded_as_failed(api):
    admin = api.admin()
    forbid(api.api_db, 'flavors')
    assert admin.post('/flavors', {'flavor': {'name': 'x', 'ram': 1, 'vcpus': 1, 'disk': 1}}).status == 500
    record, = rows(api.api_db, api.cell_db)
    assert (record['outcome'], record['code']) == ('failed', 500)


def test_a_request_that_fails_after_its_first_transaction_is_no_success(api):
    forbid(api.cell_db, 'instances')                         # the mapping and the quota are committed by then
    assert api.client().post('/servers', api.body()).status == 500
    record, = rows(api.api_db, api.cell_db)
    assert (record['outcome'], record['code'], record['action']) == ('failed', 500, 'os_compute_api:servers:create')
    assert record['target_id']


def test_sealed_record_gets_its_result_as_a_new_record(api):
    forbid(api.cell_db, 'instances')
    record = log.Record('POST', '/x', 'x', code=202)
    with log.recording(record):
        api.api_db.run(lambda conn: None)
    api.api_db.run(db_audit.seal, b'')
    api.services.auditor.finish(record, 500, exception.InvalidInput(reason=CANARY))
    first, second = rows(api.api_db)
    assert (first['outcome'], second['outcome'], second['reason']) == ('accepted', 'failed', 'InvalidInput')
    api.api_db.run(db_audit.seal, b'')
    assert db_audit.verify(api.api_db, b'').wrong is None


def test_a_quota_that_is_used_up_leaves_one_refusal(api):
    api.admin().put(f'/os-quota-sets/{base.PROJECT}', {'quota_set': {'instances': 0}})
    assert api.client().post('/servers', api.body()).status == 403
    record, = (row for row in rows(api.api_db, api.cell_db) if row['action'] == 'os_compute_api:servers:create')
    assert (record['outcome'], record['reason']) == ('denied', 'QuotaExceeded')


# ---- no secrets --------------------------------------------------------------------

def test_no_secret_gets_into_a_record(cloud):
    client, admin = cloud.client(), cloud.admin()
    text = base64.b64encode(CANARY.encode()).decode()
    image = client.upload_image()
    secrets = {'adminPass': CANARY, 'user_data': text, 'metadata': {CANARY: CANARY}, 'name': 'a',
               'imageRef': image, 'flavorRef': '42', 'config_drive': True,
               'personality': [{'path': '/etc/x', 'contents': text}]}
    bodies = [secrets, {**secrets, 'flavorRef': CANARY}, {**secrets, CANARY: 1}, {**secrets, 'name': CANARY * 100}]
    codes = [client.post('/servers', {'server': body}).status_code for body in bodies]
    assert 202 in codes and 400 in codes
    server = client.get('/servers').json()['servers'][0]['id']
    client.wait_for(server)
    for body in ({'changePassword': {'adminPass': CANARY}}, {'rebuild': {'imageRef': CANARY, 'adminPass': CANARY}},
                 {CANARY: CANARY}, {'rescue': {'adminPass': CANARY * 100}}):
        client.post(f'/servers/{server}/action', body)
    client.post('/os-keypairs', {'keypair': {'name': 'k3', 'public_key': CANARY}})
    for password in (CANARY, [CANARY], None):
        admin.post('/identity/v3/users', {'user': {'name': 'u1', 'password': password, 'email': CANARY}})
        admin.post('/identity/v3/auth/tokens', {'auth': {'identity': {'methods': ['password'], 'password': {'user': {
            'name': CANARY, 'password': password, 'domain': {'id': 'default'}}}}}})
    admin.post(f'/identity/v3/users/{admin.user_id}/password', {'user': {
        'original_password': CANARY, 'password': CANARY}})
    admin.post(f'/identity/v3/users/{admin.user_id}/application_credentials', {'application_credential': {
        'name': 'c', 'secret': CANARY, 'description': CANARY}})
    admin.post('/volume/v3/volumes', {'volume': {'size': CANARY, 'metadata': {'k': CANARY}}})
    admin.post('/network/v2.0/ports', {'port': {'network_id': CANARY, 'description': CANARY}})
    admin.post('/image/v2/images', {'name': CANARY, 'x': CANARY})
    found = rows(cloud.api_db, cloud.cell_db)
    assert len([row for row in found if row['outcome'] == 'failed']) >= 5
    kept = json.dumps(found, default=str)
    assert CANARY not in kept and text not in kept and client.token not in kept


# ---- who may read --------------------------------------------------------------------

def test_projects_read_their_own(cloud):
    admin, client = cloud.admin(), cloud.client()
    theirs = admin.post('/os-keypairs', {'keypair': {'name': 'k4'}})
    ours = client.post('/os-keypairs', {'keypair': {'name': 'k5'}})
    assert len(of(ours, client)) == 1 and of(theirs, client) == []
    assert {row['project_id'] for row in client.get('/os-audit').json()['audit_records']} == {client.project_id}
    assert of(ours, admin) == []                             # an administrator's own project, unless all are asked for
    assert len(of(ours, admin, '&all_projects=true')) == len(of(ours, admin, f'&project_id={client.project_id}')) == 1
    for query in ('all_projects=true', f'project_id={admin.project_id}'):
        assert client.get(f'/os-audit?{query}').status_code == 403
    marker = of(theirs, admin)[0]['id']
    assert client.get(f'/os-audit?marker={marker}').status_code == 400
    assert admin.get('/os-audit?tenant=x').status_code == 400
    assert admin.get('/os-audit?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z').status_code == 400


@pytest.mark.parametrize('roles', [('reader',), ('admin', 'reader')])
def test_a_token_without_a_project_reads_nothing(api, roles):
    api.client().post('/os-keypairs', {'keypair': {'name': 'k'}})
    client = api.client(roles=roles, project='x')
    environ = {}

    def ask(query):
        from nova import context
        caller = context.RequestContext(user_id='someone', project_id=None, roles=list(roles), overwrite=False)
        caller.is_admin = api.policy.is_admin(caller)
        environ['nova.context'] = caller
        return client.get(f'/os-audit{query}', environ=environ)
    assert ask('').status == 403
    assert ask('?all_projects=true').status == 403


def test_audit_list_pages_over_all_databases(cloud):
    client = cloud.client()
    image = client.upload_image()
    servers = [client.boot(image)['id'] for _ in range(3)]
    for server in servers:
        client.wait_for(server)
        client.post(f'/servers/{server}/action', {'lock': None})
    everything = client.get('/os-audit').json()
    assert everything['partial'] is False and 'audit_records_links' not in everything
    seen, path = [], '/os-audit?limit=3'
    while path:
        answer = client.get(path).json()
        assert len(answer['audit_records']) <= 3
        seen += [row['id'] for row in answer['audit_records']]
        link = answer.get('audit_records_links')
        path = link and '/os-audit?' + link[0]['href'].partition('?')[2]
    assert seen == [row['id'] for row in everything['audit_records']] and len(set(seen)) == len(seen)
    times = [row['created_at'] for row in everything['audit_records']]
    assert times == sorted(times, reverse=True)
    middle = times[len(times) // 2]
    newer = client.get(f'/os-audit?since={middle}').json()['audit_records']
    older = client.get(f'/os-audit?until={middle}').json()['audit_records']
    assert len(newer) + len(older) == len(times) and newer and older
    assert len(client.get(f'/os-audit?target_id={servers[0]}&action=os_compute_api:os-lock-server:lock')
               .json()['audit_records']) == 1


# ---- floods ----------------------------------------------------------------------------

def test_a_flood_of_refusals_is_bounded_and_counted(api):
    reader, count = api.client(roles=('reader',), user='flooder'), log.ONE_BURST + 200

    def ask(_number):
        return reader.post('/os-server-groups', {'server_group': {'name': 'g', 'policies': ['affinity']}}).status
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert set(threads.map(ask, range(count))) == {403}
    other = api.client(roles=('reader',), user='another')
    other.post('/os-server-groups', {'server_group': {'name': 'g', 'policies': ['affinity']}})
    api.services.auditor.flush()
    found = rows(api.api_db)
    flood = [row for row in found if row['user_id'] == 'flooder' and row['action'] != log.DROPPED]
    assert log.ONE_BURST <= len(flood) < count
    dropped, = (row for row in found if row['action'] == log.DROPPED)
    assert dropped['reason'] == f'{count - len(flood)} refused requests without separate records.'
    assert (dropped['user_id'], dropped['remote_address']) == ('flooder', '192.0.2.7')
    assert [row['user_id'] for row in found if row['user_id'] == 'another'] == ['another']


# ---- the chain, and the commands ----------------------------------------------------------

def test_conductor_seals_records_and_the_command_verifies_them(tmp_path, capsys):
    with whole.running(tmp_path) as cloud:
        client = cloud.client()
        image = client.upload_image()
        server = client.boot(image)['id']
        client.wait_for(server)
        client.post(f'/servers/{server}/action', {'lock': None})
        assert cloud.services[0].manager.audit_log.seal_audit_log() > 3
        assert all(row['sealed'] for row in client.get('/os-audit').json()['audit_records'])
    state = ['--state-path', str(tmp_path), 'audit', 'verify']
    assert manage.main(state) == 0
    assert capsys.readouterr().out.count('as sealed') == 2
    with cloud.api_db.writer() as conn:
        conn.execute(sa.update(records).where(records.c.seq == 2).values(user_id='somebody'))
        seal = conn.execute(sa.select(records.c.digest).where(records.c.seq == 1)).scalar()
    assert manage.main(state) == 3
    assert 'Record 2 (' in capsys.readouterr().out
    assert manage.main([*state, '--seal', f'api=1:{seal}']) == 3
    assert manage.main([*state, '--seal', 'nothing']) == 2
    assert manage.main([*state, '--seal', f'cell9=1:{seal}']) == 2
    cloud.api_db.dispose()


def test_a_log_that_is_not_sealed_any_more_has_an_age(tmp_path, caplog):
    """A restored database: 116 CRITICAL lines, and no metric of what waited."""
    def age():
        text = metrics.exposed()[0].decode()
        return float(next(line.split()[1] for line in text.splitlines()
                          if line.startswith('nova_audit_log_unsealed_seconds{database="api"}')))
    with whole.running(tmp_path) as cloud:
        seals = cloud.services[0].manager.audit_log
        cloud.client().post('/os-keypairs', {'keypair': {'name': 'a'}})
        seals.seal_audit_log()
        assert age() == 0
        with cloud.api_db.writer() as conn:
            conn.execute(sa.delete(records))
            conn.execute(sa.update(chain).values(seq=0))
        cloud.client().post('/os-keypairs', {'keypair': {'name': 'b'}})
        with cloud.api_db.writer() as conn:
            conn.execute(sa.update(records).values(created_at=utils.utcnow() - datetime.timedelta(seconds=700)))
        for _ in range(3):
            seals.seal_audit_log()
        assert 700 <= age() < 1000
        assert len([record for record in caplog.records if record.levelname == 'CRITICAL']) == 1


def test_nova_manage_changes_are_recorded_in_the_audit_log(tmp_path, capsys):
    with whole.running(tmp_path) as cloud:
        uuid = cloud.cells.default.uuid
    state = ['--state-path', str(tmp_path)]
    assert manage.main([*state, 'service', 'list']) == 0
    assert manage.main([*state, 'cell_v2', 'update_cell', '--cell_uuid', uuid, '--name', 'renamed']) == 0
    found = [row for row in rows(cloud.api_db, cloud.cell_db) if row['action'].startswith('nova-manage:')]
    record, = found
    assert record['action'] == 'nova-manage:cell_v2 update_cell' and record['target_id'] == uuid
    assert record['user_id'].startswith('os:') and record['outcome'] == 'accepted' and record['project_id'] is None
    cloud.api_db.dispose()
    cloud.cell_db.dispose()


@pytest.mark.parametrize('words', [('cert', 'rotate'), ('cert', 'revoke', '--user', 'someone'),
                                   ('identity', 'rotate_keys'), ('identity', 'retire_keys')])
def test_keys_that_an_operator_changes_in_files_are_recorded(tmp_path, capsys, words, monkeypatch):
    """They write to no database: found by looking for the record of a rotation, which was missing."""
    monkeypatch.setattr(signing, 'AUTHORITY_BITS', 2048)
    with whole.running(tmp_path) as cloud:
        if words[1] == 'revoke':
            authorities.of(cloud.conf).issue('someone', 'a' * 32)
    assert manage.main(['--state-path', str(tmp_path), *words]) == 0
    record, = [row for row in rows(cloud.api_db) if row['action'].startswith('nova-manage:')]
    assert record['action'] == 'nova-manage:' + ' '.join(words[:2]) and record['outcome'] == 'accepted'
    assert record['target_id'] == ('someone' if words[1] == 'revoke' else None)
    # what changed nothing has no record, and a log that cannot be written is told of
    assert manage.main(['--state-path', str(tmp_path), 'cert', 'revoke', '--user', 'nobody']) == 1
    assert len([row for row in rows(cloud.api_db) if row['action'].startswith('nova-manage:')]) == 1
    cloud.api_db.dispose()
    cloud.cell_db.dispose()


def test_a_rotation_without_a_database_is_done_and_says_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(signing, 'AUTHORITY_BITS', 2048)
    assert manage.main(['--state-path', str(tmp_path), 'cert', 'rotate']) == 0
    assert 'not in the audit log' in capsys.readouterr().err


# ---- notifications --------------------------------------------------------------------------

def told(event_type):
    return [message['payload'] for _context, message, _priority in notifications.told()
            if message['event_type'] == event_type]


def test_each_record_is_told_once_as_cadf(tmp_path):
    cloud = notifications.start(tmp_path)
    try:
        client = cloud.client()
        answer = client.post('/os-keypairs', {'keypair': {'name': 'k', 'public_key': CANARY}})
        made = client.post('/os-keypairs', {'keypair': {'name': 'k'}})
        conductor = cloud.services[0].manager
        conductor.audit_log.seal_audit_log()
        wait_for(lambda: len(told('audit.http.response')) >= 3 and told('audit.seal'))
        with cloud.api_db.reader() as conn:
            head = db_audit.head(conn)
    finally:
        cloud.stop(5)
    login, failed, accepted = told('audit.http.response')
    assert login['action'] == 'authenticate' and login['initiator']['id'] == client.user_id
    assert failed['outcome'] == 'failure' and failed['reason'] == {'reasonType': 'HTTP', 'reasonCode': '400'}
    assert answer.status_code == 400 and made.status_code == 200
    assert accepted['typeURI'] == 'http://schemas.dmtf.org/cloud/audit/1.0/event'
    assert (accepted['eventType'], accepted['action'], accepted['outcome']) == ('activity', 'create', 'success')
    assert accepted['target'] == {'typeURI': 'service/compute/os-keypairs', 'id': 'k',
                                  'name': 'os_compute_api:os-keypairs:create'}
    assert accepted['initiator']['project_id'] == client.project_id
    assert accepted['initiator']['host'] == {'address': '127.0.0.1'}
    assert f'correlation_id?value={made.headers["x-openstack-request-id"]}' in accepted['tags']
    seals = [(seal['target']['id'], seal['attachments'][0]['content']) for seal in told('audit.seal')]
    assert ('api', str(head)) in seals
    assert CANARY not in json.dumps(notifications.told(), default=str)


def test_a_project_reads_what_administrators_do_to_its_servers(cloud):
    admin, client = cloud.admin(), cloud.client()
    server = client.boot(client.upload_image())
    client.wait_for(server['id'])
    answer = admin.put(f'/servers/{server["id"]}', {'server': {'name': 'renamed'}})
    own, theirs = of(answer, client), of(answer, admin)
    assert len(own) == len(theirs) == 1 and len(of(answer, admin, '&all_projects=true')) == 2
    assert (own[0]['user_id'], own[0]['project_id'], own[0]['target_id']) == (
        admin.user_id, client.project_id, server['id'])
    assert (own[0]['outcome'], own[0]['code'], own[0]['reason']) == ('accepted', 200, 'ByOtherProject')
    assert own[0]['remote_address'] is None and own[0]['roles'] == []
    assert theirs[0]['remote_address'] and theirs[0]['reason'] is None
    refused = admin.post(f'/servers/{server["id"]}/action', {'confirmResize': None})
    assert refused.status_code == 409 and [row['outcome'] for row in of(refused, client)] == ['failed']
    missing = cloud.client().put(f'/servers/{uuid.uuid4()}', {'server': {'name': 'x'}})
    assert missing.status_code == 404 and len(of(missing, client)) == 1
