"""HTTP client of a Networking service (Neutron, API v2.0)."""
from __future__ import annotations

import logging
import threading
import time
import typing
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.json_types import JsonDocument
from nova.network.neutron.documents import Kind
from nova.network.neutron.documents import Row
from nova.runtime import rest_client

if TYPE_CHECKING:
    import requests

    from nova.context import RequestContext

LOG = logging.getLogger(__name__)

SERVICE_TYPE = 'network'                 # default service type in the catalog
TIMEOUT_S = 60                           # default timeout of a request
CONNECT_RETRIES = 2                      # retries after a broken connection, by default
PAGE = 1000                              # resources on a page
IDS = 100                                # maximum values of a filter in a request, so that the URL has at most 8 kB
EXTENSIONS_S = 600                       # cache lifetime of the extension list
_TEXT = 500                              # maximum length of a quoted service message

Document = dict[str, Any]
Filter = str | int | Collection[str] | None

# {error type in a fault document: exception, which gets the fault's message}. The API reference lists the types.
TYPES: dict[str, type[exception.NovaException]] = {
    'OverQuota': exception.PortLimitExceeded,
    'IpAddressGenerationFailure': exception.NoAddressLeft,
    'IpAddressInUse': exception.AddressTaken,
    'IpAddressAlreadyAllocated': exception.AddressTaken,
    'MacAddressInUse': exception.NetworkConflict,
    'HostNotConnectedToAnySegment': exception.PortBindingFailed,
    'HostNotCompatibleWithFixedIps': exception.PortBindingFailed,
    'PortBindingError': exception.PortBindingFailed,
    'PortBindingAlreadyExists': exception.PortBindingExists,
    'PortBindingAlreadyActive': exception.PortBindingExists,
}


