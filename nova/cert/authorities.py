"""Certificate authorities: a root and, if configured, one for each project, signed by the root.

Changes are made under a file lock, because nova-cert and nova-manage may run concurrently.
"""
from collections.abc import Callable, Iterator
import contextlib
import datetime
import fcntl
import os
import pathlib
import re

from cryptography import x509
from oslo_config.cfg import ConfigOpts

from nova import exception
from nova import utils
from nova.cert import directory
from nova.cert import signing
from nova.runtime import certificates
from nova.runtime import host_identity

CERTIFICATES = 100          # maximum certificates of a user in a project, to limit disk space and revocation lists
_ID = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_@-]{0,63}')
ROOT, PROJECTS = 'root', 'projects'


class Authorities:
    """The authorities of a deployment.

    :param path: directory of issued certificates
    :param keys: directory of the private keys
    :param each_project: each project has its own authority
    """

    def __init__(self, path: pathlib.Path, keys: pathlib.Path, each_project: bool) -> None:
        self.path, self._keys, self._each_project = path, keys, each_project

    def check(self) -> None:
        """Check the directories.

        :raises Unavailable: they are not writable
        """
        with self._changing():
            self._keys.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in (self.path, self._keys):
                if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
                    raise exception.Unavailable(f'{path} is not writable by this user: nova-cert stores its authority '
                                                'there.')

    # ---- RPC operations

    def trusted(self, project_id: str) -> str:
        """Return the certificates of a project's authority and its parents as PEM, newest first.

        :raises Unavailable: the directory is unusable (all methods)
        :raises InvalidInput: malformed ID (all methods)
        """
        with self._changing():
            return signing.pem(*(certificate for name in self._line(project_id)
                                 for certificate in self._ready(name)))

    def lists(self, project_id: str) -> str:
        """Return the revocation lists of the authorities in ``trusted`` as PEM, valid for LIST_DAYS / 2 or more."""
        with self._changing():
            return signing.pem(*(found for name in self._line(project_id) for found in self._fresh_lists(name)))

    def issue(self, user_id: str, project_id: str) -> signing.Signer:
        """Issue a certificate for a user in a project; its key is not stored.

        :raises QuotaExceeded: the user already has CERTIFICATES certificates in the project
        """
        _check_id(user_id)
        return self._issue(user_id, project_id, lambda now, signer: signing.of_user(user_id, project_id, now, signer))

    def issue_vpn(self, project_id: str) -> signing.Signer:
        """Issue a certificate for the VPN instance of a project."""
        return self._issue(signing.VPN, project_id, lambda now, signer: signing.of_vpn(project_id, now, signer))

    def _issue(self, user_id: str, project_id: str,
               make: Callable[[datetime.datetime, signing.Signer], signing.Signer]) -> signing.Signer:
        now = utils.utcnow()
        with self._changing():
            name = self._line(project_id)[0]
            place = self._directory(name)
            if place.count(project_id, user_id) >= CERTIFICATES:
                place.forget_ended(project_id, user_id, now)
            if user_id == signing.VPN:
                # make room: the VPN instances with the oldest certificates no longer exist
                place.forget_oldest(project_id, user_id, CERTIFICATES - 1)
            used = place.count(project_id, user_id)
            if used >= CERTIFICATES:
                raise exception.QuotaExceeded(resource='certificates', requested=1, used=used, limit=CERTIFICATES)
            made = make(now, place.signer(self._ready(name)[0]))
            place.add(made.certificate, project_id, user_id)
        return made

    def decrypt(self, project_id: str, text: str) -> str:
        """Decrypt a text with a key of the project's authority or its parents, including older keys.

        :param text: hexadecimal
        :raises InvalidInput: no key matches
        """
        data = signing.checked_ciphertext(text)
        with self._changing():
            signers = [self._directory(name).signer(certificate)
                       for name in dict.fromkeys((*self._line(project_id), ROOT))
                       for certificate in self._ready(name)]
        for signer in signers:
            found = signing.decrypted(signer.key, data)
            if found is not None:
                return found
        raise exception.InvalidInput(reason='the text is not encrypted for the certificate of this cloud, or not '
                                            'with RSA and PKCS #1 v1.5.')

    def has_signed(self, project_id: str, digest: str, signature: str) -> bool:
        """Verify a signature (RSA, PKCS #1 v1.5, SHA-1) with the valid certificates of a project's users.

        Bundles use SHA-1.

        :param digest, signature: hexadecimal
        """
        _check_id(project_id)
        data, signed = signing.checked_ciphertext(signature), signing.checked_ciphertext(digest)
        now = utils.utcnow()
        with self._changing():
            found = [row for name in self._names() for row in self._directory(name).issued(project_id)]
        return any(row.revoked_at is None and row.ends_at > now and row.user_id != signing.VPN
                   and signing.is_signature(row.certificate, signed, data) for row in reversed(found))

    # ---- operations of operators

    def issued(self, project_id: str | None = None, user_id: str | None = None) -> list[directory.Issued]:
        """Return stored certificates of users; an argument None matches all."""
        _check_wanted(project_id, user_id)
        with self._changing():
            return [found for name in self._names() for found in self._directory(name).issued(project_id, user_id)]

    def revoke(self, project_id: str | None = None, user_id: str | None = None, serial: int | None = None) -> int:
        """Revoke valid certificates and return their number; an argument None matches all."""
        _check_wanted(project_id, user_id)
        now, count = utils.utcnow(), 0
        with self._changing():
            for name in self._names():
                wanted = [found for found in self._directory(name).issued(project_id, user_id)
                          if found.revoked_at is None and found.ends_at > now
                          and serial in (None, found.certificate.serial_number)]
                if wanted:
                    self._revoke(name, wanted, now)
                    count += len(wanted)
        return count

    def rotate(self, project_id: str | None = None, forget: bool = False) -> x509.Certificate:
        """Create a new key and certificate of an authority.

        :param project_id: None: the root authority
        :param forget: True deletes the previous certificates and keys, for the root also those of all projects. Issued
         certificates become invalid, and texts encrypted for these authorities can no longer be decrypted. False: the
         previous certificates stay valid until they expire
        """
        if project_id is not None and not self._each_project:
            raise exception.InvalidInput(reason='projects have no authorities: [crypto] use_project_ca is '
                                                'false.')
        name = ROOT if project_id is None else self._line(project_id)[0]
        with self._changing():
            if name != ROOT:
                self._ready(ROOT)
            elif forget:
                for each in self._names():
                    self._directory(each).clear()               # authorities of projects are recreated on demand
            return self._make(name, forget)

    # ---- implementation

    def _line(self, project_id: str) -> tuple[str, ...]:
        """Return the names of a project's authority and its parents."""
        _check_id(project_id)
        return (f'{PROJECTS}/{project_id}', ROOT) if self._each_project else (ROOT,)

    def _names(self) -> list[str]:
        """Return the names of all authorities."""
        projects = sorted(path.name for path in (self.path / PROJECTS).glob('*') if path.is_dir())
        return [ROOT, *(f'{PROJECTS}/{project}' for project in projects)]

    def _directory(self, name: str) -> directory.AuthorityDirectory:
        return directory.AuthorityDirectory(self.path / name, self._keys / name)

    def _ready(self, name: str) -> list[x509.Certificate]:
        """Return the certificates of an authority, newest first. Create one if there is none, or if the newest expires
        soon or its issuer is gone.
        """
        found = self._directory(name).authorities()
        above = {each.subject for each in self._ready(ROOT)} if name != ROOT else {each.subject for each in found}
        left = datetime.timedelta(days=signing.MIN_REMAINING_DAYS)
        if not found or found[0].issuer not in above or certificates.ends_at(found[0]) - utils.utcnow() < left:
            self._make(name, bool(found) and found[0].issuer not in above)
            found = self._directory(name).authorities()
        return found

    def _make(self, name: str, forget: bool) -> x509.Certificate:
        now, place = utils.utcnow(), self._directory(name)
        if forget:
            place.clear()
        before = [each for each in place.authorities() if certificates.ends_at(each) > now]
        above = self._directory(ROOT)
        parent = None if name == ROOT else above.signer(above.authorities()[0])
        made = signing.authority(name.removeprefix(f'{PROJECTS}/'), now, parent)
        place.replace(made, before)
        return made.certificate

    def _fresh_lists(self, name: str) -> list[x509.CertificateRevocationList]:
        """Return the revocation lists of an authority; renew them if they expire soon."""
        soon = utils.utcnow() + datetime.timedelta(days=signing.LIST_DAYS / 2)
        found, wanted = self._directory(name).lists(), {each.subject for each in self._ready(name)}
        if {each.issuer for each in found} != wanted or any(
                each.next_update_utc is None or each.next_update_utc.replace(tzinfo=None) < soon for each in found):
            self._revoke(name, [], utils.utcnow())
            found = self._directory(name).lists()
        return found

    def _revoke(self, name: str, more: list[directory.Issued], now: datetime.datetime) -> None:
        """Add certificates to the revocation lists of an authority, and remove expired certificates from the lists."""
        place = self._directory(name)
        ended = now - datetime.timedelta(days=signing.USER_DAYS + 1)
        revoked: dict[x509.Name, dict[int, datetime.datetime]] = {}
        for found in place.lists():
            dates = {entry.serial_number: entry.revocation_date_utc.replace(tzinfo=None) for entry in found}
            revoked[found.issuer] = {serial: date for serial, date in dates.items() if date > ended}
        for each in more:
            revoked.setdefault(each.certificate.issuer, {})[each.certificate.serial_number] = now
        place.write_lists([signing.revocation_list(place.signer(each), revoked.get(each.subject, {}), now)
                           for each in self._ready(name)])

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.path / 'lock', 'a') as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise exception.Unavailable(
                f'Cannot use {error.filename or self.path} for certificates: {error.strerror}.') from None


def of(conf: ConfigOpts) -> Authorities:
    """Build the authorities of a configuration."""
    path = pathlib.Path(conf.crypto.ca_path or os.path.join(host_identity.state_path(conf), 'CA'))
    return Authorities(path, pathlib.Path(conf.crypto.keys_path or path / 'private'), conf.crypto.use_project_ca)


def _check_id(ident: object) -> None:
    """Check an ID, because IDs are used as file names.

    :raises InvalidInput: it is malformed
    """
    if not isinstance(ident, str) or not _ID.fullmatch(ident):
        raise exception.InvalidInput(reason=f'{ident!r} is not a valid ID of a user or project for a certificate.')


def _check_wanted(*idents: str | None) -> None:
    """Check several IDs; None is allowed."""
    for ident in idents:
        if ident is not None:
            _check_id(ident)
