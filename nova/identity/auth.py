"""Authentication middleware: stores the caller's RequestContext in ``environ['nova.context']``.

``EmbeddedAuth`` uses the embedded identity service. ``KeystoneContext`` follows keystonemiddleware's auth_token and
uses its results. api-paste.ini selects one of the two:

    [filter:embedded_auth]
    paste.filter_factory = nova.identity.auth:embedded_factory

    [filter:strip_identity]
    paste.filter_factory = nova.identity.auth:strip_factory

    [filter:authtoken]
    paste.filter_factory = nova.identity.auth:authtoken_factory
    delay_auth_decision = true

    [filter:keystone_context]
    paste.filter_factory = nova.identity.auth:keystone_factory
"""
from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, TYPE_CHECKING, TypedDict
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import orjson
from oslo_config import cfg
from oslo_utils import timeutils

from nova import context
from nova import exception
from nova import utils
from nova.identity import access_rules
from nova.identity import token_cache
from nova.identity import tokens
from nova.runtime.http import priorities
from nova.web import paste_registry
from nova.web import pipeline

if TYPE_CHECKING:
    from _typeshed import OptExcInfo
    from typing_extensions import Unpack

    from nova.json_types import JsonObject

App = WSGIApplication
Factory = Callable[[App], App]


class Validator(Protocol):
    """Methods of the embedded identity service that this module uses."""

    def validate(self, token: str, allow_expired: bool = False, trusted: bool = True) -> tokens.TokenData: ...


# Headers in which a proxy or auth_token identifies the caller. They are removed from requests of clients.
IDENTITY_PREFIXES = ('HTTP_X_USER', 'HTTP_X_PROJECT', 'HTTP_X_TENANT', 'HTTP_X_ROLE', 'HTTP_X_DOMAIN',
                     'HTTP_X_IDENTITY', 'HTTP_X_IS_ADMIN', 'HTTP_X_SERVICE_', 'HTTP_X_SYSTEM',
                     'HTTP_X_KEYSTONE', 'HTTP_X_TOKEN_INFO',
                     'HTTP_X_ACCESS_RULES', 'HTTP_OPENSTACK_SYSTEM_SCOPE')
KEEP = 'HTTP_X_SERVICE_TOKEN'
COMPUTE = ('compute',)   # catalog types of the API that api-paste.ini configures
# key in the environ: function() -> caller with its current roles, see _Middleware.known_now
AGAIN = 'nova.caller_again'
TOKEN_AGAIN = 'nova.token_again'       # key in the environ, set by AuthToken: function() -> current roles of the token
ENDS = 'nova.token_expires_at'         # key in the environ of a request with a cached token: its expiry, naive UTC
KEYSTONE_S = 30          # default of http_connect_timeout in [keystone_authtoken]

_REQUEST_ID = re.compile(r'req-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}')


def strip_identity(environ: WSGIEnvironment, start_response: StartResponse | None = None) -> None:
    """Remove identity headers of a request; a filter of web.pipeline."""
    for key in [key for key in environ if key.startswith(IDENTITY_PREFIXES) and key != KEEP]:
        del environ[key]


def compute_fault(code: int, message: str) -> JsonObject:
    """Build an error in the format of the compute API."""
    return {'unauthorized': {'code': code, 'message': message}}


def identity_fault(code: int, message: str) -> JsonObject:
    """Build an error in the format of the identity API."""
    return {'error': {'code': code, 'message': message, 'title': 'Unauthorized'}}


def nothing_public(environ: WSGIEnvironment) -> bool:
    return False


def _inbound_request_id(environ: WSGIEnvironment) -> str | None:
    """Return the global request ID of a calling service, if it is well-formed."""
    given = environ.get('HTTP_X_OPENSTACK_REQUEST_ID')
    return given if given and _REQUEST_ID.fullmatch(given) else None


