"""Input that is too large, too deep, of another type, or a piece of another language (classes C, D and J)."""
import functools
import json
from collections.abc import Iterator

from nova.tests.attacks import base
from nova.tests.attacks.base import Attack

# What a text may be instead: (name, value)
TEXTS = (
    ('256 characters', 'a' * 256), ('100,000 characters', 'a' * 100_000), ('nul', 'a\0b'), ('a number', 7),
    ('a list', ['a']), ('an object', {'a': 'b'}), ('true', True), ('null', None), ('surrogate', '\ud800'),
    ('empty', ''), ('spaces', '   '),
    ('path', '../../../etc/passwd'), ('query', "'; DROP TABLE instances; --"), ('template', '{{7*7}}${7*7}<%=7*7%>'),
    ('script', '<script>alert(1)</script>'), ('line', 'a\r\nSet-Cookie: x=y'), ('format', '%s%n{0.__class__}'),
    ('long emoji', '😀' * 64), ('direction', 'a\u202eb'), ('shell', '$(reboot)`reboot`;reboot|reboot'))
# Texts that some fields may have: they are data, and come back as they are.
DATA = frozenset({'path', 'query', 'template', 'script', 'format', 'long emoji', 'direction', 'shell', 'empty', 'null',
                  'spaces', '100,000 characters', '256 characters', 'a number', 'a list', 'line', 'true', 'an object'})
NUMBERS = (('negative', -1), ('huge', 2 ** 63), ('huger', 10 ** 400), ('a fraction', 1.5), ('a text', '1; DROP'),
           ('not a number', 'NaN'), ('infinite', 1e308), ('a list', [1]), ('an object', {}), ('true', True),
           ('zero', 0))

# (face, method, path, body as a function of what the attacker has, places of texts, places of numbers)
BODIES = (
    ('compute', 'POST', '/servers', lambda own: {'server': {
        'name': 'n', 'imageRef': own['image'], 'flavorRef': own['flavor'], 'networks': 'none'}},
     ('server.name', 'server.imageRef', 'server.flavorRef', 'server.networks', 'server.key_name', 'server.user_data',
      'server.availability_zone', 'server.adminPass', 'server.description', 'server.config_drive',
      'server.OS-DCF:diskConfig', 'server.metadata', 'server.security_groups', 'server.tags', 'server.hostname',
      'server.block_device_mapping_v2', 'os:scheduler_hints', 'server.host'),
     ('server.min_count', 'server.max_count')),
    ('compute', 'POST', '/os-keypairs', lambda own: {'keypair': {'name': 'n', 'public_key': 'x', 'type': 'ssh'}},
     ('keypair.name', 'keypair.public_key', 'keypair.type'), ()),
    ('compute', 'POST', '/os-server-groups', lambda own: {'server_group': {'name': 'n', 'policy': 'affinity'}},
     ('server_group.name', 'server_group.policy'), ('server_group.rules',)),
    ('compute', 'PUT', '/servers/{server}/tags', lambda own: {'tags': ['a']}, ('tags',), ()),
    ('compute', 'POST', '/servers/{server}/metadata', lambda own: {'metadata': {'a': 'b'}},
     ('metadata', 'metadata.a'), ()),
    ('network', 'POST', '/networks', lambda own: {'network': {'name': 'n'}},
     ('network.name', 'network.description'), ('network.mtu',)),
    ('network', 'POST', '/subnets', lambda own: {'subnet': {
        'network_id': own['network'], 'cidr': '10.97.0.0/24', 'ip_version': 4}},
     ('subnet.name', 'subnet.cidr', 'subnet.gateway_ip', 'subnet.dns_nameservers', 'subnet.allocation_pools',
      'subnet.network_id', 'subnet.host_routes'), ('subnet.ip_version', 'subnet.prefixlen')),
    ('network', 'POST', '/ports', lambda own: {'port': {'network_id': own['network']}},
     ('port.name', 'port.network_id', 'port.mac_address', 'port.fixed_ips', 'port.device_id', 'port.security_groups',
      'port.allowed_address_pairs'), ()),
    ('network', 'POST', '/security-groups', lambda own: {'security_group': {'name': 'n'}},
     ('security_group.name', 'security_group.description'), ()),
    ('network', 'POST', '/security-group-rules', lambda own: {'security_group_rule': {
        'security_group_id': own['security_group'], 'direction': 'ingress', 'ethertype': 'IPv4', 'protocol': 'tcp',
        'port_range_min': 1, 'port_range_max': 2}},
     ('security_group_rule.direction', 'security_group_rule.protocol', 'security_group_rule.remote_ip_prefix',
      'security_group_rule.ethertype', 'security_group_rule.remote_group_id'),
     ('security_group_rule.port_range_min', 'security_group_rule.port_range_max')),
    ('volume', 'POST', '/volumes', lambda own: {'volume': {'size': 1}},
     ('volume.name', 'volume.description', 'volume.imageRef', 'volume.volume_type', 'volume.metadata',
      'volume.availability_zone'), ('volume.size',)),
    ('image', 'POST', '/images', lambda own: {'name': 'n', 'disk_format': 'raw', 'container_format': 'bare'},
     ('name', 'disk_format', 'container_format', 'visibility', 'tags', 'id', 'anything', 'owner'),
     ('min_disk', 'min_ram')),
    ('identity', 'POST', '/users/{user}/application_credentials', lambda own: {'application_credential': {'name': 'n'}},
     ('application_credential.name', 'application_credential.roles',
      'application_credential.expires_at'), ()),
)

