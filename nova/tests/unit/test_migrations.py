"""The revisions of both schemas, on SQLite; the other databases are in integration/test_databases.py."""
import re
import time

import pytest

from nova import exception
from nova.db import engine
from nova.db import schema as migration
from nova.tests import schemas


@pytest.fixture(params=list(migration.BRANCHES))
def branch(request):
    return request.param


def test_revisions_are_one_line(branch):
    """``head`` goes by the file names: numbers without gaps, each after the one before."""
    names = sorted(path.stem for path in migration.directory(branch).glob(f'{branch}_*.py'))
    assert names == [f'{branch}_expand_{number:04d}' for number in range(1, len(names) + 1)]
    assert migration.head(branch) == names[-1]
    for before, name in zip([None, *names], names):
        text = (migration.directory(branch) / f'{name}.py').read_text()
        assert re.search(r"^revision = '(.*)'", text, re.M).group(1) == name
        assert re.search(r'^down_revision = (.*)', text, re.M).group(1) == repr(before)


def test_a_migrated_schema_is_the_one_of_the_code(tmp_path, branch):
    db = engine.Database(f'sqlite:///{tmp_path}/x.sqlite')
    migration.sync(db, branch)
    assert migration.differences(db, branch) == []
    made = engine.Database(f'sqlite:///{tmp_path}/made.sqlite')
    migration.metadata(branch).create_all(made.engine)
    assert schemas.reflected(db) == schemas.reflected(made)


def test_a_difference_is_found(tmp_path, branch):
    """The comparison that the other tests trust."""
    db = engine.Database(f'sqlite:///{tmp_path}/x.sqlite')
    migration.sync(db, branch)
    table = sorted(migration.metadata(branch).tables)[0]
    with db.writer() as conn:
        conn.exec_driver_sql(f'DROP TABLE {table}')
    assert [change[0] for change in migration.differences(db, branch)][0] == 'add_table'


def test_a_stale_schema_is_refused_with_the_command(tmp_path, branch):
    db = engine.Database(f'sqlite:///{tmp_path}/x.sqlite')
    with pytest.raises(exception.DatabaseNotReady) as caught:
        migration.check(db, branch)
    assert migration.BRANCHES[branch][1] in str(caught.value) and 'none' in str(caught.value)
    migration.sync(db, branch)
    with db.writer() as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = 'other'")
    with pytest.raises(exception.DatabaseNotReady, match='other'):
        migration.check(db, branch)


def test_a_checked_schema_costs_little(tmp_path, branch):
    db = engine.Database(f'sqlite:///{tmp_path}/x.sqlite')
    migration.sync(db, branch)
    begun = time.thread_time()
    migration.sync(db, branch)
    assert time.thread_time() - begun < 0.05