class _Settings(TypedDict, total=False):
    """Parameters of a middleware."""

    public: Callable[[WSGIEnvironment], bool]
    fault: Callable[[int, str], JsonObject]
    auth_uri: str | None
    is_admin: Callable[[context.RequestContext], bool] | None


class _Middleware:
    """Base class of the middlewares: non-public requests without a valid token get 401.

    :param app: next application
    :param public: callable(environ) -> True for public requests such as version documents
    :param fault: callable(code, message) -> body of a 401
    :param auth_uri: identity URL in the WWW-Authenticate header; None: /identity at the server's address
    :param is_admin: callable(context) -> bool, as Policy.is_admin; None: nobody is an administrator
    """

    def __init__(self, app: WSGIApplication, *, public: Callable[[WSGIEnvironment], bool] = nothing_public,
                 fault: Callable[[int, str], JsonObject] = compute_fault, auth_uri: str | None = None,
                 is_admin: Callable[[context.RequestContext], bool] | None = None) -> None:
        self._app = app
        self._is_admin = is_admin or (lambda caller: False)
        self._public = public
        self._fault = fault
        self._auth_uri = auth_uri

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            caller = self.context_of(environ)
            if 'service' not in caller.roles:                # a service acts for many projects
                priorities.join(environ, caller.project_id or caller.user_id)
        except exception.Unauthorized as error:
            caller = None
            refusal = error
        except exception.Unavailable as error:
            context.RequestContext(**_request_of(environ))
            return _unavailable(error, environ, start_response)
        if caller is None:
            environ.pop('nova.context', None)
            # replace the logging context of the previous request in this thread
            context.RequestContext(**_request_of(environ))
            if self._public(environ):
                return self._app(environ, start_response)
            return self._refuse(refusal, environ, start_response)
        caller.is_admin = self._is_admin(caller)
        environ['nova.context'] = caller
        environ[AGAIN] = functools.partial(self._again, dict(environ))  # a copy, because environ would refer to itself
        return self._app(environ, start_response)

    def _again(self, environ: WSGIEnvironment) -> context.RequestContext:
        caller = self.known_now(environ)
        caller.is_admin = self._is_admin(caller)
        return caller

    def known_now(self, environ: WSGIEnvironment) -> context.RequestContext:
        """Authenticate the caller of a long-running request again, without caches.

        :param environ: of the request
        :raises Unauthorized: the token is no longer valid
        :raises Unavailable: the token cannot be checked
        """
        raise NotImplementedError

    def context_of(self, environ: WSGIEnvironment) -> context.RequestContext:
        """Authenticate the caller.

        :raises Unauthorized: no valid token
        :raises Unavailable: the token cannot be checked
        """
        raise NotImplementedError

    def _refuse(self, error: exception.NovaException, environ: WSGIEnvironment,
                start_response: StartResponse) -> list[bytes]:
        body = orjson.dumps(self._fault(error.code, error.message))
        start_response('401 Unauthorized', [
            ('Content-Type', 'application/json'), ('Content-Length', str(len(body))), *self._challenge(environ)])
        return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]

    def _challenge(self, environ: WSGIEnvironment) -> list[tuple[str, str]]:
        """Return the headers of a 401 that name the identity URL."""
        return [('WWW-Authenticate', challenge(environ, self._auth_uri))]


def _unavailable(error: exception.NovaException, environ: WSGIEnvironment,
                 start_response: StartResponse) -> list[bytes]:
    """Build the response if the token cannot be checked."""
    body = orjson.dumps({'serviceUnavailable': {'code': error.code, 'message': error.message}})
    start_response('503 Service Unavailable', [
        ('Content-Type', 'application/json'), ('Content-Length', str(len(body))), ('Retry-After', '5')])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]


