"""Passwords among the arguments of open actions, sealed: the databases never have them in clear.

The key is in a file of the state directory that the API makes. A conductor opens a password only to repeat an action
after a restart or a lost message, and needs the same file for that: the message of the action itself has the password.
"""
from __future__ import annotations

import logging
import os
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova.runtime import host_identity
from nova.runtime import sealing

LOG = logging.getLogger(__name__)

FILE = 'password-keys'
PASSWORD, SEALED = 'admin_password', 'sealed_password'

Arguments = dict[str, Any]


class Passwords:
    """
    :param conf: uses state_path
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._path = os.path.join(host_identity.state_path(conf), FILE)

    def sealed(self, arguments: Arguments, *uuids: str) -> list[Arguments]:
        """The arguments of an action as the database may have them, for each of some servers.

        Without a usable key the password is left out: an action that is repeated then has none.
        """
        password = arguments.get(PASSWORD)
        if password is None:
            return [arguments] * len(uuids)
        rest = {name: value for name, value in arguments.items() if name != PASSWORD}
        try:
            sealer = self._sealer(make=True)
        except sealing.Unusable as error:
            LOG.warning('Passwords of servers are not kept for a repetition of their actions: %s: %s.', self._path,
                        error)
            return [rest] * len(uuids)
        return [{**rest, SEALED: [sealer.first, sealer.seal(password, _owner(uuid))]} for uuid in uuids]

    def opened(self, arguments: Arguments | None, uuid: str) -> Arguments:
        """The arguments that ``sealed`` was given; without the password where this process cannot open it."""
        if not arguments or SEALED not in arguments:
            return arguments or {}           # of an older release: it had them in clear
        rest = {name: value for name, value in arguments.items() if name != SEALED}
        name, sealed = arguments[SEALED]
        try:
            return {**rest, PASSWORD: self._sealer().open(name, sealed, _owner(uuid))}
        except sealing.Unusable as error:
            LOG.warning('The password of server %s cannot be opened, and its action is repeated without one: %s: %s.',
                        uuid, self._path, error)
            return rest

    def _sealer(self, make: bool = False) -> sealing.Sealer:
        keys = sealing.read(self._path)
        if keys is None and make:
            sealing.make(self._path)
            keys = sealing.read(self._path)
        if keys is None:
            raise sealing.Unusable('the file is not there')
        return sealing.Sealer(keys)


def _owner(uuid: str) -> str:
    return f'{uuid} password'
