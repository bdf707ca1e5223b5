"""[http] workers: several processes at one port, which outlive each other."""
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.runtime.http import server
from nova.runtime.http import workers
from nova.tests.integration import servers
from nova.tests.support import waiting

# A daemon whose only part is a server; PATH_INFO says what to do.
DAEMON = '''
import json, os, sys, time
from nova.runtime import concurrency
from nova.cmd import common
def application(environ, start_response):
    if environ['PATH_INFO'] == '/held':
        open(sys.argv[1] + '/begun', 'w').close()
        while not os.path.exists(sys.argv[1] + '/end'):
            time.sleep(0.01)
    start_response('200 OK', [('Content-Type', 'application/json')])
    return [json.dumps({'pid': os.getpid(), 'first': os.getppid(), 'reloads': Reloads.number}).encode()]
class Reloads:
    number = 0
    def start(self):
        if os.path.exists(sys.argv[1] + '/broken'):
            from nova import exception
            raise exception.InvalidInput(reason='it is broken')
    def stop(self, timeout):
        return True
    def reload(self):
        Reloads.number += 1
def parts(conf, worker):
    from nova.runtime import wsgi
    return [Reloads(), wsgi.Server(application, '127.0.0.1', conf.http.port, listener=worker and worker.http)]
if __name__ == '__main__':
    sys.exit(common.run('nova-api', parts, arguments=['--config-file', sys.argv[1] + '/nova.conf'], workers=True))
'''
CONFIG = '''
[DEFAULT]
state_path = {state}
graceful_shutdown_timeout = 10
[http]
port = {port}
workers = 2
[monitoring]
port = {monitoring}
'''


