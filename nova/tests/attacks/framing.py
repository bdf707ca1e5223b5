"""HTTP itself: requests within requests, bodies without form, hosts and paths that lead elsewhere (classes D, G, J)."""
import functools
import re
from collections.abc import Iterator

from nova.tests.attacks import tokens
from nova.tests.attacks.base import Attack

INNER = b'GET /attack-inner HTTP/1.1\r\nHost: inner\r\n\r\n'
# A request that carries another one where its body is: who reads it wrongly answers twice.
SMUGGLED = {
    'length and chunks': b'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'chunks and length': b'Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n',
    'two lengths': b'Content-Length: 0\r\nContent-Length: %d\r\n\r\n' % len(INNER),
    'two equal lengths': b'Content-Length: 0\r\nContent-Length: 0\r\n\r\n',
    'negative length': b'Content-Length: -1\r\n\r\n', 'length with a sign': b'Content-Length: +0\r\n\r\n',
    'length with an underscore': b'Content-Length: 0_0\r\n\r\n', 'hexadecimal length': b'Content-Length: 0x10\r\n\r\n',
    'list of lengths': b'Content-Length: 0, 0\r\n\r\n', 'huge length': b'Content-Length: ' + b'9' * 400 + b'\r\n\r\n',
    'length with a point': b'Content-Length: 0.0\r\n\r\n', 'no length': b'Content-Length:\r\n\r\n',
    'unicode length': 'Content-Length: ٠\r\n\r\n'.encode(),
    'space before the colon': b'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
    'tab before the colon': b'Content-Length\t: 0\r\n\r\n',
    'unknown encoding': b'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    'two encodings': b'Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n',
    'encoding twice': b'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'encoding in quotes': b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    'vertical tab': b'Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n',
    'continued line': b'X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 'continued first': b' x: y\r\n\r\n',
    'bare line feed': b'X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'line feeds only': b'X: y\nContent-Length: 0\n\n',
    'nul in a header': b'X: y\0z\r\n\r\n', 'carriage return in a header': b'X: y\rz: 1\r\n\r\n',
    'two hosts': b'Host: other\r\n\r\n', 'no name': b': x\r\n\r\n', 'name with a space': b'X Y: z\r\n\r\n',
    'name in brackets': b'(X): z\r\n\r\n', 'two tokens': b'X-Auth-Token: a\r\nX-Auth-Token: b\r\n\r\n',
}
CHUNKS = {
    'negative': b'-1\r\n', 'with a prefix': b'0x4\r\n{}..\r\n', 'no digit': b'G\r\n', 'empty': b'\r\n',
    'with a space': b'1 1\r\nx\r\n', 'with a sign': b'+2\r\n{}\r\n0\r\n\r\n', 'line feeds': b'4\nabcd\r\n0\r\n\r\n',
    'huge': b'ffffffffffffffff0\r\n', 'without an end': b'4\r\nabcdEF\r\n0\r\n\r\n',
    'many trailers': b'2\r\n{}\r\n0\r\n' + b'a: b\r\n' * 5000 + b'\r\n',
    'long extension': b'2;' + b'x' * 100_000 + b'\r\n{}\r\n0\r\n\r\n',
    'underscore': b'1_0\r\n0123456789abcdef\r\n0\r\n\r\n',
    'nul': b'2\0\r\n{}\r\n0\r\n\r\n',
}
LINES = (
    b'GET %(root)s/%%00 HTTP/1.1', b'GET %(root)s/..%%2f..%%2f..%%2fetc%%2fpasswd HTTP/1.1',
    b'GET %(root)s/../../../../etc/passwd HTTP/1.1', b'GET %(root)s/%%2e%%2e/%%2e%%2e/etc/passwd HTTP/1.1',
    b'GET %(root)s//evil.example/%%2e%%2e HTTP/1.1', b'GET //evil.example%(root)s HTTP/1.1',
    b'GET http://evil.example%(root)s/ HTTP/1.1', b'GET %(root)s/%%0d%%0aLocation:%%20http://evil.example HTTP/1.1',
    b'GET %(root)s/\xff\xfe HTTP/1.1', b'GET %(root)s/%%c0%%ae%%c0%%ae/ HTTP/1.1', b'GET %(root)s HTTP/9.9',
    b'GET %(root)s HTTP/1.-1', b'GET %(root)s', b'GET  HTTP/1.1', b'get %(root)s HTTP/1.1', b'GET %(root)s/#a HTTP/1.1',
    b'CONNECT evil.example:443 HTTP/1.1', b'TRACE %(root)s HTTP/1.1', b'DEBUG %(root)s HTTP/1.1', b'\0\1\2', b'',
    b'GET %(root)s/' + b'a' * 100_000 + b' HTTP/1.1', b'GET %(root)s?' + b'a=b&' * 20_000 + b' HTTP/1.1',
    b'PRI * HTTP/2.0', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', b'GET %(root)s HTTP/1.1\tx',
    b'GET\t%(root)s\tHTTP/1.1', b'GET %(root)s%%zz HTTP/1.1',
)
HOSTS = (b'evil.example', b'evil.example:80', b'"onload=alert(1)', b'a b', b'x/y', b'x\\y', b'evil.example#',
         b'x@evil.example', b'<script>', b'a' * 1000, b'[::1', b'%00', b"'", b'x?y')
