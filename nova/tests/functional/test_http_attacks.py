"""What a client can do to HTTP itself: requests within requests, bodies without an end, names that are not ours."""
import json
import socket
import time

import pytest
import requests

from nova.runtime import wsgi
from nova.tests.functional import cloud as cloud_fixture


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('http')) as made:
        yield made


@pytest.fixture(scope='module')
def demo(cloud):
    return cloud.client()


OPEN_S = 20                         # without an answer, after which a connection counts as open


def talk(url, *pieces, pause=0, timeout=10, open_s=OPEN_S):
    """Everything that the server says to these bytes before it closes; b'…' is added when it leaves it open."""
    host, _, port = url.removeprefix('http://').partition(':')
    answer = b''
    with socket.create_connection((host, int(port)), timeout=timeout) as sock:
        try:
            for piece in pieces:
                sock.sendall(piece)
                time.sleep(pause)
            sock.settimeout(open_s)
            while got := sock.recv(65536):
                answer += got
        except TimeoutError:
            answer += b'...'
        except ConnectionError:
            pass
    return answer


def statuses(answer):
    return [int(part[:3]) for part in answer.split(b'HTTP/1.1 ')[1:] if part[:3] != b'100']


HEAD = b'Host: nova\r\n'
INNER = b'GET /identity/v3 HTTP/1.1\r\nHost: inner\r\n\r\n'
# A request that carries another one where its body is: whoever reads it wrongly answers twice.
SMUGGLED = {
    'length and chunks': b'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + INNER,
    'two lengths': b'Content-Length: 0\r\nContent-Length: %d\r\n\r\n' % len(INNER) + INNER,
    'two equal lengths': b'Content-Length: 0\r\nContent-Length: 0\r\n\r\n' + INNER,
    'negative length': b'Content-Length: -1\r\n\r\n' + INNER,
    'length with a sign': b'Content-Length: +0\r\n\r\n' + INNER,
    'length with an underscore': b'Content-Length: 0_0\r\n\r\n' + INNER,
    'length of words': b'Content-Length: 0x10\r\n\r\n' + INNER,
    'lengths in a list': b'Content-Length: 0, 0\r\n\r\n' + INNER,
    'huge length': b'Content-Length: ' + b'9' * 400 + b'\r\n\r\n' + INNER,
    'space before the colon': b'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n' + INNER,
    'unknown encoding': b'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n' + INNER,
    'two encodings': b'Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n' + INNER,
    'encoding twice': b'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + INNER,
    'continued line': b'X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + INNER,
    'continued first': b' x: y\r\n\r\n' + INNER,
    'bare line feed': b'X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + INNER,
    'nul in a header': b'X: y\0z\r\n\r\n' + INNER,
    'carriage return in a header': b'X: y\rz: 1\r\n\r\n' + INNER,
    'two hosts': b'Host: other\r\n\r\n' + INNER,
}


@pytest.mark.parametrize('name', SMUGGLED)
@pytest.mark.parametrize('line', [b'POST /identity/v3/auth/tokens', b'GET /compute/v2.1/servers'])
def test_a_request_in_a_request_is_never_seen(cloud, name, line):
    answer = talk(cloud.url, line + b' HTTP/1.1\r\n' + HEAD + SMUGGLED[name])
    assert statuses(answer) in ([400], [501]), answer
    assert not answer.endswith(b'...')                       # closed


@pytest.mark.parametrize('chunks', [
    b'-1\r\n', b'0x4\r\n{}..\r\n', b'G\r\n', b'\r\n', b'1 1\r\nx\r\n', b'4\nabcd\r\n0\r\n\r\n',
    b'ffffffffffffffffff\r\n',
    b'4\r\nabcdEF\r\n0\r\n\r\n', b'2\r\n{}\r\n0\r\n' + b'a: b\r\n' * 200 + b'\r\n',
    b'2;' + b'x' * 10000 + b'\r\n{}\r\n0\r\n\r\n'])
