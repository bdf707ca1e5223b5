"""Logins: verification of authentication methods, and issuing of tokens."""
from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.audit import log
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityApplicationCredentialsRow, IdentityTrustsRow, IdentityUsersRow
from nova.identity import tokens
from nova.identity.embedded import checks as secret_checks
from nova.identity.embedded import credentials as user_credentials
from nova.identity.embedded import directory
from nova.identity.embedded import domains
from nova.identity.embedded import factors
from nova.identity.embedded import password_rules
from nova.identity.embedded import token_service
from nova.identity.embedded import trusts


class Proof(NamedTuple):
    """Verified identity of a user, the result of an authentication method.

    user_id         authenticated user
    expires_at      latest time at which the new token may expire; None: no limit
    project_id      project of an application credential
    credential_id   ID of an application credential
    claims          content of the token with which the user logs in
    """

    user_id: str
    expires_at: datetime.datetime | None = None
    project_id: str | None = None
    credential_id: str | None = None
    claims: tokens.Claims | None = None


TRUST = 'OS-TRUST:trust'      # key of a trust in the scope of a login request
_ONCE = frozenset(('totp',))         # methods that are verified last, because each code is valid only once


class Logins:
    """Authentication of users.

    :param people: users, projects and roles
    :param keys: encrypt tokens and receipts
    :param tokens_of: validates tokens of the method token
    :param credentials: TOTP secrets
    :param found: trusts
    :param checks: counts failures
    :param lifetime: of a token
    :param clock: of one-time codes: seconds since the epoch
    """

    def __init__(self, people: directory.Directory, keys: tokens.KeyRing, tokens_of: token_service.TokenService,
                 credentials: user_credentials.Credentials, found: trusts.Trusts, checks: secret_checks.Checks,
                 lifetime: datetime.timedelta, clock: Callable[[], float]) -> None:
        self._directory, self._keys, self._tokens = people, keys, tokens_of
        self._credentials, self._trusts, self._checks = credentials, found, checks
        self._lifetime, self._clock = lifetime, clock
        self._methods: dict[str, Callable[[dict[str, Any], str], Proof]] = {
            'password': self._by_password, 'totp': self._by_totp, 'token': self._by_token,
            'application_credential': self._by_credential}

    def authenticate(self, auth: dict[str, Any], address: str = '',
                     receipt: str | None = None) -> tuple[str, tokens.TokenData]:
        """Authenticate a user and issue a token.

        :param auth: the ``auth`` object of POST /v3/auth/tokens, of the right types
        :param address: of the client; failures are counted for it
        :param receipt: text of a receipt for earlier methods
        :returns: (token, TokenData)
        :raises Unauthorized: the message does not reveal the reason
        :raises PasswordExpired: the password is correct but expired
        :raises FactorsMissing: the methods are correct, but the user's rules require more; contains a receipt
        :raises TooManyRequests: too many failures for this user from this address
        :raises ServiceBusy: too many concurrent logins
        """
        now = utils.utcnow()
        earlier = factors.opened(self._keys, receipt, now)
        identity = auth['identity']
        proofs = [self._methods[method](identity.get(method) or {}, address)
                  for method in sorted(dict.fromkeys(identity['methods']), key=_ONCE.__contains__)
                  if method in self._methods]
        if (not proofs or len(proofs) < len(set(identity['methods'])) or len({p.user_id for p in proofs}) > 1
                or earlier and earlier.user_id != proofs[0].user_id):
            raise exception.Unauthorized()
        before = next((proof.claims for proof in proofs if proof.claims), None)
        bound = next((proof for proof in proofs if proof.project_id), None)
        user_id = proofs[0].user_id
        methods = tuple(dict.fromkeys((*identity['methods'], *(earlier.methods if earlier else ()),
                                       *(before.methods if before else ()))))
        with self._directory.db.reader() as conn:
            found = _usable(queries.get(conn, queries.USER, id=user_id), earlier)
            user: factors.User = {
                **found, 'domain_name': domains.enabled(conn, {found['domain_id']})[found['domain_id']]}
            factors.check(self._keys, user, methods, earlier, now)
            ends = [now + self._lifetime] + [proof.expires_at for proof in proofs if proof.expires_at]
            scope, scope_id = _scope(conn, auth.get('scope'), user_id, bound)
            trust = None
            if scope == TRUST:
                trust = _trust_of(conn, scope_id or '', user_id)
                scope, scope_id, user_id = 'project', trust['project_id'], trusts.user_of(trust)
                ends += [trust['expires_at']] if trust['expires_at'] else []
            claims = tokens.Claims(
                user_id, scope, scope_id, methods, now, min(ends),
                (tokens.new_audit_id(), *(before.audit_ids[-1:] if before else ())),
                bound.credential_id if bound else None, trust['id'] if trust else None)
            data = token_service.load(conn, claims, None if trust else user)
        if trust:
            self._trusts.use(trust)
        return self._keys.seal(claims), data

    def _by_password(self, given: dict[str, Any], address: str) -> Proof:
        credentials = given.get('user') or {}
        user = self._user_of(credentials)
        self._checks.secret(credentials.get('password'), user['password_hash'] if user else None,
                           (user['id'] if user else _name(credentials), address), user['id'] if user else None)
        if user is None:                 # not reached: secret() refuses unknown users
            raise exception.Unauthorized()
        ends_at = password_rules.end_of(user)
        if ends_at is not None and ends_at <= utils.utcnow():        # checked only after the password was verified
            log.about(user['id'])
            raise exception.PasswordExpired(user_id=user['id'])
        return Proof(user['id'])

    def _by_totp(self, given: dict[str, Any], address: str) -> Proof:
        """Verify a one-time code. Failures have a separate counter, which a correct password must not reset."""
        credentials = given.get('user') or {}
        user = self._user_of(credentials)
        user_id: str | None = user['id'] if user else None
        self._checks.check(('totp\0' + (user_id or _name(credentials)), address), user_id,
                           lambda: self._credentials.take_code(user_id, credentials.get('passcode') or '',
                                                               self._clock()))
        if user_id is None:
            raise exception.Unauthorized()
        return Proof(user_id)

    def _by_credential(self, given: dict[str, Any], address: str) -> Proof:
        credentials = given.get('user') or {}
        row: IdentityApplicationCredentialsRow | None = None
        if 'id' in given:
            row = self._directory.find(queries.APPLICATION_CREDENTIAL, id=given['id'])
        elif (user := self._user_of(credentials)) is not None:
            row = self._directory.find(queries.APPLICATION_CREDENTIAL, user_id=user['id'], name=given.get('name') or '')
        self._checks.secret(given.get('secret'), row['secret_hash'] if row else None,
                           (row['id'] if row else given.get('id') or _name(credentials), address),
                           row['user_id'] if row else None)
        if row is None:
            raise exception.Unauthorized()
        return Proof(row['user_id'], row['expires_at'], row['project_id'], row['id'])

    def _by_token(self, given: dict[str, Any], address: str) -> Proof:
        # bypass the cache, which may contain a token that another process revoked
        data = self._tokens.validate(given.get('id') or '', trusted=False)
        if data.trust is not None:
            raise exception.Forbidden('The token of a trust cannot be exchanged for another token.')
        credential_id = data.claims.credential_id
        return Proof(data.user_id, data.claims.expires_at, data.project_id if credential_id else None,
                     credential_id, data.claims)

    def _user_of(self, credentials: dict[str, Any]) -> IdentityUsersRow | None:
        if 'id' in credentials:
            return self._directory.find(queries.USER, id=credentials['id'])
        with self._directory.db.reader() as conn:
            domain = domains.find(conn, credentials.get('domain') or {})
            return domain and queries.get(
                conn, queries.USER, domain_id=domain['id'], name=credentials.get('name') or '')

    def change_password(self, user_id: str, original: str, new: str, address: str = '') -> None:
        """Change the password of a user who knows the present one; the user's tokens become invalid.

        :raises PasswordRefused: the password violates the rules or was used before
        """
        user = self._directory.find(queries.USER, id=user_id)
        self._checks.secret(original, user['password_hash'] if user else None, (user_id, address),
                           user_id if user else None)
        if user is None or not user['enabled']:
            raise exception.Unauthorized()
        self._directory.rules.check(new)
        self._refuse_past(user, new, address)
        self._directory.update_user(user_id, password=new)

    def _refuse_past(self, user: IdentityUsersRow, new: str, address: str) -> None:
        """Refuse a past password. Passwords set by administrators, who do not know past passwords, are not checked."""
        if not self._directory.rules.history:
            return
        with self._directory.db.reader() as conn:
            past = [user['password_hash'], *queries.past_passwords(conn, user['id'])][:self._directory.rules.history]
        for stored in past:
            if self._checks.matches(address, new, stored):
                self._directory.rules.refuse_past()


