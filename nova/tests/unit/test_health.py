"""What is asked by systemd's watchdog, /healthz, /readyz and /healthcheck, and what it answers."""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.api import health as healthcheck
from nova.conductor.hosts import heartbeats
from nova.identity import hashing
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime import memory
from nova.runtime import metrics
from nova.runtime import monitoring
from nova.runtime import wsgi
from nova.tests.support import waiting


def ask(application, path, method='GET', **environ):
    """(status code, headers, body)."""
    started = []
    body = b''.join(application({'PATH_INFO': path, 'REQUEST_METHOD': method, 'REMOTE_ADDR': '127.0.0.1', **environ},
                                lambda status, headers: started.append((int(status[:3]), dict(headers)))))
    return *started[0], body


# ---- pools, heartbeats, needs

@pytest.fixture
def clock(monkeypatch):
    """[what time.monotonic() says to the checks]"""
    now = [1000.0]
    monkeypatch.setattr(health, 'time', types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_workers_that_are_all_busy_are_alive_while_something_moves(clock):
    work = health.Work(2)
    with work:
        clock[0] += 2 * health.STUCK_S
        assert work.alive()[0]               # one of two
        with work:
            assert work.alive()[0]
            clock[0] += health.STUCK_S
            assert work.alive() == (False, {'workers': 2, 'working': 2, 'seconds_since_progress': health.STUCK_S})
        assert work.alive()[0]


def late():
    return metrics.HEARTBEATS_LATE.labels('nova-test')._value.get()


def test_a_heartbeat_lives_while_it_is_tried_and_is_ready_while_it_arrives(clock):
    heartbeat, before = health.Heartbeat('nova-test', 10, 60), late()
    assert heartbeat.alive()[0] and heartbeat.ready() == (False, {'arrived': 'never'})
    heartbeat.done(True)
    assert heartbeat.ready()[0] and late() == before
    clock[0] += 10 + health.HEARTBEAT_STUCK_S
    assert not heartbeat.alive()[0] and not heartbeat.ready()[0]
    heartbeat.done(False)
    assert heartbeat.alive()[0] and not heartbeat.ready()[0] and late() == before
    heartbeat.done(True)
    assert heartbeat.ready()[0] and late() == before + 1


def test_unresponsive_dependency_does_not_delay_other_checks(monkeypatch):
    monkeypatch.setattr(health, 'ANSWER_S', 0.1)
    gate, asked = threading.Event(), []

    def hangs():
        asked.append(1)
        gate.wait(20)

    def refuses():
        raise OSError('user nova at secret-host')
    needs = health.Dependencies({'hangs': hangs, 'refuses': refuses, 'answers': lambda: None})

    def answered():
        found = needs.ready()
        assert not found['hangs'][0]
        return found['answers'][0] and found['refuses'] == (False, {'error': 'OSError'})
    for _ in range(3):
        waiting.wait_for(answered, 20, 'the answers of the others')
    assert asked == [1]                      # one question at a time
    gate.set()
    deadline = time.monotonic() + 120
    while not needs.ready()['hangs'][0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_check_runs_again_after_a_shortage_of_threads(monkeypatch):
    """The check was never asked again."""
    def fails(*_arguments):
        raise RuntimeError("can't start new thread")
    needs = health.Dependencies({'database': lambda: None})
    monkeypatch.setattr(health, 'FRESH_S', 0)
    with monkeypatch.context() as patch:
        patch.setattr(health.concurrency, 'spawn', fails)
        assert needs.ready() == {'database': (False, {'error': 'no thread can start'})}
    assert needs.ready()['database'][0]


def test_other_background_work_begins_after_a_shortage_of_threads(monkeypatch):
    """A flag said that a thread was at work, so that no later call started one."""
    spawn, fails = concurrency.spawn, [True]

    def try_to_spawn(*arguments):
        if fails[0]:
            raise RuntimeError("can't start new thread")
        return spawn(*arguments)
    monkeypatch.setattr(concurrency, 'spawn', try_to_spawn)
    conf, beat = nova_conf.new(files=[]), ('host1', 'nova-compute', 'compute', 1, 'nova', '')
    pool, gathered = hashing.HashPool(1, 4), heartbeats.Heartbeats(None, conf)
    written = []
    monkeypatch.setattr(gathered, 'write', written.append)
    gathered.add(*beat)
    for _ in range(5):                       # more than the pool has places: none of them keeps one
        with pytest.raises(exception.ServiceBusy):
            pool.run('192.0.2.1', int, 5)
    memory.answered(memory.LARGE)            # the answer is not lost
    assert not written
    fails[0] = False
    assert pool.run('192.0.2.1', int, 5) == 5
    gathered.add(*beat)
    waiting.wait_for(lambda: written, 20, 'the heartbeat')


# ---- the listener

class Process:
    """Stands for a service.Process that is what these say."""

    def __init__(self, alive=True, ready=True):
        self._alive, self._ready = alive, ready

    def alive(self):
        return {'main loop': (self._alive, {'seconds': 1})}

    def ready(self):
        return {**self.alive(), 'database': (self._ready, {'error': 'DBConnectionError'})}


@pytest.mark.parametrize('alive, ready, healthz, readyz', [
    (True, True, 200, 200), (True, False, 200, 503), (False, True, 503, 503)])
def test_health_has_a_code_and_details(alive, ready, healthz, readyz):
    application = monitoring.Application(Process(alive, ready))
    assert ask(application, '/healthz')[0] == healthz
    code, headers, body = ask(application, '/readyz')
    document = json.loads(body)
    assert code == readyz and headers['Content-Type'] == 'application/json'
    assert document['status'] == ('ok' if code == 200 else 'failed')
    assert document['checks']['database'] == {'status': 'ok' if ready else 'failed', 'error': 'DBConnectionError'}


@pytest.mark.parametrize('address', ['192.0.2.7', '2001:db8::7', '', 'nonsense'])
def test_details_are_told_on_this_host_alone(address):
    application = monitoring.Application(Process(True, False))
    code, _headers, body = ask(application, '/readyz', REMOTE_ADDR=address)
    assert code == 503 and json.loads(body) == {'status': 'failed'}
    assert 'checks' in json.loads(ask(application, '/readyz', REMOTE_ADDR='::1')[2])


def test_health_port_refuses_other_paths_and_methods():
    application = monitoring.Application(Process())
    assert ask(application, '/')[0] == ask(application, '/metrics/x')[0] == 404
    code, headers, _body = ask(application, '/metrics', 'POST')
    assert code == 405 and headers['Allow'] == 'GET, HEAD'
    code, headers, body = ask(application, '/metrics', 'HEAD')
    assert code == 200 and body == b'' and int(headers['Content-Length']) > 1000


def test_a_port_that_is_taken_ends_the_start_only_where_it_was_asked_for(monkeypatch, caplog):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setitem(monitoring.PORTS, 'nova-test', port)
        monitor = monitoring.Monitor(nova_conf.new(files=[]), Process(), 'nova-test')
        monitor.start()
        assert monitor.port is None and 'There are no metrics of this nova-test' in caplog.text
        with pytest.raises(exception.InvalidInput):
            monitoring.Monitor(nova_conf.new(files=[], monitoring__port=port), Process(), 'nova-test').start()


def test_health_port_can_be_disabled():
    monitor = monitoring.Monitor(nova_conf.new(files=[], monitoring__enabled=False), Process(), 'nova-all')
    monitor.start()
    assert monitor.port is None and monitor.stop(1)


def test_every_daemon_has_a_port_of_its_own():
    assert len(set(monitoring.PORTS.values())) == len(monitoring.PORTS)
    help_text = next(option.help for option in nova_conf.monitoring.OPTIONS if option.name == 'port')
    assert all(f'{binary} {port}' in help_text for binary, port in monitoring.PORTS.items())


# ---- /healthcheck

def served(environ, start_response):
    start_response('200 OK', [])
    return [b'served']


def test_a_load_balancer_sees_a_node_that_is_drained_or_stops(tmp_path):
    stopping = threading.Event()
    drained = tmp_path / 'disabled'
    application = healthcheck.factory({}, str(drained))(served)

    def get(method='GET'):
        code, _headers, body = ask(application, '/healthcheck', method, **{'nova.stopping': stopping})
        return code, body
    assert get() == (200, b'OK') and get('HEAD') == (200, b'') and get('POST')[0] == 405
    assert ask(application, '/servers')[2] == ask(application, '/healthcheck/x')[2] == b'served'
    drained.touch()
    assert get() == (503, b'DISABLED BY FILE')
    drained.unlink()
    assert get() == (200, b'OK')
    stopping.set()
    assert get() == (503, b'STOPPING')


def test_a_stopping_server_answers_while_it_drains():
    import requests
    server = wsgi.Server(healthcheck.factory({})(served), '127.0.0.1', 0, threads=2, drain=5)
    server.start()
    url = f'http://127.0.0.1:{server.port}'
    assert requests.get(url + '/healthcheck', timeout=20).status_code == 200
    stopping = threading.Thread(target=server.stop, args=(20,))
    stopping.start()
    deadline = time.monotonic() + 4
    while requests.get(url + '/healthcheck', timeout=20).text != 'STOPPING':
        assert time.monotonic() < deadline
    assert requests.get(url + '/servers', timeout=20).text == 'served'
    stopping.join(30)
    with pytest.raises(requests.ConnectionError):
        requests.get(url + '/servers', timeout=20)


# ---- systemd's watchdog

SCRIPT = '''
from nova.runtime import concurrency
concurrency.setup()
import sys, threading, time
from nova import conf, context
from nova.rpc import bus
from nova.rpc.interface import Interface, Method
from nova.runtime import health, log, monitoring, service
stuck, health.STUCK_S, health.HEARTBEAT_STUCK_S = sys.argv[1], 4, 6
made = conf.new(files=[], report_interval=1, monitoring__port=0, state_path=sys.argv[2])
bus.register_options(made)
made.set_override('executor_thread_pool_size', 2)
log.setup(made, 'nova-test')
gate = threading.Event()
class Manager:
    def job(self, context):
        if stuck == 'workers':
            gate.wait()
class Conductor:
    def report_service(self, context, **values):
        return {}
    register_service = report_service
    def heartbeat(self, context, **values):
        if stuck == 'heartbeat':
            gate.wait()
transport = bus.Bus(made, 'nova-inprocess:///watched')
interface = Interface('work', '1.0', Method('job'))
part = service.Service(made, 'nova-test', 'host1', interface, Manager(), transport, Conductor())
process = service.Process(made, 'nova-test', [part])
process.parts.insert(0, monitoring.Monitor(made, process, 'nova-test'))
class Last:
    def start(self):
        for _ in range(2):
            transport.client(interface).job(context.admin_context())
        print(process.parts[0].port, flush=True)
    def stop(self, timeout):
        gate.set()
process.parts.append(Last())
sys.exit(process.run())
'''


@pytest.mark.parametrize('stuck', ['nothing', 'heartbeat', 'workers'])
def test_the_watchdog_hears_of_a_process_only_while_all_of_it_works(tmp_path, stuck):
    import requests
    address = str(tmp_path / 'notify')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        running = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-c', SCRIPT, stuck, str(tmp_path)], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, 'NOTIFY_SOCKET': address, 'WATCHDOG_USEC': '200000'})
        try:
            port = int(running.stdout.readline())
            listener.settimeout(60)
            assert listener.recv(100) == b'READY=1' and listener.recv(100) == b'WATCHDOG=1'
            listener.settimeout(4)           # forty times the watchdog's beat
            deadline = time.monotonic() + (3 if stuck == 'nothing' else 60)
            silent = False
            while not silent and time.monotonic() < deadline:
                try:
                    assert listener.recv(100) == b'WATCHDOG=1'
                except TimeoutError:
                    silent = True
            assert silent == (stuck != 'nothing')
            answer = requests.get(f'http://127.0.0.1:{port}/healthz', timeout=20)
            failed = [name for name, check in answer.json()['checks'].items() if check['status'] != 'ok']
            assert (f'nova-test host1 {stuck}' in failed) == bool(failed) == (stuck != 'nothing')
            assert answer.status_code == (503 if failed else 200)
            text = requests.get(f'http://127.0.0.1:{port}/metrics', timeout=20).text
            assert f'nova_healthy {0 if failed else 1}.0' in text
            running.send_signal(signal.SIGTERM)
            _out, err = running.communicate(timeout=60)
            assert ('does not work' in err) == bool(failed)
        finally:
            running.kill()
            running.communicate()
