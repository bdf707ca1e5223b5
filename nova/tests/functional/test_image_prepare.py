"""nova-manage image prepare: a cloud image of a file or an https URL, with bounds, and with properties that suit it."""
import contextlib
import hashlib
import http.server
import ipaddress
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from nova import exception
from nova.cmd.manage import main as manage
from nova.image import boot_facts
from nova.image import fetch
from nova.runtime import certificates
from nova.tests.functional import cloud as clouds

LOOPBACK = [ipaddress.ip_network('127.0.0.0/8')]
MIB = 1 << 20
needs_qemu = pytest.mark.skipif(not (shutil.which('qemu-img') and shutil.which('bwrap')),
                                reason='qemu-img and bwrap are not installed')


def disk(path, kinds=(), boot=b'\xeb\x63', active=False, size=8 * MIB, more=b''):
    """A raw disk: with a GPT of these types of partitions, or with an MBR where there are none."""
    data = bytearray(2 * MIB)
    data[:len(boot)] = boot
    data[510:512] = b'\x55\xaa'
    data[446], data[450] = 0x80 if active else 0, 0xee if kinds else 0x83
    if kinds:
        data[512:520] = b'EFI PART'
        data[512 + 8:512 + 16] = struct.pack('<II', 0x10000, 92)
        data[512 + 72:512 + 88] = struct.pack('<QII', 2, 128, 128)
        for number, kind in enumerate(kinds):
            data[1024 + number * 128:1040 + number * 128] = kind.bytes_le
    data[MIB:MIB + len(more)] = more
    with open(path, 'wb') as file:
        file.write(data)
        file.truncate(size)
    return path


ROOT, = (kind for kind, name in boot_facts.ROOTS.items() if name == 'x86_64')


@pytest.mark.parametrize(('words', 'expected'), [
    (dict(kinds=(boot_facts.BIOS_BOOT, boot_facts.EFI_SYSTEM, ROOT)), (True, True, True, 'x86_64', False)),
    (dict(kinds=(boot_facts.EFI_SYSTEM, ROOT), boot=b''), (True, False, True, 'x86_64', False)),
    (dict(kinds=(ROOT,), boot=b''), (True, False, False, 'x86_64', False)),
    (dict(active=True), (True, True, False, None, False)),
    (dict(active=False), (True, False, False, None, False)),
    (dict(active=True, more=boot_facts.AGENT), (True, True, False, None, True)),
    (dict(active=True, more=b'\0' * (boot_facts.CHUNK - MIB - 9) + boot_facts.AGENT, size=32 * MIB),
     (True, True, False, None, True)),
])
def test_boot_facts_are_read_from_the_partition_table(words, expected, tmp_path):
    with open(disk(tmp_path / 'disk', **words), 'rb') as file:
        found = boot_facts.read(file)
    assert (found.partitioned, found.bios, found.uefi, found.architecture, found.agent) == expected


@pytest.mark.parametrize('header', [(2 ** 60, 2 ** 32 - 1, 128), (2, 2 ** 32 - 1, 0), (2, 128, 2 ** 32 - 1), (0, 0, 0)])
def test_a_partition_table_that_lies_is_read_in_bounds(header, tmp_path):
    path = disk(tmp_path / 'disk', (boot_facts.EFI_SYSTEM,))
    with open(path, 'r+b') as file:
        file.seek(512 + 72)
        file.write(struct.pack('<QII', *header))
    with open(path, 'rb') as file:
        assert not boot_facts.read(file).bios
    path.write_bytes(b'\0' * 100)
    with open(path, 'rb') as file:
        assert boot_facts.read(file) == boot_facts.Facts(False, False, False, None, False)


# ---- fetching

