"""The daemons as processes of their own, over a real broker: no process but nova-compute lacks a database."""
import contextlib
import os
import signal
import subprocess
import time

import pytest
import requests

from nova.tests import long_runs
from nova.tests.integration import prepared
from nova.tests.integration import servers
from nova.tests.support.daemons import CONFIG
from nova.tests.support.daemons import GLANCE


@pytest.fixture(scope='module')
def deployment(tmp_path_factory):
    """(URL of nova-api, URL of nova-volume, a token, {daemon: process}, directory); computes are host1."""
    directory = tmp_path_factory.mktemp('daemons')
    with contextlib.ExitStack() as stack:
        broker = servers.virtual_host()
        port, volume_port = servers.free_port(), servers.free_port()
        text = CONFIG.format(url=broker.url, state=directory, host='host1', port=port, volume_port=volume_port)
        (directory / 'nova.conf').write_text(text)
        (directory / 'compute.conf').write_text(text + GLANCE)
        first = prepared.prepare(directory / 'nova.conf', f'http://127.0.0.1:{port}')
        first.close()
        running = {}
        for name in ('conductor', 'scheduler', 'network', 'compute', 'api', 'volume', 'cert'):
            config = 'compute.conf' if name == 'compute' else 'nova.conf'
            log = stack.enter_context(open(directory / f'{name}.log', 'wb'))
            running[name] = subprocess.Popen([prepared.BIN / f'nova-{name}', '--config-file', directory / config],
                                             stdout=log, stderr=log, env=dict(os.environ))
            stack.callback(running[name].wait)
            stack.callback(running[name].kill)
        yield f'http://127.0.0.1:{port}', f'http://127.0.0.1:{volume_port}/volume/v3', first.token, running, directory


def _services(directory):
    out = subprocess.run([prepared.BIN / 'nova-manage', 'service', 'list', '--config-file',
                          directory / 'nova.conf'], check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in out.splitlines()[1:] if ' up ' in line}


@long_runs.only
def test_daemons_find_each_other_and_stop(deployment):
    url, volumes, token, running, directory = deployment
    deadline = time.monotonic() + 240
    wanted = {f'nova-{name}' for name in running if name != 'api'}
    while _services(directory) != wanted or not servers.answers(int(url.rpartition(':')[2])):
        for name, process in running.items():
            assert process.poll() is None, (directory / f'{name}.log').read_text()[-2000:]
        assert time.monotonic() < deadline, (directory / 'compute.log').read_text()[-2000:]
        time.sleep(0.3)
    assert requests.get(url + '/v2.1/servers', timeout=60).status_code == 401
    assert requests.get(url + '/v2.1/', timeout=60).status_code == 200
    assert requests.get(volumes + '/volumes', timeout=60).status_code == 401
    made = requests.post(volumes + '/volumes', json={'volume': {'size': 1}}, headers={'X-Auth-Token': token},
                         timeout=60)
    assert made.status_code == 202 and (directory / 'volumes' / made.json()['volume']['id']).exists()
    networks = url + '/network/v2.0/networks'
    assert requests.get(url + '/network/', timeout=60).status_code == 200
    assert requests.get(networks, timeout=60).status_code == 401
    made = requests.post(networks, json={'network': {'name': 'mine'}}, headers={'X-Auth-Token': token}, timeout=60)
    assert made.status_code == 201, made.text
    made = requests.post(url + '/v2.1/os-certificates', json={}, headers={'X-Auth-Token': token}, timeout=60)
    assert made.status_code == 200 and 'BEGIN PRIVATE KEY' in made.json()['certificate']['private_key'], made.text
    assert {path.stat().st_mode & 0o777 for path in (directory / 'CA').rglob('*.key')} == {0o600}
    for process in running.values():
        process.send_signal(signal.SIGTERM)
    for name, process in running.items():
        assert process.wait(120) == 0, name


def test_a_daemon_without_a_schema_says_what_to_do(tmp_path):
    config = tmp_path / 'nova.conf'
    config.write_text(CONFIG.format(url='rabbit://127.0.0.1:9/', state=tmp_path, host='h', port=0, volume_port=0))
    done = subprocess.run([prepared.BIN / 'nova-conductor', '--config-file', config],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith('run: nova-manage api_db sync')


def test_a_daemon_without_a_broker_says_so(tmp_path):
    config = tmp_path / 'nova.conf'
    config.write_text('[DEFAULT]\ncompute_driver = fake\n[image]\nbackend = glance\n')
    done = subprocess.run([prepared.BIN / 'nova-compute', '--config-file', config],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 1 and 'transport_url is not set' in done.stderr.splitlines()[-1]
