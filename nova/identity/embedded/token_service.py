"""Tokens of the embedded identity service: what they stand for now, and their end."""
from __future__ import annotations

import collections
import datetime
import threading
import time
from typing import Any

from oslo_config import cfg

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.cells.cells import UNREACHABLE
from nova.db.identity import directory as queries
from nova.identity import tokens
from nova.identity.embedded import directory
from nova.identity.embedded import password_rules

CACHE_SIZE = 2000            # tokens


class TokenService:
    """
    :param conf: read: the group [identity]
    :param api_db: db.engine.Database that has the identity tables
    :param keys: that seal the tokens
    """

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, keys: tokens.KeyRing) -> None:
        options = conf.identity
        self._db, self._keys = api_db, keys
        self._grace = datetime.timedelta(seconds=options.allow_expired_window)
        self._trust = options.validation_cache_time
        # token: (what it stands for, trusted until)
        self._cache: collections.OrderedDict[str, tuple[tokens.TokenData, float]] = collections.OrderedDict()
        self._generation = 0
        self._lock = threading.Lock()

    def validate(self, token: str, allow_expired: bool = False, trusted: bool = True) -> tokens.TokenData:
        """What a token stands for now.

        :param token: as the client sent it
        :param allow_expired: take it for ``allow_expired_window`` seconds longer
        :param trusted: take what was read within the last ``validation_cache_time`` seconds for true
        :raises Unauthorized: forged, expired, revoked, or its user, project or roles are gone
        :raises ServiceUnavailable: the database does not answer
        """
        entry = self._cache.get(token)
        if trusted and entry is not None and time.time() < entry[1]:
            return entry[0]
        generation = self._generation
        claims = self._keys.open(token)
        now = utils.utcnow()
        grace = self._grace if allow_expired else datetime.timedelta()
        if claims is None or now >= claims.expires_at + grace:
            raise exception.Unauthorized()
        try:
            with self._db.reader() as conn:
                data = load(conn, claims)
        except UNREACHABLE as error:
            raise exception.ServiceUnavailable(service='identity') from error
        if now < claims.expires_at:
            self._remember(token, data, generation)
        return data

    def issue(self, claims: tokens.Claims) -> tuple[str, tokens.TokenData]:
        """(token, what it stands for); it is remembered like one that was validated.

        :raises Unauthorized: something that it relies on is gone, disabled or changed
        """
        generation = self._generation
        with self._db.reader() as conn:
            data = load(conn, claims)
        token = self._keys.seal(claims)
        self._remember(token, data, generation)
        return token, data

    def revoke(self, token: str) -> None:
        """End a token before its time; one that is void already is left alone."""
        claims = self._keys.open(token)
        if claims is not None:
            self._db.run(queries.revoke, claims.audit_ids[0], claims.expires_at + self._grace, utils.utcnow())
            self.forget()

    def forget(self) -> None:
        """Trust no token for what was true before."""
        with self._lock:
            self._generation += 1
            self._cache.clear()

    def _remember(self, token: str, data: tokens.TokenData, generation: int) -> None:
        left = (data.claims.expires_at - utils.utcnow()).total_seconds()
        with self._lock:
            if generation != self._generation or not self._trust:
                return               # something changed while this was read
            self._cache.pop(token, None)
            self._cache[token] = (data, time.time() + min(self._trust, left))
            if len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)


def load(conn: engine.Connection, claims: tokens.Claims, user: dict[str, Any] | None = None) -> tokens.TokenData:
    """TokenData of these claims as the database has it now.

    :param user: the user's row, where it has just been read
    :raises Unauthorized: revoked, or something that it relies on is gone, disabled or changed
    """
    user = user or queries.get(conn, 'user', id=claims.user_id)
    if (user is None or not user['enabled'] or queries.revoked(conn, claims.audit_ids[0])
            or user['tokens_void_until'] and claims.issued_at <= user['tokens_void_until']):
        raise exception.Unauthorized()
    domain = directory.DOMAIN
    facts: dict[str, Any] = {}
    if claims.scope == 'project':
        project = queries.get(conn, 'project', id=claims.scope_id)
        if project is None or not project['enabled']:
            raise exception.Unauthorized()
        facts = {'project_id': project['id'], 'project_name': project['name'],
                 'project_domain_id': domain['id'], 'project_domain_name': domain['name']}
    elif claims.scope == 'domain':
        facts = {'domain_id': domain['id'], 'domain_name': domain['name']}
    elif claims.scope == 'system':
        facts = {'system_scope': claims.scope_id}
    if claims.scope:
        known = queries.rows(conn, 'role')
        held = queries.held_role_ids(conn, user['id'], claims.scope, claims.scope_id or '')
        roles = directory.expand(held, known)
        if claims.credential_id:
            facts['credential'], roles = _bounded(conn, claims, roles, known)
        if not roles:
            raise exception.Unauthorized()
        facts['roles'] = tuple(role['name'] for role in roles)
        facts['role_rows'] = tuple({'id': role['id'], 'name': role['name']} for role in roles)
    return tokens.TokenData(claims=claims, user_id=user['id'], user_name=user['name'],
                            password_expires_at=password_rules.end_of(user),
                            user_domain_id=domain['id'], user_domain_name=domain['name'], **facts)


def _bounded(conn: engine.Connection, claims: tokens.Claims, held: list[dict[str, Any]],
             known: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The application credential of a token, and the roles that it gives.

    A credential dies with its end, its row, or any of its roles.
    """
    row = queries.get(conn, 'application_credential', id=claims.credential_id)
    if (row is None or row['user_id'] != claims.user_id or row['project_id'] != claims.scope_id
            or row['expires_at'] and row['expires_at'] <= utils.utcnow()
            or not set(row['role_ids']) <= {role['id'] for role in held}):
        raise exception.Unauthorized()
    return ({'id': row['id'], 'name': row['name'], 'restricted': not row['unrestricted']},
            directory.expand(set(row['role_ids']), known))
