"""Verification of secrets with counting of failures."""
from __future__ import annotations

import logging
from collections.abc import Callable

from nova import exception
from nova.db.audit import log
from nova.identity import hashing as hash_pool
from nova.identity import passwords
from nova.identity.embedded import ratelimit
from nova.runtime.http import addresses

LOG = logging.getLogger(__name__)


class Checks:
    """Verifies secrets, and applies the delays after failures.

    :param hashing: pool of hash threads
    :param rounds: cost of a hash
    :param delays: delays after failures
    """

    def __init__(self, hashing: hash_pool.HashPool, rounds: int, delays: ratelimit.LoginDelays) -> None:
        self._hashing, self._rounds = hashing, rounds
        self.delays = delays

    def expect_room(self, address: str) -> None:
        """Check that the hash pool can accept a login.

        :raises ServiceBusy: it is full
        """
        self._hashing.check(addresses.client(address))

    def matches(self, address: str, secret: str, stored: str | None) -> bool:
        """Return whether a secret matches the stored hash; failures are not counted."""
        return self._hashing.run(addresses.client(address), passwords.matches, secret, stored, self._rounds)

    def secret(self, secret: str | None, stored: str | None, key: tuple[str, str], user_id: str | None) -> None:
        """Verify a secret. A call for an unknown user takes as long, and also counts a failure."""
        self.check(key, user_id, lambda: self.matches(key[1], secret or '', stored))

    def check(self, key: tuple[str, str], user_id: str | None, matches: Callable[[], bool]) -> None:
        """Raise Unauthorized and count a failure unless ``matches()`` is true.

        :param key: (user, address)
        """
        key = (str(key[0])[:255], addresses.client(key[1]))
        self.delays.check(*key)
        if not matches():
            self.delays.failed(*key)
            log.about(user_id)
            # the typed name is not logged, because users type passwords into that field
            LOG.warning('Login refused for user %s from %s', user_id or 'unknown', key[1])
            raise exception.Unauthorized()
        self.delays.check(*key)
        self.delays.succeeded(*key)
