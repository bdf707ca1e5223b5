"""Consoles of libvirt guests as data and as XML."""
from xml.etree import ElementTree as etree

import pytest

from nova import conf as configuration
from nova import exception
from nova.tests.unit import test_libvirt_xml
from nova.virt.libvirt.domain import offered
from nova.virt.libvirt import graphics
from nova.virt.libvirt.moves import migration_xml
from nova.virt.libvirt import xml

TCP = {'serial_console__enabled': True, 'serial_console__server_listen': '127.0.0.1',
       'serial_console__port_range': '18950:18955'}
KINDS = frozenset({'sdl', 'vnc', 'spice', 'egl-headless', 'dbus'})              # QEMU's
EVERYTHING = {'spice__enabled': True, 'spice__tls': True, **TCP}


def assigned(before=None, ports=1, used=(), **options):
    return graphics.assign(configuration.new(files=[], **options), before or {}, ports, lambda name: f'/i/{name}', used)


def described(record, **values):
    return etree.fromstring(xml.domain(test_libvirt_xml.guest(consoles=record, **values)))


def test_by_default_a_guest_has_vnc_with_a_password_on_loopback():
    record = assigned()
    assert set(record) == {'vnc'} and record['vnc']['listen'] == '127.0.0.1'
    element, = described(record).findall('./devices/graphics')
    assert (element.get('type'), element.get('listen'), element.find('listen').get('address')) == (
        'vnc', '127.0.0.1', '127.0.0.1')
    assert len(element.get('passwd')) == 8
    assert described(record).find('./devices/serial').get('type') == 'pty'


@pytest.mark.parametrize('arch, settings, buses', [
    (None, {}, ['usb']), (None, {'pointer_model': 'usbtablet'}, ['usb']), (None, {'pointer_model': 'ps2mouse'}, []),
    (None, {'input_bus': 'virtio'}, ['virtio']), (None, {'input_bus': 'usb'}, ['usb']),
    (None, {'pointer_model': 'usbtablet', 'input_bus': 'virtio'}, ['virtio']),
    (None, {'pointer_model': 'ps2mouse', 'input_bus': 'virtio'}, []),
    ('aarch64', {}, ['virtio']), ('aarch64', {'pointer_model': 'usbtablet'}, ['usb']),
    ('aarch64', {'input_bus': 'usb'}, ['usb'])])
def test_guest_with_graphics_has_the_requested_pointer(arch, settings, buses):
    found = described(assigned(), arch=arch, settings=settings).findall('./devices/input')
    assert [(each.get('type'), each.get('bus')) for each in found] == [('tablet', bus) for bus in buses]


def test_passwords_differ_and_stay():
    first, other = assigned(spice__enabled=True), assigned(spice__enabled=True)
    assert first['vnc']['password'] != other['vnc']['password']
    again = assigned(first, spice__enabled=True)
    assert again == first and len(again['spice']['password']) == graphics.SPICE_PASSWORD


def test_spice_has_no_password_if_its_proxy_supports_none():
    record = assigned(assigned(spice__enabled=True), spice__enabled=True, spice__password=False)
    assert record['spice']['password'] is None and record['vnc']['password']
    assert described(record).find("./devices/graphics[@type='spice']").get('passwd') is None


def test_serial_ports_over_tcp_listen_on_free_ports():
    record = assigned(ports=2, used={18950}, serial_console__tls=True, **TCP)
    assert record['serial'] == {'listen': '127.0.0.1', 'ports': [18951, 18952], 'tls': True}
    found = described(record).findall('./devices/serial')
    assert [(one.get('type'), one.find('source').get('service'), one.find('source').get('tls'),
             one.find('log') is not None, one.find('target').get('port')) for one in found] == [
        ('tcp', '18951', 'yes', True, '0'), ('tcp', '18952', 'yes', False, '1')]
    assert assigned(record, 2, {18950}, serial_console__tls=True, **TCP) == record, 'it keeps its ports'
    assert assigned(record, 2, {18951}, **TCP)['serial']['ports'] == [18950, 18952], 'unless they are taken'


def test_guest_without_a_free_console_port_is_refused():
    with pytest.raises(exception.VirtError, match='port_range'):
        assigned(used=range(18950, 18956), **TCP)


def test_serial_ports_are_sockets_without_tcp():
    record = assigned(ports=2, serial_console__enabled=True)
    assert record['serial'] == {'paths': ['/i/serial0.sock', '/i/serial1.sock']}
    assert [one.find('source').get('path') for one in described(record).findall('./devices/serial')] == [
        '/i/serial0.sock', '/i/serial1.sock']


@pytest.mark.parametrize('options, settings, kinds, word', [
    ({'vnc__server_listen': '0.0.0.0'}, {}, KINDS, 'wildcard address'),
    ({'spice__enabled': True, 'spice__server_listen': '::'}, {}, KINDS, 'wildcard address'),
    ({'spice__enabled': True, 'spice__tls': True}, {}, KINDS, 'spice_tls'),
    ({'spice__enabled': True}, {}, KINDS - {'spice'}, 'qemu-system-modules-spice'),
    ({**TCP, 'serial_console__tls': True}, {'chardev_tls': '0'}, KINDS, 'chardev_tls')])
def test_unusable_graphics_options_are_refused_at_start(options, settings, kinds, word):
    with pytest.raises(exception.InvalidInput, match=word):
        graphics.check(configuration.new(files=[], **options), settings, kinds)


def test_a_qemu_without_spice_is_used_where_spice_is_off():
    graphics.check(configuration.new(files=[]), {}, KINDS - {'spice'})


