"""Key pairs: generation, and checks of users' public keys."""
import base64
import binascii
import collections
import datetime
import hashlib
import os
import re
import threading

from cryptography import exceptions as crypto_errors
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import oid

from nova import exception
from nova.runtime import concurrency

RSA_BITS = 2048                   # RSA, as all guests support it and "nova get-password" decrypts with it
CERTIFICATE_DAYS = 3650
_SSH_TYPE = re.compile(r'(ssh-(rsa|dss|ed25519)|ecdsa-sha2-nistp(256|384|521)|'
                       r'sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)\Z')
_MIN_RSA_BITS = 1024
_PRINCIPAL = x509.ObjectIdentifier('1.3.6.1.4.1.311.20.2.3')       # user principal name


def fingerprint(public_key: str, type_: str = 'ssh') -> str:
    """Return the fingerprint of a public key: MD5 of an SSH key, SHA-1 of a certificate, in pairs of hex digits.

    :raises KeypairInvalid: the key is not of this type
    """
    return _certificate_fingerprint(public_key) if type_ == 'x509' else _ssh_fingerprint(public_key)


class Generator:
    """Generates key pairs with limited concurrency, because each pair takes a core for some tenths of a second.

    :param at_once: maximum number of concurrent generations
    :param waiting: maximum number of further requests that wait
    :param of_one: maximum number of running and waiting requests of one user
    """

    def __init__(self, at_once: int = max(1, (os.cpu_count() or 1) // 2), waiting: int = 8, of_one: int = 4) -> None:
        self._most, self._of_one = at_once + waiting, of_one
        self._slots, self._lock = threading.Semaphore(at_once), threading.Lock()
        self._users: collections.Counter[str] = collections.Counter()

    def generate(self, type_: str, user_id: str) -> tuple[str, str, str]:
        """Call the function ``generate`` when a slot is free, and return its result.

        :raises TooManyRequests: too many requests of this user or of all users wait
        """
        with self._lock:
            if self._users.total() >= self._most or self._users[user_id] >= self._of_one:
                raise exception.TooManyRequests(retry_after=1)
            self._users[user_id] += 1
        try:
            with self._slots:
                return concurrency.blocking(generate, type_, user_id)
        finally:
            with self._lock:
                self._users[user_id] -= 1
                if not self._users[user_id]:
                    del self._users[user_id]


def generate(type_: str, user_id: str) -> tuple[str, str, str]:
    """Return (private key, public key, fingerprint) of a new pair as texts."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
                                if type_ == 'ssh' else serialization.PrivateFormat.PKCS8,
                                serialization.NoEncryption()).decode()
    if type_ == 'x509':
        public = _self_signed(key, user_id)
    else:
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH,
                                               serialization.PublicFormat.OpenSSH).decode()
        public += ' Generated-by-Nova'
    return private, public, fingerprint(public, type_)


def _ssh_fingerprint(public_key: str) -> str:
    parts = public_key.strip().split(None, 2)
    if len(parts) < 2 or '\n' in public_key.strip() or not _SSH_TYPE.match(parts[0]):
        raise exception.KeypairInvalid(reason='it is not a public key in OpenSSH format.')
    try:
        blob = base64.b64decode(parts[1], validate=True)
    except (binascii.Error, ValueError):
        raise exception.KeypairInvalid(reason='the key is not base64.') from None
    length = int.from_bytes(blob[:4], 'big')
    if blob[4:4 + length] != parts[0].encode():
        raise exception.KeypairInvalid(reason=f'the key is not of type {parts[0]}.')
    if parts[0].startswith(('ssh-rsa', 'ssh-ed', 'ecdsa')):
        _load_ssh(' '.join(parts[:2]).encode())
    digest = hashlib.md5(blob, usedforsecurity=False).hexdigest()
    return ':'.join(re.findall('..', digest))


def _load_ssh(text: bytes) -> None:
    try:
        key = serialization.load_ssh_public_key(text)
    except (ValueError, NotImplementedError, crypto_errors.UnsupportedAlgorithm):      # e.g. a compressed ECDSA point
        raise exception.KeypairInvalid(reason='the key is damaged.') from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _MIN_RSA_BITS:
        raise exception.KeypairInvalid(reason=f'an RSA key must have {_MIN_RSA_BITS} bits at least.')


def _certificate_fingerprint(text: str) -> str:
    try:
        certificate = x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise exception.KeypairInvalid(reason='it is not a certificate in PEM format.') from None
    digest = certificate.fingerprint(hashes.SHA1()).hex()
    return ':'.join(re.findall('..', digest))


def _utf8_string(text: str) -> bytes:
    """Return a text as UTF8String in DER, truncated to 255 bytes."""
    data = text.encode()[:255]
    return b'\x0c' + (b'' if len(data) < 128 else b'\x81') + bytes([len(data)]) + data


def _self_signed(key: rsa.RSAPrivateKey, user_id: str) -> str:
    """Return a client certificate with a principal name that a Windows guest maps to an account."""
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, user_id[:64] or 'user')])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.OtherName(_PRINCIPAL, _utf8_string(
            f'{user_id[:100]}@localhost'))]), critical=False)
        .sign(key, hashes.SHA256()))
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
