"""Usage reports against figures made by hand, and the record of usage audits."""
import datetime
import types
import urllib.parse

import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova import utils
from nova.conductor import manager as conductor_manager
from nova.conductor.cell_services import CellServices
from nova.conductor.hosts import usage_audit
from nova.conf import audit_period
from nova.db.services import task_log
from nova.db.tables import cell as tables_cell
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import cloud_rows
from nova.tests.functional import servers

DAY = datetime.timedelta(days=1)
BEGIN = datetime.datetime(2026, 3, 1)
END = datetime.datetime(2026, 3, 11)
PATH = f'/os-simple-tenant-usage/{base.PROJECT}'
WINDOW = f'start={BEGIN.isoformat()}&end={END.isoformat()}'
OTHER = 'c' * 32


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def ran(cloud, number, first, last=None, **values):
    """A server that ran from one day of March to another; its uuid."""
    ended = last and BEGIN + (last - 1) * DAY
    row = server_rows.row(number, **{
        'project_id': base.PROJECT, 'launched_at': first and BEGIN + (first - 1) * DAY, 'terminated_at': ended,
        'deleted_at': ended, 'memory_mb': 1024, 'vcpus': 2, 'root_gb': 10, 'ephemeral_gb': 5,
        'vm_state': 'deleted' if last else 'active', **values})
    return cloud.add_servers(row, deleted=bool(last))[0]


def test_usage_counts_servers_within_the_period(cloud):
    """Days of March 1 to 11 that each server ran: all ten, the last four, the first three, two within; others none."""
    hours = {
        ran(cloud, 1, -20): 240, ran(cloud, 2, 7): 96, ran(cloud, 3, -20, 4): 72, ran(cloud, 4, 5, 7): 48,
        ran(cloud, 5, -20, 40): 240}
    ran(cloud, 6, -20, -3)                   # was over before
    ran(cloud, 7, 20, 30)                    # came after
    ran(cloud, 8, None, vm_state='error')    # never ran
    ran(cloud, 9, 2, project_id=OTHER)
    usage = cloud.client().get(f'{PATH}?{WINDOW}').json['tenant_usage']
    assert {server['instance_id']: server['hours'] for server in usage['server_usages']} == hours
    total = sum(hours.values())
    assert usage['total_hours'] == total == 696
    assert usage['total_memory_mb_usage'] == total * 1024
    assert usage['total_local_gb_usage'] == total * 15
    assert usage['total_vcpus_usage'] == total * 2
    assert (usage['tenant_id'], usage['start'], usage['stop']) == (
        base.PROJECT, '2026-03-01T00:00:00.000000', '2026-03-11T00:00:00.000000')


def test_a_server_in_the_report(cloud):
    uuid = ran(cloud, 1, 3, 5)
    shown, = cloud.client().get(f'{PATH}?{WINDOW}').json['tenant_usage']['server_usages']
    assert shown == {
        'instance_id': uuid, 'name': 'server-1', 'tenant_id': base.PROJECT, 'flavor': 'm1.tiny', 'hours': 48.0,
        'memory_mb': 1024, 'local_gb': 15, 'vcpus': 2, 'started_at': '2026-03-03T00:00:00.000000',
        'ended_at': '2026-03-05T00:00:00.000000', 'state': 'terminated', 'uptime': 2 * 86400}
    ran(cloud, 2, 10, vm_state='soft-delete')
    states = {server['name']: (server['state'], server['ended_at'])
              for server in cloud.client().get(f'{PATH}?{WINDOW}').json['tenant_usage']['server_usages']}
    assert states['server-2'] == ('stopped', None)


def test_nothing_is_charged_for_the_future(cloud):
    now = utils.utcnow()
    cloud.add_server(1, launched_at=now - datetime.timedelta(hours=2))
    end = (now + 30 * DAY).isoformat()
    usage = cloud.client().get(f'{PATH}?end={end}&start={(now - DAY).isoformat()}').json['tenant_usage']
    assert usage['total_hours'] == pytest.approx(2, abs=0.05)
    assert usage['server_usages'][0]['uptime'] == pytest.approx(7200, abs=60)
    assert cloud.client().get(PATH).json['tenant_usage']['total_hours'] == pytest.approx(2, abs=0.05)


