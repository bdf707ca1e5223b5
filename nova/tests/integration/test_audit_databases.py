"""The audit log on database servers: writers, sealers and corrections at once, expiry, and what verifying finds."""
import datetime
import threading

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import notify
from nova import utils
from nova.db import schema as migration
from nova.db.audit import log as recorder
from nova.db.audit import records as audit
from nova.db.tables.audit import records
from nova.tests import long_runs
from nova.tests.integration import servers

KEY = b'k' * 32
WRITERS, SEALERS, EACH = 4, 3, 60 if long_runs.LONG else 24


@pytest.fixture(scope='module', params=list(servers.SHARED))
def make(request):
    with servers.databases(request.param) as database:
        yield database


def run(*functions):
    errors = []

    def caught(function):
        try:
            function()
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=caught, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


@pytest.mark.parametrize('branch', migration.BRANCHES)
def test_parallel_writers_and_sealers_keep_the_audit_chain_valid(make, branch):
    db = make(f'audit_{branch}', branch)
    auditor, writing = recorder.Auditor(db, notify.OFF), threading.Event()

    def write():
        for number in range(EACH):
            record = recorder.Record('POST', '/servers', 'create', target_type='servers', code=202)
            with recorder.recording(record):
                db.run(lambda conn: recorder.about(f'é{number}'))
            if number % 3 == 0:                              # some fail behind their first transaction
                auditor.finish(record, 500, ValueError())

    def seal():
        while not writing.is_set() or db.run(audit.seal, KEY)[0]:
            db.run(audit.seal, KEY)

    def all_writers():
        run(*[write] * WRITERS)
        writing.set()
    run(all_writers, *[seal] * SEALERS)
    found = audit.verify(db, KEY)
    assert found.wrong is None and found.waiting == 0 and found.last >= WRITERS * EACH
    with db.reader() as conn:
        outcomes = conn.execute(sa.select(records.c.outcome, sa.func.count()).group_by(records.c.outcome)).all()
    assert dict(map(tuple, outcomes))['failed'] == WRITERS * EACH // 3
    later = utils.utcnow() + datetime.timedelta(days=1)
    assert db.run(audit.expire, KEY, later) == found.last
    assert audit.verify(db, KEY).wrong is None
    db.run(audit.insert, [{**record_row(number)} for number in range(5)])
    db.run(audit.seal, KEY)
    assert audit.verify(db, KEY).wrong is None
    with db.writer() as conn:
        conn.execute(sa.update(records).where(records.c.seq == found.last + 3).values(user_id='x'))
    assert audit.verify(db, KEY).wrong.startswith(f'Record {found.last + 3} (')


def record_row(number):
    return recorder.Record('POST', '/servers', f'create {number}', code=202).row()


def test_a_transaction_that_is_rolled_back_takes_its_record_with_it(make):
    db = make('audit_rolled', 'api')

    def fail(conn):
        conn.execute(sa.text('SELECT nothing FROM nowhere'))
    record = recorder.Record('POST', '/x', 'x', code=200)
    with recorder.recording(record):
        with pytest.raises((db_exc.DBError, sa.exc.DBAPIError)):         # some errors of statements come as they are
            db.run(fail)
        assert not record.written
        db.run(lambda conn: None)
    assert record.written
    with db.reader() as conn:
        assert len(audit.page(conn, {})) == 1
