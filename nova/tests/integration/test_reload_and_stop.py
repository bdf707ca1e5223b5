"""Signals of real daemons behind a real broker: SIGHUP reads the configuration again, SIGTERM loses no message."""
import contextlib
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from nova import conf as nova_conf
from nova import context
from nova.rpc import bus
from nova.rpc import versions
from nova.rpc.interface import Interface
from nova.rpc.interface import Method
from nova.tests.support import waiting
from nova.tests.integration import servers
from nova.tests.older_release import tree
from nova.tests.support import daemons as test_daemons

WORK = Interface('work', '1.0', Method('job', ('number',)))
WORKER = '''
import sys, time
from nova.runtime import concurrency
concurrency.setup()
from nova import conf
from nova.rpc import bus
from nova.rpc import versions
from nova.runtime import log, service
from nova.tests.integration import test_reload_and_stop as test
class Manager:
    def job(self, ctx, number):
        time.sleep(0.02)
        with open(sys.argv[2], 'a') as file:
            file.write(f'{number}\\n')
made = conf.new(files=[], graceful_shutdown_timeout=20, state_path=sys.argv[3])
transport = bus.Bus(made, sys.argv[1])
class Ready:
    def start(self):
        print('ready', flush=True)
    def stop(self, timeout):
        return True
sys.exit(service.Process(made, 'nova-work', [
    service.Service(made, 'nova-work', 'one', test.WORK, Manager(), transport), Ready()]).run())
'''
JOBS = 120


@pytest.fixture(scope='module')
def broker():
    return servers.virtual_host()


def test_messages_that_arrive_during_a_stop_stay_for_the_next_process(broker, tmp_path):
    """Each of them is done once: by the process that stops, or by the one after it."""
    done = tmp_path / 'done'
    done.touch()
    with contextlib.ExitStack() as stack:
        def start():
            process = stack.enter_context(subprocess.Popen(
                [sys.executable, '-W', 'ignore', '-c', WORKER, broker.url, str(done), str(tmp_path)],
                stdout=subprocess.PIPE, cwd=tree.ROOT, env=tree.environment()))
            stack.callback(process.kill)
            assert process.stdout.readline() == b'ready\n'
            return process
        client = bus.Bus(nova_conf.new(files=[]), broker.url).client(WORK)
        def cast(numbers):
            for number in numbers:
                client.job(context.admin_context(), server='one', number=number)

        def lines():
            return len(done.read_text().split())
        first = start()
        cast(range(JOBS // 3))
        waiting.wait_for(lambda: lines() > JOBS // 6, 240, 'the first to work')
        first.send_signal(signal.SIGTERM)
        cast(range(JOBS // 3, JOBS - 1))
        assert first.wait(120) == 0
        cast([JOBS - 1])                                     # there is something left for the next one in any case
        assert lines() < JOBS
        second = start()
        waiting.wait_for(lambda: lines() >= JOBS, 240, 'the second to do the rest')
        second.send_signal(signal.SIGTERM)
        assert second.wait(120) == 0
    assert sorted(map(int, done.read_text().split())) == list(range(JOBS))


def test_sighup_reads_the_configuration_of_every_daemon_again(broker, tmp_path):
    """Also while one still starts (it is left alone); the pins are seen to follow."""
    port = servers.free_port()
    text = test_daemons.CONFIG.format(url=broker.url, state=tmp_path, host='host1', port=port, volume_port=0)
    configs = {'nova.conf': text, 'compute.conf': text + test_daemons.GLANCE}
    for name, content in configs.items():
        (tmp_path / name).write_text(content)
    for command in ('db', 'api_db'):
        subprocess.run([*tree.command('nova-manage'), command, 'sync', '--config-file', tmp_path / 'nova.conf'],
                       check=True, env=tree.environment())
    with contextlib.ExitStack() as stack:
        running = {}
        for name in ('conductor', 'scheduler', 'network', 'compute', 'api'):
            config = 'compute.conf' if name == 'compute' else 'nova.conf'
            log = stack.enter_context(open(tmp_path / f'{name}.log', 'wb'))
            running[name] = subprocess.Popen([*tree.command(f'nova-{name}'), '--config-file', tmp_path / config],
                                             stdout=log, stderr=log, env=tree.environment())
            stack.callback(running[name].wait)
            stack.callback(running[name].kill)
        _until(lambda: b'starts' in (tmp_path / 'conductor.log').read_bytes(), running, tmp_path)
        running['conductor'].send_signal(signal.SIGHUP)
        read = {name: (tmp_path / f'{name}.log').read_text for name in running}
        for name in running:
            _until(lambda: 'serves' in read[name]() if name != 'api' else servers.answers(port), running, tmp_path)
        for name in ('conductor', 'scheduler', 'api'):       # who looks at the rows
            _until(lambda: 'Messages to conductor use the newest version' in read[name](), running, tmp_path)
        level = versions.RELEASES[versions.VERSION].interfaces['conductor']
        for name, content in configs.items():
            (tmp_path / name).write_text(content.replace('[DEFAULT]', '[DEFAULT]\ndebug = true\n', 1)
                                         + f'\n[upgrade_levels]\nconductor = {level}\n')
        for process in running.values():
            process.send_signal(signal.SIGHUP)
        for name in running:
            _until(lambda: 'Configuration read again; 2 options changed' in read[name](), running, tmp_path)
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in running.items():
            assert process.wait(120) == 0, name


def _until(condition, running, directory: pathlib.Path, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        for name, process in running.items():
            assert process.poll() is None, (directory / f'{name}.log').read_text()[-2000:]
        assert time.monotonic() < deadline, {name: (directory / f'{name}.log').read_text()[-1000:] for name in running}
        time.sleep(0.2)
