"""Removed operations of the compute API: they return 410 at every microversion."""
import functools
import types
from collections.abc import Iterator
from typing import NoReturn

from nova import exception
from nova.api import request as api_request
from nova.api.proxies import certificates
from nova.api.proxies import cloudpipe
from nova.api.proxies import nova_network
from nova.web.request import Content
from nova.web.request import Response
from nova.web.routes import Route


WHY = 'The compute service no longer has this kind of resource.'


def gone(req: api_request.Request, why: str = WHY, **_parts: str) -> NoReturn:
    # clients match the second sentence
    raise exception.Gone(f'{why} This resource is no longer available. No forwarding address is given.')


def _refused(why: str, req: api_request.Request, **_parts: str) -> NoReturn:
    """Refuse an operation that the embedded network service does not support."""
    gone(req, why if nova_network.offered(req) else WHY)


def _served(path: str, name: str, req: api_request.Request, **parts: str) -> Response | Content:
    """Run an operation that operators can enable."""
    source = _source(path, name)
    return source.serve(req, path, name, **parts) if source and source.offered(req) else gone(req)


def _source(path: str, name: str) -> types.ModuleType | None:
    """Return the module that implements an operation, or None."""
    return next((source for source in (nova_network, certificates, cloudpipe) if (path, name) in source.SERVED), None)


_NAMES = 'os-floating-ip-dns/{domain_id}/entries/{id}'

# path -> methods, or names of actions
REMOVED = {
    'os-agents': 'GET POST', 'os-agents/{id}': 'PUT DELETE',
    'os-cells': 'GET POST', 'os-cells/capacities': 'GET', 'os-cells/detail': 'GET', 'os-cells/info': 'GET',
    'os-cells/sync_instances': 'POST', 'os-cells/{id}': 'GET PUT DELETE', 'os-cells/{id}/capacities': 'GET',
    'os-certificates': 'POST', 'os-certificates/{id}': 'GET',
    'os-cloudpipe': 'GET POST', 'os-cloudpipe/{id}': 'PUT',
    'os-fixed-ips/{id}': 'GET', 'os-fixed-ips/{id}/action': 'reserve unreserve',
    'os-floating-ip-dns': 'GET', 'os-floating-ip-dns/{id}': 'PUT DELETE', _NAMES: 'GET PUT DELETE',
    'os-floating-ips-bulk': 'GET POST', 'os-floating-ips-bulk/{id}': 'GET PUT',
    'os-fping': 'GET', 'os-fping/{id}': 'GET',
    'os-networks': 'POST', 'os-networks/add': 'POST', 'os-networks/{id}': 'DELETE',
    'os-networks/{id}/action': 'associate_host disassociate disassociate_host disassociate_project',
    'os-security-group-default-rules': 'GET POST', 'os-security-group-default-rules/{id}': 'GET DELETE',
    'os-tenant-networks': 'POST', 'os-tenant-networks/{id}': 'DELETE',
    'servers/{id}/action': 'resetNetwork',
    'servers/{server_id}/consoles': 'GET POST', 'servers/{server_id}/consoles/{id}': 'GET DELETE',
    'servers/{server_id}/os-virtual-interfaces': 'GET',
}


def _rows() -> Iterator[Route]:
    for path, names in REMOVED.items():
        for name in names.split():
            action = None if name.isupper() else name
            source = _source(path, name)
            checks = getattr(source, 'CHECKS', {}).get((path, name), ())
            body = getattr(source, 'BODIES', {}).get((path, name))
            why = nova_network.refusal(path, name)
            handler = functools.partial(_served, path, name) if source else \
                functools.partial(_refused, why) if why else gone
            yield Route('POST' if action else name, f'/{path}', handler, action=action, errors=(401, 410),
                        checks=checks, status=source.code(path, name) if source else 200, body=body)


ROUTES = tuple(_rows())
