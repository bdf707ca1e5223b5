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
    found = injection.command(DISK, [('/etc/x', '/tmp/0'), ('y', '/tmp/1')], partition, '1246036261.5785')
    assert found == [
        'guestfish', '--rw', '--format=qcow2', '-a', '/disk', *words, '--',
        'mkdir-p', '/etc', ':', '-mv', '/etc/x', '/etc/x.bak.1246036261.5785', ':', 'upload', '/tmp/0', '/etc/x', ':',
        'chown', '0', '0', '/etc/x', ':', 'chmod', '0440', '/etc/x', ':',
        'mkdir-p', '/', ':', '-mv', '/y', '/y.bak.1246036261.5785', ':', 'upload', '/tmp/1', '/y', ':',
        'chown', '0', '0', '/y', ':', 'chmod', '0440', '/y']


def test_a_network_is_for_images_that_have_the_file():
    """Each step may fail: an image without ifupdown has no such directory."""
    found = injection.command(DISK, [], injection.FIND, '1.0', '/tmp/interfaces')
    words = ' '.join(found[found.index('--') + 1:]).split(' : ')
    assert [word.split()[0] for word in words] == ['-mv', '-upload', '-chown', '-chmod']
    assert words[1] == '-upload /tmp/interfaces /etc/network/interfaces'


def test_injected_network_has_addresses_routes_and_dns():
    subnet = {'version': 4, 'cidr': '192.0.2.0/24', 'gateway': '192.0.2.1', 'dns': ['192.0.2.2'], 'ips': [
        {'address': '192.0.2.7'}], 'routes': [{'destination': '198.51.100.0/24', 'nexthop': '192.0.2.3'}]}
    second = {'version': 6, 'cidr': '2001:db8::/64', 'ips': [{'address': '2001:db8::7'}]}
    found = injection.interfaces_text([{'network': {'subnets': [subnet, second]}}, {'network': {'subnets': []}}])
    assert found == injection.INTERFACES_HEADER + """
auto eth0
iface eth0 inet static
    address 192.0.2.7
    netmask 255.255.255.0
    gateway 192.0.2.1
    dns-nameservers 192.0.2.2
    up ip route add 198.51.100.0/24 via 192.0.2.3 dev eth0
iface eth0 inet6 static
    address 2001:db8::7
    netmask 64

auto eth1
iface eth1 inet manual
"""
    with pytest.raises(ValueError):                  # no text of a stranger becomes a line
        injection.interfaces_text([{'network': {'subnets': [{**subnet, 'gateway': '192.0.2.1\n    up evil'}]}}])


def test_a_network_that_cannot_be_written_is_no_failure_of_the_build(caplog):
    injection.write(xml.Disk('/disk', 'raw', 'vda', secret='x'), [], injection.FIND, 'auto lo')
    assert 'encrypted' in caplog.text


@pytest.mark.parametrize('values', [{'secret': 'x'}, {'source': {'kind': 'network'}}])
def test_injection_refuses_disks_that_it_cannot_open(values):
    with pytest.raises(exception.VirtError, match='encrypted, or in a pool'):
        injection.write(xml.Disk('/disk', 'raw', 'vda', **values), [('x', b'1')], 0)


def test_host_without_injection_tools_does_not_start(monkeypatch):
    monkeypatch.setenv('PATH', '/nonexistent')
    injection.prepare(injection.OFF)
    with pytest.raises(exception.VirtError, match='libguestfs-tools'):
        injection.prepare(injection.WHOLE)
    with pytest.raises(exception.VirtError, match='inject_network'):
        injection.prepare(injection.OFF, network=True)


def test_the_api_takes_files_that_arrive():
    assert spec.has_config_drive(None, FILES, False) is True
    assert spec.has_config_drive(None, [], False) is False
    with pytest.raises(exception.BadRequest, match='config drive'):
        spec.has_config_drive(False, FILES, False)
    assert spec.NOT_WRITTEN == injection.OFF
