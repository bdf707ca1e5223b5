"""Quotas in the Networking API."""
from __future__ import annotations

from oslo_config import cfg

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import limits as db_limits
from nova.db.projects import quotas as db_quotas
from nova.json_types import JsonObject
from nova.network import quotas
from nova.network.rest import faults
from nova.network.rest import schemas

MAX_PROJECT = 255               # maximum length of a project id
LIMIT = schemas.integer(-1, 2 ** 31 - 1)
_NUMBER = schemas.TypeValidator(LIMIT)
_FLAG = schemas.TypeValidator(schemas.nullable(schemas.BOOLEAN))


def limits(conf: cfg.ConfigOpts, own: dict[str, int] | None = None) -> dict[str, int]:
    """Return {resource: limit}; -1: unlimited.

    :param own: {resource: limit} set for a project
    """
    return {name: quotas.limit(conf, name, own) for name in quotas.COUNTED}


def check(conn: Connection, conf: cfg.ConfigOpts, name: str, project_id: str, adding: int = 1) -> None:
    """Check the quota. Other requests of the project wait until the transaction ends.

    :raises OverQuota:
    """
    try:
        quotas.check(conn, conf, name, project_id, adding)
    except exception.QuotaExceeded:
        raise faults.OverQuota(resource=name) from None


def details(conn: Connection, conf: cfg.ConfigOpts, project_id: str) -> dict[str, dict[str, int]]:
    return {name: {'limit': limit, 'reserved': 0,
                   'used': quotas.used(conn, name, project_id)}
            for name, limit in limits(conf, db_limits.of(conn, project_id)).items()}


def check_project(project_id: str) -> None:
    """Refuse an id that is longer than ids of projects; raises BadRequest."""
    if len(project_id) > MAX_PROJECT:
        raise exception.BadRequest(f'A project id has at most {MAX_PROJECT} characters.')


def options(body: JsonObject) -> bool:
    """Remove check_limit and force from a request; return the value of check_limit.

    If check_limit is true, limits below the usage are rejected (extension quota-check-limit). ``force`` has no effect.

    :raises InvalidInput: a value is not a boolean
    """
    check, _force = (_FLAG(name, body.pop(name, None)) for name in ('check_limit', 'force'))
    return bool(check)


def replace(conn: Connection, project_id: str, wanted: dict[str, int], check_usage: bool) -> None:
    """Set all given limits of a project, or none if one is invalid.

    :param check_usage: reject a limit below the usage
    :raises BadRequest:
    """
    db_quotas.lock(conn, project_id)
    for name, limit in wanted.items() if check_usage else ():
        count = quotas.used(conn, name, project_id)
        if 0 <= limit < count:
            raise exception.BadRequest(f'Quota limit {limit} for {name} must be greater than or equal to already used '
                                       f'{count}. Omit check_limit, or delete resources first.')
    db_limits.replace(conn, project_id, wanted)


def parse(body: JsonObject) -> dict[str, int]:
    """Return {resource: limit} of a request.

    :raises BadRequest, InvalidInput: unknown resource, or not a number
    """
    unknown = sorted(str(name)[:60] for name in body if name not in quotas.COUNTED)
    if unknown:
        raise exception.BadRequest(f"Unrecognized attribute(s) {', '.join(map(repr, unknown[:10]))}")
    return {name: _NUMBER(name, value) for name, value in body.items()}
