"""Domains: the built-in default domain and the domains that clients create."""
from __future__ import annotations

from collections.abc import Collection, Mapping

from nova import exception
from nova.db import engine
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityDomainsRow
from nova.identity.embedded import effective_roles

DEFAULT = effective_roles.DOMAIN


def find(conn: engine.Connection, wanted: Mapping[str, str]) -> IdentityDomainsRow | None:
    """Return a domain, or None.

    :param wanted: has the ``id`` or the ``name``; the name of the default domain is case-insensitive
    """
    key = 'id' if 'id' in wanted else 'name'
    value = wanted.get(key)
    if value == DEFAULT['id'] or key == 'name' and str(value or '').lower() == DEFAULT['name'].lower():
        return DEFAULT
    return queries.get(conn, queries.DOMAIN, **{key: value}) if value else None


def expect(conn: engine.Connection, domain_id: str) -> None:
    """Lock the domain of a new resource, so that it is not deleted before the transaction ends.

    :raises IdentityNotFound: the domain does not exist
    """
    if domain_id != DEFAULT['id'] and not queries.lock(conn, 'domain', domain_id):
        raise exception.IdentityNotFound(noun='domain', id=domain_id)


def enabled(conn: engine.Connection, ids: Collection[str]) -> dict[str, str]:
    """Return {id: name} of the domains of a token, and check that all are enabled.

    :raises Unauthorized: one of them was disabled or deleted
    """
    found = names(conn, ids, enabled=True)
    if len(found) < len(set(ids)):
        raise exception.Unauthorized()
    return found


def names(conn: engine.Connection, ids: Collection[str], **match: bool) -> dict[str, str]:
    """Return {id: name} of the domains with these ids."""
    others = {domain_id for domain_id in ids if domain_id != DEFAULT['id']}
    found = {row['id']: row['name'] for row in queries.rows(conn, queries.DOMAIN, others, **match)} if others else {}
    return found | ({DEFAULT['id']: DEFAULT['name']} if DEFAULT['id'] in ids else {})
