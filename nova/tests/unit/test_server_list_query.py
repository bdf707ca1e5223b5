"""The list query: paging, filters, regular expressions, history."""
import dataclasses
import datetime
import functools

import pytest

from nova import context as nova_context
from nova.db import engine
from nova.db.servers import listing
from nova.db.tables import cell as tables_cell
from nova.tests import server_rows

Query = functools.partial(listing.Query, nova_context.ALL_PROJECTS)


@pytest.fixture(scope='module')
def conn(tmp_path_factory):
    database = engine.Database(f'sqlite:///{tmp_path_factory.mktemp("list")}/cell.sqlite')
    tables_cell.metadata.create_all(database.engine)
    zones = ['a', 'b', None]
    with database.writer() as conn:
        server_rows.insert(conn,
                           [server_rows.row(
                                n, availability_zone=zones[n % 3],
                                tags=f',n{n % 2},' if n % 5 else '', task_state='rebooting'
                                if n ==7 else None, vm_state='stopped' if n ==8 else 'active')
                            for n in range(20)])
        server_rows.insert(conn, [server_rows.row(
            n, vm_state='deleted', deleted_at=server_rows.START) for n in range(20, 24)], deleted=True)
    with database.reader() as conn:
        yield conn
    database.dispose()


def names(conn, **query):
    return [row['display_name'] for row in listing.page(conn, Query(**query), ('display_name',))]


def numbers(*values):
    return [f'server-{value}' for value in values]


def test_servers_are_listed_newest_first(conn):
    assert names(conn, limit=3) == numbers(19, 18, 17)


@pytest.mark.parametrize('rows, count', [('live', 20), ('deleted', 4), ('all', 24)])
@pytest.mark.parametrize('sort', [
    (('created_at', 'desc'),), (('availability_zone', 'asc'), ('display_name', 'desc')),
    (('availability_zone', 'desc'), ('created_at', 'asc')), (('host', 'asc'),), (('locked', 'desc'),)])
def test_pages_join_to_the_whole_list(conn, rows, count, sort):
    whole = listing.page(conn, Query(sort=sort, rows=rows), ('uuid',))
    marker, found = None, []
    while True:
        part = listing.page(conn, Query(sort=sort, rows=rows, marker=marker, limit=3), ('uuid',))
        if not part:
            break
        found += [row['uuid'] for row in part]
        marker = found[-1]
    assert found == [row['uuid'] for row in whole]
    assert len(set(found)) == count


def test_server_list_reads_requested_columns_only(conn):
    row, = listing.page(conn, Query(limit=1), ('uuid', 'metadata'))
    assert set(row) == {'uuid', 'metadata', 'created_at', 'id'}
    assert row['metadata'] == {'role': 'web'}


def test_unknown_marker_is_refused(conn):
    with pytest.raises(listing.MarkerNotFound):
        names(conn, marker='nothing')


def test_marker_of_another_project_is_unknown(conn):
    marker = listing.page(conn, Query(limit=1), ('uuid',))[0]['uuid']
    with pytest.raises(listing.MarkerNotFound):
        names(conn, marker=marker, filters={'project_id': 'other'})


@pytest.mark.parametrize('pattern, expected', [
    ('server-1', [19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 1]), ('^server-1$', [1]), ('^server\\-1$', [1]),
    ('er-19$', [19]), ('server-[34]$', [4, 3]), ('^SERVER-1$', []), ('(?i)^SERVER-1$', [1]), ('^er-1', []),
    ('server.1$', [1]), ('%', []), ('_', [])])
def test_name_is_a_regular_expression(conn, pattern, expected):
    assert names(conn, matches={'display_name': pattern}) == numbers(*expected)


def test_matched_rows_are_paged(conn):
    marker = listing.page(conn, Query(matches={'display_name': '^server-1[789]$'}, limit=1), ('uuid',))
    found = names(conn, matches={'display_name': '^server-1[789]'}, marker=marker[0]['uuid'], limit=1)
    assert found == numbers(18)


def test_matching_reads_on_past_a_batch(conn, monkeypatch):
    monkeypatch.setattr(listing, 'BATCH', 4)
    assert names(conn, matches={'display_name': '-[24]$'}) == numbers(4, 2)


@pytest.mark.parametrize('pattern', ['(', '*a', '(a)\\1', 'a{1000000}'])
def test_invalid_name_pattern_is_refused(conn, pattern):
    with pytest.raises(listing.BadPattern):
        names(conn, matches={'display_name': pattern})


def test_a_hostile_pattern_is_cheap(conn):
    assert names(conn, matches={'display_name': '^(([a-z])+.)+[A-Z]([a-z])+$'}) == []


def test_servers_are_matched_by_address(conn):
    assert names(conn, matches={'ip': r'^10\.0\.0\.8$'}) == numbers(5)
    assert names(conn, matches={'ip6': '^fd00::6$'}) == numbers(5)
    assert names(conn, matches={'ip': 'fd00'}) == []


@pytest.mark.parametrize('filters, expected', [
    ({'status': ['REBOOT']}, [7]), ({'status': ['SHUTOFF']}, [8]),
    ({'status': ['REBOOT', 'SHUTOFF']}, [8, 7]),
    ({'status': ['PAUSED']}, []),
    ({'tags': ['n1'], 'availability_zone': 'a'}, [9, 3]), ({'tags': ['n1', 'n0']}, []),
    ({'not-tags-any': ['n1', 'n0']}, [15, 10, 5, 0]), ({'tags': ['N1']}, []),
    ({'tags-any': ['n1', 'n0'], 'availability_zone': ['b'], 'not-tags': ['n1']}, [16, 4]),
    ({'changes-since': server_rows.START + datetime.timedelta(seconds=18)}, [19, 18]),
    ({'changes-before': server_rows.START + datetime.timedelta(seconds=1)}, [1, 0]),
    ({'task_state': 'rebooting'}, [7]), ({'host': 'nowhere'}, [])])
def test_server_list_filters_select_servers(conn, filters, expected):
    assert names(conn, filters=filters) == numbers(*expected)


def test_every_status_shows_each_server_once(conn):
    from nova import states
    found = [name for status in states.STATUSES for name in names(conn, filters={'status': [status]})]
    assert sorted(found) == sorted(names(conn))


def test_merge_keeps_the_order(conn):
    sort = (('availability_zone', 'desc'), ('created_at', 'asc'))
    query = Query(sort=sort, several=True)
    whole = listing.page(conn, query, ('uuid',))
    assert len(whole) == 20
    assert listing.merge([whole[::2], whole[1::2]], dataclasses.replace(query, limit=7)) == whole[:7]


def test_merge_shows_a_server_once_that_moved_while_the_cells_were_asked(conn):
    query = Query(several=True)
    whole = listing.page(conn, query, ('uuid', 'host'))
    arrived = {**whole[3], 'host': 'its own now'}
    merged = listing.merge([whole, [arrived]], query)
    assert [row['uuid'] for row in merged] == [row['uuid'] for row in whole] and merged[3]['host'] == 'its own now'
