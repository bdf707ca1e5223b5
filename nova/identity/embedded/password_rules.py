"""What a new password must be like."""
import re2

from nova import exception


class PasswordRules:
    """
    :param min_length: characters at least
    :param regex: that it must match as a whole; '': any
    :param history: from how many of the last passwords, the present one included, it must differ; 0: none
    :raises InvalidInput: the expression is none
    """

    def __init__(self, min_length=1, regex='', history=0):
        self._min_length, self.history = min_length, history
        try:
            self._pattern = re2.compile(regex) if regex else None
        except re2.error:
            raise exception.InvalidInput('[identity] password_regex is no regular expression.') from None

    def check(self, password):
        """
        :raises PasswordRefused: it is too short, or not of the form; the password is not repeated
        """
        if len(password) < self._min_length:
            raise exception.PasswordRefused(reason=f'it has less than {self._min_length} characters.')
        if self._pattern is not None and not self._pattern.fullmatch(password):
            raise exception.PasswordRefused(reason='it does not match the expression of this cloud.')

    def refuse_past(self):
        raise exception.PasswordRefused(reason=f'it is one of the last {self.history} passwords.')