class Handler(http.server.BaseHTTPRequestHandler):
    files: dict = {}
    asked: list = []

    def do_GET(self):
        self.asked.append(self.path)
        status, headers, body = self.files.get(self.path, (404, {}, b''))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    """(URL of an https server, the file of its authority, {path: (status, headers, body)}, [paths asked for])"""
    authority = certificates.Authority(tmp_path_factory.mktemp('tls'))
    pair = authority.pair('site', ['localhost'])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f'https://localhost:{server.server_port}', str(authority.trusted), Handler.files, Handler.asked
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def ipv4(monkeypatch):
    """The server of the tests listens on 127.0.0.1, and localhost may be ::1 first."""
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, 'getaddrinfo', lambda host, port, *more, **words: [
        entry for entry in resolve(host, port, *more, **words) if entry[0] == socket.AF_INET or host != 'localhost'])


def sha256(data):
    return fetch.Checksum('sha256', hashlib.sha256(data).hexdigest())


def fetched(site, path, data=b'data', allowed=LOOPBACK, most=1000, url=None, target=None):
    url_of, trusted, _files, _asked = site
    with open(target or os.devnull, 'wb') as file:
        return fetch.Fetcher(most, allowed, trusted).fetch(url or url_of + path, file, sha256(data))


def test_a_file_comes_through_redirects(site, tmp_path):
    url, _trusted, files, _asked = site
    files['/a'] = (302, {'Location': '/b?c=d'}, b'')
    files['/b?c=d'] = (301, {'Location': url + '/file'}, b'')
    files['/file'] = (200, {'Content-Length': '4'}, b'data')
    assert fetched(site, '/a', target=tmp_path / 'file') == 4
    assert (tmp_path / 'file').read_bytes() == b'data'
    files['/unknown-length'] = (200, {}, b'data')
    assert fetched(site, '/unknown-length') == 4


def test_redirects_are_bounded_and_lead_to_https_alone(site):
    url, _trusted, files, asked = site
    files['/loop'] = (302, {'Location': '/loop'}, b'')
    asked.clear()
    with pytest.raises(exception.InvalidInput, match='more than 5 redirects'):
        fetched(site, '/loop')
    assert len(asked) == 6
    for location in ('http://localhost/x', 'file:///etc/passwd', 'ftp://localhost/x', 'https://user@localhost/x',
                     'https://10.0.0.1/x', 'https://169.254.169.254/latest', 'https://[::1]/x'):
        files['/away'] = (302, {'Location': location}, b'')
        with pytest.raises(exception.InvalidInput):
            fetched(site, '/away')


def test_download_is_refused_if_too_large_truncated_or_of_another_checksum(site):
    _url, _trusted, files, _asked = site
    files['/large'] = (200, {'Content-Length': '1001'}, b'x' * 1001)
    with pytest.raises(exception.InvalidInput, match='1001 bytes, more than the limit of 1000'):
        fetched(site, '/large')
    files['/endless'] = (200, {}, b'x' * 100_000)
    with pytest.raises(exception.InvalidInput, match='more bytes than the limit of 1000'):
        fetched(site, '/endless')
    files['/short'] = (200, {'Content-Length': '9'}, b'data')
    with pytest.raises(exception.InvalidInput, match='Cannot download|ended after 4 of 9'):
        fetched(site, '/short')
    files['/other'] = (200, {}, b'other')
    files['/other?signature=s3cret'] = files['/other']
    with pytest.raises(exception.InvalidInput, match='/other has the sha256 checksum .*, expected'):
        fetched(site, '/other?signature=s3cret')
    with pytest.raises(exception.InvalidInput, match='returned 404'):
        fetched(site, '/missing')


def test_addresses_that_are_not_public_need_to_be_allowed(site, monkeypatch):
    url, _trusted, _files, asked = site
    asked.clear()
    with pytest.raises(exception.InvalidInput, match='127.0.0.1, which is not public.*--allow-network'):
        fetched(site, '/file', allowed=())
    with pytest.raises(exception.InvalidInput, match='not public'):
        fetched(site, '/file', allowed=[ipaddress.ip_network('10.0.0.0/8')])
    assert asked == []
    fetcher = fetch.Fetcher(1)
    for text in ('127.0.0.1', '10.1.2.3', '192.168.1.1', '172.16.0.1', '169.254.169.254', '0.0.0.0', '100.64.0.1',
                 '224.0.0.1', '255.255.255.255', '::1', '::', 'fe80::1', 'fc00::1', 'ff02::1', '::ffff:127.0.0.1',
                 '::ffff:10.0.0.1', '2002:7f00:1::', '64:ff9b:1::1', '64:ff9b::7f00:1', '64:ff9b::a00:1'):
        with pytest.raises(exception.InvalidInput, match='not public'):
            fetcher.choose(text, 443)
    assert str(fetcher.choose('1.1.1.1', 443)) == '1.1.1.1'
    monkeypatch.setattr(socket, 'getaddrinfo', lambda *_words, **_more: [
        (socket.AF_INET, 0, 0, '', (address, 443)) for address in ('1.1.1.1', '127.0.0.1')])
    with pytest.raises(exception.InvalidInput, match='127.0.0.1, which is not public'):
        fetcher.choose('both.example', 443)


