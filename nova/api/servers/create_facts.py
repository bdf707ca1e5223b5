"""The objects that a request to create servers references, for create_plan. A missing object is an error."""

from nova import context as nova_context
from nova import exception
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import create_plan
from nova.api.servers import device_sources
from nova.api.servers import devices as server_devices
from nova.api.servers import image_references
from nova.api.servers import spec as server_spec
from nova.api.servers.schemas import ServerValues
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import compute_nodes
from nova.db.placement import server_groups
from nova.db.placement import zones
from nova.db.projects import flavors as flavors_db
from nova.db.projects import key_pairs
from nova.db.projects import quotas
from nova.db.tables.rows import KeyPairsRow
from nova.objects import image as objects_image
from nova.objects import pci
from nova.objects.flavor import Flavor
from nova.objects.image import StoredImage
from nova.web import formats

Document = create_plan.Document

ZERO_DISK = 'os_compute_api:servers:create:zero_disk_flavor'



def read(req: api_request.Request, request: create_plan.Request) -> create_plan.Facts:
    """Read the facts of a request, and add the defaults of the server's instance category to ``request.server``.

    :raises NovaException: a referenced object does not exist or is not visible to the caller
    """
    server, conf = request.server, req.services.conf
    hints = _with_group_id(req, request.hints)
    category, filled = server_category.of_new(req, server)
    flavor, key, limits = _from_api_db(req, server, filled)
    system = server_category.system(req) if 'imageRef' in filled else None
    image = find_image(req, server.get('imageRef'), system)
    devices = server_devices.parse(server, image, flavor, conf.volume.max_local_block_devices)
    server_devices.check_number(devices, request.most, conf.volume.max_devices)
    sources = device_sources.read(req, devices)
    backed = server_devices.is_volume_backed(devices)
    # the kernel and ramdisk of a boot volume: use the caller's rights, not those of the category, because any user can
    # set the image properties of a volume
    references = image_references.read(req, device_sources.properties_of(devices, sources, image),
                                       None if backed else system)
    check_place(req, server, request.place)
    networks, groups, of_ports = _check_networks(
        req, 'auto' if server.get('networks') == 'auto' else request.networks, request.groups, request.most)
    return create_plan.Facts(
        project_id=req.project_id, user_id=req.user_id, category=category, hints=hints, flavor=flavor, key=key,
        limits=limits, zero_disk=bool(backed or flavor['root_gb'] or req.allows(ZERO_DISK)), image=image,
        devices=devices, sources=sources, references=references, networks=networks, groups=groups, of_ports=of_ports,
        aliases=req.services.pci_aliases,
        named=not req.has('description'),
        written=not backed and conf.libvirt.inject_partition != server_spec.NOT_WRITTEN)


def _from_api_db(req: api_request.Request, server: ServerValues, filled: set[str]
                 ) -> tuple[Flavor, api_request.Row | None, quotas.Limits]:
    """Return (flavor, key pair row or None, quota limits), read with one connection.

    :param filled: keys set by the category; its flavor may be private
    """
    with req.services.api_db.reader() as conn:
        with exception.AsBadRequest(exception.FlavorNotFound):
            flavor = flavors_db.get(conn, server['flavorRef'],
                                    nova_context.ALL_PROJECTS if 'flavorRef' in filled else req.context.sees)
        if flavor['disabled']:
            raise exception.BadRequest(exception.FlavorNotFound.template % {'flavor_id': flavor['flavor_id']})
        key = find_key(conn, req.user_id, server.get('key_name'))
        limits = quotas.limits_of(conn, req.services.conf, req.project_id)
    return flavors_db.stored(flavor), key, limits


def _with_group_id(req: api_request.Request, hints: create_plan.Hints) -> create_plan.Hints:
    """Replace the name of a server group in the hints by its ID.

    :raises BadRequest: the name is unknown or ambiguous
    """
    named = server_spec.group(hints)
    if named is None or formats.is_uuid(named) and len(named) == 36:
        return hints
    with req.services.api_db.reader() as conn:
        found = server_groups.named(conn, req.project_id, named)
    if not found:
        raise exception.BadRequest(f'Server group {named} could not be found.')
    if len(found) > 1:
        raise exception.BadRequest(f'{len(found)} server groups have the name {named}: use the ID of one.')
    return {**hints, 'group': found}


def find_key(conn: engine.Connection, user_id: str, name: str | None) -> KeyPairsRow | None:
    """Return the key pair's row, or None if no name is given.

    :raises BadRequest: the key pair does not exist
    """
    if not name:
        return None
    try:
        return key_pairs.get(conn, user_id, name)
    except exception.KeypairNotFound:
        raise exception.BadRequest('Invalid key_name provided.') from None


def find_image(req: api_request.Request, image_id: str | None, context: nova_context.RequestContext | None = None
               ) -> StoredImage | None:
    """Return the stored fields of an image, or None if no ID is given.

    :param context: context of the lookup; default: the caller's
    :raises BadRequest: the image does not exist
    """
    if not image_id:
        return None
    with exception.AsBadRequest(exception.ImageNotFound):
        image = (req.services.images.show(context, image_id) if context
                 else server_category.bootable_image(req, image_id))
    return objects_image.stored(image)


def check_place(req: api_request.Request, server: ServerValues, place: server_spec.Placement,
                cell: db_cells.Cell | None = None) -> None:
    """Check that the requested zone and host exist.

    :param cell: cell that must have them; None: any cell
    :raises BadRequest: the zone or host does not exist
    :raises ServiceUnavailable: the zone or host was not found, and a cell is down
    """
    zone = (server.get('availability_zone') or '').partition(':')[0]
    host, node = place['force_host'] or place['requested_host'], place['force_node'] or place['requested_node']
    if not (zone or host or node):
        return
    several = {part.strip() for part in zone.split(',')}           # a request may list several allowed zones

    def look(conn: engine.Connection) -> tuple[set[str], bool]:
        return zones.existing(conn, {zone, *several}), not (host or node) or compute_nodes.exists(conn, host, node)
    found, down = req.services.cells.read(look, cell)
    there = set().union(*(known for _cell, (known, _exists) in found))
    no_zone = zone and zone not in there and several - there
    no_host = not any(exists for _cell, (_known, exists) in found)
    if down and (no_zone or no_host):
        raise exception.ServiceUnavailable(service='database')
    if no_zone:
        raise exception.BadRequest('The requested availability zone is not available')
    if no_host:
        raise exception.BadRequest('Compute host %s could not be found.' % ' '.join(
            name for name in (host, node) if name))


def _check_networks(req: api_request.Request, networks: list[Document] | str | None, groups: list[str], count: int
                    ) -> tuple[list[Document] | str | None, list[str], list[pci.Request]]:
    """Return (Facts.networks, group names that the server shows, devices that ports need).

    :raises BadRequest, PortInUse, NetworkAmbiguous: a network, port, address or group is unusable, or the groups would
     have no effect
    """
    service = req.services.networks
    with exception.AsBadRequest(exception.NotFound):
        names = service.check_security_groups(req.context, groups)
        checked = service.validate_networks(req.context, networks, count, req.has('bandwidth_ports'), names)
        shown = dict.fromkeys([*checked.groups, *(names if checked.secured else ())])
        return checked.requests, list(shown), list(checked.devices)
