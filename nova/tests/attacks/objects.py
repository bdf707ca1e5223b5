"""The object store: signatures, keys that are paths, buckets of others, documents without measure (classes D, E, J)."""
import datetime
import functools
import hashlib
import hmac
import re
import secrets
import time
import urllib.parse
from collections.abc import Iterator

from nova.tests.attacks import base
from nova.tests.attacks import faces
from nova.tests.attacks.base import Attack

PATH = '/objectstore'
EMPTY, UNSIGNED = hashlib.sha256().hexdigest(), 'UNSIGNED-PAYLOAD'
SECRET = b'what the victim keeps'
NOWHERE = 'no-such-bucket-dead'
KEYS = ('../../../../etc/passwd', '%2e%2e/%2e%2e/%2e%2e/etc/passwd', '..%2f..%2fetc%2fpasswd', '..%5c..%5cetc',
        './.', '.', '..', '/etc/passwd', '//etc/passwd', 'a/../../{bucket}/secret', '../{bucket}/secret',
        '%2e%2e%2f{bucket}%2fsecret', '..;/{bucket}/secret', 'a%0d%0aX-Injected:%20b', 'a%00b', '%ff%fe',
        '%c0%ae%c0%ae/x', 'index.sqlite', '../index.sqlite', '%2500', 'a' * 1025, '%F0%9D%84%9E' * 300,
        '%EF%BF%BF', '%ED%A0%80', '%E2%80%AE', 'a?uploads', '$(id)', '-rf', "' OR 1=1 --", '<script>', '~root')
# (method, what follows the name of a bucket, body): all that names a bucket
NAMED = (
    ('GET', '', b''), ('HEAD', '', b''), ('DELETE', '', b''), ('GET', '?location=', b''), ('GET', '?versioning=', b''),
    ('GET', '?acl=', b''), ('PUT', '?acl=', b''), ('GET', '?uploads=', b''), ('GET', '?list-type=2', b''),
    ('POST', '?delete=', b'<Delete><Object><Key>secret</Key></Object></Delete>'), ('GET', '/secret', b''),
    ('HEAD', '/secret', b''), ('PUT', '/secret', b'x'), ('DELETE', '/secret', b''), ('GET', '/secret?acl=', b''),
    ('GET', '/secret?tagging=', b''), ('POST', '/secret?uploads=', b''),
    ('PUT', '/secret?partNumber=1&uploadId=%s', b'x'),
    ('GET', '/secret?uploadId=%s', b''), ('DELETE', '/secret?uploadId=%s', b''),
    ('POST', '/secret?uploadId=%s', b'<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>0</ETag></Part>'
                                    b'</CompleteMultipartUpload>'))
BOMB = (b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">' + b''.join(
    b'<!ENTITY %c "%s">' % (97 + level, b'&%c;' % (96 + level) * 10) for level in range(1, 9)) + b']><%s>&i;</%s>')
