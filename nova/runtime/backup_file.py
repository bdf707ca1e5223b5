"""Format of a backup file: a header, then chunks with the data of named members, encrypted if a passphrase is given.

    header     MAGIC, then one line of JSON: {"format": 1, "encryption": null or the parameters of scrypt}
    chunk      kind (1 byte: MORE or LAST), length (4 bytes, big endian), payload, tag
    stream     the payloads of all chunks in order: members, then the member MANIFEST with size and SHA-256 of each
    member     length of the JSON (4 bytes), JSON {"name": …, "size": …}, data

Encrypted payloads use AES-256-GCM. The nonce is the number of the chunk; the header and the kind are associated data.
The key is derived by scrypt from the passphrase and a random salt, so each file has its own key. The tag of a plain
payload is the SHA-256 of the previous tag, the kind and the payload. The reader returns no byte of a chunk with a wrong
tag, and detects a truncated file by the missing LAST chunk.
"""
import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
import dataclasses
import hashlib
import json
import re
import secrets
import struct
from typing import Any, BinaryIO, TypedDict, TypeGuard

from cryptography import exceptions
from cryptography.hazmat.primitives.ciphers import aead
from cryptography.hazmat.primitives.kdf import scrypt

from nova import exception
from nova.json_types import Json
from nova.json_types import JsonDocument
from nova.runtime import durable_files

MAGIC = b'nova state backup\n'
FORMAT = 1
MANIFEST = 'manifest.json'
CHUNK = 1 << 20                          # maximum bytes of a payload
MORE, LAST = b'\0', b'\1'
TAG_BYTES = {True: 16, False: 32}        # {whether the file is encrypted: bytes of a tag}
MAX_LINE_BYTES = 4096                         # maximum bytes of the header line, and of a member's JSON line
MAX_MEMBERS = 100_000
MAX_MANIFEST_BYTES = 32 << 20
# With these parameters scrypt needs 64 MiB and about 0.2 s. The range limits the cost of reading an untrusted file.
SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 16, 8, 1
SCRYPT_N_RANGE = (1 << 14, 1 << 18)
SALT_BYTES = 16

_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.@%+-]*(/[A-Za-z0-9_][A-Za-z0-9_.@%+-]*){0,7}')
_PREFIX = struct.Struct('>cI')
_LENGTH = struct.Struct('>I')

Seal = Callable[[bytes, bytes], bytes]               # (kind, payload) -> payload with its tag


class Encryption(TypedDict):
    """Parameters of scrypt; ``salt`` in base64."""

    kdf: str
    n: int
    r: int
    p: int
    salt: str


class Damaged(exception.InvalidInput, template='This backup cannot be used: %(reason)s'): ...


def is_encrypted(path: str) -> bool:
    """Return whether a backup is encrypted; raise OSError for an unreadable file, Damaged for another kind of file."""
    with open(path, 'rb') as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise Damaged(reason='it is not a backup.')
        return _json(file.readline(MAX_LINE_BYTES)).get('encryption') is not None


def is_name(name: Json) -> TypeGuard[str]:
    """Return whether a text is a member's name: a relative path without a part that begins with a dot."""
    return isinstance(name, str) and len(name) <= 512 and _NAME.fullmatch(name) is not None


def name_of(file_name: str) -> str:
    """Return a file name as the last part of a member's name."""
    return re.sub('[^A-Za-z0-9_.@%+-]', '_', file_name).lstrip('.@%+-')[:255] or '_'


@dataclasses.dataclass(frozen=True)
class Entry:
    """Entry of the manifest for one member."""

    name: str
    size: int
    sha256: str