def test_malformed_chunks_return_400(cloud, chunks):
    for path in (b'/identity/v3/auth/tokens', b'/compute/v2.1/servers'):
        answer = talk(cloud.url, b'POST ' + path + b' HTTP/1.1\r\n' + HEAD
                      + b'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n' + chunks + INNER)
        assert statuses(answer) in ([400], [401]) and not answer.endswith(b'...'), (path, answer)


def test_an_unread_body_is_not_the_next_request(cloud):
    """Refused before it was read, in chunks or not: what follows it is answered, what is in it is not."""
    for framing, body in ((b'Content-Length: %d\r\n\r\n' % len(INNER), INNER),
                          (b'Transfer-Encoding: chunked\r\n\r\n', b'%x\r\n%b\r\n0\r\n\r\n' % (len(INNER), INNER))):
        answer = talk(cloud.url, b'POST /compute/v2.1/servers HTTP/1.1\r\n' + HEAD + framing + body
                      + b'GET /compute/v2.1/servers HTTP/1.1\r\n' + HEAD + b'Connection: close\r\n\r\n')
        assert statuses(answer) == [401, 401], answer


def test_pipelined_requests_are_answered_in_order(cloud):
    answer = talk(cloud.url, INNER + b'GET /nothing HTTP/1.1\r\n' + HEAD + b'\r\n' + INNER[:-2]
                  + b'Connection: close\r\n\r\n')
    assert statuses(answer) == [200, 404, 200]


def test_a_body_that_is_refused_is_not_gathered(cloud, demo):
    """Gigabytes announced by nobody take no memory and no answer but the refusal."""
    for headers in (b'Content-Length: 99999999999\r\n', b'Transfer-Encoding: chunked\r\n'):
        start = b'fffffffff\r\n' if b'chunked' in headers else b''
        for path in (b'/image/v2/images/x/file', b'/compute/v2.1/servers', b'/network/v2.0/ports',
                     b'/identity/v3/auth/tokens'):
            begun = time.monotonic()
            talk(cloud.url, b'PUT ' + path + b' HTTP/1.1\r\n' + HEAD + headers + b'\r\n' + start + b'x' * 300000,
                 open_s=2.5)
            assert time.monotonic() - begun < 30
    assert demo.get('/servers').status_code == 200


def memory():
    with open('/proc/self/statm') as statm:
        return int(statm.read().split()[1]) * 4096


@pytest.mark.parametrize('head', [b'Content-Length: 1000000000\r\n\r\n',
                                  b'Transfer-Encoding: chunked\r\n\r\n3b9aca00\r\n'])
def test_a_large_refused_body_takes_no_memory(cloud, head):
    before, piece = memory(), b'x' * 1_000_000
    host, _, port = cloud.url.removeprefix('http://').partition(':')
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(b'PUT /image/v2/images/x/file HTTP/1.1\r\n' + HEAD + head)
        try:
            for _ in range(200):
                sock.sendall(piece)
        except OSError:
            pass                                             # refused and closed by now
    assert memory() - before < 40_000_000


