"""The chain of the audit log: what was done to it afterwards is found, and named."""
import datetime
import itertools
import uuid

import pytest
import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db.audit import records as audit
from nova.db.tables.audit import chain
from nova.db.tables.audit import records
from nova.tests import schemas

KEYS = (b'', b'k' * 32)
DAY = datetime.timedelta(days=1)


@pytest.fixture(params=['api', 'cell'])
def db(request, tmp_path):
    database = engine.Database(f'sqlite:///{tmp_path}/log.sqlite')
    schemas.migrate(database, request.param)
    yield database
    database.dispose()


def row(**values):
    return {'uuid': str(uuid.uuid4()), 'created_at': utils.utcnow(), 'method': 'POST', 'route': '/servers',
            'action': 'os_compute_api:servers:create', 'outcome': audit.ACCEPTED, 'code': 202, 'user_id': 'u',
            'project_id': 'p', **values}


def fill(db, count, key, **values):
    for _ in range(count):
        db.run(audit.insert, row(**values))
    while db.run(audit.seal, key)[0]:
        pass


def change(db, number, /, **values):
    with db.writer() as conn:
        conn.execute(sa.update(records).where(records.c.seq == number).values(**values))


def remove(db, *seqs):
    with db.writer() as conn:
        conn.execute(sa.delete(records).where(records.c.seq.in_(seqs)))


def head_of(db):
    with db.reader() as conn:
        return audit.head(conn)


@pytest.mark.parametrize('key', KEYS)
def test_unchanged_audit_log_verifies(db, key):
    assert audit.verify(db, key).wrong is None                    # an empty one, too
    fill(db, 7, key)
    found = audit.verify(db, key)
    assert (found.wrong, found.first, found.last, found.waiting) == (None, 1, 7, 0)
    db.run(audit.insert, row())
    assert audit.verify(db, key).waiting == 1


def test_verification_does_not_depend_on_page_borders(db, monkeypatch):
    monkeypatch.setattr(audit, 'PAGE', 3)
    fill(db, 10, b'')
    assert audit.verify(db, b'').last == 10
    change(db, 8, code=500)
    assert audit.verify(db, b'').wrong.startswith('Record 8 ')


CHANGED = {**dict.fromkeys(('user_id', 'project_id', 'domain_id', 'roles', 'credential_id', 'service_user_id',
                            'remote_address', 'method', 'route', 'action', 'target_type', 'target_id', 'target_part',
                            'reason', 'request_id', 'uuid'), 'x'),
           'outcome': 'denied', 'code': 403, 'created_at': datetime.datetime(2020, 1, 1)}


def test_every_column_is_sealed():
    assert CHANGED.keys() | {'id', 'seq', 'digest'} == {column.name for column in records.columns}


@pytest.mark.parametrize('column', CHANGED)
def test_a_changed_record_is_named(db, column):
    fill(db, 5, b'')
    change(db, 3, **{column: CHANGED[column]})
    assert audit.verify(db, b'').wrong.startswith('Record 3 (')


@pytest.mark.parametrize('key', KEYS)
def test_a_removed_record_is_named(db, key):
    fill(db, 5, key)
    remove(db, 3)
    assert audit.verify(db, key).wrong == 'Record 3 was removed; the next existing record is 4.'


def test_the_first_ones_cannot_be_removed_as_if_they_had_expired(db):
    fill(db, 5, b'')
    remove(db, 1, 2)
    assert audit.verify(db, b'').wrong.startswith('Record 1 was removed')


def test_a_record_that_was_removed_and_closed_up_is_found(db):
    fill(db, 5, b'')
    remove(db, 3)
    change(db, 4, seq=3)
    change(db, 5, seq=4)
    assert audit.verify(db, b'').wrong.startswith('Record 3 (')


def test_an_inserted_record_is_named(db):
    fill(db, 5, b'')
    for seq in (5, 4, 3):
        change(db, seq, seq=seq + 1)
    db.run(audit.insert, row(seq=3, digest='f' * 64))
    wrong = audit.verify(db, b'').wrong
    assert wrong.startswith('Record 3 (') and 'was inserted' in wrong


def test_record_after_the_end_of_the_chain_is_named(db):
    fill(db, 5, b'')
    db.run(audit.insert, row(seq=6, digest='f' * 64))
    assert 'Record 6 (' in audit.verify(db, b'').wrong and 'inserted' in audit.verify(db, b'').wrong


@pytest.mark.parametrize('key', KEYS)
def test_truncated_audit_log_is_detected(db, key):
    fill(db, 5, key)
    remove(db, 4, 5)
    assert audit.verify(db, key).wrong == 'Records 4 to 5 were removed.'


@pytest.mark.parametrize('key', KEYS)
def test_truncation_with_the_seal_is_detected_by_an_external_seal(db, key):
    """Within the database alone nothing shows it."""
    fill(db, 3, key)
    earlier = head_of(db)
    fill(db, 2, key)
    told = head_of(db)
    remove(db, 4, 5)
    with db.writer() as conn:
        conn.execute(sa.update(chain).values(seq=earlier.seq, digest=earlier.digest))
    assert audit.verify(db, key).wrong is None
    assert audit.verify(db, key, [told]).wrong == (
        'Records 4 to 5 were removed; the digest of record 5 was published.')
    with pytest.raises(ValueError):
        db.run(audit.seal, key, told.seq)        # what the conductor that has seen more asks


