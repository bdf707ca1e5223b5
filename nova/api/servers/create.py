"""POST /servers: check all of it, store it in one transaction of each database, tell a conductor."""
import dataclasses
import uuid as uuidlib

import sqlalchemy as sa

from nova import actions
from nova import context as nova_context
from nova import exception
from nova import hooks
from nova import objects
from nova import states
from nova import utils
from nova.api import casts
from nova.api import notifications
from nova.api.servers import category as server_category
from nova.api.servers import devices as server_devices
from nova.api.servers import fields as server_fields
from nova.api.servers import image_references
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db import statements
from nova.db.audit import log
from nova.db.placement import categories
from nova.db.placement import server_groups
from nova.db.projects import flavors as flavors_db
from nova.db.projects import key_pairs
from nova.db.projects import quotas
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import listing
from nova.db.servers import request_specs
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.objects import numa
from nova.web import formats
from nova.web.request import Response
from nova.web.routes import Route

_RULE = 'os_compute_api:servers:create'
FORCED_HOST = _RULE + ':forced_host'
REQUESTED_HOST = 'compute:servers:create:requested_destination'
ATTACH_VOLUME = _RULE + ':attach_volume'
ATTACH_NETWORK = _RULE + ':attach_network'
TRUSTED_CERTS = _RULE + ':trusted_certs'
ZERO_DISK = _RULE + ':zero_disk_flavor'
# the rules that ``check`` asks
CHECKS = (FORCED_HOST, REQUESTED_HOST, ATTACH_VOLUME, ATTACH_NETWORK, TRUSTED_CERTS, ZERO_DISK, server_category.CREATE)

# fields of objects.Flavor that a server keeps
FLAVOR = ('id', 'flavor_id', 'name', 'memory_mb', 'vcpus', 'root_gb', 'ephemeral_gb', 'swap', 'rxtx_factor',
           'is_public', 'disabled', 'description', 'extra_specs')