@pytest.mark.parametrize('line, expected', [
    (b'GET //[ HTTP/1.1', {400}), (b'GET //evil.example/%2e%2e HTTP/1.1', {400, 404}),
    (b'GET http://evil.example/ HTTP/1.1', {400}),
    (b'GET /%00 HTTP/1.1', {400, 404}), (b'GET /compute/v2.1/../../identity HTTP/1.1', {400, 401, 404}),
    (b'GET /compute/v2.1/%2e%2e/servers HTTP/1.1', {400, 401, 404}),
    (b'GET /compute%2Fv2.1%2Fservers HTTP/1.1', {404}),
    (b'GET /compute/v2.1/servers%2Fdetail HTTP/1.1', {401, 404}), (b'GET /COMPUTE/v2.1/ HTTP/1.1', {404}),
    (b'GET /compute//v2.1//servers HTTP/1.1', {401, 404}), (b'GET /image//v2//images HTTP/1.1', {401, 404}),
    (b'GET /identity/v3/../../compute HTTP/1.1', {401, 404}), (b'GET compute HTTP/1.1', {400}),
    (b'GET / HTTP/9.9', {400, 505}),
    (b'GET / HTTP/1.-1', {400, 200}), (b'GET  HTTP/1.1', {400}), (b'GET /#a HTTP/1.1', {400}),
    (b'get / HTTP/1.1', {400}),
    (b'CONNECT evil.example:443 HTTP/1.1', {400, 405}), (b'TRACE / HTTP/1.1', {404, 405}),
    (b'OPTIONS * HTTP/1.1', {404, 405}),
    (b'TRACE /compute/v2.1/servers HTTP/1.1', {401, 405}), (b'OPTIONS /compute/v2.1/servers HTTP/1.1', {401, 405}),
    (b'OPTIONS http://evil.example/ HTTP/1.1', {400, 404, 405}), (b'BREW /identity/v3 HTTP/1.1', {405}),
    (b'\0\1\2', {400}), (b'', {400}),
    (b'GET /' + b'a' * 100000 + b' HTTP/1.1', {400, 414}), (b'GET /\xff\xfe HTTP/1.1', {400, 404}),
    (b'GET /compute/\xff HTTP/1.1', {400, 401}), (b'GET /image/v2/images/\xff HTTP/1.1', {400, 401, 404}),
    (b'GET / HTTP/1.1\r\nHost: "onload=alert(1)', {400}), (b'GET / HTTP/1.1\r\nHost: a b', {400}),
    (b'GET / HTTP/1.1\r\nHost: x/y', {400})])
def test_malformed_request_lines_are_refused(cloud, line, expected):
    head = b'' if b'Host' in line else HEAD
    answer = talk(cloud.url, line + b'\r\n' + head + b'Connection: close\r\n\r\n')
    assert not answer or set(statuses(answer)) <= expected, answer
    assert b'Traceback' not in answer and b'.py' not in answer and b'\r\nLocation:' not in answer


def test_redirects_stay_here(cloud):
    """The only redirect is from a version's root without its slash to the one with it."""
    for path in ('/compute/v2.1', '/compute/v2', '/v2.1', '/v2', '/compute//evil.example/v2.1',
                 '/compute/v2.1//evil.example'):
        for host in ('', 'other.example'):
            answer = requests.get(cloud.url + path, allow_redirects=False, headers={'Host': host} if host else {})
            target = answer.headers.get('Location', '')
            assert answer.status_code in (300, 302, 400, 401, 404), path
            assert answer.status_code != 302 or target in (
                f'http://{host}{path}/', f'{cloud.url}{path}/'), (path, target)


def test_links_follow_the_host_only_of_the_request_itself(cloud, demo):
    """X-Forwarded-* are not believed; the catalog says what the configuration says."""
    lies = {'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'https', 'Forwarded': 'host=evil.example',
            'X-Forwarded-Prefix': '/evil', 'X-Original-URL': '/identity', 'X-Rewrite-URL': '/identity',
            'X-Script-Name': '/evil', 'SCRIPT_NAME': '/evil'}
    for path in ('/compute/v2.1/', '/compute/', '/compute/v2.1/flavors', '/identity/v3', '/image/versions',
                 '/network/', '/network/v2.0', '/', '/identity/v3/auth/catalog'):
        answer = demo.get(path, headers=lies) if path != '/' else requests.get(cloud.url + path, headers=lies)
        assert answer.status_code in (200, 300) and 'evil' not in answer.text, (path, answer.text)
    catalog = demo.get('/identity/v3/auth/catalog', headers={'Host': 'evil.example'}).json()['catalog']
    assert 'evil' not in str(catalog) and cloud.url in str(catalog)


def test_a_challenge_names_no_host_of_the_client(cloud):
    """A client that follows it sends a password there; a cache may have kept it from somebody else's request."""
    for path in ('/compute/v2.1/servers', '/identity/v3/users', '/image/v2/images', '/network/v2.0/ports',
                 '/volume/v3/x/volumes'):
        refused = requests.get(cloud.url + path, headers={'Host': 'evil.example'})
        assert refused.status_code == 401
        assert refused.headers['WWW-Authenticate'] == f'Keystone uri="{cloud.url}/identity"', path


