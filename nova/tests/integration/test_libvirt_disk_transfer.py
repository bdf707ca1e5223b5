"""Copies of files by the libvirt of this machine, over a wire of the test's that counts, holds back and breaks.

What comes twice after an interruption is at most a block; what a copy has is never taken for another file's.
"""
import contextlib
import filecmp
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from nova import exception
from nova.tests.support import libvirt as base
from nova.virt.libvirt import host
from nova.virt.libvirt.moves import disk_copy
from nova.virt.libvirt.moves import disk_transfer
from nova.virt.libvirt.moves import transfer_progress

pytestmark = base.pytestmark
LIBVIRT = '/run/libvirt/libvirt-sock'
BLOCK = 1 << 20
FIRST, SECOND = 'disk', 'disk.ephemeral0'
MOVE = {'source': {'address': 'here', 'directory': 'there'}, 'sizes': {'disk': 0}}
FETCH = '''
import sys
from nova.virt.libvirt import host
from nova.virt.libvirt.moves import disk_copy, disk_transfer, transfer_progress
host.start_loop()
uri, source, target, *names = sys.argv[1:]
disk_copy.LARGEST = {block}
arrival = transfer_progress.IncomingTransfer(target, {move})
arrival.begin()
disk_transfer.fetch(uri, source, names, target, 60, arrival)
'''