class Daemon:
    """The processes of one."""

    def __init__(self, directory):
        self.directory = directory
        self.port, self.monitoring = servers.free_port(), servers.free_port()
        (directory / 'daemon.py').write_text(DAEMON)
        (directory / 'nova.conf').write_text(CONFIG.format(state=directory, port=self.port,
                                                           monitoring=self.monitoring))

    def start(self):
        with open(self.directory / 'log', 'ab') as log:
            self.process = subprocess.Popen([sys.executable, '-W', 'ignore', self.directory / 'daemon.py',
                                             self.directory], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def ask(self, path='/'):
        return json.loads(self._get(self.port, path))

    def monitored(self, path):
        return self._get(self.monitoring, path)

    @staticmethod
    def _get(port, path):
        with urllib.request.urlopen(f'http://127.0.0.1:{port}{path}', timeout=20) as answer:
            return answer.read().decode()

    def serves(self):
        try:
            self.monitored('/readyz')
        except OSError:
            assert self.process.poll() is None, self.log()
            return False
        return True

    def pids(self):
        """Of the workers, seen by many connections."""
        return {self.ask()['pid'] for _ in range(40)}

    def log(self):
        return (self.directory / 'log').read_text(errors='replace')

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def daemon(tmp_path):
    """One that the test may end."""
    with _running(tmp_path) as made:
        yield made


@pytest.fixture(scope='module')
def shared(tmp_path_factory):
    """One with two workers, before and after each test."""
    with _running(tmp_path_factory.mktemp('shared')) as made:
        yield made


@contextlib.contextmanager
def _running(directory):
    made = Daemon(directory).start()
    with contextlib.ExitStack() as stack:
        stack.callback(made.end)
        waiting.wait_for(made.serves, 60, 'the workers')
        yield made


def _gone(pid):
    """Whether a process has ended; one that waits to be collected has."""
    try:
        with open(f'/proc/{pid}/stat') as stat:
            return stat.read().rpartition(')')[2].split()[0] == 'Z'
    except FileNotFoundError:
        return True


def _ignores(pid, number):
    """Whether a process ignores a signal; one that has ended does."""
    try:
        with open(f'/proc/{pid}/status') as status:
            ignored = int(re.search(r'SigIgn:\s*(\w+)', status.read())[1], 16)
    except (FileNotFoundError, ProcessLookupError):
        return True
    return bool(ignored >> number - 1 & 1)


def test_two_processes_serve_one_port(shared):
    daemon = shared
    pids = daemon.pids()
    assert len(pids) == 2 and daemon.process.pid not in pids
    assert {daemon.ask()['first'] for _ in range(10)} == {daemon.process.pid}


def test_a_worker_that_is_killed_is_started_again_and_no_connection_is_refused(shared):
    daemon, said = shared, len(shared.log())
    before = daemon.pids()
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while True:
        pids = daemon.pids()                         # an answer each, also while one of them starts
        if len(pids) == 2 and killed not in pids:
            break
        assert time.monotonic() < deadline, pids
    assert len(pids & before) == 1
    assert f'ended with signal {signal.SIGKILL.value}' in daemon.log()[said:]


def held(daemon):
    """A connection with a request that is under way until the file 'end' is there."""
    connection = http.client.HTTPConnection('127.0.0.1', daemon.port, timeout=20)
    connection.request('GET', '/held')
    waiting.wait_for((daemon.directory / 'begun').exists, 20, 'the request')
    return connection


def test_a_stop_lets_requests_end(daemon):
    pids = daemon.pids()
    connection = held(daemon)
    daemon.process.terminate()
    waiting.wait_for(lambda: all(_ignores(pid, signal.SIGTERM) for pid in pids), 20, 'the workers')
    (daemon.directory / 'end').touch()
    assert connection.getresponse().status == 200
    assert daemon.process.wait(30) == 0, daemon.log()
    with pytest.raises(OSError):
        daemon.ask()


def test_a_stop_signal_to_all_processes_lets_requests_end(daemon):
    """systemd signals each process of the service, and the first process then signalled the workers again."""
    pids = daemon.pids()
    connection = held(daemon)
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    waiting.wait_for(lambda: all(_ignores(pid, signal.SIGTERM) for pid in pids), 20, 'the workers')
    daemon.process.terminate()
    (daemon.directory / 'end').touch()
    assert connection.getresponse().status == 200
    assert daemon.process.wait(30) == 0, daemon.log()


def test_workers_end_with_the_first_process_and_the_next_one_has_the_port(daemon):
    pids = daemon.pids()
    daemon.end()
    daemon.start()
    waiting.wait_for(lambda: all(_gone(pid) for pid in pids), 30, 'the workers')
    waiting.wait_for(daemon.serves, 60, 'the workers')
    assert not daemon.pids() & pids


def test_sighup_reaches_all_workers(shared):
    daemon = shared
    daemon.process.send_signal(signal.SIGHUP)
    waiting.wait_for(lambda: {daemon.ask()['reloads'] for _ in range(40)} == {1}, 20, 'the workers')


def test_metrics_and_health_are_of_all(shared):
    daemon = shared
    daemon.pids()
    text = daemon.monitored('/metrics')
    for worker in '012':
        assert f'worker="{worker}"' in text
    families = re.findall(r'^# TYPE (\S+)', text, re.M)
    assert len(families) == len(set(families))
    checks = json.loads(daemon.monitored('/healthz'))['checks']
    assert {checks[f'nova-api worker {number}']['serves'] for number in (1, 2)} == {True}


def test_daemon_is_not_ready_while_a_worker_cannot_be_restarted(shared):
    daemon = shared
    pids = daemon.pids()
    (daemon.directory / 'broken').touch()
    os.kill(min(pids), signal.SIGKILL)
    waiting.wait_for(lambda: not daemon.serves(), 20, '503')
    assert 'it is broken' in waiting.wait_for(lambda: 'exit code 1' in daemon.log() and daemon.log(), 20, 'the log')
    (daemon.directory / 'broken').unlink()
    waiting.wait_for(daemon.serves, 40, 'the worker')
    assert len(daemon.pids()) == 2


def test_a_worker_that_hangs_is_killed(tmp_path):
    daemon = Daemon(tmp_path)
    conf = nova_conf.new(['--config-file', str(tmp_path / 'nova.conf')])
    pool = workers.Pool(conf, 'nova-api', [sys.executable, '-W', 'ignore', str(tmp_path / 'daemon.py'),
                                           str(tmp_path)], silent_s=7)
    pool.start()
    try:
        before = daemon.pids()
        os.kill(min(before), signal.SIGSTOP)
        waiting.wait_for(lambda: _gone(min(before)), 40, 'the workers')
        waiting.wait_for(lambda: all(details['serves'] for _well, details in pool.alive().values()), 40, 'the workers')
        assert len(daemon.pids()) == 2
    finally:
        assert pool.stop(20)


HANGS = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.close(json.loads(os.environ['NOVA_WORKER'])['first'])
open(sys.argv[1], 'w').close()
time.sleep(60)
"""


def test_a_worker_that_closes_its_socket_and_lives_on_is_killed_at_the_end(tmp_path):
    closed = tmp_path / 'closed'
    worker = workers._Worker('nova-api', 1, [sys.executable, '-c', HANGS, str(closed)], 60,
                             server.listening_socket('127.0.0.1', 0))
    worker.start()
    waiting.wait_for(closed.exists, 20, 'the end of its socket')
    time.sleep(0.2)                          # the thread of the worker waits for the end of the process
    process, begun = worker._process, time.monotonic()
    worker.terminate()
    assert not worker.ended(time.monotonic() + 0.5)
    assert time.monotonic() - begun < 20 and process.returncode == -signal.SIGKILL


def test_reason_of_a_failed_worker_start_is_logged(tmp_path):
    daemon = Daemon(tmp_path)
    (tmp_path / 'broken').touch()
    assert daemon.start().process.wait(60) == 1
    assert 'it is broken' in daemon.log() and 'Worker 1 failed to start, with exit code 1' in daemon.log()
    (tmp_path / 'broken').unlink()
    with server.listening_socket('127.0.0.1', daemon.port, shared=True):
        assert daemon.start().process.wait(60) == 1
    assert f'Cannot listen on 127.0.0.1:{daemon.port}' in daemon.log()


def test_an_all_in_one_is_one_process(tmp_path):
    from nova.cmd import all as nova_all
    conf = nova_conf.new([], files=[], state_path=str(tmp_path), http__workers=2)
    with pytest.raises(exception.InvalidInput, match='nova-all is one process'):
        nova_all.cloud(conf, {})
