"""Counters of containers, from the answers of libvirt's driver for LXC."""
import pytest

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')

from nova.objects.counters import Counters
from nova.virt.libvirt import calls

XML = '''<domain><devices>
<interface type="bridge"><target dev="tap1"/></interface><interface type="bridge"><target dev="tap2"/></interface>
<interface type="bridge"/></devices></domain>'''
# received bytes, packets, errors and drops, then the same of what was sent
PORTS = {'tap1': (1000, 10, 0, 0, 200, 2, 0, 0), 'tap2': (1, 1, 0, 0, 3, 4, 0, 0)}


def error(code):
    made = libvirt.libvirtError('refused')
    made.err = (code, 0, 'refused', 2, '', None, None, -1, -1)
    return made


class Domain:
    """A running container.

    :param disk: reads, bytes, writes, bytes, errors; an error is raised
    """

    def __init__(self, number, disk, ports=None, gone=None):
        self.number, self.disk, self.ports, self.gone = number, disk, PORTS if ports is None else ports, gone

    def UUIDString(self):
        return f'uuid{self.number}'

    def ID(self):
        return self.number

    def info(self):
        if self.gone:
            raise self.gone
        return 1, 4096, 2048, 1, 7 * 10 ** 9

    def XMLDesc(self):
        return XML

    def blockStats(self, path):
        assert path == ''                           # all disks
        if isinstance(self.disk, libvirt.libvirtError):
            raise self.disk
        return self.disk

    def interfaceStats(self, device):
        if device not in self.ports:
            raise error(libvirt.VIR_ERR_INVALID_ARG)
        return self.ports[device]


class Connection:
    def __init__(self, *domains):
        self.domains = domains

    def listAllDomains(self, flags):
        assert flags == libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
        return self.domains


@pytest.mark.parametrize(('disk', 'found'), [
    ((3, 4096, 5, 8192, -1), (4096, 8192, 3, 5)),
    ((0, 0, 0, 0, -1), (None,) * 4),                # the kernel does not count
    (error(libvirt.VIR_ERR_OPERATION_INVALID), (None,) * 4)])
def test_container_counters_have_disk_and_the_sum_of_all_ports(disk, found):
    assert calls.container_counters(Connection(Domain(1, disk))) == {
        'uuid1': Counters('1', 2 << 20, 7 * 10 ** 9, *found, 1001, 203, 11, 6)}


def test_container_without_a_readable_port_keeps_its_other_counters():
    found = calls.container_counters(Connection(Domain(1, (3, 4096, 5, 8192, -1), {'tap1': PORTS['tap1']})))
    assert found['uuid1'] == Counters('1', 2 << 20, 7 * 10 ** 9, 4096, 8192, 3, 5)


def test_container_that_ends_meanwhile_is_left_out_and_other_errors_are_raised():
    gone = Domain(1, (0, 0, 0, 0, -1), gone=error(libvirt.VIR_ERR_NO_DOMAIN))
    assert list(calls.container_counters(Connection(gone, Domain(2, (1, 1, 1, 1, -1))))) == ['uuid2']
    with pytest.raises(libvirt.libvirtError):
        calls.container_counters(Connection(Domain(1, error(libvirt.VIR_ERR_NO_CONNECT))))
