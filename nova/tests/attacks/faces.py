"""The faces without tokens of the Identity API: EC2 with its signatures, consoles, the dashboard (classes A, B, E)."""
import base64
import datetime
import functools
import hashlib
import hmac
import re
import time
import urllib.parse
from collections.abc import Iterator

from nova.tests.attacks import base
from nova.tests.attacks.base import Attack

EC2, CONSOLES, DASHBOARD = '/services/Cloud', '/console', '/dashboard'
VERSION = '2016-11-15'
TRIES, WAIT_S = 3, 1.2           # of a forgery that is held off

# what of EC2 names a thing of another: (kind, operation, parameter, further parameters)
NAMED = (
    *(('instance', name, 'InstanceId.1', {}) for name in (
        'DescribeInstances', 'StopInstances', 'StartInstances', 'RebootInstances', 'TerminateInstances')),
    *(('instance', name, 'InstanceId', more) for name, more in (
        ('GetConsoleOutput', {}), ('GetConsoleScreenshot', {}), ('GetPasswordData', {}),
        ('CreateImage', {'Name': 'stolen'}),
        ('DescribeInstanceAttribute', {'Attribute': 'userData'}))),
    ('instance', 'CreateTags', 'ResourceId.1', {'Tag.1.Key': 'a', 'Tag.1.Value': 'b'}),
    ('volume', 'DescribeVolumes', 'VolumeId.1', {}), ('volume', 'DeleteVolume', 'VolumeId', {}),
    ('volume', 'CreateSnapshot', 'VolumeId', {}),
    ('snapshot', 'DescribeSnapshots', 'SnapshotId.1', {}), ('snapshot', 'DeleteSnapshot', 'SnapshotId', {}),
    ('image', 'DescribeImages', 'ImageId.1', {}), ('image', 'DeregisterImage', 'ImageId', {}),
    ('image', 'RunInstances', 'ImageId', {'MinCount': '1', 'MaxCount': '1', 'InstanceType': 'm1.tiny'}),
    ('group', 'DescribeSecurityGroups', 'GroupId.1', {}), ('group', 'DeleteSecurityGroup', 'GroupId', {}),
    ('group', 'AuthorizeSecurityGroupIngress', 'GroupId', {
        'IpPermissions.1.IpProtocol': 'tcp', 'IpPermissions.1.FromPort': '1', 'IpPermissions.1.ToPort': '2',
        'IpPermissions.1.IpRanges.1.CidrIp': '0.0.0.0/0'}),
)
# kind: (operation that lists them, element with their ids)
SHOWN = {'instance': ('DescribeInstances', 'instanceId'), 'volume': ('DescribeVolumes', 'volumeId'),
         'snapshot': ('DescribeSnapshots', 'snapshotId'), 'image': ('DescribeImages', 'imageId'),
         'group': ('DescribeSecurityGroups', 'groupId')}

# (name, change of the signed parameters, change of the signature)
FORGERIES = (
    ('no signature', {}, lambda proof: None), ('an empty signature', {}, lambda proof: ''),
    ('a cut signature', {}, lambda proof: proof[:-2]), ('a longer signature', {}, lambda proof: proof + 'A'),
    ('a long signature', {}, lambda proof: 'A' * 60_000), ('no ASCII', {}, lambda proof: 'ä€😀'),
    ('a nul', {}, lambda proof: proof + '\0'), ('another operation', {'Action': 'TerminateInstances'}, None),
    ('another key', {'AWSAccessKeyId': base.MISSING.replace('-', '')}, None),
    ('no key', {'AWSAccessKeyId': ''}, None), ('a key with a path', {'AWSAccessKeyId': '../../users'}, None),
    ('a statement as a key', {'AWSAccessKeyId': "' OR 1=1 --"}, None),
    ('a long key', {'AWSAccessKeyId': 'a' * 50_000}, None),
    ('no version', {'SignatureVersion': ''}, None), ('version 0', {'SignatureVersion': '0'}, None),
    ('version 1', {'SignatureVersion': '1'}, None), ('another digest', {'SignatureMethod': 'HmacMD5'}, None),
    ('an unknown digest', {'SignatureMethod': '../x'}, None), ('no time', {'Timestamp': ''}, None),
    ('another time', {'Timestamp': '1970-01-01T00:00:00Z'}, None), ('a time of text', {'Timestamp': 'now'}, None),
    ('a further parameter', {'InstanceId.1': 'i-00000001'}, None),
)
AUTHORIZATIONS = (
    '', 'AWS4-HMAC-SHA256', 'AWS4-HMAC-SHA256 Credential=a/20260101/RegionOne/ec2/aws4_request',
    'AWS4-HMAC-SHA256 Credential=a/20260101/r/ec2/aws4_request, SignedHeaders=, Signature=' + '0' * 64,
    'AWS4-HMAC-SHA256 Credential=a/20260101/r/ec2/aws4_request, SignedHeaders=host;' + 'x;' * 3000
    + ', Signature=' + '0' * 64, 'Credential=' * 3000, 'Basic YTpi', 'Bearer ' + 'a' * 8000,
    'AWS4-HMAC-SHA256 Credential=' + 'a' * 7000 + '/20260101/r/ec2/aws4_request, SignedHeaders=host, Signature='
    + 'f' * 64)
