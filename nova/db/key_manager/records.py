"""Rows of the embedded key manager: secrets, containers, consumers, access control lists and orders.

Queries do not return expired rows. The next write of the project deletes them.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
import hashlib
import operator
from typing import Any, cast, TYPE_CHECKING, TypeVar

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import statements
from nova.db.projects import quotas
from nova.db.tables import api as t_api
from nova.db.tables import key_manager as t

if TYPE_CHECKING:
    import datetime

    from nova.db.tables.rows import KeyConsumersRow, KeyContainersRow, KeySecretsRow
    from nova.db.types import ColumnValues, Table

    RowT = TypeVar('RowT')
    Listed = KeySecretsRow | KeyContainersRow      # a row that may have an access control list

MAX_CONSUMERS = 1000                     # maximum consumers of a secret or container, because a response lists all
OPERATORS: dict[str, Callable[[Any, Any], sa.ColumnElement[bool]]] = {
    'eq': operator.eq, 'gt': operator.gt, 'gte': operator.ge, 'lt': operator.lt, 'lte': operator.le}
# {resource: table with the counted rows}; in the table ``quotas`` the resources have the prefix QUOTA
COUNTED: dict[str, sa.Table] = {'secrets': t.key_secrets, 'containers': t.key_containers, 'orders': t.key_orders,
                                'consumers': t.key_consumers}
QUOTA = 'key_manager_'
Comparison = tuple[str, str, Any]        # (column, key of OPERATORS, value)


def _is_current(table: sa.Table) -> sa.ColumnElement[bool]:
    if 'expires_at' not in table.c:
        return sa.true()
    return sa.or_(table.c.expires_at.is_(None), table.c.expires_at > utils.utcnow())


def _is_counted(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition for rows that use quota: neither the row nor the secret that it depends on has expired."""
    if table is t.key_consumers:
        secrets = t.key_secrets.c
        return ~sa.exists().where(secrets.id == table.c.target_id, secrets.expires_at <= utils.utcnow())
    return _is_current(table)


# ---- all kinds of rows

def insert(conn: sa.Connection, table: sa.Table, values: ColumnValues, moment: datetime.datetime) -> None:
    stamps = {'created_at': moment, **({'updated_at': moment} if 'updated_at' in table.c else {})}
    conn.execute(statements.insert(table), {**stamps, **values})


def get(conn: sa.Connection, table: Table[RowT], ident: str, *, lock: bool = False) -> RowT | None:
    """Return the row with this id, or None.

    :param lock: lock the row until the transaction ends
    """
    statement = sa.select(table).where(table.c.id == ident, _is_current(table))
    row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
    return None if row is None else cast('RowT', dict(row))


def update(conn: sa.Connection, table: sa.Table, ident: str, values: ColumnValues) -> None:
    statements.update(conn, table, {'updated_at': utils.utcnow(), **values}, id=ident)


def page(conn: sa.Connection, table: Table[RowT], project_id: str | None, compare: Sequence[Comparison],
         sort: Sequence[tuple[str, bool]], limit: int, offset: int, user_id: str = '') -> tuple[list[RowT], int]:
    """Return (rows of a page, number of all rows).

    :param project_id: owner, or None for all projects
    :param sort: (column, descending); the id comes last
    :param user_id: only rows whose access control list has this user
    """
    found = [_is_current(table), *(OPERATORS[name](table.c[column], value) for column, name, value in compare)]
    if project_id is not None:
        found.append(table.c.project_id == project_id)
    if user_id:
        found.append(table.c.id.in_(sa.select(t.key_acl_users.c.target_id).where(
            t.key_acl_users.c.user_id == user_id)))
    order = [table.c[column].desc() if descending else table.c[column] for column, descending in sort]
    rows = statements.dicts(conn.execute(sa.select(table).where(*found).order_by(*order, table.c.id).limit(
        limit).offset(offset)))
    return rows, conn.execute(sa.select(sa.func.count()).select_from(table).where(*found)).scalar_one()


# ---- quotas

def own_limits(conn: sa.Connection, project_id: str) -> dict[str, int]:
    """Return {resource: limit} of the limits that are set for a project; -1 is unlimited."""
    found = quotas.own_limits(conn, project_id, [QUOTA + name for name in COUNTED])
    return {name.removeprefix(QUOTA): limit for name, limit in found.items()}


