"""PUT /servers/{id} and the action rebuild: both answer with the server."""
from typing import Any

from nova import actions
from nova import exception
from nova.api import notifications
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import create_facts
from nova.api.servers import devices as server_devices
from nova.api.servers import fields as server_fields
from nova.api.servers import image_references
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.projects import quotas
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.hardware import guest_options
from nova.objects.instance import REIMAGE
from nova.web.request import Response
from nova.web.routes import Route

UPDATE = 'os_compute_api:servers:update'
REBUILD_CERTS = 'os_compute_api:servers:rebuild:trusted_certs'

_FIELD_RULES = (server_fields.ATTRIBUTES, server_fields.EXTRA_SPECS, server_fields.HOST_STATUS,
                server_fields.HOST_UNKNOWN)

# key of a body -> column
_COLUMNS = {'name': 'display_name', 'accessIPv4': 'access_ip_v4', 'accessIPv6': 'access_ip_v6',
            'OS-DCF:diskConfig': 'disk_config', 'description': 'description', 'hostname': 'hostname',
            'metadata': 'metadata', 'user_data': 'user_data', 'trusted_image_certificates': 'trusted_certs'}


def _values(body: api_request.Document) -> dict[str, Any]:
    values = {column: body[name] for name, column in _COLUMNS.items() if name in body}
    if 'display_name' in values:
        values['display_name'] = values['display_name'].strip()
    return values


def update(req: api_request.Request, id: str) -> api_request.Document:
    cell, body = server_lookup.cell_of(req, id), req.body['server']
    with cell.db.reader() as conn:
        row = before = server_lookup.find(req, conn, id, UPDATE)
    values = _values(body)
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
        req.services.api_db.run(_pin, id, values['pinned_availability_zone'])
    with cell.db.reader() as conn:
        return {'server': server_lookup.answer(req, conn, server_fields.UPDATE, row)}


def _pin(conn: engine.Connection, server_id: str, zone: str | None) -> None:
    spec = request_specs.get(conn, server_id)
    spec.availability_zone = zone
    request_specs.update(conn, spec)


# ---- rebuild -----------------------------------------------------------------

def rebuild(req: api_request.Request, id: str) -> Response:
    body, action = req.body['rebuild'], actions.ACTIONS['rebuild']
    cell = server_lookup.cell_of(req, id)
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, id, action)
    if body.get('trusted_image_certificates'):
        req.authorize(REBUILD_CERTS, server_lookup.target(row))
    with req.services.api_db.reader() as conn:
        limits = quotas.limits_of(conn, req.services.conf, row['project_id'], req.user_id)
        key = create_facts.find_key(conn, req.user_id, body.get('key_name'))
        spec = request_specs.get(conn, id)
    image = create_facts.find_image(req, body['imageRef'])
    assert image is not None                     # the body's schema wants an id
    image_references.check(req, image['properties'])
    backed = row['image_id'] is None
    other = server_devices.check_rebuild(req, cell, row, image) if backed else image['id'] != row['image_id']
    server_spec.check_image(image, {**row['flavor'], 'root_gb': 0} if backed else row['flavor'])
    guest_options.check(row['flavor'].get('extra_specs'), image['properties'])
    server_spec.check_same_topology(row['flavor'], row['image_properties'], image['properties'] or {})
    if guest_options.encrypted(row['flavor'], image['properties']) != guest_options.encrypted(
            row['flavor'], row['image_properties']):
        raise exception.BadRequest('The image says otherwise than the server whether local disks are encrypted. That '
                                   'stays as it was when the server was made.')
    image |= server_spec.trusted(body.get('trusted_image_certificates', row['trusted_certs']), backed)
    server_spec.check_metadata(body.get('metadata', {}), limits)
    files = server_spec.injected_files(body.get('personality'), limits)
    written = not backed and req.services.conf.libvirt.inject_partition != server_spec.NOT_WRITTEN
    server_spec.check_files(files, row['config_drive'] or written)
    server_spec.disk_config(body.get('OS-DCF:diskConfig', 'MANUAL'), image['properties'])
    password = body.get('adminPass') or server_spec.password()

    preserve = body.get('preserve_ephemeral', False)
    if preserve and row['ephemeral_gb']:
        raise exception.BadRequest('preserve_ephemeral: a rebuild makes the ephemeral disk of a server anew; no host '
                                   'keeps what is on it.')
    if backed:
        values_of_disk = {'system_metadata': {**row['system_metadata'], REIMAGE: image['id'] if other else None}}
        image = {**image, 'id': None}
    else:
        values_of_disk = {}
    values = {**_values(body), **_image_values(image), **values_of_disk, 'progress': 0}
    if 'key_name' in body:
        values |= {'key_name': key and key['name'], 'key_data': key and key['public_key']}
    arguments = {'preserve_ephemeral': preserve, 'admin_password': password}
    if other:
        # the filters judge another image; the server keeps this one when they refuse it
        present: api_request.Row = row
        arguments['previous'] = {'image': spec.image, 'columns': {name: present[name] for name in _image_values(image)}}
    row = server_actions.begin(req, cell, id, action, arguments, values)
    spec.image, spec.injected_files, spec.admin_password = image, files, password
    req.services.api_db.run(request_specs.update, spec)
    server_actions.cast(req, cell, row, action, spec=spec, preserve_ephemeral=preserve)
    with cell.db.reader() as conn:
        shown = server_lookup.answer(req, conn, server_fields.REBUILD, row)
    return Response({'server': {**shown, 'adminPass': password}},
                    headers=(('Location', req.url('servers', id)),))


def _image_values(image: api_request.Document) -> api_request.Document:
    properties = image['properties'] or {}
    return {'image_id': image['id'], 'image_properties': properties, 'kernel_id': properties.get('kernel_id'),
            'ramdisk_id': properties.get('ramdisk_id')}


ROUTES = (
    Route('PUT', '/servers/{id}', update, policy=UPDATE, checks=_FIELD_RULES,
          body=server_schemas.UPDATE, errors=(400, 401, 403, 404, 409)),
    Route('POST', '/servers/{id}/action', rebuild, policy=actions.ACTIONS['rebuild'].policy,
          checks=(*_FIELD_RULES, REBUILD_CERTS), action='rebuild', status=202,
          errors=(400, 401, 403, 404, 409),
          body=server_schemas.action('rebuild', (server_schemas.REBUILD, 1, None))),
)
