"""/servers/{id}/ips: addresses by network label."""
from nova import exception
from nova.api import request as api_request
from nova.api.servers import fields as server_fields
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.json_types import JsonDocument
from nova.web.routes import Route

_RULE = 'os_compute_api:ips:'


def index(req: api_request.Request, server_id: str) -> JsonDocument:
    return {'addresses': server_fields.plain_addresses(server_lookup.get(req, server_id, _RULE + 'index'))}


def show(req: api_request.Request, server_id: str, id: str) -> JsonDocument:
    addresses = server_fields.plain_addresses(server_lookup.get(req, server_id, _RULE + 'show'))
    if id not in addresses:
        raise exception.NotFound(f'Instance {server_id} is not a member of network {id[:80]}.')
    return {id: addresses[id]}


ROUTES = (
    Route('GET', '/servers/{server_id}/ips', index, policy=_RULE + 'index', query=server_schemas.NOTHING,
          errors=(401, 403, 404)),
    Route('GET', '/servers/{server_id}/ips/{id}', show, policy=_RULE + 'show', query=server_schemas.NOTHING,
          errors=(401, 403, 404)),
)
