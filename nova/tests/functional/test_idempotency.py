"""Idempotency-Key: the same request twice is one request."""
import datetime
import sqlite3
import threading

import pytest
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.api import idempotency
from nova.api.servers import create_facts
from nova.db import engine
from nova.db.projects import attempts
from nova.db.servers import instances
from nova.tests import db_faults
from nova.tests.support import idempotency as shared_idempotency
from nova.tests.support.idempotency import KEYS
from nova.tests.support.idempotency import break_off
from nova.tests.support.idempotency import create
from nova.tests.support.idempotency import rows
from nova.tests.support.idempotency import uuids

cloud = shared_idempotency.cloud


def test_the_first_answer_is_given_again(cloud):
    first, again = create(cloud, 'one'), create(cloud, 'one')
    assert first.status == again.status == 202
    assert again.body == first.body and again.json['server']['adminPass']
    assert again.headers['location'] == first.headers['location']
    assert 'idempotency-replayed' not in first.headers and again.headers['idempotency-replayed'] == 'true'
    assert again.headers['x-openstack-request-id'] != ''
    assert len(uuids(cloud)) == 1
    assert [name for name, _host, _arguments in cloud.conductor.sent] == ['build_instances']


@pytest.mark.parametrize('other', [
    {'body': {'server': {'name': 'other'}}}, {'path': '/servers?x=1'}, {'version': '2.20'}],
    ids=['body', 'query', 'version'])
def test_another_request_with_the_key_is_a_conflict(cloud, other):
    assert create(cloud, 'one').status == 202
    body = other.pop('body', None)
    if body:
        body = cloud.body(**body['server'])
    answer = create(cloud, 'one', body, **other)
    assert answer.status == 409
    assert answer.fault[2] == 'This Idempotency-Key was already used for another request.'
    assert len(uuids(cloud)) == 1


def test_projects_have_keys_of_their_own(cloud):
    other = cloud.client(project='b' * 32)
    first = create(cloud, 'one').json['server']['id']
    second = other.post('/servers', cloud.body(), headers={'Idempotency-Key': 'one'}).json['server']['id']
    assert first != second


def test_users_are_not_given_each_others_keys(cloud):
    """A private key went to whoever of the project sent the same name with the same key."""
    body, headers = {'keypair': {'name': 'mine'}}, {'Idempotency-Key': 'one'}
    mine = cloud.client().post('/os-keypairs', body, headers=headers)
    other = cloud.client(user='o' * 32).post('/os-keypairs', body, headers=headers)
    assert mine.json['keypair']['private_key'] and other.status == 409
    server = create(cloud, 'two').json['server']
    again = cloud.client(user='o' * 32).post('/servers', cloud.body(), headers={'Idempotency-Key': 'two'})
    assert again.status == 202 and again.json['server'] == server          # servers are the project's


def test_a_refused_request_may_be_sent_again(cloud):
    assert create(cloud, 'one', cloud.body(flavorRef='none')).status == 400
    assert rows(cloud) == []
    assert create(cloud, 'one').status == 202


@pytest.mark.parametrize('key', ['', 'x' * 256, 'tab\t', 'ü'])
def test_invalid_idempotency_key_is_refused(cloud, key):
    assert create(cloud, key).status == 400


def test_the_database_tells_no_answer_and_no_key(cloud):
    answer = create(cloud, 'correct horse')
    (row,) = rows(cloud)
    text = repr(row)
    assert 'correct horse' not in text
    assert answer.json['server']['adminPass'] not in text and answer.json['server']['id'] not in text


def test_key_pairs_have_it_too(cloud):
    body = {'keypair': {'name': 'mine'}}
    first = create(cloud, 'k', body, '/os-keypairs')
    again = create(cloud, 'k', body, '/os-keypairs')
    assert first.json['keypair']['private_key'] == again.json['keypair']['private_key']
    assert create(cloud, 'k2', body, '/os-keypairs').status == 409


