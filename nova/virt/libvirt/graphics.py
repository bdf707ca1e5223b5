"""Consoles of a guest: its screen over VNC and SPICE, and its serial ports.

* ``assign`` returns ``Guest.consoles`` according to the host's configuration, at each start of a guest
* ``add`` generates the XML of the consoles
* ``place`` reads the address of a console from the XML of a running guest

A guest keeps its passwords for life, because saved or migrated memory contains them.

See https://libvirt.org/formatdomain.html#graphical-framebuffers and #consoles-serial-parallel-channel-devices.
"""
from collections.abc import Callable, Collection, Iterable
import ipaddress
import secrets
import socket
import string
from typing import TypedDict
from xml.etree import ElementTree as etree

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.virt.driver import ConsolePlace

VNC_PASSWORD = 8                        # characters of a password; VNC ignores further characters (RFC 6143, 7.2.2)
SPICE_PASSWORD = 32
SOCKET = 'serial%d.sock'                # name of a serial port's socket in the guest's directory
_LETTERS = string.ascii_letters + string.digits
# One kind of console of a guest
Console = TypedDict('Console', {
    'listen': str, 'password': str | None,         # for vnc and spice; password None: none is required
    'tls': bool,                                   # for spice and serial
    'ports': list[int], 'paths': list[str],        # for serial: TCP ports, or paths of Unix sockets
}, total=False)
Record = dict[str, Console]              # {'vnc', 'spice' or 'serial': the console}


def check(conf: ConfigOpts, settings: dict[str, str], offered: Collection[str]) -> None:
    """Reject a configuration with which guests cannot start or consoles have no access control.

    :param settings: settings of qemu.conf, as returned by isolation.read_settings
    :param offered: graphics types of this host's QEMU, as returned by offered.graphics
    :raises InvalidInput: the message names the invalid option
    """
    for group in ('vnc', 'spice', 'serial_console'):
        options = conf[group]
        if options.enabled and options.server_listen and _is_every(options.server_listen):
            raise exception.InvalidInput(reason=f'server_listen in [{group}] is a wildcard address. Set it to an '
                                                'address that only the console proxies can reach.')
    if conf.spice.enabled and 'spice' not in offered:
        raise exception.InvalidInput(reason='enabled in [spice] requires SPICE, which the QEMU of this host does not '
                                            'support. Install its module (qemu-system-modules-spice on Debian 13 '
                                            'and Ubuntu), or set enabled = false.')
    for group, setting in (('spice', 'spice_tls'), ('serial_console', 'chardev_tls')):
        if conf[group].enabled and conf[group].tls and settings.get(setting, '0').strip() != '1':
            raise exception.InvalidInput(reason=f'tls in [{group}] needs {setting} = 1 in /etc/libvirt/qemu.conf, and '
                                                'the certificates that it names.')


def assign(conf: ConfigOpts, before: Record, ports: int, path: Callable[[str], str], used: Iterable[int]) -> Record:
    """Return the consoles that a guest gets at its next start on this host.

    :param before: previous consoles of the guest, on this or another host
    :param ports: number of serial ports
    :param path: function that returns the path of a file name in the guest's directory
    :param used: TCP ports of other guests of this host
    :raises VirtError: no TCP port of the range is free
    """
    made: Record = {}
    for kind, length in (('vnc', VNC_PASSWORD), ('spice', SPICE_PASSWORD)):
        options = conf[kind]
        if options.enabled:
            password = before.get(kind, {}).get('password') or ''.join(
                secrets.choice(_LETTERS) for _ in range(length))
            made[kind] = {'listen': options.server_listen, 'password': password}
    if 'spice' in made:
        made['spice']['tls'] = conf.spice.tls
        if not conf.spice.password:
            made['spice']['password'] = None
    options = conf.serial_console
    if options.enabled and options.server_listen:
        kept, taken = before.get('serial', {}).get('ports', []), set(used)
        if len(kept) != ports or taken & set(kept) or not all(_is_free(options.server_listen, port) for port in kept):
            kept = _free_ports(options, ports, taken)
        made['serial'] = {'listen': options.server_listen, 'ports': kept, 'tls': options.tls}
    elif options.enabled:
        made['serial'] = {'paths': [path(SOCKET % number) for number in range(ports)]}
    return made


def used_ports(records: Iterable[Record]) -> set[int]:
    """Return the TCP ports of the serial consoles in the records of several guests."""
    return {port for record in records for port in record.get('serial', {}).get('ports', ())}


def add(devices: etree.Element, record: Record, log: str) -> None:
    """Add the elements of a guest's consoles. The output of the first serial port is written to the file ``log``."""
    _serial(devices, record.get('serial'), log)
    for kind in ('vnc', 'spice'):
        if kind in record:
            found = record[kind]
            element = etree.SubElement(devices, 'graphics', type=kind, autoport='yes', listen=found['listen'])
            if found['password']:
                element.set('passwd', found['password'])
            if found.get('tls'):
                element.set('defaultMode', 'secure')
            etree.SubElement(element, 'listen', type='address', address=found['listen'])


