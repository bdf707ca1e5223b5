"""What all API processes share, on MariaDB and PostgreSQL: request rates, quotas of users, pages over cells."""
import threading

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.projects import quotas
from nova.db.projects import rate_limits
from nova.db.servers import listing
from nova.db.tables import api as tables_api
from nova.tests import server_rows
from nova.tests.integration import servers

SECOND = 1_000_000
PROJECT, USER = 'p' * 32, 'u' * 32


@pytest.fixture(scope='module', params=[name for name in servers.SHARED if name != 'sqlite'])
def make(request):
    """function(name, branch) -> migrated Database, on one of the servers."""
    with servers.databases(request.param) as database:
        yield database


@pytest.fixture(scope='module')
def api_db(make):
    return make('shared_api', 'api')


def _together(count, function):
    threads = [threading.Thread(target=function, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_transaction_sees_what_another_left_before_its_lock(api_db):
    """Also after a SELECT: the status of a volume came from attachments that were gone."""
    found = sa.select(tables_api.quota_locks.c.project_id).where(tables_api.quota_locks.c.project_id.like('seen-%'))
    with api_db.writer() as conn:
        assert conn.execute(found).all() == []
        api_db.run(quotas.lock, 'seen-1')
        assert conn.execute(found).scalars().all() == ['seen-1']


def test_a_rate_is_never_exceeded(api_db):
    """Rows are missing at first, so that the first requests race to make them."""
    now, taken = 1_800_000_000 * SECOND, []
    steps = {'one': (SECOND, 20 * SECOND), 'two': (SECOND, 50 * SECOND)}

    def ask(_number):
        for _ in range(10):
            for _attempt in range(2):
                try:
                    api_db.run(rate_limits.take, PROJECT, steps, now)
                    taken.append(1)
                    break
                except rate_limits.NotTaken:
                    api_db.run(rate_limits.begin, PROJECT, steps, now)
    _together(6, ask)
    assert len(taken) == 20
    with api_db.reader() as conn:
        assert rate_limits.full_at(conn, PROJECT, steps) == {'one': now + 20 * SECOND, 'two': now + 20 * SECOND}
    with pytest.raises(rate_limits.NotTaken):
        api_db.run(rate_limits.take, PROJECT, steps, now + SECOND - 1)
    api_db.run(rate_limits.take, PROJECT, steps, now + SECOND)
    api_db.run(rate_limits.prune, now + 100 * SECOND)
    with api_db.reader() as conn:
        assert rate_limits.full_at(conn, PROJECT, steps) == {}


def test_users_cannot_exceed_their_quota_together(api_db):
    conf, refused = nova_conf.new(files=[], quota__instances=100), []
    api_db.run(quotas.set_limits, PROJECT, {'instances': 5}, USER)

    def create(number):
        def run(conn):
            limits = quotas.limits_of(conn, conf, PROJECT)
            quotas.check_and_use(conn, limits, PROJECT, USER, 1, 1, 1)
            conn.execute(sa.insert(tables_api.instance_mappings).values(
                instance_uuid=f'{number:036}', cell_uuid='c', project_id=PROJECT, user_id=USER, vcpus=1, memory_mb=1,
                created_at=utils.utcnow()))
        try:
            api_db.run(run)
        except exception.QuotaExceeded:
            refused.append(1)
    _together(9, create)
    assert len(refused) == 4


def test_plain_text_is_compared_exactly(make):
    """Letters' case counts, as in an expression, whatever the database's own comparison is."""
    db = make('exact', 'cell')
    for number, name in enumerate(('web', 'Web', 'WEB', 'web ', 'wéb', 'web1', 'aweb')):
        with db.writer() as conn:
            server_rows.insert(conn, [server_rows.row(number, display_name=name)])

    def found(pattern):
        with db.reader() as conn:
            query = listing.Query(nova_context.ALL_PROJECTS, matches={'display_name': pattern},
                                         sort=(('created_at', 'asc'),))
            return [row['display_name'] for row in listing.page(conn, query, ('display_name',))]
    assert found('^web$') == ['web'] == found('^we[b]$')
    assert found('^web') == ['web', 'web ', 'web1'] == found('^we[b]')
    assert found('web') == ['web', 'web ', 'web1', 'aweb'] == found('we[b]')


@pytest.mark.parametrize('sort', [
    (('created_at', 'desc'),), (('display_name', 'asc'),), (('availability_zone', 'desc'), ('display_name', 'desc')),
    (('locked', 'asc'), ('hostname', 'asc'))])
def test_pages_join_over_cells(make, sort):
    """The databases' own order of texts differs from Python's: every cell must answer in one that merging knows."""
    names = ['a', 'B', 'ä', 'Z', '_', 'Ä', 'z', 'aa', 'Aa', 'é', '中', '𝄞']
    label = '_'.join(name for name, _ in sort)[:20]
    cells = [make(f'{label}_{number}', 'cell') for number in range(2)]
    for number, name in enumerate(names * 2):
        row = server_rows.row(number, display_name=name, hostname=name, locked=number % 3 == 0,
                              availability_zone=(None, 'b', 'A')[number % 3])
        with cells[number % 2].writer() as conn:
            server_rows.insert(conn, [row])

    def page(limit, marker):
        query = listing.Query(nova_context.ALL_PROJECTS, sort=sort, limit=limit, marker=marker, several=True)
        place = None
        pages = []
        for db in cells:
            with db.reader() as conn:
                place = place or (listing.place_of(conn, query) if marker else None)
        for db in cells:
            with db.reader() as conn:
                pages.append(listing.page(conn, query, ('uuid',), place))
        return [row['uuid'] for row in listing.merge(pages, query)]
    whole, found = page(None, None), []
    while part := page(5, found[-1] if found else None):
        found += part
    assert found == whole and len(set(found)) == len(names) * 2