@pytest.mark.threads
def test_only_one_of_concurrent_requests_with_a_key_creates_servers(cloud):
    answers = []

    def send():
        answers.append(create(cloud, 'one'))
    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} <= {202, 409} and len(uuids(cloud)) == 1
    for answer in answers:
        if answer.status == 409:
            assert answer.headers['retry-after'] == '1'
    assert create(cloud, 'one').json['server']['id'] == uuids(cloud).pop()


@pytest.mark.parametrize('where', ['send', '_accepted'])
def test_repeated_request_after_a_crash_returns_the_stored_server(cloud, monkeypatch, where):
    break_off(cloud, monkeypatch, where)
    made = uuids(cloud)
    answer = create(cloud, 'one')
    assert answer.status == 202 and {answer.json['server']['id']} == made == uuids(cloud)
    assert answer.json['server']['adminPass']
    assert create(cloud, 'one').body == answer.body


def test_repeated_request_after_a_crash_completes_a_partly_stored_server(cloud, monkeypatch):
    break_off(cloud, monkeypatch, '_insert')
    half = uuids(cloud)
    answer = create(cloud, 'one')
    assert answer.status == 202 and uuids(cloud) == half == {answer.json['server']['id']}
    assert cloud.row(half.pop())['vm_state'] == 'building'


@pytest.mark.threads
@pytest.mark.parametrize('where', ['_accepted', '_insert'])
def test_repeated_request_after_a_crash_finds_its_volume_reserved(cloud, monkeypatch, where):
    volume_id = cloud.add_volume()
    body = cloud.body(block_device_mapping_v2=[{'source_type': 'volume', 'destination_type': 'volume',
                                                'uuid': volume_id, 'boot_index': -1}])
    break_off(cloud, monkeypatch, where, body)
    assert cloud.services.volumes.get(cloud.owner, volume_id)['status'] == 'reserved'
    made = uuids(cloud)
    answer = create(cloud, 'one', body)
    assert answer.status == 202 and {answer.json['server']['id']} == made == uuids(cloud)
    assert cloud.services.volumes.get(cloud.owner, volume_id)['status'] == 'reserved'
    assert cloud.services.volumes.attachments_of(cloud.owner, made.pop()) and cloud.row(answer.json['server']['id'])


def test_repeated_request_after_a_crash_needs_no_key_pair(cloud, monkeypatch):
    assert cloud.client().post('/os-keypairs', {'keypair': {'name': 'mine'}}).status == 200
    body = cloud.body(key_name='mine')
    break_off(cloud, monkeypatch, '_accepted', body)
    assert cloud.client().delete('/os-keypairs/mine').status == 202
    answer = create(cloud, 'one', body)
    assert answer.status == 202 and {answer.json['server']['id']} == uuids(cloud)


@pytest.mark.parametrize('committed', [True, False], ids=['committed', 'not'])
def test_a_server_whose_commit_nobody_answered_is_made_once(cloud, committed):
    """Its mapping was taken back, and the row, if it was there, was a server that its list alone knew; the key was
    free, and asking again made another one.
    """
    db_faults.lose_commit(cloud.cell_db, committed)
    assert create(cloud, 'one').status == 503
    made, = uuids(cloud)
    with cloud.cell_db.reader() as conn:
        assert bool(instances.existing(conn, [made])) is committed
    with cloud.api_db.writer() as conn:
        conn.execute(sa.update(KEYS).values(
            attempted_at=utils.utcnow() - datetime.timedelta(seconds=attempts.ABANDONED_S + 1)))
    answer = create(cloud, 'one')
    assert answer.status == 202 and {answer.json['server']['id']} == {made} == uuids(cloud)
    assert cloud.row(made)['vm_state'] == 'building'


def test_a_server_that_was_certainly_not_stored_is_not_counted(cloud, monkeypatch):
    monkeypatch.setattr(engine, 'RECONNECT_PAUSES_S', ())

    def lose(_cursor, statement, _parameters, _context):
        if statement.startswith('INSERT INTO instances '):
            raise sqlite3.OperationalError('database system is shutting down')
    sa.event.listen(cloud.cell_db.engine, 'do_execute', lose)
    sa.event.listen(cloud.cell_db.engine, 'do_executemany', lose)
    assert create(cloud, 'one').status == 503
    assert uuids(cloud) == set() and rows(cloud) == []