def _trust_of(conn: engine.Connection, trust_id: str, trustee_id: str) -> IdentityTrustsRow:
    """Return the trust that a trustee uses to log in.

    :raises Unauthorized: the trustee has no trust with this id, or the trust has expired
    """
    trust = queries.get(conn, queries.TRUST, id=trust_id, trustee_user_id=trustee_id)
    if trust is None or trusts.is_expired(trust):
        raise exception.Unauthorized()
    return trust


def _name(credentials: dict[str, Any]) -> str:
    return str(credentials.get('id') or credentials.get('name') or '').lower()


def _scope(conn: engine.Connection, scope: str | dict[str, Any] | None, user_id: str,
           bound: Proof | None) -> tuple[str | None, str | None]:
    """Return (kind, ID) of the requested scope; the kind is 'project', 'domain', 'system', TRUST or None.

    :param bound: proof that limits this login to one project, or None
    :raises Unauthorized: unknown scope, or not allowed by the proof
    """
    kind, wanted = _kind_of(scope)
    if bound is not None:
        if kind is None or kind == 'project' and wanted.get('id') == bound.project_id:
            return 'project', bound.project_id
        raise exception.Unauthorized()
    if kind is None:
        return _default_scope(conn, user_id)
    if kind == 'unscoped':
        return None, None
    found = None
    if kind == 'domain' and (domain := domains.find(conn, wanted)) is not None:
        found = domain['id']
    elif kind == 'system' and wanted.get('all') is True:
        found = directory.SYSTEM
    elif kind == 'project':
        found = _project_id(conn, wanted)
    elif kind == TRUST:
        found = wanted.get('id')
    if found is None:
        raise exception.Unauthorized()
    return kind, found


