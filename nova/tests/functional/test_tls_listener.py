"""A cloud that speaks TLS with certificates of its own: clients, large bodies, hostile handshakes, renewal."""
import contextlib
import datetime
import os
import socket
import ssl
import stat

import pytest
import requests
import yaml

from nova.runtime import certificates
from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('tls'), http__tls='on') as made:
        yield made


@pytest.fixture(scope='module')
def demo(cloud):
    return cloud.client()


def address(cloud):
    host, _, port = cloud.url.removeprefix('https://').partition(':')
    return host, int(port)


def connected(cloud):
    """A connection that speaks TLS."""
    plain = socket.create_connection(address(cloud), timeout=10)
    return ssl.create_default_context(cafile=cloud.authority).wrap_socket(plain, server_hostname=address(cloud)[0])


def test_clients_are_told_where_and_whom_to_trust(cloud):
    assert cloud.url.startswith('https://')
    for entry in yaml.safe_load(cloud.clouds_yaml.read_text())['clouds'].values():
        assert entry['auth']['auth_url'] == cloud.url + '/identity/v3' and entry['cacert'] == str(cloud.authority)
    assert stat.S_IMODE(os.stat(cloud.authority).st_mode) == 0o644
    catalog = cloud.client().get('/identity/v3/auth/catalog').json()['catalog']
    assert all(endpoint['url'].startswith(cloud.url) for row in catalog for endpoint in row['endpoints'])


def test_links_have_the_scheme(cloud, demo):
    answer = demo.get('/flavors').json()
    assert all(link['href'].startswith(cloud.url) for row in answer['flavors'] for link in row['links'])


def test_a_server_boots_and_large_bodies_go_both_ways(cloud, demo):
    data = os.urandom(3_000_001)
    image = demo.upload_image(data)
    assert demo.get(f'/image/v2/images/{image}/file').content == data
    made = demo.boot(image, networks='auto', version='2.96')
    demo.wait_for(made['id'])


def test_client_without_the_ca_certificate_rejects_the_connection(cloud):
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(cloud.url, timeout=10)


def test_plain_http_is_told_where_it_is(cloud):
    answer = requests.get(cloud.url.replace('https:', 'http:'), timeout=10)
    assert answer.status_code == 400 and 'https://' in answer.text


def test_one_connection_serves_many_requests(cloud, demo):
    with connected(cloud) as sock:
        for _ in range(3):
            sock.sendall(b'GET /identity/v3 HTTP/1.1\r\nHost: nova\r\n\r\n')
            assert sock.recv(65536).startswith(b'HTTP/1.1 200')


def test_requests_of_one_record_are_all_answered(cloud):
    """Bytes that wait inside of TLS are not told of by the system."""
    request = b'GET /identity/v3 HTTP/1.1\r\nHost: nova\r\n'
    with connected(cloud) as sock:
        sock.sendall(request + b'\r\n' + request + b'\r\n' + request + b'Connection: close\r\n\r\n')
        answer = b''
        while got := sock.recv(65536):
            answer += got
    assert answer.count(b'HTTP/1.1 200') == 3


def test_a_request_in_many_records(cloud):
    with connected(cloud) as sock:
        for byte in b'GET /identity/v3 HTTP/1.1\r\nHost: nova\r\n\r\n':
            sock.sendall(bytes((byte,)))
        assert sock.recv(65536).startswith(b'HTTP/1.1 200')


def test_old_protocols_are_refused(cloud):
    context = ssl.create_default_context(cafile=cloud.authority)
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    context.set_ciphers('ALL:@SECLEVEL=0')
    with socket.create_connection(address(cloud), timeout=10) as plain, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(plain, server_hostname=address(cloud)[0])


@pytest.mark.parametrize('first', [b'', b'\x16', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', b'\0' * 100,
                                   b'\x16\x03\x01\xff\xff' + b'\xff' * 60000],
                         ids=['silent', 'a byte', 'half', 'zeros', 'large'])
def test_a_handshake_that_does_not_end_stops_nobody(cloud, demo, first):
    hostile = []
    try:
        for _ in range(100):
            hostile.append(socket.create_connection(address(cloud), timeout=10))
            with contextlib.suppress(OSError):               # it may be closed by now
                hostile[-1].sendall(first)
        for _ in range(10):
            assert demo.get('/servers', timeout=30).status_code == 200
    finally:
        for sock in hostile:
            sock.close()


def test_a_reader_that_stops_loses_nothing_of_others(cloud, demo):
    """A large answer waits for its reader, and is whole when the reader goes on."""
    data = os.urandom(5_000_000)
    image = demo.upload_image(data)
    with connected(cloud) as sock:
        sock.sendall(f'GET /image/v2/images/{image}/file HTTP/1.1\r\nHost: nova\r\nX-Auth-Token: {demo.token}\r\n'
                     'Connection: close\r\n\r\n'.encode())
        for _ in range(5):
            assert demo.get('/servers', timeout=30).status_code == 200
        answer = b''
        while got := sock.recv(65536):
            answer += got
    assert answer.endswith(data[-1000:]) and len(answer) > len(data)


def test_a_renewed_certificate_needs_no_restart(cloud):
    def shown():
        with connected(cloud) as sock:
            return sock.getpeercert()['serialNumber']
    before = shown()
    authority = certificates.Authority(cloud.authority.parent)
    authority.renew('api', authority.status()[1].hosts)
    cloud.reload()
    waiting.wait_for(lambda: shown() != before, 10, 'the renewed certificate')
    ends = datetime.datetime.strptime(connected(cloud).getpeercert()['notAfter'], '%b %d %H:%M:%S %Y %Z')
    assert ends > datetime.datetime.now() + datetime.timedelta(days=certificates.DAYS - 2)


def test_it_starts_again_with_the_same_authority(tmp_path):
    with cloud_fixture.running(tmp_path, http__tls='on') as first:
        before = first.authority.read_bytes()
    with cloud_fixture.running(tmp_path, http__tls='on') as second:
        assert second.authority.read_bytes() == before
        assert second.client().get('/servers').status_code == 200
    with cloud_fixture.running(tmp_path, http__tls='off') as third:
        assert third.url.startswith('http://') and 'cacert' not in third.clouds_yaml.read_text()
