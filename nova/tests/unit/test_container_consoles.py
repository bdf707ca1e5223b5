"""The reader of container consoles, with a hypervisor that only notes who reads."""
import threading
import time

import libvirt
import pytest

from nova import states
from nova.tests.support import waiting
from nova.virt.libvirt.containers import consoles
from nova.virt.libvirt.containers import guests
from nova.virt.libvirt.local_disks import storage


class Stream:
    def __init__(self):
        self.aborted = False

    def abort(self):
        self.aborted = True


class Hypervisor:
    def __init__(self):
        self.reads, self.opened = [], []

    def run(self, operation, function, streams, wanted):
        self.reads.append(threading.get_ident())
        for uuid in wanted - set(streams):
            streams[uuid] = Stream()
            self.opened.append(streams[uuid])
        return {}, []


@pytest.fixture
def hypervisor():
    return Hypervisor()


@pytest.fixture
def reader(hypervisor, monkeypatch):
    monkeypatch.setattr(consoles, 'POLL_INTERVAL_S', 0.05)
    made = consoles.Consoles(hypervisor, lambda uuid: '')
    made.add('a')
    yield made
    made.stop()


def test_restarted_reader_has_one_thread(reader, hypervisor):
    for number in range(3):
        reader.start()
        waiting.wait_for(lambda: len(hypervisor.opened) == number + 1, 10, 'a read')
        reader.stop()
    reader.start()
    waiting.wait_for(lambda: [each.aborted for each in hypervisor.opened] == [True] * 3 + [False], 10, 'the end')
    hypervisor.reads.clear()
    time.sleep(0.3)
    assert len(set(hypervisor.reads)) == 1


def test_stopped_reader_closes_its_streams(reader, hypervisor):
    reader.start()
    waiting.wait_for(lambda: hypervisor.opened, 10, 'a read')
    reader.stop()
    waiting.wait_for(lambda: hypervisor.opened[0].aborted, 10, 'the end')


class Containers:
    """libvirt's connection with containers.

    :ivar states: {uuid: power state}
    :ivar opened: uuids of the containers whose consoles were opened
    """

    def __init__(self, **found):
        self.states, self.opened = found, []

    def guests(self):
        return self.states

    def run(self, operation, function, *arguments):
        return function(self, *arguments)

    def newStream(self, flags):
        return Silent()

    def lookupByUUIDString(self, uuid):
        if uuid not in self.states:
            error = libvirt.libvirtError('no domain')
            error.err = (libvirt.VIR_ERR_NO_DOMAIN,)
            raise error
        return Container(self, uuid)


class Silent(Stream):
    def recv(self, size):
        return consoles.NO_DATA


class Container:
    def __init__(self, connection, uuid):
        self.connection, self.uuid = connection, uuid

    def isActive(self):
        return self.connection.states[self.uuid] != states.SHUTDOWN

    def openConsole(self, name, stream, flags):
        self.connection.opened.append(self.uuid)
        if not self.isActive():
            raise libvirt.libvirtError('the domain is not running')


def test_console_of_a_paused_container_is_read_after_a_restart(tmp_path):
    """It blocked on its full console after it was unpaused."""
    hypervisor = Containers(runs=states.RUNNING, paused=states.POWER_PAUSED, off=states.SHUTDOWN)
    made = guests.ContainerGuests(storage.Storage(str(tmp_path), None, None), hypervisor, None, (), ())
    made.read_consoles()
    made.stop_consoles()
    made._consoles._poll({})
    assert {'runs', 'paused'} <= set(hypervisor.opened) and 'off' not in hypervisor.opened


def test_console_of_a_container_that_is_off_is_not_opened_until_its_next_start():
    """Each attempt was an error in libvirt's log, five times a second."""
    hypervisor = Containers(stops=states.RUNNING, vanishes=states.RUNNING)
    reader, streams = consoles.Consoles(hypervisor, lambda uuid: ''), {}
    for uuid in ('stops', 'vanishes'):
        reader.add(uuid)
    reader._poll(streams)
    streams.clear()
    hypervisor.states = {'stops': states.SHUTDOWN}
    hypervisor.opened.clear()
    for _round in range(3):
        reader._poll(streams)
    assert hypervisor.opened == ['stops'] and reader._wanted == {}
    hypervisor.states['stops'] = states.RUNNING
    reader.add('stops')
    reader._poll(streams)
    assert list(streams) == ['stops']


def test_console_of_a_container_that_starts_during_a_round_is_read(monkeypatch):
    hypervisor = Containers(a=states.SHUTDOWN)
    reader, streams, is_active = consoles.Consoles(hypervisor, lambda uuid: ''), {}, Container.isActive

    def start_afterwards(self):
        active = is_active(self)
        hypervisor.states['a'] = states.RUNNING
        reader.add('a')
        return active
    reader.add('a')
    monkeypatch.setattr(Container, 'openConsole', lambda *_arguments: Containers().lookupByUUIDString('a'))
    monkeypatch.setattr(Container, 'isActive', start_afterwards)
    reader._poll(streams)
    monkeypatch.undo()
    reader._poll(streams)
    assert list(streams) == ['a']
