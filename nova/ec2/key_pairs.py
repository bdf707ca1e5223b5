"""EC2 operations on key pairs, which belong to users."""
import base64
from collections.abc import Sequence
import hashlib
from typing import Any
import urllib.parse

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import key_names
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.json_types import JsonDocument

# {first word of a public key: key type in EC2}
KEY_TYPES = {'ssh-rsa': 'rsa', 'ssh-ed25519': 'ed25519'}
# hidden attribute of a generated key: its fingerprints in the compute API and in EC2. The first shows whether another
# key has the name now.
FINGERPRINT = 'fingerprint'


def _key_type(public_key: str) -> str | None:
    return KEY_TYPES.get(public_key.partition(' ')[0])


def fingerprint(public_key: str) -> str | None:
    """Return EC2's fingerprint of an imported public key, or None if the type is neither Ed25519 nor RSA.

    Ed25519: SHA-256 of the OpenSSH key in base64. RSA: MD5 of the public key in DER.
    """
    kind = _key_type(public_key)
    try:
        if kind == 'ed25519':
            blob = base64.b64decode(public_key.split()[1], validate=True)
            return base64.b64encode(hashlib.sha256(blob).digest()).decode()
        if kind == 'rsa':
            key = serialization.load_ssh_public_key(' '.join(public_key.split()[:2]).encode())
            return hashlib.md5(key.public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
                usedforsecurity=False).digest().hex(':')
    except (ValueError, IndexError):
        pass
    return None


def _of_private_key(text: str) -> str:
    """Return EC2's fingerprint of a generated RSA key: SHA-1 of the private key in DER."""
    key = serialization.load_pem_private_key(text.encode(), None)
    return hashlib.sha1(key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        usedforsecurity=False).digest().hex(':')


def _shown(req: operations.Request, pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    uuids = {pair['name']: key_names.uuid_of(req, pair['name']) for pair in pairs}
    known, kept = req.ids.shown('key', uuids.values()), tags.of(req, 'key', list(uuids.values()))
    created = tags.attribute(req, 'key', list(uuids.values()), FINGERPRINT)
    return [{'KeyName': pair['name'], 'KeyFingerprint': _shown_fingerprint(pair, created.get(uuids[pair['name']], '')),
             'KeyPairId': known[uuids[pair['name']]], 'Tags': kept[uuids[pair['name']]]} for pair in pairs]


def _shown_fingerprint(pair: dict[str, Any], created: str) -> str:
    """Return the fingerprint of a key pair.

    :param created: value of the attribute FINGERPRINT; another key may have the name now
    """
    first, _space, second = created.partition(' ')
    return second if first == pair['fingerprint'] else fingerprint(pair['public_key']) or str(pair['fingerprint'])


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
    uuid = key_names.uuid_of(req, pair['name'])
    tags.forget(req, 'key', uuid)                # those of an earlier key that the compute API has deleted
    tags.put(req, 'key', uuid, found)
    return pair, _shown(req, [pair])[0]


def create_key_pair(req: operations.Request, given: operations.Given) -> JsonDocument:
    kind = given.get('KeyType', 'rsa')
    if kind not in KEY_TYPES.values():
        raise errors.invalid('KeyType', kind)
    if given.get('KeyFormat', 'pem') != 'pem':
        raise errors.unsupported('The only supported KeyFormat is pem.')
    if kind == 'ed25519':
        key = ed25519.Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        shown = _make(req, given, public_key=public.decode())[1]
        return {**shown, 'KeyMaterial': key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()).decode()}
    pair, shown = _make(req, given)
    found = _of_private_key(pair['private_key'])
    tags.put_rows(req, 'key', key_names.uuid_of(req, pair['name']), {
        tags.HIDDEN + FINGERPRINT: f'{pair["fingerprint"]} {found}'})
    return {**shown, 'KeyFingerprint': found, 'KeyMaterial': pair['private_key']}


def import_key_pair(req: operations.Request, given: operations.Given) -> JsonDocument:
    try:
        text = given['PublicKeyMaterial'].decode()
    except UnicodeDecodeError:
        raise errors.Ec2Error('InvalidKey.Format', 'The public key is not text.') from None
    return _make(req, given, public_key=text.strip())[1]


def describe_key_pairs(req: operations.Request, given: operations.Given) -> JsonDocument:
    pairs = filters.choose_named(key_names.pairs_of(req), 'name', given.get('KeyNames'), 'InvalidKeyPair.NotFound',
                                 'The key pair {} does not exist.')
    shown = [{**row, 'KeyType': _key_type(pair['public_key']),
              'CreateTime': protocol.time(pair['created_at']) if pair.get('created_at') else None,
             'PublicKey': pair['public_key'] if given.get('IncludePublicKey') else None}
             for pair, row in zip(pairs, _shown(req, pairs))]
    shown = filters.choose(shown, 'KeyPairId', given.get('KeyPairIds'), 'key')
    return {'KeyPairs': filters.apply(shown, given.get('Filters'), {
        'key-name': 'KeyName', 'key-pair-id': 'KeyPairId', 'fingerprint': 'KeyFingerprint'})}


def delete_key_pair(req: operations.Request, given: operations.Given) -> JsonDocument:
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
    with errors.ignored(404):
        req.call('compute', 'DELETE', f'/os-keypairs/{urllib.parse.quote(name, safe="")}')
        tags.forget(req, 'key', key_names.uuid_of(req, name))
    return {'Return': True, 'KeyPairId': given.get('KeyPairId')}


OPERATIONS = [
    operations.row('CreateKeyPair', create_key_pair, 'KeyName KeyType KeyFormat TagSpecifications', makes='keypair'),
    operations.row('ImportKeyPair', import_key_pair, 'KeyName PublicKeyMaterial TagSpecifications', makes='keypair'),
    operations.row('DescribeKeyPairs', describe_key_pairs, 'KeyNames KeyPairIds Filters IncludePublicKey'),
    operations.row('DeleteKeyPair', delete_key_pair, 'KeyName KeyPairId'),
]