def _serial(devices: etree.Element, record: Console | None, log: str) -> None:
    record = record or {}
    paths, ports = record.get('paths', ()), record.get('ports', ())
    for number in range(max(1, len(paths), len(ports))):
        element = etree.SubElement(devices, 'serial', type='unix' if paths else 'tcp' if ports else 'pty')
        if paths:
            etree.SubElement(element, 'source', mode='bind', path=paths[number])
        elif ports:
            etree.SubElement(element, 'source', mode='bind', host=record['listen'], service=str(ports[number]),
                             tls='yes' if record['tls'] else 'no')
            etree.SubElement(element, 'protocol', type='raw')
        if not number:
            etree.SubElement(element, 'log', file=log, append='on')
        etree.SubElement(element, 'target', port=str(number))


def place(text: str, kind: str, record: Record, my_ip: str) -> ConsolePlace:
    """Return the address of a console of a running guest: see virt.driver.Consoles.

    :param text: XML of the running guest
    :param kind: 'vnc', 'spice', 'serial' or 'mks'
    :param record: the guest's consoles, with the passwords that libvirt's XML omits
    :raises ConsoleTypeUnavailable: the guest has no console of this kind
    """
    devices = etree.fromstring(text).find('devices')
    found = None
    if devices is not None and kind in ('vnc', 'spice'):
        found = _of_graphics(devices.find(f"./graphics[@type='{kind}']"))
    elif devices is not None and kind == 'serial':
        found = _of_serial(devices.find('./serial'), my_ip)
    if found is None:
        raise exception.ConsoleTypeUnavailable(console_type=kind)
    found['password'] = record.get(kind, {}).get('password')
    return found


def _of_graphics(element: etree.Element | None) -> ConsolePlace | None:
    if element is None:
        return None
    port, tls = (int(element.get(name) or 0) for name in ('port', 'tlsPort'))
    if port <= 0 and tls <= 0:
        return None
    return _place(element.get('listen'), max(port, 0), tls if tls > 0 else None)


def _of_serial(element: etree.Element | None, my_ip: str) -> ConsolePlace | None:
    source = element.find('source') if element is not None else None
    if element is None or source is None:
        return None
    if element.get('type') == 'tcp':
        port = int(source.get('service') or 0)
        return _place(source.get('host'), port, port if source.get('tls') == 'yes' else None)
    if element.get('type') == 'unix':
        return _place(my_ip, 0, path=source.get('path'))
    return None


def _place(host: str | None, port: int, tls_port: int | None = None, path: str | None = None) -> ConsolePlace:
    return {'host': host or '', 'port': port, 'tls_port': tls_port, 'internal_access_path': path, 'password': None}


def has_screen(text: str) -> bool:
    """Return whether a guest has a graphics device.

    :param text: XML of the guest
    """
    return any(model.get('type') != 'none' for model in etree.fromstring(text).findall('./devices/video/model'))


def read(text: str) -> Record:
    """At the destination: return the consoles of a live-migrated guest from its XML.

    :param text: XML of the guest with passwords (VIR_DOMAIN_XML_SECURE)
    """
    root = etree.fromstring(text)
    made: Record = {}
    for kind in ('vnc', 'spice'):
        element = root.find(f"./devices/graphics[@type='{kind}']")
        if element is not None:
            made[kind] = {'listen': element.get('listen', ''), 'password': element.get('passwd')}
    if 'spice' in made:
        spice = root.find("./devices/graphics[@type='spice']")
        made['spice']['tls'] = spice is not None and spice.get('defaultMode') == 'secure'
    serial = root.findall('./devices/serial')
    sources = [source for source in (element.find('source') for element in serial) if source is not None]
    port = serial[0].get('type') if serial else None
    if port == 'tcp':
        made['serial'] = {'listen': sources[0].get('host', ''), 'tls': sources[0].get('tls') == 'yes',
                          'ports': [int(each.get('service', 0)) for each in sources]}
    elif port == 'unix':
        made['serial'] = {'paths': [each.get('path', '') for each in sources]}
    return made


def _free_ports(options: ConfigOpts.GroupAttr, number: int, taken: set[int]) -> list[int]:
    first, last = (int(end) for end in options.port_range.split(':'))
    found: list[int] = []
    for port in range(first, last + 1):
        if port not in taken and _is_free(options.server_listen, port):
            found.append(port)
            if len(found) == number:
                return found
    raise exception.VirtError(operation='find a port for a serial console',
                              reason='none of port_range in [serial_console] is free')


def _is_free(address: str, port: int) -> bool:
    """Return whether the port is free at present. If another process binds the port later, the guest's start fails."""
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _is_every(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False
