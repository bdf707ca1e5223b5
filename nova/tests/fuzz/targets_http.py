"""What comes from a socket: requests, their headers, TLS, addresses of clients."""
import datetime
import io
import ipaddress
import random
import re
import socket
import ssl
import types

from nova import exception
from nova.api import proxy_headers
from nova.ec2 import errors as ec2_errors
from nova.ec2 import protocol as ec2_protocol
from nova.ec2 import signing
from nova.identity import signatures
from nova.runtime.http import addresses
from nova.runtime.http import arrival
from nova.runtime.http import framing
from nova.runtime.http import limits as http_limits
from nova.runtime.http import tls_channel
from nova.tests.fuzz import mutations
from nova.tests.fuzz.engine import Target

SMALL = http_limits.Limits(header=8192, body=8192)
MOMENT = datetime.datetime(2026, 1, 1)
MOST = 32                                   # requests of one connection that are looked at
HEAD = b' HTTP/1.1\r\nHost: cloud\r\n'
REQUESTS = (
    b'GET /a' + HEAD + b'\r\n',
    b'GET /a' + HEAD + b'\r\nPOST /b' + HEAD + b'Content-Length: 3\r\n\r\nxyzGET /c' + HEAD + b'\r\n',
    b'POST /a' + HEAD + b'Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /b' + HEAD + b'\r\n',
    b'POST /a' + HEAD + b'Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-Sum: 1\r\n'
    b'\r\nGET /b' + HEAD + b'\r\n',
    b'PUT /a' + HEAD + b'Expect: 100-continue\r\nContent-Length: 10\r\n\r\n0123456789',
    b'\r\nGET http://cloud/a?b=c' + HEAD + b'X-Auth-Token: t\r\nConnection: close\r\n\r\n',
    b'POST /a HTTP/1.0\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nxGET /b HTTP/1.0\r\n\r\n',
    b'OPTIONS *' + HEAD + b'\r\n', b'CONNECT cloud:1' + HEAD + b'\r\n',
)
_TRAILERS = (b'', b'X: y\r\n', b'x' * 4096 + b'\r\n', b'X:' + b'y' * 4094 + b'\r\n', b'X: y\r\n' * 101, b' x\r\n',
             b'x\n', b'X: \0\r\n')


def requests_changed(rng: random.Random, data: bytes) -> bytes:
    """Lengths, sizes of chunks, ends of lines, and headers that come again."""
    kind, lines = rng.randrange(7), data.split(b'\r\n')
    place = rng.randrange(len(lines))
    if kind == 0:
        lines[place:place] = [rng.choice((b'Content-Length: 5', b'Transfer-Encoding: chunked', b'content-length:0',
                                          b'Transfer-Encoding:\tchunked, identity', b'Content-Length : 4', b' x: y',
                                          b'Content_Length: 9', b'X' * 4095 + b':', b'Transfer-Encoding: \x0bchunked'))]
    elif kind == 1 and b'\r\n0\r\n' in data:
        return data.replace(b'\r\n0\r\n', b'\r\n0\r\n' + rng.choice(_TRAILERS), 1)
    elif kind == 2:
        lines[place] += b' ' * rng.choice((1, 4090, 4096 - min(4096, len(lines[place]))))
    elif kind == 3:
        sizes = [number for number, line in enumerate(lines) if re.fullmatch(b'[0-9a-f]{1,3}(;.*)?', line)]
        if sizes:
            size = b'%x' % rng.choice(mutations.INTERESTING)
            lines[rng.choice(sizes)] = size + rng.choice((b'', b';', b' ', b'\t;x'))
    elif kind == 4:
        end = rng.choice((b'\n', b'\r', b'\n\r\n', b'\r\r\n'))
        return b'\r\n'.join(lines[:place]) + end + b'\r\n'.join(lines[place:])
    elif kind == 5:
        lines[place:place] = lines[:place]
    else:
        return mutations.texts(rng, data)
    return b'\r\n'.join(lines)


class _Facts(framing.Facts):
    """The server around the requests of one connection; its application reads the body in pieces of odd sizes."""

    def __init__(self, seen):
        super().__init__(self._application, ('127.0.0.1', 80), 10, None)
        self._seen = seen

    def _application(self, environ, start_response):
        pieces = []
        while piece := environ['wsgi.input'].read(7 if len(pieces) % 2 else 4096):
            pieces.append(piece)
        self._seen.append((environ['REQUEST_METHOD'], environ['PATH_INFO'], environ['QUERY_STRING'], b''.join(pieces)))
        start_response('200 OK', [('Content-Length', '0')])
        return []


class _Answers(io.BytesIO):
    holds = False


