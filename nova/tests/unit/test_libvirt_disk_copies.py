"""Copies of disks and volumes by libvirt and qemu-img that fail."""
import pytest

from nova import exception
from nova.virt.libvirt import calls
from nova.virt.libvirt import disk_backups
from nova.virt.libvirt.features import volumes

UUID = '11111111-2222-3333-4444-555555555555'


class Hypervisor:
    """A host.Host whose calls are recorded; ``results`` has what they return or raise."""

    def __init__(self, **results):
        self.asked, self.results = [], results

    def guest(self, operation, uuid, function, *args):
        self.asked.append(function)
        result = self.results.get(function.__name__)
        if isinstance(result, Exception):
            raise result
        return result


class Storage:
    def __init__(self, error=None):
        self.error = error

    def check_room(self):
        if self.error:
            raise self.error


FAILED = exception.VirtError(operation='make a snapshot', reason='the connection is lost')


@pytest.mark.parametrize('timeout, results', [
    (60, {'backup_done': FAILED}), (60, {'backup_done': FAILED, 'abort_job': FAILED}), (0, {'abort_job': FAILED}),
    (60, {'backup_done': exception.GuestNotFound(instance_id=UUID), 'abort_job': FAILED})])
def test_backup_job_that_is_not_waited_for_is_aborted(timeout, results):
    hypervisor = Hypervisor(**results)
    assert not disk_backups.DiskBackups(Storage(), hypervisor, timeout).wait(UUID)
    assert hypervisor.asked[-1] is calls.abort_job and hypervisor.asked.count(calls.abort_job) == 1


@pytest.mark.parametrize('aborted', [None, FAILED])
def test_reason_of_an_aborted_backup_job_is_not_hidden(aborted):
    hypervisor = Hypervisor(abort_job=aborted)
    with pytest.raises(exception.InsufficientStorage):
        disk_backups.DiskBackups(Storage(exception.InsufficientStorage()), hypervisor, 60).wait(UUID)
    assert hypervisor.asked == [calls.backup_done, calls.abort_job]


@pytest.mark.parametrize('done', [True, False])
def test_ended_backup_job_is_not_aborted(done):
    hypervisor, reports = Hypervisor(backup_done=done), []
    assert disk_backups.DiskBackups(Storage(), hypervisor, 60).wait(UUID, reports.append) is done
    assert hypervisor.asked == [calls.backup_done] and reports == [100] * done


def test_copy_that_has_ended_is_not_aborted_by_its_report():
    def cancels(_percent):
        raise exception.NovaException()
    hypervisor = Hypervisor(backup_done=True)
    with pytest.raises(exception.NovaException):
        disk_backups.DiskBackups(Storage(), hypervisor, 60).wait(UUID, cancels)
    assert hypervisor.asked == [calls.backup_done]


def qemu_img(directory, monkeypatch, script):
    program = directory / 'qemu-img'
    program.write_text('#!/bin/sh\n' + script)
    program.chmod(0o755)
    monkeypatch.setenv('PATH', str(directory), prepend=':')


@pytest.mark.parametrize('script, timeout, why', [
    ('exec sleep 60', 0.2, 'it took more than 0.2 seconds'),
    ('echo "qemu-img: /v/a/new: error while writing: No space left on device" >&2; exit 1', 60,
     'qemu-img: new: error while writing: No space left on device'),
    ('exit 3', 60, 'qemu-img ended with 3')])
def test_failed_copy_of_a_volume_has_its_reason(tmp_path, monkeypatch, script, timeout, why):
    qemu_img(tmp_path, monkeypatch, script)
    with pytest.raises(exception.VirtError) as caught:
        volumes._copy('copy the volume', '/v/a/old', '/v/a/new', 'qcow2', timeout)
    assert caught.value.message == f'The hypervisor could not copy the volume: {why}'
