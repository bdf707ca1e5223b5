"""Storages that do not answer are found before QEMU waits for them."""
import contextlib
import socket
import threading
import time

import pytest

from nova import exception
from nova.virt.libvirt.domain import volume_disks as disk
from nova.virt.libvirt.volumes import probe


def volume(**source):
    return disk.Volume('v1', 'vdb', 'virtio', {'type': 'network', **source})


@contextlib.contextmanager
def served(*words, answers=True):
    """A port where each connection is told these words, after it has spoken when they are two."""
    listener = socket.create_server(('127.0.0.1', 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection = listener.accept()[0]
                if len(words) > 1:
                    connection.recv(100)
                connection.sendall(words[-1])
                connection.close()
    thread = threading.Thread(target=serve, daemon=True)
    if answers:
        thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize('protocol, words, why', [
    ('nbd', [b'NBDMAGICIHAVEOPT'], None), ('rbd', [b'ceph v2\n'], None), ('nfs', [b'', b'\x80\0\0\x18'], None),
    ('iscsi', [b''], None), ('nbd', [b'HTTP/1.1 400'], 'does not speak the expected protocol'),
    ('nbd', [b''], 'closed the connection')])
def test_storage_probe_checks_the_protocol_of_the_server(protocol, words, why):
    with served(*words) as port:
        check = [volume(protocol=protocol, hosts=[['127.0.0.1', port]])]
        if why is None:
            probe.check(check, 2)
        else:
            with pytest.raises(exception.VirtError, match=f'the storage of volume v1 {why}'):
                probe.check(check, 2)


@pytest.mark.parametrize('protocol', ['nbd', 'rbd', 'nfs'])
def test_storage_probe_refuses_a_server_that_does_not_answer_in_time(protocol):
    """The kernel takes the connection for a server that is stopped."""
    with served(b'', answers=False) as port:
        begun = time.monotonic()
        with pytest.raises(exception.VirtError, match='did not answer within 0 seconds'):
            probe.check([volume(protocol=protocol, hosts=[['127.0.0.1', port]])], 0.2)
        assert time.monotonic() - begun < 30


def test_one_monitor_of_several_is_enough():
    with served(b'ceph v2\n') as alive, served(b'', answers=False) as hangs:
        probe.check([volume(protocol='rbd', hosts=[['127.0.0.1', hangs], ['127.0.0.1', alive]])], 1)


def test_storage_probe_refuses_an_unreachable_server(tmp_path):
    for where in ({'hosts': [['127.0.0.1', 1]]}, {'socket': str(tmp_path / 'none')}):
        with pytest.raises(exception.VirtError, match='is unreachable'):
            probe.check([volume(protocol='nbd', **where)], 1)


def test_storage_probe_skips_other_protocols_and_files():
    probe.check([volume(protocol='gluster', hosts=[['127.0.0.1', 1]]), volume(protocol='rbd', hosts=[]),
                 disk.Volume('v1', 'vdb', 'virtio', {'type': 'file', 'path': '/nowhere'})], 0.1)