def test_keys_expire(cloud):
    create(cloud, 'one')
    with cloud.api_db.writer() as conn:
        assert attempts.IDEMPOTENCY_KEYS.expire(conn, utils.utcnow() - datetime.timedelta(minutes=5)) == 0
        assert attempts.IDEMPOTENCY_KEYS.expire(conn, utils.utcnow() + datetime.timedelta(seconds=5)) == 1
    assert rows(cloud) == []


def test_an_expired_key_is_a_new_one(cloud):
    """Also while the server of its first time is there."""
    first = create(cloud, 'one').json['server']['id']
    with cloud.api_db.writer() as conn:
        attempts.IDEMPOTENCY_KEYS.expire(conn, utils.utcnow() + datetime.timedelta(seconds=5))
    answer = create(cloud, 'one')
    assert answer.status == 202 and answer.json['server']['id'] != first and len(uuids(cloud)) == 2


def test_a_superseded_request_rolls_nothing_back(cloud, monkeypatch):
    """A request that hangs is taken over; when it ends at last, the answer that was given stays."""
    answers = []

    def overtaken(*_args, **_kwargs):
        monkeypatch.undo()
        with cloud.api_db.writer() as conn:
            conn.execute(sa.update(KEYS).values(
                attempted_at=utils.utcnow() - datetime.timedelta(seconds=attempts.ABANDONED_S + 1)))
        answers.append(create(cloud, 'one'))
        raise exception.BadRequest('too late')
    monkeypatch.setattr(create_facts, '_from_api_db', overtaken)
    assert create(cloud, 'one').status == 400
    assert answers[0].status == 202 and create(cloud, 'one').body == answers[0].body
    assert len(uuids(cloud)) == 1


def test_keys_of_a_project_have_a_bound(cloud, monkeypatch):
    """A member could fill the API database with rows of keys: any number, for a day each."""
    monkeypatch.setattr(attempts.IDEMPOTENCY_KEYS, 'most', 2)
    assert [create(cloud, key).status for key in ('one', 'two', 'three')] == [202, 202, 429]
    assert len(rows(cloud)) == 2 == len(uuids(cloud))
    refused = create(cloud, 'three')
    assert 'has 2 idempotency keys' in refused.fault[2] and refused.headers['retry-after'] == '600'
    assert create(cloud, 'one').headers['idempotency-replayed'] == 'true'
    other = cloud.client(project='b' * 32)
    assert other.post('/servers', cloud.body(), headers={'Idempotency-Key': 'three'}).status == 202
    assert cloud.client().post('/servers', cloud.body()).status == 202
    with cloud.api_db.writer() as conn:
        attempts.IDEMPOTENCY_KEYS.expire(conn, utils.utcnow() + datetime.timedelta(seconds=5))
    assert create(cloud, 'three').status == 202


def test_a_long_answer_is_not_kept(cloud, monkeypatch):
    """An answer of any length was: one of many servers' consoles has 100 MiB."""
    monkeypatch.setattr(idempotency, 'MAX_ANSWER', 100)
    assert create(cloud, 'one').status == 202
    assert len(rows(cloud)[0]['answer']) < 2000
    again = create(cloud, 'one')
    assert again.status == 409 and 'too long to be stored' in again.fault[2]
    assert len(uuids(cloud)) == 1


def test_a_long_answer_is_kept_without_its_representation(cloud, monkeypatch):
    monkeypatch.setattr(idempotency, 'MAX_ANSWER', 100)
    headers = {'Idempotency-Key': 'one', 'Prefer': 'return=representation'}
    first, again = (cloud.client().post('/servers', cloud.body(return_reservation_id=True, max_count=2),
                                        headers=headers) for _ in range(2))
    assert first.status == again.status == 202 and len(first.json['servers']) == 2 == len(uuids(cloud))
    assert again.json == {'reservation_id': first.json['reservation_id']}
    assert again.headers['idempotency-replayed'] == 'true'
    assert 'preference-applied' in first.headers and 'preference-applied' not in again.headers
