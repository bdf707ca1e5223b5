"""Work on volumes in the background: what comes while the same one is worked on."""
import functools
import os
import threading
import uuid

import pytest

from nova import conf as nova_conf
from nova.disk_files import files as guest_files
from nova.disk_files import qemu_img
from nova.runtime import disk_space
from nova.tests.support import waiting
from nova.volume.store import jobs
from nova.volume.store import files
from nova.volume.store import keys


@pytest.fixture
def made(tmp_path, monkeypatch):
    """VolumeJobs, whose first work waits in the removal of a file until ``go`` is set."""
    found = jobs.VolumeJobs(None, files.VolumeFiles(str(tmp_path), disk_space.Reserve(), qemu_img.QemuImg(60, False)),
                              None, keys.Keys(nova_conf.new(files=[], state_path=str(tmp_path)), None))
    found.waits, found.go, remove = threading.Event(), threading.Event(), guest_files.remove

    def slow(path):
        if os.path.dirname(path) == str(tmp_path / files.TRASH):
            found.waits.set()
            assert found.go.wait(30)
        remove(path)
    monkeypatch.setattr(guest_files, 'remove', slow)
    yield found
    found.go.set()
    assert found.stop(30)


def test_files_discarded_while_the_trash_is_emptied_are_removed(made, tmp_path):
    """The one that runs has a list of what there was."""
    for _number in range(2):
        path = tmp_path / str(uuid.uuid4())
        path.write_bytes(b'x')
        made.discard(str(path))
        assert made.waits.wait(30)
    made.go.set()
    waiting.wait_for(lambda: not os.listdir(tmp_path / files.TRASH), 10, 'the trash to be empty')


def test_work_on_a_volume_that_is_worked_on_comes_next(made):
    """A client asks for it as soon as the status says that it may, which is a moment before the end."""
    done, begun, go = [], threading.Event(), threading.Event()

    def first():
        begun.set()
        assert go.wait(30)
        done.append(1)
    made._submit('volume', first)
    assert begun.wait(30)
    made._submit('volume', lambda: done.append(2))
    go.set()
    waiting.wait_for(lambda: done == [1, 2], 10, 'the second')
    made._submit('volume', lambda: done.append(3))
    waiting.wait_for(lambda: done == [1, 2, 3], 10, 'the third')


def test_job_that_ends_its_thread_does_not_block_later_jobs_of_the_volume(made):
    """Timeout of eventlet is no Exception."""
    done, begun, go = [], threading.Event(), threading.Event()

    def ends():
        begun.set()
        assert go.wait(30)
        raise SystemExit
    made._submit('volume', ends)
    assert begun.wait(30)
    made._submit('volume', lambda: done.append(2))
    go.set()
    waiting.wait_for(lambda: done == [2], 10, 'the second')
    waiting.wait_for(lambda: not made._busy, 10, 'the end')


def test_a_project_with_many_copies_holds_up_no_other(made):
    """Four large copies of one project were all that the storage did, however long they took."""
    count = jobs.WORKERS + 3
    go, begun, done = [threading.Event() for _ in range(count)], [], []

    def copy(number):
        begun.append(number)
        assert go[number].wait(60)
    for number in range(count):
        made._submit(f'large {number}', functools.partial(copy, number), owner='one')
        if number < jobs.WORKERS - 1:                # two that begin at once have no order
            waiting.wait_for(lambda: len(begun) == number + 1, 10, 'it to begin')
    made._submit('small', lambda: done.append('other'), owner='other')
    waiting.wait_for(lambda: done == ['other'], 10, 'the volume of the other project')
    assert begun == list(range(jobs.WORKERS - 1))
    for number in range(count):                      # one after the other, too
        go[number].set()
        some = min(count, jobs.WORKERS + number)
        waiting.wait_for(lambda: begun == list(range(some)), 10, 'the next one, in its order')
    waiting.wait_for(lambda: not made._busy, 10, 'the end')


def test_work_that_a_stopping_process_refuses_leaves_nothing_behind(made, monkeypatch):
    def refuse(*_args):
        made._submit('volume', lambda: None)         # another request meanwhile
        raise RuntimeError('cannot schedule new futures after shutdown')
    monkeypatch.setattr(made._executor, 'submit', refuse)
    made._submit('volume', lambda: None)
    assert not made.is_busy('volume') and made._requeued == {}
