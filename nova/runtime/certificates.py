"""Certificates of a deployment: its own certificate authority, and the certificates that the authority issues.

They are files of one directory. Clients trust ``ca.pem``; ``ca.key`` is the key of the authority. ``NAME.pem`` and
``NAME.key`` belong to a server or a client. No certificate is valid for both uses, so that the key of a server cannot
authenticate a client. Private keys are readable by their owner only. ``ca.pem`` may contain several authorities, the
newest first. An earlier authority stays in the file until it expires, so clients still trust certificates that are
not renewed yet.

    authority = Authority(directory)
    pair = authority.pair('api', ['cloud.example.org', '192.0.2.10'])       # issued or renewed if necessary
    context = server_context(pair)
"""
from collections.abc import Callable, Iterable, Iterator
import contextlib
import dataclasses
import datetime
import fcntl
import ipaddress
import os
import pathlib
import re
import ssl
from typing import cast
import uuid

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.oid import NameOID

from nova import exception
from nova.runtime import durable_files
from nova import utils

AUTHORITY_DAYS = 3650
AUTHORITY_RENEWAL_DAYS = 400   # remaining days at renewal: no certificate is valid longer, so an authority outlives all
DAYS = 90                     # validity of a certificate; limits the use of a stolen key
RENEWAL_DAYS = 30                # remaining days at renewal: time to notice that a renewal failed
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH      # purpose of a certificate
BACKDATED = datetime.timedelta(hours=1)         # a validity starts this long before now: a client's clock may be slow

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}')
_LABEL = r'[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?'
_HOST = re.compile(rf'(\*\.)?({_LABEL}\.)*{_LABEL}')


@dataclasses.dataclass(frozen=True)
class Pair:
    """Paths of a certificate with its chain, and of its private key."""

    certificate: pathlib.Path
    key: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Status:
    """One certificate of the directory, for operators.

    hosts       host names and addresses; () for an authority
    subject     common name
    uses        SERVER or CLIENT; a certificate of an earlier release has both
    ends_at     end of the validity, naive UTC
    """

    name: str
    hosts: tuple[str, ...]
    ends_at: datetime.datetime
    fingerprint: str
    uses: tuple[x509.ObjectIdentifier, ...] = ()
    subject: str = ''