def rewrite(db, key):
    """What somebody who may write everything does: change a record, and make all digests anew."""
    change(db, 2, user_id='somebody else')
    with db.writer() as conn:
        before = audit.GENESIS
        for one in conn.execute(sa.select(records).order_by(records.c.seq)).mappings().all():
            before = audit.digest_of(one, before, key)
            conn.execute(sa.update(records).where(records.c.id == one['id']).values(digest=before))
        conn.execute(sa.update(chain).values(digest=before))


def test_audit_log_rewritten_without_the_key_is_detected(db):
    fill(db, 5, KEYS[1])
    rewrite(db, b'')
    assert audit.verify(db, KEYS[1]).wrong.startswith('Record 1 (')


def test_without_a_key_a_rewritten_log_is_detected_by_an_external_seal_only(db):
    fill(db, 5, b'')
    told = head_of(db)
    rewrite(db, b'')
    assert audit.verify(db, b'').wrong is None
    assert 'the log was rewritten' in audit.verify(db, b'', [told]).wrong


def test_audit_log_can_be_verified_after_records_expire(db, monkeypatch):
    monkeypatch.setattr(audit, 'PAGE', 4)
    key, now = KEYS[1], utils.utcnow()
    fill(db, 6, key, created_at=now - 9 * DAY)
    fill(db, 3, key, created_at=now - 5 * DAY)
    fill(db, 2, key)
    assert [db.run(audit.expire, key, now - 7 * DAY) for _ in range(3)] == [4, 2, 0]
    found = audit.verify(db, key)
    assert (found.wrong, found.first, found.last) == (None, 7, 13)        # two checkpoints among them
    assert db.run(audit.expire, key, now - 3 * DAY) == 3
    assert audit.verify(db, key).wrong is None
    fill(db, 1, key)
    assert audit.verify(db, key).wrong is None
    remove(db, 10)
    assert audit.verify(db, key).wrong.startswith('Record 10 was removed')


def test_expired_checkpoint_is_replaced_by_a_newer_one(db):
    key, now = b'', utils.utcnow()
    fill(db, 2, key, created_at=now - 9 * DAY)
    db.run(audit.expire, key, now - 7 * DAY)
    assert db.run(audit.expire, key, now + DAY) == 1               # the checkpoint itself
    assert audit.verify(db, key).wrong is None
    with db.reader() as conn:
        assert audit.floor(conn).seq == 3


def test_records_that_wait_do_not_expire(db):
    db.run(audit.insert, row(created_at=utils.utcnow() - 9 * DAY))
    assert db.run(audit.expire, b'', utils.utcnow()) == 0


@pytest.mark.parametrize('seq', [None, 6])
def test_forged_checkpoint_is_named(db, seq):
    """It would let the first records vanish as if they had been kept long enough."""
    key = KEYS[1]
    fill(db, 5, key)
    with db.reader() as conn:
        third = conn.execute(sa.select(records).where(records.c.seq == 3)).mappings().one()
    db.run(audit.insert, row(action=audit.EXPIRED, target_id=f'3:{third["digest"]}', seq=seq, digest=seq and 'f' * 64))
    assert audit.verify(db, key).wrong is not None
    fill(db, 1, key) if seq is None else None                      # the conductor does not make it good
    assert audit.verify(db, key).wrong is not None


def test_a_record_is_corrected_until_it_is_sealed_and_added_to_from_then_on(db):
    first, second = row(), row()
    db.run(audit.insert, first)
    db.run(audit.correct, {**first, 'outcome': audit.FAILED, 'code': 503, 'reason': 'QuotaExceeded'})
    db.run(audit.insert, second)
    fill(db, 0, b'')
    db.run(audit.correct, {**second, 'outcome': audit.FAILED, 'code': 500, 'reason': None})
    fill(db, 0, b'')
    with db.reader() as conn:
        found = audit.page(conn, {})
    assert sorted((one['seq'], one['outcome'], one['code']) for one in found) == [
        (1, 'failed', 503), (2, 'accepted', 202), (3, 'failed', 500)]
    assert audit.verify(db, b'').wrong is None


def test_pages_of_records_follow_each_other(db):
    moment = utils.utcnow()
    fill(db, 5, b'', created_at=moment)
    after, seen = None, []
    with db.reader() as conn:
        for _ in itertools.count():
            found = audit.page(conn, {'project_id': 'p'}, after=after, limit=2)
            if not found:
                break
            seen += [one['uuid'] for one in found]
            after = (found[-1]['created_at'], found[-1]['uuid'])
        assert len(set(seen)) == len(seen) == 5
        assert audit.page(conn, {'project_id': 'other'}) == []
        assert audit.page(conn, {}, since=moment + DAY) == [] == audit.page(conn, {}, until=moment)
        assert audit.place_of(conn, seen[0], {'project_id': 'other'}) is None
