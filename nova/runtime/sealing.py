"""Keys that a database has, sealed (AES-256-GCM) with a key of the deployment, which is in a file: who has the database
alone, or a copy of it, opens nothing.

The first line of the file seals; each of them opens what it has sealed. A key is bound to what it is for.
"""
from __future__ import annotations

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
MOST_BYTES = 65536                       # of the file
CALLED = 'the file of [conductor] disk_keys_file'        # in sentences: users get them, and no paths of this host


class Unusable(Exception):
    """The file of the deployment cannot be used; the argument says why."""


class Sealer:
    """Seals keys with the first key of a file, and opens what any of them has sealed.

    :param keys: of the file, in its order
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

    def seal(self, text: str, owner: str) -> str:
        """
        :param owner: what it is for, which has to be named again to open it
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = self._keys[self.first].encrypt(nonce, text.encode(), owner.encode())
        return base64.b64encode(nonce + sealed).decode()

    def open(self, name: str, sealed: str, owner: str) -> str:
        """
        :raises Unusable: it was sealed with another key, or for another server
        """
        if name not in self._keys:
            raise Unusable(f'it was sealed with a key that {CALLED} does not have')
        try:
            found = base64.b64decode(sealed, validate=True)
            return self._keys[name].decrypt(found[:NONCE_BYTES], found[NONCE_BYTES:], owner.encode()).decode()
        except (exceptions.InvalidTag, ValueError):
            raise Unusable('what the database has of it was changed, or is of another server') from None


def name_of(key: bytes) -> str:
    """What distinguishes keys and reveals none of them."""
    return hashlib.sha256(b'name of ' + key).hexdigest()[:16]


def read(path: str) -> list[bytes] | None:
    """The keys of a file; None: there is no file.

    :raises Unusable: it cannot be read, others may read it, or it holds something else
    """
    try:
        with open(path, 'rb') as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Unusable(f'others than its owner may use {CALLED}')
            lines = file.read(MOST_BYTES).split()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unusable(f'{CALLED}: {error.strerror}') from None
    try:
        return [base64.b64decode(line, validate=True) for line in lines]
    except binascii.Error:
        raise Unusable(f'{CALLED} holds something else than keys') from None


def make(path: str) -> None:
    """Make a file with one key; one that another process has made meanwhile stays.

    :raises Unusable:
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        durable_files.create(path, base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b'\n')
    except OSError as error:
        raise Unusable(f'{CALLED}: {error.strerror}') from None


def path_of(conf: ConfigOpts) -> str:
    return conf.conductor.disk_keys_file or os.path.join(host_identity.state_path(conf), FILE)


def usable(path: str, used: set[str]) -> Sealer:
    """What new keys may be sealed with.

    :param used: names of the keys that rows were sealed with
    :raises Unusable:
    """
    sealer = read_sealer(path, used)
    if not used <= sealer.names:
        raise Unusable('other keys of this deployment were sealed with a file that this service does not have')
    return sealer


def read_sealer(path: str, used: set[str] | None = None) -> Sealer:
    """As the file is now.

    :param used: keys that rows were sealed with; with none it may be made now. None: there are some
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
    return Sealer(keys)
