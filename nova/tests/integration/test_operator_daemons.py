"""Each daemon as a process of its own, over one broker: its report, and what nova-manage does beside them."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from nova.tests.integration import servers
from nova.tests.support.daemons import CONFIG
from nova.tests.support.daemons import GLANCE

BIN = pathlib.Path(sys.executable).parent
SECRET = 'canary-' + 'secret'
DAEMONS = ('conductor', 'scheduler', 'network', 'compute', 'api', 'api_metadata')
WORDS = ('Guru Meditation', 'Package', 'product = nova', 'Threads', 'Green Threads', 'nova health', 'main loop = well',
         'nova services', 'service_down_time')
OWN = {'conductor': 'usage differences that the audit has corrected = 0', 'scheduler': 'nodes in the host table = ',
       'compute': 'servers with a task = 0', 'network': 'nova-network host1', 'api': 'threads of this process',
       'api_metadata': 'threads of this process'}


@pytest.fixture(scope='module')
def deployment(tmp_path_factory):
    """(directory, {daemon: process}, {daemon: port}); all of them are up."""
    directory = tmp_path_factory.mktemp('operator')
    started, ports = {}, {'api': servers.free_port(), 'api_metadata': servers.free_port()}
    text = CONFIG.format(url=servers.virtual_host().url, state=directory, host='host1', port=ports['api'],
                         volume_port=0)
    text += f'[metadata]\nshared_secret = {SECRET}\nport = {ports["api_metadata"]}\n'
    (directory / 'nova.conf').write_text(text)
    (directory / 'compute.conf').write_text(text + GLANCE)
    for command in ('db', 'api_db'):
        subprocess.run([BIN / 'nova-manage', command, 'sync', '--config-file', directory / 'nova.conf'], check=True)
    logs = []
    try:
        for name in DAEMONS:
            config = 'compute.conf' if name == 'compute' else 'nova.conf'
            logs.append(open(directory / f'{name}.log', 'wb'))
            started[name] = subprocess.Popen(
                [sys.executable, '-W', 'ignore', '-c', f'import sys; from nova.cmd import {name}; '
                 f'sys.exit({name}.main())', '--config-file', directory / config],
                stdout=logs[-1], stderr=logs[-1], env=dict(os.environ))
        _up(directory, started, ports)
        yield directory, started, ports
    finally:
        for process in started.values():
            process.kill()
            process.wait()
        for log in logs:
            log.close()


def _up(directory, started, ports):
    def reporting():
        for name, process in started.items():
            assert process.poll() is None, (directory / f'{name}.log').read_text()[-3000:]
        return _manage(directory, 'service', 'list')[1].count(' up ') == 4

    def serving():           # a run of nova-manage costs much: it is not asked before
        return all(started[name].poll() is not None or ' serves' in (directory / f'{name}.log').read_text()
                   for name in started if name not in ports)
    _wait(serving, directory / 'compute.log')
    _wait(reporting, directory / 'compute.log')
    _wait(lambda: _manage(directory, 'service', 'describe_resource', 'host1')[0] == 0, directory / 'compute.log')
    for name, port in ports.items():
        _wait(lambda port=port: servers.answers(port), directory / f'{name}.log')


def _wait(condition, log, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)


def _manage(directory, *arguments):
    done = subprocess.run([BIN / 'nova-manage', *arguments, '--config-file', directory / 'nova.conf'],
                          capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout, done.stderr


def test_every_daemon_reports_on_itself(deployment):
    directory, started, _ports = deployment          # before they listen for it, the signal would end them
    for process in started.values():
        process.send_signal(signal.SIGUSR1)
    for name in started:
        log = directory / f'{name}.log'
        _wait(lambda log=log: '\nvnc:' in log.read_text(), log)             # the last group of the configuration
    for name, process in started.items():
        text = (directory / f'{name}.log').read_text()
        missing = [word for word in WORDS if word not in text]
        assert missing == [], (name, missing, text[-2000:])
        assert OWN[name] in text, (name, text[-3000:])
        assert SECRET not in text and 'guest:guest' not in text, name
        assert process.poll() is None, name


def test_no_process_shows_a_secret_in_its_arguments(deployment):
    _directory, started, _ports = deployment
    for process in started.values():
        words = pathlib.Path(f'/proc/{process.pid}/cmdline').read_bytes()
        assert SECRET.encode() not in words and b'guest:' not in words


def test_nova_manage_speaks_to_them_over_the_broker(deployment):
    directory, _started, _ports = deployment
    code, out, err = _manage(directory, 'vm', 'list')
    assert (code, len(out.splitlines()), err) == (0, 1, '')
    code, _out, err = _manage(directory, 'live-migration', 'nobody', 'host1')
    assert code == 1 and err == 'nova-manage: Instance nobody could not be found.\n'
    assert _manage(directory, 'host', 'list')[1].splitlines()[1].split()[0] == 'host1'