def test_usage_of_all_projects_is_for_administrators(cloud):
    ran(cloud, 1, 1, 3)
    ran(cloud, 2, 1, 4, project_id=OTHER)
    ran(cloud, 3, 2, project_id=OTHER)
    for version in ('2.1', '2.40'):
        usages = cloud.admin().get(f'/os-simple-tenant-usage?{WINDOW}', version=version).json['tenant_usages']
        assert [(usage['tenant_id'], usage['total_hours']) for usage in usages] == [
            (base.PROJECT, 48.0), (OTHER, 72.0 + 9 * 24)]
        assert all('server_usages' not in usage for usage in usages)
        detailed = cloud.admin().get(f'/os-simple-tenant-usage?{WINDOW}&detailed=1', version=version).json
        assert [len(usage['server_usages']) for usage in detailed['tenant_usages']] == [1, 2]
    empty = cloud.admin().get('/os-simple-tenant-usage?start=2020-01-01&end=2020-02-01').json
    assert empty == {'tenant_usages': []}


def test_project_without_servers_has_no_usage(cloud):
    usage = cloud.client().get(f'{PATH}?{WINDOW}').json['tenant_usage']
    assert usage['server_usages'] == [] and usage['total_hours'] == 0.0


def test_usage_is_paged_since_2_40(cloud):
    uuids = sorted(ran(cloud, number, 1, 3 if number % 2 else None) for number in range(7))
    client, seen, total = cloud.client(version='2.40'), [], 0
    path = f'{PATH}?{WINDOW}&limit=3'
    while True:
        body = client.get(path).json
        seen += [server['instance_id'] for server in body['tenant_usage']['server_usages']]
        total += body['tenant_usage']['total_hours']
        if 'tenant_usage_links' not in body:
            break
        link, = body['tenant_usage_links']
        assert link['rel'] == 'next' and len(body['tenant_usage']['server_usages']) == 3
        parts = urllib.parse.urlsplit(link['href'])
        path = f'{parts.path.removeprefix("/v2.1")}?{parts.query}'
    assert seen == uuids
    assert total == cloud.client().get(f'{PATH}?{WINDOW}').json['tenant_usage']['total_hours'] == 3 * 48 + 4 * 240
    body = cloud.admin(version='2.40').get(f'/os-simple-tenant-usage?{WINDOW}&limit=6').json
    assert f'marker={uuids[5]}' in body['tenant_usages_links'][0]['href']
    assert client.get(f'{PATH}?{WINDOW}&limit=7').json.keys() == {'tenant_usage'}
    # before 2.40 there are no pages
    assert len(cloud.client().get(f'{PATH}?{WINDOW}&limit=3').json['tenant_usage']['server_usages']) == 7


def test_invalid_usage_requests_return_400(cloud):
    client = cloud.client(version='2.40')
    for query in ('start=yesterday', 'end=2026-13-01', 'start=2026-03-02&end=2026-03-01', 'end=0001-01-02',
                  'marker=x', f'marker={server_rows.IMAGE_ID}', 'limit=x', 'limit=-1',
                  'start=0001-01-01T00:00:00%2B14:00', 'end=9999-12-31T23:59:59-14:00'):
        answer = client.get(f'{PATH}?{query}')
        assert answer.status == 400, f'{query}: {answer.status} {answer.body}'
    assert cloud.client(version='2.75').get(f'{PATH}?detailed=1').status == 400
    for good in ('start=2026-03-01', 'start=2026-03-01%2010:00:00.123456', 'start=2026-03-01T10:00:00Z', 'limit=0'):
        assert client.get(f'{PATH}?{good}').status == 200, good


def test_usage_of_other_projects_requires_an_administrator(cloud):
    ran(cloud, 1, 1, 3, project_id=OTHER)
    theirs = f'/os-simple-tenant-usage/{OTHER}?{WINDOW}'
    assert cloud.client().get(theirs).status == 403
    assert cloud.client(roles=('reader',)).get(PATH).status == 200
    assert cloud.client(roles=('nothing',)).get(PATH).status == 403
    assert cloud.client().get('/os-simple-tenant-usage').status == 403
    assert cloud.admin().get(theirs).json['tenant_usage']['total_hours'] == 48.0


