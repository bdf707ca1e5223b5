"""/servers/{id}/os-instance-actions: what each version shows, to whom, and its pages."""
import datetime

import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova.db.servers import instance_actions
from nova.db.tables import cell as tables_cell
from nova.objects import faults
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import cloud_rows
from nova.tests.functional import servers

REQUESTS = [f'req-{number:08d}-0000-0000-0000-000000000000' for number in range(4)]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    """A server with four actions a minute apart; the newest one failed."""
    fixture = servers.Servers(tmp_path_factory.mktemp('actions'))
    fixture.server_id = fixture.add_server()
    with fixture.cell_db.writer() as conn:
        for number, request_id in enumerate(REQUESTS):
            caller = context.RequestContext(user_id=base.USER, project_id=base.PROJECT, roles=[], overwrite=False,
                                            request_id=request_id)
            instance_actions.insert(conn, caller, [fixture.server_id], 'reboot')
            failed = number == 3
            instance_actions.finish(conn, fixture.server_id, 'compute_reboot_instance', host='host1',
                                    error='It broke.' if failed else None, traceback='Traceback' if failed else None)
            moment = server_rows.START + datetime.timedelta(minutes=number)
            conn.execute(sa.update(tables_cell.instance_actions).where(
                tables_cell.instance_actions.c.request_id == request_id).values(started_at=moment, updated_at=moment))
    yield fixture
    fixture.close()


def _list(cloud, query='', version='2.104', client=None):
    return (client or cloud.client()).get(f'/servers/{cloud.server_id}/os-instance-actions{query}', version=version)


def _ids(answer):
    assert answer.status == 200, answer.body
    return [REQUESTS.index(row['request_id']) for row in answer.json['instanceActions']]


def test_actions_are_listed_newest_first_and_paged(cloud):
    assert _ids(_list(cloud, version='2.1')) == [3, 2, 1, 0]
    answer = _list(cloud, '?limit=3')
    assert _ids(answer) == [3, 2, 1]
    link, = answer.json['links']
    assert link['rel'] == 'next' and link['href'].endswith(f'?limit=3&marker={REQUESTS[1]}')
    answer = _list(cloud, f'?limit=3&marker={REQUESTS[1]}')
    assert _ids(answer) == [0] and 'links' not in answer.json
    assert _ids(_list(cloud, '?limit=1', version='2.57')) == [3, 2, 1, 0], 'no pages before 2.58'


@pytest.mark.parametrize('query, version, expected', [
    ('changes-since=2026-01-01T12:02:00Z', '2.58', [3, 2]), ('changes-before=2026-01-01T12:01:00Z', '2.66', [1, 0]),
    ('changes-since=2026-01-01T12:01:00Z&changes-before=2026-01-01T12:02:00Z', '2.66', [2, 1]),
    ('changes-since=2026-01-01T13:01:00Z&limit=2', '2.58', [])])
def test_actions_are_filtered_by_time(cloud, query, version, expected):
    assert _ids(_list(cloud, f'?{query}', version)) == expected


@pytest.mark.parametrize('query, version', [
    ('changes-before=2026-01-01T12:01:00Z', '2.65'), ('unknown=1', '2.58'), ('limit=x', '2.58'), ('limit=-1', '2.58'),
    ('changes-since=soon', '2.58'), ('limit=1&limit=1', '2.58'),
    ('changes-since=2026-01-02T12:01:00Z&changes-before=2026-01-01T12:02:00Z', '2.66')])
def test_invalid_instance_action_queries_are_refused(cloud, query, version):
    assert _list(cloud, f'?{query}', version).fault[:2] == ('badRequest', 400)


def test_unknown_action_marker_is_refused(cloud):
    assert _list(cloud, '?marker=req-nothing').status in (400, 404)


@pytest.mark.parametrize('version, keys', [
    ('2.50', None), ('2.51', set()), ('2.61', set()), ('2.62', {'hostId'}), ('2.83', {'hostId'}),
    ('2.84', {'hostId', 'details'})])
