"""Signing key of a compute host, generated at the first start of the host and registered with a conductor.

The directory ``<state path>/services`` has a file with the host's key and a file with the trusted public keys of the
deployment. A third file has the next key while the key is renewed. A fourth file marks a host that was first started
with a release that requires signatures by default.
"""
import base64
from collections.abc import Callable
import contextlib
import logging
import os
import secrets
import threading
from typing import Protocol, TypedDict
import urllib.parse

from oslo_config import cfg

from nova import context
from nova import exception
from nova.rpc import join_tokens
from nova.rpc import signatures
from nova.runtime import concurrency
from nova.runtime import durable_files
from nova.runtime import host_identity

LOG = logging.getLogger(__name__)

APPROVAL_POLL_INTERVAL_S = 2      # seconds between two requests to a conductor while the key is not approved
RENEWAL_CHECK_INTERVAL_S = 300      # seconds between two checks whether to renew the key
_APPROVED = ('approved', 'renewing')


class DeploymentKey(TypedDict):
    """A public key of the deployment, in base64.

    signed_by, key_signature   id of the previous key, and that key's signature of this key; None for the first key
    good                       whether this key is still valid
    """

    public: str
    signed_by: str | None
    key_signature: str | None
    good: bool


class Answer(TypedDict):
    """Reply of a conductor to the registration of a host's key.

    state        pending, approved or renewing
    proof        the conductor's proof that it has the join token of the host, None without one
    deployment   public key of the deployment in base64
    deployments  all keys of the deployment, oldest first
    """

    state: str
    proof: str | None
    deployment: str
    deployments: list[DeploymentKey]


class Conductor(Protocol):
    """RPC client of a conductor."""

    def enroll_host(self, ctx: context.RequestContext, /, *, host: str, public: str, token_id: str | None, number: str,
                    proof: str | None) -> Answer: ...


