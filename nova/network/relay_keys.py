"""The key for the signatures of a host's relay on requests of guests for metadata."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.db.services import metadata_keys
from nova.network import relay

if TYPE_CHECKING:
    from nova.db.engine import Database


class RelayKey:
    """Of one host, made of the deployment's, which is read once."""

    def __init__(self, api_db: Database, host: str) -> None:
        self._api_db, self._host = api_db, host
        self._known = ''

    def __call__(self) -> str:
        """The key in hexadecimal digits."""
        if not self._known:
            self._known = relay.key_of(self._api_db.run(metadata_keys.obtain), self._host).hex()
        return self._known