def set_limits(conn: sa.Connection, project_id: str, limits: Mapping[str, int]) -> None:
    """Replace the limits of a project."""
    quotas.delete_limits(conn, project_id, resources=tuple(QUOTA + name for name in COUNTED))
    quotas.set_limits(conn, project_id, {QUOTA + name: limit for name, limit in limits.items()})


def projects_with_limits(conn: sa.Connection, limit: int, offset: int) -> tuple[list[str], int]:
    """Return (one page of the ids of projects for which limits are set, total number of these projects)."""
    names = [QUOTA + name for name in COUNTED]
    found = sa.select(t_api.quotas.c.project_id).where(t_api.quotas.c.resource.in_(names)).distinct()
    total = conn.execute(sa.select(sa.func.count()).select_from(found.subquery())).scalar_one()
    return list(conn.scalars(found.order_by(t_api.quotas.c.project_id).limit(limit).offset(offset))), total


def use(conn: sa.Connection, project_id: str, default: int, wanted: Mapping[str, int]) -> None:
    """Check that new rows are within the limits of a project. The quota stays locked until the transaction ends.

    :param default: limit of a resource for which the project has no limit; -1 is unlimited
    :param wanted: {key of COUNTED: number of new rows}
    :raises QuotaExceeded: a limit is exceeded
    """
    quotas.lock(conn, project_id)
    _delete_expired(conn, project_id)
    own = own_limits(conn, project_id)
    for name, number in wanted.items():
        limit = own.get(name, default)
        table = COUNTED[name]
        used = conn.execute(sa.select(sa.func.count()).select_from(table).where(
            table.c.project_id == project_id, _is_counted(table))).scalar_one() if limit >= 0 else 0
        if 0 <= limit < used + number:
            raise exception.QuotaExceeded(resource=name, requested=number, used=used, limit=limit)


# ---- secrets

def encryption_key_ids(conn: sa.Connection) -> set[str]:
    """Return the id of the deployment key that encrypts the newest secret, as a set; empty if there are no secrets."""
    table = t.key_secrets
    found = conn.execute(sa.select(table.c.encryption_key_id).where(table.c.encryption_key_id.is_not(None)).order_by(
        table.c.created_at.desc()).limit(1)).scalar()
    return {found} if found else set()


def secrets(conn: sa.Connection, project_id: str) -> int:
    """Return the number of secrets of a project."""
    return conn.execute(sa.select(sa.func.count()).select_from(t.key_secrets).where(
        t.key_secrets.c.project_id == project_id, _is_current(t.key_secrets))).scalar_one()


def existing(conn: sa.Connection, project_id: str, idents: Collection[str]) -> set[str]:
    """Return the ids in ``idents`` that are secrets of a project."""
    table = t.key_secrets
    return set(conn.scalars(sa.select(table.c.id).where(
        table.c.id.in_(idents), table.c.project_id == project_id, _is_current(table))))


def delete_secrets(conn: sa.Connection, idents: Collection[str]) -> None:
    """Delete secrets with their dependent rows, and remove them from containers."""
    _delete(conn, t.key_secrets, idents)
    conn.execute(sa.delete(t.key_container_secrets).where(t.key_container_secrets.c.secret_id.in_(idents)))


def delete_container(conn: sa.Connection, ident: str) -> None:
    """Delete a container; its secrets are kept."""
    _delete(conn, t.key_containers, [ident])
    statements.delete(conn, t.key_container_secrets, container_id=ident)


def delete_order(conn: sa.Connection, ident: str) -> None:
    statements.delete(conn, t.key_orders, id=ident)


def _delete(conn: sa.Connection, table: sa.Table, idents: Collection[str]) -> None:
    # delete the secrets or containers first: a transaction must lock them before it inserts a dependent row
    conn.execute(sa.delete(table).where(table.c.id.in_(idents)))
    for other in (t.key_acl_users, t.key_consumers):
        conn.execute(sa.delete(other).where(other.c.target_id.in_(idents)))


def _delete_expired(conn: sa.Connection, project_id: str) -> None:
    table = t.key_secrets
    expired = list(conn.scalars(sa.select(table.c.id).where(
        table.c.project_id == project_id, table.c.expires_at <= utils.utcnow()).limit(1000)))
    if expired:
        delete_secrets(conn, expired)


# ---- containers

