"""Aggregates, zones and maintenance of hosts in several cells, one of which may be down."""
import pytest
import sqlalchemy as sa

from nova import context
from nova.db.moves import maintenance
from nova.db.placement import image_cache
from nova.db.placement import zones
from nova.db.tables import cell as tables_cell
from nova.tests.functional import cloud_rows
from nova.tests.support import servers_cells as test_servers_cells

KEY = 'os-host-maintenance'


@pytest.fixture
def cells(tmp_path):
    made = test_servers_cells.Cells(tmp_path)
    for name, host in (('default', 'host1'), ('second', 'host2'), ('third', 'host3')):
        with made.dbs[name].writer() as conn:
            conn.execute(sa.delete(tables_cell.services))
            cloud_rows.service(conn, host)
            cloud_rows.service(conn, host + '-conductor', 'nova-conductor', zone='internal')
            cloud_rows.node(conn, host)
    made.admin().post('/os-aggregates', {'aggregate': {'name': 'rack', 'availability_zone': 'east'}})
    yield made
    made.close()


def act(cells, action, **body):
    return cells.admin().post('/os-aggregates/1/action', {action: body})


def row(cells, name, host):
    with cells.dbs[name].reader() as conn:
        return zones.of(conn)[host], [each['name'] for each in zones.aggregates_of(conn)[host]]


def listed(cells):
    return {zone['zoneName']: sorted(zone['hosts'] or ()) for zone in
            cells.admin().get('/os-availability-zone/detail').json['availabilityZoneInfo']}


def test_aggregate_accepts_hosts_of_every_cell(cells):
    for host in ('host1', 'host2'):
        assert act(cells, 'add_host', host=host).status == 200
    assert row(cells, 'default', 'host1') == row(cells, 'second', 'host2') == ('east', ['rack'])
    assert row(cells, 'third', 'host3') == ('nova', [])
    assert listed(cells) == {'east': ['host1', 'host2'], 'nova': ['host3'],
                             'internal': ['host1-conductor', 'host2-conductor', 'host3-conductor']}
    shown = cells.client().get('/os-availability-zone').json['availabilityZoneInfo']
    assert [zone['zoneName'] for zone in shown] == ['east', 'nova']
    assert act(cells, 'set_metadata', metadata={'availability_zone': 'west'}).status == 200
    assert row(cells, 'second', 'host2') == ('west', ['rack'])
    with cells.dbs['second'].writer() as conn:
        cloud_rows.server(conn, 'host2')
    answer = act(cells, 'remove_host', host='host2')
    assert answer.status == 409 and 'has servers' in answer.fault[2]
    # of the other cells nothing has changed either
    assert act(cells, 'set_metadata', metadata={'availability_zone': 'north'}).status == 400
    assert row(cells, 'default', 'host1')[0] == row(cells, 'second', 'host2')[0] == 'west'
    assert cells.admin().get('/os-aggregates/1').json['aggregate']['availability_zone'] == 'west'


def test_maintenance_and_image_caching_work_across_cells(cells):
    for host in ('host1', 'host2'):
        act(cells, 'add_host', host=host)
    assert act(cells, KEY + ':start', host='host2').status == 202
    for name, number in (('default', 0), ('second', 1)):
        with cells.dbs[name].reader() as conn:
            assert len(maintenance.of_aggregate(conn, 1)) == number
    found, = cells.admin().get('/os-aggregates/1/' + KEY).json[KEY]
    assert found['host'] == 'host2'
    assert cells.admin().get('/os-aggregates/1/' + KEY + '/host2').json[KEY]['status'] == 'draining'
    image_id = '70a599e0-31e7-49b7-b260-868f441e862b'
    for name, host in (('default', 'host1'), ('second', 'host2')):
        cells.dbs[name].run(image_cache.add, context.admin_context(), [host], [image_id], 60)
    cells.dbs['second'].run(image_cache.done, 'host2', image_id)
    progress = cells.admin().get('/os-aggregates/1/os-image-cache').json['os-image-cache']
    assert (progress['waiting'], progress['cached'], len(progress['images'])) == (1, 1, 1)


def test_aggregate_changes_for_hosts_of_a_cell_that_is_down_return_503(cells):
    """What concerns hosts of the others works; what does not is refused, and nothing is changed."""
    for host in ('host1', 'host3'):
        act(cells, 'add_host', host=host)
    cells.break_cell('third')
    assert listed(cells)['east'] == ['host1']
    assert act(cells, 'add_host', host='host2').status == 200
    assert row(cells, 'second', 'host2') == ('east', ['rack'])
    assert act(cells, 'remove_host', host='host2').status == 200
    for answer in (act(cells, 'set_metadata', metadata={'availability_zone': 'west'}),
                   act(cells, 'remove_host', host='host3'), act(cells, KEY + ':start', host='host3')):
        assert answer.status == 503, answer.body
    assert row(cells, 'default', 'host1')[0] == 'east'
    shown = cells.admin().get('/os-aggregates/1').json['aggregate']
    assert (shown['availability_zone'], shown['hosts']) == ('east', ['host1', 'host3'])
    assert cells.admin().get('/os-aggregates/1/' + KEY).json[KEY] == []
    assert cells.admin().get('/os-aggregates/1/os-image-cache').status == 200
    for name in ('default', 'second'):
        cells.break_cell(name)
    for path in ('/' + KEY, '/os-image-cache'):            # nobody says that there is nothing
        assert cells.admin().get('/os-aggregates/1' + path).status == 503, path
