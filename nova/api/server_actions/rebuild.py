"""The action rebuild: read the referenced objects, build the plan, begin the action, cast to the host."""
import dataclasses
from collections.abc import Mapping
from typing import Any

from nova import actions
from nova import exception
from nova import objects
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import create_facts
from nova.api.servers import device_sources
from nova.api.servers import fields as server_fields
from nova.api.servers import image_references
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.api.servers import update as server_update
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.projects import quotas
from nova.db.servers import request_specs
from nova.db.tables.rows import InstancesRow
from nova.db.tables.rows import KeyPairsRow
from nova.hardware import guest_options
from nova.objects.image import StoredImage
from nova.objects.instance import REIMAGE
from nova.web.request import Response

ACTION = actions.ACTIONS['rebuild']
TRUSTED_CERTS = 'os_compute_api:servers:rebuild:trusted_certs'
# Columns that describe the guest and that only a rebuild changes. Name and metadata may change during the task.
OF_GUEST = ('key_name', 'key_data', 'trusted_certs', 'user_data')


@dataclasses.dataclass(frozen=True)
class Facts:
    """Data from which the plan of a rebuild is computed.

    row        the server's row
    image      image that imageRef names
    limits     quota limits of the server's project and the caller
    key        row of the requested key pair, or None
    spec       the server's request spec
    backed     whether the server boots from a volume
    other      whether the rebuild replaces the content of the root disk
    """

    row: InstancesRow
    image: StoredImage
    limits: dict[str, int]
    key: KeyPairsRow | None
    spec: Any
    backed: bool
    other: bool


@dataclasses.dataclass(frozen=True)
class Plan:
    """Data of a rebuild to store: ``values`` in the server's row, ``arguments`` in the action, the rest in the spec."""

    image: api_request.Document
    files: list[api_request.Document]
    password: str
    values: api_request.Document
    arguments: api_request.Document


def rebuild(req: api_request.Request, id: str) -> Response:
    body = req.body['rebuild']
    cell, found = server_actions.find(req, id, ACTION)
    if body.get('trusted_image_certificates'):
        req.authorize(TRUSTED_CERTS, server_lookup.target(found))
    facts = _read(req, cell, found, body)
    plan = _plan(body, facts, req.services.conf.libvirt.inject_partition)
    row = server_actions.begin(req, cell, id, ACTION, plan.arguments, plan.values)
    spec = req.services.api_db.run(_note, id, plan)
    spec.admin_password = plan.password
    server_actions.cast(req, cell, row, ACTION, spec=spec, preserve_ephemeral=plan.arguments['preserve_ephemeral'])
    with cell.db.reader() as conn:
        shown = server_lookup.answer(req, conn, server_fields.REBUILD, row)
    return Response({'server': {**shown, **server_spec.shown_password(req.services.conf, plan.password)}},
                    headers=(('Location', req.url('servers', id)),))


def _note(conn: engine.Connection, server_id: str, plan: Plan) -> objects.RequestSpec:
    """Store the plan in the current request spec: a resize may have changed the flavor in it since the first read."""
    spec = request_specs.get(conn, server_id)
    spec.image, spec.injected_files = plan.image, plan.files
    request_specs.update(conn, spec)
    return spec


def _read(req: api_request.Request, cell: db_cells.Cell, row: InstancesRow, body: api_request.Document) -> Facts:
    """Read the data from which the plan is computed.

    :raises BadRequest: a referenced object is not visible to the caller
    """
    with req.services.api_db.reader() as conn:
        limits = quotas.limits_of(conn, req.services.conf, row['project_id'], req.user_id)
        key = create_facts.find_key(conn, req.user_id, body.get('key_name'))
        spec = request_specs.get(conn, row['uuid'])
    image = create_facts.find_image(req, body['imageRef'])
    assert image is not None                     # the schema of the body requires imageRef
    image_references.check(req, image['properties'])
    backed = row['image_id'] is None
    other = device_sources.check_rebuild(req, cell, row, image) if backed else image['id'] != row['image_id']
    return Facts(row, image, limits, key, spec, backed, other)


def _plan(body: api_request.Document, facts: Facts, inject_partition: int) -> Plan:
    """Build the plan.

    :param inject_partition: [libvirt] inject_partition
    :raises BadRequest: the image does not fit the server, or the body is inconsistent or exceeds quotas
    """
    row, backed = facts.row, facts.backed
    _check_image(row, facts.image, backed)
    image: api_request.Document = {**facts.image, **server_spec.trusted(
        body.get('trusted_image_certificates', row['trusted_certs']), backed)}
    server_spec.check_metadata(body.get('metadata', {}), facts.limits)
    files = server_spec.injected_files(body.get('personality'), facts.limits)
    written = not backed and inject_partition != server_spec.NOT_WRITTEN
    drive = server_spec.has_config_drive(row['config_drive'] or None, files, written)
    server_spec.disk_config(body.get('OS-DCF:diskConfig', 'MANUAL'), image['properties'])
    preserve, password = body.get('preserve_ephemeral', False), body.get('adminPass') or server_spec.password()
    if preserve and row['ephemeral_gb']:
        raise exception.BadRequest('preserve_ephemeral is not supported: a rebuild recreates the ephemeral disk of a '
                                   'server.')
    values = {**server_update.values_of(body), 'progress': 0}
    if 'key_name' in body:
        key = facts.key
        values |= {'key_name': key and key['name'], 'key_data': key and key['public_key']}
    if backed:
        values['system_metadata'] = {**row['system_metadata'], REIMAGE: image['id'] if facts.other else None}
        image = {**image, 'id': None}
    columns = {**_image_columns(image), 'config_drive': drive}
    values |= columns
    before: Mapping[str, object] = row
    # values to restore if the rebuild fails before its host begins with it
    previous = {'image': facts.spec.image, 'other_image': facts.other,
                'columns': {name: before[name] for name in (*columns, *OF_GUEST) if name in values}}
    return Plan(image, files, password, values, {
        'preserve_ephemeral': preserve, 'admin_password': password, 'previous': previous})


def _check_image(row: InstancesRow, image: StoredImage, backed: bool) -> None:
    """Check the image.

    :raises BadRequest: the server cannot be rebuilt with the image
    """
    flavor, properties = row['flavor'], image['properties']
    server_spec.check_image(image, flavor, backed)
    guest_options.check(flavor.get('extra_specs'), properties)
    server_spec.check_same_topology(flavor, row['image_properties'], properties or {})
    if guest_options.encrypted(flavor, properties) != guest_options.encrypted(flavor, row['image_properties']):
        raise exception.BadRequest('A rebuild cannot encrypt or decrypt local disks: the image and the server differ '
                                   'in their encryption properties.')


def _image_columns(image: api_request.Document) -> api_request.Document:
    properties = image['properties'] or {}
    return {'image_id': image['id'], 'image_properties': properties, 'kernel_id': properties.get('kernel_id'),
            'ramdisk_id': properties.get('ramdisk_id')}


ROUTES = (
    server_actions.route('rebuild', rebuild, (server_schemas.REBUILD, 1, None),
                         checks=(*server_fields.RULES, TRUSTED_CERTS)),
)
