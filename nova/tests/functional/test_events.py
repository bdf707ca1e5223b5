"""GET /os-events: server-sent events of servers' states."""
import datetime
import json
import socket
import threading
import time

import pytest
import requests
import sqlalchemy as sa

from nova import context as nova_context
from nova import utils
from nova.api.projects import events
from nova.db import engine
from nova.db.servers import instances
from nova.db.tables import api as tables_api
from nova.tests import schemas
from nova.tests.functional import base
from nova.tests.functional import cloud as whole
from nova.tests.functional import servers


@pytest.fixture
def running(tmp_path):
    with whole.running(tmp_path, api__event_streams=4) as cloud:
        yield cloud


class Follower:
    """A client in a thread: ``events`` are the (id, name, document) that have come."""

    def __init__(self, client, query='', **headers):
        self.answer = client.get('/os-events' + query, stream=True, headers=headers, timeout=30)
        self.events, self.ended = [], threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        event = {}
        try:
            for line in self.answer.iter_lines(chunk_size=1, decode_unicode=True):
                if line:
                    name, _, value = line.partition(': ')
                    event[name] = value
                elif 'data' in event:
                    self.events.append((event.get('id'), event['event'], json.loads(event['data'])))
                    event = {}
        except (requests.RequestException, AttributeError):
            pass                              # the connection was closed under it
        self.ended.set()

    def wait_for(self, condition, seconds=120):
        deadline = time.monotonic() + seconds
        while True:
            for found in list(self.events):
                if condition(found[2].get('server')):
                    return found
            assert time.monotonic() < deadline, self.events
            time.sleep(0.02)

    def close(self):
        """Go away as a killed client does; close() would wait for the thread that reads."""
        self.answer.raw.connection.sock.shutdown(socket.SHUT_RDWR)


def test_events_describe_the_life_of_a_server(running):
    client = running.client()
    image = client.upload_image()
    follower = Follower(client)
    assert follower.answer.status_code == 200
    assert follower.answer.headers['Content-Type'] == 'text/event-stream'
    server = client.boot(image, name='told')
    _id, name, document = follower.wait_for(lambda it: it['id'] == server['id'] and it['status'] == 'ACTIVE')
    assert name == 'server'
    assert document['server'] == {
        'id': server['id'], 'name': 'told', 'tenant_id': client.project_id, 'status': 'ACTIVE',
        'OS-EXT-STS:vm_state': 'active', 'OS-EXT-STS:task_state': None, 'OS-EXT-STS:power_state': 1, 'progress': 0,
        'updated': document['server']['updated']}
    client.delete(f'/servers/{server["id"]}')
    follower.wait_for(lambda it: it['status'] == 'DELETED')
    told = [(number, it['server']['id'], it['server']['status']) for number, _name, it in follower.events]
    assert len(told) == len(set(told)), 'an event came twice'
    follower.close()


def test_projects_see_their_own_and_administrators_all(running):
    client, admin = running.client(), running.admin()
    image = client.upload_image(visibility='private')
    mine, all_projects = Follower(admin), Follower(admin, '?all_tenants=1')
    server = client.boot(image)
    all_projects.wait_for(lambda it: it['id'] == server['id'])
    time.sleep(2 * events.POLL_S)
    assert mine.events == []
    assert client.get('/os-events?all_tenants=1').status_code == 403
    for follower in (mine, all_projects):
        follower.close()


def test_only_so_many_streams_and_they_are_given_back(running):
    client = running.client()
    followers = [Follower(client), Follower(client)]
    refused = client.get('/os-events')
    assert refused.status_code == 429 and refused.headers['Retry-After'] == str(events.BUSY_S)
    others = [Follower(running.admin()), Follower(running.admin())]          # one project does not take all
    assert [each.answer.status_code for each in others] == [200, 200]
    assert client.get('/servers').status_code == 200
    image = client.upload_image()
    followers[0].close()
    server = client.boot(image)                       # what is to be told shows that the client is gone
    followers[1].wait_for(lambda it: it['id'] == server['id'] and it['status'] == 'ACTIVE')
    deadline = time.monotonic() + 120
    while client.get('/os-events', stream=True, timeout=30).status_code != 200:
        client.put(f'/servers/{server["id"]}', {'server': {'name': 'again'}})
        assert time.monotonic() < deadline
        time.sleep(0.2)
    followers[1].close()