FILE = b'<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><%s><Object><Key>&a;</Key></Object></%s>'
# name: body of a document; %s is its root
DOCUMENTS = {
    'entities of entities': BOMB, 'a file as an entity': FILE,
    'a type from elsewhere': b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a"><%s/>',
    'UTF-16': b'\xff\xfe' + '<!DOCTYPE a [<!ENTITY b "c">]><%s>&b;</%s>'.encode('utf-16-le'),
    'an unknown encoding': b'<?xml version="1.0" encoding="rot13"?><%s/>', 'no end': b'<%s><Object>' * 9,
    'a hundred thousand levels': b'<a>' * 100_000,
    'closed levels': b'<%s>' + b'<a>' * 90_000 + b'</a>' * 90_000 + b'</%s>',
    'ten thousand attributes': b'<%s ' + b' '.join(b'a%d="b"' % number for number in range(10_000)) + b'/>',
    'one attribute twice': b'<%s a="b" a="c"/>', 'a long name': b'<%s><' + b'a' * 1_000_000 + b'/></%s>',
    'more than is read': b'<%s>' + b' ' * (3 << 20) + b'</%s>', 'nothing': b'', 'a nul': b'<%s>\0</%s>',
    'another root': b'<Other/>', 'no XML': b'{"a": 1}',
    'a thousand and one keys': b'<%s>' + b'<Object><Key>k</Key></Object>' * 1001 + b'</%s>',
    'keys of a version': b'<%s><Object><Key>k</Key><VersionId>1</VersionId></Object></%s>',
    'a key without text': b'<%s><Object/></%s>',
    'eleven thousand parts': b'<%s>' + b'<Part><PartNumber>1</PartNumber><ETag>0</ETag></Part>' * 11_000 + b'</%s>',
    'a part of no number': b'<%s><Part><PartNumber>one</PartNumber><ETag>0</ETag></Part></%s>',
    'a part below zero': b'<%s><Part><PartNumber>-1</PartNumber><ETag>0</ETag></Part></%s>',
    'a large number of a part': b'<%s><Part><PartNumber>' + b'9' * 5000 + b'</PartNumber><ETag>0</ETag></Part></%s>',
    'a part that is not there': b'<%s><Part><PartNumber>1</PartNumber><ETag>' + b'0' * 5000 + b'</ETag></Part></%s>',
    'an unknown checksum': b'<%s><Part><PartNumber>1</PartNumber><ETag>0</ETag><ChecksumX>0</ChecksumX></Part></%s>'}
PLACES = {'Delete': ('POST', '?delete='), 'CompleteMultipartUpload': ('POST', '/k?uploadId=%s'),
          'CreateBucketConfiguration': ('PUT', '-new')}
# name: (method, headers) of an object, each of which asks for more than there may be
HEADERS = {
    'much metadata': ('PUT', {'x-amz-meta-a': 'b' * 3000}),
    'many metadata': ('PUT', {f'x-amz-meta-a{number}': 'b' * 50 for number in range(60)}),
    'metadata with a line feed': ('PUT', {'x-amz-meta-a': 'b%0a\tc\x01'}),
    'a copy of a file': ('PUT', {'x-amz-copy-source': '/../../etc/passwd'}),
    'a copy of another bucket': ('PUT', {'x-amz-copy-source': '/{bucket}/secret'}),
    'a copy of another, encoded': ('PUT', {'x-amz-copy-source': '%2F{bucket}%2Fsecret'}),
    'a copy over a way up': ('PUT', {'x-amz-copy-source': '/{own}/x/../../{bucket}/secret'}),
    'a copy of a version': ('PUT', {'x-amz-copy-source': '/{own}/k?versionId=1'}),
    'a public object': ('PUT', {'x-amz-acl': 'public-read'}), 'a grant': ('PUT', {'x-amz-grant-read': 'id="*"'}),
    'a redirection': ('PUT', {'x-amz-website-redirect-location': 'http://evil.example'}),
    'a long digest': ('PUT', {'content-md5': 'A' * 5000}), 'a digest of letters': ('PUT', {'content-md5': 'ä!'}),
    'a checksum of nothing': ('PUT', {'x-amz-checksum-crc32': ''}),
    'a checksum that nobody knows': ('PUT', {'x-amz-trailer': 'x-amz-checksum-x', 'x-amz-decoded-content-length': '1',
                                             'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'}),
    'a length of chunks': ('PUT', {'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
                                   'x-amz-decoded-content-length': '9' * 40}),
    'chunks of no length': ('PUT', {'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD'}),
    'chunks without signatures': ('PUT', {'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
                                          'x-amz-decoded-content-length': '1'}),
    'chunks of another kind': ('PUT', {'x-amz-content-sha256': 'STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD'})}
# name: minutes by which the clock of a client is wrong
CLOCKS = {'16 minutes late': -16, '16 minutes early': 16, 'a day late': -1440, 'a day early': 1440,
          'years late': -9_999_999, 'years early': 99_999_999}
