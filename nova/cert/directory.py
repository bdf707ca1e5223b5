"""Files of one authority.

    CA/root/ca.pem                  its certificates, newest first; older ones stay until they expire
    CA/root/crl.pem                 their revocation lists, which are the record of revocations
    CA/root/issued/PROJECT/USER.SERIAL.pem
    CA/private/root/FINGERPRINT.key     the key of each certificate of ca.pem, mode 0600

A project's authority has the same files below ``projects/PROJECT``. Files are replaced atomically, a key before its
certificate. Readers need no lock, and a power failure leaves the old or the new state.
"""
from collections.abc import Iterable, Iterator
import dataclasses
import datetime
import pathlib
import shutil

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from nova import exception
from nova.cert import signing
from nova.runtime import certificates


@dataclasses.dataclass(frozen=True)
class Issued:
    """A certificate of a user.

    revoked_at   naive UTC, like ends_at; None: not revoked
    """

    certificate: x509.Certificate
    project_id: str
    user_id: str
    revoked_at: datetime.datetime | None

    @property
    def ends_at(self) -> datetime.datetime:
        return certificates.ends_at(self.certificate)


class AuthorityDirectory:
    """Directories of an authority.

    :param path: of public files
    :param keys: of the private keys
    """

    def __init__(self, path: pathlib.Path, keys: pathlib.Path) -> None:
        self._path, self._keys = path, keys

    # ---- the authority

    def authorities(self) -> list[x509.Certificate]:
        """Return the authority's certificates, newest first; empty before the authority is created."""
        try:
            return x509.load_pem_x509_certificates((self._path / 'ca.pem').read_bytes())
        except FileNotFoundError:
            return []
        except ValueError:
            raise exception.Unavailable(f'{self._path}/ca.pem has no certificate.') from None

    def signer(self, certificate: x509.Certificate) -> signing.Signer:
        """Return a certificate with its key.

        :raises Unavailable: the key is missing or does not match
        """
        path = self._key_file(certificate)
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError):
            key = None
        if not isinstance(key, rsa.RSAPrivateKey) or key.public_key() != certificate.public_key():
            raise exception.Unavailable(f'{path} is not the key of the authority in {self._path}/ca.pem.')
        return signing.Signer(certificate, key)

    def replace(self, signer: signing.Signer, before: Iterable[x509.Certificate]) -> None:
        """Replace the signing certificate; keep the certificates in ``before`` with their keys, and delete others."""
        for path in (self._path, self._keys):
            _private_directory(path)
        kept = [signer.certificate, *before]
        certificates.write(self._key_file(signer.certificate), signing.key_pem(signer.key).encode(), 0o600)
        certificates.write(self._path / 'ca.pem', signing.pem(*kept).encode(), 0o644)
        names = {self._key_file(certificate) for certificate in kept}
        for path in self._keys.glob('*.key'):
            if path not in names:
                path.unlink()

    def clear(self) -> None:
        """Delete the authority, its keys and issued certificates."""
        for path in (self._path / 'ca.pem', self._path / 'crl.pem', *self._keys.glob('*.key')):
            path.unlink(missing_ok=True)
        if (self._path / 'issued').exists():
            shutil.rmtree(self._path / 'issued')

    def _key_file(self, certificate: x509.Certificate) -> pathlib.Path:
        return self._keys / f'{signing.key_name(certificate)}.key'

    # ---- revocation lists

    def lists(self) -> list[x509.CertificateRevocationList]:
        """Return the revocation lists in any order; empty before the first one."""
        try:
            data = (self._path / 'crl.pem').read_bytes()
        except FileNotFoundError:
            return []
        end = b'-----END X509 CRL-----\n'
        return [x509.load_pem_x509_crl(part + end) for part in data.split(end) if part]

    def write_lists(self, lists: Iterable[x509.CertificateRevocationList]) -> None:
        certificates.write(self._path / 'crl.pem', signing.pem(*lists).encode(), 0o644)

    # ---- issued certificates

    def add(self, certificate: x509.Certificate, project_id: str, user_id: str) -> None:
        """Store a certificate of a user."""
        path = self._path / 'issued' / project_id
        _private_directory(path)
        certificates.write(path / f'{user_id}.{signing.serial_text(certificate)}.pem',
                           signing.pem(certificate).encode(), 0o644)

    def count(self, project_id: str, user_id: str) -> int:
        """Count the stored certificates of a user in a project."""
        return len(list(self._files(project_id, user_id)))

    def issued(self, project_id: str | None = None, user_id: str | None = None) -> Iterator[Issued]:
        """Yield stored certificates; an argument None matches all."""
        revoked = {(found.issuer, entry.serial_number): entry.revocation_date_utc.replace(tzinfo=None)
                   for found in self.lists() for entry in found}
        for path in self._files(project_id, user_id):
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
            yield Issued(certificate, path.parent.name, path.name.rsplit('.', 2)[0],
                         revoked.get((certificate.issuer, certificate.serial_number)))

    def forget_ended(self, project_id: str, user_id: str, now: datetime.datetime) -> None:
        """Delete expired certificates of a user."""
        for path in self._files(project_id, user_id):
            if certificates.ends_at(x509.load_pem_x509_certificate(path.read_bytes())) <= now:
                path.unlink()

    def forget_oldest(self, project_id: str, user_id: str, keep: int) -> None:
        """Keep the ``keep`` certificates of a user that expire last, and delete the others."""
        ends = {path: certificates.ends_at(x509.load_pem_x509_certificate(path.read_bytes()))
                for path in self._files(project_id, user_id)}
        for path in sorted(ends, key=ends.__getitem__)[:max(0, len(ends) - keep)]:
            path.unlink()

    def _files(self, project_id: str | None, user_id: str | None) -> Iterator[pathlib.Path]:
        """Yield the files of stored certificates. IDs are not escaped: they have no special characters of ``glob``."""
        for path in sorted((self._path / 'issued').glob(f'{project_id or "*"}/*.pem')):
            if user_id is None or path.name.rsplit('.', 2)[0] == user_id:
                yield path


def _private_directory(path: pathlib.Path) -> None:
    """Create a directory with mode 0700, and missing parents."""
    if not path.is_dir():
        _private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