def challenge(environ: WSGIEnvironment, uri: str | None = None) -> str:
    """Return the value of WWW-Authenticate. Clients send passwords to this URL: it is not taken from the Host header.

    :param uri: configured identity URL; None: /identity at the address that received the request
    """
    uri = uri or f'{environ["wsgi.url_scheme"]}://{environ["SERVER_NAME"]}:{environ["SERVER_PORT"]}/identity'
    return f'Keystone uri="{uri}"'


def identity_uri(conf: cfg.ConfigOpts) -> str | None:
    """Return the configured URL of the embedded identity service, or None."""
    return conf.http.public_url and conf.http.public_url.rstrip('/') + '/identity'


def _request_of(environ: WSGIEnvironment) -> dict[str, Any]:
    """Return the arguments of a RequestContext that do not describe the caller."""
    return {'request_id': environ.get('openstack.request_id'),
            'global_request_id': _inbound_request_id(environ),
            'remote_address': environ.get('REMOTE_ADDR'), 'overwrite': True}


class EmbeddedAuth(_Middleware):
    """Authentication with tokens of the embedded identity service.

    :param identity_service: IdentityService; only ``validate`` is used
    :param services: types of this API in the catalog, which access rules of application credentials name; (): tokens
     with access rules are refused
    """

    def __init__(self, app: WSGIApplication, identity_service: Validator, services: Collection[str] = (),
                 **settings: Unpack[_Settings]) -> None:
        super().__init__(app, **settings)
        self._validate, self._services = identity_service.validate, services

    def known_now(self, environ: WSGIEnvironment) -> context.RequestContext:
        return self._context_of(environ, functools.partial(self._validate, trusted=False))

    def context_of(self, environ: WSGIEnvironment) -> context.RequestContext:
        strip_identity(environ)
        return self._context_of(environ, self._validate)

    def _context_of(self, environ: WSGIEnvironment,
                    validate: Callable[..., tokens.TokenData]) -> context.RequestContext:
        token = environ.get('HTTP_X_AUTH_TOKEN')
        if not token:
            raise exception.Unauthorized()
        service_token = environ.get(KEEP)
        service = validate(service_token) if service_token else None
        # A service may act for a user with an expired token, so that a long operation can finish. Access rules do not
        # limit its requests.
        by_service = service is not None and 'service' in service.roles
        data = validate(token, allow_expired=by_service)
        if not by_service:
            access_rules.check(data.credential, self._services, environ)
        caller = context.RequestContext(
            is_admin=None, auth_token=token, user_id=data.user_id, user_name=data.user_name,
            user_domain_id=data.user_domain_id, user_domain_name=data.user_domain_name,
            project_id=data.project_id, project_name=data.project_name,
            project_domain_id=data.project_domain_id, project_domain_name=data.project_domain_name,
            domain_id=data.domain_id, domain_name=data.domain_name, system_scope=data.system_scope,
            roles=list(data.roles),
            service_roles=list(service.roles) if service else None,
            service_user_id=service and service.user_id, service_project_id=service and service.project_id,
            token_expires_at=data.claims.expires_at, **_request_of(environ))
        caller.credential_id = data.claims.credential_id or data.claims.trust_id
        caller.token_id = data.claims.audit_ids[0]
        caller.token_claims = data.claims
        return caller


