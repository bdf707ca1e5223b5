"""Policy check ``field:RESOURCE:NAME=VALUE`` of network rules: compares an attribute of the resource with a value."""
from __future__ import annotations

from collections.abc import Mapping
import re

from oslo_policy import policy as oslo_policy

KIND = 'field'
_FLAGS = ('true', 'false')


class FieldCheck(oslo_policy.Check):
    """Passes if the attribute NAME of the request's resource equals VALUE. VALUE may be ``~REGEX``.

    RESOURCE has no effect, as in Neutron.
    """

    def __init__(self, kind: str, match: str) -> None:
        """Parse the check.

        :raises ValueError: it has no name or value, or the regular expression is invalid
        """
        super().__init__(kind, match)
        _resource, colon, rest = match.partition(':')
        self.name, equals, self.value = rest.partition('=')
        if not (colon and equals and self.name):
            raise ValueError(f'{KIND}:{match} is not of the form {KIND}:RESOURCE:NAME=VALUE.')
        try:
            self._pattern = re.compile(self.value[1:]) if self.value.startswith('~') else None
        except re.error as error:
            raise ValueError(f'{self.value[1:]} is not a regular expression: {error}.') from None

    def __call__(self, target: Mapping[str, object], _creds: object, _enforcer: object,
                 _current_rule: str | None = None) -> bool:
        found = target.get(self.name)
        if found is None:
            return False
        if self._pattern is not None:
            return self._pattern.match(str(found)) is not None
        if self.value.lower() in _FLAGS:
            return str(found).lower() == self.value.lower()
        return str(found) == self.value


def register() -> None:
    """Register the check in oslo.policy."""
    oslo_policy.register(KIND, FieldCheck)