def _strictly(data: bytes) -> tuple[list, int, bool]:
    """(requests seen, bytes taken, whether another request may follow) of what has been gathered for one request."""
    seen: list = []
    facts = _Facts(seen)
    conn = types.SimpleNamespace(rfile=io.BytesIO(data), wfile=_Answers(), streams=False, upgrade=None, most=None,
                                 drained=False, remote_addr='127.0.0.1', remote_port=1, address='127.0.0.1',
                                 server=facts, local_address='127.0.0.1', ssl_env=None,
                                 join=lambda project_id: None, rest=lambda: None)
    request = framing.Request(facts, conn)
    try:
        request.parse_request()
        if request.ready:
            request.respond()
    except exception.BadRequest:                       # the application read a body that has no form
        return seen, conn.rfile.tell(), False
    return seen, conn.rfile.tell(), request.ready and not request.close_connection


def _connection(pieces: list[bytes]) -> list:
    """What is answered on one connection that sends these pieces: requests, and how it ends."""
    story: list = []
    coming, waiting = arrival.Arrival(SMALL), iter(pieces)
    while len(story) < MOST:
        while (word := coming.look()) in (arrival.HEAD, arrival.BODY):
            piece = next(waiting, None)
            if piece is None:
                return [*story, 'waits']
            coming.data += piece
        if word != arrival.WHOLE:
            return [*story, word]
        seen, taken, more = _strictly(bytes(coming.data))
        story += seen
        if not more:
            return [*story, 'closed']
        assert seen and taken, 'a connection goes on after a request that nobody has seen'
        coming = arrival.Arrival(SMALL, coming.data[taken:])
    return story


def make_requests(_directory):
    def run(data: bytes) -> None:
        rng = random.Random(len(data) * 31 + sum(data[:64]))
        whole = _connection([data])
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((1, 3, 17))))
        split = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)])]
        assert _connection(split) == whole, 'the same bytes in other pieces are other requests'
        if len(data) < 600:
            assert _connection([bytes([byte]) for byte in data]) == whole, 'byte by byte they are other requests'
        _as_gathered(data)
    return run


def _as_gathered(data: bytes) -> None:
    """The first request, where it is taken to be good, ends where the reading by which it was gathered says."""
    coming = arrival.Arrival(SMALL)
    for end in range(1, min(len(data), 3000) + 1):
        coming.data.append(data[end - 1])
        if (word := coming.look()) not in (arrival.HEAD, arrival.BODY):
            break
    else:
        return
    if word == arrival.WHOLE:
        _seen, taken, more = _strictly(bytes(coming.data))
        assert not more or taken == end, f'gathered as {end} bytes, and read as {taken}: the rest is another request'


# ---- where a request comes from -------------------------------------------------

TRUSTED = ('10.0.0.0/8', 'fd00::/8')
_CONF = types.SimpleNamespace(
    oslo_middleware=types.SimpleNamespace(enable_proxy_headers_parsing=True),
    http=types.SimpleNamespace(trusted_proxies=TRUSTED))


def _believed(peer: str, lines: list[str]) -> dict:
    names = ('HTTP_FORWARDED', 'HTTP_X_FORWARDED_FOR', 'HTTP_X_FORWARDED_PROTO', 'HTTP_X_FORWARDED_HOST',
             'HTTP_X_FORWARDED_PREFIX')
    environ = {'REMOTE_ADDR': peer, 'wsgi.url_scheme': 'http', 'HTTP_HOST': 'cloud', 'SCRIPT_NAME': '',
               **{name: line for name, line in zip(names, lines) if line}}
    proxy_headers.ProxyHeaders(proxy_headers.trusted(_CONF)).read(environ)
    return environ


def make_forwarded(_directory):
    networks = [ipaddress.ip_network(text) for text in TRUSTED]

    def run(data: bytes) -> None:
        lines = data.decode('latin-1').split('\n')[:5]
        untrusted = _believed('192.0.2.9', lines)
        assert untrusted['REMOTE_ADDR'] == '192.0.2.9' and untrusted['HTTP_HOST'] == 'cloud'
        found = _believed('10.0.0.1', lines)
        address = ipaddress.ip_address(found['REMOTE_ADDR'])
        assert found['wsgi.url_scheme'] in ('http', 'https') and not re.search(r'[\s/\\@]', found['HTTP_HOST'])
        assert re.fullmatch(r'(/[A-Za-z0-9._~-]+)*', found['SCRIPT_NAME'])
        lied = [f'for=203.0.113.7;proto=https;host=lie, {lines[0]}' if lines[0] else '', *lines[1:]]
        if len(lines) > 1 and lines[1]:
            lied[1] = '203.0.113.7, ' + lines[1]
        if not any(address in network for network in networks):
            # what stands left of a client is the client's own, as long as the header is of its form
            again = _believed('10.0.0.1', lied)
            assert again['REMOTE_ADDR'] == found['REMOTE_ADDR'], 'a client names its own address'
    return run


