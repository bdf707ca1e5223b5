"""Create authorities, user certificates and revocation lists, verify signatures and decrypt; no file access.

Keys are RSA, because bundles of images are encrypted for them and EC keys cannot encrypt.
"""
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
VPN = 'vpn'                                  # user ID in the certificates of VPN instances
AUTHORITY_BITS, USER_BITS = 3072, 2048       # sizes of keys
AUTHORITY_DAYS, USER_DAYS = 3650, 365        # lifetimes of certificates
MIN_REMAINING_DAYS = 400  # minimum remaining lifetime of an authority that issues certificates
LIST_DAYS = 30                               # lifetime of a revocation list
MAX_ENCRYPTED = 512                          # maximum bytes of an encrypted text: block of a 4096-bit RSA key
SHORTEST_TEXT = 16                           # minimum characters of a text before encryption; see ``decrypted``


@dataclasses.dataclass(frozen=True)
class Signer:
    """Certificate and key of an authority."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey


def authority(name: str, now: datetime.datetime, parent: Signer | None = None) -> Signer:
    """Create an authority with a new key.

    :param name: project, or name of the root
    :param now: naive UTC, as in all functions here
    :param parent: its issuer; None: self-signed
    """
    key = rsa.generate_private_key(65537, AUTHORITY_BITS)
    # Verifiers look up authorities by subject, so subjects are unique.
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
            # key encipherment: bundles of images are encrypted for this key
            .add_extension(certificates.usage(key_cert_sign=True, crl_sign=True, key_encipherment=True), critical=True)
            .sign(signing, hashes.SHA256()))
    return Signer(made, key)


def of_user(user_id: str, project_id: str, now: datetime.datetime, signer: Signer) -> Signer:
    """Create a key and certificate of a user in a project."""
    return _issued(user_id, project_id, now, signer, ExtendedKeyUsageOID.CLIENT_AUTH)


def of_vpn(project_id: str, now: datetime.datetime, signer: Signer) -> Signer:
    """Create a key and certificate of a project's VPN instance, the only kind of server certificate.

    VPN clients accept only this whole subject, so no certificate of a user or of another project can stand in for it.
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
    """Create the revocation list of an authority.

    :param revoked: {serial number: time}
    """
    number = int(now.replace(tzinfo=datetime.UTC).timestamp() * 1000000)
    made = (x509.CertificateRevocationListBuilder().issuer_name(signer.certificate.subject)
            .last_update(now - certificates.BACKDATED).next_update(now + datetime.timedelta(days=LIST_DAYS))
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
                           critical=False))
    for serial, date in sorted(revoked.items()):
        made = made.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(date).build())
    return made.sign(signer.key, hashes.SHA256())


def decrypted(key: rsa.RSAPrivateKey, data: bytes) -> str | None:
    """Decrypt a text; None if it was encrypted for another key.

    OpenSSL returns random bytes for a wrong padding, so that errors do not reveal the padding (Bleichenbacher). A
    result that is not printable or too short is therefore treated as undecryptable. Random bytes pass this check less
    than once in a billion.
    """
    try:
        found = key.decrypt(data, padding.PKCS1v15())
    except ValueError:                                   # the text is longer or shorter than the key
        return None
    if len(found) < SHORTEST_TEXT or not found.isascii():
        return None
    text = found.decode('ascii')
    return text if text.isprintable() else None


def is_signature(certificate: x509.Certificate, digest: bytes, signature: bytes) -> bool:
    """Verify the signature of a SHA-1 digest with a certificate."""
    key = certificate.public_key()
    try:
        assert isinstance(key, rsa.RSAPublicKey)
        key.verify(signature, digest, padding.PKCS1v15(), utils.Prehashed(hashes.SHA1()))
    except (InvalidSignature, ValueError):               # ValueError: malformed digest
        return False
    return True


def checked_ciphertext(text: str) -> bytes:
    """Decode a hexadecimal text.

    :raises InvalidInput: it is malformed, or too long for a key
    """
    if len(text) <= 2 * MAX_ENCRYPTED:
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    raise exception.InvalidInput(reason=f'the text must be hexadecimal, {MAX_ENCRYPTED} bytes at most.')


def pem(*certificates_: x509.Certificate | x509.CertificateRevocationList) -> str:
    """Format certificates or revocation lists as PEM."""
    return b''.join(each.public_bytes(serialization.Encoding.PEM) for each in certificates_).decode()


def key_pem(key: rsa.RSAPrivateKey) -> str:
    """Format a private key as unencrypted PEM."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption()).decode()


def serial_text(certificate: x509.Certificate) -> str:
    """Format a serial number for operators: 40 hexadecimal digits."""
    return f'{certificate.serial_number:040x}'


def key_name(certificate: x509.Certificate) -> str:
    """Return the file name of an authority's key: the fingerprint of its certificate."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def _begun(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, signing: rsa.RSAPrivateKey,
           now: datetime.datetime, ends_at: datetime.datetime) -> x509.CertificateBuilder:
    return (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - certificates.BACKDATED)
            .not_valid_after(ends_at)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False))
