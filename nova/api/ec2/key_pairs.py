"""EC2 operations on key pairs, which belong to users."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any
import urllib.parse

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import key_names
from nova.api.ec2 import operations
from nova.api.ec2 import tags

# first word of a public key: type in EC2
KEY_TYPES = {'ssh-rsa': 'rsa', 'ssh-ed25519': 'ed25519'}


def _shown(req: operations.Request, pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    uuids = {pair['name']: key_names.uuid_of(req, pair['name']) for pair in pairs}
    known, kept = req.ids.shown('key', uuids.values()), tags.of(req, 'key', list(uuids.values()))
    return [{'KeyName': pair['name'], 'KeyFingerprint': pair['fingerprint'],
             'KeyPairId': known[uuids[pair['name']]], 'Tags': kept[uuids[pair['name']]]} for pair in pairs]


def _make(req: operations.Request, given: operations.Given, **more: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Create a key pair; return its document and its view."""
    body = {'name': given['KeyName'], 'type': 'ssh', **more}
    found = tags.given(given.get('TagSpecifications'), 'key-pair')
    try:
        pair = dict(req.call('compute', 'POST', '/os-keypairs', {'keypair': body})['keypair'])
    except errors.ServiceRefused as refused:
        if refused.status == 409:
            raise errors.Ec2Error('InvalidKeyPair.Duplicate', f'The key pair {body["name"]!r} exists.') from None
        if refused.status == 400 and 'public_key' in body:
            raise errors.Ec2Error('InvalidKey.Format', refused.message) from None
        raise
    tags.put(req, 'key', key_names.uuid_of(req, pair['name']), found)
    return pair, _shown(req, [pair])[0]


def create_key_pair(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if given.get('KeyType', 'rsa') != 'rsa' or given.get('KeyFormat', 'pem') != 'pem':
        raise errors.unsupported('New key pairs must have the type rsa and the format pem.')
    pair, shown = _make(req, given)
    return {**shown, 'KeyMaterial': pair['private_key']}


def import_key_pair(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    try:
        text = given['PublicKeyMaterial'].decode()
    except UnicodeDecodeError:
        raise errors.Ec2Error('InvalidKey.Format', 'The public key is not text.') from None
    return _make(req, given, public_key=text.strip())[1]


def describe_key_pairs(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    pairs = filters.choose_named(key_names.pairs_of(req), 'name', given.get('KeyNames'), 'InvalidKeyPair.NotFound',
                                 'The key pair {} does not exist.')
    shown = [{**row, 'KeyType': KEY_TYPES.get(pair['public_key'].partition(' ')[0]),
              'PublicKey': pair['public_key'] if given.get('IncludePublicKey') else None}
             for pair, row in zip(pairs, _shown(req, pairs))]
    shown = filters.choose(shown, 'KeyPairId', given.get('KeyPairIds'), 'key')
    return {'KeyPairs': filters.apply(shown, given.get('Filters'), {
        'key-name': lambda pair: pair['KeyName'], 'key-pair-id': lambda pair: pair['KeyPairId'],
        'fingerprint': lambda pair: pair['KeyFingerprint']})}


def delete_key_pair(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Delete a key pair; an unknown name is ignored, as in EC2."""
    name = given.get('KeyName')
    if name is None:
        if not given.get('KeyPairId'):
            raise errors.missing('KeyName')
        wanted = req.uuid('key', given['KeyPairId'])
        name = next((pair['name'] for pair in key_names.pairs_of(req)
                     if key_names.uuid_of(req, pair['name']) == wanted), None)
        if name is None:
            raise errors.not_found('key', given['KeyPairId'])
    try:
        req.call('compute', 'DELETE', f'/os-keypairs/{urllib.parse.quote(name, safe="")}')
    except errors.ServiceRefused as refused:
        if refused.status != 404:
            raise
    else:
        tags.forget(req, 'key', key_names.uuid_of(req, name))
    return {'Return': True, 'KeyPairId': given.get('KeyPairId')}


OPERATIONS = [
    operations.row('CreateKeyPair', create_key_pair, 'KeyName KeyType KeyFormat TagSpecifications', makes='keypair'),
    operations.row('ImportKeyPair', import_key_pair, 'KeyName PublicKeyMaterial TagSpecifications', makes='keypair'),
    operations.row('DescribeKeyPairs', describe_key_pairs, 'KeyNames KeyPairIds Filters IncludePublicKey'),
    operations.row('DeleteKeyPair', delete_key_pair, 'KeyName KeyPairId'),
]
