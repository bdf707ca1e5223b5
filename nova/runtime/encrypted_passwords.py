"""Encryption of the passwords that the databases store in the arguments of unfinished actions.

The API generates the key, a file in the state directory. Usually a host gets the password in the RPC message of the
action. A conductor decrypts the stored password only to repeat an action, and needs the same key file.
"""
import logging
import os
import typing

from oslo_config.cfg import ConfigOpts

from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.runtime import host_identity
from nova.runtime import secret_encryption

LOG = logging.getLogger(__name__)

FILE = 'password-keys'
PASSWORD, ENCRYPTED = 'admin_password', 'encrypted_password'



class Passwords:
    """Encryption of the arguments of actions.

    :param conf: uses state_path
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._path = os.path.join(host_identity.state_path(conf), FILE)

    def encrypted(self, arguments: JsonDocument, *uuids: str) -> list[JsonDocument]:
        """Return the arguments of an action as the database stores them: one copy for each server.

        Without a usable key the password is omitted; a repeated action then has no password.
        """
        password = arguments.get(PASSWORD)
        if password is None:
            return [arguments] * len(uuids)
        rest = {name: value for name, value in arguments.items() if name != PASSWORD}
        try:
            cipher = self._cipher(make=True)
        except secret_encryption.Unusable as error:
            LOG.warning('Passwords of servers are not kept for repeated actions: %s: %s.', self._path,
                        error)
            return [rest] * len(uuids)
        return [{**rest, ENCRYPTED: [cipher.first, cipher.encrypt(str(password), _owner(uuid))]} for uuid in uuids]

    def decrypted(self, arguments: JsonObject | None, uuid: str) -> JsonObject:
        """Decrypt arguments that ``encrypted`` returned for a server; omit a password that cannot be decrypted."""
        if not arguments or ENCRYPTED not in arguments:
            return arguments or {}           # no password, or plain text of an older release
        rest = {name: value for name, value in arguments.items() if name != ENCRYPTED}
        name, encrypted = typing.cast('list[str]', arguments[ENCRYPTED])
        try:
            return {**rest, PASSWORD: self._cipher().decrypt(name, encrypted, _owner(uuid))}
        except secret_encryption.Unusable as error:
            LOG.warning('The password of server %s cannot be decrypted; its action is repeated without one: %s: %s.',
                        uuid, self._path, error)
            return rest

    def password(self, arguments: JsonObject | None, uuid: str) -> str | None:
        """Return only the password that ``decrypted`` finds, or None."""
        return typing.cast('str | None', self.decrypted(arguments, uuid).get(PASSWORD))

    def _cipher(self, make: bool = False) -> secret_encryption.SecretCipher:
        keys = secret_encryption.read(self._path)
        if keys is None and make:
            secret_encryption.make(self._path)
            keys = secret_encryption.read(self._path)
        if keys is None:
            raise secret_encryption.Unusable('the file does not exist')
        return secret_encryption.SecretCipher(keys)


def _owner(uuid: str) -> str:
    return f'{uuid} password'
