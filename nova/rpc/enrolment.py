"""The key that a compute host signs its messages with: made at its first start, and made known to a conductor.

Two files in ``<state path>/services``: the host's key, and the public half of the deployment's, which a host believes
from then on. Nobody else reads the first.
"""
import base64
import logging
import os
import secrets
import threading
import time
import urllib.parse

from nova import context
from nova import exception
from nova.rpc import join_tokens
from nova.rpc import signatures
from nova.runtime import concurrency
from nova.runtime import host_identity

LOG = logging.getLogger(__name__)

PAUSE_S = 2                  # between two questions whether the key is approved
LOOK_S = 300                 # between two questions whether it is to be renewed
_UNKNOWN = ('UnsupportedVersion', 'NoSuchMethod')        # what a conductor of an older release says


class Enrolment:
    """A part of a compute host's process, before its service.

    :param keys: rpc.signatures.Signatures of the process
    :param conductor: RPC client that sends as this host
    """

    def __init__(self, conf, keys, host, conductor):
        self._conf, self._keys, self._host, self._conductor = conf, keys, host, conductor
        directory = os.path.join(host_identity.state_path(conf), host_identity.DIRECTORY)
        name = urllib.parse.quote(host, safe='')
        self._path = os.path.join(directory, f'message-key.{name}')
        self._pinned_path = os.path.join(directory, f'deployment-key.{name}')
        self._stopping = threading.Event()
        self._deployment = None

    def start(self):
        """Sign from now on. Where signatures are required, it waits here until the key is approved.

        :raises InvalidInput: a file cannot be used
        :raises HostKeyRefused: the conductor does not take the key
        """
        if self._keys.mode == signatures.OFF:
            return
        self._keys.key, self._deployment = self._own(), self._pinned()
        self._keys.trusted = self._trusted
        if self._deployment is None:
            # the answer that says which key to believe comes before it, and is no message of its own
            LOG.info('This host does not know the key of its deployment yet.')
        while not self._stopping.is_set():
            state = self._ask()
            if state in ('approved', 'renewing') or self._keys.mode != signatures.REQUIRE and state is not None:
                break
            self._stopping.wait(PAUSE_S)
        concurrency.spawn(f'message-key-{self._host}', self._follow)

    def rest(self):
        self._stopping.set()

    def stop(self, timeout):
        self._stopping.set()
        return True

    # ---- what is believed

    def _trusted(self, key_id):
        if self._deployment is not None and key_id == signatures.fingerprint(self._deployment):
            return signatures.Trusted(None, self._deployment)
        if key_id == self._keys.key.id:              # messages to itself, see heartbeat.py
            return signatures.Trusted(self._host, self._keys.key.public)
        return None

    # ---- files

    def _own(self):
        found = _read(self._path)
        if found is None:
            key = signatures.Key()
            _write(self._path, key.private_bytes())
            LOG.warning('Host %s has made its key %s.', self._host, key.id)
            return key
        return signatures.Key(found)

    def _pinned(self):
        return _read(self._pinned_path)

    # ---- the conductor

    def _ask(self):
        """The state of the key, None when no conductor answers."""
        token = self._token()
        try:
            told = self._enroll(self._keys.key, token)
        except exception.Unavailable as error:
            LOG.warning('Waiting for a conductor: %s', error.message)
            return None
        except exception.RemoteError as error:
            if error.kwargs.get('type') in _UNKNOWN and self._keys.mode != signatures.REQUIRE:
                LOG.warning('The conductor is of a release that does not know keys of hosts.')
                return 'pending'
            LOG.warning('The conductor cannot take the key: %s', error.message)
            return None
        if told['state'] not in ('approved', 'renewing'):
            LOG.warning('The key %s of host %s waits: nova-manage host approve %s --fingerprint %s',
                        self._keys.key.id, self._host, self._host, self._keys.key.id)
        return told['state']

    def _enroll(self, key, token):
        ident, secret = token or (None, None)
        number, public = secrets.token_hex(12), base64.b64encode(key.public).decode()
        told = self._conductor.enroll_host(
            context.admin_context(), host=self._host, public=public, token_id=ident, number=number,
            proof=secret and join_tokens.proof(secret, 'host', self._host, public, number))
        proved = told['proof'] and secret and join_tokens.is_proved(
            told['proof'], secret, 'deployment', told['deployment'], public, number)
        if secret and told['proof'] and not proved:
            raise exception.HostKeyRefused(host=self._host, reason='who answered does not have the join token')
        if self._deployment is None and (proved or secret is None):
            self._pin(base64.b64decode(told['deployment']), proved)
        return told

    def _pin(self, public, proved):
        _write(self._pinned_path, public)
        self._deployment = public
        LOG.warning('From now on host %s believes the deployment with the key %s%s.', self._host,
                    signatures.fingerprint(public), '' if proved else
                    ', which nothing has proved: compare it with nova-manage host keys')

    def _token(self):
        """(id, secret) of the join token, None without one.

        :raises InvalidInput: the file holds something else
        """
        path = self._conf.messages.join_token_file
        if not path or self._deployment is not None:
            return None
        try:
            with open(path, encoding='ascii') as file:
                return join_tokens.split(file.read())
        except (OSError, ValueError) as error:
            raise exception.InvalidInput(reason=f'[messages] join_token_file {path}: {error}') from None

    # ---- renewal

    def _follow(self):
        while not self._stopping.wait(LOOK_S):
            try:
                self.renew_if_asked()
            except exception.NovaException as error:
                LOG.warning('The key of host %s was not looked after: %s', self._host, error.message)

    def renew_if_asked(self):
        """A new key in the place of one that an operator wants to be renewed, or that was not known yet; whether."""
        told = self._enroll(self._keys.key, None)
        if told['state'] != 'renewing':
            return False
        key = signatures.Key()
        self._enroll(key, None)              # signed with the one before, which is good for a while yet
        _write(self._path, key.private_bytes())
        self._keys.key = key
        LOG.warning('Host %s signs with its new key %s.', self._host, key.id)
        return True


def _read(path):
    """The 32 bytes of a file, None when there is none.

    :raises InvalidInput:
    """
    try:
        with open(path, encoding='ascii') as file:
            found = base64.b64decode(file.read().strip(), validate=True)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise exception.InvalidInput(reason=f'{path}: {error}') from None
    if len(found) != 32:
        raise exception.InvalidInput(reason=f'{path} holds no key.')
    return found


def _write(path, content):
    """Put 32 bytes into a file that nobody else reads; it is there whole or not at all."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new = f'{path}.{time.monotonic_ns()}'
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), 'w') as file:
            file.write(base64.b64encode(content).decode() + '\n')
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        raise exception.InvalidInput(reason=f'{path}: {error.strerror}') from None
