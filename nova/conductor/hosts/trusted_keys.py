"""Whose messages a service with databases accepts: the deployment's and those of hosts with an approved key."""
import base64
import threading
import time

from nova.db import engine
from nova.db.services import message_keys
from nova.rpc import signatures

LOOK_S = 10                  # a key that was revoked is good for so long at most
MOST = 10_000


class TrustedKeys:
    """
    :param api_db: Database of the API database
    """

    def __init__(self, api_db: engine.Database) -> None:
        self._api_db = api_db
        row = api_db.run(message_keys.deployment, signatures.Key)
        self.key = signatures.Key(base64.b64decode(row['private']))
        self._deployment = signatures.Trusted(None, self.key.public)
        self._known, self._lock = {}, threading.Lock()           # {key id: (Trusted or None, when it was looked up)}

    def use(self, keys: signatures.Signatures) -> None:
        """Let messages be signed with the deployment's key, and be trusted by the keys of this object."""
        keys.key, keys.trusted = self.key, self.of

    def of(self, key_id: str) -> signatures.Trusted | None:
        """Return what is known of a key, None when its messages are not accepted."""
        if key_id == self.key.id:
            return self._deployment
        now = time.monotonic()
        found, at = self._known.get(key_id, (None, float('-inf')))
        # one that is not known may be approved at any moment, and costs its sender a call
        if found is not None and now - at < LOOK_S:
            return found
        with self._api_db.reader() as conn:
            row = message_keys.get(conn, key_id)
        good = row is not None and row['host'] != message_keys.DEPLOYMENT and message_keys.is_good(row)
        found = signatures.Trusted(row['host'], base64.b64decode(row['public'])) if good else None
        with self._lock:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key_id] = found, now
        return found