def owner_of(running, name):
    """(client of a new user in a new project, id of the role, path of its assignment)"""
    admin = running.admin()
    made = {kind: admin.post(f'/identity/v3/{kind}s', {kind: {'name': name, **more}}).json()[kind]['id']
            for kind, more in (('project', {}), ('user', {'password': 'secret-of-' + name}))}
    roles = {role['name']: role['id'] for role in admin.get('/identity/v3/roles').json()['roles']}
    paths = {role: f'/identity/v3/projects/{made["project"]}/users/{made["user"]}/roles/{roles[role]}'
             for role in ('member', 'admin')}
    for path in paths.values():
        assert admin.put(path).status_code == 204
    client = whole.Client(running.url, name, 'secret-of-' + name, name)
    return client, made, paths


LOSSES = {
    'logout': lambda admin, client, made, paths: client.request(
        'DELETE', '/identity/v3/auth/tokens', headers={'X-Subject-Token': client.token}),
    'role': lambda admin, client, made, paths: admin.delete(paths['admin']),
    'password': lambda admin, client, made, paths: admin.request(
        'PATCH', f'/identity/v3/users/{made["user"]}', {'user': {'password': 'another-secret-1'}}),
    'user disabled': lambda admin, client, made, paths: admin.request(
        'PATCH', f'/identity/v3/users/{made["user"]}', {'user': {'enabled': False}}),
    'user deleted': lambda admin, client, made, paths: admin.delete(f'/identity/v3/users/{made["user"]}'),
    'project': lambda admin, client, made, paths: admin.request(
        'PATCH', f'/identity/v3/projects/{made["project"]}', {'project': {'enabled': False}}),
}


def test_a_stream_ends_when_its_caller_lost_access(tmp_path, monkeypatch):
    """It went on for up to 300 s after a logout, and an administrator's went on to tell of all projects."""
    monkeypatch.setattr(events, 'CHECK_S', 1)
    monkeypatch.setattr(events, 'KEEPALIVE_INTERVAL_S', 1)
    with whole.running(tmp_path, api__event_streams=40, identity__validation_cache_time=300) as running:
        admin = running.admin()
        callers = {loss: owner_of(running, f'caller-{number}') for number, loss in enumerate((*LOSSES, 'none'))}
        followers = {loss: Follower(client, '?all_tenants=1') for loss, (client, *_more) in callers.items()}
        assert {follower.answer.status_code for follower in followers.values()} == {200}
        time.sleep(2.5)
        assert not any(follower.ended.is_set() for follower in followers.values())
        for loss, lose in LOSSES.items():
            assert lose(admin, *callers[loss]).status_code < 300, loss
        for loss in LOSSES:
            assert followers[loss].ended.wait(10), loss
        assert not followers['none'].ended.is_set()
        followers['none'].close()


def test_a_stop_does_not_wait_for_streams(tmp_path):
    with whole.running(tmp_path) as cloud:
        follower = Follower(cloud.client())
        begin = time.monotonic()
        assert cloud.stop(60)
        assert time.monotonic() - begin < 30
        assert follower.ended.wait(20)


# ---- what came while nobody listened

