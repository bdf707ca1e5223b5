"""Ownership of a service's name: only a host with the service's identity file in its state directory can use the name.

The file is locked while the service runs, so that two processes of one machine cannot use the name.
"""
import fcntl
import os
from typing import TextIO
import urllib.parse
import uuid

from oslo_config.cfg import ConfigOpts
from oslo_utils import uuidutils

from nova import exception
from nova.runtime import directories

DIRECTORY = 'services'


def state_path(conf: ConfigOpts) -> str:
    """Return the state directory of this host or, in an all-in-one, of the whole deployment."""
    if conf.state_path:
        return str(conf.state_path)
    return '/var/lib/nova' if os.getuid() == 0 else os.path.expanduser('~/.local/share/nova')


class IdentityFile:
    """The identity of one service of this host, created at the first start of the service.

    path    file of the identity: ``<state path>/services/<binary>.<host>``
    text    the identity, set by ``take``
    """

    def __init__(self, conf: ConfigOpts, binary: str, host: str) -> None:
        self.path = os.path.join(state_path(conf), DIRECTORY, f'{binary}.{urllib.parse.quote(host, safe="")}')
        self._binary, self._host = binary, host
        self._file: TextIO | None = None
        self.text = ''

    def take(self) -> None:
        """Read or create the identity, and lock it until ``release``.

        :raises ServiceExists: another process has locked it
        :raises InvalidInput: the file cannot be written or locked, or contains something else
        """
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            file = open(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), 'r+')
        except OSError as error:
            raise exception.InvalidInput(reason=f'{self.path}: {error.strerror}') from None
        try:
            self.text = self._read(file)
        except BaseException:
            file.close()
            raise
        self._file = file

    def _read(self, file: TextIO) -> str:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = file.read().strip()
            if not text:
                text = str(uuid.uuid4())
                file.write(text + '\n')
                file.flush()
                os.fsync(file.fileno())
                directories.sync(os.path.dirname(self.path))
        except BlockingIOError:
            raise exception.ServiceExists(
                f'{self._binary} of host {self._host} runs on this machine already.') from None
        except (OSError, UnicodeDecodeError) as error:       # e.g. a file system without locks
            raise exception.InvalidInput(reason=f'{self.path}: {error}') from None
        if not uuidutils.is_uuid_like(text):
            raise exception.InvalidInput(
                reason=f'{self.path} does not contain an identity. Restore the file, or remove it and delete the '
                       'service; its next start registers it again.')
        return text

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