TOKENS = ('', base.MISSING, 'a' * 6000, '../../../etc/passwd', '%00', '%ff%fe', "'%20OR%201=1--", '*', '%25',
          '__class__', base.MISSING + '&token=' + base.MISSING)
PATHS = ('/../../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd', '/..%2f..%2fetc%2fpasswd', '/assets/../app.py',
         '/assets/pages/%2e%2e/%2e%2e/sessions.py', '/app.py', '/texts.py', '/v/', '/v/x/index.html', '//etc/passwd',
         '/index.html%00.js', '/%ff', '/' + 'a' * 5000, '/.git/config', '/static/', '/?/../x',
         '/config.json?a=' + 'b' * 5000)


class Ec2:
    """A client of the EC2 API that signs with version 2.

    :param pair: {'access': …, 'secret': …} of the Identity API
    """

    def __init__(self, session: base.Session, pair: dict):
        self._session, self._pair = session, pair
        self._host = urllib.parse.urlsplit(session.urls['ec2']).netloc

    def send(self, action: str, given=(), change=(), forge=None, headers=None) -> base.Answer:
        """
        :param change: of parameters behind the signature; ``forge`` changes that
        :param headers: which it does not cover
        """
        params = {'Action': action, 'Version': VERSION, 'AWSAccessKeyId': self._pair['access'],
                  'SignatureVersion': '2', 'SignatureMethod': 'HmacSHA256',
                  'Timestamp': datetime.datetime.now(datetime.UTC).strftime('%Y-%m-%dT%H:%M:%SZ'), **dict(given)}
        text = '&'.join(f'{name}={urllib.parse.quote(params[name], safe="-_~")}' for name in sorted(params))
        signed = f'POST\n{self._host}\n{EC2}\n{text}'.encode()
        proof = base64.b64encode(hmac.digest(self._pair['secret'].encode(), signed, hashlib.sha256)).decode()
        proof = forge(proof) if forge else proof
        sent = {**params, **dict(change), **({'Signature': proof} if proof is not None else {})}
        return self._session.send('POST', 'ec2', '', data=urllib.parse.urlencode(sent).encode(), headers={
            'Content-Type': 'application/x-www-form-urlencoded', **(headers or {})})


def origin_of(stage) -> str:
    url = urllib.parse.urlsplit(stage.attacker.urls['compute'])
    return f'{url.scheme}://{url.netloc}'


def keys(session: base.Session) -> dict:
    return session.make('identity', f'/users/{session.user_id}/credentials/OS-EC2',
                        {'tenant_id': session.project_id})['credential']


def attacks(stage) -> Iterator[Attack]:
    origin = origin_of(stage)
    for session in (stage.attacker, stage.victim, stage.anonymous):
        session.urls.update(ec2=origin + EC2, console=origin + CONSOLES, dashboard=origin + DASHBOARD)
    if stage.anonymous.send('GET', 'ec2', '').status != 404:
        yield from _ec2(stage)
    for kind in ('vnc', 'spice', 'serial'):
        for token in TOKENS:
            yield Attack('console', f'{kind} with the token {token[:40]}', functools.partial(_console, kind, token))
        for path in PATHS:
            yield Attack('console', f'{kind} {path[:40]}', functools.partial(_file, 'console', f'/{kind}{path}'))
    for path in PATHS:
        yield Attack('dashboard', f'GET {path[:40]}', functools.partial(_file, 'dashboard', path))
    for method in ('POST', 'PUT', 'DELETE', 'PATCH', 'TRACE'):
        yield Attack('dashboard', f'{method} of its page', functools.partial(_method, method))


