"""What tests share with nova/tests/functional/test_keypairs.py."""
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519


def _public(key):
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


# the names of tests are made of it: the same in every process
ED25519 = _public(ed25519.Ed25519PrivateKey.from_private_bytes(b'a key of a test, not of a person')) + ' me@host'
