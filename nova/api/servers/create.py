"""POST /servers: read all facts, build the plan, store it in one transaction of each database, cast to a conductor."""
import logging
import time

from nova import actions
from nova import context as nova_context
from nova import exception
from nova import hooks
from nova.json_types import JsonDocument
from nova import objects
from nova import utils
from nova.api.servers import casts
from nova.api import notifications
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import create_facts
from nova.api.servers import create_plan
from nova.api.servers import device_sources
from nova.api.servers import fields as server_fields
from nova.api.servers import lookup as server_lookup
from nova.api.servers import representation
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.audit import log
from nova.db.cells import cells as db_cells
from nova.db.placement import categories
from nova.db.placement import server_groups
from nova.db.projects import quotas
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import listing
from nova.db.servers import mappings
from nova.db.servers import request_specs
from nova.db.tables.rows import InstancesRow
from nova.web.request import Response
from nova.web.routes import Route

LOG = logging.getLogger(__name__)

Document = create_plan.Document

RENEW_AFTER_S = mappings.LOST_AFTER_S / 4            # only slow requests renew their mappings

_RULE = 'os_compute_api:servers:create'
FORCED_HOST = _RULE + ':forced_host'
REQUESTED_HOST = 'compute:servers:create:requested_destination'
ATTACH_VOLUME = _RULE + ':attach_volume'
ATTACH_NETWORK = _RULE + ':attach_network'
TRUSTED_CERTS = _RULE + ':trusted_certs'
# rules that ``read_plan`` evaluates
CHECKS = (FORCED_HOST, REQUESTED_HOST, ATTACH_VOLUME, ATTACH_NETWORK, TRUSTED_CERTS, create_facts.ZERO_DISK,
          server_category.CREATE)
# rules that protect fields of the response
SHOWN = (representation.RULE, *server_fields.RULES)


def read_plan(req: api_request.Request) -> create_plan.Plan:
    """Return the plan of a server create (``req.body``) without writing.

    :raises NovaException: the request is refused
    """
    request = create_plan.Request.of(req.body, req.services.conf.default_schedule_zone)
    _authorize(req, request)
    return create_plan.plan(request, create_facts.read(req, request))


@hooks.add_hook('create_instance')
def create(req: api_request.Request) -> Document | Response:
    _least, most = server_spec.counts(req.body['server'])
    names = [req.adopts] if req.adopts else [req.new_uuid() for _ in range(most)]
    if req.attempt is not None and req.attempt.again:         # before the plan: the first attempt holds its volumes
        answer = _begun_before(req, names, req.body['server'])
        if answer is not None:
            return answer
    plan = read_plan(req)
    server, spec, cell = plan.server, plan.spec, req.services.cells.default
    password = server.get('adminPass') or server_spec.password()
    reservation_id, now = server_spec.reservation_id(server.get('metadata', {}), req.of_ec2), utils.utcnow()
    if req.adopts:
        spec['adopts'] = True
    req.services.builds.admit(req.services.cells, req.project_id, plan.most)
    log.about(names[0])
    began = time.monotonic()
    uuids = req.services.api_db.run(_reserve, cell, plan, names)
    volumes: list[device_sources.Device] = []
    reserved = False
    try:
        if plan.needs_network:
            req.services.networks.ensure_network(req.context)
        for device in device_sources.reserve(req, spec['block_devices'], uuids[0]):
            volumes.append(device)
        reserved = True
        rows = plan.rows(uuids, reservation_id, now)
        kept = req.services.passwords.encrypted({'admin_password': password}, *uuids)
        if time.monotonic() - began > RENEW_AFTER_S and not req.services.api_db.run(
                mappings.renew, uuids, utils.utcnow()):
            raise exception.Unavailable('The request took too long: its servers count as lost. Send it again.')
        cell.db.run(_insert, req.context, rows, volumes, kept)
    except engine.CommitUnanswered:
        raise            # a conductor builds the servers if the rows are stored, and otherwise deletes the mappings
    except Exception as error:
        refused = isinstance(error, exception.NovaException) and not isinstance(error, exception.Unavailable)
        if _release(req, volumes) and (reserved or refused):
            req.services.api_db.run(_give_back, uuids)
        raise            # otherwise a volume may be reserved: a conductor deletes the mappings and releases all volumes
    for row in (notifications.read(req, cell.db, instances.get_many, uuids) or {}).values():
        notifications.updated(req, cell, row, old_state=None, old_task_state=None)
    whole = objects.RequestSpec(instance_uuid=uuids[0], num_instances=len(uuids), admin_password=password, **spec)
    casts.send(cell, req.services.conductor.build_instances, req.context, instance_uuids=uuids, spec=whole)
    shown = representation.of(req, rows)
    if server.get('return_reservation_id'):
        return representation.added(Response({'reservation_id': reservation_id}), shown)
    return representation.added(_accepted(req, uuids[0], plan.columns, password, spec['security_groups']), shown)


def _release(req: api_request.Request, volumes: list[device_sources.Device]) -> bool:
    """Release the volumes of a server that was not stored; return False if this fails."""
    try:
        for device in volumes:
            if device['attachment_id']:
                req.services.volumes.detach(req.context, device['attachment_id'])
    except Exception as error:
        LOG.warning('Cannot release the volumes of a new server; a conductor releases them later: %s', error)
        return False
    return True


