"""The archive of deleted servers on the databases that let two work at once."""
import pytest

from nova.db import engine
from nova.db import schema as migration
from nova.db.servers import archive
from nova.tests import long_runs
from nova.tests.integration import servers
from nova.tests.support import archive as test_archive


@pytest.mark.parametrize('kind', long_runs.rest(['mariadb', 'postgresql']))
def test_parallel_archives_and_a_purge_lose_no_row(kind):
    with servers.SHARED[kind]() as url_of:
        db = engine.Database(url_of('archive'))
        try:
            migration.sync(db, 'cell')
            rows = [test_archive.deleted(number, number) for number in range(1, 31)]
            with db.writer() as conn:
                test_archive.fill(conn, rows)
            test_archive.race(db, rows)
            before = rows[9]['deleted_at']
            assert archive.purge(db, before)['shadow_instances'] == 9
            assert archive.purge(db)['shadow_instances'] == 21
            assert archive.audits(db, rows[1]['deleted_at']) == {'task_log': 1}
            assert db.run(archive.without_server) == {}
        finally:
            db.dispose()