class Enrolment:
    """Key registration in a compute host's process, before its service starts.

    :param keys: signatures of the process
    :param conductor: client that sends as this host
    :param trusted: function(key id) -> Trusted or None; None: trust only the control plane and this host
    """

    def __init__(self, conf: cfg.ConfigOpts, keys: signatures.Signatures, host: str, conductor: Conductor,
                 trusted: Callable[[str], signatures.Trusted | None] | None = None) -> None:
        self._conf, self._keys, self._host, self._conductor = conf, keys, host, conductor
        self._path, self._pinned_path = paths(conf, host)
        self._next_path = os.path.join(os.path.dirname(self._path), f'next-{os.path.basename(self._path)}')
        self._stopping = threading.Event()
        self._deployment: list[bytes] = []           # public keys, the current key first
        self._looks_up = trusted

    def start(self) -> None:
        """Start to sign messages. If signatures are required, wait until the key is approved.

        :raises InvalidInput: a file cannot be used
        :raises HostKeyRefused: the conductor rejects the key
        """
        if self._keys.mode == signatures.OFF:
            return
        if self._keys.undecided:
            self._keys.decide(self._requires_signatures())
        key = self._keys.key = self._own()
        self._deployment = _read(self._pinned_path)
        self._keys.trusted = self._looks_up or self._trusted
        if not self._deployment:
            # the first reply brings this key; without a join token, the host trusts the key unverified
            LOG.info('This host does not know the key of its deployment yet.')
        while not self._stopping.is_set():
            try:
                state = self._ask(key)
            except exception.HostKeyRefused:
                if not self._use_next():             # it replaced the refused key, but the host stopped before it knew
                    raise
                key = self._keys.key = self._own()
                continue
            if state in _APPROVED and self._deployment or self._keys.mode != signatures.REQUIRE and state is not None:
                break
            self._stopping.wait(APPROVAL_POLL_INTERVAL_S)
        concurrency.spawn(f'message-key-{self._host}', self._follow)

    def rest(self) -> None:
        self._stopping.set()

    def stop(self, timeout: float) -> bool:
        self._stopping.set()
        return True

    # ---- trusted keys

    def _trusted(self, key_id: str) -> signatures.Trusted | None:
        for public in self._deployment:
            if key_id == signatures.fingerprint(public):
                return signatures.Trusted(None, public)
        own = self._keys.key
        if own is not None and key_id == own.id:     # signs the probe messages of this service to itself (heartbeat.py)
            return signatures.Trusted(self._host, own.public)
        return None

    # ---- files

    def _requires_signatures(self) -> bool:
        """Return whether the first release of this host requires signatures by default; a marker file records this."""
        mark = f'{self._path}.required'
        if not os.path.exists(self._path) and not os.path.exists(mark):
            _store(mark, '', new=True)
        return os.path.exists(mark)

    def _own(self) -> signatures.Key:
        found = _read(self._path)
        if not found:
            key = signatures.Key()
            if _write(self._path, [key.private_bytes()], new=True):
                LOG.warning('Host %s has made its key %s.', self._host, key.id)
            found = _read(self._path)                # another service of this host may have made the key
        return signatures.Key(found[0])

    def _next(self) -> signatures.Key:
        """Return the next key of this host, from its file: a stopped host can use a key that it has registered."""
        _write(self._next_path, [signatures.Key().private_bytes()], new=True)
        return signatures.Key(_read(self._next_path)[0])

    def _use_next(self) -> bool:
        """Replace the key of this host by its next key; return False if there is none."""
        try:
            durable_files.commit(self._next_path, self._path)
        except FileNotFoundError:                    # or another service of this host has replaced the key
            return False
        except OSError as error:
            raise exception.InvalidInput(reason=f'{self._path}: {error.strerror}') from None
        return True

    # ---- the conductor

    def _ask(self, key: signatures.Key) -> str | None:
        """Register the key and return its state, or None if no conductor could register it."""
        self._deployment = self._deployment or _read(self._pinned_path)
        token = self._token()
        try:
            answer = self._enroll(key, token)
        except exception.Unavailable as error:
            LOG.warning('Waiting for a conductor: %s', error.message)
            return None
        except exception.RemoteError as error:
            LOG.warning('The conductor cannot register the key: %s', error.message)
            return None
        if answer['state'] in _APPROVED and not self._deployment:
            LOG.warning('The key of the deployment is not verified: the join token has expired or was used. '
                        'Make another token, or remove [messages] join_token_file to trust the key that the '
                        'conductor sent.')
        if answer['state'] not in _APPROVED:
            LOG.warning('The key %s of host %s waits for approval: run nova-manage host approve %s --fingerprint '
                        '%s', key.id, self._host, self._host, key.id)
        return answer['state']

    def _enroll(self, key: signatures.Key, token: tuple[str, str] | None) -> Answer:
        ident, secret = token or (None, None)
        number, public = secrets.token_hex(12), base64.b64encode(key.public).decode()
        answer = self._conductor.enroll_host(
            context.admin_context(), host=self._host, public=public, token_id=ident, number=number,
            proof=secret and join_tokens.proof(secret, 'host', self._host, public, number))
        proved = bool(answer['proof'] and secret and join_tokens.is_proved(
            answer['proof'], secret, 'deployment', answer['deployment'], public, number))
        if secret and answer['proof'] and not proved:
            raise exception.HostKeyRefused(host=self._host, reason='the conductor does not have the join token')
        if not self._deployment and (proved or secret is None):
            self._pin(base64.b64decode(answer['deployment']), proved)
        elif self._deployment:
            self._follow_deployment(answer)
        return answer

    def _follow_deployment(self, answer: Answer) -> None:
        """Trust each later key of the deployment that a trusted key has signed, and forget expired keys."""
        known, good = list(self._deployment), []
        for row in answer['deployments']:
            public = base64.b64decode(row['public'])
            if public not in known and _is_vouched(known, row, public):
                known.append(public)
            if public in known and row['good']:
                good.append(public)
        present = base64.b64decode(answer['deployment'])
        if present in good:
            good = [present, *(each for each in good if each != present)]
            if good != self._deployment:
                _write(self._pinned_path, good)
                self._deployment = good
                LOG.warning('Host %s now trusts these keys of the deployment: %s.', self._host,
                            ', '.join(map(signatures.fingerprint, good)))

    def _pin(self, public: bytes, proved: bool) -> None:
        _write(self._pinned_path, [public])
        self._deployment = [public]
        LOG.warning('Host %s now trusts this key of the deployment: %s%s.', self._host,
                    signatures.fingerprint(public), '' if proved else
                    ', which is not verified: compare it with nova-manage host keys')

    def _token(self) -> tuple[str, str] | None:
        """Return (id, secret) of the join token; None if no token is configured or the deployment's key is known.

        :raises InvalidInput: the file does not contain a join token
        """
        path = self._conf.messages.join_token_file
        if not path or self._deployment:
            return None
        try:
            with open(path, encoding='ascii') as file:
                return join_tokens.split(file.read())
        except (OSError, ValueError) as error:
            raise exception.InvalidInput(reason=f'[messages] join_token_file {path}: {error}') from None

    # ---- renewal

    def _follow(self) -> None:
        while not self._stopping.wait(RENEWAL_CHECK_INTERVAL_S):
            try:
                self.renew_if_asked()
            except exception.NovaException as error:
                LOG.warning('Cannot check whether to renew the key of host %s: %s', self._host, error.message)
            except Exception:
                LOG.exception('Cannot check whether to renew the key of host %s', self._host)

    def renew_if_asked(self) -> bool:
        """Renew the key if it is old or an operator requests it; return whether it changed."""
        own = self._own()
        if self._keys.key is None or own.id != self._keys.key.id:
            self._keys.key = own             # another service of this host has renewed the key
            return True
        answer = self._enroll(own, None)
        if answer['state'] != 'renewing':
            return False
        key = self._next()
        try:
            self._enroll(key, None)          # this message is signed with the previous key, which is still valid
        except exception.HostKeyRefused:     # an operator has revoked it since an interrupted renewal
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._next_path)
            raise
        self._use_next()
        key = self._keys.key = self._own()
        LOG.warning('Host %s uses its new signing key %s.', self._host, key.id)
        return True


