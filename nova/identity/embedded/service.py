"""Logins and tokens of the embedded identity service."""
from __future__ import annotations

import collections
import datetime
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.audit import log
from nova.db.cells.cells import UNREACHABLE
from nova.db.identity import directory as queries
from nova.identity import hashing
from nova.identity import passwords
from nova.identity import signatures
from nova.identity import tokens
from nova.identity.embedded import credentials
from nova.identity.embedded import directory
from nova.identity.embedded import factors
from nova.identity.embedded import password_rules
from nova.identity.embedded import ratelimit
from nova.runtime.http import addresses

LOG = logging.getLogger(__name__)

CACHE_SIZE = 2000            # tokens


class IdentityService(directory.Directory):
    """Users, projects and roles; logins and tokens.

    :param conf: read: the group [identity]
    :param api_db: db.engine.Database that has the identity tables
    :param keys_dir: directory of the token keys, made when missing
    :param catalog: callable(project_id) -> service catalog, see ``catalog.for_base``
    :param clock: of one-time codes: seconds since the epoch
    """

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, keys_dir: str,
                 catalog: Callable[[str | None], Any], clock: Callable[[], float] = time.time) -> None:
        options = conf.identity
        # So many threads of the server may wait for a hash; the others stay for everything else. The server itself lets
        # fewer work on logins (assembly.http_plan): a burst of them waits its turn there and is not refused.
        places = conf.http.threads * 3 // 4
        super().__init__(api_db, options.password_hash_rounds, hashing.HashPool(hashing.workers(), places),
                         password_rules.PasswordRules(options.password_min_length, options.password_regex,
                                                      options.password_history, options.password_expires_days))
        self.catalog = catalog
        self.keys = tokens.KeyRing(keys_dir)
        self.credentials = credentials.Credentials(api_db, self.keys)
        self._clock = clock
        self._lifetime = datetime.timedelta(seconds=options.token_expiration)
        self._grace = datetime.timedelta(seconds=options.allow_expired_window)
        self._trust = options.validation_cache_time
        self._delays = ratelimit.LoginDelays(options.max_login_failures, options.login_failure_window)
        # token: (what it stands for, trusted until)
        self._cache: collections.OrderedDict[str, tuple[tokens.TokenData, float]] = collections.OrderedDict()
        self._generation = 0
        self._lock = threading.Lock()

    # ---- validation

    def validate(self, token: str, allow_expired: bool = False) -> tokens.TokenData:
        """What a token stands for now.

        :param token: as the client sent it
        :param allow_expired: take it for ``allow_expired_window`` seconds longer
        :raises Unauthorized: forged, expired, revoked, or its user, project or roles are gone
        :raises ServiceUnavailable: the database does not answer
        """
        entry = self._cache.get(token)
        if entry is not None and time.time() < entry[1]:
            return entry[0]
        generation = self._generation
        claims = self.keys.open(token)
        now = utils.utcnow()
        grace = self._grace if allow_expired else datetime.timedelta()
        if claims is None or now >= claims.expires_at + grace:
            raise exception.Unauthorized()
        try:
            with self.db.reader() as conn:
                data = _load(conn, claims)
        except UNREACHABLE as error:
            raise exception.ServiceUnavailable(service='identity') from error
        if now < claims.expires_at:
            self._remember(token, data, generation)
        return data

    def _remember(self, token: str, data: tokens.TokenData, generation: int) -> None:
        left = (data.claims.expires_at - utils.utcnow()).total_seconds()
        with self._lock:
            if generation != self._generation or not self._trust:
                return               # something changed while this was read
            self._cache.pop(token, None)
            self._cache[token] = (data, time.time() + min(self._trust, left))
            if len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)

    def forget(self) -> None:
        with self._lock:
            self._generation += 1
            self._cache.clear()

    def revoke(self, token: str) -> None:
        """End a token before its time; one that is void already is left alone."""
        claims = self.keys.open(token)
        if claims is not None:
            self.write(queries.revoke, claims.audit_ids[0], claims.expires_at + self._grace, utils.utcnow())

    # ---- login

    def expect_room(self, address: str) -> None:
        """
        :raises ServiceBusy: a login from this address would find no place
        """
        self.hashing.check(addresses.client(address))

    def login(self, name: str, password: str, project_name: str | None = None,
              address: str = '') -> tuple[str, tokens.TokenData]:
        """A password login by names in the default domain, scoped to a project or to nothing.

        :returns: (token, TokenData)
        """
        domain = {'id': directory.DOMAIN['id']}
        scope = {'project': {'name': project_name, 'domain': domain}} if project_name else {'unscoped': {}}
        return self.authenticate({'identity': {'methods': ['password'], 'password': {'user': {
            'name': name, 'password': password, 'domain': domain}}}, 'scope': scope}, address)

    def authenticate(self, auth: dict[str, Any], address: str = '',
                     receipt: str | None = None) -> tuple[str, tokens.TokenData]:
        """Check who asks and issue a token.

        :param auth: the ``auth`` object of POST /v3/auth/tokens, of the right types
        :param address: where the request comes from; failures are counted for it
        :param receipt: of methods that were used before, as text
        :returns: (token, TokenData)
        :raises Unauthorized: always the same words, whatever was wrong
        :raises PasswordExpired: the password is right, and must be changed before
        :raises FactorsMissing: what was used is right, and the user's rules want more; it has a receipt
        :raises TooManyRequests: too many failures for this user from this address: to be tried later
        :raises ServiceBusy: too many logins at once
        """
        now = utils.utcnow()
        earlier = factors.opened(self.keys, receipt, now)
        identity = auth['identity']
        proofs = [getattr(self, _METHODS[method])(identity.get(method) or {}, address)
                  for method in sorted(dict.fromkeys(identity['methods']), key=_ONCE.__contains__)
                  if method in _METHODS]
        if (not proofs or len(proofs) < len(set(identity['methods'])) or len({p.user_id for p in proofs}) > 1
                or earlier and earlier.user_id != proofs[0].user_id):
            raise exception.Unauthorized()
        before = next((proof.claims for proof in proofs if proof.claims), None)
        bound = next((proof for proof in proofs if proof.project_id), None)
        user_id = proofs[0].user_id
        methods = tuple(dict.fromkeys((*identity['methods'], *(earlier.methods if earlier else ()),
                                       *(before.methods if before else ()))))
        with self.db.reader() as conn:
            user = _usable(queries.get(conn, 'user', id=user_id), earlier)
            factors.check(self.keys, user, methods, earlier, now)
            scope, scope_id = _scope(conn, auth.get('scope'), user_id, bound)
            claims = tokens.Claims(
                user_id, scope, scope_id, methods,
                now, min([now + self._lifetime] + [proof.expires_at for proof in proofs if proof.expires_at]),
                (tokens.new_audit_id(), *(before.audit_ids[-1:] if before else ())),
                bound.credential_id if bound else None)
            data = _load(conn, claims, user)
        return self.keys.seal(claims), data

    def authenticate_signature(self, signed: dict[str, Any], address: str = '') -> tuple[str, tokens.TokenData]:
        """Issue a token for a request that a client of EC2 has signed.

        Like an application credential a pair of keys is what its owner has made for programs, after a login by the
        rules: they are not requested again.

        :param signed: see ``nova.identity.signatures``
        :param address: where the request comes from
        :returns: (token, TokenData)
        :raises Unauthorized: always the same words, whatever was wrong
        :raises TooManyRequests: too many failures for these keys from this address
        """
        now, signed = utils.utcnow(), {'params': {}, 'headers': {}, 'body_hash': '', **signed}
        return self._by_pair(signed['access'], address, now, lambda secret: (
            signatures.is_recent(signed, now) and signatures.matches(secret, signed)))

    def authenticate_text(self, access: str, text: str, signature: str, address: str = '',
                          ) -> tuple[str, tokens.TokenData]:
        """The same for a request to the object store, which has looked at its time.

        :param text: see ``nova.identity.signatures.matches_text``
        """
        return self._by_pair(access, address, utils.utcnow(), lambda secret: signatures.matches_text(
            secret, text, signature))

    def key_of_scope(self, access: str, scope: str) -> bytes | None:
        """The key that chunks of a content are signed with, by who has signed the request before them; it is good for
        the day of the scope and for S3 alone. None: the access key is gone, or the scope is none.
        """
        row = self.find('credential', id=credentials.id_of_access(access), type=credentials.EC2)
        secret = credentials.pair_of(self.credentials.get(row['id'])['blob']).get('secret') if row else None
        return signatures.key_of_scope(secret, scope) if secret else None

    def _by_pair(self, access: str, address: str, now: datetime.datetime, matches: Callable[[str], bool],
                 ) -> tuple[str, tokens.TokenData]:
        row = self.find('credential', id=credentials.id_of_access(access), type=credentials.EC2)
        pair = credentials.pair_of(self.credentials.get(row['id'])['blob']) if row else {}
        self._check((f'ec2\0{access}', address), row and row['user_id'],
                    lambda: matches(pair.get('secret', '')) and bool(pair))
        claims = tokens.Claims(row['user_id'], 'project', row['project_id'], ('ec2credential',),
                               now, now + min(self._lifetime, signatures.VALID), (tokens.new_audit_id(),), None)
        generation = self._generation
        with self.db.reader() as conn:
            data = _load(conn, claims)
        token = self.keys.seal(claims)
        self._remember(token, data, generation)
        return token, data

    def by_password(self, given: dict[str, Any], address: str) -> Proof:
        credentials = given.get('user') or {}
        user = self._user_of(credentials)
        self._check_secret(credentials.get('password'), user and user['password_hash'],
                           (user['id'] if user else _name(credentials), address), user and user['id'])
        ends_at = password_rules.end_of(user)
        if ends_at is not None and ends_at <= utils.utcnow():        # only after the password is right
            log.about(user['id'])
            raise exception.PasswordExpired(user_id=user['id'])
        return Proof(user['id'])

    def by_totp(self, given: dict[str, Any], address: str) -> Proof:
        """The failures are counted apart from those of the password, whose holder could else forget them."""
        credentials = given.get('user') or {}
        user = self._user_of(credentials)
        user_id = user and user['id']
        self._check(('totp\0' + (user_id or _name(credentials)), address), user_id,
                    lambda: self.credentials.take_code(user_id, credentials.get('passcode') or '', self._clock()))
        return Proof(user_id)

    def by_credential(self, given: dict[str, Any], address: str) -> Proof:
        credentials = given.get('user') or {}
        row: Any = None
        if 'id' in given:
            row = self.find('application_credential', id=given['id'])
        elif (user := self._user_of(credentials)) is not None:
            row = self.find('application_credential', user_id=user['id'], name=given.get('name'))
        self._check_secret(given.get('secret'), row and row['secret_hash'],
                           (row['id'] if row else given.get('id') or _name(credentials), address),
                           row and row['user_id'])
        return Proof(row['user_id'], row['expires_at'], row['project_id'], row['id'])

    def by_token(self, given: dict[str, Any], address: str) -> Proof:
        data = self.validate(given.get('id') or '')
        credential_id = data.claims.credential_id
        return Proof(data.user_id, data.claims.expires_at, data.project_id if credential_id else None,
                     credential_id, data.claims)

    def change_password(self, user_id: str, original: str, new: str, address: str = '') -> None:
        """A user changes the password, knowing the present one; the tokens issued so far are void.

        :raises PasswordRefused: it is against the rules, or one of the last ones
        """
        user = self.find('user', id=user_id)
        self._check_secret(original, user and user['password_hash'], (user_id, address), user and user_id)
        if not user['enabled']:
            raise exception.Unauthorized()
        self.rules.check(new)
        self._refuse_past(user, new, address)
        self.update_user(user_id, password=new)

    def _refuse_past(self, user: dict[str, Any], new: str, address: str) -> None:
        """An administrator who sets a password does not know the earlier ones: no history is checked."""
        if not self.rules.history:
            return
        with self.db.reader() as conn:
            past = [user['password_hash'], *queries.past_passwords(conn, user['id'])][:self.rules.history]
        for stored in past:
            if self.hashing.run(addresses.client(address), passwords.matches, new, stored, self.rounds):
                self.rules.refuse_past()

    def _check_secret(self, secret: str | None, stored: str | None, key: tuple[str, str], user_id: str | None) -> None:
        """Return when the secret is right; an unknown user takes as long and counts as a failure as well."""
        self._check(key, user_id, lambda: self.hashing.run(
            addresses.client(key[1]), passwords.matches, secret or '', stored, self.rounds))

    def _check(self, key: tuple[str, str], user_id: str | None, matches: Callable[[], bool]) -> None:
        """Return when ``matches()`` is true; else it is counted.

        :param key: (who, address)
        """
        key = (str(key[0])[:255], addresses.client(key[1]))
        self._delays.check(*key)
        if not matches():
            self._delays.failed(*key)
            log.about(user_id)
            # The name that was typed stays out: people type passwords into that field.
            LOG.warning('Login refused for user %s from %s', user_id or 'unknown', key[1])
            raise exception.Unauthorized()
        self._delays.check(*key)
        self._delays.succeeded(*key)

    def _user_of(self, credentials: dict[str, Any]) -> Any:
        if 'id' in credentials:
            return self.find('user', id=credentials['id'])
        if not directory.is_domain(**_words(credentials.get('domain'))):
            return None
        return self.find('user', domain_id=directory.DOMAIN['id'], name=credentials.get('name'))