class Neutron:
    """Thread-safe client.

    User requests carry the user's token and the service token; requests of ``system()`` carry only the service token.

    :param conf: uses [neutron] (see nova.runtime.rest_client)
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._service = rest_client.Service(conf, 'neutron', SERVICE_TYPE, 'Networking',
                                            connect_retries=CONNECT_RETRIES)
        self._timeout = conf.neutron.timeout or TIMEOUT_S
        self._root: str | None = None
        self._extensions: tuple[float, frozenset[str]] = (0, frozenset())
        self._lock = threading.Lock()

    # ---- resources

    def list(self, ctx: RequestContext, kind: Kind[Row], **filters: Filter) -> list[Row]:
        """List the resources of a kind that match filters and are visible to the caller.

        :param filters: name -> value or collection. A collection matches any of its values; an empty one matches
            nothing
        """
        found: dict[str, Row] = {}
        for params in _batches({name: value for name, value in filters.items() if value is not None}):
            marker = None
            while True:
                page = {**params, 'limit': PAGE, **({'marker': marker} if marker else {})}
                answer = self.call(ctx, 'GET', f'/{kind}', exception.NotFound(), params=page)
                rows = answer[_key(kind)]
                found.update((row['id'], row) for row in rows)
                # pagination_max_limit of the service may be lower than PAGE; then a link tells of more rows
                links = answer.get(f'{_key(kind)}_links', ())
                if not rows or len(rows) < PAGE and not any(link.get('rel') == 'next' for link in links):
                    break
                marker = rows[-1]['id']
        return list(found.values())

    def show(self, ctx: RequestContext, kind: Kind[Row], ident: str, missing: exception.NovaException) -> Row:
        """Return one resource; raise ``missing`` if the caller sees none with this id."""
        return self._one(kind, self.call(ctx, 'GET', f'/{kind}/{rest_client.checked(ident, missing)}', missing))

    def create(self, ctx: RequestContext, kind: Kind[Row], values: JsonDocument,
               missing: exception.NovaException | None = None) -> Row:
        """Create and return a resource; raise ``missing`` if it refers to a resource that does not exist."""
        return self._one(kind, self.call(ctx, 'POST', f'/{kind}', missing or exception.NotFound(),
                                   json={_key(kind).removesuffix('s'): values}))

    def update(self, ctx: RequestContext, kind: Kind[Row], ident: str, values: JsonDocument,
               missing: exception.NovaException, revision: int | None = None) -> Row:
        """Update and return a resource.

        :param revision: refuse the update if the resource now has another revision
        :raises NetworkConflict:
        """
        headers = {} if revision is None else {'If-Match': f'revision_number={revision}'}
        path = f'/{kind}/{rest_client.checked(ident, missing)}'
        return self._one(kind, self.call(ctx, 'PUT', path, missing, headers=headers,
                                   json={_key(kind).removesuffix('s'): values}))

    def delete(self, ctx: RequestContext, kind: str, ident: str,
               missing: exception.NovaException | None = None) -> None:
        """Delete a resource. If the resource does not exist, raise ``missing``, or return if ``missing`` is None."""
        nothing = missing or exception.NotFound()
        try:
            self.call(ctx, 'DELETE', f'/{kind}/{rest_client.checked(ident, nothing)}', nothing)
        except exception.NotFound:
            if missing is not None:
                raise
            LOG.debug('%s %s is gone already.', kind, ident)

    def extensions(self, ctx: RequestContext) -> frozenset[str]:
        """Return the aliases of the service's extensions, cached."""
        with self._lock:
            until, known = self._extensions
            if time.monotonic() < until:
                return known
        rows = self.call(ctx, 'GET', '/extensions', exception.NotFound(), params={'fields': 'alias'})['extensions']
        known = frozenset(row['alias'] for row in rows)
        with self._lock:
            self._extensions = (time.monotonic() + EXTENSIONS_S, known)
        return known

    @property
    def has_account(self) -> bool:
        """Whether [neutron] has a service account."""
        return self._service.has_account

    # ---- requests

    def call(self, ctx: RequestContext, method: str, path: str, missing: exception.NovaException,
             headers: dict[str, str] | None = None, params: Mapping[str, Filter] | None = None,
             json: JsonDocument | None = None) -> Document:
        """Send a request and return the document of the answer, or {} if it is empty; raise ``missing`` for 404.

        :raises Unavailable: the service does not answer in time, or returns a server error
        """
        response = self._service.request(ctx, method, lambda: self._address() + path,
                                         {'Accept': 'application/json', **(headers or {})}, timeout=self._timeout,
                                         params=params, json=json)
        code = response.status_code
        if code < 400:
            return response.json() if response.content else {}
        kind, message = _fault(response)
        LOG.info('The Networking service answered %s %s with code %s: %s %s', method, path, code, kind, message)
        if kind in TYPES:
            raise TYPES[kind](reason=message)
        if code == 404:
            raise missing
        if code == 400:
            raise exception.NetworkRequestInvalid(reason=message)
        if code == 409:
            raise exception.NetworkConflict(reason=message)
        if code == 412:
            raise exception.NetworkConflict(reason=message)
        raise self._service.refusal(ctx, code)

    def _address(self) -> str:
        if self._root is None:
            self._root = self._service.endpoint().partition('/v2.0')[0] + '/v2.0'
        return self._root

    @staticmethod
    def _one(kind: Kind[Row], document: Document) -> Row:
        (resource,) = document.values()
        return typing.cast(Row, resource if isinstance(resource, dict) else {})


def _key(kind: str) -> str:
    """Return the key of the list in documents of a path."""
    return kind.rpartition('/')[2].replace('-', '_')


def _batches(filters: dict[str, Filter]) -> Iterator[dict[str, Any]]:
    """Yield the query parameters of each request. The longest filter is split into batches of at most IDS values."""
    several = {name: list(value) for name, value in filters.items()
               if isinstance(value, Collection) and not isinstance(value, str)}
    fixed = {name: str(value) for name, value in filters.items() if name not in several}
    if not several:
        yield fixed
        return
    longest = max(several, key=lambda name: len(several[name]))
    if not all(several.values()):
        return
    for begin in range(0, len(several[longest]), IDS):
        yield {**fixed, **several, longest: several[longest][begin:begin + IDS]}


def _fault(response: requests.Response) -> tuple[str, str]:
    """Return (type, message) of a fault document."""
    try:
        fault = response.json()['NeutronError']
        if isinstance(fault, str):
            return '', fault[:_TEXT]
        return str(fault['type'])[:_TEXT], str(fault['message'])[:_TEXT]
    except (ValueError, KeyError, TypeError):
        return '', f'the Networking service refused the request with code {response.status_code}.'
