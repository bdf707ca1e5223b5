"""Enforcement of the access rules of application credentials.

A rule allows requests with one HTTP method to one service, if their path matches a pattern:

* ``*`` and ``{name}`` match one or more characters other than a slash
* ``**`` matches any characters
"""
from __future__ import annotations

from collections.abc import Collection
import functools
import re
from typing import Any, TYPE_CHECKING
from wsgiref.types import WSGIEnvironment

from nova import exception

if TYPE_CHECKING:
    from nova.identity.tokens import BoundCredential

_PARTS = re.compile(r'\*\*|\*|\{[^}]*\}')
CACHED_PATTERNS = 1024


@functools.lru_cache(CACHED_PATTERNS)
def _compiled(pattern: str) -> Any:
    """Compile a pattern; re2 matches in linear time."""
    import re2           # imported here, because few tokens have access rules

    text, end = '', 0
    for part in _PARTS.finditer(pattern):
        text += re2.escape(pattern[end:part.start()]) + ('(?s:.*)' if part[0] == '**' else '[^/]+')
        end = part.end()
    return re2.compile(text + re2.escape(pattern[end:]))


def matches(path: str, pattern: str) -> bool:
    """Return True if a path matches the pattern of a rule."""
    return _compiled(pattern).fullmatch(path) is not None


def check(credential: BoundCredential | None, services: Collection[str], environ: WSGIEnvironment) -> None:
    """Check that the access rules of a token's application credential allow a request.

    :param credential: of ``TokenData``
    :param services: types of this service in the catalog
    :param environ: of the request; the pattern may match the path with or without SCRIPT_NAME
    :raises AccessRuleViolation: no rule allows it
    """
    rules = None if credential is None else credential.get('access_rules')
    if rules is None:
        return
    path = environ.get('PATH_INFO', '').encode('latin-1').decode('utf-8', 'replace')
    paths = {found if found == '/' else found.rstrip('/') for found in (path, environ.get('SCRIPT_NAME', '') + path)}
    for rule in rules:
        if rule['service'] in services and rule['method'] == environ['REQUEST_METHOD'] and any(
                matches(found, rule['path']) for found in paths):
            return
    raise exception.AccessRuleViolation()