class Authority:
    """The certificates of one directory, issued at first use.

    Several processes may use one directory; a file lock serializes changes.

    :param now: function that returns the time (naive UTC)
    """

    def __init__(self, directory: str | os.PathLike[str], now: Callable[[], datetime.datetime] = utils.utcnow) -> None:
        self.directory = pathlib.Path(directory)
        self._now = now

    @property
    def trusted(self) -> pathlib.Path:
        """The file with the authorities that clients trust."""
        return self.directory / 'ca.pem'

    def pair(self, name: str, hosts: Iterable[str], days: int = DAYS, use: x509.ObjectIdentifier = SERVER) -> Pair:
        """Return the certificate of a server or client with these host names and addresses.

        A missing certificate is issued for ``days``. An existing certificate is replaced if it expires within
        RENEWAL_DAYS, has other hosts or another use, or is not signed by the newest authority.

        :raises InvalidInput: a name is invalid, or the directory cannot be used
        """
        hosts = _checked_hosts(hosts)
        pair = self._files(name)
        if not self._is_good(pair, hosts, use):
            with self._changing():
                if not self._is_good(pair, hosts, use):       # another process may have issued it
                    self._issue(pair, name, hosts, use, days)
        return pair

    def renew(self, name: str, hosts: Iterable[str], use: x509.ObjectIdentifier = SERVER,
              subject: str | None = None) -> Pair:
        """Replace a certificate and its key unconditionally.

        :param subject: common name, by which servers identify clients; None: the name of the files
        """
        hosts, pair = _checked_hosts(hosts), self._files(name)
        with self._changing():
            self._issue(pair, subject or name, hosts, use)
        return pair

    def renew_authority(self) -> None:
        """Create a new authority. Certificates are renewed at their next use; the old authority stays trusted."""
        with self._changing():
            self._make_authority()

    def status(self) -> list[Status]:
        """Return the certificates of the directory, the authorities first; an empty list before the first use."""
        found = [Status('ca', (), ends_at(certificate), _fingerprint(certificate))
                 for certificate in self._authorities()]
        for path in sorted(self.directory.glob('*.pem')):
            if path != self.trusted:
                certificate = _load(path)[0]
                found.append(Status(path.stem, tuple(_hosts(certificate)), ends_at(certificate),
                                    _fingerprint(certificate), _uses(certificate), _subject(certificate)))
        return found

    # ---- steps

    def _files(self, name: str) -> Pair:
        if not _NAME.fullmatch(name) or name == 'ca':
            raise exception.InvalidInput(reason=f'{name!r} cannot be the name of a certificate.')
        return Pair(self.directory / f'{name}.pem', self.directory / f'{name}.key')

    def _authorities(self) -> list[x509.Certificate]:
        return _load(self.trusted) if self.trusted.exists() else []

    def _is_good(self, pair: Pair, hosts: list[str], use: x509.ObjectIdentifier) -> bool:
        authorities = self._authorities()
        if not authorities or not pair.certificate.exists() or not pair.key.exists():
            return False
        certificate = _load(pair.certificate)[0]
        return (set(_hosts(certificate)) == set(hosts) and _uses(certificate) == (use,)
                and _is_signed_by(certificate, authorities[0])
                and ends_at(certificate) - self._now() > datetime.timedelta(days=RENEWAL_DAYS)
                and _belong_together(certificate, pair.key))

    def _issue(self, pair: Pair, name: str, hosts: list[str], use: x509.ObjectIdentifier, days: int = DAYS) -> None:
        authority, signing_key = self._authority()
        key = ec.generate_private_key(ec.SECP256R1())
        now = self._now()
        made = (_builder(name, authority.subject, key.public_key(), now, days)
                .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
                .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
                # not critical: otherwise libvirt and QEMU would require key encipherment, which EC keys do not support
                .add_extension(usage(digital_signature=True), critical=False)
                .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
                               critical=False)
                .sign(signing_key, hashes.SHA256()))
        # Between these writes the files do not match: a concurrent ``pair`` waits for the lock and checks again.
        write(pair.key, _private(key), 0o600)
        write(pair.certificate, made.public_bytes(serialization.Encoding.PEM), 0o644)

    def _authority(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Return the signing (certificate, key); create them if they are missing or expire too soon."""
        found = self._authorities()
        if (not found or ends_at(found[0]) - self._now() < datetime.timedelta(days=AUTHORITY_RENEWAL_DAYS)
                or not _belong_together(found[0], self.directory / 'ca.key')):
            self._make_authority()
            found = self._authorities()
        key = serialization.load_pem_private_key((self.directory / 'ca.key').read_bytes(), None)
        return found[0], cast(ec.EllipticCurvePrivateKey, key)          # for the type checker: the key is an EC key

    def _make_authority(self) -> None:
        now = self._now()
        before = [certificate for certificate in self._authorities() if ends_at(certificate) > now]
        key = ec.generate_private_key(ec.SECP256R1())
        # Clients look up an authority by its subject, so the subject must be unique.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f'nova authority {uuid.uuid4()}')])
        made = (_builder(None, subject, key.public_key(), now, AUTHORITY_DAYS, subject)
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(usage(key_cert_sign=True, crl_sign=True), critical=True)
                .sign(key, hashes.SHA256()))
        write(self.directory / 'ca.key', _private(key), 0o600)
        write(self.trusted, b''.join(certificate.public_bytes(serialization.Encoding.PEM)
                                      for certificate in (made, *before)), 0o644)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            self.directory.chmod(0o755)                      # clients must read ca.pem; key files have mode 0600
            with open(self.directory / 'lock', 'a') as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise exception.InvalidInput(
                reason=f'{self.directory} cannot hold certificates: {error.strerror}.') from None


def server_context(pair: Pair) -> ssl.SSLContext:
    """Return the TLS context of a server, for TLS 1.2 and later. ``load`` replaces its certificate.

    :raises InvalidInput: the files are not a certificate with its key
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could repeat renegotiations to consume CPU time.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    load(context, pair)
    return context


def load(context: ssl.SSLContext, pair: Pair) -> None:
    """Load a certificate and its key, for new connections of the context.

    :raises InvalidInput: as ``server_context``
    """
    try:
        context.load_cert_chain(pair.certificate, pair.key)
    except ssl.SSLError as error:
        raise exception.InvalidInput(reason=f'{pair.certificate} and {pair.key} are not a certificate and its key: '
                                            f'{error.reason or "they cannot be read"}.') from None
    except OSError as error:
        raise exception.InvalidInput(reason=f'{pair.certificate} or {pair.key} cannot be read: '
                                            f'{error.strerror}.') from None


# ---- parts of a certificate ------------------------------------------------------

def _checked_hosts(hosts: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(_normal(host) for host in hosts))
    if not found:
        raise exception.InvalidInput(reason='a certificate needs a host name or an address.')
    return found


def _normal(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host.strip('[]')))
    except ValueError:
        pass
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise exception.InvalidInput(reason=f'{host!r} is neither a host name nor an address.')
    return host.lower()


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _hosts(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names if isinstance(name, (x509.DNSName, x509.IPAddress))]


def _subject(certificate: x509.Certificate) -> str:
    return ''.join(str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME))


def _uses(certificate: x509.Certificate) -> tuple[x509.ObjectIdentifier, ...]:
    try:
        return tuple(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return ()


def _builder(name: str | None, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime.datetime,
             days: int, subject: x509.Name | None = None) -> x509.CertificateBuilder:
    subject = subject or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name or '')])
    return (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
            .serial_number(x509.random_serial_number()).not_valid_before(now - BACKDATED)
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False))


def usage(**wanted: bool) -> x509.KeyUsage:
    """Return a KeyUsage with the wanted uses only."""
    names = ('digital_signature', 'content_commitment', 'key_encipherment', 'data_encipherment', 'key_agreement',
             'key_cert_sign', 'crl_sign', 'encipher_only', 'decipher_only')
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in names})


def ends_at(certificate: x509.Certificate) -> datetime.datetime:
    """Return the end of a certificate's validity as naive UTC."""
    return certificate.not_valid_after_utc.replace(tzinfo=None)


def _fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex(':').upper()


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _belong_together(certificate: x509.Certificate, key: pathlib.Path) -> bool:
    try:
        return serialization.load_pem_private_key(key.read_bytes(), None).public_key() == certificate.public_key()
    except (OSError, ValueError):
        return False


def _load(path: pathlib.Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except ValueError:
        raise exception.InvalidInput(reason=f'{path} has no certificate.') from None


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


def write(path: pathlib.Path, content: bytes, mode: int) -> None:
    """Replace a file atomically; the new file has the mode from the beginning."""
    durable_files.replace(path, content, mode)