# What a method proves: whose the request is, how long a token may last, and for an application credential the
# project to which it is bound.
Proof = collections.namedtuple('Proof', 'user_id expires_at project_id credential_id claims',
                               defaults=(None, None, None, None))

_METHODS = {'password': 'by_password', 'totp': 'by_totp', 'token': 'by_token',
            'application_credential': 'by_credential'}
_ONCE = frozenset(('totp',))         # used up by a look at it: they come after the others, which may be wrong


def _words(mapping: dict[str, Any] | None) -> dict[str, Any]:
    """The id or the name of an object that a client referred to."""
    return {key: mapping[key] for key in ('id', 'name') if key in mapping} if mapping else {}


def _name(credentials: dict[str, Any]) -> str:
    return str(credentials.get('id') or credentials.get('name') or '').lower()


def _scope(conn: engine.Connection, scope: Any, user_id: str, bound: Proof | None) -> tuple[str | None, str | None]:
    """('project', 'domain', 'system' or None, id) of what a login asks for.

    :param bound: the proof that ties this login to one project, or None
    """
    kind: str | None = None
    wanted: dict[str, Any] = {}
    if isinstance(scope, dict):
        kind = next((key for key in ('project', 'domain', 'system', 'unscoped') if key in scope), 'unknown')
        wanted = scope.get(kind) or {}
    elif scope is not None:
        kind = scope
    if bound is not None:
        if kind is None or kind == 'project' and wanted.get('id') == bound.project_id:
            return 'project', bound.project_id
        raise exception.Unauthorized()
    if kind is None:
        return _default_scope(conn, user_id)
    if kind == 'unscoped':
        return None, None
    if kind == 'domain' and directory.is_domain(**_words(wanted)):
        return 'domain', directory.DOMAIN['id']
    if kind == 'system' and wanted.get('all') is True:
        return 'system', directory.SYSTEM
    if kind == 'project' and 'id' in wanted:
        return 'project', wanted['id']
    if kind == 'project' and directory.is_domain(**_words(wanted.get('domain'))):
        project = queries.get(conn, 'project', domain_id=directory.DOMAIN['id'], name=wanted.get('name'))
        if project is not None:
            return 'project', project['id']
    raise exception.Unauthorized()


def _default_scope(conn: engine.Connection, user_id: str) -> tuple[str | None, str | None]:
    """A login that asks for nothing gets the user's default project, if it is usable."""
    user = queries.get(conn, 'user', id=user_id)
    wanted = user and user['default_project_id']
    if wanted and any(project['id'] == wanted for project in queries.projects_of(conn, user_id)):
        return 'project', wanted
    return None, None


def _usable(user: dict[str, Any] | None, receipt: tokens.Receipt | None) -> dict[str, Any]:
    """The user's row.

    :raises Unauthorized: gone or disabled, or the receipt is older than the password
    """
    if (user is None or not user['enabled']
            or receipt and user['tokens_void_until'] and receipt.issued_at <= user['tokens_void_until']):
        raise exception.Unauthorized()
    return user


def _load(conn: engine.Connection, claims: tokens.Claims, user: dict[str, Any] | None = None) -> tokens.TokenData:
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