def test_usage_needs_few_statements(cloud):
    for number in range(30):
        ran(cloud, number, 1, 3 if number % 2 else None, project_id=OTHER if number % 3 else base.PROJECT)
    statements = []
    sa.event.listen(cloud.cell_db.engine, 'before_cursor_execute',
                    lambda conn, cursor, text, *_: statements.append(text))
    for path in (f'/os-simple-tenant-usage?{WINDOW}&detailed=1', f'{PATH}?{WINDOW}'):
        statements.clear()
        assert cloud.admin(version='2.40').get(path).status == 200
        assert len([text for text in statements if text.startswith('SELECT')]) == 1


# ---- audits --------------------------------------------------------------------

LOG = '/os-instance_usage_audit_log'


def conductor(cloud):
    return conductor_manager.ConductorManager(CellServices(
        conf=cloud.conf, api_db=cloud.api_db, cells=cloud.cells, scheduler=None, compute=None, network=None,
        images=None)).methods


def test_usage_audit_is_reported(cloud):
    now = utils.utcnow()
    this = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    before = (this - DAY).replace(day=1)
    with cloud.cell_db.writer() as conn:
        cloud_rows.service(conn, 'host2')
    cloud.add_server(1, launched_at=before + DAY)
    cloud.add_server(2, launched_at=now, host='host1')                      # after the period
    cloud.add_servers(server_rows.row(3, launched_at=before + DAY, terminated_at=this - DAY, deleted_at=this - DAY),
                      deleted=True)
    cloud.add_server(4, launched_at=before, host='host2')
    empty = cloud.admin().get(LOG).json['instance_usage_audit_logs']
    assert (empty['num_hosts'], empty['num_hosts_done'], empty['hosts_not_run'], empty['log']) == (
        2, 0, ['host1', 'host2'], {})
    assert empty['overall_status'] == '0 of 2 hosts done. 0 errors.'
    manager, admin = conductor(cloud), context.admin_context()
    assert manager.audit_instance_usage(admin, 'host1') is True
    assert manager.audit_instance_usage(admin, 'host1') is False
    found = cloud.admin().get(LOG).json['instance_usage_audit_logs']
    assert found['overall_status'] == '1 of 2 hosts done. 0 errors.'
    assert found['hosts_not_run'] == ['host2'] and found['total_instances'] == 2
    assert found['log']['host1']['state'] == 'DONE' and found['log']['host1']['instances'] == 2
    assert (found['period_beginning'], found['period_ending']) == (str(before), str(this))
    manager.audit_instance_usage(admin, 'host2')
    found = cloud.admin().get(LOG).json['instance_usage_audit_logs']
    assert found['overall_status'] == 'ALL hosts done. 0 errors.' and found['total_instances'] == 3
    assert cloud.admin().get(f'{LOG}/{urllib.parse.quote(str(now))}').json == {'instance_usage_audit_log': found}
    older = cloud.admin().get(f'{LOG}/{before.isoformat()}').json['instance_usage_audit_log']
    assert older['period_ending'] == str(before) and older['log'] == {}
    for text in ('yesterday', '0001-01-01T00:00:00', '1'):
        assert cloud.admin().get(f'{LOG}/{text}').status == 400, text
    assert cloud.client().get(LOG).status == 403


def test_the_numbers_of_hosts_in_an_audit_add_up(cloud):
    """A host that reported and was removed was counted in place of one that did not report."""
    now = utils.utcnow()
    period = audit_period.last_completed('month', now)
    with cloud.cell_db.writer() as conn:
        cloud_rows.service(conn, 'host2')
        for host in ('host1', 'removed'):
            task_log.begin(conn, host, period, now - DAY)
            task_log.end(conn, host, period, 0, 0, '')
    found = cloud.admin().get(LOG).json['instance_usage_audit_logs']
    assert found['hosts_not_run'] == ['host2'] and sorted(found['log']) == ['host1', 'removed']
    assert [found[name] for name in ('num_hosts', 'num_hosts_done', 'num_hosts_running', 'num_hosts_not_run')] == [
        3, 2, 0, 1]
    assert found['overall_status'] == '2 of 3 hosts done. 0 errors.'


