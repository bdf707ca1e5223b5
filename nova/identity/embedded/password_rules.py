"""What a new password must be like, and how long it is good."""
import datetime
from typing import Any

import re2

from nova import exception
from nova import utils

IGNORE_EXPIRY = 'ignore_password_expiry'     # option of a user


class PasswordRules:
    """
    :param min_length: characters at least
    :param regex: that it must match as a whole; '': any
    :param history: from how many of the last passwords, the present one included, it must differ; 0: none
    :param days: for which it is good; 0: for ever
    :raises InvalidInput: the expression is none
    """

    def __init__(self, min_length: int = 1, regex: str = '', history: int = 0, days: int = 0) -> None:
        self._min_length, self.history, self._days = min_length, history, days
        try:
            self._pattern = re2.compile(regex) if regex else None
        except re2.error:
            raise exception.InvalidInput('[identity] password_regex is no regular expression.') from None

    def check(self, password: str) -> None:
        """
        :raises PasswordRefused: it is too short, or not of the form; the password is not repeated
        """
        if len(password) < self._min_length:
            raise exception.PasswordRefused(reason=f'it has less than {self._min_length} characters.')
        if self._pattern is not None and not self._pattern.fullmatch(password):
            raise exception.PasswordRefused(reason='it does not match the expression of this cloud.')

    def refuse_past(self) -> None:
        raise exception.PasswordRefused(reason=f'it is one of the last {self.history} passwords.')

    def expires_at(self) -> datetime.datetime | None:
        """When a password that is set now ends; None: never."""
        return utils.utcnow() + datetime.timedelta(days=self._days) if self._days else None


def end_of(user: dict[str, Any]) -> datetime.datetime | None:
    """When the password of a user (a row) ends; None: never."""
    return None if (user['options'] or {}).get(IGNORE_EXPIRY) else user['password_expires_at']
