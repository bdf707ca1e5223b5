"""What a process counts: the parts that count, the format, the bounds."""
import gc
import pathlib
import re
import shutil
import subprocess
import threading
import time

import pytest
import yaml
from prometheus_client import parser

from nova import conf as nova_conf
from nova import context
from nova import exception
import nova
from nova.db import engine
from nova.rpc import bus
from nova.rpc.interface import Interface
from nova.rpc.interface import Method
from nova.runtime import metrics
from nova.runtime.http import workers

WORK = Interface('counted', '1.0', Method('job', ('what',), call=True))


def samples(name):
    """{labels as a dict's items: value} of the samples of this name, as Prometheus reads them."""
    text = metrics.exposed()[0].decode()
    return {tuple(sorted(sample.labels.items())): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples if sample.name == name}


def value(name, **labels):
    return samples(name).get(tuple(sorted(labels.items())), 0)


def test_all_that_is_exposed_has_a_row_with_its_labels():
    text = metrics.exposed()[0].decode()
    rows = {row.name: row for row in metrics.ROWS}
    found = set()
    for family in parser.text_string_to_metric_families(text):
        if not family.name.startswith('nova_'):
            continue
        name = family.name + ('_total' if family.type == 'counter' else '')
        found.add(name)
        assert rows[name].kind == family.type and family.documentation
        for sample in family.samples:
            assert set(sample.labels) - {'le'} == set(rows[name].labels)
    assert found == rows.keys()


def test_alerts_are_about_what_there_is():
    """Rules of etc/nova/prometheus-alerts.yaml name metrics and labels that exist."""
    rules = yaml.safe_load((pathlib.Path(nova.__file__).parents[1] / 'etc/nova/prometheus-alerts.yaml').read_text())
    rows = {row.name: row for row in metrics.ROWS}
    found = [rule for group in rules['groups'] for rule in group['rules']]
    assert len({rule['alert'] for rule in found}) == len(found)
    for rule in found:
        names = re.findall(r'\bnova_\w+', rule['expr'])
        assert names or 'up{' in rule['expr']
        known = {'instance', 'job', *(label for name in names for label in rows[name].labels)}
        used = set(re.findall(r'(\w+)(?:=|!=|=~|!~)"', rule['expr']))
        used |= set(re.findall(r'\$labels\.(\w+)', rule['annotations']['summary']))
        assert used <= known, (rule['alert'], used - known)


ALERTS_THAT_COUNT_ONE = {
    'NovaGuestFailed': 'cause="crashed"', 'NovaGuestRemoved': 'kind="guest"', 'NovaVolumeExportOrphaned': ''}


@pytest.mark.parametrize('alert', ALERTS_THAT_COUNT_ONE)
def test_alerts_see_the_first_event(alert):
    """increase() of a series that begins at 1 is 0: it must be there before."""
    rules = yaml.safe_load((pathlib.Path(nova.__file__).parents[1] / 'etc/nova/prometheus-alerts.yaml').read_text())
    rule, = [rule for group in rules['groups'] for rule in group['rules'] if rule['alert'] == alert]
    name = re.search(r'nova_\w+', rule['expr'])[0]
    lines = metrics.exposed()[0].decode().splitlines()
    assert any(line.startswith(name) and ALERTS_THAT_COUNT_ONE[alert] in line for line in lines)


@pytest.mark.skipif(not shutil.which('promtool'), reason='promtool is not installed')
def test_promtool_accepts_what_is_exposed():
    assert not subprocess.run(['promtool', 'check', 'metrics'], input=metrics.exposed()[0], capture_output=True).stderr


def test_openmetrics_is_spoken_to_who_asks_for_it():
    body, kind = metrics.exposed('application/openmetrics-text; version=1.0.0')
    assert kind.startswith('application/openmetrics-text') and body.endswith(b'# EOF\n')


def answer_once(listener, body):
    sock, _address = listener.accept()
    with sock:
        sock.recv(65536)
        sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(body) + body)


def test_metrics_of_a_worker_that_does_not_serve_or_sends_a_part_are_left_out(caplog):
    """The restart of one worker made all metrics unavailable."""
    pool, body = workers.Pool(None, 'nova-api', []), b'nova_build_info{binary="other"} 1.0\n'
    pool._workers = [workers._Worker('nova-api', number, [], 60, None) for number in (1, 2, 3)]
    for worker, answer in zip(pool._workers[1:], (body, body + b'nova_healthy{bin'), strict=True):
        worker._serves = True
        threading.Thread(target=answer_once, args=(worker._monitoring, answer), daemon=True).start()
    text = pool.exposed()[0].decode()
    assert re.findall(r'^nova_build_info{binary="other",worker="(.)"} 1.0$', text, re.M) == ['2']
    assert 'metrics of worker 1: ' in caplog.text and 'metrics of worker 3: ' in caplog.text
    for worker in pool._workers:
        worker._monitoring.close()


def test_tasks_in_progress_are_counted_with_their_age():
    with metrics.TASKS.during('test_event'), metrics.TASKS.during('test_event'):
        time.sleep(0.02)
        assert value('nova_tasks_in_progress', event='test_event') == 2
        assert 0.02 <= value('nova_task_oldest_seconds', event='test_event') < 60
    assert (('event', 'test_event'),) not in samples('nova_tasks_in_progress')


@pytest.mark.parametrize('result', ['success', 'error', 'superseded'])
def test_a_task_ends_with_its_result(result):
    before = value('nova_tasks_ended_total', event='test_run', result=result)
    with pytest.raises(ValueError), metrics.Run('test_run', 'superseded') as run:
        run.result = result
        raise ValueError
    assert value('nova_tasks_ended_total', event='test_run', result=result) == before + 1


