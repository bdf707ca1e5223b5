"""The key for the signatures of a host's relay on requests of guests for metadata, and those of guests that move."""
from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from nova.db.services import metadata_keys
from nova.network import relay

if TYPE_CHECKING:
    from nova.db.engine import Database


class RelayKey:
    """Of one host, made of the deployment's, which is read once."""

    def __init__(self, api_db: Database, host: str) -> None:
        self._api_db, self._host = api_db, host
        self._master = b''

    def __call__(self) -> str:
        """The key in hexadecimal digits."""
        return relay.key_of(self._read(), self._host).hex()

    def of_move(self, name: str) -> str:
        """The key of the two hosts between which a guest moves, in hexadecimal digits.

        :param name: of one move
        """
        return hmac.new(self._read(), b'move ' + name.encode(), hashlib.sha256).hexdigest()

    def _read(self) -> bytes:
        if not self._master:
            self._master = self._api_db.run(metadata_keys.obtain)
        return self._master
