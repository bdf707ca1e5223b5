"""Pools of libvirt in which files of other hosts are read, with a libvirt that is a fake."""
import contextlib
import time
import types
from xml.etree import ElementTree as etree

import pytest

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.virt.libvirt.moves import disk_transfer


class Pool:
    def __init__(self, connection, text):
        self._pools, self.text = connection.pools, text

    def name(self):
        return etree.fromstring(self.text).findtext('name')

    def directory(self):
        return etree.fromstring(self.text).findtext('target/path')

    def refresh(self):
        if self._pools.get(self.name()) is not self:
            raise failure(libvirt.VIR_ERR_NO_STORAGE_POOL)

    def destroy(self):
        self.refresh()
        del self._pools[self.name()]


class Connection:
    """A connection to one libvirt; ``pools`` are those of all connections."""

    def __init__(self, pools):
        self.pools = pools

    def listAllStoragePools(self):
        return list(self.pools.values())

    def storagePoolCreateXML(self, text, _flags):
        made = Pool(self, text)
        if made.name() in self.pools:
            raise failure(libvirt.VIR_ERR_OPERATION_FAILED)
        return self.pools.setdefault(made.name(), made)


def failure(code):
    made = libvirt.libvirtError('failed')
    made.err = (code, 0, 'it failed', 0, '', None, None, 0, 0)
    return made


def test_pools_of_two_directories_do_not_meet():
    """They had the name of the last part, which is the same for the TPMs of all guests: one move got the keys of the
    other's guest."""
    pools = {}
    with contextlib.ExitStack() as stack:
        one, two = (stack.enter_context(disk_transfer.pool(Connection(pools), f'/swtpm/{uuid}/tpm2'))
                    for uuid in ('11111111-2222', '22222222-2222'))
        assert list(pools.values()) == [one, two]
        assert [each.directory() for each in pools.values()] == ['/swtpm/11111111-2222/tpm2',
                                                                 '/swtpm/22222222-2222/tpm2']
    assert pools == {}


def test_two_transfers_of_a_directory_share_its_pool():
    """The second destroyed the pool of the first at its start, whose copy failed."""
    pools = {}
    with disk_transfer.pool(Connection(pools), '/i/_base') as one:
        with disk_transfer.pool(Connection(pools), '/i/_base') as two:
            assert one is two and list(pools.values()) == [one]
        assert pools == {}
        with disk_transfer.pool(Connection(pools), '/i/_base') as three:
            assert three is not one
    with pytest.raises(libvirt.libvirtError), disk_transfer.pool(Refusing(pools), '/i/_base'):
        pass


class Refusing(Connection):
    def storagePoolCreateXML(self, _text, _flags):
        raise failure(libvirt.VIR_ERR_SYSTEM_ERROR)


@pytest.mark.parametrize('code, offset, calls', [
    (libvirt.VIR_ERR_NO_STORAGE_POOL, 0, disk_transfer.ATTEMPTS), (libvirt.VIR_ERR_RPC, 1, disk_transfer.ATTEMPTS),
    (libvirt.VIR_ERR_RPC, 0, 1), (libvirt.VIR_ERR_NO_STORAGE_VOL, 1, 1)])
def test_a_transfer_that_loses_its_pool_opens_it_again(monkeypatch, code, offset, calls):
    """Of a pool that another transfer has destroyed nothing may have come yet."""
    made = []

    def fetch(*_arguments):
        made.append(1)
        raise failure(code)
    monkeypatch.setattr(disk_transfer, '_fetch_rest', fetch)
    monkeypatch.setattr(disk_transfer, 'PAUSE_S', 0)
    with pytest.raises(libvirt.libvirtError):
        disk_transfer._fetch('', '', [types.SimpleNamespace(offset=offset)], time.monotonic() + 60)
    assert len(made) == calls