def _kind_of(scope: str | dict[str, Any] | None) -> tuple[str | None, dict[str, Any]]:
    """Return (kind of the scope, its value); the kind is None if the request has no scope."""
    if not isinstance(scope, dict):
        return scope, {}
    kind = next((key for key in ('project', 'domain', 'system', TRUST, 'unscoped') if key in scope), 'unknown')
    return kind, scope.get(kind) or {}


def _project_id(conn: engine.Connection, wanted: dict[str, Any]) -> str | None:
    if 'id' in wanted:
        return wanted['id']
    domain = domains.find(conn, wanted.get('domain') or {})
    project = domain and queries.get(conn, queries.PROJECT, domain_id=domain['id'], name=wanted.get('name'))
    return project['id'] if project else None


def _default_scope(conn: engine.Connection, user_id: str) -> tuple[str | None, str | None]:
    """Return ('project', id) of the user's default project, or (None, None) if the user has no role on it."""
    user = queries.get(conn, queries.USER, id=user_id)
    wanted = user and user['default_project_id']
    if wanted and any(project['id'] == wanted for project in queries.projects_of(conn, user_id)):
        return 'project', wanted
    return None, None


def _usable(user: IdentityUsersRow | None, receipt: tokens.Receipt | None) -> IdentityUsersRow:
    """Check that a user may log in, and return the row.

    :raises Unauthorized: deleted or disabled, or the password changed after the receipt
    """
    if (user is None or not user['enabled']
            or receipt and user['tokens_revoked_until'] and receipt.issued_at <= user['tokens_revoked_until']):
        raise exception.Unauthorized()
    return user