def test_many_threads_lose_no_count():
    before = value('nova_tasks_ended_total', event='test_threads', result='success')

    def work():
        for _ in range(200):
            with metrics.Run('test_threads', 'success'):
                time.sleep(0)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics.exposed()                    # a scrape in between disturbs nobody
        time.sleep(0.02)
    assert value('nova_tasks_ended_total', event='test_threads', result='success') == before + 1600


class Owner:
    def __init__(self, number):
        self.number = number


def test_watched_gauge_is_read_at_scrape_while_its_owner_lives():
    name = 'nova_scheduler_hosts'
    gc.collect()
    before = value(name)
    one, broken = Owner(3), Owner(None)
    metrics.HOSTS.watch(one, lambda owner: {(): owner.number})
    assert value(name) == before + 3
    metrics.HOSTS.watch(broken, lambda owner: {(): owner.number + 1})
    assert value(name) == before + 3         # the scrape goes on without it
    metrics.HOSTS.forget(broken)
    del one
    gc.collect()
    assert value(name) == before


# ---- who counts

class Manager:
    def job(self, context, what):
        if what == 'refuse':
            raise exception.BadRequest('no')
        if what == 'break':
            raise KeyError('secret')
        if what == 'relay':
            raise exception.HostUnavailable(host='h')


@pytest.mark.parametrize('what, sent, received, raised', [
    ('do', 'ok', 'ok', None),
    ('refuse', 'error', 'error', exception.BadRequest),
    ('relay', 'error', 'error', exception.HostUnavailable),
    ('break', 'failed', 'failed', exception.RemoteError),
])
def test_messages_are_counted_on_both_sides(tmp_path, what, sent, received, raised):
    transport = bus.Bus(nova_conf.new(files=[]), f'nova-inprocess:///{tmp_path}')
    server = transport.serve(WORK, Manager(), 'host1')
    server.start()
    labels = {'topic': 'counted', 'method': 'job'}
    names = {'nova_rpc_sent_total': {**labels, 'result': sent},
             'nova_rpc_received_total': {**labels, 'result': received},
             'nova_rpc_call_seconds_count': labels, 'nova_rpc_handling_seconds_count': labels}
    before = {name: value(name, **of) for name, of in names.items()}
    try:
        client = transport.client(WORK)
        if raised is None:
            client.job(context.admin_context(), what=what)
        else:
            with pytest.raises(raised):
                client.job(context.admin_context(), what=what)
    finally:
        server.stop()
        server.wait(20)
    assert {name: value(name, **of) - before[name] for name, of in names.items()} == dict.fromkeys(names, 1)
    assert samples('nova_rpc_in_progress').get((('method', 'job'), ('topic', 'counted'))) is None


def test_a_message_that_nobody_takes_is_unavailable():
    interface = Interface('nobody', '1.0', Method('job', (), call=True, timeout=0.1))
    transport = bus.Bus(nova_conf.new(files=[]), 'nova-inprocess:///nobody-listens')
    with pytest.raises(exception.Unavailable):
        transport.client(interface).job(context.admin_context())
    assert value('nova_rpc_sent_total', topic='nobody', method='job', result='unavailable') == 1


def test_transactions_connections_and_lost_deadlocks_are_counted(tmp_path, monkeypatch):
    from oslo_db import exception as db_exc
    database = engine.Database(f'sqlite:///{tmp_path}/x.sqlite', name='counted')

    def of(kind):
        return value('nova_db_transactions_total', database='counted', kind=kind)
    before = of('read'), of('write'), value('nova_db_retries_total', database='counted')
    tries, after = [], []

    def write(conn):
        engine.after_commit(conn, lambda: after.append(len(tries)))
        tries.append(1)
        if len(tries) < 3:
            raise db_exc.DBDeadlock()
    database.run(write)
    monkeypatch.setattr(engine, 'RECONNECT_PAUSES_S', (0, 0))
    reconnects, left = value('nova_db_reconnects_total', database='counted'), [2]

    def lose(conn):
        if left[0]:
            left[0] -= 1
            raise db_exc.DBConnectionError()
    database.run(lose)
    assert value('nova_db_reconnects_total', database='counted') == reconnects + 2
    before = before[0], before[1] + 1, before[2]
    with database.reader():
        assert value('nova_db_connections', database='counted', state='in_use') == 1
    assert after == [3]                      # that of the transaction that was committed alone
    assert (of('read'), of('write'), value('nova_db_retries_total', database='counted')) == (
        before[0] + 1, before[1] + 1, before[2] + 2)
    assert value('nova_db_connections', database='counted', state='idle') == 1
    database.dispose()
    assert not [labels for labels in samples('nova_db_connections') if ('database', 'counted') in labels]


def test_the_daemons_of_a_fleet_on_one_machine_have_ports_of_their_own(monkeypatch):
    monkeypatch.syspath_prepend(str(pathlib.Path(nova.__file__).parents[1] / 'tools'))
    from cluster import settings
    ports = [settings.monitoring_port(name) for name in settings.DAEMONS]
    assert len({*ports, *settings.PORTS.values()}) == len(ports) + len(settings.PORTS)
    assert {'api1', 'api2', 'scheduler2', 'network', 'cell2-conductor', 'cell2-network'} <= set(settings.DAEMONS)
    assert settings.monitoring_port('manage') == 0


class Scraped:
    """Something that a Watched metric refers to weakly."""


def test_an_infinite_value_is_no_sample_of_a_json_document():
    owner = Scraped()
    metrics.STATE_BACKUP_AGE.watch(owner, lambda _: {(): float('inf')})
    try:
        row = next(row for row in metrics.values() if row['name'] == 'nova_state_backup_age_seconds')
        assert row['samples'] == []
    finally:
        metrics.STATE_BACKUP_AGE.forget(owner)
