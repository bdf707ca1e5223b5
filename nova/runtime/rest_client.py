"""HTTP client for other services of the cloud, and conversion of their errors."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
import re
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts
import requests
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading

from nova import exception
from nova.conf.clients import keystoneauth
from nova.context import RequestContext

if TYPE_CHECKING:
    from keystoneauth1 import plugin as auth_plugins
    from keystoneauth1 import session as sessions

BAD_TOKEN = 401
REFUSALS: dict[int, type[exception.NovaException]] = {BAD_TOKEN: exception.Unauthorized, 403: exception.Forbidden}
_ID = re.compile(r'[0-9a-zA-Z_-]{1,64}\Z', re.ASCII)
TIMEOUT_S = 180           # seconds to wait for a response or its next part, unless the section sets another time


def session_of(conf: ConfigOpts, section: str, timeout_s: int
               ) -> tuple[sessions.Session, auth_plugins.BaseAuthPlugin | None]:
    """Return (keystoneauth1 session of a section, auth plugin); the plugin is None if the section names no account.

    :param timeout_s: time to wait for a response; the section may set another timeout
    """
    keystoneauth.register_newer(conf, section)
    auth = loading.load_auth_from_conf_options(conf, section) if conf[section].auth_type else None
    return loading.load_session_from_conf_options(conf, section, auth=auth,
                                                  timeout=conf[section].timeout or timeout_s), auth


def checked(ident: str, missing: Exception) -> str:
    """Return an id that may be part of a URL; raise ``missing`` for any other value."""
    if not isinstance(ident, str) or not _ID.match(ident):
        raise missing
    return ident


class Service:
    """One HTTP client for all threads.

    Requests for a user carry the user's token and, if the section has credentials, a service token. Requests of the
    system carry the token of the account in the section.

    :param conf: the configuration
    :param section: section with the session, auth and adapter options of keystoneauth1
    :param service_type: type in the catalog, unless the section sets another
    :param name: name of the service in messages
    :param errors: {code: class of the error} of refusals in addition to REFUSALS
    :param own_beside: whether requests of the system have the token in both headers
    :param connect_retries: retries after a broken connection, unless the section sets a number
    :param once: methods without these retries, because the service may have carried out the request
    """

    def __init__(self, conf: ConfigOpts, section: str, service_type: str, name: str,
                 errors: Mapping[int, type[exception.NovaException]] | None = None, own_beside: bool = False,
                 connect_retries: int = 0, once: Collection[str] = ('POST',)) -> None:
        options = conf[section]
        self._once = once
        self.name, self._errors, self._own_beside = name, {**REFUSALS, **(errors or {})}, own_beside
        session, self._auth = session_of(conf, section, TIMEOUT_S)
        self.has_account = self._auth is not None
        self._adapter = adapter.Adapter(
            session, auth=self._auth, service_type=options.service_type or service_type,
            service_name=options.service_name, interface=options.valid_interfaces or None,
            region_name=options.region_name, endpoint_override=options.endpoint_override,
            connect_retries=connect_retries if options.connect_retries is None else options.connect_retries,
            connect_retry_delay=options.connect_retry_delay, status_code_retries=options.status_code_retries,
            status_code_retry_delay=options.status_code_retry_delay,
            retriable_status_codes=options.retriable_status_codes)

    def request(self, ctx: RequestContext, method: str, address: Callable[[], str], headers: Mapping[str, str],
                **kwargs: object) -> requests.Response:
        """Send a request and return the response with any status code.

        :param address: returns the URL
        :param kwargs: of keystoneauth1. ``data`` is a stream, so that such a request is not repeated.
        :raises Unavailable: there is no URL, no token for the service, or no response in time
        """
        if ctx.request_id:
            headers = {**headers, 'X-Openstack-Request-Id': ctx.request_id}
        if 'data' in kwargs:
            kwargs.update(connect_retries=0, status_code_retries=0)
        elif method in self._once:
            kwargs['connect_retries'] = 0
        try:
            return self._adapter.request(address(), method, authenticated=False, raise_exc=False,
                                         headers={**headers, **self._tokens(ctx)}, **kwargs)
        except ks_exc.ClientException:
            raise exception.ServiceUnavailable(service=self.name) from None

    def stream(self, answer: requests.Response, size: int) -> Iterator[bytes]:
        """Yield the body of a response in chunks of at most ``size`` bytes.

        :raises Unavailable: the response is incomplete
        """
        try:
            yield from answer.iter_content(size)
        except requests.RequestException as error:
            raise exception.ServiceUnavailable(service=self.name) from error

    def refusal(self, ctx: RequestContext, code: int) -> exception.NovaException:
        """Return the error for a response with a code from 400 on.

        The token of the request was valid when the request arrived. If a service refuses the token before its
        expiration, the service cannot check tokens or uses another Keystone. A new token would not help the user.
        """
        if code == BAD_TOKEN and not (ctx.auth_token and ctx.token_has_expired()):
            if not ctx.auth_token and self.has_account:
                self._adapter.invalidate()               # the next request fetches a new token
            # the account may lack the role "service", which keystonemiddleware requires
            account = ', or refuses the token of the service account' if ctx.auth_token and self.has_account else ''
            return exception.Unavailable(f'The {self.name} service refused a valid token with code {code}: it cannot '
                                         f'check tokens at the moment{account}.')
        error = self._errors.get(code)
        if error is None:
            return exception.Unavailable(f'The {self.name} service answered with code {code}.')
        return error(f'The {self.name} service refused the request with code {code}.')

    def fine(self, ctx: RequestContext, answer: requests.Response) -> requests.Response:
        """Return a response with a code below 400; raise the error of ``refusal`` for other codes."""
        if answer.status_code >= 400:
            raise self.refusal(ctx, answer.status_code)
        return answer

    def endpoint(self) -> str:
        """Return the URL of the service from the configuration or the catalog, without a trailing slash."""
        return (self._adapter.get_endpoint() or '').rstrip('/')

    def own_project(self) -> str | None:
        """Return the project id of the account in the section; None without credentials.

        :raises Unavailable: the account gets no token
        """
        try:
            return self._adapter.get_project_id() if self.has_account else None
        except ks_exc.ClientException:
            raise exception.ServiceUnavailable(service=self.name) from None

    def _tokens(self, ctx: RequestContext) -> dict[str, str]:
        own = self._adapter.get_token() if self.has_account else None
        first = ctx.auth_token or own
        service = own if ctx.auth_token or self._own_beside else None
        return {**({'X-Auth-Token': first} if first else {}), **({'X-Service-Token': service} if service else {})}