def secrets_of(conn: sa.Connection, container_ids: Collection[str]) -> dict[str, list[tuple[str, str]]]:
    """Return {container: [(name, secret)]} in the order of the names; an empty string means no name."""
    table = t.key_container_secrets
    found: dict[str, list[tuple[str, str]]] = {ident: [] for ident in container_ids}
    for row in conn.execute(sa.select(table.c.container_id, table.c.name, table.c.secret_id).join(
            t.key_secrets, t.key_secrets.c.id == table.c.secret_id).where(
                table.c.container_id.in_(container_ids), _is_current(t.key_secrets)).order_by(table.c.name)):
        found[row.container_id].append((row.name, row.secret_id))
    return found


def add_secret(conn: sa.Connection, container_id: str, name: str, secret_id: str) -> None:
    conn.execute(statements.insert(t.key_container_secrets), {
        'container_id': container_id, 'name': name, 'secret_id': secret_id})


def remove_secret(conn: sa.Connection, container_id: str, name: str, secret_id: str) -> bool:
    """Remove a secret from a container; return whether the container had it."""
    return bool(statements.delete(conn, t.key_container_secrets, container_id=container_id, name=name,
                                  secret_id=secret_id))


# ---- access control lists

def users(conn: sa.Connection, target_id: str) -> list[str]:
    """Return the ids of the users in the access control list of a secret or container."""
    table = t.key_acl_users
    return list(conn.scalars(sa.select(table.c.user_id).where(table.c.target_id == target_id).order_by(
        table.c.user_id)))


def set_acl(conn: sa.Connection, table: sa.Table, row: Listed, user_ids: Collection[str] | None,
            project_access: bool) -> None:
    """Replace the access control list of a secret or container.

    :param user_ids: users, or None to delete the list
    :raises BadRequest: two ids differ only in case, which MariaDB's index ignores
    """
    unique = {*(user_ids or ())}
    if len({user_id.lower() for user_id in unique}) < len(unique):
        raise exception.BadRequest('The ids of the users must differ in more than upper and lower case.')
    now = utils.utcnow()
    statements.delete(conn, t.key_acl_users, target_id=row['id'])
    if unique:
        conn.execute(statements.insert(t.key_acl_users), [
            {'target_id': row['id'], 'user_id': user_id} for user_id in sorted(unique)])
    statements.update(conn, table, {
        'project_access': project_access, 'acl_created_at': None if user_ids is None else row['acl_created_at'] or now,
        'acl_updated_at': None if user_ids is None else now}, id=row['id'])


# ---- consumers

def consumers(conn: sa.Connection, target_ids: Collection[str]) -> dict[str, list[KeyConsumersRow]]:
    """Return {secret or container: [row]}, oldest first."""
    table = t.key_consumers
    found: dict[str, list[KeyConsumersRow]] = {ident: [] for ident in target_ids}
    for row in statements.dicts(conn.execute(sa.select(table).where(table.c.target_id.in_(target_ids)).order_by(
            table.c.created_at, table.c.digest))):
        found[row['target_id']].append(row)
    return found


def digest(document: Mapping[str, str]) -> str:
    """Return the digest of a consumer's document."""
    return hashlib.sha256(utils.dump_json(dict(sorted(document.items()))).encode()).hexdigest()


def add_consumer(conn: sa.Connection, table: Table[Any], row: Listed, document: Mapping[str, str],
                 default: int) -> bool:
    """Register a consumer; idempotent. Return False if the secret or container does not exist any more.

    :param table: table of ``row``
    :param default: see ``use``
    :raises QuotaExceeded: the project, or the secret or container, has too many consumers
    """
    key = {'target_id': row['id'], 'digest': digest(document)}
    quotas.lock(conn, row['project_id'])
    if get(conn, table, row['id'], lock=True) is None:
        return False
    if statements.first(conn, t.key_consumers, **key) is not None:
        return True
    use(conn, row['project_id'], default, {'consumers': 1})
    if statements.more_than(conn, t.key_consumers, MAX_CONSUMERS - 1, target_id=row['id']):
        raise exception.QuotaExceeded(resource='consumers of one resource', requested=1, used=MAX_CONSUMERS,
                                      limit=MAX_CONSUMERS)
    insert(conn, t.key_consumers, {**key, 'project_id': row['project_id'], 'document': dict(document)},
           utils.utcnow())
    return True


def remove_consumer(conn: sa.Connection, target_id: str, document: Mapping[str, str]) -> bool:
    """Remove a consumer; return whether it existed."""
    return bool(statements.delete(conn, t.key_consumers, target_id=target_id, digest=digest(document)))