def _ec2(stage) -> Iterator[Attack]:
    attacker, victim = (Ec2(session, keys(session)) for session in (stage.attacker, stage.victim))
    for kind, (action, element) in SHOWN.items():
        found = re.findall(f'<{element}>([^<]+)</{element}>', victim.send(
            action, {'Owner.1': 'self'} if kind == 'image' else {}).text)
        for operation, parameter, more in ((row[1], row[2], row[3]) for row in NAMED if row[0] == kind):
            if found:
                yield Attack('ec2 isolation', f'{operation} {parameter} of another {kind}', functools.partial(
                    _named, attacker, operation, parameter, more, found[0]))
                yield Attack('ec2 isolation', f'{operation} {parameter} of another {kind}, dry', functools.partial(
                    _named, attacker, operation, parameter, {**more, 'DryRun': 'true'}, found[0]))
    for name, change, forge in FORGERIES:
        yield Attack('ec2 signature', name, functools.partial(_forged, attacker, change, forge))
    for name, headers in _moments().items():
        yield Attack('ec2 replay', name, functools.partial(_replayed, attacker, headers))
    for number, text in enumerate(AUTHORIZATIONS):
        yield Attack('ec2 signature', f'header {number}', functools.partial(_header, text))


def _moments() -> dict[str, dict[str, str]]:
    """{name: headers} that say when a request was made; a signature of version 2 covers none."""
    now = datetime.datetime.now(datetime.UTC)
    texts = {'basic': now.strftime('%Y%m%dT%H%M%SZ'), 'extended': now.strftime('%Y-%m-%dT%H:%M:%SZ'),
             'of HTTP': now.strftime('%a, %d %b %Y %H:%M:%S GMT')}
    names = ('X-Amz-Date', 'x-amz-date', 'Date', 'X-Amz-Expires', 'Timestamp')
    return {f'{name} {kind}': {name: text} for name in names
            for kind, text in texts.items()}


def _replayed(client, headers, stage):
    """A request that was recorded 30 days ago."""
    made = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=30)).strftime('%Y-%m-%dT%H:%M:%SZ')
    for _attempt in range(TRIES):
        answer = client.send('DescribeInstances', {'Timestamp': made}, headers=headers)
        if answer.status != 503:
            break
        time.sleep(WAIT_S)
    return base.refused(answer, (400, 401, 403, 503))


def _forged(client, change, forge, stage):
    """Guesses are held off for a while (503): asked again, so that the signature itself is what refuses."""
    for _attempt in range(TRIES):
        answer = client.send('DescribeInstances', change=change, forge=forge)
        if answer.status != 503:
            break
        time.sleep(WAIT_S)
    return base.refused(answer, (400, 401, 403, 503))


def _header(text, stage):
    return base.refused(stage.anonymous.send('POST', 'ec2', '', data=f'Action=DescribeInstances&Version={VERSION}'
                                             .encode(), headers={'Content-Type': 'application/x-www-form-urlencoded',
                                                                 'Authorization': text}))


def _named(client, operation, parameter, more, thing, stage):
    """An id of another project is answered as one that nobody has."""
    missing = thing.partition('-')[0] + '-' + '0' * (len(thing.partition('-')[2]) - 4) + 'dead'
    there, gone = (client.send(operation, {parameter: name, **more}) for name in (thing, missing))
    if wrong := base.refused(there, (400, 403, 404)):
        return wrong
    shown = [re.sub('<RequestI[dD]>[^<]*<', '<', answer.text.replace(name, ''))
             for answer, name in ((there, thing), (gone, missing))]
    return None if there.status == gone.status and shown[0] == shown[1] else (
        f'it answered {there.status} {there.text[:300]}, and {gone.status} {gone.text[:300]} for what is not there')


def _console(kind, token, stage):
    """A WebSocket with a token that is none: no console opens."""
    url = urllib.parse.urlsplit(stage.anonymous.urls['console'])
    path = urllib.parse.quote(f'{url.path}/{kind}/', safe='/') + f'?token={token}'
    answer = stage.anonymous.talk('console', (
        f'GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
        'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: binary\r\n'
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n').encode(), 0.3)
    return f'a console opened: {answer[:200]!r}' if answer.startswith(b'HTTP/1.1 101') else (
        f'it failed: {answer[:200]!r}' if answer.startswith(b'HTTP/1.1 500') else None)


def _file(face, path, stage):
    answer = stage.anonymous.send('GET', face, path)
    return base.flaw(answer) or ('it gave away code' if 'import ' in answer.text and 'def ' in answer.text else None)


def _method(method, stage):
    return base.refused(stage.anonymous.send(method, 'dashboard', '/index.html', data=b'x'))