# name: change of a signed request: method, path, query, headers, body
REPLAYS = {
    'as a removal': lambda sent: sent | {'method': 'DELETE'},
    'as another key': lambda sent: sent | {'path': sent['path'] + 'x'},
    'with a parameter': lambda sent: sent | {'query': 'acl='},
    'with another body': lambda sent: sent | {'body': b'evil'},
    'at another host': lambda sent: _headed(sent, host='evil.example'),
    'at another time': lambda sent: _headed(sent, **{'x-amz-date': '20200101T000000Z'}),
    'with metadata': lambda sent: _headed(sent, **{'x-amz-meta-a': 'b'}),
    'as unsigned': lambda sent: _headed(sent, **{'x-amz-content-sha256': UNSIGNED}),
    'as chunks': lambda sent: _headed(sent, **{'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'}),
    'as a copy': lambda sent: _headed(sent, **{'x-amz-copy-source': '/{bucket}/secret'}),
    'with two signatures': lambda sent: sent | {
        'query': 'X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=' + '0' * 64}}
# name: change of the text of an Authorization header
PROOFS = {
    'no signature': lambda text: '', 'a cut one': lambda text: text[:-1], 'a longer one': lambda text: text + '0',
    'of zeros': lambda text: text[:-64] + '0' * 64, 'of capitals': lambda text: text[:-64] + text[-64:].upper() + 'G',
    'of another key': lambda text: re.sub('Credential=[0-9a-f]+', 'Credential=' + 'f' * 32, text),
    'of no key': lambda text: re.sub('Credential=[0-9a-f]+', 'Credential=', text),
    'of a key with a path': lambda text: re.sub('Credential=[0-9a-f]+', 'Credential=..%2f..%2fusers', text),
    'of a statement': lambda text: re.sub('Credential=[0-9a-f]+', "Credential='OR'1'='1", text),
    'of a long key': lambda text: re.sub('Credential=[0-9a-f]+', 'Credential=' + 'a' * 7000, text),
    'for another service': lambda text: text.replace('/s3/', '/ec2/'),
    'for another region': lambda text: text.replace('/RegionOne/', '/elsewhere/'),
    'for another day': lambda text: re.sub('/[0-9]{8}/', '/20200101/', text),
    'that covers no host': lambda text: text.replace('SignedHeaders=host;', 'SignedHeaders='),
    'that covers nothing': lambda text: re.sub('SignedHeaders=[^,]*', 'SignedHeaders=', text),
    'that covers thousands': lambda text: re.sub('SignedHeaders=', 'SignedHeaders=' + 'x;' * 3000, text),
    'of version 2': lambda text: 'AWS key:AAAA',
    'of no algorithm': lambda text: text.replace('AWS4-HMAC-SHA256', 'NONE'),
    'that is a token': lambda text: 'Bearer ' + 'a' * 5000, 'of no ASCII': lambda text: text + 'ä'}
# name: change of the parameters of a signed URL
URLS = {
    'that lasts for ever': {'X-Amz-Expires': '604801'}, 'that lasts longer': {'X-Amz-Expires': '7200'},
    'that lasts below zero': {'X-Amz-Expires': '-1'}, 'of a later time': {'X-Amz-Date': '20990101T000000Z'},
    'of another scope': {'X-Amz-Credential': 'a/20990101/RegionOne/s3/aws4_request'},
    'of text': {'X-Amz-Expires': 'ever'},
    'that covers nothing': {'X-Amz-SignedHeaders': ''}, 'with other headers of the answer': {
        'response-content-type': 'text/html'}, 'without a signature': {'X-Amz-Signature': ''}}