def test_types_of_graphics_are_those_that_every_machine_has():
    """As libvirt 11.3 describes a QEMU 10.0 without its module for SPICE, and one with it."""
    text = '''<domainCapabilities><devices><graphics supported='yes'><enum name='type'><value>sdl</value>
        <value>vnc</value>%s<value>egl-headless</value><value>dbus</value></enum></graphics></devices>
        </domainCapabilities>'''
    with_spice, without = (etree.fromstring(text % part) for part in ('<value>spice</value>', ''))
    assert offered.graphics([with_spice, with_spice]) == KINDS
    assert offered.graphics([with_spice, without]) == KINDS - {'spice'}
    assert offered.graphics([]) == frozenset()


def test_supported_graphics_options_are_accepted():
    graphics.check(configuration.new(files=[], **EVERYTHING), {'spice_tls': '1', 'chardev_tls': '1'}, KINDS)


def test_everything_follows_the_schema(tmp_path, monkeypatch):
    monkeypatch.setitem(test_libvirt_xml.VARIANTS, 'consoles', {'consoles': assigned(ports=2, **EVERYTHING)})
    test_libvirt_xml.test_domain_follows_the_schema('consoles', tmp_path)


RUNNING = '''<domain><devices>
<serial type='tcp'><source mode='bind' host='127.0.0.1' service='10777' tls='no'/></serial>
<console type='tcp'><source mode='bind' host='127.0.0.1' service='10777' tls='no'/></console>
<graphics type='vnc' port='5900' autoport='yes' listen='127.0.0.1'><listen type='address' address='127.0.0.1'/>
</graphics>
<graphics type='spice' tlsPort='5902' autoport='yes' listen='127.0.0.1' passwd='x'/>
</devices></domain>'''


def test_console_address_is_read_from_the_running_guest():
    record = {'vnc': {'password': 'p'}, 'spice': {'password': 'q'}, 'serial': {'ports': [10777]}}
    def at(kind, text=RUNNING):
        return graphics.place(text, kind, record, '192.0.2.1')
    none = {'tls_port': None, 'internal_access_path': None}
    assert at('vnc') == {**none, 'host': '127.0.0.1', 'port': 5900, 'password': 'p'}
    assert at('spice') == {**none, 'host': '127.0.0.1', 'port': 0, 'tls_port': 5902, 'password': 'q'}
    assert at('serial') == {**none, 'host': '127.0.0.1', 'port': 10777, 'password': None}
    assert at('serial', '<domain><devices><serial type="unix"><source mode="bind" path="/i/s"/></serial></devices>'
                        '</domain>') == {**none, 'host': '192.0.2.1', 'port': 0, 'internal_access_path': '/i/s',
                                         'password': None}
    for kind, text in (('mks', RUNNING), ('vnc', '<domain><devices/></domain>'),
                       ('serial', '<domain><devices><serial type="pty"/></devices></domain>')):
        with pytest.raises(exception.ConsoleTypeUnavailable):
            at(kind, text)


THERE = '''<domain><devices>
<serial type='tcp'><source mode='bind' host='192.0.2.7' service='10001' tls='no'/><protocol type='raw'/></serial>
<graphics type='vnc' autoport='yes' listen='192.0.2.7' passwd='new'><listen type='address' address='192.0.2.7'/>
</graphics>
</devices></domain>'''


def test_a_moving_guest_gets_the_addresses_of_its_destination_and_keeps_its_passwords():
    """QEMU there could not listen at an address of the source, so no guest with a console moved between two hosts."""
    brought = RUNNING.replace("listen='127.0.0.1'><listen", "listen='127.0.0.1' passwd='own'><listen")
    text = migration_xml.for_destination(brought, THERE)
    root = etree.fromstring(text)
    for element in root.findall('./devices/graphics'):
        assert not {'port', 'tlsPort'} & set(element.attrib)
    vnc, spice = root.find("./devices/graphics[@type='vnc']"), root.find("./devices/graphics[@type='spice']")
    assert vnc.get('listen') == vnc.find('listen').get('address') == '192.0.2.7' and vnc.get('passwd') == 'own'
    assert spice.get('listen') == '127.0.0.1' and spice.get('passwd') == 'x', 'that host offers no SPICE'
    for path in ('serial', 'console'):
        source = root.find(f'./devices/{path}/source')
        assert (source.get('host'), source.get('service')) == ('192.0.2.7', '10001')
    assert graphics.read(text) == {
        'vnc': {'listen': '192.0.2.7', 'password': 'own'},
        'spice': {'listen': '127.0.0.1', 'password': 'x', 'tls': False},
        'serial': {'listen': '192.0.2.7', 'ports': [10001], 'tls': False}}
    later = etree.fromstring(migration_xml.for_later(THERE, brought))
    assert later.find("./devices/graphics[@type='vnc']").get('passwd') == 'own'


@pytest.mark.parametrize('options', [EVERYTHING, {}])
def test_graphics_read_from_the_domain_equal_the_assigned_ones(options):
    record = assigned(ports=2, **options)
    devices = etree.Element('devices')
    graphics.add(devices, record, '/i/console.log')
    domain = etree.Element('domain')
    domain.append(devices)
    assert graphics.read(etree.tostring(domain, encoding='unicode')) == record


def test_a_record_of_before_has_no_consoles():
    values = test_libvirt_xml.guest().to_record()
    del values['consoles']
    values.update(serial_ports=2, settings={'serial_port_count': '2'})
    guest = xml.Guest.from_dict(values)
    assert (guest.consoles, guest.hardware.serial_ports) == ({}, 2)