def test_a_name_is_resolved_once_and_the_checked_address_is_reached(site, monkeypatch):
    """A name server that gives another address the second time."""
    url, _trusted, files, _asked = site
    files['/file'] = (200, {}, b'data')
    resolve, asked = socket.getaddrinfo, []

    def once(host, *words, **more):
        if host == 'localhost':
            asked.append(host)
        return resolve(host if len(asked) < 2 or host != 'localhost' else '127.0.0.99', *words, **more)
    monkeypatch.setattr(socket, 'getaddrinfo', once)
    assert fetched(site, '/file') == 4
    assert len(asked) == 1


def test_a_certificate_that_is_not_trusted_is_refused(site):
    url, _trusted, _files, _asked = site
    with open(os.devnull, 'wb') as file, pytest.raises(exception.InvalidInput, match='CERTIFICATE_VERIFY_FAILED'):
        fetch.Fetcher(1000, LOOPBACK).fetch(url + '/file', file, sha256(b'data'))
    with pytest.raises(exception.InvalidInput, match='CERTIFICATE_VERIFY_FAILED'):       # of another name
        fetched(site, '', url=url.replace('localhost', '127.0.0.1') + '/file')


@pytest.mark.parametrize('url', ['http://localhost/x', 'https://', 'https:///x', 'https://a:99999/x', 'https://a b/x',
                                 'https://u:p@a/x', 'file:///x', 'https://a/\n', 'https://[::1/x',
                                 'https://a/' + 'x' * 5000])
def test_urls_that_are_none_are_refused(url, site):
    with pytest.raises(exception.InvalidInput, match='not an https URL'):
        fetched(site, '', url=url)


@pytest.mark.parametrize('text', ['', 'md5:' + 'a' * 32, 'sha256:' + 'a' * 63, 'sha256:' + 'g' * 64, 'a' * 64])
def test_checksums_that_are_none_are_refused(text):
    with pytest.raises(exception.InvalidInput, match='neither sha256'):
        fetch.checksum(text)


# ---- the command

@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('prepare') / 'state') as made:
        yield made


@pytest.fixture
def prepare(cloud, capsys):
    def run(*arguments):
        code = manage.main(['image', 'prepare', *map(str, arguments), '--state-path', str(cloud.state_path)])
        return code, *capsys.readouterr()
    return run


def image_named(cloud, name):
    found, = cloud.admin().get(f'/image/v2/images?name={name}').json()['images']
    return found