def test_a_challenge_names_the_public_address(tmp_path):
    with cloud_fixture.running(tmp_path, http__public_url='https://cloud.example/') as cloud:
        http = next(part for part in cloud.parts if isinstance(part, wsgi.Server))
        for path in ('/compute/v2.1/servers', '/identity/v3/users', '/image/v2/images', '/network/v2.0/ports'):
            refused = requests.get(f'http://127.0.0.1:{http.port}{path}', headers={'Host': 'evil.example'})
            assert refused.headers['WWW-Authenticate'] == 'Keystone uri="https://cloud.example/identity"', path


def test_identity_headers_with_underscores_are_ignored(cloud, demo):
    """X_Auth_Token is not X-Auth-Token: a proxy that checks the one must not let the other through."""
    answer = talk(cloud.url, b'GET /compute/v2.1/servers HTTP/1.1\r\n' + HEAD + b'X_Auth_Token: '
                  + demo.token.encode() + b'\r\nConnection: close\r\n\r\n')
    assert statuses(answer) == [401]
    twice = b'X-Auth-Token: x\r\nX-Auth-Token: ' + demo.token.encode() + b'\r\nConnection: close\r\n'
    assert statuses(talk(cloud.url, b'GET /compute/v2.1/servers HTTP/1.1\r\n' + HEAD + twice + b'\r\n')) == [400]


def test_http_1_0_requests_are_answered(cloud):
    answer = talk(cloud.url, b'GET /identity/v3 HTTP/1.0\r\n\r\n')
    assert statuses(answer) == [200] and not answer.endswith(b'...')
    answer = talk(cloud.url, b'POST /identity/v3/auth/tokens HTTP/1.0\r\nConnection: Keep-Alive\r\n'
                             b'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + INNER)
    assert statuses(answer) == [400]


def test_heads_have_no_body(cloud, demo):
    for path in ('/', '/identity/v3', '/compute/v2.1/', '/compute/v2.1/servers', '/image/v2/images',
                 '/network/v2.0/ports', '/nothing'):
        answer = talk(cloud.url,
                      b'HEAD ' + path.encode() + b' HTTP/1.1\r\n' + HEAD + b'X-Auth-Token: ' + demo.token.encode()
                      + b'\r\nConnection: close\r\n\r\n')
        assert answer.endswith(b'\r\n\r\n') and answer.count(b'\r\n\r\n') == 1, (path, answer)


def test_a_body_that_breaks_off_changes_nothing(cloud, demo):
    """Cut at any place, with a length and in chunks."""
    body = json.dumps({'keypair': {'name': 'cut'}}).encode()
    for head in (b'Content-Length: %d\r\n\r\n' % len(body),
                 b'Transfer-Encoding: chunked\r\n\r\n%x\r\n' % (len(body) + 1)):
        request = (b'POST /compute/v2.1/os-keypairs HTTP/1.1\r\n' + HEAD + b'X-Auth-Token: ' + demo.token.encode()
                   + b'\r\nContent-Type: application/json\r\n' + head + body)
        host, _, port = cloud.url.removeprefix('http://').partition(':')
        for cut in (1, 10, len(body)) if b'chunked' not in head else (1, 0):
            with socket.create_connection((host, int(port)), timeout=10) as sock:
                sock.sendall(request[:-cut] if cut else request)
                sock.shutdown(socket.SHUT_WR)
                answer = b''
                while got := sock.recv(65536):
                    answer += got
            assert statuses(answer) in ([400], []), answer
    assert demo.get('/os-keypairs/cut').status_code == 404


def test_slow_clients_do_not_stop_the_others(cloud, demo):
    """Connections that send nothing, or a part, hold what they hold; others are served beside them."""
    host, _, port = cloud.url.removeprefix('http://').partition(':')
    idle = [socket.create_connection((host, int(port))) for _ in range(100)]
    half = [socket.create_connection((host, int(port))) for _ in range(wsgi.THREADS // 2)]
    for sock in half:
        sock.sendall(b'POST /identity/v3/auth/tokens HTTP/1.1\r\nContent-Length: 100\r\n')
    begun = time.monotonic()
    for _ in range(20):
        assert demo.get('/servers').status_code == 200
    assert time.monotonic() - begun < 10
    for sock in idle + half:
        sock.close()
