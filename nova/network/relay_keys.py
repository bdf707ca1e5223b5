"""Signing keys of a host's metadata relay, and of connection handover during migrations."""
import hashlib
import hmac

from nova.db.engine import Database
from nova.db.services import metadata_keys
from nova.network import relay


class RelayKey:
    """Keys of one host, derived from the deployment's key, which is read from the database once."""

    def __init__(self, api_db: Database, host: str) -> None:
        self._api_db, self._host = api_db, host
        self._master = b''

    def __call__(self) -> str:
        """Return the key of the metadata relay in hexadecimal digits."""
        return relay.key_of(self._read(), self._host).hex()

    def migration_key(self, name: str) -> str:
        """Return the key shared by the two hosts of a migration, in hexadecimal digits.

        :param name: name of the migration
        """
        return hmac.new(self._read(), b'move ' + name.encode(), hashlib.sha256).hexdigest()

    def _read(self) -> bytes:
        if not self._master:
            self._master = self._api_db.run(metadata_keys.obtain)
        return self._master
