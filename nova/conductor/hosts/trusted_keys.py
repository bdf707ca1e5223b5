"""Whose messages a service with databases accepts: the deployment's and those of hosts with an approved key."""
from __future__ import annotations

import base64
import threading
import time

from nova.db import engine
from nova.db.services import message_keys
from nova.rpc import signatures

LOOK_S = 10                  # a key that was revoked is good for so long at most
UNKNOWN_S = 1                # a key that is not known is looked up after so long again, where its messages are accepted
MOST = 10_000


class TrustedKeys:
    """
    :param api_db: Database of the API database
    """

    def __init__(self, api_db: engine.Database) -> None:
        self._api_db = api_db
        self._lock = threading.Lock()
        # {key id: (what it is, when it was looked up)}
        self._known: dict[str, tuple[signatures.Trusted | None, float]] = {}
        self._unknown_s = 0

    def use(self, keys: signatures.Signatures) -> None:
        """Let messages be signed with the deployment's key, and be trusted by the keys of this object.

        :raises DBError: the account may not read the private half
        """
        # elsewhere it may be approved at any moment, and costs its sender a call
        self._unknown_s = UNKNOWN_S if keys.mode == signatures.ACCEPT else 0
        keys.trusted = self.of
        keys.follow(self._own)

    def _own(self) -> signatures.Key:
        return signatures.Key(base64.b64decode(self._api_db.run(message_keys.signing_key, signatures.Key)['private']))

    def of(self, key_id: str) -> signatures.Trusted | None:
        """Return what is known of a key, None when its messages are not accepted."""
        now = time.monotonic()
        found, at = self._known.get(key_id, (None, float('-inf')))
        if now - at < (self._unknown_s if found is None else LOOK_S):
            return found
        found = self._look_up(key_id)
        with self._lock:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key_id] = found, now
        return found

    def _look_up(self, key_id: str) -> signatures.Trusted | None:
        with self._api_db.reader() as conn:
            row = message_keys.get(conn, key_id)
            if row is None:                          # the first key of a deployment is not named by its fingerprint
                row = next((each for each in message_keys.of_deployment(conn)
                            if signatures.fingerprint(base64.b64decode(each['public'])) == key_id), None)
        if row is None or not message_keys.is_trusted(row):
            return None
        host = None if row['host'] == message_keys.DEPLOYMENT else row['host']
        return signatures.Trusted(host, base64.b64decode(row['public']))

