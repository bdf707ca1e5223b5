"""Removed operations of the compute API: they return 410 at every microversion.

Optional parts serve some of them if [api] nova_network_resources is set. A part is a module in the entry point group
``nova.removed_operations``. Its function ``serve(req, path, name, **parts)`` runs an operation.
"""
import functools
from collections.abc import Iterator
from typing import NamedTuple, NoReturn, Protocol

from oslo_config import cfg

from nova import exception
from nova.api import request as api_request
from nova.runtime import entry_points
from nova.web.params import Object
from nova.web.request import Content
from nova.web.request import Response
from nova.web.routes import Route

WHY = 'The compute service no longer has this kind of resource.'
PARTS = 'nova.removed_operations'
_OPTION = '[api] nova_network_resources'
NETWORK = 'nova_network'         # entry point of the operations of nova-network
LAST = 35                        # last microversion of most operations of nova-network
_BODY = Object(closed=False)     # the optional part validates the body; without the part, the operation returns 410


class Part(Protocol):
    """Interface that the module of an optional part implements."""

    def serve(self, req: api_request.Request, path: str, name: str, **parts: str) -> Response | Content: ...


class Served(NamedTuple):
    """One operation that an optional part serves.

    part   name of the entry point
    rule   policy rule; None: the handler checks that the caller may see the server
    code   success code
    body   whether the request has a body
    last   last microversion with the operation; None: no limit
    more   other rules that the handler checks
    """

    part: str
    rule: str | None
    code: int = 200
    body: bool = False
    last: int | None = None
    more: tuple[str, ...] = ()


def _network(rule: str | None, code: int = 200, body: bool = False, last: int = LAST,
             more: tuple[str, ...] = ()) -> Served:
    return Served(NETWORK, rule, code, body, last, more)


_CLOUDPIPE, _FIXED, _BULK = 'nova:cloudpipe', 'nova:fixed-ips', 'nova:floating-ips-bulk'
_DNS, _SHOW_DNS, _PUBLIC_DNS = 'nova:floating-ip-dns', 'nova:floating-ip-dns:show', 'nova:floating-ip-dns:public'
_NETWORKS, _TENANT = 'nova:networks', 'nova:tenant-networks'
_GROUP_RULES = 'nova:security-group-default-rules'
_DOMAIN, _NAME = 'os-floating-ip-dns/{id}', 'os-floating-ip-dns/{domain_id}/entries/{id}'
SERVED: dict[tuple[str, str], Served] = {
    ('os-certificates', 'POST'): Served('certificates', 'nova:certificates:create'),
    ('os-certificates/{id}', 'GET'): Served('certificates', 'nova:certificates:show'),
    ('os-cloudpipe', 'GET'): Served('cloudpipe', _CLOUDPIPE),
    ('os-cloudpipe', 'POST'): Served('cloudpipe', _CLOUDPIPE, body=True),
    ('os-cloudpipe/{id}', 'PUT'): Served('cloudpipe', _CLOUDPIPE, 202, body=True),
    ('os-fixed-ips/{id}', 'GET'): _network(_FIXED),
    ('os-fixed-ips/{id}/action', 'reserve'): _network(_FIXED, 202),
    ('os-fixed-ips/{id}/action', 'unreserve'): _network(_FIXED, 202),
    ('os-floating-ip-dns', 'GET'): _network(_SHOW_DNS),
    (_DOMAIN, 'PUT'): _network(_DNS, body=True, more=(_PUBLIC_DNS,)),
    (_DOMAIN, 'DELETE'): _network(_DNS, 202, more=(_PUBLIC_DNS,)),
    (_NAME, 'GET'): _network(_SHOW_DNS),
    (_NAME, 'PUT'): _network(_DNS, body=True),
    (_NAME, 'DELETE'): _network(_DNS, 202),
    ('os-floating-ips-bulk', 'GET'): _network(_BULK),
    ('os-floating-ips-bulk', 'POST'): _network(_BULK, body=True),
    ('os-floating-ips-bulk/{id}', 'GET'): _network(_BULK),
    ('os-floating-ips-bulk/{id}', 'PUT'): _network(_BULK, body=True),
    ('os-networks', 'POST'): _network(_NETWORKS, body=True),
    ('os-networks/add', 'POST'): _network(_NETWORKS, 202, body=True),
    ('os-networks/{id}', 'DELETE'): _network(_NETWORKS, 202),
    ('os-networks/{id}/action', 'disassociate'): _network(_NETWORKS, 202),
    ('os-networks/{id}/action', 'disassociate_project'): _network(_NETWORKS, 202),
    ('os-security-group-default-rules', 'GET'): _network(_GROUP_RULES),
    ('os-security-group-default-rules', 'POST'): _network(_GROUP_RULES, body=True),
    ('os-security-group-default-rules/{id}', 'GET'): _network(_GROUP_RULES),
    ('os-security-group-default-rules/{id}', 'DELETE'): _network(_GROUP_RULES, 204),
    ('os-tenant-networks', 'POST'): _network(_TENANT, body=True),
    ('os-tenant-networks/{id}', 'DELETE'): _network(_TENANT, 202),
    ('servers/{server_id}/os-virtual-interfaces', 'GET'): _network(None, last=43),
}
# path or action name -> reason why the embedded network service does not support the operation
REFUSED = {
    'os-fping': 'The embedded network service does not ping servers.',
    'associate_host': 'The embedded network service sets up a network only on the hosts of its servers.',
}
REFUSED['disassociate_host'] = REFUSED['associate_host']