@needs_qemu
def test_a_cloud_image_of_a_url_gets_the_properties_that_suit_it(cloud, prepare, site, tmp_path):
    url, trusted, files, _asked = site
    raw = disk(tmp_path / 'disk.raw', (boot_facts.BIOS_BOOT, boot_facts.EFI_SYSTEM, ROOT), size=1100 * MIB,
               more=boot_facts.AGENT)
    subprocess.run(['qemu-img', 'convert', '-O', 'qcow2', '-c', raw, tmp_path / 'disk.qcow2'], check=True)
    data = (tmp_path / 'disk.qcow2').read_bytes()
    files['/debian-13.qcow2'] = (200, {}, data)
    words = (f'{url}/debian-13.qcow2', '--ca-file', trusted, '--allow-network', '127.0.0.0/8')
    code, out, err = prepare(*words)
    assert code == 1 and 'needs --checksum' in err
    code, out, err = prepare(*words, '--checksum', 'sha256:' + '0' * 64)
    assert code == 1 and 'expected' in err
    code, out, err = prepare(*words[:3], '--checksum', 'sha256:' + hashlib.sha256(data).hexdigest())
    assert code == 1 and 'not public' in err
    assert cloud.admin().get('/image/v2/images?name=debian-13').json()['images'] == []
    code, out, err = prepare(*words, '--checksum', 'sha512:' + hashlib.sha512(data).hexdigest(), '--min-ram', 768,
                             '--property', 'os_distro=debian')
    assert (code, err) == (0, ''), err
    assert 'It boots with BIOS and UEFI' in out
    image = image_named(cloud, 'debian-13')
    assert {name: image.get(name) for name in (
        'status', 'visibility', 'disk_format', 'min_disk', 'min_ram', 'hw_disk_bus', 'hw_vif_model', 'hw_firmware_type',
        'hw_qemu_guest_agent', 'architecture', 'os_distro', 'os_type')} == {
            'status': 'active', 'visibility': 'public', 'disk_format': 'qcow2', 'min_disk': 2, 'min_ram': 768,
            'hw_disk_bus': 'virtio', 'hw_vif_model': 'virtio', 'hw_firmware_type': 'bios', 'hw_qemu_guest_agent': 'yes',
            'architecture': 'x86_64', 'os_distro': 'debian', 'os_type': 'linux'}
    assert image['virtual_size'] == 1100 * MIB
    assert not [path for path in pathlib.Path('/tmp').glob('nova-prepare-*') if path.stat().st_uid == os.getuid()]


@needs_qemu
def test_raw_uefi_image_is_prepared_with_uefi_firmware(cloud, prepare, tmp_path):
    path = disk(tmp_path / 'uefi-only.img', (boot_facts.EFI_SYSTEM, ROOT), boot=b'')
    code, out, err = prepare(path, '--private', '--disk-format', 'raw', '--checksum',
                             'sha256:' + hashlib.sha256(path.read_bytes()).hexdigest())
    assert (code, err) == (0, ''), err
    image = image_named(cloud, 'uefi-only')
    assert (image['hw_firmware_type'], image['disk_format'], image['visibility'], image['min_disk']) == (
        'uefi', 'raw', 'private', 1)
    assert 'hw_qemu_guest_agent' not in image


@needs_qemu
def test_prepare_refuses_files_that_are_not_cloud_images_and_bad_options(cloud, prepare, tmp_path):
    secret = tmp_path / 'secret'
    secret.write_text('secret')
    backed, empty, data, boots = (tmp_path / name for name in ('backed.qcow2', 'empty.raw', 'data.raw', 'vmdk'))
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-F', 'raw', '-b', secret, backed, '1M'], check=True)
    empty.write_bytes(b'\0' * MIB)
    disk(data, (ROOT,), boot=b'')
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'vmdk', boots, '1M'], check=True)
    packed = tmp_path / 'disk.raw.xz'
    packed.write_bytes(b'\xfd7zXZ\0' + bytes(1000))
    before = len(cloud.admin().get('/image/v2/images').json()['images'])
    for path, reason in ((backed, 'backing file'), (empty, 'has no partition table'), (data, 'cannot boot with'),
                         (boots, 'has the format vmdk'), (packed, 'Unpack compressed files first'),
                         (tmp_path / 'missing', 'No such file'), (tmp_path, 'is not a file'),
                         ('/dev/zero', 'is not a file')):
        code, _out, err = prepare(path)
        assert code == 1 and reason in err and err.count('\n') == 1, err
    for words, reason in ((('--property', 'x'), 'NAME=VALUE'), (('--min-ram', '-1'), '--min-ram'),
                          (('--allow-network', '10.0.0.0/8'), 'apply to URLs only'),
                          (('--checksum', 'x'), 'neither sha256')):
        code, _out, err = prepare(data, *words)
        assert code == 1 and reason in err, err
    assert len(cloud.admin().get('/image/v2/images').json()['images']) == before
