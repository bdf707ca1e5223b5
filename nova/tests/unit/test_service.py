"""Lifecycle: heartbeat, periodic tasks, signals, graceful stop."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from oslo_config import cfg
from oslo_context import context

from nova import conf as nova_conf
from nova import context as nova_context
from nova import exception
from nova.rpc import bus
from nova.rpc.interface import Interface
from nova.rpc.interface import Method
from nova.runtime import service
from nova.tests.support.service import Conductor
from nova.tests.support.waiting import wait_for


WORK = Interface('work', '1.0', Method('job', ('seconds',)))


class Manager:
    def __init__(self, tasks=()):
        self.calls, self.tasks, self.finished = [], tasks, threading.Event()
        self.begun, self.go = threading.Event(), threading.Event()

    def start(self):
        self.calls.append('start')

    def stop(self):
        self.calls.append('stop')

    def periodic_tasks(self):
        return self.tasks

    def job(self, context, seconds):
        self.begun.set()
        self.go.wait(seconds)
        self.finished.set()


def make(manager, reporter=None, topic=None, **options):
    conf = nova_conf.new(files=[], **{'state_path': tempfile.mkdtemp(), **options})
    transport = bus.Bus(conf, f'nova-inprocess:///service{id(manager)}')
    made = service.Service(conf, 'nova-work', 'host1', WORK, manager, transport, reporter, topic)
    return made, transport.client(WORK)


def test_a_service_reports_at_start_and_again():
    conductor = Conductor()
    made, _client = make(Manager(), conductor, report_interval=1)
    made.start()
    who = {'host': 'host1', 'binary': 'nova-work', 'topic': 'work', 'version': service.VERSION}
    assert [name for name, _ in conductor.told[:2]] == ['register_service', 'report_service']
    assert conductor.told[1][1] == who
    identity = conductor.told[0][1]['identity']
    wait_for(lambda: len(conductor.heartbeats()) > 1)
    assert made.stop(5)
    seen = list(conductor.told)
    assert seen[2] == ('heartbeat', {**who, 'identity': identity})
    time.sleep(1.2)
    assert conductor.told == seen


@pytest.mark.parametrize('topic', ['compute', 'scheduler'])
def test_a_name_that_is_another_s_ends_the_start_of_a_compute_before_anything_is_done(topic):
    manager = Manager()
    made, _client = make(manager, Conductor(exception.ServiceExists(host='host1', binary='nova-work')), topic)
    with pytest.raises(exception.ServiceExists):
        made.start()
    made.stop(5)
    assert manager.calls == ([] if topic == 'compute' else ['start', 'stop'])


def test_service_handles_messages_while_it_registers_with_a_conductor():
    """While a whole cloud starts, all threads of the conductors may wait for a scheduler, which waited for them."""
    manager, conductor = Manager(), Conductor()
    conductor.register_service = lambda context, **values: {'answered': manager.finished.wait(20)}
    made, client = make(manager, conductor, 'scheduler')
    starting = threading.Thread(target=made.start)
    starting.start()
    client.job(nova_context.admin_context(), seconds=0)
    assert manager.finished.wait(10)
    starting.join()
    made.stop(5)


def test_a_manager_that_listens_is_told_so_before_periodic_tasks():
    """An agent reported at its start: services called it before its queue was served."""
    manager = Manager()
    made, client = make(manager)

    def listening():
        client.job(nova_context.admin_context(), seconds=0)
        manager.calls.append('listening' if manager.finished.wait(10) else 'no message')
    manager.listening = listening
    made.start()
    assert manager.calls == ['start', 'listening']
    made.stop(5)


def test_a_conductor_that_is_away_does_not_end_a_service():
    conductor = Conductor(exception.ServiceUnavailable(service='conductor'))
    made, _client = make(Manager(), conductor, report_interval=1)
    made.start()
    wait_for(lambda: len(conductor.heartbeats()) > 1)
    assert made.stop(5)


def test_periodic_tasks_survive_errors_and_never_overlap():
    runs, active, overlaps = [], [], []

    def task():
        current = context.get_current()
        assert current.is_admin
        if active:
            overlaps.append(1)
        active.append(1)
        time.sleep(0.05)
        active.pop()
        runs.append(current.request_id)
        raise ValueError('every time')
    made, _client = make(Manager([('task', 0.01, task)]))
    made.start()
    wait_for(lambda: len(runs) >= 4)
    assert made.stop(5)
    assert not overlaps and len(set(runs)) == len(runs)


def test_a_service_that_could_not_start_stops_at_once():
    """A bridge that could not be made left the process hanging: oslo.messaging waited for its start to end."""
    class Broken(Manager):
        def start(self):
            raise exception.NovaException('no bridge')
    made, _client = make(Broken())
    with pytest.raises(exception.NovaException, match='no bridge'):
        made.start()
    begun = time.monotonic()
    assert made.stop(30) is True
    assert time.monotonic() - begun < 20


def test_stop_finishes_what_runs():
    manager = Manager()
    made, client = make(manager)
    made.start()
    client.job(nova_context.admin_context(), seconds=0.3)
    assert manager.begun.wait(20)
    assert made.stop(20) is True
    assert manager.finished.is_set() and manager.calls == ['start', 'stop']


def test_stop_gives_up_after_its_time():
    manager = Manager()
    made, client = make(manager)
    made.start()
    client.job(nova_context.admin_context(), seconds=60)
    assert manager.begun.wait(20)
    begun = time.monotonic()
    assert made.stop(0.2) is False
    assert time.monotonic() - begun < 30
    manager.go.set()
    assert manager.finished.wait(20)


# ---- a process of its own, and its signals

SCRIPT = '''
from nova.runtime import concurrency
concurrency.setup()
import logging, sys, threading, time
from nova import conf
from nova.runtime import log, service
made = conf.new(files=[sys.argv[1]])
log.setup(made, 'nova-test')
class Part:
    def start(self):
        print('started', flush=True)
    def stop(self, timeout):
        time.sleep(float(sys.argv[2]))
        print('stopped', flush=True)
        return True
    def reload(self):
        print('reloaded', made.debug, logging.getLogger('nova').getEffectiveLevel(), flush=True)
sys.exit(service.Process(made, 'nova-test', [Part()]).run())
'''


@pytest.fixture
def process(tmp_path):
    """start(stop seconds, environment) -> (process, configuration file)"""
    running = []

    def start(seconds=0, **environment):
        config = tmp_path / 'test.conf'
        config.write_text('[DEFAULT]\ndebug = false\n[database]\nconnection = sqlite:////canary-secret\n')
        running.append(subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-c', SCRIPT, str(config), str(seconds)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment}))
        assert running[-1].stdout.readline() == 'started\n'
        return running[-1], config
    yield start
    for item in running:
        item.kill()
        item.communicate()


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_gracefully(process, number):
    running, _config = process(0.3)
    running.send_signal(number)
    out, _err = running.communicate(timeout=30)
    assert out == 'stopped\n' and running.returncode == 0


def test_a_second_signal_stops_at_once(process):
    running, _config = process(30)
    begun = time.monotonic()
    while running.poll() is None and time.monotonic() - begun < 20:
        running.send_signal(signal.SIGTERM)              # one that comes before the last was taken is none
        time.sleep(0.3)
    assert running.returncode == 1


def test_sighup_reads_the_configuration_again(process):
    running, config = process()
    config.write_text('[DEFAULT]\ndebug = true\n')
    running.send_signal(signal.SIGHUP)
    assert running.stdout.readline() == 'reloaded True 10\n'


@pytest.mark.parametrize('text', ['[DEFAULT]\ndebug = perhaps\n', '[DEFAULT', ''])
def test_a_mistake_in_the_configuration_does_not_end_the_process(process, text):
    """Bug: an option that is one of the command line, too, ended it when it had a wrong value."""
    running, config = process()
    if text:
        config.write_text(text)
    else:
        config.unlink()
    running.send_signal(signal.SIGHUP)
    while 'reload failed' not in (line := running.stderr.readline()):
        assert line, 'it has ended'
    config.write_text('[DEFAULT]\ndebug = true\n')
    running.send_signal(signal.SIGHUP)
    assert running.stdout.readline() == 'reloaded True 10\n'
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=30)
    assert running.returncode == 0


def test_sigusr1_writes_a_report_without_secrets(process):
    running, _config = process()
    running.send_signal(signal.SIGUSR1)
    lines = []
    while not lines or 'service_down_time' not in lines[-1]:
        lines.append(running.stderr.readline())
    report = ''.join(lines)
    assert 'Guru Meditation' in report and 'Threads' in report
    assert 'graceful_shutdown_timeout = 60' in report
    running.send_signal(signal.SIGTERM)
    out, rest = running.communicate(timeout=20)
    assert out == 'stopped\n'
    assert 'connection = ***' in report + rest and 'canary-secret' not in report + rest


def test_systemd_hears_of_start_and_stop(process, tmp_path):
    address = str(tmp_path / 'notify')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(30)
        running, _config = process(0, NOTIFY_SOCKET=address, WATCHDOG_USEC='200000')
        heard = [listener.recv(100) for _ in range(4)]
        assert heard == [b'READY=1', b'WATCHDOG=1', b'WATCHDOG=1', b'WATCHDOG=1']
        running.send_signal(signal.SIGTERM)
        while (word := listener.recv(100)) == b'WATCHDOG=1':
            pass
        assert word == b'STOPPING=1'


HEART_SCRIPT = '''
from nova.runtime import concurrency
concurrency.setup()
import sys, tempfile
from nova import conf, exception
from nova.rpc import bus
from nova.rpc.interface import Interface, Method
from nova.runtime import log, service
made = conf.new(files=[], state_path=tempfile.mkdtemp(dir=sys.argv[2]), report_interval=1)
log.setup(made, 'nova-test')
class Manager:
    def start(self):
        print('manager started', flush=True)
    def job(self, context):
        pass
class Conductor:
    asked = 0
    def register_service(self, context, **who):
        self.asked += 1
        if sys.argv[1] == 'away':
            print('asked', flush=True)
            raise exception.ServiceUnavailable(service='conductor')
        if self.asked > 1:
            raise exception.ServiceExists(host='h', binary='nova-test')
        return {}
    def report_service(self, context, **who):
        part._heart._ask_s = 0.1
        return {}
    heartbeat = report_service
part = service.Service(made, 'nova-test', 'h', Interface('compute', '1.0', Method('job')), Manager(),
                       bus.Bus(made, 'nova-inprocess:///heart'), Conductor())
class Around:
    """As the all-in-one holds its services."""
    def __init__(self):
        self.parts = [part]
        self.start, self.stop = part.start, part.stop
sys.exit(service.Process(made, 'nova-test', [Around()] if sys.argv[3] == 'within' else [part]).run())
'''


def heart(tmp_path, conductor, where='alone'):
    return subprocess.Popen([sys.executable, '-W', 'ignore', '-c', HEART_SCRIPT, conductor, str(tmp_path), where],
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize('where', ['alone', 'within'])
def test_a_process_whose_name_was_given_away_ends_with_1(tmp_path, where):
    running = heart(tmp_path, 'gives away', where)
    try:
        out, err = running.communicate(timeout=30)
    finally:
        running.kill()
    assert out == 'manager started\n' and running.returncode == 1
    assert 'nova-test stops:' in err


def test_a_compute_that_waits_for_a_conductor_can_be_stopped(tmp_path):
    running = heart(tmp_path, 'away')
    try:
        assert running.stdout.readline() == 'asked\n'
        running.send_signal(signal.SIGTERM)
        out, _err = running.communicate(timeout=15)
    finally:
        running.kill()
    assert 'manager started' not in out and running.returncode == 0


def test_a_part_that_cannot_read_its_configuration_keeps_nobody_from_it(tmp_path, monkeypatch):
    class Part:
        def __init__(self, fails):
            self.fails, self.reloaded = fails, False

        def reload(self):
            self.reloaded = True
            if self.fails:
                raise OSError('the database is away')
    parts, said = [Part(True), Part(False)], []
    config = tmp_path / 'test.conf'
    config.write_text('[DEFAULT]\n')
    monkeypatch.setattr(service, 'notify', said.append)
    process = service.Process(nova_conf.new(files=[str(config)]), 'nova-test', parts)
    process._reload()
    assert all(part.reloaded for part in parts) and said[0].startswith('RELOADING=1') and said[-1] == 'READY=1'
    config.write_text('no option')
    with pytest.raises(cfg.ConfigFileParseError):
        process._reload()
    assert said[-1] == 'READY=1'


def test_a_configuration_that_is_read_again_brings_the_versions_of_others():
    conductor = Conductor()
    made, _client = make(Manager(), conductor, report_interval=5)
    made.start()
    made.reload()
    assert [name for name, _ in conductor.told] == ['register_service', 'report_service', 'register_service',
                                                    'heartbeat']
    assert made.stop(5)


def test_two_heartbeats_at_once_do_not_take_each_others_answer(caplog):
    conductor = Conductor()
    made, _client = make(Manager(), conductor, report_interval=5)
    made.start()
    before = len(conductor.heartbeats())
    begun = time.monotonic()
    threads = [threading.Thread(target=made.reload) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(conductor.heartbeats()) == before + 8 and time.monotonic() - begun < 30
    assert made.stop(5)
    assert 'does not receive messages' not in caplog.text


def test_a_service_that_has_stopped_does_not_subscribe_again(caplog):
    made, client = make(Manager(), Conductor())
    made.start()
    assert made.stop(5)
    before = made._server._rpc
    made._server.resubscribe()
    assert made._server._rpc is before
    made._heart._wait_s = 0.1
    assert not made._heart.send() and 'does not receive messages' not in caplog.text