def _begun_before(req: api_request.Request, names: list[str], server: server_schemas.ServerValues
                  ) -> Document | Response | None:
    """Return the response of an interrupted request if its servers were stored, else None.

    If no servers were stored, the request's rows in the API database are removed, so that the request can be repeated.
    """
    row, arguments = _stored_before(req, names[0])
    while row is None and server_lookup.has_moved(req):       # the server moved to another cell during the lookup
        row, arguments = _stored_before(req, names[0])
    if row is None:
        for attachment_id in req.services.volumes.attachments_of(req.context, names[0]):
            req.services.volumes.detach(req.context, attachment_id)
        req.services.api_db.run(_give_back, names)
        return None
    if server.get('return_reservation_id'):
        return {'reservation_id': row['reservation_id']}
    password = req.services.passwords.password(arguments.get(names[0]), names[0])
    return _accepted(req, names[0], row, password or '',
                     server_spec.security_groups(server.get('security_groups')))


def _stored_before(req: api_request.Request, uuid: str
                   ) -> tuple[InstancesRow | None, dict[str, Document | None]]:
    """Return (row of an existing or deleted server, or None; {uuid: arguments of its open action})."""
    try:
        cell = server_lookup.cell_of(req, uuid)
    except exception.InstanceNotFound:
        return None, {}
    with cell.db.reader() as conn:
        row = listing.by_uuid(conn, uuid) or listing.by_uuid(conn, uuid, deleted=True)
        return row, instance_actions.arguments_of_open(conn, [uuid])


def _accepted(req: api_request.Request, uuid: str, row: api_request.Row, password: str, groups: list[str]) -> Response:
    links = server_fields.links({'uuid': uuid}, server_fields.View(req))
    body = {'server': {'id': uuid, 'links': links, 'OS-DCF:diskConfig': row['disk_config'],
                       'security_groups': [{'name': name} for name in groups],          # requested group names
                       **server_spec.shown_password(req.services.conf, password)}}
    return Response(body, headers=(('Location', links[0]['href']),))


def _authorize(req: api_request.Request, request: create_plan.Request) -> None:
    server, place = request.server, request.place
    for needed, rule in (
            (place['force_host'] or place['force_node'], FORCED_HOST),
            (place['requested_host'] or place['requested_node'], REQUESTED_HOST),
            (server.get('block_device_mapping') or server.get('block_device_mapping_v2'), ATTACH_VOLUME),
            (server.get('networks') not in (None, [], 'auto', 'none'), ATTACH_NETWORK),
            (server.get('trusted_image_certificates'), TRUSTED_CERTS)):
        if needed:
            req.authorize(rule)


# ---- storage -----------------------------------------------------------------

def _reserve(conn: engine.Connection, cell: db_cells.Cell, plan: create_plan.Plan, names: list[str]) -> list[str]:
    """Claim quota, and store mappings and request specs. Return the first UUIDs in ``names`` that fit the limits."""
    spec, flavor = plan.spec, plan.spec['flavor']
    count = quotas.fit(conn, plan.limits, spec['project_id'], spec['user_id'], plan.least, len(names), flavor['vcpus'],
                       flavor['memory_mb'])
    group = server_spec.group(spec['hints'])
    if group is not None:
        count = server_groups.room(conn, plan.limits, spec['project_id'], group, plan.least, count)
    uuids = names[:count]
    if spec['category'] != categories.REGULAR:
        _use_category(conn, spec['category'])
    mappings.insert(conn, [
        {'instance_uuid': uuid, 'cell_uuid': cell.uuid, 'project_id': spec['project_id'],
         'user_id': spec['user_id'], 'vcpus': flavor['vcpus'], 'memory_mb': flavor['memory_mb'],
         'created_at': utils.utcnow(), 'server_group_id': group, 'category': spec['category']} for uuid in uuids])
    request_specs.insert(conn, [
        objects.RequestSpec(instance_uuid=uuid, num_instances=count, admin_password=None, **spec) for uuid in uuids])
    return uuids


def _use_category(conn: engine.Connection, name: str) -> None:
    """Lock the category against deletion until the server is stored; raise BadRequest if it does not exist."""
    with exception.AsBadRequest(exception.CategoryNotFound):
        categories.use(conn, name)


def _insert(conn: engine.Connection, context: nova_context.RequestContext, rows: list[Document],
            devices: list[Document], arguments: list[JsonDocument]) -> None:
    """Insert the servers with their open actions and volumes.

    :param arguments: arguments of each row's action
    """
    instances.insert(conn, rows)
    uuids = [row['uuid'] for row in rows]
    instance_actions.insert(conn, context, uuids, actions.BUILD.name, arguments_of_each=arguments)
    # Only volumes have rows of block devices. Other disks are derived from the request spec.
    block_devices.insert_many(conn, uuids, devices)


def _give_back(conn: engine.Connection, uuids: list[str]) -> None:
    mappings.delete_many(conn, uuids)
    request_specs.delete_many(conn, uuids)


ROUTES = (
    Route('POST', '/servers', create, policy=_RULE,
          checks=CHECKS + SHOWN,
          status=202, body=server_schemas.CREATE, errors=(400, 401, 403, 409)),
)
