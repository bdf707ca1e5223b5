"""Authorities, certificates of users and revocation lists, and their signatures. Without files.

RSA, because bundles of images are encrypted for these keys, and EC keys do not encrypt.
"""
from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import datetime
import uuid

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric import utils
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.oid import NameOID

from nova import exception
from nova.runtime import certificates

ORGANIZATION = 'nova'
VPN = 'vpn'                                  # in place of a user's id, of VPN instances
AUTHORITY_BITS, USER_BITS = 3072, 2048       # an authority lives for ten years, a user's certificate for one
AUTHORITY_DAYS, USER_DAYS = 3650, 365
LEFT_DAYS = 400                              # an authority issues nothing that would outlive it
LIST_DAYS = 30                               # a revocation list that is not renewed is not trusted for longer
MAX_ENCRYPTED = 512                          # bytes: RSA of 4096 bits
SHORTEST_TEXT = 16                           # characters of a text that was encrypted; see ``decrypted``


@dataclasses.dataclass(frozen=True)
class Signer:
    """The certificate of an authority, and its key."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey


def authority(name: str, now: datetime.datetime, parent: Signer | None = None) -> Signer:
    """A new authority with a key of its own.

    :param name: of a project, or of the whole
    :param now: naive UTC, as everywhere here
    :param parent: its issuer; None: it is self-signed
    """
    key = rsa.generate_private_key(65537, AUTHORITY_BITS)
    # Who verifies looks an authority up by its subject: no two of them have the same.
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
                         x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, name),
                         x509.NameAttribute(NameOID.COMMON_NAME, f'authority {uuid.uuid4()}')])
    ends_at = now + datetime.timedelta(days=AUTHORITY_DAYS)
    if parent is not None:
        ends_at = min(ends_at, certificates.ends_at(parent.certificate))
    issuer = parent.certificate.subject if parent else subject
    signing = parent.key if parent else key
    made = (_begun(subject, issuer, key, signing, now, ends_at)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0 if parent else 1), critical=True)
            # key encipherment: bundles of images are encrypted for it
            .add_extension(certificates.usage(key_cert_sign=True, crl_sign=True, key_encipherment=True), critical=True)
            .sign(signing, hashes.SHA256()))
    return Signer(made, key)


def of_user(user_id: str, project_id: str, now: datetime.datetime, signer: Signer) -> Signer:
    """A new key of a user in a project, and its certificate."""
    return _issued(user_id, project_id, now, signer, ExtendedKeyUsageOID.CLIENT_AUTH)


def of_vpn(project_id: str, now: datetime.datetime, signer: Signer) -> Signer:
    """A new key of the VPN instance of a project, and its certificate: the one kind that is a server's.

    Clients look at the whole subject: a VPN instance of another project has another one, and a user none for servers.
    """
    return _issued(VPN, project_id, now, signer, ExtendedKeyUsageOID.SERVER_AUTH)


def _issued(name: str, project_id: str, now: datetime.datetime, signer: Signer,
               use: x509.ObjectIdentifier) -> Signer:
    key = rsa.generate_private_key(65537, USER_BITS)
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
                         x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, project_id),
                         x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (_begun(subject, signer.certificate.subject, key, signer.key, now,
                   now + datetime.timedelta(days=USER_DAYS))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(certificates.usage(digital_signature=True, key_encipherment=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .sign(signer.key, hashes.SHA256()))
    return Signer(made, key)


def revocation_list(signer: Signer, revoked: Mapping[int, datetime.datetime],
                    now: datetime.datetime) -> x509.CertificateRevocationList:
    """The list of an authority.

    :param revoked: {serial number: when}
    """
    number = int(now.replace(tzinfo=datetime.UTC).timestamp() * 1000000)
    made = (x509.CertificateRevocationListBuilder().issuer_name(signer.certificate.subject)
            .last_update(now).next_update(now + datetime.timedelta(days=LIST_DAYS))
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
                           critical=False))
    for serial, date in sorted(revoked.items()):
        made = made.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(date).build())
    return made.sign(signer.key, hashes.SHA256())


def decrypted(key: rsa.RSAPrivateKey, data: bytes) -> str | None:
    """The text that was encrypted for a key; None when it was for another one.

    OpenSSL answers a wrong padding with random bytes, so that refusals say nothing of how a message is padded. What
    is no printable text, or shorter than a key, is therefore taken for one that was not for this key: at random it
    happens less often than once in a billion.
    """
    try:
        found = key.decrypt(data, padding.PKCS1v15())
    except ValueError:                                   # of another length than the key's
        return None
    if len(found) < SHORTEST_TEXT or not found.isascii():
        return None
    text = found.decode('ascii')
    return text if text.isprintable() else None


def is_signature(certificate: x509.Certificate, digest: bytes, signature: bytes) -> bool:
    """Whether the key of a certificate has signed a SHA-1 digest."""
    key = certificate.public_key()
    try:
        assert isinstance(key, rsa.RSAPublicKey)
        key.verify(signature, digest, padding.PKCS1v15(), utils.Prehashed(hashes.SHA1()))
    except (InvalidSignature, ValueError):               # ValueError: no digest
        return False
    return True


def checked_ciphertext(text: str) -> bytes:
    """The bytes of a hexadecimal text.

    :raises InvalidInput: it is none, or too long for a key
    """
    if len(text) <= 2 * MAX_ENCRYPTED:
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    raise exception.InvalidInput(reason=f'the encrypted text must be hexadecimal, {MAX_ENCRYPTED} bytes at most.')


def pem(*certificates_: x509.Certificate | x509.CertificateRevocationList) -> str:
    """PEM text of certificates or revocation lists."""
    return b''.join(each.public_bytes(serialization.Encoding.PEM) for each in certificates_).decode()


def key_pem(key: rsa.RSAPrivateKey) -> str:
    """PEM text of a private key, not encrypted."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption()).decode()


def serial_text(certificate: x509.Certificate) -> str:
    """The serial number of a certificate as operators see it: 40 hexadecimal digits."""
    return f'{certificate.serial_number:040x}'


def key_name(certificate: x509.Certificate) -> str:
    """What the key of an authority is called: the fingerprint of its certificate."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def _begun(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, signing: rsa.RSAPrivateKey,
           now: datetime.datetime, ends_at: datetime.datetime) -> x509.CertificateBuilder:
    return (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - certificates.BACKDATED)
            .not_valid_after(ends_at)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False))
