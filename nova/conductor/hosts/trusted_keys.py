"""Trusted keys for message signatures: the deployment's key and approved host keys."""
import base64
from collections.abc import Mapping
import dataclasses
import itertools
import threading
import time

from nova.db import engine
from nova.db.services import message_keys
from nova.rpc import signatures

CACHE_LIFETIME_S = 10      # seconds for which a lookup is cached; a revoked key may be accepted for this time
UNKNOWN_CACHE_LIFETIME_S = 1      # seconds for which a failed lookup is cached in mode ACCEPT
MAX_KEYS = 10_000
# Maximum number of keys in one lookup. To save SELECTs, a lookup also renews the cached results of used keys after
# half of their lifetime.
BATCH = 500


@dataclasses.dataclass
class _Known:
    """Result of a key lookup.

    trusted  the key, or None if messages signed with it are refused
    at       time of the lookup
    used     whether a message with this key caused the lookup or arrived after it
    """

    trusted: signatures.Trusted | None
    at: float
    used: bool = False


class TrustedKeys:
    """Cache of key lookups.

    :param api_db: Database of the API database
    """

    def __init__(self, api_db: engine.Database) -> None:
        self._api_db = api_db
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._known: dict[str, _Known] = {}          # {key id: lookup}, oldest lookup first
        self._unknown_s = 0

    def use(self, keys: signatures.Signatures) -> None:
        """Sign messages with the deployment's key, and verify them with the keys of this object.

        :raises DBError: the database account may not read the private key
        """
        if keys.undecided:
            keys.decide(bool(self._signing_row()['signatures_required']))
        # in other modes failed lookups are not cached, because an unknown key may be approved at any time
        self._unknown_s = UNKNOWN_CACHE_LIFETIME_S if keys.mode == signatures.ACCEPT else 0
        keys.trusted = self.of
        keys.follow(self._own)

    def _own(self) -> signatures.Key:
        return signatures.Key(base64.b64decode(self._signing_row()['private']))

    def _signing_row(self) -> message_keys.SigningKey:
        return self._api_db.run(message_keys.signing_key, signatures.Key)

    def of(self, key_id: str) -> signatures.Trusted | None:
        """Return a trusted key, or None if messages signed with it are refused."""
        now = time.monotonic()
        known = self._known.get(key_id)
        if known is not None:
            if now - known.at < self._good_s(known):
                known.used = True
                return known.trusted
            if self._good_s(known) and self._looking.acquire(blocking=False):
                try:
                    self._look_again(key_id, now)
                finally:
                    self._looking.release()
                known = self._known.get(key_id)
                if known is not None and known.at == now:
                    return known.trusted
        found = self._look_up(key_id)
        self._note({key_id: found}, now, key_id)
        return found

    def _good_s(self, known: _Known) -> float:
        """Return the lifetime of a lookup in seconds."""
        return self._unknown_s if known.trusted is None else CACHE_LIFETIME_S

    def _note(self, found: Mapping[str, signatures.Trusted | None], now: float, used: str) -> None:
        with self._lock:
            if len(self._known) >= MAX_KEYS:
                self._known.clear()
            for key_id, trusted in found.items():
                self._known.pop(key_id, None)
                self._known[key_id] = _Known(trusted, now, key_id == used)

    def _look_again(self, key_id: str, now: float) -> None:
        """Look up a key, together with other keys in use that expire soon.

        Unused and unknown keys are removed from the cache; the next message with such a key looks it up again.
        """
        due = {key_id}
        with self._lock:
            for other, known in list(itertools.islice(self._known.items(), BATCH)):
                age, good_s = now - known.at, self._good_s(known)
                if known.used and age >= good_s / 2:
                    due.add(other)
                elif other != key_id and age >= good_s:
                    del self._known[other]
        with self._api_db.reader() as conn:
            rows = message_keys.get_many(conn, sorted(due))
        self._note({each: _trusted(row) for each, row in rows.items()}, now, key_id)
        with self._lock:
            for missing in due - rows.keys():
                self._known.pop(missing, None)

    def _look_up(self, key_id: str) -> signatures.Trusted | None:
        with self._api_db.reader() as conn:
            row = message_keys.get(conn, key_id)
            if row is None:                          # the deployment's first key has the id 'deployment'
                row = next((each for each in message_keys.of_deployment(conn)
                            if signatures.fingerprint(base64.b64decode(each['public'])) == key_id), None)
        return None if row is None else _trusted(row)


def _trusted(row: message_keys.PublicKey) -> signatures.Trusted | None:
    if not message_keys.is_trusted(row):
        return None
    host = None if row['host'] == message_keys.DEPLOYMENT else row['host']
    return signatures.Trusted(host, base64.b64decode(row['public']))