@pytest.fixture
def api(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def read(fixture, last=None, query='', client=None, monkeypatch=None):
    """The events of a stream that ends after its first look."""
    stopping = threading.Event()
    stopping.set()
    answer = (client or fixture.client()).get(
        '/os-events' + query, headers={'Last-Event-ID': str(last)} if last is not None else {},
        environ={'nova.stopping': stopping})
    if answer.status != 200:
        return answer
    found = []
    for block in answer.body.decode().split('\n\n'):
        event = dict(line.partition(': ')[::2] for line in block.split('\n') if line)
        if 'data' in event:
            found.append((event.get('id'), event['event'], json.loads(event['data'])))
    return found


def number(moment):
    return (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def test_a_stream_is_taken_up_where_it_ended(api):
    start = utils.utcnow() - datetime.timedelta(minutes=1)
    old = api.add_server(1, updated_at=start - datetime.timedelta(hours=1))
    kept = [api.add_server(10 + n, updated_at=start + datetime.timedelta(seconds=10 * n)) for n in range(3)]
    other = api.add_server(20, project_id='c' * 32, updated_at=start)
    gone = servers.server_rows.row(30, project_id=base.PROJECT, updated_at=start, deleted_at=start)
    api.add_servers(gone, deleted=True)
    found = read(api, number(start))
    assert {it['server']['id'] for _id, _name, it in found} == {*kept, gone['uuid']}
    assert [int(at) for at, _name, _it in found] == sorted(int(at) for at, _name, _it in found)
    assert {it['server']['status'] for _id, _name, it in found if it['server']['id'] == gone['uuid']} == {'DELETED'}
    later = read(api, number(start + datetime.timedelta(seconds=17)))
    assert {it['server']['id'] for _id, _name, it in later} == {kept[2]}
    everything = read(api, number(start), '?all_tenants=true', api.admin())
    assert {it['server']['id'] for _id, _name, it in everything} == {*kept, gone['uuid'], other}
    assert old not in {it['server']['id'] for _id, _name, it in everything}
    assert read(api) == []


def test_a_change_that_is_committed_late_is_told(api):
    feed = events._Feed(api.services, nova_context.ALL_PROJECTS, None)
    time.sleep(0.01)
    first, second = api.add_server(1), api.add_server(2)
    with api.cell_db.writer() as conn:
        instances.update(conn, first, {'vm_state': 'stopped'})
    assert first in {row['uuid'] for row in feed.new()}
    with api.cell_db.writer() as conn:                # stamped before what has been told already
        instances.update(conn, second, {'vm_state': 'stopped'})
        conn.exec_driver_sql('UPDATE instances SET updated_at = ? WHERE uuid = ?', (
            str(utils.utcnow() - datetime.timedelta(seconds=2)), second))
    assert [row['uuid'] for row in feed.new()] == [second]
    assert feed.new() == []


def test_more_changes_than_a_page_at_one_moment(api):
    now = utils.utcnow()
    api.add_servers(*[servers.server_rows.row(n, project_id=base.PROJECT, updated_at=now) for n in range(1200)])
    assert len(read(api, number(now))) == 1200


def test_more_changes_than_a_page_within_the_overlap(api):
    """The page that is looked at again was full of what had been told, and nothing newer was ever found."""
    start = utils.utcnow() - datetime.timedelta(seconds=60)
    moments = [start + datetime.timedelta(milliseconds=n) for n in range(2500)]
    api.add_servers(*[servers.server_rows.row(n, project_id=base.PROJECT, updated_at=moment)
                      for n, moment in enumerate(moments)])
    feed, told = events._Feed(api.services, nova_context.ALL_PROJECTS, start), []
    while found := feed.new():
        told += [row['changed_at'] for row in found]
    assert told == moments


@pytest.fixture
def second(api, tmp_path):
    """The database of a second cell."""
    url = f'sqlite:///{tmp_path}/second.sqlite'
    made = engine.Database(url)
    schemas.create(made, 'cell')
    with api.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.cells).values(
            uuid='2' * 36, name='second', database_url=url, transport_url='', disabled=False))
    api.services.cells.refresh()
    yield made
    made.dispose()


def test_a_cell_with_many_changes_is_not_overtaken(api, second):
    start = utils.utcnow() - datetime.timedelta(seconds=60)
    api.add_servers(*[servers.server_rows.row(n, updated_at=start + datetime.timedelta(milliseconds=10 * n))
                      for n in range(1500)])
    last = servers.server_rows.row(1, updated_at=start + datetime.timedelta(seconds=50))
    with second.writer() as conn:
        servers.server_rows.insert(conn, [last])
    feed = events._Feed(api.services, nova_context.ALL_PROJECTS, start)
    assert sum(len(feed.new()) for _ in range(4)) == 1501


def test_events_of_a_cell_that_was_down_are_delivered_later(api, second):
    start = utils.utcnow() - datetime.timedelta(seconds=60)
    feed = events._Feed(api.services, nova_context.ALL_PROJECTS, start)
    other = api.services.cells.all()[1]
    opened, other._db = other.db, engine.Database('sqlite:////nowhere/cell.sqlite')
    early, late = (servers.server_rows.row(number, updated_at=start + datetime.timedelta(seconds=seconds))
                   for number, seconds in ((1, 10), (2, 40)))
    api.add_servers(late)
    assert [row['uuid'] for row in feed.new()] == [late['uuid']] and feed.new() == []
    other._db = opened
    other.rest(0)
    with second.writer() as conn:
        servers.server_rows.insert(conn, [early])
    assert [row['uuid'] for row in feed.new()] == [early['uuid']] and feed.new() == []


def test_event_stream_before_the_history_starts_with_a_reset(api):
    found = read(api, number(utils.utcnow() - datetime.timedelta(days=4000)))
    assert found[0] == (None, 'reset', {})


@pytest.mark.parametrize('last', ['x', '-1', '1.5', '9' * 17, '٣'])
def test_invalid_event_id_is_refused(api, last):
    assert read(api, last).status == 400