class KeystoneContext(_Middleware):
    """Reads the caller from keystonemiddleware's auth_token, which must run before, with delay_auth_decision = true."""

    def context_of(self, environ: WSGIEnvironment) -> context.RequestContext:
        if environ.get('HTTP_X_IDENTITY_STATUS') != 'Confirmed':
            raise exception.Unauthorized()
        facts = _request_of(environ)
        if environ.get(KEEP) and environ.get('HTTP_X_SERVICE_IDENTITY_STATUS') != 'Confirmed':
            raise exception.Unauthorized()
        facts['service_roles'] = [role for role in environ.get('HTTP_X_SERVICE_ROLES', '').split(',') if role]
        found = environ.get('keystone.token_auth')
        if ENDS in environ:
            facts['token_expires_at'] = environ[ENDS]
        elif found is not None and found.has_user_token:
            facts['token_expires_at'] = timeutils.normalize_time(found.user.expires)
        caller = context.RequestContext.from_environ(environ, is_admin=None, **facts)
        if found is not None and found.has_user_token:
            caller.credential_id = getattr(found.user, 'application_credential_id', None)
            caller.token_id = found.user.audit_id
        return caller

    def known_now(self, environ: WSGIEnvironment) -> context.RequestContext:
        caller = self.context_of(environ)
        if TOKEN_AGAIN in environ:
            caller.roles = environ[TOKEN_AGAIN]()
        return caller

    def _challenge(self, environ: WSGIEnvironment) -> list[tuple[str, str]]:
        """Return no headers, because auth_token adds www_authenticate_uri to a 401."""
        return []


def _settings(global_conf: dict[str, str], local: dict[str, str]) -> _Settings:
    """Convert the strings of a paste file to arguments of a middleware; public and fault are ``module:name``."""
    settings: _Settings = {'is_admin': paste_registry.lookup(global_conf['policy']).is_admin}
    if 'public' in local:
        settings['public'] = pkgutil.resolve_name(local['public'])
    if 'fault' in local:
        settings['fault'] = pkgutil.resolve_name(local['fault'])
    if 'auth_uri' in local:
        settings['auth_uri'] = local['auth_uri']
    return settings


def embedded_factory(global_conf: dict[str, str], **local: str) -> Factory:
    """Filter factory for Paste; the service must be in paste_registry before the pipeline is loaded."""
    service = paste_registry.lookup(global_conf['identity_service'])
    settings = _settings(global_conf, local)
    if 'auth_uri' not in settings:
        settings['auth_uri'] = identity_uri(paste_registry.lookup(global_conf['conf']))
    return lambda app: EmbeddedAuth(app, service, COMPUTE, **settings)