class S3:
    """A client of the object store that signs with version 4.

    :param pair: {'access': …, 'secret': …} of the Identity API
    """

    def __init__(self, session: base.Session, pair: dict):
        self._session, self._pair = session, pair
        self._root = urllib.parse.urlsplit(session.urls['s3'])

    def signed(self, method: str, path: str, query='', body=b'', headers=(), minutes=0) -> dict:
        """A request, as ``post`` sends it: method, path, query, headers, body.

        :param minutes: by which this client's clock is early
        """
        moment = datetime.datetime.now(datetime.UTC).timestamp() + minutes * 60
        at = time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(moment))[-16:]
        given = {'host': self._root.netloc, 'x-amz-date': at, 'x-amz-content-sha256': hashlib.sha256(body).hexdigest(),
                 **dict(headers)}
        names = ';'.join(sorted(given))
        text = '\n'.join((method, self._canonical(path), _ordered(query), *(
            f'{name}:{" ".join(given[name].split())}' for name in sorted(given)), '', names,
            given['x-amz-content-sha256']))
        scope = f'{at[:8]}/RegionOne/s3/aws4_request'
        given['authorization'] = (f'AWS4-HMAC-SHA256 Credential={self._pair["access"]}/{scope}, SignedHeaders={names}, '
                                  f'Signature={self._proof(at, scope, text)}')
        return {'method': method, 'path': path, 'query': query, 'headers': given, 'body': body}

    def link(self, path: str, minutes=0, expires='3600') -> dict:
        """The parameters of a signed URL of an object."""
        at = time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(time.time() + minutes * 60))
        scope = f'{at[:8]}/RegionOne/s3/aws4_request'
        params = {'X-Amz-Algorithm': 'AWS4-HMAC-SHA256', 'X-Amz-Credential': f'{self._pair["access"]}/{scope}',
                  'X-Amz-Date': at, 'X-Amz-Expires': expires, 'X-Amz-SignedHeaders': 'host'}
        text = '\n'.join(('GET', self._canonical(path), _ordered(urllib.parse.urlencode(params)),
                          f'host:{self._root.netloc}', '', 'host', UNSIGNED))
        return {**params, 'X-Amz-Signature': self._proof(at, scope, text)}

    def framed(self, sent: dict, pieces) -> Iterator[bytes]:
        """A body of signed chunks behind a request of ``signed``."""
        at, scope = sent['headers']['x-amz-date'], sent['headers']['authorization'].partition('=')[2].split(',')[0]
        scope, last = scope.partition('/')[2], sent['headers']['authorization'][-64:]
        key = self._key(scope)
        for piece in (*pieces, b''):
            text = '\n'.join(('AWS4-HMAC-SHA256-PAYLOAD', at, scope, last, EMPTY, hashlib.sha256(piece).hexdigest()))
            last = hmac.digest(key, text.encode(), 'sha256').hex()
            yield b'%x;chunk-signature=%s\r\n%s\r\n' % (len(piece), last.encode(), piece)

    def _canonical(self, path: str) -> str:
        return urllib.parse.quote(self._root.path.encode() + urllib.parse.unquote_to_bytes(path), safe='/-_.~')

    def _proof(self, at: str, scope: str, request: str) -> str:
        digest = hashlib.sha256(request.encode('latin-1', 'replace')).hexdigest()
        text = '\n'.join(('AWS4-HMAC-SHA256', at, scope, digest))
        return hmac.digest(self._key(scope), text.encode(), 'sha256').hex()

    def _key(self, scope: str) -> bytes:
        key = ('AWS4' + self._pair['secret']).encode()
        for part in scope.split('/'):
            key = hmac.digest(key, part.encode(), 'sha256')
        return key

    def post(self, sent: dict) -> base.Answer:
        """Guesses are held off for a while (503): asked again, so that the signature itself is what refuses."""
        for _attempt in range(faces.TRIES):
            answer = self._session.send(
                sent['method'], 's3', sent['path'] + (f'?{sent["query"]}' if sent['query'] else ''), data=sent['body'],
                headers={name: value.encode() for name, value in sent['headers'].items()})
            if answer.status != 503:
                break
            time.sleep(faces.WAIT_S)
        return answer

    def send(self, method: str, path: str, query='', body=b'', headers=(), minutes=0) -> base.Answer:
        return self.post(self.signed(method, path, query, body, headers, minutes))