# Bodies that are no document, for every face.
DOCUMENTS = {
    'nothing': b'', 'a brace': b'{', 'a bracket': b'[', 'a number': b'7', 'null': b'null', 'a text': b'"a"',
    'a list': b'[]',
    'nested lists': b'[' * 60_000 + b']' * 60_000, 'nested objects': b'{"a":' * 20_000 + b'1' + b'}' * 20_000,
    'nested in a key': b'{"server":' + b'[' * 60_000 + b']' * 60_000 + b'}', 'not utf-8': b'\xff\xfe{"a":1}',
    'utf-16': '{"a": 1}'.encode('utf-16'), 'a byte order mark': b'\xef\xbb\xbf{}', 'NaN': b'{"server": NaN}',
    'a huge number': b'{"server": ' + b'9' * 100_000 + b'}', 'the same key': b'{"server": 1, "server": 2}',
    'many keys': b'{' + b','.join(b'"k%d":1' % number for number in range(60_000)) + b'}',
    'a large text': b'{"server": "' + b'a' * 1_000_000 + b'"}', 'xml': b'<?xml version="1.0"?><a/>',
    'entities': b'<!DOCTYPE a [<!ENTITY b "cccccccccc"><!ENTITY d "&b;&b;&b;&b;&b;&b;">]><a>&d;</a>',
    'yaml': b'!!python/object/apply:os.system ["reboot"]', 'pickle': b'cos\nsystem\n(S"reboot"\ntR.',
    'prototype': b'{"__proto__": {"admin": true}, "constructor": {}}', 'underscore class': b'{"__class__": "x"}',
}
KINDS = ('application/json', 'application/xml', 'text/xml', 'application/x-www-form-urlencoded', 'multipart/form-data',
         'application/x-yaml', 'application/octet-stream', 'a' * 5000)

# (name, query): for every list
QUERIES = (
    ('negative limit', 'limit=-1'), ('huge limit', 'limit=99999999999999999999'), ('limit of text', 'limit=a'),
    ('marker of another', 'marker=' + base.MISSING), ('marker path', 'marker=../../etc/passwd'),
    ('empty marker', 'marker='),
    ('sort by password', 'sort_key=password_hash&sort_dir=asc'), ('sort by statement', 'sort_key=1;DROP&sort=x;y'),
    ('sort direction', 'sort_dir=sideways&sort_key=created_at'), ('sort dunder', 'sort_key=__class__'),
    ('many sorts', '&'.join(['sort_key=created_at&sort_dir=asc'] * 500)), ('bomb', 'name=(a%2B)%2B%24&ip=(.*)*x'),
    ('bomb with groups', 'name=((a|a)*)*b'), ('open bracket', 'name=['), ('wildcards', 'name=' + '%25' * 2000),
    ('union', 'name=%27%20UNION%20SELECT%201--'), ('sleep', 'name=%27%20OR%20SLEEP(20)--'), ('nul', 'name=%00'),
    ('bad utf-8', 'name=%ff%fe'), ('surrogate', 'name=%ed%a0%80'), ('changes-since', 'changes-since=yesterday'),
    ('changes-since far', 'changes-since=0000-00-00T00:00:00Z'), ('changes-before', 'changes-before=99999-01-01'),
    ('many parameters', '&'.join(f'a{number}=b' for number in range(3000))), ('long value', 'name=' + 'a' * 20_000),
    ('repeated', '&'.join(['name=a'] * 3000)), ('fields', 'fields=' + ','.join(['id'] * 3000)),
    ('fields dunder', 'fields=__dict__'),
    ('status', 'status=%3Cscript%3E'), ('deleted', 'deleted=true'), ('host', 'host=host1'), ('jsonpath', 'a[b][c]=d'),
)
LISTS = {'compute': ('/servers', '/servers/detail', '/flavors', '/os-keypairs', '/os-server-groups',
                     '/os-simple-tenant-usage'),
         'image': ('/images',), 'network': ('/networks', '/ports', '/security-groups', '/security-group-rules'),
         'volume': ('/volumes', '/snapshots'), 'identity': ('/auth/projects', '/role_assignments')}

