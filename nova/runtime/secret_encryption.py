"""Envelope encryption (AES-256-GCM) of keys in a database with a key file of the deployment.

Without the key file, the database or a copy of the database reveals no key.

Each line of the file is a key: the first key encrypts, all keys decrypt. An encrypted key is bound to the id of its
owner, such as a server: decryption with another id fails.
"""
import base64
import binascii
import hashlib
import logging
import os
import secrets

from cryptography import exceptions
from cryptography.hazmat.primitives.ciphers import aead
from oslo_config.cfg import ConfigOpts

from nova.runtime import durable_files
from nova.runtime import host_identity

LOG = logging.getLogger(__name__)

FILE = 'disk-keys'
KEY_BYTES, NONCE_BYTES = 32, 12
MAX_FILE_BYTES = 65536
CALLED = 'the file of [conductor] disk_keys_file'        # name in messages: users must not see the path


class Unusable(Exception):
    """The key file of the deployment cannot be used; the argument is the reason."""


class SecretCipher:
    """Encryption with the first key of a file, and decryption with any of its keys.

    :param keys: keys of the file, in the order of the file
    :raises Unusable:
    """

    def __init__(self, keys: list[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise Unusable(f'{CALLED} has no lines of base64 with {KEY_BYTES} bytes each')
        self._keys = {name_of(key): aead.AESGCM(key) for key in keys}
        self.first = name_of(keys[0])

    @property
    def names(self) -> set[str]:
        return set(self._keys)

    def encrypt(self, text: str, owner: str) -> str:
        """Encrypt a text.

        :param owner: id of the owner of the text, which decryption must also pass
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        encrypted = self._keys[self.first].encrypt(nonce, text.encode(), owner.encode())
        return base64.b64encode(nonce + encrypted).decode()

    def decrypt(self, name: str, encrypted: str, owner: str) -> str:
        """Decrypt a text.

        :raises Unusable: it was encrypted with another key, or for another server
        """
        if name not in self._keys:
            raise Unusable(f'it was encrypted with a key that {CALLED} does not have')
        try:
            found = base64.b64decode(encrypted, validate=True)
            return self._keys[name].decrypt(found[:NONCE_BYTES], found[NONCE_BYTES:], owner.encode()).decode()
        except (exceptions.InvalidTag, ValueError):
            raise Unusable('its data in the database was changed, or belongs to another server') from None


def name_of(key: bytes) -> str:
    """Return an id for a key; it reveals nothing about the key."""
    return hashlib.sha256(b'name of ' + key).hexdigest()[:16]


def read(path: str) -> list[bytes] | None:
    """Return the keys in a file, or None if there is no file.

    :raises Unusable: the file cannot be read, has too wide permissions, or contains anything but keys
    """
    try:
        with open(path, 'rb') as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Unusable(f'users other than its owner have access to {CALLED}')
            lines = file.read(MAX_FILE_BYTES).split()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unusable(f'{CALLED}: {error.strerror}') from None
    try:
        return [base64.b64decode(line, validate=True) for line in lines]
    except binascii.Error:
        raise Unusable(f'{CALLED} contains a line that is not a key') from None


def make(path: str) -> None:
    """Create a key file with one key; keep an existing file.

    :raises Unusable:
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        durable_files.create(path, base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b'\n')
    except OSError as error:
        raise Unusable(f'{CALLED}: {error.strerror}') from None


def path_of(conf: ConfigOpts) -> str:
    return conf.conductor.disk_keys_file or os.path.join(host_identity.state_path(conf), FILE)


def usable(path: str, used: set[str]) -> SecretCipher:
    """Return a SecretCipher for new keys, if the file has every key with which keys in the database are encrypted.

    :param used: names of the file keys that are in use
    :raises Unusable:
    """
    cipher = read_cipher(path, used)
    if not used <= cipher.names:
        raise Unusable('other keys of this deployment were encrypted with a file that this service does not have')
    return cipher


def read_cipher(path: str, used: set[str] | None = None) -> SecretCipher:
    """Return a SecretCipher for the key file.

    :param used: names of the keys in existing rows; if empty, create a missing file. None: unknown, create no file
    :raises Unusable:
    """
    keys = read(path)
    if keys is None and used is not None and not used:
        make(path)
        LOG.warning('%s was made. Encrypted disks of servers and encrypted volumes cannot be opened without it: keep a '
                    "copy, away from the copies of the database, and give it to this deployment's other conductors.",
                    path)
        keys = read(path)
    if keys is None:
        raise Unusable(f'this host does not have {CALLED}')
    return SecretCipher(keys)