FORWARDED = {'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'javascript', 'Forwarded': 'host=evil.example',
             'X-Forwarded-Prefix': '/evil.example', 'X-Original-URL': '/evil.example', 'X-Rewrite-URL': '/evil.example',
             'X-Script-Name': '/evil.example', 'X-Forwarded-Server': 'evil.example', 'X-Host': 'evil.example',
             'X-HTTP-Method-Override': 'DELETE', 'X-Forwarded-Port': '1'}
_INSIDE = re.compile(rb'Traceback|\.py"|root:x:0|site-packages')


def attacks(stage) -> Iterator[Attack]:
    for face in stage.attacker.urls:
        for name, rest in SMUGGLED.items():
            yield Attack('smuggling', f'{face} {name}', functools.partial(_smuggled, face, rest))
        for name, chunk in CHUNKS.items():
            yield Attack('chunks', f'{face} {name}', functools.partial(_chunked, face, chunk))
        for number, line in enumerate(LINES):
            yield Attack('request line', f'{face} {number} {line[:40]!r}', functools.partial(_line, face, line))
        for host in HOSTS:
            yield Attack('host', f'{face} {host[:30]!r}', functools.partial(_host, face, host))
        for name, value in FORWARDED.items():
            yield Attack('forwarded', f'{face} {name}', functools.partial(_forwarded, face, name, value))


def _statuses(answer: bytes) -> list[int]:
    return [int(part[:3]) for part in answer.split(b'HTTP/1.1 ')[1:] if part[:3].isdigit() and part[:3] != b'100']


def _judged(answer: bytes, allowed) -> str | None:
    statuses = _statuses(answer)
    if len(statuses) > 1:
        return f'it saw {len(statuses)} requests in one: {statuses}'
    if any(status not in allowed for status in statuses):
        return f'it answered {statuses[0]}'
    return 'its answer tells of the inside' if _INSIDE.search(answer) else None


def _smuggled(face, rest, stage):
    answer = stage.anonymous.talk(face, b'POST ' + stage.anonymous.root(face).encode() + b'/x HTTP/1.1\r\nHost: a\r\n'
                                  + rest + INNER)
    return _judged(answer, (400, 411, 413, 431, 501))


def _chunked(face, chunk, stage):
    answer = stage.anonymous.talk(face, b'POST ' + stage.anonymous.root(face).encode()
                                  + b'/auth/tokens HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
                                    b'Transfer-Encoding: chunked\r\n\r\n' + chunk + INNER)
    return _judged(answer, (400, 401, 404, 405, 413, 431))


def _line(face, line, stage):
    root = stage.anonymous.root(face).encode()
    answer = stage.anonymous.talk(face, line.replace(b'%(root)s', root).replace(b'%%', b'%')
                                  + b'\r\nHost: a\r\nConnection: close\r\n\r\n')
    if b'\r\nLocation: http://evil' in answer or b'\r\nLocation: //' in answer:
        return 'it redirects to another host'
    return _judged(answer, (200, 300, 302, 400, 401, 404, 405, 413, 414, 431, 501, 505))


def _host(face, host, stage):
    path = (stage.anonymous.root(face) + tokens.NEEDS[face]).encode()
    answer = stage.anonymous.talk(face, b'GET ' + path + b' HTTP/1.1\r\nHost: ' + host
                                  + b'\r\nConnection: close\r\n\r\n')
    head = answer.split(b'\r\n\r\n')[0]
    if host in head:
        return f'a header of its answer repeats the Host: {head[:200]!r}'
    return _judged(answer, (400, 401, 404, 413, 431))


def _forwarded(face, name, value, stage):
    answer = stage.attacker.send('GET', face, '', headers={name: value})
    if answer.status >= 500:
        return f'it answered {answer.status}'
    shown = answer.text + str(answer.headers)
    return 'its answer believes the header' if 'evil.example' in shown or 'javascript:' in shown else None
