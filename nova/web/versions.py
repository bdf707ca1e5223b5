"""Microversion negotiation and response headers."""
import functools
import re
from wsgiref.types import WSGIEnvironment

from nova import exception

HEADER = 'OpenStack-API-Version'
_VERSION = re.compile(r'([1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\Z', re.ASCII)


class Microversions:
    """Microversions of one API.

    :param service: its name in the header
    :param major: major version
    :param minimum, maximum: minor versions; the minimum is the default
    :param legacy: header used before HEADER, or None
    :param legacy_until: the legacy header wins if HEADER asks for a version below this one
    :param other_major: exception class for another major version
    """

    def __init__(self, service: str, major: int, minimum: int, maximum: int, legacy: str | None = None,
                 legacy_until: int = 0, other_major: type[exception.NovaException] = exception.NotAcceptable) -> None:
        self.service, self.major, self.minimum, self.maximum = service, major, minimum, maximum
        self.legacy, self._legacy_until = legacy, legacy_until
        self._other_major = other_major
        self.vary = ', '.join(filter(None, (HEADER, legacy)))
        self._legacy_key = 'HTTP_' + legacy.upper().replace('-', '_') if legacy else ''
        self._negotiated = functools.lru_cache(maxsize=1024)(self._negotiate)

    def text(self, minor: int) -> str:
        return f'{self.major}.{minor}'

    def negotiate(self, environ: WSGIEnvironment) -> int:
        """Return the minor version that a request asks for.

        :raises BadRequest: the version is malformed
        :raises NotAcceptable: the version is outside the supported range
        """
        return self._negotiated(environ.get('HTTP_OPENSTACK_API_VERSION'), environ.get(self._legacy_key))

    def _negotiate(self, header: str | None, legacy: str | None) -> int:
        new = None
        for part in (header or '').split(','):
            service, _, version = part.strip().partition(' ')
            if service.lower() == self.service:
                new = self.parse(version.strip())
        if legacy is not None and (new is None or new < self._legacy_until):
            return self.parse(legacy.split(',')[-1].strip())
        return self.minimum if new is None else new

    def parse(self, version: str) -> int:
        """Parse 'MAJOR.N' or 'latest' into a minor version.

        :raises BadRequest: the version is malformed
        :raises NotAcceptable: the version is outside the supported range
        """
        if version.lower() == 'latest':
            return self.maximum
        match = _VERSION.fullmatch(version)
        if not match:
            raise exception.BadRequest(f'API Version String {version[:40]!r} is of invalid format. '
                                       'Must be of format MajorNum.MinorNum.')
        major, minor = int(match[1]), int(match[2])
        if major != self.major or not self.minimum <= minor <= self.maximum:
            error = self._other_major if major != self.major else exception.NotAcceptable
            raise error(f'Version {version} is not supported by the API. Minimum is '
                        f'{self.text(self.minimum)} and maximum is {self.text(self.maximum)}.')
        return minor

    def headers(self, minor: int) -> list[tuple[str, str]]:
        """Return the version headers of a response."""
        found = [(HEADER, f'{self.service} {self.text(minor)}')]
        if self.legacy:
            found.append((self.legacy, self.text(minor)))
        return [*found, ('Vary', self.vary)]
