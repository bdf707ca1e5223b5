"""Users' files in disks: what is asked of guestfish, and what is refused."""
import base64

import pytest

from nova import exception
from nova.api.servers import spec
from nova.virt.libvirt.local_disks import injection
from nova.virt.libvirt import xml

DISK = xml.Disk('/disk', 'qcow2', 'vda')
FILES = [{'path': '/etc/x', 'contents': base64.b64encode(b'1').decode()}]


@pytest.mark.parametrize('partition, words', [
    (injection.FIND, ['-i']), (injection.WHOLE, ['-m', '/dev/sda']), (3, ['-m', '/dev/sda3'])])
def test_the_disk_has_the_format_that_is_recorded(partition, words):
    """guestfish is not to guess it: a guest may write any header."""
    assert injection.command(DISK, [('/etc/x', '/tmp/0'), ('y', '/tmp/1')], partition) == [
        'guestfish', '--rw', '--format=qcow2', '-a', '/disk', *words, 'mkdir-p', '/etc', ':', 'upload', '/tmp/0',
        '/etc/x', ':', 'mkdir-p', '/', ':', 'upload', '/tmp/1', '/y']


@pytest.mark.parametrize('values', [{'secret': 'x'}, {'source': {'kind': 'network'}}])
def test_disks_that_it_cannot_open_are_refused(values):
    with pytest.raises(exception.VirtError, match='encrypted, or in a pool'):
        injection.write(xml.Disk('/disk', 'raw', 'vda', **values), [('x', b'1')], 0)


def test_a_host_that_lacks_it_does_not_start(monkeypatch):
    monkeypatch.setenv('PATH', '/nonexistent')
    injection.prepare(injection.OFF)
    with pytest.raises(exception.VirtError, match='libguestfs-tools'):
        injection.prepare(injection.WHOLE)


def test_the_api_takes_files_that_arrive():
    spec.check_files(FILES, True)
    spec.check_files([], False)
    with pytest.raises(exception.BadRequest, match='config drive'):
        spec.check_files(FILES, False)
    assert spec.NOT_WRITTEN == injection.OFF
