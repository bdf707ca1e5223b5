"""PUT /servers/{id}."""
from typing import Any

from nova import exception
from nova.api import notifications
from nova.api import request as api_request
from nova.api.servers import fields as server_fields
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.json_types import JsonDocument
from nova.web.routes import Route

UPDATE = 'os_compute_api:servers:update'

# key of the body -> column
_COLUMNS = {'name': 'display_name', 'accessIPv4': 'access_ip_v4', 'accessIPv6': 'access_ip_v6',
            'OS-DCF:diskConfig': 'disk_config', 'description': 'description', 'hostname': 'hostname',
            'metadata': 'metadata', 'user_data': 'user_data', 'trusted_image_certificates': 'trusted_certs'}


def values_of(body: api_request.Document) -> dict[str, Any]:
    """Return {column: value} of the changes in an update or rebuild."""
    values = {column: body[name] for name, column in _COLUMNS.items() if name in body}
    if 'display_name' in values:
        values['display_name'] = values['display_name'].strip()
    return values


def update(req: api_request.Request, id: str) -> JsonDocument:
    cell, body = server_lookup.cell_of(req, id), req.body['server']
    with cell.db.reader() as conn:
        row = before = server_lookup.find(req, conn, id, UPDATE)
    values = values_of(body)
    if 'pinned_availability_zone' in body:
        values['pinned_availability_zone'] = zone = body['pinned_availability_zone']
        if zone is not None and zone != row['availability_zone']:
            raise exception.Conflict(f'Instance {id} is not in availability zone {zone[:80]}.')
    if values:
        updated = cell.db.run(instances.update_where, id, values)
        if updated is None:
            raise exception.InstanceNotFound(instance_id=id)
        row = updated
        if row['display_name'] != before['display_name']:
            notifications.updated(req, cell, row, old_display_name=before['display_name'])
    if 'pinned_availability_zone' in body:
        req.services.api_db.run(request_specs.pin, id, values['pinned_availability_zone'])
    with cell.db.reader() as conn:
        return {'server': server_lookup.answer(req, conn, server_fields.UPDATE, row)}


ROUTES = (
    Route('PUT', '/servers/{id}', update, policy=UPDATE, checks=server_fields.RULES, body=server_schemas.UPDATE,
          errors=(400, 401, 403, 404, 409)),
)
