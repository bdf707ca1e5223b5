"""Key pairs of the compute API. They are a user's, as there."""
from __future__ import annotations

from typing import Any
import urllib.parse

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import ids
from nova.api.ec2 import operations


def _id(req: operations.Request, name: str) -> str:
    return req.ids.one('key', ids.derived(req.caller.user.user_id, name))


def _shown(req: operations.Request, pair: dict[str, Any]) -> dict[str, Any]:
    return {'KeyName': pair['name'], 'KeyFingerprint': pair['fingerprint'], 'KeyPairId': _id(req, pair['name'])}


def _make(req: operations.Request, body: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(req.call('compute', 'POST', '/os-keypairs', {'keypair': body})['keypair'])
    except errors.ServiceRefused as refused:
        if refused.status == 409:
            raise errors.Ec2Error('InvalidKeyPair.Duplicate', f'The key pair {body["name"]!r} exists.') from None
        if refused.status == 400 and 'public_key' in body:
            raise errors.Ec2Error('InvalidKey.Format', refused.message) from None
        raise


def create_key_pair(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if given.get('KeyType', 'rsa') != 'rsa' or given.get('KeyFormat', 'pem') != 'pem':
        raise errors.unsupported('A key pair that is made here is of the type rsa, in the format pem.')
    pair = _make(req, {'name': given['KeyName'], 'type': 'ssh'})
    return {**_shown(req, pair), 'KeyMaterial': pair['private_key']}


def import_key_pair(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    try:
        text = given['PublicKeyMaterial'].decode()
    except UnicodeDecodeError:
        raise errors.Ec2Error('InvalidKey.Format', 'The public key is no text.') from None
    return _shown(req, _make(req, {'name': given['KeyName'], 'type': 'ssh', 'public_key': text.strip()}))


def _all(req: operations.Request) -> list[dict[str, Any]]:
    found, query = [], {'limit': 1000}
    while True:
        rows = [row['keypair'] for row in req.call('compute', 'GET', '/os-keypairs', query=query)['keypairs']]
        found += rows
        if len(rows) < 1000:
            return found
        query = {'limit': 1000, 'marker': rows[-1]['name']}


def describe_key_pairs(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    pairs = _all(req)
    names = given.get('KeyNames') or ()
    for name in names:
        if name not in {pair['name'] for pair in pairs}:
            raise errors.Ec2Error('InvalidKeyPair.NotFound', f'The key pair {name[:255]!r} does not exist.')
    if names:
        pairs = [pair for pair in pairs if pair['name'] in names]
    shown = [{**_shown(req, pair), 'KeyType': 'rsa' if pair.get('type') == 'ssh' else None,
              'PublicKey': pair['public_key'] if given.get('IncludePublicKey') else None} for pair in pairs]
    shown = filters.choose(shown, 'KeyPairId', given.get('KeyPairIds'), 'key')
    return {'KeyPairs': filters.apply(shown, given.get('Filters'), {
        'key-name': lambda pair: pair['KeyName'], 'key-pair-id': lambda pair: pair['KeyPairId'],
        'fingerprint': lambda pair: pair['KeyFingerprint']})}


def delete_key_pair(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """One that is not there is deleted already, as in EC2."""
    name = given.get('KeyName')
    if name is None:
        if not given.get('KeyPairId'):
            raise errors.missing('KeyName')
        name = next((pair['name'] for pair in _all(req) if _id(req, pair['name']) == given['KeyPairId']), None)
    if name is not None:
        try:
            req.call('compute', 'DELETE', f'/os-keypairs/{urllib.parse.quote(name, safe="")}')
        except errors.ServiceRefused as refused:
            if refused.status != 404:
                raise
    return {'Return': True, 'KeyPairId': given.get('KeyPairId')}


OPERATIONS = [
    operations.row('CreateKeyPair', create_key_pair, 'KeyName KeyType KeyFormat', makes='keypair'),
    operations.row('ImportKeyPair', import_key_pair, 'KeyName PublicKeyMaterial', makes='keypair'),
    operations.row('DescribeKeyPairs', describe_key_pairs, 'KeyNames KeyPairIds Filters IncludePublicKey'),
    operations.row('DeleteKeyPair', delete_key_pair, 'KeyName KeyPairId'),
]