class Wire:
    """A socket before that of libvirt.

    :ivar passed: bytes that libvirt has sent
    :ivar most: bytes after which nothing more passes; None: all does
    """

    def __init__(self, path):
        self.path, self.passed, self.most = path, 0, None
        self._changed, self._ends = threading.Condition(), []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self):
        return f'qemu+unix:///system?socket={self.path}'

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                here, there = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
                there.connect(LIBVIRT)
                self._ends += [here, there]
                for source, target, counted in ((here, there, False), (there, here, True)):
                    threading.Thread(target=self._pass, args=(source, target, counted), daemon=True).start()

    def _pass(self, source, target, counted):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if counted:
                    with self._changed:
                        self._changed.wait_for(lambda: self.most is None or self.passed < self.most)
                        self.passed += len(data)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def holds(self):
        """Whether it has come to where nothing more passes."""
        return self.most is not None and self.passed >= self.most

    def let(self, most=None):
        with self._changed:
            self.most = most
            self._changed.notify_all()

    def break_(self):
        """End the connections that there are."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()
        self.let()
        self.break_()


@pytest.fixture
def wire(tmp_path):
    host.start_loop()                  # watches over connections
    made = Wire(tmp_path / 'wire')
    yield made
    made.close()


@pytest.fixture
def places(monkeypatch):
    """(source, target): directories that libvirt may read, whose last parts name pools."""
    monkeypatch.setattr(disk_copy, 'LARGEST', BLOCK)
    root = pathlib.Path(f'/var/tmp/nova-copies-{os.getpid()}')
    for name in ('from', 'to'):
        (root / f'{root.name}-{name}').mkdir(parents=True)
    yield tuple(root / f'{root.name}-{name}' for name in ('from', 'to'))
    shutil.rmtree(root)


def write(path, size=3 << 20):
    """Data, a hole of as much, and data that ends in the middle of a block."""
    with path.open('wb') as file:
        file.write(os.urandom(size))
        file.seek(2 * size)
        file.write(os.urandom(size // 2 + 4711))


def killed(wire, places, most):
    """Let another process copy, and kill it when so many bytes have passed."""
    source, target = map(str, places)
    wire.let(most)
    process = subprocess.Popen([sys.executable, '-c', FETCH.format(block=BLOCK, move=MOVE), wire.uri, source, target,
                                FIRST, SECOND])
    try:
        base.wait_for(wire.holds, 60, 'a part to come')
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    wire.break_()
    wire.let()


def go_on(wire, places):
    """Copy in this process as after a restart; how many bytes have passed."""
    source, target = map(str, places)
    before, arrival = wire.passed, transfer_progress.IncomingTransfer.interrupted(target, MOVE)
    assert arrival is not None
    disk_transfer.fetch(wire.uri, source, [FIRST, SECOND], target, 60, arrival)
    for path in places[0].iterdir():
        assert filecmp.cmp(path, places[1] / path.name, shallow=False), path.name
    return wire.passed - before


def test_a_copy_goes_on_after_its_process_was_killed(wire, places):
    """In the middle of the second file: of the first nothing comes again, of the second a block at most."""
    for name in (FIRST, SECOND):
        write(places[0] / name)
    data = sum(path.stat().st_blocks * 512 for path in places[0].iterdir())
    killed(wire, places, 13 << 19)
    assert (places[1] / FIRST).exists() and (places[1] / (SECOND + transfer_progress.PART)).exists()
    offset = transfer_progress.IncomingTransfer.interrupted(str(places[1]), MOVE).of(SECOND)[1]
    assert offset and offset % BLOCK == 0
    (places[1] / 'disk.swap').write_text('of what was made of the copies')
    go_on(wire, places)
    twice = wire.passed - data
    assert twice < 2 * BLOCK, twice                      # a block, and what carries it all
    assert sorted(path.name for path in places[1].iterdir()) == sorted([transfer_progress.NAME, FIRST, SECOND])
    copied = sum((places[1] / name).stat().st_blocks * 512 for name in (FIRST, SECOND))
    assert copied <= data + BLOCK                        # holes stay holes


def test_zeros_that_a_guest_has_written_become_holes(wire, places):
    """Also at the end of the file; what comes is as long, and the same."""
    (places[0] / FIRST).write_bytes(os.urandom(1 << 20) + bytes(8 << 20) + os.urandom(1 << 20) + bytes(4 << 20))
    disk_transfer.fetch(wire.uri, str(places[0]), [FIRST], str(places[1]), 60)
    assert filecmp.cmp(places[0] / FIRST, places[1] / FIRST, shallow=False)
    assert (places[1] / FIRST).stat().st_blocks * 512 < 4 << 20 < (places[0] / FIRST).stat().st_blocks * 512


def test_a_file_that_has_changed_there_comes_anew(wire, places):
    """The server ran meanwhile: neither its half nor its whole file is taken for the one that it has now."""
    for name in (FIRST, SECOND):
        write(places[0] / name)
    killed(wire, places, 13 << 19)
    write(places[0] / FIRST)
    assert go_on(wire, places) > 5 << 20                 # the first, and the rest of the second
    for name in (FIRST, SECOND):
        write(places[0] / name)
    assert go_on(wire, places) > 9 << 20


def test_a_part_that_is_not_all_here_comes_anew(wire, places):
    for name in (FIRST, SECOND):
        write(places[0] / name)
    killed(wire, places, 13 << 19)
    os.truncate(places[1] / (SECOND + transfer_progress.PART), BLOCK // 2)
    assert 9 << 19 < go_on(wire, places) < 11 << 19


def test_copies_for_another_move_are_not_taken_up(places):
    transfer_progress.IncomingTransfer(str(places[1]), MOVE).begin()
    for other in ({**MOVE, 'sizes': {'disk': 1}}, {**MOVE, 'source': {**MOVE['source'], 'address': 'elsewhere'}}):
        assert transfer_progress.IncomingTransfer.interrupted(str(places[1]), other) is None
    assert transfer_progress.IncomingTransfer.interrupted(str(places[1]), MOVE)


def test_a_copy_goes_on_after_a_broken_connection(wire, places):
    """What has come does not come again, and a file that has changed meanwhile is no whole one."""
    write(places[0] / FIRST)
    source, target = map(str, places)
    data = (places[0] / FIRST).stat().st_blocks * 512
    wire.let(3 << 20)
    copy = threading.Thread(target=disk_transfer.fetch, args=(wire.uri, source, [FIRST], target, 60))
    copy.start()
    base.wait_for(wire.holds, 60, 'a part to come')
    assert not (places[1] / FIRST).exists()
    wire.break_()
    wire.let()
    copy.join(60)
    assert filecmp.cmp(places[0] / FIRST, places[1] / FIRST, shallow=False)
    assert wire.passed - data < 2 * BLOCK
    assert not transfer_progress.is_there(target)


def test_a_file_that_changes_while_it_comes_is_refused(wire, places):
    write(places[0] / FIRST)
    source, target = map(str, places)
    failures = []

    def copy():
        try:
            disk_transfer.fetch(wire.uri, source, [FIRST], target, 60)
        except exception.VirtError as error:
            failures.append(error.message)
    wire.let(3 << 20)
    thread = threading.Thread(target=copy)
    thread.start()
    base.wait_for(wire.holds, 60, 'a part to come')
    write(places[0] / FIRST)
    wire.break_()
    wire.let()
    thread.join(60)
    assert [reason for reason in failures if 'has changed there meanwhile' in reason], failures
    assert not (places[1] / FIRST).exists()


def test_two_transfers_of_a_directory_do_not_end_each_other(wire, places):
    """As of an image that two hosts fetch: the second destroyed the pool of the first, which failed."""
    for name in (FIRST, SECOND):
        write(places[0] / name)
    source, target = map(str, places)
    failures = []

    def copy():
        try:
            disk_transfer.fetch(wire.uri, source, [FIRST], target, 60)
        except exception.VirtError as error:
            failures.append(error.message)
    wire.let(3 << 20)
    thread = threading.Thread(target=copy)
    thread.start()
    base.wait_for(wire.holds, 60, 'a part to come')
    disk_transfer.fetch(base.URI, source, [SECOND], target, 60)
    wire.let()
    thread.join(60)
    assert not failures
    for name in (FIRST, SECOND):
        assert filecmp.cmp(places[0] / name, places[1] / name, shallow=False)


def test_states_of_two_tpms_are_not_exchanged(places):
    """Both lie in a directory of one name; the second pool took the place of the first."""
    connection = base.libvirt.open(base.URI)
    try:
        for name in ('one', 'two'):
            (places[0] / name / 'tpm2').mkdir(parents=True)
            (places[0] / name / 'tpm2' / 'state').write_text(name)
        with disk_transfer.pool(connection, str(places[0] / 'one' / 'tpm2')) as one:
            found = one.storageVolLookupByName('state')
            with disk_transfer.pool(connection, str(places[0] / 'two' / 'tpm2')):
                assert one.storageVolLookupByName('state').path() == found.path()
                read = []
                stream = connection.newStream(0)
                found.download(stream, 0, 0)
                stream.recvAll(lambda _stream, data, _opaque: read.append(data), None)
                stream.finish()
                assert b''.join(read) == b'one'
    finally:
        connection.close()