def test_an_audit_that_died_is_done_again(cloud):
    manager, admin, now = conductor(cloud), context.admin_context(), utils.utcnow()
    period = audit_period.last_completed('month', now)
    assert cloud.cell_db.run(task_log.begin, 'host1', period, now - DAY)
    assert manager.audit_instance_usage(admin, 'host1') is False
    running = cloud.admin().get(LOG).json['instance_usage_audit_logs']
    assert running['num_hosts_running'] == 1 and running['num_hosts_done'] == 0
    with cloud.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.task_log).values(updated_at=now - DAY))
    assert manager.audit_instance_usage(admin, 'host1') is True


def test_an_audit_that_died_while_it_published_is_done_again(cloud):
    now = utils.utcnow()
    uuid = cloud.add_server(1, launched_at=now.replace(day=1) - DAY)
    died, published = [KeyboardInterrupt()], []

    def publish(_ctx, name, _phase, row, *_args, **_about):
        published.append((name, row['uuid']))
        if died:
            raise died.pop()                 # not an Exception: it ends the process
    audit = usage_audit.UsageAudit(types.SimpleNamespace(
        conf=cloud.conf, cell_db=cloud.cell_db,
        notifier=types.SimpleNamespace(on=True, publish=publish, devices=False, shares=False)))
    with pytest.raises(KeyboardInterrupt):
        audit.audit_instance_usage(context.admin_context(), 'host1')
    assert cloud.admin().get(LOG).json['instance_usage_audit_logs']['num_hosts_done'] == 0
    with cloud.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.task_log).values(updated_at=now - DAY))
    assert audit.audit_instance_usage(context.admin_context(), 'host1') is True
    assert published == [('instance.exists', uuid)] * 2
    assert cloud.admin().get(LOG).json['instance_usage_audit_logs']['num_hosts_done'] == 1


def test_a_failed_usage_audit_is_repeated(cloud, monkeypatch):
    uuid, published, failures = cloud.add_server(1, launched_at=utils.utcnow().replace(day=1) - DAY), [], []
    read = usage_audit.usage.on_host

    def fail_once(*words):
        if not failures:
            failures.append(words)
            raise exception.ServiceUnavailable(service='database')
        return read(*words)
    monkeypatch.setattr(usage_audit.usage, 'on_host', fail_once)
    audit = usage_audit.UsageAudit(types.SimpleNamespace(
        conf=cloud.conf, cell_db=cloud.cell_db, notifier=types.SimpleNamespace(
            on=True, devices=False, shares=False,
            publish=lambda _ctx, name, _phase, row, *_words, **_about: published.append((name, row['uuid'])))))
    assert audit.audit_instance_usage(context.admin_context(), 'host1') is True and published == []
    found = cloud.admin().get(LOG).json['instance_usage_audit_logs']
    assert (found['num_hosts_done'], found['num_hosts_running'], found['total_errors']) == (0, 1, 1)
    assert found['overall_status'] == '0 of 1 hosts done. 1 errors.' and 'failed' in found['log']['host1']['message']
    assert audit.audit_instance_usage(context.admin_context(), 'host1') is True
    assert audit.audit_instance_usage(context.admin_context(), 'host1') is False
    found = cloud.admin().get(LOG).json['instance_usage_audit_logs']
    assert found['overall_status'] == 'ALL hosts done. 0 errors.' and published == [('instance.exists', uuid)]


def test_the_history_keeps_what_reports_need(cloud):
    """A deleted server's row in the history has the times of its end."""
    uuid = cloud.add_server(1, launched_at=BEGIN)
    from nova.db.servers import instances
    with cloud.cell_db.writer() as conn:
        instances.destroy(conn, uuid, BEGIN + 2 * DAY)
    with cloud.cell_db.reader() as conn:
        assert conn.execute(sa.select(tables_cell.instances.c.id)).first() is None
    usage = cloud.client().get(f'{PATH}?{WINDOW}').json['tenant_usage']
    assert usage['total_hours'] == 48.0