def attacks(stage) -> Iterator[Attack]:
    origin = faces.origin_of(stage)
    for session in (stage.attacker, stage.victim, stage.anonymous):
        session.urls['s3'] = origin + PATH
    if stage.anonymous.send('GET', 's3', '/').status == 404:
        return                                                 # a cloud without an object store
    attacker, guesser, victim = (S3(session, faces.keys(session)) for session in (
        stage.attacker, stage.attacker, stage.victim))
    own, bucket = f'own-{secrets.token_hex(4)}', f'victim-{secrets.token_hex(4)}'
    for client, name in ((victim, bucket), (attacker, own)):
        _done(client.send('PUT', f'/{name}'))
        _done(client.send('PUT', f'/{name}/secret', body=SECRET))
    upload = re.search('<UploadId>([^<]+)', _done(victim.send('POST', f'/{bucket}/secret', 'uploads=')).text)[1]
    mine = re.search('<UploadId>([^<]+)', _done(attacker.send('POST', f'/{own}/k', 'uploads=')).text)[1]
    try:
        for method, rest, body in NAMED:
            yield Attack('s3 isolation', f'{method} {rest} of another bucket', functools.partial(
                _alike, attacker, method, bucket, rest.replace('%s', upload), body))
        for key in KEYS:
            yield Attack('s3 key', key[:40], functools.partial(
                _key, attacker, victim, own, bucket, key.format(bucket=bucket)))
        for root, (method, rest) in PLACES.items():
            for name, body in DOCUMENTS.items():
                yield Attack('s3 document', f'{root}: {name}', functools.partial(
                    _document, attacker, method, f'/{own}{rest.replace("%s", mine)}',
                    body.replace(b'%s', root.encode())))
        for name, (method, headers) in HEADERS.items():
            yield Attack('s3 header', name, functools.partial(_header, attacker, method, f'/{own}/none', {
                key: value.format(bucket=bucket, own=own) for key, value in headers.items()}))
        for name, minutes in CLOCKS.items():
            for method in ('GET', 'PUT'):
                yield Attack('s3 clock', f'{method} {name}', functools.partial(
                    _late, attacker, method, f'/{own}/secret', minutes))
            yield Attack('s3 clock', f'a URL {name}', functools.partial(
                _url, attacker, stage.anonymous, f'/{own}/secret', minutes, {}))
        for name, change in URLS.items():
            yield Attack('s3 signature', f'a URL {name}', functools.partial(
                _url, guesser, stage.anonymous, f'/{own}/secret', 0, change))
        for name, change in REPLAYS.items():
            yield Attack('s3 replay', name, functools.partial(_replay, guesser, f'/{own}/secret', change))
        for name, change in PROOFS.items():
            yield Attack('s3 signature', name, functools.partial(_forged, guesser, f'/{own}/secret', change))
        yield Attack('s3 isolation', 'all of it together', functools.partial(_whole, victim, bucket))
    finally:
        _clear(victim, bucket, 'secret', upload)
        _clear(attacker, own, 'k', mine)


def _done(answer: base.Answer) -> base.Answer:
    if answer.status != 200:
        raise RuntimeError(f'The object store answered {answer.status}: {answer.text[:300]}')
    return answer


def _clear(client, bucket, key, upload):
    client.send('DELETE', f'/{bucket}/{key}', f'uploadId={upload}')
    for _page in range(10):
        listed = client.send('GET', f'/{bucket}', 'encoding-type=url')
        for name in re.findall('<Key>([^<]*)</Key>', listed.text):
            client.send('DELETE', f'/{bucket}/{name}')
    client.send('DELETE', f'/{bucket}')