IDS = ('..', '../..', '%2e%2e%2f%2e%2e', '..%2f..%2fetc%2fpasswd', '%00', '*', '%25', "'%20OR%201=1--", 'a' * 5000,
       '%ff', '%0d%0aX:%20y', '__class__', '0', '-1', '9' * 400, 'null', '{{}}', '%7B%7B7*7%7D%7D', '%20', '.',
       'detail%2f..')
ITEMS = {'compute': ('/servers/', '/flavors/', '/os-keypairs/', '/os-server-groups/', '/servers/{server}/metadata/',
                     '/servers/{server}/tags/', '/servers/{server}/os-instance-actions/', '/images/'),
         'image': ('/images/',), 'network': ('/networks/', '/ports/', '/subnets/', '/security-groups/'),
         'volume': ('/volumes/', '/snapshots/', '/types/'), 'identity': ('/projects/', '/users/', '/roles/')}


def attacks(stage) -> Iterator[Attack]:
    for face, method, path, body_of, texts, numbers in BODIES:
        if face not in stage.attacker.urls:
            continue
        for place, (name, value) in [*((place, value) for place in texts for value in TEXTS),
                                     *((place, value) for place in numbers for value in NUMBERS)]:
            yield Attack('input', f'{face} {path} {place}: {name}', functools.partial(
                _input, face, method, path, body_of, place, value, name in DATA or place in numbers))
        for name, document in DOCUMENTS.items():
            yield Attack('document', f'{face} {path} {name}', functools.partial(_document, face, method, path, document,
                                                                               'application/json'))
    for kind in KINDS:
        yield Attack('document', f'content type {kind[:40]}', functools.partial(
            _document, 'compute', 'POST', '/servers', b'<a/>', kind))
    for face, paths in LISTS.items():
        if face in stage.attacker.urls:
            for path in paths:
                for name, query in QUERIES:
                    yield Attack('query', f'{face} {path} {name}', functools.partial(_query, face, path, query))
    for face, paths in ITEMS.items():
        if face in stage.attacker.urls:
            for path in paths:
                for item in IDS:
                    yield Attack('path', f'{face} {path}{item[:30]}', functools.partial(_item, face, path + item))


def _put(document, place, value):
    """A copy of a document with a value at 'a.b'."""
    document = json.loads(json.dumps(document))
    *parents, last = place.split('.')
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return document


def _input(face, method, path, body_of, place, value, may_be_data, stage):
    body = _put(body_of(stage.own), place, value)
    answer = stage.attacker.send(method, face, path.format(**stage.own), data=json.dumps(body).encode(),
                                 headers={'Content-Type': 'application/json'})
    if 200 <= answer.status < 300:
        _remove(stage, face, path, answer)
        return base.flaw(answer) if may_be_data else f'it took it: {answer.text[:200]}'
    return base.refused(answer)


def _remove(stage, face, path, answer):
    """Take away what an attack has made, so that quotas leave room for the next one."""
    shown = base.document(answer)
    inner = next((value for value in shown.values() if isinstance(value, dict)), shown)
    made = inner.get('id') or inner.get('name')
    if made and '{' not in path or path.startswith('/users'):
        stage.attacker.send('DELETE', face, f'{path.format(**stage.own)}/{made}')


def _document(face, method, path, document, kind, stage):
    answer = stage.attacker.send(method, face, path.format(**stage.own), data=document, headers={'Content-Type': kind})
    if face == 'image' and answer.status == 201:             # an image needs no field
        _remove(stage, face, path, answer)
        return base.flaw(answer)
    return base.refused(answer)


def _query(face, path, query, stage):
    return base.flaw(stage.attacker.send('GET', face, f'{path}?{query}'))


def _item(face, path, stage):
    answer = stage.attacker.send('GET', face, path.format(**stage.own))
    return base.flaw(answer) or (None if answer.status in (0, 200, 300, 302, 400, 401, 403, 404, 405, 414, 431)
                                 else f'it answered {answer.status}')
