"""Two releases on one state directory, one after the other: an upgrade, the way back, and the upgrade again.

The newer one is a copy of this tree with a new field in records, messages and a table (older_release/next_release.py).
"""
import contextlib
import json
import pathlib
import shlex
import shutil
import sys
import time

import pytest

from nova.tests import long_runs
from nova.tests.older_release import next_release
from nova.tests.older_release import tree
from nova.tests.support import libvirt as test_libvirt

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / 'tools'))
import local_cloud

WAIT_S = 180
BRIDGE, CIDR = 'br-novatest2', '10.48.0.0/24'


class Deployment:
    """An all-in-one whose releases change."""

    def __init__(self, driver):
        options = ['[network]', f'bridge = {BRIDGE}', f'default_cidr = {CIDR}']
        if driver == 'fake':
            options.append('driver = fake')
        self.cloud = local_cloud.LocalCloud(driver, options)
        self.servers, self.volumes, self.images = {}, {}, {}

    @contextlib.contextmanager
    def running(self, root):
        """Run the release of a tree."""
        command = self.cloud.state / 'run-release'
        words = ' '.join(map(shlex.quote, tree.command('nova-all', root)))
        command.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(root))} exec {words} "$@"\n')
        command.chmod(0o700)
        self.cloud.command, self.cloud.token = command, None
        self.cloud.start()
        try:
            yield
        finally:
            assert self.cloud.end(120) == 0, self.cloud.last_words()

    def work(self, phase):
        """Use everything that the phases before made, and make more."""
        cloud = self.cloud
        for name, (ident, content) in self.images.items():
            assert cloud.call('GET', f'/v2/images/{ident}/file', service='image') == (200, content), name
        for name, ident in self.servers.items():
            assert self.wait('ACTIVE', f'/servers/{ident}', 'server')['name'] == name
            assert self.volume_of(ident) == self.volumes[name]
            for action, status in (('os-stop', 'SHUTOFF'), ('os-start', 'ACTIVE')):
                cloud.json('POST', f'/servers/{ident}/action', {action: None})
                self.wait(status, f'/servers/{ident}', 'server')
        content = phase.encode().ljust(1 << 20, b'\0')
        path = cloud.state / 'image'
        path.write_bytes(content)
        image = cloud.add_image(phase, path, 'raw')
        self.images[phase] = image, content
        server = cloud.json('POST', '/servers', {'server': {
            'name': phase, 'imageRef': image, 'flavorRef': '1', 'networks': 'auto'}}, version='2.37')['server']['id']
        self.wait('ACTIVE', f'/servers/{server}', 'server')
        volume = cloud.json('POST', '/volumes', {'volume': {'size': 1, 'name': phase}}, service='block-storage')[
            'volume']['id']
        self.wait('available', f'/volumes/{volume}', 'volume', service='block-storage')
        cloud.json('POST', f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}})
        self.wait('in-use', f'/volumes/{volume}', 'volume', service='block-storage')
        self.servers[phase], self.volumes[phase] = server, volume

    def volume_of(self, server):
        found, = self.cloud.json('GET', f'/servers/{server}/os-volume_attachments')['volumeAttachments']
        return found['volumeId']

    def delete(self):
        for ident in self.servers.values():
            self.cloud.json('DELETE', f'/servers/{ident}')
        deadline = time.monotonic() + WAIT_S
        while self.cloud.json('GET', '/servers')['servers']:
            assert time.monotonic() < deadline
            time.sleep(0.3)

    def wait(self, status, path, kind, **more):
        deadline = time.monotonic() + WAIT_S
        while (found := self.cloud.json('GET', path, **more)[kind])['status'] != status:
            assert found['status'].lower() != 'error' and time.monotonic() < deadline, found
            time.sleep(0.3)
        return found

    def record(self, name, driver):
        """The record of a server on its host, and that of its guest."""
        uuid = self.servers[name]
        path, = (self.cloud.state / 'guest-records').glob(f'*/{uuid}.json')
        if driver == 'libvirt':
            return _json(path), _json(self.cloud.state / 'instances' / uuid / 'guest.json')
        guests, = (self.cloud.state / 'fake').glob('*.json')
        return _json(path), _json(guests)[uuid]


def _json(path):
    return json.loads(path.read_text())


@pytest.fixture(params=['fake', pytest.param('libvirt', marks=long_runs.only)])
def driver(request):
    if request.param == 'libvirt':
        reason = test_libvirt._REASON or (None if shutil.which('dnsmasq') else 'dnsmasq is not installed')
        if reason:
            pytest.skip(reason)
    return request.param


@pytest.fixture
def deployment(driver):
    made = Deployment(driver)
    try:
        yield made
    finally:
        if driver == 'libvirt':
            made.cloud.remove_network()
        made.cloud.close()


@pytest.mark.timeout(1800)
def test_the_next_release_and_this_one_take_turns_on_one_state_directory(deployment, driver, tmp_path):
    newer = next_release.made(tmp_path / 'next')
    with deployment.running(tree.ROOT):
        deployment.work('this')
    server, guest = deployment.record('this', driver)
    assert (server['version'], guest['version']) == (1, 1)
    with deployment.running(newer):
        deployment.work('next')
    for name, mood in (('this', 'upgraded'), ('next', 'new')):
        server, guest = deployment.record(name, driver)
        assert (server['version'], server['readable_by']) == (guest['version'], guest['readable_by']) == (2, 1)
        assert 'mood' in server and guest['mood'] == mood
    with deployment.running(tree.ROOT):
        deployment.work('this again')
    for name, mood in (('this', 'upgraded'), ('next', 'new')):
        server, guest = deployment.record(name, driver)
        assert (server['version'], guest['version']) == (1, 1), 'this release has written them'
        assert 'mood' in server and guest['mood'] == mood, 'a field of the next release survives'
    with deployment.running(newer):
        deployment.work('next again')
        deployment.delete()
