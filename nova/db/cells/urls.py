"""URLs of cells: templates filled from the configuration, and masked URLs.

A URL in the table ``cells`` may have variables in braces. Each host replaces the variables by parts of the URL in its
configuration. Thus secrets are only in the configuration, and each host may use another address for a cell:
``{scheme}://{username}:{password}@{hostname}/nova_cell2?{query}``. If the configured URL names several brokers, a
number selects the broker: ``{username1}``, ``{hostname2}``. Variables without a number mean the first broker.
"""
from __future__ import annotations

import re

import sqlalchemy as sa

from nova import exception

_VARIABLE = re.compile(r'\{(\w+)\}')
_PARTS = re.compile(r'(?P<scheme>[^:/?#]*)://(?P<authority>[^/?#]*)(?:/(?P<path>[^?#]*))?(?:\?(?P<query>[^#]*))?'
                    r'(?:#(?P<fragment>.*))?', re.DOTALL)
DATABASES = ('sqlite', 'mysql', 'mariadb', 'postgresql')
_SECRET = re.compile(r'(^|,)([^:@,]*):[^@]*@')


def fill(template: str, configured: str | None) -> str:
    """Return a URL with its variables filled; a URL without variables is unchanged.

    :param configured: the configured URL, or None
    :raises InvalidInput: a variable is unknown, or no URL is configured
    """
    if '{' not in template:
        return template
    known = _variables(configured)

    def value(found: re.Match[str]) -> str:
        if found[1] not in known:
            raise exception.InvalidInput(reason=f'the URL of a cell contains the variable {found[0]}, but the '
                                                'configured URL has no value for it.')
        return known[found[1]]
    return _VARIABLE.sub(value, template)


def _variables(configured: str | None) -> dict[str, str]:
    parts = _PARTS.fullmatch(configured or '')
    if parts is None:
        return {}
    found = {name: parts[name] or '' for name in ('scheme', 'path', 'query', 'fragment')}
    for number, host in enumerate(parts['authority'].split(','), 1):
        user, _, place = host.rpartition('@')
        username, _, password = user.partition(':')
        match = re.fullmatch(r'(\[[^]]*\]|[^:]*):?(.*)', place, re.DOTALL)          # always matches
        hostname, port = match.groups() if match else (place, '')
        values = {'username': username, 'password': password, 'hostname': hostname, 'port': port}
        found.update({f'{name}{number}': value for name, value in values.items()})
        if number == 1:
            found.update(values)
    return found


def masked(url: str) -> str:
    """Return a URL without its passwords."""
    scheme, separator, rest = url.partition('://')
    users, at, place = rest.rpartition('@')
    return scheme + separator + (_SECRET.sub(r'\1\2:****@', users + at) if at else '') + place


def check_database(url: str) -> None:
    """Check a database URL.

    :raises InvalidInput: the URL is malformed, or the database is not supported
    """
    try:
        kind = sa.make_url(url).get_backend_name()
    except (sa.exc.ArgumentError, ValueError):
        raise exception.InvalidInput('The database connection is not a URL.') from None
    if kind not in DATABASES:
        raise exception.InvalidInput('The database connection is of a kind that is not supported.')


def of_cell0(configured: str) -> str:
    """Return the URL of cell0's database: the configured URL, with the suffix _cell0 unless the database's name has
    it.
    """
    url = sa.make_url(configured)
    name = url.database or ''
    if url.get_backend_name() == 'sqlite':
        stem, dot, suffix = name.rpartition('.')
        stem, suffix = (stem, dot + suffix) if dot else (name, '')
    else:
        stem, suffix = name, ''
    if not stem.endswith('cell0'):
        url = url.set(database=f'{stem}_cell0{suffix}')
    return url.render_as_string(hide_password=False)
