"""Token service: validation, issuing and revocation."""
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
from nova.db.tables.rows import IdentityUsersRow
from nova.identity import tokens
from nova.identity.embedded import access_rules
from nova.identity.embedded import domains
from nova.identity.embedded import effective_roles
from nova.identity.embedded import password_rules
from nova.identity.embedded import trusts

CACHE_SIZE = 2000            # tokens


class TokenService:
    """Tokens of the embedded identity service.

    :param conf: uses [identity]
    :param api_db: db.engine.Database with the identity tables
    :param keys: encrypt the tokens
    """

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, keys: tokens.KeyRing) -> None:
        options = conf.identity
        self._db, self._keys = api_db, keys
        self._grace = datetime.timedelta(seconds=options.allow_expired_window)
        self._trust = options.validation_cache_time
        # {token: (its data, cached until)}
        self._cache: collections.OrderedDict[str, tuple[tokens.TokenData, float]] = collections.OrderedDict()
        self._generation = 0
        self._lock = threading.Lock()

    def validate(self, token: str, allow_expired: bool = False, trusted: bool = True) -> tokens.TokenData:
        """Validate a token and return its current data.

        :param token: as received
        :param allow_expired: accept it ``allow_expired_window`` seconds longer
        :param trusted: accept data cached within ``validation_cache_time`` seconds
        :raises Unauthorized: invalid, expired or revoked, or user, project or roles were removed
        :raises ServiceUnavailable: the database does not respond
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
        """Issue a token; return (token, its data), which is cached.

        :raises Unauthorized: user, project or roles were removed, disabled or changed
        """
        generation = self._generation
        with self._db.reader() as conn:
            data = load(conn, claims)
        token = self._keys.seal(claims)
        self._remember(token, data, generation)
        return token, data

    def revoke(self, token: str) -> None:
        """Revoke a token; an invalid token is ignored."""
        claims = self._keys.open(token)
        if claims is not None:
            self._db.run(queries.revoke, claims.audit_ids[0], claims.expires_at + self._grace, utils.utcnow())
            self.forget()

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._generation += 1
            self._cache.clear()

    def _remember(self, token: str, data: tokens.TokenData, generation: int) -> None:
        left = (data.claims.expires_at - utils.utcnow()).total_seconds()
        with self._lock:
            if generation != self._generation or not self._trust:
                return               # the cache was cleared during the read, so data may be stale
            self._cache.pop(token, None)
            self._cache[token] = (data, time.time() + min(self._trust, left))
            if len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)


def load(conn: engine.Connection, claims: tokens.Claims, user: IdentityUsersRow | None = None) -> tokens.TokenData:
    """Return the TokenData for these claims, read from the present rows of user, project and roles.

    :param user: the user's row, if already read
    :raises Unauthorized: the token was revoked, or user, project, domains or roles were removed, disabled or changed
    """
    user = user or queries.get(conn, queries.USER, id=claims.user_id)
    if (user is None or not user['enabled'] or queries.revoked(conn, claims.audit_ids[0])
            or user['tokens_revoked_until'] and claims.issued_at <= user['tokens_revoked_until']):
        raise exception.Unauthorized()
    project = queries.get(conn, queries.PROJECT, id=claims.scope_id) if claims.scope == 'project' else None
    scope_domain = project['domain_id'] if project else claims.scope_id if claims.scope == 'domain' else None
    names = domains.enabled(conn, {user['domain_id'], scope_domain or user['domain_id']})
    facts: dict[str, Any] = {}
    if claims.scope == 'project':
        if project is None or not project['enabled']:
            raise exception.Unauthorized()
        facts = {'project_id': project['id'], 'project_name': project['name'],
                 'project_domain_id': scope_domain, 'project_domain_name': names[project['domain_id']]}
    elif scope_domain is not None:
        facts = {'domain_id': scope_domain, 'domain_name': names[scope_domain]}
    elif claims.scope == 'system':
        facts = {'system_scope': claims.scope_id}
    if claims.scope:
        known = effective_roles.known_roles(conn)
        if claims.trust_id:
            facts['trust'], roles = trusts.load(conn, claims, known)
        else:
            roles = effective_roles.effective(conn, user['id'], claims.scope, claims.scope_id or '', known)
        if claims.credential_id:
            facts['credential'], roles = _bounded(conn, claims, roles, known)
        if not roles:
            raise exception.Unauthorized()
        facts['roles'] = tuple(role['name'] for role in roles)
        facts['role_rows'] = tuple({'id': role['id'], 'name': role['name']} for role in roles)
    return tokens.TokenData(claims=claims, user_id=user['id'], user_name=user['name'],
                            password_expires_at=password_rules.end_of(user),
                            user_domain_id=user['domain_id'], user_domain_name=names[user['domain_id']], **facts)


def _bounded(conn: engine.Connection, claims: tokens.Claims, held: effective_roles.Roles,
             known: effective_roles.Roles) -> tuple[tokens.BoundCredential, effective_roles.Roles]:
    """Return (application credential of a token, roles that it grants).

    A credential is invalid if it is expired or deleted, or if its owner has lost one of its roles.
    """
    row = queries.get(conn, queries.APPLICATION_CREDENTIAL, id=claims.credential_id)
    if (row is None or row['user_id'] != claims.user_id or row['project_id'] != claims.scope_id
            or row['expires_at'] and row['expires_at'] <= utils.utcnow()
            or not set(row['role_ids']) <= {role['id'] for role in held}):
        raise exception.Unauthorized()
    shown: tokens.BoundCredential = {'id': row['id'], 'name': row['name'], 'restricted': not row['unrestricted']}
    rules = access_rules.of(conn, row['access_rule_ids'])
    if rules is not None:
        shown['access_rules'] = rules
    return shown, effective_roles.expand(row['role_ids'], known)
