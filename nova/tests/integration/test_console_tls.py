"""The proxy and a real QEMU that takes TLS alone: VeNCrypt with certificates and a password, SPICE, a port with TLS.

libvirt sets up the same with vnc_tls, spice_tls and chardev_tls of its qemu.conf.
"""
import contextlib
import shutil
import socket
import subprocess

import pytest
import sqlalchemy as sa

from nova import exception
from nova.console import sessions
from nova.console import streams
from nova.db.servers import console_tokens
from nova.db.tables.cell import console_auth_tokens
from nova.runtime import certificates
from nova.tests import guests_consoles as guests
from nova.tests.support import waiting
from nova.tests.functional import cloud as whole
from nova.tests.integration import servers
from nova.tests.support import consoles as plain

QEMU = shutil.which('qemu-system-x86_64')
pytestmark = pytest.mark.skipif(QEMU is None, reason='qemu-system-x86 is not installed')


class Qemu:
    """A machine without disks, whose monitor stands for a serial port.

    :param directory: of the certificates as QEMU wants them
    """

    def __init__(self, directory):
        self.vnc, self.spice, self.serial = (servers.free_port() for _ in range(3))
        self._process = subprocess.Popen([
            QEMU, '-machine', 'pc', '-accel', 'tcg', '-m', '16', '-nodefaults', '-vga', 'std',
            '-object', f'tls-creds-x509,id=tls,dir={directory},endpoint=server,verify-peer=on',
            '-object', f'secret,id=password,data={guests.PASSWORD}',
            '-vnc', f'127.0.0.1:{self.vnc - 5900},tls-creds=tls,password-secret=password',
            '-spice', f'addr=127.0.0.1,tls-port={self.spice},x509-dir={directory},password-secret=password',
            '-chardev', f'socket,id=port,host=127.0.0.1,port={self.serial},server=on,wait=off,tls-creds=tls',
            '-mon', 'chardev=port,mode=control'], stdin=subprocess.DEVNULL)

        def listens():
            assert self._process.poll() is None, 'QEMU has ended'
            with socket.socket() as probe:
                return not probe.connect_ex(('127.0.0.1', self.vnc))
        waiting.wait_for(listens, 60, 'QEMU to listen')

    def close(self):
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope='module')
def authority(tmp_path_factory):
    return certificates.Authority(tmp_path_factory.mktemp('tls'))


@pytest.fixture(scope='module')
def qemu(authority, tmp_path_factory):
    directory = tmp_path_factory.mktemp('qemu')
    pair = authority.pair('hypervisor', ['127.0.0.1'])
    for name, path in (('ca-cert', authority.trusted), ('server-cert', pair.certificate), ('server-key', pair.key)):
        shutil.copy(path, directory / f'{name}.pem')
    made = Qemu(directory)
    yield made
    made.close()


@pytest.fixture(scope='module')
def cloud(authority, tmp_path_factory):
    pair = authority.pair('proxy', ['proxy.example.org'], use=certificates.CLIENT)
    with whole.running(tmp_path_factory.mktemp('cloud'), spice__enabled=True,
                       console__hypervisor_ca_file=str(authority.trusted),
                       console__hypervisor_cert_file=str(pair.certificate),
                       console__hypervisor_key_file=str(pair.key)) as cloud:
        yield cloud


@pytest.fixture(scope='module')
def client(cloud):
    return cloud.client(version='2.99')


@pytest.fixture(scope='module')
def server(client):
    made = client.boot(client.upload_image(), networks='none')['id']
    client.wait_for(made)
    return made


def url_of(cloud, client, server, kind, **place):
    """The address of a console that leads to a place."""
    stand_in = guests.Hypervisor()
    try:
        _page, url, token = plain.url_of(cloud, client, server, stand_in, kind)
    finally:
        stand_in.close()
    with cloud.cell_db.writer() as conn:
        row = console_tokens.get(conn, token)
        conn.execute(sa.update(console_auth_tokens).where(
            console_auth_tokens.c.token_hash == row['token_hash']).values(**place))
    return url


def test_vnc_console_uses_vencrypt(cloud, client, server, qemu):
    with plain.open_socket(url_of(cloud, client, server, 'novnc', port=qemu.vnc), max_size=None) as socket:
        screen = guests.Screen(socket).begin()
        assert screen.name.startswith('QEMU')
        waiting.wait_for(lambda: len(set(screen.picture())) > 1, 60, 'the BIOS to show something')


def test_serial_console_uses_mutual_tls(cloud, client, server, qemu):
    url = url_of(cloud, client, server, 'serial', port=qemu.serial, tls_port=qemu.serial)
    with plain.open_socket(url) as socket:
        reader = guests.Reader(socket)
        reader.until(b'\r\n')
        # QEMU 7.2 takes a part of a TLS record, and looks for the rest when the next record comes.
        socket.send(b'{"execute": "qmp_capabilities"}')

        def returned():
            socket.send(b'\n')
            with contextlib.suppress(TimeoutError):
                return reader.until(b'"return"', 0.5)
        waiting.wait_for(returned, 60, 'QEMU to answer')


def test_spice_console_uses_tls(cloud, client, server, qemu):
    """The link stage of a client that knows no password."""
    import struct
    url = url_of(cloud, client, server, 'novnc', port=0, tls_port=qemu.spice, console_type='spice-html5')
    with plain.open_socket(url.replace('novnc/vnc_auto.html', 'spice/spice_auto.html')) as socket:
        reader = guests.Reader(socket)
        body = struct.pack('<IBBIII', 0, 1, 0, 1, 0, 18) + struct.pack('<I', 0b1011)
        socket.send(struct.pack('<4sIII', b'REDQ', 2, 2, len(body)) + body)
        reader.read(struct.unpack('<4sIII', reader.read(16))[3])
        socket.send(struct.pack('<I', 1) + bytes(128))
        assert struct.unpack('<I', reader.read(4)) == (0,), 'the guest lets us in'


@pytest.mark.parametrize('kind, place', [('vnc', {}), ('serial', {'tls_port': None})])
def test_console_without_tls_is_refused(cloud, server, kind, place):
    plain_one = guests.Hypervisor(vnc=kind == 'vnc')
    row = {'host': '127.0.0.1', 'port': plain_one.port, 'tls_port': None, 'internal_access_path': None,
           'instance_host': cloud.hosts[0], 'instance_uuid': server, **place}
    with pytest.raises(exception.ConsoleUnreachable):
        cloud.consoles._way(kind, sessions.Facts(row, None, '', ''), guests.PASSWORD)
    plain_one.close()


def test_a_certificate_of_another_authority_is_refused(authority, qemu, tmp_path):
    from nova import conf as configuration
    other = certificates.Authority(tmp_path)
    other.pair('x', ['127.0.0.1'], use=certificates.CLIENT)
    context = streams.context(configuration.new(files=[], console__hypervisor_ca_file=str(other.trusted)))
    stream = streams.connect('127.0.0.1', qemu.serial)
    with pytest.raises(streams.Broken, match='certificate verify failed'):
        stream.secure(context, '127.0.0.1')
    stream.close()


def test_a_name_that_the_certificate_has_not_is_refused(authority, qemu):
    from nova import conf as configuration
    context = streams.context(configuration.new(files=[], console__hypervisor_ca_file=str(authority.trusted)))
    stream = streams.connect('127.0.0.1', qemu.serial)
    with pytest.raises(streams.Broken, match='certificate verify failed'):
        stream.secure(context, 'elsewhere.example.org')
    stream.close()
