"""Requests of the EC2 API, generated from botocore's shapes; each seed gives the same ones.

Most parameters are those that an operation carries out, with values that fit: ids of things that are there, names,
small numbers. Some are of another type, out of bounds, of another thing, or not known.
"""
from __future__ import annotations

import base64
from collections.abc import Iterator
import random
import re
from typing import Any
import urllib.parse
from xml.etree import ElementTree as etree

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.serialize
import requests

from nova.ec2 import protocol
from nova.ec2 import table

ODD = ('', ' ', '\x00', 'x' * 300, 'x' * 70000, '*' * 20, '?[', '[!a]*', '%', '../../etc', '\ud7ff\uffff', 'ä€😀',
       '\r\nX: y', '-1', '0', '1', '99999999999999999999', '9' * 18, '2147483648', '1e5', 'nan', 'true', 'None', 'null',
       '{}', "' or 1=1", '$Latest', '$Default', '$x', 'i-zzz', 'i-ffffffff', 'ami-00000001', 'vol-7fffffff', 'lt-0',
       'sg-0123456789abcdef0', 'snap-80000000', 'eipassoc-', '2026-01-01T00:00:00Z', '0001-01-01', '10.0.0.0/99',
       '::/0', '300.1.1.1', '%%%', '====', base64.b64encode(b'\0' * 20000).decode())
NUMBERS = (0, 1, 1, 1, 2, 5, -1, 22, 80, 65535, 65536, 1000, 2 ** 31, 2 ** 63 - 1)
TEXTS = ('a', 'name', 'tcp', 'udp', 'icmp', '-1', 'default', 'spread', 'self', 'all', 'instance', 'volume', 'tag:a',
         '0.0.0.0/0', '10.0.0.0/24', 'description', 'launchPermission', 'instanceType', 'userData', 'rsa', 'pem', 'vpc',
         'state', 'instance-id', 'key', 'value')
SMALL = {'MinCount': (1, 2, 0, -1), 'MaxCount': (1, 2, 0, -1), 'Size': (1, 1, 0, -1, 2 ** 31), 'VolumeSize': (1, 0, -1)}
_ID = re.compile(r'\b(?:i|ami|vol|snap|sg|sgr|subnet|vpc|eni|igw|rtb|rtbassoc|eipalloc|pg|key|lt)-[0-9a-f]{8,17}\b')


