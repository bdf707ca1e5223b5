"""The reader of container consoles, with a hypervisor that only notes who reads."""
import threading
import time

import pytest

from nova.tests.support import waiting
from nova.virt.libvirt.containers import consoles


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
        return {}


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