def authtoken_factory(global_conf: dict[str, str], **local: str) -> Factory:
    """Build keystonemiddleware's auth_token with the configuration of this process."""
    from keystoneauth1 import exceptions as keystone_exc
    from keystonemiddleware import auth_token
    from keystonemiddleware import opts
    from webob import exc

    from nova.runtime.hooks import keystonemiddleware as hooks

    class AuthToken(auth_token.AuthProtocol):
        """Caches validations, and returns 503 instead of 401 while Keystone is unavailable.

        The cache includes the headers that auth_token sets after a validation. These headers must not depend on the
        request, so tokens with access rules or ``bind``, and requests with a service token, are excluded. Each request
        checks the expiry.
        """

        def __init__(self, app: WSGIApplication, settings: Mapping[str, str | cfg.ConfigOpts]) -> None:
            self._behind, app = app, self._note
            super().__init__(app, dict(settings))        # a copy: the constructor removes entries
            shared = bool(hooks.option(self, 'memcached_servers'))
            seconds = token_cache.seconds_for(int(hooks.option(self, 'token_cache_time')), shared)
            self._cache: token_cache.TokenCache[JsonObject, WSGIEnvironment] | None = None
            if seconds > 0:
                self._cache = token_cache.TokenCache(seconds)
            if self._cache and not shared:
                # no memory cache of auth_token: it doubles the lifetime, is unbounded, and is scanned in each request
                super().__init__(app, {**settings, 'token_cache_time': '-1'})

        def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            environ[TOKEN_AGAIN] = functools.partial(self._roles_now, environ.get('HTTP_X_AUTH_TOKEN', '').strip())
            known = self._known(environ)
            if known is None:                    # auth_token logs with this context
                context.RequestContext(**_request_of(environ))
                return super().__call__(environ, start_response)
            for key in caller_keys:
                environ.pop(key, None)
            environ.update(known)

            def start(status: str, headers: list[tuple[str, str]],
                      error: OptExcInfo | None = None) -> Callable[[bytes], object]:
                if status.startswith('401'):
                    headers = [*headers, *hooks.challenge(self)]
                return start_response(status, headers, error)
            return self._behind(environ, start)

        def _known(self, environ: WSGIEnvironment) -> WSGIEnvironment | None:
            """Return the cached headers of a token, or None if auth_token must validate it."""
            token = environ.get('HTTP_X_AUTH_TOKEN')
            if not token or self._cache is None or KEEP in environ:
                return None
            known = self._cache.derived(token.strip())
            return known if known is not None and known[ENDS] >= utils.utcnow() else None

        def _note(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            """Cache the headers that auth_token has set; auth_token calls this application."""
            token, data = environ.get('HTTP_X_AUTH_TOKEN'), environ.get('keystone.token_info')
            if (self._cache is not None and token and KEEP not in environ and data is not None and 'token' in data
                    and environ.get('HTTP_X_IDENTITY_STATUS') == 'Confirmed' and not data['token'].get('bind')
                    and (data['token'].get('application_credential') or {}).get('access_rules') is None):
                found = {key: environ[key] for key in caller_keys if key in environ}
                found[ENDS] = timeutils.normalize_time(environ['keystone.token_auth'].user.expires)
                self._cache.derive(token.strip(), data, found)
            return self._behind(environ, start_response)

        def fetch_token(self, token: str, **more: bool) -> JsonObject:
            if self._cache is None:
                return self._ask(token, **more)
            return self._cache.get(token, lambda: self._ask(token, **more))

        def _roles_now(self, token: str) -> list[str]:
            """Return the current roles of a token, bypassing caches.

            :raises Unauthorized: the token is no longer valid
            :raises Unavailable: Keystone does not respond
            """
            try:
                return hooks.verify(self, token)
            except auth_token.InvalidToken:
                raise exception.Unauthorized() from None
            except (keystone_exc.ClientException, auth_token.ServiceError):
                raise exception.ServiceUnavailable(service='identity') from None

        def _ask(self, token: str, **more: bool) -> JsonObject:
            try:
                return super().fetch_token(token, **more)
            except keystone_exc.ConnectTimeout:          # auth_token does not catch this error
                pass
            except auth_token.InvalidToken as error:
                if not isinstance(error.__context__, (keystone_exc.ConnectFailure, keystone_exc.DiscoveryFailure,
                                                      keystone_exc.RequestTimeout, auth_token.ServiceError)):
                    raise
            raise exc.HTTPServiceUnavailable(
                body=orjson.dumps({'serviceUnavailable': {
                    'code': 503, 'message': 'The Identity service does not respond.'}}),
                content_type='application/json', headers={'Retry-After': '5'})

    caller_keys = hooks.keys_of_caller()
    conf = paste_registry.lookup(global_conf['conf'])
    for section, options in opts.list_auth_token_opts():
        conf.register_opts(options, section)
    # auth_token has no default timeout: an unresponsive Keystone would block all threads of the API
    conf.set_default('http_connect_timeout', KEYSTONE_S, 'keystone_authtoken')
    # The catalog of a token is not used, so it is not requested.
    settings = {'oslo_config_config': conf, 'include_service_catalog': 'false', **local}
    return lambda app: AuthToken(app, settings)


def keystone_factory(global_conf: dict[str, str], **local: str) -> Factory:
    settings = _settings(global_conf, local)
    conf = paste_registry.lookup(global_conf['conf'])
    if 'keystone_authtoken' in conf:                # authtoken_factory registers these options
        settings.setdefault('auth_uri', conf.keystone_authtoken.www_authenticate_uri)
    return lambda app: KeystoneContext(app, **settings)


def strip_factory(global_conf: dict[str, str], **local: str) -> Factory:
    """Filter factory for Paste: remove identity headers of clients, because the next filter would keep them."""
    return lambda app: pipeline.prepend(strip_identity, app)