def test_owners_see_events_without_host(cloud, version, keys):
    shown = cloud.client().get(f'/servers/{cloud.server_id}/os-instance-actions/{REQUESTS[3]}',
                               version=version).json['instanceAction']
    assert shown['message'] == 'Error' and ('updated_at' in shown) is (int(version[2:]) >= 58)
    if keys is None:
        assert 'events' not in shown
    else:
        event, = shown['events']
        assert event.keys() == {'event', 'start_time', 'finish_time', 'result'} | keys
        assert event['result'] == 'Error' and event.get('hostId') not in ('', 'host1')
        assert event.get('details', 'It broke.') == 'It broke.'


@pytest.mark.parametrize('version, keys', [
    ('2.1', set()), ('2.51', set()), ('2.62', {'hostId', 'host'}), ('2.84', {'hostId', 'host', 'details'})])
def test_administrators_see_all_event_fields(cloud, version, keys):
    event, = cloud.admin().get(f'/servers/{cloud.server_id}/os-instance-actions/{REQUESTS[3]}',
                               version=version).json['instanceAction']['events']
    assert event.keys() == {'event', 'start_time', 'finish_time', 'result', 'traceback'} | keys
    assert event['traceback'] == 'Traceback' and event.get('host', 'host1') == 'host1'
    assert event.get('details', 'It broke.') == 'It broke.'


def test_another_project_sees_nothing(cloud):
    assert _list(cloud, client=cloud.client(project='c' * 32)).status == 404


def test_administrators_read_the_error_itself(cloud):
    reason = 'DiskFull: /var/lib/nova has 0 bytes free'
    server_id = cloud.add_server(7, vm_state='error', fault={
        'code': 500, 'message': f'The build was tried on 2 hosts. {faults.ANYONE}', 'created': '2026-01-01T12:00:00Z',
        'details': f'{reason}\n  File "x.py", line 1, in run'})
    caller = context.RequestContext(user_id=base.USER, project_id=base.PROJECT, roles=[], overwrite=False)
    try:
        raise exception.Unavailable('libvirt does not answer')
    except exception.Unavailable as error:
        trace = faults.trace(error)
    with cloud.cell_db.writer() as conn:
        instance_actions.insert(conn, caller, [server_id], 'attach_volume')
        instance_actions.finish(conn, server_id, 'compute_attach_volume', host='host1', error=faults.ANYONE,
                                traceback=trace)

    def read(client):
        action = client.get(f'/servers/{server_id}/os-instance-actions/{caller.request_id}', version='2.84').json
        return (client.get(f'/servers/{server_id}').json['server']['fault']['message'],
                action['instanceAction']['events'][0].get('details'))
    message, details = read(cloud.admin())
    assert message == f'The build was tried on 2 hosts. {reason}'
    assert details == 'Unavailable: libvirt does not answer'
    message, details = read(cloud.client())
    assert message.endswith(faults.ANYONE) and details == faults.ANYONE


@pytest.mark.parametrize('silent_s, expected', [(1, None), (25, '25 s ago'), (59, 'in about 41 s')])
def test_a_deletion_that_waits_for_a_host_says_so(cloud, silent_s, expected):
    host = f'silent{silent_s}'
    server_id = cloud.add_server(100 + silent_s, host=host, node=host, task_state='deleting')
    caller = context.RequestContext(user_id=base.USER, project_id=base.PROJECT, roles=[], overwrite=False)
    with cloud.cell_db.writer() as conn:
        cloud_rows.service(conn, host, seen_s=silent_s)
        instance_actions.insert(conn, caller, [server_id], 'delete')
    path = f'/servers/{server_id}/os-instance-actions'
    listed, = cloud.client().get(path).json['instanceActions']
    shown = cloud.client().get(f'{path}/{caller.request_id}').json['instanceAction']
    for action in (listed, shown):
        assert action['message'] is None if expected is None else expected in action['message']