_IMAGE = ('id', 'name', 'status', 'min_ram', 'min_disk', 'size', 'disk_format', 'container_format',
          'checksum', 'os_hash_algo', 'os_hash_value', 'owner', 'properties')


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a request asks for, found to be possible as far as the API can tell.

    least, most   servers
    flavor, key, limits   rows of the API database: the flavor as a server keeps it, the key pair or None, the quota
    spec          the fields of objects.RequestSpec that the servers share
    groups        names of the security groups as a server shows them
    topology      objects.numa.GuestTopology or None
    """

    least: int
    most: int
    cell: object
    flavor: dict
    key: dict | None
    limits: dict
    groups: list
    topology: object
    spec: dict


def check(req):
    """What the body of a server create (``req.body``) wants; nothing is written.

    :raises NovaException: the request is refused
    """
    server = req.body['server']
    least, most = server_spec.counts(server)
    place = server_spec.placement(server, req.services.conf.default_schedule_zone)
    hints = _with_group_id(req, server_spec.hints(req.body))
    _authorize(req, server, place)
    category, filled = server_category.of_new(req, server)
    flavor, key, limits = _from_api_db(req, server, filled)
    system = server_category.system(req) if 'imageRef' in filled else None
    image = find_image(req, server.get('imageRef'), system)
    devices = server_devices.parse(server, image, flavor, req.services.conf.volume.max_local_block_devices)
    properties = server_devices.check(req, devices, image, most)
    check_flavor(req, image, flavor, backed := server_devices.is_volume_backed(devices))
    # what a volume was made of is the word of who made it, even where a category names the image
    image_references.check(req, properties, None if backed else system)
    image = {**(image or {}), 'id': None if backed else image['id'], 'properties': properties}
    flavor = server_spec.with_devices(flavor, properties, req.services.pci_aliases)
    topology = server_spec.guest_topology(flavor, properties)
    server_spec.check_metadata(server.get('metadata', {}), limits.of(req.user_id))
    files = server_spec.injected_files(server.get('personality'), limits.of(req.user_id))
    cell = req.services.cells.default
    check_place(req, server, place)
    groups = server_spec.security_groups(server.get('security_groups'))
    networks = server_spec.requested_networks(server.get('networks'), most)
    shown_groups = _check_networks(req, 'auto' if server.get('networks') == 'auto' else networks, groups, most)
    spec = {'project_id': req.project_id, 'user_id': req.user_id, 'flavor': flavor, 'image': image,
            'requested_networks': networks, 'security_groups': groups, 'injected_files': files,
            'block_devices': devices, 'hints': hints, 'retry_hosts': [], 'category': category, **place}
    return Wanted(least=least, most=most, cell=cell, flavor=flavor, key=key, limits=limits, groups=shown_groups,
                  topology=topology, spec=spec)


@hooks.add_hook('create_instance')
def create(req):
    wanted, server = check(req), req.body['server']
    spec, cell, devices = wanted.spec, wanted.cell, wanted.spec['block_devices']
    groups = spec['security_groups']
    password = server.get('adminPass') or server_spec.password()
    common = {**_common(req, server, wanted), **_disks(devices)}
    names = [req.new_uuid() for _ in range(wanted.most)]
    if req.once is not None and req.once.again:
        answer = _begun_before(req, names, server)
        if answer is not None:
            return answer
    req.services.builds.admit(req.services.cells, wanted.most)
    log.about(names[0])
    uuids = req.services.api_db.run(_reserve, cell, wanted.limits, spec, wanted.least, names)
    volumes = []
    try:
        volumes = server_devices.reserve(req, devices, uuids[0])
        cell.db.run(_insert, req.context, _rows(common, server, uuids), volumes, password)
    except engine.CommitUnanswered:
        raise            # where the rows are there a conductor builds them, where they are not it removes the mappings
    except Exception:
        server_devices.release(req, volumes)
        req.services.api_db.run(_give_back, uuids)
        raise
    for row in (notifications.read(req, cell.db, instances.get_many, uuids) or {}).values():
        notifications.updated(req, cell, row, old_state=None, old_task_state=None)
    spec = objects.RequestSpec(instance_uuid=uuids[0], num_instances=len(uuids), admin_password=password, **spec)
    casts.send(cell, req.services.conductor.build_instances, req.context, instance_uuids=uuids, spec=spec)
    if server.get('return_reservation_id'):
        return {'reservation_id': common['reservation_id']}
    return _accepted(req, uuids[0], common, password, groups)


def _begun_before(req, names, server):
    """The answer of a request that was broken off after its servers were stored; None when they were not.

    What was stored of them in the API database alone is removed: it is done again.
    """
    row, arguments = _stored_before(req, names[0])
    while row is None and server_lookup.has_moved(req):       # it got its host, and with it another cell, meanwhile
        row, arguments = _stored_before(req, names[0])
    if row is None:
        for attachment_id in req.services.volumes.attachments_of(req.context, names[0]):
            req.services.volumes.detach(req.context, attachment_id)
        req.services.api_db.run(_give_back, names)
        return None
    if server.get('return_reservation_id'):
        return {'reservation_id': row['reservation_id']}
    return _accepted(req, names[0], row, (arguments.get(names[0]) or {}).get('admin_password') or '',
                     server_spec.security_groups(server.get('security_groups')))


def _stored_before(req, uuid):
    """(row of a server, alive or deleted, or None; {uuid: arguments of its open action})."""
    try:
        cell = server_lookup.cell_of(req, uuid)
    except exception.InstanceNotFound:
        return None, {}
    with cell.db.reader() as conn:
        row = listing.by_uuid(conn, uuid) or listing.by_uuid(conn, uuid, deleted=True)
        return row, instance_actions.arguments_of_open(conn, [uuid])


def _accepted(req, uuid, common, password, groups):
    links = server_fields.links({'uuid': uuid}, server_fields.View(req))
    body = {'server': {'id': uuid, 'links': links, 'OS-DCF:diskConfig': common['disk_config'],
                       'security_groups': [{'name': name} for name in groups],          # as they were asked for
                       'adminPass': password}}
    return Response(body, headers=(('Location', links[0]['href']),))


# ---- checks ------------------------------------------------------------------

def _authorize(req, server, place):
    for needed, rule in (
            (place['force_host'] or place['force_node'], FORCED_HOST),
            (place['requested_host'] or place['requested_node'], REQUESTED_HOST),
            (server.get('block_device_mapping') or server.get('block_device_mapping_v2'), ATTACH_VOLUME),
            (server.get('networks') not in (None, [], 'auto', 'none'), ATTACH_NETWORK),
            (server.get('trusted_image_certificates'), TRUSTED_CERTS)):
        if needed:
            req.authorize(rule)


def _from_api_db(req, server, filled):
    """(flavor, key pair row or None, quota limits) in one connection.

    :param filled: what the server has of its category, which may be a flavor that only administrators see
    """
    with req.services.api_db.reader() as conn:
        try:
            flavor = flavors_db.get(conn, server['flavorRef'],
                                    nova_context.ALL_PROJECTS if 'flavorRef' in filled else req.context.sees)
        except exception.FlavorNotFound as error:
            raise exception.BadRequest(error.message) from None
        if flavor['disabled']:
            raise exception.BadRequest(exception.FlavorNotFound.template % {'flavor_id': flavor['flavor_id']})
        key = find_key(conn, req.user_id, server.get('key_name'))
        limits = quotas.limits_of(conn, req.services.conf, req.project_id)
    return {name: flavor[name] for name in FLAVOR}, key, limits


def _with_group_id(req, hints):
    """The hints, which may name the server group by its name, with its id.

    :raises BadRequest: no group of the project has the name, or several have it
    """
    named = server_spec.group(hints)
    if named is None or formats.is_uuid(named) and len(named) == 36:
        return hints
    with req.services.api_db.reader() as conn:
        found = server_groups.named(conn, req.project_id, named)
    if not found:
        raise exception.BadRequest(f'Server group {named} could not be found.')
    if len(found) > 1:
        raise exception.BadRequest(f'{len(found)} server groups have the name {named}: name one by its id.')
    return {**hints, 'group': found}


def find_key(conn, user_id, name):
    """The key pair's row, None without a name; a name that is not there is a bad request."""
    if not name:
        return None
    try:
        return key_pairs.get(conn, user_id, name)
    except exception.KeypairNotFound:
        raise exception.BadRequest('Invalid key_name provided.') from None