class Writer:
    """Writer of a backup to an open file; ``finish`` writes the manifest.

    :param passphrase: None: the file is not encrypted
    """

    def __init__(self, file: BinaryIO, passphrase: str | None = None) -> None:
        self._file, self._buffer, self._entries = file, bytearray(), dict[str, Entry]()
        parameters: Encryption | None = None
        if passphrase is not None:
            parameters = {'kdf': 'scrypt', 'n': SCRYPT_N, 'r': SCRYPT_R, 'p': SCRYPT_P,
                          'salt': base64.b64encode(secrets.token_bytes(SALT_BYTES)).decode()}
        header = MAGIC + json.dumps({'format': FORMAT, 'encryption': parameters}).encode() + b'\n'
        file.write(header)
        self._seal = _plain_tags(header) if parameters is None else _Cipher(header, parameters, passphrase or '').seal

    def add(self, name: str, data: bytes) -> None:
        """Add a member."""
        self.add_stream(name, len(data), (data,))

    def add_stream(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Add a member from pieces of its data.

        :raises InvalidInput: the pieces are not ``size`` bytes together
        """
        if not is_name(name) or name in self._entries or len(self._entries) >= MAX_MEMBERS:
            raise exception.InvalidInput(f'A backup cannot have the member {name!r}.')
        self._begin(name, size)
        digest, left = hashlib.sha256(), size
        for piece in pieces:
            left -= len(piece)
            if left < 0:
                break
            digest.update(piece)
            self._put(piece)
        if left:
            raise exception.InvalidInput(f'{name} changed while it was copied. Make the backup again.')
        self._entries[name] = Entry(name, size, digest.hexdigest())

    def finish(self, manifest: JsonDocument) -> None:
        """Write the manifest with the list of members, and the last chunk."""
        text = json.dumps({**manifest, 'members': [dataclasses.asdict(entry) for entry in self._entries.values()]})
        self._begin(MANIFEST, len(text.encode()))
        self._put(text.encode())
        self._flush(LAST)

    def _begin(self, name: str, size: int) -> None:
        line = json.dumps({'name': name, 'size': size}).encode()
        self._put(_LENGTH.pack(len(line)) + line)

    def _put(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) > CHUNK:
            self._flush(MORE)

    def _flush(self, kind: bytes) -> None:
        payload = bytes(self._buffer[:CHUNK])
        del self._buffer[:CHUNK]
        self._file.write(_PREFIX.pack(kind, len(payload)) + self._seal(kind, payload))


class Reader:
    """Reader of the backup in an open file, from the beginning of the file.

    encrypted    whether the backup needs a passphrase

    :param passphrase: called if the file is encrypted
    :raises Damaged: it is not a backup, is of a newer format, or the passphrase is wrong
    """

    def __init__(self, file: BinaryIO, passphrase: Callable[[], str]) -> None:
        self._file = file
        file.seek(0)
        header = file.read(len(MAGIC)) + file.readline(MAX_LINE_BYTES)
        if not header.startswith(MAGIC) or not header.endswith(b'\n'):
            raise Damaged(reason='it is not a file of nova-manage state backup.')
        words = _json(header[len(MAGIC):])
        if words.get('format') != FORMAT:
            raise Damaged(reason=f'its format is {words.get("format")!r}, and this release reads {FORMAT}.')
        parameters: Encryption | None = words.get('encryption')
        self.encrypted = parameters is not None
        self._open = _plain_checks(header) if parameters is None else _Cipher(header, parameters, passphrase()).open
        self._payload, self._ended, self._number = memoryview(b''), False, 0

    def members(self) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """Yield (name, size, pieces of data) of each member in order; after the last one, set ``manifest``.

        Data that the caller does not read is checked and skipped.

        :raises Damaged: something is missing, was changed, or differs from the manifest
        """
        found: dict[str, Entry] = {}
        while True:
            line = _json(self._exactly(self._bounded(_LENGTH.unpack(self._exactly(_LENGTH.size))[0], MAX_LINE_BYTES)))
            name, size = line.get('name'), line.get('size')
            if not is_name(name) or type(size) is not int or size < 0 or name in found or len(found) >= MAX_MEMBERS:
                raise Damaged(reason=f'it has an invalid member: {str(name)[:80]!r}.')
            if name == MANIFEST:
                self._finish(self._exactly(self._bounded(size, MAX_MANIFEST_BYTES)), found)
                return
            digest = hashlib.sha256()
            pieces = self._pieces(size, digest.update)
            yield name, size, pieces
            for _piece in pieces:
                pass
            found[name] = Entry(name, size, digest.hexdigest())

    def _finish(self, text: bytes, found: dict[str, Entry]) -> None:
        if self._payload or not self._ended or self._file.read(1):
            raise Damaged(reason='it has data after its end.')
        self.manifest = _json(text)
        if self.manifest.get('members') != [dataclasses.asdict(entry) for entry in found.values()]:
            raise Damaged(reason='its members are not those of its manifest.')

    def _pieces(self, size: int, update: Callable[[bytes], None]) -> Iterator[bytes]:
        while size:
            piece = self._some(size)
            size -= len(piece)
            update(piece)
            yield piece

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            parts.append(self._some(size))
            size -= len(parts[-1])
        return b''.join(parts)

    def _some(self, most: int) -> bytes:
        """Return the next bytes of the stream: at least one, at most ``most``."""
        while not self._payload:
            if self._ended:
                raise Damaged(reason='it ends too early.')
            self._next()
        piece = bytes(self._payload[:most])
        self._payload = self._payload[most:]
        return piece

    def _next(self) -> None:
        """Read the next chunk."""
        prefix = self._file.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size:
            raise Damaged(reason='it is truncated.')
        kind, length = _PREFIX.unpack(prefix)
        if kind not in (MORE, LAST):
            raise Damaged(reason='it was changed.')
        size = self._bounded(length, CHUNK) + TAG_BYTES[self.encrypted]
        sealed = self._file.read(size)
        if len(sealed) < size:
            raise Damaged(reason='it is truncated.')
        try:
            self._payload = memoryview(self._open(kind, sealed))
        except exceptions.InvalidTag:
            raise Damaged(reason=self._why_refused()) from None
        self._ended = kind == LAST
        self._number += 1

    def _why_refused(self) -> str:
        if self.encrypted and not self._number:
            return 'the passphrase is wrong, or the file was changed.'
        return 'it was changed.'

    @staticmethod
    def _bounded(size: int, most: int) -> int:
        if size > most:
            raise Damaged(reason='it was changed.')
        return size


class _Cipher:
    """AES-256-GCM of the chunks of one file."""

    def __init__(self, header: bytes, parameters: Encryption, passphrase: str) -> None:
        self._associated = hashlib.sha256(header).digest()
        self._aead = aead.AESGCM(_derive(parameters, passphrase))
        self._count = 0

    def seal(self, kind: bytes, payload: bytes) -> bytes:
        return self._aead.encrypt(self._nonce(), payload, self._associated + kind)

    def open(self, kind: bytes, sealed: bytes) -> bytes:
        return self._aead.decrypt(self._nonce(), sealed, self._associated + kind)

    def _nonce(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(12, 'big')


def _derive(parameters: Encryption, passphrase: str) -> bytes:
    try:
        salt = base64.b64decode(parameters['salt'], validate=True)
        n, r, p = parameters['n'], parameters['r'], parameters['p']
        known = parameters['kdf'] == 'scrypt' and len(salt) == SALT_BYTES and (r, p) == (SCRYPT_R, SCRYPT_P)
        low, high = SCRYPT_N_RANGE
        if not known or type(n) is not int or not low <= n <= high or n & n - 1:
            raise ValueError
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise Damaged(reason='this release does not support its encryption.') from None
    return scrypt.Scrypt(salt=salt, length=32, n=n, r=r, p=p).derive(passphrase.encode())


def _plain_tags(header: bytes) -> Seal:
    """Return the function that appends tags to chunks of an unencrypted file."""
    last = hashlib.sha256(header).digest()

    def seal(kind: bytes, payload: bytes) -> bytes:
        nonlocal last
        last = hashlib.sha256(last + kind + payload).digest()
        return payload + last
    return seal


def _plain_checks(header: bytes) -> Seal:
    """Return the function that checks and removes the tags of ``_plain_tags``."""
    seal = _plain_tags(header)

    def check(kind: bytes, sealed: bytes) -> bytes:
        payload = sealed[:-TAG_BYTES[False]]
        if seal(kind, payload) != sealed:
            raise exceptions.InvalidTag
        return payload
    return check


def _json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Damaged(reason='it was changed.') from None
    if not isinstance(found, dict):
        raise Damaged(reason='it was changed.')
    return found


def write_whole(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write a file (mode 0600) under a temporary name, and rename it when it is complete on disk.

    :param write: function(open file)
    :raises OSError:
    """
    with durable_files.replacing(path) as file:
        write(file)
