"""Access rules of users. An application credential may be limited to the requests that some rules allow."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
import uuid

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityAccessRulesRow
from nova.identity import tokens

MAX_ACCESS_RULES = 500                   # maximum access rules of a user
FIELDS: Final = ('service', 'method', 'path')


def ids_of(conn: engine.Connection, user_id: str, given: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the ids of access rules of a user; create missing rules. The caller has locked the user's row.

    :param given: rules, each {'id'} of an existing rule or {'service', 'method', 'path'}
    :raises Forbidden: the user has too many rules
    :raises IdentityNotFound: unknown id
    """
    known = queries.rows(conn, queries.ACCESS_RULE, user_id=user_id)
    ids = {tuple(row[name] for name in FIELDS): row['id'] for row in known}
    own = set(ids.values())
    found = []
    for rule in given:
        if 'id' in rule and rule['id'] not in own:
            raise exception.IdentityNotFound(noun='access rule', id=rule['id'])
        rule_id = rule.get('id') or ids.get(tuple(rule[name] for name in FIELDS))
        if rule_id is None:
            if len(ids) >= MAX_ACCESS_RULES:
                raise exception.Forbidden(f'A user can have at most {MAX_ACCESS_RULES} access rules.')
            rule_id = uuid.uuid4().hex
            queries.create(conn, 'access_rule', {
                'id': rule_id, 'user_id': user_id, 'created_at': utils.utcnow(),
                **{name: rule[name] for name in FIELDS}})
            ids[tuple(rule[name] for name in FIELDS)] = rule_id
        if rule_id not in found:
            found.append(rule_id)
    return found


def shown(rows: Iterable[IdentityAccessRulesRow]) -> list[tokens.AccessRule]:
    """Return access rules as the API shows them in a credential or token."""
    return [{'id': row['id'], 'service': row['service'], 'method': row['method'], 'path': row['path']} for row in rows]


def of(conn: engine.Connection, ids: Sequence[str] | None) -> list[tokens.AccessRule] | None:
    """Return the access rules of a credential, or None if all requests are allowed."""
    return None if ids is None else shown(queries.rows(conn, queries.ACCESS_RULE, ids))


def delete(conn: engine.Connection, user_id: str, rule_id: str) -> bool:
    """Delete an access rule.

    :raises Forbidden: a credential uses it
    """
    queries.lock(conn, 'user', user_id)
    if any(rule_id in (row['access_rule_ids'] or ()) for row in queries.rows(
            conn, queries.APPLICATION_CREDENTIAL, user_id=user_id)):
        raise exception.Forbidden(f'Cannot delete access rule {rule_id}: an application credential uses it.')
    return queries.delete(conn, 'access_rule', rule_id)