class Requests:
    """An endless run of them.

    :param seed: of the generator
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._serializer = botocore.serialize.create_serializer('ec2', include_validation=False)
        self._names = sorted(table.OPERATIONS)
        self.types = ['m1.tiny']
        self.known: dict[str, list[str]] = {}

    def learn(self, text: str) -> None:
        """Remember the ids of an answer, to be named later: a few of each kind."""
        self.types = re.findall('<instanceType>([^<]+)<', text)[:3] or self.types
        for found in _ID.findall(text):
            some = self.known.setdefault(found.partition('-')[0], [])
            if found not in some:
                some.append(found)
                del some[:-8]

    def __iter__(self) -> Iterator[list[tuple[str, str]]]:
        while True:
            row = table.OPERATIONS[self._random.choice(self._names)]
            model = protocol.service().operation_model(row.name)
            given = self._structure(model.input_shape, row.takes | row.ignores, 0) if model.input_shape else {}
            body = self._serializer.serialize_to_request(given, model)['body']
            pairs = [(name, str(value)) for name, value in body.items()]
            for number, (name, _value) in enumerate(pairs):
                if name not in ('Action', 'Version') and self._random.random() < 0.08:
                    pairs[number] = (name if self._random.random() < 0.8 else name + '.1',
                                     self._random.choice(ODD))
            yield pairs

    def _structure(self, shape: Any, usual: Any, depth: int) -> dict[str, Any]:
        found = {}
        for name, member in shape.members.items():
            wanted = name in shape.required_members and 0.95 or (0.4 if depth or name in usual else 0.01)
            if name != 'DryRun' and depth < 4 and self._random.random() < wanted:
                found[name] = self._value(name, member, depth + 1)
        return found

    def _value(self, name: str, shape: Any, depth: int) -> Any:
        kind = shape.type_name
        if kind == 'structure':
            return self._structure(shape, (), depth)
        if kind == 'list':
            return [self._value(name, shape.member, depth) for _item in range(self._random.randint(1, 3))]
        if kind in ('integer', 'long', 'float', 'double'):
            return self._random.choice(SMALL.get(name, NUMBERS))
        if kind == 'boolean':
            return self._random.random() < 0.5
        if kind == 'timestamp':
            return '2026-01-01T00:00:00Z'
        if kind == 'blob':
            return self._random.randbytes(30)
        return self._text(name, shape)

    def _text(self, name: str, shape: Any) -> str:
        kinds = {'InstanceId': 'i', 'ImageId': 'ami', 'VolumeId': 'vol', 'SnapshotId': 'snap', 'SubnetId': 'subnet',
                 'GroupId': 'sg', 'SecurityGroupId': 'sg', 'NetworkInterfaceId': 'eni', 'AllocationId': 'eipalloc',
                 'LaunchTemplateId': 'lt', 'VpcId': 'vpc', 'InternetGatewayId': 'igw',
                 'RouteTableId': 'rtb', 'GatewayId': 'igw', 'KeyPairId': 'key', 'SecurityGroupRuleId': 'sgr'}
        if name == 'InstanceType' and self._random.random() < 0.8:
            return self._random.choice(self.types)
        of_it = self.known.get(kinds.get(name.removesuffix('s'), ''))
        every = [text for some in self.known.values() for text in some]
        if of_it and self._random.random() < 0.85:
            return self._random.choice(of_it)
        if getattr(shape, 'enum', None) and self._random.random() < 0.7:
            return str(self._random.choice(shape.enum[:8]))
        return self._random.choice([*TEXTS, *every, self._random.choice(ODD)])


class Client:
    """Sends pairs with a signature of version 4.

    :param url: of the EC2 API
    :param pair: {'access', 'secret'}
    """

    def __init__(self, url: str, pair: dict[str, str]) -> None:
        self._url, self._session = url, requests.Session()
        self._session.trust_env = False
        credentials = botocore.credentials.Credentials(pair['access'], pair['secret'])
        self._signer = botocore.auth.SigV4Auth(credentials, 'ec2', 'RegionOne')

    def send(self, pairs: list[tuple[str, str]]) -> tuple[int, str, str]:
        """(HTTP code, EC2's code of an error or nothing, the XML)."""
        body = urllib.parse.urlencode(pairs, errors='surrogatepass')
        request = botocore.awsrequest.AWSRequest('POST', self._url, data=body, headers={
            'Content-Type': 'application/x-www-form-urlencoded'})
        self._signer.add_auth(request)
        prepared = request.prepare()
        answer = self._session.post(prepared.url, data=body, headers=dict(prepared.headers), timeout=120)
        code = etree.fromstring(answer.content).findtext('.//Errors/Error/Code')
        return answer.status_code, code or '', answer.text


def prepare(client: Client) -> list[str]:
    """Make a thing of each kind; the XML that names them."""
    def send(action: str, **given: str) -> str:
        status, code, text = client.send([('Action', action), ('Version', protocol.VERSION), *given.items()])
        assert status == 200, (action, code, text)
        return text
    images = send('DescribeImages')
    types = send('DescribeInstanceTypes')
    image, type_ = (re.search(pattern, text) for pattern, text in (
        (r'<imageId>(.+?)<', images), (r'<instanceType>(.+?)<', types)))
    assert image and type_
    what = {'ImageId': image[1], 'InstanceType': type_[1]}
    return [images, send('DescribeSubnets'), send('DescribeVpcs'),
            send('RunInstances', **what, MinCount='1', MaxCount='2'),
            send('CreateVolume', Size='1', AvailabilityZone='nova'),
            send('CreateSecurityGroup', GroupName='name', GroupDescription='x'),
            send('CreatePlacementGroup', GroupName='a', Strategy='spread'),
            send('CreateKeyPair', KeyName='name'),
            send('CreateLaunchTemplate', LaunchTemplateName='name', **{
                f'LaunchTemplateData.{name}': value for name, value in what.items()})]


FITTING_5XX = {'InsufficientAddressCapacity'}          # EC2's own code for a cloud without external networks


def run(client: Client, seed: int, count: int) -> tuple[dict[str, int], list[str]]:
    """({code: how often}, what was answered with a fault of the server)."""
    generated, codes, faults = Requests(seed), {}, []
    generated.learn(' '.join(prepare(client)))
    for number, pairs in zip(range(count), generated):
        status, code, text = client.send(pairs)
        codes[code or 'OK'] = codes.get(code or 'OK', 0) + 1
        if status < 400:
            generated.learn(text)
        elif status >= 500 and code not in FITTING_5XX:
            faults.append(f'request {number} of seed {seed}: {status} {code} {[(n, v[:80]) for n, v in pairs]}')
    return codes, faults