def _ordered(query: str) -> str:
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    return '&'.join(f'{name}={value}' for name, value in sorted(
        (urllib.parse.quote(name, safe='-_.~'), urllib.parse.quote(value, safe='-_.~')) for name, value in pairs))


def _headed(sent: dict, **headers: str) -> dict:
    return sent | {'headers': {**sent['headers'], **headers}}


def _alike(client, method, bucket, rest, body, stage):
    """A bucket of another project is answered as one that nobody has."""
    path, _, query = rest.partition('?')
    there, gone = (client.send(method, f'/{name}{path}', query, body) for name in (bucket, NOWHERE))
    if wrong := base.refused(there, (400, 403, 404, 501)):
        return wrong
    shown = [re.sub('<RequestId>[^<]*<', '<', answer.text.replace(name, ''))
             for answer, name in ((there, bucket), (gone, NOWHERE))]
    return None if there.status == gone.status and shown[0] == shown[1] else (
        f'it answered {there.status} {there.text[:300]}, and {gone.status} {gone.text[:300]} for what is not there')


def _key(client, victim, own, bucket, key, stage):
    """It names an object of the own bucket, or it is refused; nothing else is read or written."""
    body = b'of the attacker'
    put = client.send('PUT', f'/{own}/{key}', body=body)
    if wrong := base.flaw(put):
        return wrong
    got = client.send('GET', f'/{own}/{key}')
    if wrong := base.flaw(got) or _whole(victim, bucket, stage):
        return wrong
    if 'X-Injected' in got.headers:
        return 'the key made a header'
    return None if put.status != 200 or got.text.encode() == body else f'it gave {got.status} {got.text[:200]}'


def _whole(victim, bucket, stage):
    found = victim.send('GET', f'/{bucket}/secret')
    listed = victim.send('GET', f'/{bucket}')
    return None if found.text.encode() == SECRET and listed.text.count('<Key>') == 1 else (
        f'the victim finds {found.status} {found.text[:200]} and {listed.text[:300]}')


def _document(client, method, path, body, stage):
    path, _, query = path.partition('?')
    answer = client.send(method, path, query, body)
    if method == 'PUT' and answer.status == 200 and not body:            # a bucket without a configuration
        client.send('DELETE', path)
        return None
    return base.refused(answer, (400, 403, 411, 413, 501, 0))


def _header(client, method, path, headers, stage):
    answer = client.send(method, path, headers=headers)
    made = client.send('HEAD', path).status == 200
    client.send('DELETE', path)
    return base.refused(answer, (400, 403, 404, 411, 413, 431, 501)) or ('it made the object' if made else None)


def _late(client, method, path, minutes, stage):
    answer = client.send(method, path, body=b'late' if method == 'PUT' else b'', minutes=minutes)
    return base.refused(answer, (400, 403))


def _url(client, anonymous, path, minutes, change, stage):
    """A URL whose time is wrong, or which was changed behind its signature."""
    query = urllib.parse.urlencode({**client.link(path, minutes), **change})
    for _attempt in range(faces.TRIES):
        answer = anonymous.send('GET', 's3', f'{path}?{query}')
        if answer.status != 503:
            break
        time.sleep(faces.WAIT_S)
    within = -60 < minutes < 15 and not change       # an hour from the time that it names
    return None if within and answer.status == 200 else base.refused(answer, (400, 403, 503))


def _replay(client, path, change, stage):
    """A request that was seen on its way, sent again with a change."""
    sent = client.signed('PUT', path, body=SECRET)
    return base.refused(client.post(change(sent)), (400, 403, 404, 501, 503))


def _forged(client, path, change, stage):
    sent = client.signed('GET', path)
    return base.refused(client.post(_headed(sent, authorization=change(sent['headers']['authorization']))),
                        (400, 403, 431, 503))
