"""The embedded identity service: users, projects, roles, logins and tokens."""
from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from nova.db import engine
from nova.identity import hashing
from nova.identity import tokens
from nova.identity.embedded import catalog as catalogs
from nova.identity.embedded import checks
from nova.identity.embedded import credentials
from nova.identity.embedded import directory
from nova.identity.embedded import endpoint_filters
from nova.identity.embedded import grants
from nova.identity.embedded import logins
from nova.identity.embedded import password_rules
from nova.identity.embedded import ratelimit
from nova.identity.embedded import resources
from nova.identity.embedded import signed_requests
from nova.identity.embedded import token_service
from nova.identity.embedded import trusts


class IdentityService(directory.Directory):
    """The directory of users and projects. Its attributes are the other parts of the service.

    ``tokens``, ``logins``, ``signed`` (requests with EC2 signatures) and ``credentials`` authenticate users. ``grants``
    manages groups and role assignments. ``resources`` has a store for each kind of resource, such as regions.
    ``endpoint_filters`` limits the endpoints that a project sees.

    :param conf: uses [identity]
    :param api_db: db.engine.Database with the identity tables
    :param keys_dir: directory of the token keys, created if missing
    :param catalog: callable(project_id) -> service catalog, see ``catalog.for_base``
    :param clock: clock for one-time codes, in seconds since the epoch
    :param elapsed: monotonic clock for the delays after failed logins, in seconds
    :param image_limits: see resources.RegisteredLimits
    """

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, keys_dir: str,
                 catalog: Callable[[str | None], Any], clock: Callable[[], float] = time.time,
                 elapsed: Callable[[], float] = time.monotonic,
                 image_limits: resources.ImageLimits | None = None) -> None:
        options = conf.identity
        # Number of HTTP threads that may wait for a hash, so that the other threads stay free. The HTTP server admits
        # fewer concurrent logins (cloud/http_server.py), so it queues a burst before this pool refuses requests.
        places = conf.http.threads * 3 // 4
        super().__init__(api_db, options.password_hash_rounds, hashing.HashPool(hashing.workers(), places),
                         password_rules.PasswordRules(options.password_min_length, options.password_regex,
                                                      options.password_history, options.password_expires_days))
        self.built_in = catalog
        self.keys = tokens.KeyRing(keys_dir)
        self.credentials = credentials.Credentials(api_db, self.keys)
        self.tokens = token_service.TokenService(conf, api_db, self.keys)
        self.checks = checks.Checks(self.hashing, self.rounds, ratelimit.LoginDelays(
            options.max_login_failures, options.login_failure_window, elapsed))
        lifetime = datetime.timedelta(seconds=options.token_expiration)
        self.grants, self.trusts = grants.Grants(self), trusts.Trusts(self)
        self.logins = logins.Logins(self, self.keys, self.tokens, self.credentials, self.trusts, self.checks, lifetime,
                                    clock)
        self.resources = resources.of(self, lambda: self.built_in(None), image_limits) | {
            endpoint_filters.GROUP: endpoint_filters.EndpointGroups(self, list)}
        self.endpoint_filters = endpoint_filters.EndpointFilters(self, self.resources)
        self.signed = signed_requests.SignedRequests(self.credentials, self.tokens, self.checks, lifetime,
                                                     conf.identity.validation_cache_time)

    def catalog(self, project_id: str | None, user_id: str | None = None) -> catalogs.Catalog:
        """Return the service catalog for a token: services of this deployment and services that clients added."""
        with self.db.reader() as conn:
            found = resources.catalog(conn, self.built_in(project_id), {
                'project_id': project_id, 'tenant_id': project_id, 'user_id': user_id})
            return found if project_id is None else endpoint_filters.filtered(conn, found, project_id)

    def forget(self) -> None:
        self.tokens.forget()

    def validate(self, token: str, allow_expired: bool = False, trusted: bool = True) -> tokens.TokenData:
        """Validate a token; see ``TokenService.validate``."""
        return self.tokens.validate(token, allow_expired, trusted)

    def login(self, name: str, password: str, project_name: str | None = None,
              address: str = '') -> tuple[str, tokens.TokenData]:
        """Log in with a password, scoped to a project or unscoped. User and project are in the default domain.

        :returns: (token, TokenData)
        """
        domain = {'id': directory.DOMAIN['id']}
        scope = {'project': {'name': project_name, 'domain': domain}} if project_name else {'unscoped': {}}
        return self.logins.authenticate({'identity': {'methods': ['password'], 'password': {'user': {
            'name': name, 'password': password, 'domain': domain}}}, 'scope': scope}, address)
