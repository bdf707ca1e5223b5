"""Password policy: required form, history and lifetime of passwords."""
import datetime

import re2

from nova import exception
from nova import utils
from nova.db.tables.rows import IdentityUsersRow

IGNORE_EXPIRY = 'ignore_password_expiry'     # option of users: their passwords do not expire


class PasswordRules:
    """Password policy.

    :param min_length: minimum number of characters
    :param regex: must match the whole password; '': any
    :param history: number of last passwords, including the present one, that may not be reused; 0: none
    :param days: lifetime; 0: unlimited
    :raises InvalidInput: malformed expression
    """

    def __init__(self, min_length: int = 1, regex: str = '', history: int = 0, days: int = 0) -> None:
        self._min_length, self.history, self._days = min_length, history, days
        try:
            self._pattern = re2.compile(regex) if regex else None
        except re2.error:
            raise exception.InvalidInput('[identity] password_regex is not a regular expression.') from None

    def check(self, password: str) -> None:
        """Check a new password.

        :raises PasswordRefused: it is too short or does not match; the message does not repeat it
        """
        if len(password) < self._min_length:
            raise exception.PasswordRefused(reason=f'it has fewer than {self._min_length} characters.')
        if self._pattern is not None and not self._pattern.fullmatch(password):
            raise exception.PasswordRefused(reason='it does not match the regular expression that this cloud requires.')

    def refuse_past(self) -> None:
        raise exception.PasswordRefused(reason=f'it is one of the last {self.history} passwords.')

    def expires_at(self) -> datetime.datetime | None:
        """Return the expiry of a password that is set now, or None if it never expires."""
        return utils.utcnow() + datetime.timedelta(days=self._days) if self._days else None


def end_of(user: IdentityUsersRow) -> datetime.datetime | None:
    """Return the expiry of a user's password, or None if it never expires."""
    return None if (user['options'] or {}).get(IGNORE_EXPIRY) else user['password_expires_at']
