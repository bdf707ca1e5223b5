"""Exports of volumes with daemons that only record what they are told."""
import concurrent.futures
import threading

import pytest

from nova import exception
from nova.tests.support import waiting
from nova.volume.exports import daemon as daemons
from nova.volume.exports import exporter


class Daemon:
    """Stands in for daemons.Daemon; ``made`` has all by their directory."""

    made: dict = {}

    def __new__(cls, directory):
        return cls.made.setdefault(directory, object.__new__(cls))

    def __init__(self, directory):
        if not hasattr(self, 'exports'):
            self.directory, self.exports, self.alive, self.error, self.host = directory, set(), False, None, None
            self.closes = True
            self.copies, self.begun, self.copied = [], [], threading.Event()

    def record(self):
        return {'host': self.host, 'port': 1} if self.host else None

    def create(self, host, port):
        self.host = host

    def is_alive(self):
        return self.alive

    def start(self, address, credentials):
        if self.error:
            raise self.error
        self.alive = True

    def kill(self):
        self.alive, self.exports = False, set()

    stop = kill

    def names(self):
        return set(self.exports)

    def open(self, name, path, readonly):
        assert self.alive
        self.exports.add(daemons.ident(name))

    def begin_copy(self, name, path):
        assert not self.copies, 'QEMU refuses a second node with the name'
        self.copies.append(path)
        self.begun.append(path)

    def is_copied(self, name):
        return self.copied.is_set()

    def end_copy(self, name):
        self.copies.clear()

    def close(self, *nodes):
        if not self.closes:
            raise exception.InvalidVolume(reason='it does not answer.')
        self.exports -= set(nodes)


class World:
    def __init__(self, directory):
        self.wanted, self.ending, self.path = [], set(), directory / 'volume'
        self.reads = 0
        self.path.touch()
        self.exporter = exporter.Exporter(str(directory / 'exports'), '127.0.0.1', 1000, lambda: '', self.read,
                                          lambda: self.ending)

    def read(self, ident):
        self.reads += 1
        return [each for each in self.wanted if ident in (None, each.attachment_id)]

    def want(self, attachment, host):
        self.wanted.append(exporter.DesiredExport(attachment, host, str(self.path), False))

    def daemon(self, host):
        return self.exporter._daemon(host)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr(Daemon, 'made', {})
    monkeypatch.setattr(exporter.daemons, 'Daemon', Daemon)
    monkeypatch.setattr(exporter.shutil, 'which', lambda name: '/usr/bin/' + name)
    return World(tmp_path)


@pytest.mark.parametrize('error', [exception.InvalidVolume(reason='no'), OSError(28, 'No space left on device')])
@pytest.mark.parametrize('restart', ['_restart_exited', 'reconcile'])
def test_exports_of_a_host_are_restarted_although_those_of_another_fail(world, error, restart):
    world.want('a1', 'h1')
    world.want('a2', 'h2')
    world.exporter.reconcile()
    assert [world.daemon(host).names() for host in ('h1', 'h2')] == [{'va1'}, {'va2'}]
    for host in ('h1', 'h2'):
        world.daemon(host).kill()
    world.daemon('h1').error = error
    getattr(world.exporter, restart)()
    assert [world.daemon(host).names() for host in ('h1', 'h2')] == [set(), {'va2'}]


def test_exports_that_end_with_a_killed_daemon_are_opened_again_at_once(world):
    world.want('a1', 'h1')
    world.want('a2', 'h1')
    world.exporter.reconcile()
    world.ending.add(('h1', world.wanted.pop().attachment_id))
    world.daemon('h1').closes = False
    world.exporter.reconcile()
    assert world.daemon('h1').is_alive() and world.daemon('h1').names() == {'va1'}


def test_exports_of_closing_attachments_are_closed_and_unknown_ones_stay(world):
    world.want('a1', 'h1')
    world.want('a2', 'h1')
    world.exporter.reconcile()
    world.daemon('h1').open('b1', str(world.path), False)
    world.ending.add(('h1', world.wanted.pop().attachment_id))
    world.exporter.reconcile()
    assert world.daemon('h1').names() == {'va1', 'vb1'}


def test_attachments_are_read_once_if_all_hosts_have_their_exports(world):
    for number in range(20):
        world.want(f'a{number}', f'h{number}')
    world.exporter.reconcile()
    world.reads = 0
    world.exporter.reconcile()
    assert world.reads == 1
    world.daemon('h7').kill()
    world.exporter.reconcile()
    assert world.daemon('h7').names() == {'va7'}


def test_copies_of_an_attachment_are_made_one_after_the_other(world):
    world.want('a1', 'h1')
    world.exporter.reconcile()
    daemon = world.daemon('h1')
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        copies = [pool.submit(world.exporter.copy, 'a1', 'h1', path) for path in ('one', 'two')]
        try:
            waiting.wait_for(lambda: world.exporter._copies_ended._waiters and len(daemon.begun) == 1, 10)
            assert not any(each.done() for each in copies)
        finally:
            daemon.copied.set()
        assert [each.result(30) for each in copies] == [None, None]
    assert sorted(daemon.begun) == ['one', 'two']