def find_image(req, image_id, context=None):
    """What the system keeps of an image, None without an id; one that is not there is a bad request.

    :param context: who asks for it, unless the caller
    """
    if not image_id:
        return None
    try:
        image = req.services.images.show(context, image_id) if context else server_category.find_image(req, image_id)
    except exception.ImageNotFound as error:
        raise exception.BadRequest(error.message) from None
    return {name: image.get(name) for name in _IMAGE}


def check_flavor(req, image, flavor, volume_backed=False):
    """:raises BadRequest, Forbidden: the image does not fit, or would have a root disk without bounds"""
    if image:
        server_spec.check_image(image, {**flavor, 'root_gb': 0} if volume_backed else flavor)
    if not volume_backed and not flavor['root_gb'] and not req.allows(ZERO_DISK):
        raise exception.Forbidden('Only volume-backed servers are allowed for flavors with zero disk.')


def check_place(req, server, place, cell=None):
    """
    :param cell: in which it must be; None: in any of them
    :raises BadRequest: the zone or the host that was named is not there
    :raises ServiceUnavailable: it is in no cell that answers, and one does not answer
    """
    services, nodes = tables_cell.services, tables_cell.compute_nodes
    zone = (server.get('availability_zone') or '').partition(':')[0]
    named = ((place['force_host'] or place['requested_host'], nodes.c.host),
             (place['force_node'] or place['requested_node'], nodes.c.node))
    if not zone and not any(name for name, _ in named):
        return
    several = {part.strip() for part in zone.split(',')}           # any of them will do
    conditions = [column == name for name, column in named if name]

    def ask(conn):
        there = conn.execute(sa.select(services.c.availability_zone).where(
            services.c.availability_zone.in_({zone, *several}), services.c.topic == 'compute').distinct())
        return set(there.scalars()), not conditions or conn.execute(
            sa.select(nodes.c.id).where(*conditions).limit(1)).first() is not None
    found, down = req.services.cells.read(ask, cell)
    there = set().union(*(zones for _cell, (zones, _known) in found))
    no_zone = zone and zone not in there and several - there
    no_host = not any(known for _cell, (_zones, known) in found)
    if down and (no_zone or no_host):
        raise exception.ServiceUnavailable(service='database')
    if no_zone:
        raise exception.BadRequest('The requested availability zone is not available')
    if no_host:
        raise exception.BadRequest('Compute host %s could not be found.' % ' '.join(
            name for name, _ in named if name))


def _check_networks(req, networks, groups, count):
    """Names of the groups.

    :raises BadRequest, PortInUse, NetworkAmbiguous: a network, port, address or group is not to be had
    """
    try:
        req.services.networks.validate_networks(req.context, networks, count)
        return req.services.networks.check_security_groups(req.context, groups)
    except exception.NotFound as error:
        raise exception.BadRequest(error.message) from None


# ---- storing -----------------------------------------------------------------