def gone(req: api_request.Request, why: str = WHY, **_parts: str) -> NoReturn:
    # do not change the second sentence, because clients search for it
    raise exception.Gone(f'{why} This resource is no longer available. No forwarding address is given.')


def check(conf: cfg.ConfigOpts) -> None:
    """Load the installed parts that the deployment enables, so that the service does not start with a broken part.

    :raises InvalidOption: a part cannot be loaded, or is not a module of operations
    """
    for name in sorted({row.part for row in SERVED.values() if _offered(conf, row.part)} & entry_points.installed(
            PARTS).keys()):
        part = entry_points.named(_OPTION, name, PARTS)
        if not callable(getattr(part, 'serve', None)):
            raise exception.InvalidOption(f'{_OPTION}: {name} of the entry points {PARTS} has no function serve. '
                                          'Reinstall the package that provides it.')


def _offered(conf: cfg.ConfigOpts, part: str) -> bool:
    """Return whether the deployment enables the operations of a part."""
    return bool(conf.api.nova_network_resources) and (part != NETWORK or conf.network.backend == 'embedded')


def _refused(why: str, req: api_request.Request, **_parts: str) -> NoReturn:
    """Refuse an operation that the embedded network service does not support."""
    gone(req, why if _offered(req.services.conf, NETWORK) else WHY)


def _served(path: str, name: str, req: api_request.Request, **parts: str) -> Response | Content:
    """Run an operation of an optional part.

    :raises Gone: the operation is not enabled, or its part is not installed
    :raises NotFound: this microversion does not have the operation
    """
    row = SERVED[path, name]
    point = entry_points.installed(PARTS).get(row.part)
    if point is None or not _offered(req.services.conf, row.part):
        gone(req)
    if row.last is not None and req.version > row.last:
        raise exception.NotFound()
    if row.rule is not None:
        req.authorize(row.rule)
    part: Part = point.load()
    return part.serve(req, path, name, **parts)


# path -> removed HTTP methods, or names of removed actions, that no optional part serves
REMOVED = {
    'os-agents': 'GET POST', 'os-agents/{id}': 'PUT DELETE',
    'os-cells': 'GET POST', 'os-cells/capacities': 'GET', 'os-cells/detail': 'GET', 'os-cells/info': 'GET',
    'os-cells/sync_instances': 'POST', 'os-cells/{id}': 'GET PUT DELETE', 'os-cells/{id}/capacities': 'GET',
    'os-fping': 'GET', 'os-fping/{id}': 'GET',
    'os-networks/{id}/action': 'associate_host disassociate_host',
    'servers/{id}/action': 'resetNetwork',
    'servers/{server_id}/consoles': 'GET POST', 'servers/{server_id}/consoles/{id}': 'GET DELETE',
}


def _rows() -> Iterator[Route]:
    for path, name in [*SERVED, *((path, name) for path, names in REMOVED.items() for name in names.split())]:
        action = None if name.isupper() else name
        served = SERVED.get((path, name))
        why = REFUSED.get(name, REFUSED.get(path.partition('/')[0]))
        handler = functools.partial(_served, path, name) if served else \
            functools.partial(_refused, why) if why else gone
        checks = () if served is None or served.rule is None else (served.rule, *served.more)
        yield Route('POST' if action else name, f'/{path}', handler, action=action, errors=(401, 410),
                    checks=checks, status=served.code if served else 200,
                    body=_BODY if served and served.body else None)


ROUTES = tuple(_rows())