def paths(conf: cfg.ConfigOpts, host: str) -> tuple[str, str]:
    """Return the paths of the host's key and of the deployment's keys."""
    directory = os.path.join(host_identity.state_path(conf), host_identity.DIRECTORY)
    name = urllib.parse.quote(host, safe='')
    return os.path.join(directory, f'message-key.{name}'), os.path.join(directory, f'deployment-key.{name}')


def _is_vouched(known: list[bytes], row: DeploymentKey, public: bytes) -> bool:
    """Return whether one of the known keys has signed this public key."""
    key_signature = base64.b64decode(row['key_signature'] or '')
    return any(signatures.fingerprint(each) == row['signed_by']
               and signatures.is_signed_by(each, key_signature, join_tokens.succession(public)) for each in known)


def _read(path: str) -> list[bytes]:
    """Return the keys in a file, 32 bytes each; [] if there is none.

    :raises InvalidInput:
    """
    try:
        with open(path, encoding='ascii') as file:
            found = [base64.b64decode(line, validate=True) for line in file.read().split()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise exception.InvalidInput(reason=f'{path}: {error}') from None
    if not found or any(len(each) != 32 for each in found):
        raise exception.InvalidInput(reason=f'{path} does not contain a key.')
    return found


def _write(path: str, keys: list[bytes], new: bool = False) -> bool:
    """Write keys to a file; see ``_store``."""
    return _store(path, ''.join(base64.b64encode(key).decode() + '\n' for key in keys), new)


def _store(path: str, text: str, new: bool) -> bool:
    """Write text atomically to a file that only the directory's owner may read.

    :param new: keep an existing file
    :returns: False if the file existed
    :raises InvalidInput:
    """
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        # services of this host that do not run as root also read the file
        owner = durable_files.owner_of(directory)
        if new:
            return durable_files.create(path, text.encode(), owner=owner)
        durable_files.replace(path, text.encode(), owner=owner)
        return True
    except OSError as error:
        raise exception.InvalidInput(reason=f'{path}: {error.strerror}') from None