def _common(req, server, wanted):
    """The columns that all servers of the request share."""
    flavor, image, key, spec = wanted.flavor, wanted.spec['image'], wanted.key, wanted.spec
    hints, now = spec['hints'], utils.utcnow()
    zone = (server.get('availability_zone') or '').partition(':')[0] or None
    properties = image['properties'] or {}
    return {
        'project_id': req.project_id, 'user_id': req.user_id, 'created_at': now, 'updated_at': now,
        'vm_state': states.BUILDING, 'task_state': states.SCHEDULING, 'power_state': states.NOSTATE,
        'progress': 0, 'locked': False, 'availability_zone': spec['availability_zone'],
        'pinned_availability_zone': zone, 'description': server.get('description', _described(req, server)),
        'reservation_id': server_spec.reservation_id(), 'image_id': image['id'],
        'kernel_id': properties.get('kernel_id'), 'ramdisk_id': properties.get('ramdisk_id'),
        'key_name': key and key['name'], 'key_data': key and key['public_key'],
        'user_data': server.get('user_data'),
        'config_drive': server.get('config_drive', properties.get('img_config_drive') == 'mandatory'),
        'access_ip_v4': server.get('accessIPv4'), 'access_ip_v6': server.get('accessIPv6'),
        'disk_config': server.get('OS-DCF:diskConfig', 'MANUAL'),
        'trusted_certs': server.get('trusted_image_certificates'),
        'scheduler_hints': server_spec.shown_hints(hints) or None, 'metadata': server.get('metadata', {}),
        'tags': joined_tags(server.get('tags', ())), 'flavor_id': flavor['flavor_id'], 'flavor': flavor,
        **{name: flavor[name] for name in ('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb')},
        'image_properties': properties, 'network_info': [], 'security_groups': wanted.groups,
        'numa_topology': numa.text_of_guest(wanted.topology),
        'system_metadata': {}, 'category': spec['category'], 'server_group_id': server_spec.group(hints)}


def _disks(devices):
    """The columns that show the block devices."""
    return {'root_device_name': devices[0]['device_name'], 'volumes': block_devices.shown(devices)}


def joined_tags(tags):
    """Tags as the column holds them."""
    return ''.join(f',{tag}' for tag in dict.fromkeys(tags)) + ',' if tags else ''


def _described(req, server):
    """Until 2.18 the description is the name."""
    return None if req.has('description') else server['name'].strip()


def _rows(common, server, uuids):
    name, total = server['name'].strip(), len(uuids)
    given = server.get('hostname')
    rows = []
    for number, uuid in enumerate(uuids):
        shown = server_spec.numbered(name, number, total)
        rows.append({**common, 'uuid': uuid, 'display_name': shown, 'launch_index': number,
                     'hostname': server_spec.numbered(given, number, total) if given
                     else server_spec.hostname(shown, uuid)})
    return rows


def _reserve(conn, cell, limits, spec, least, names):
    """Check and use the quota, and store mappings and specs; those of the uuids in ``names`` that are used."""
    flavor = spec['flavor']
    count = quotas.fit(conn, limits, spec['project_id'], spec['user_id'], least, len(names), flavor['vcpus'],
                       flavor['memory_mb'])
    group = server_spec.group(spec['hints'])
    if group is not None:
        count = server_groups.room(conn, limits, spec['project_id'], group, least, count)
    uuids = names[:count]
    if spec['category'] != categories.REGULAR:
        _use_category(conn, spec['category'])
    conn.execute(statements.insert(tables_api.instance_mappings), [
        {'instance_uuid': uuid, 'cell_uuid': cell.uuid, 'project_id': spec['project_id'],
         'user_id': spec['user_id'], 'vcpus': flavor['vcpus'], 'memory_mb': flavor['memory_mb'],
         'created_at': utils.utcnow(), 'server_group_id': group, 'category': spec['category']} for uuid in uuids])
    request_specs.insert(conn, [
        objects.RequestSpec(instance_uuid=uuid, num_instances=count, admin_password=None, **spec) for uuid in uuids])
    return uuids


def _use_category(conn, name):
    """Let it stay while it has the server that is being made; one that is gone is a bad request."""
    try:
        categories.use(conn, name)
    except exception.CategoryNotFound as error:
        raise exception.BadRequest(error.message) from None


def _insert(conn, context, rows, devices, password):
    instances.insert(conn, rows)
    uuids = [row['uuid'] for row in rows]
    instance_actions.insert(conn, context, uuids, actions.BUILD.name, arguments={'admin_password': password})
    # What is made of the flavor and the image follows from the request spec; rows are for volumes, which change.
    if devices:
        now = utils.utcnow()
        conn.execute(sa.insert(tables_cell.block_device_mappings), [
            {**device, 'uuid': str(uuidlib.uuid4()), 'instance_uuid': uuid, 'created_at': now}
            for uuid in uuids for device in devices])


def _give_back(conn, uuids):
    for table in (tables_api.instance_mappings, tables_api.request_specs):
        conn.execute(sa.delete(table).where(table.c.instance_uuid.in_(uuids)))


ROUTES = (
    Route('POST', '/servers', create, policy=_RULE,
          checks=CHECKS,
          status=202, body=server_schemas.CREATE, errors=(400, 401, 403, 409)),
)
