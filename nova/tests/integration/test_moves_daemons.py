"""Servers that move between computes in processes of their own, over a real broker; one of them is killed."""
import contextlib
import subprocess

import pytest

from nova.db.placement import claims
from nova.rpc import bus
from nova.tests import long_runs
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.integration import prepared
from nova.tests.integration import servers
from nova.tests.support.waiting import wait_for

CONFIG = '''
[DEFAULT]
transport_url = {url}
state_path = {state}
host = {host}
compute_driver = fake
report_interval = 1
graceful_shutdown_timeout = 5
[messages]
signatures = accept
''' + prepared.NO_IMAGES + '''
[fake]
state_dir = {state}/fake
delays = {delays}
'''


class Computes:
    """nova-compute processes, a host each."""

    def __init__(self, directory, url):
        self._directory, self._url, self._running = directory, url, {}

    def start(self, host, delays=''):
        config = self._directory / f'{host}.conf'
        config.write_text(CONFIG.format(url=self._url, state=self._directory, host=host, delays=delays))
        with open(self._directory / f'{host}.log', 'ab') as log:
            self._running[host] = subprocess.Popen(
                [prepared.BIN / 'nova-compute', '--config-file', config], stdout=log,
                stderr=log, env=prepared.environment())

    def kill(self, host):
        process = self._running.pop(host)
        process.kill()
        process.wait()

    def end(self):
        for host in list(self._running):
            self.kill(host)


@pytest.fixture
def deployment(tmp_path):
    """(Cloud with the host host1, Computes with host2 and host3)."""
    with contextlib.ExitStack() as stack:
        broker = servers.virtual_host()
        cloud = cloud_fixture.Cloud(tmp_path / 'state', messages__signatures='accept')
        bus.register_options(cloud.conf)
        cloud.conf.set_override('transport_url', broker.url)
        stack.callback(cloud.stop, 5)
        cloud.start()
        computes = Computes(tmp_path, broker.url)
        stack.callback(computes.end)
        for host in ('host2', 'host3'):
            computes.start(host)
        admin = cloud.admin('2.53')
        wait_for(lambda: len([each for each in admin.get('/os-services?binary=nova-compute').json()['services']
                          if each['state'] == 'up']) == 3, seconds=240)
        yield cloud, computes


@long_runs.only
def test_servers_move_between_daemons_over_a_broker(deployment):
    cloud, computes = deployment
    user, admin = cloud.client(), cloud.admin('2.56')
    flavor = user.get('/flavors').json()['flavors'][0]['id']
    server_id = user.boot(user.upload_image(), flavor=flavor)['id']
    user.wait_for(server_id, timeout=240)

    def place():
        return admin.get(f'/servers/{server_id}').json()['server']['OS-EXT-SRV-ATTR:host']

    def move(host):
        answer = admin.post(f'/servers/{server_id}/action', {'migrate': {'host': host}})
        assert answer.status_code == 202, answer.text

    def end(name):
        assert user.post(f'/servers/{server_id}/action', {name: None}).status_code in (202, 204)
        user.wait_for(server_id, timeout=240)
        assert cloud.cell_db.run(claims.audit) == []
    for target in ('host2', 'host3', 'host2'):
        if place() == target:
            continue
        move(target)
        user.wait_for(server_id, 'VERIFY_RESIZE', timeout=240)
        assert place() == target
        end('confirmResize')

    computes.kill('host3')
    computes.start('host3', 'finish_migration:120')        # until it is killed there
    move('host3')
    wait_for(
        lambda: user.get(f'/servers/{server_id}').json()['server']['OS-EXT-STS:task_state'] == 'resize_finish',
        seconds=240)
    computes.kill('host3')
    assert place() == 'host3'
    computes.start('host3')
    user.wait_for(server_id, 'VERIFY_RESIZE', timeout=240)
    end('revertResize')
    assert place() == 'host2'