def make_addresses(_directory):
    def run(data: bytes) -> None:
        text = data.decode('utf-8', 'replace')
        plain = addresses.plain(text)
        assert addresses.plain(plain) == plain
        try:
            ipaddress.ip_address(plain)
        except ValueError:
            assert plain == text
            return
        assert ipaddress.ip_network(addresses.client(plain)).version in (4, 6)
        assert plain not in addresses.Trusted(('0.0.0.0/0',)) or ':' not in plain
    return run


def make_ec2(_directory):
    """The first byte chooses GET or POST; then the parameters and, behind a line, the header of the signature."""
    ec2_protocol.parse('RunInstances', [('MinCount', '1'), ('MaxCount', '1')])       # the first one loads the model

    def run(data: bytes) -> None:
        text, _, header = data[1:].partition(b'\n')
        post = bool(data[:1] and data[0] % 2)
        environ = {'REQUEST_METHOD': 'POST' if post else 'GET', 'HTTP_HOST': 'cloud', 'PATH_INFO': '/services/Cloud',
                   'QUERY_STRING': '' if post else text.decode('latin-1')}
        if header:
            environ['HTTP_AUTHORIZATION'] = header.decode('latin-1')
        pairs = signing.pairs_of(environ, text if post else b'')
        signed = signing.signed_of(environ, text if post else b'', pairs)
        assert not signatures.matches('a secret that no input knows', signed), 'a forged signature matches'
        signatures.is_recent(signed, MOMENT)
        ec2_protocol.parse('RunInstances', pairs)
    return run


def make_tls(_directory):
    """What a client says to the listener before and instead of its handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def run(data: bytes) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.sendall(data[:32768])
            theirs.shutdown(socket.SHUT_WR)
            channel = tls_channel.TlsConnection(ours, context)
            for _piece in range(4):
                assert not channel.receive(4096), 'plain bytes without a handshake'
    return run


TARGETS = (
    Target('ec2', make_ec2, (
        b'\1Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&BlockDeviceMapping.1.Ebs.VolumeSize=1'
        b'&AWSAccessKeyId=a&SignatureVersion=2&SignatureMethod=HmacSHA256&Signature=AAAA&Timestamp=2026-01-01T00%3A00%3A00Z',
        b'\0Action=RunInstances&MinCount=1&MaxCount=1&X-Amz-Expires=%C2%B2'
        b'&X-Amz-Credential=a/20260101/r/ec2/aws4_request&X-Amz-Date=20260101T000000Z'
        b'&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-SignedHeaders=host&X-Amz-Signature=' + b'0' * 64,
        b'\1Action=RunInstances&MinCount=1&MaxCount=1\nAWS4-HMAC-SHA256 Credential=a/20260101/r/ec2/aws4_request, '
        b'SignedHeaders=host, Signature=' + b'0' * 64), refuses=(ec2_errors.Ec2Error,)),
    Target('tls', make_tls, (
        b'\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03' + b'\x07' * 32 + b'\x00\x00\x02\x13\x01\x01\x00\x00\x00',
        b'\x16\x03\x01', b'GET / HTTP/1.1\r\n\r\n', b'\x15\x03\x03\x00\x02\x02\x28', b'\x80\x2e\x01\x00\x02'),
        refuses=(OSError,)),
    Target('requests', make_requests, REQUESTS, refuses=(), mutate=requests_changed),
    Target('forwarded', make_forwarded, (
        b'for=192.0.2.60;proto=http;by=203.0.113.43, for=10.0.0.2;host=api.example',
        b'for="[2001:db8::17]:4711";proto=https;host="api.example:8774", for="[fd00::1]"',
        b'\n192.0.2.60, 10.0.0.2\nhttps\napi.example\n/compute', b'\n192.0.2.60:55, [fd00::2]:8\nhttps, http\na, b',
        b'for=192.0.2.1\n192.0.2.1\nhttps', b'for=unknown, for=_hidden, for=10.9.9.9',
        b'\n::ffff:192.0.2.7, 10.0.0.3'), refuses=()),
    Target('addresses', make_addresses, (
        b'192.0.2.7', b'::ffff:192.0.2.7', b'fe80::1%eth0', b'2001:db8::1', b'::', b'0.0.0.0', b'unknown',
        b'::ffff:c000:207%1'), refuses=()),
)
