"""Instance categories of servers (an API extension): selection for new servers, and visibility of existing ones.

Regular servers belong to users. Servers of other categories are administrative: only administrators see them. Services
may manage these servers for users. Policy rules may let users delete or reboot them if the request names the category.
"""
from typing import Final, TypedDict

from oslo_config import cfg

from nova import context
from nova.db.placement.server_groups import Group
from nova import exception
from nova.api import request as api_request
from nova.api.servers import schemas as server_schemas
from nova.db.placement import categories
from nova.db.placement.categories import REGULAR
from nova.objects.image import Image
from nova.volume.api import Snapshot
from nova.volume.api import Volume

Row = api_request.Row

KEY: Final = server_schemas.CATEGORY
CREATE = 'nova:servers:create:category'
DELETE, REBOOT = 'nova:servers:delete:category', 'nova:servers:reboot:category'


# the columns of a server that determine its visibility
Owned = TypedDict('Owned', {'uuid': str, 'category': str, 'project_id': str, 'user_id': str})


# ---- existing servers ----------------------------------------------------------

def check_visible(req: api_request.Request, row: Owned, rule: str | None = None) -> None:
    """Hide an administrative server from callers who are not administrators.

    :param rule: policy rule for requests that name the category; None: such requests are refused too
    :raises InstanceNotFound: the server is hidden from the caller
    :raises PolicyDenied: the request names the category, but the rule denies it
    """
    if row['category'] == REGULAR or req.context.is_admin:
        return
    if rule is None or req.query.one(KEY) != row['category']:
        raise exception.InstanceNotFound(instance_id=row['uuid'])
    req.authorize(rule, {'project_id': row['project_id'], 'user_id': row['user_id']})


def visible_category(req: api_request.Request) -> str | None:
    """Return the category to which lists and reports of this caller are limited, None for all."""
    return None if req.context.is_admin else REGULAR


def hidden_images(req: api_request.Request) -> frozenset[str] | set[str]:
    """Return IDs of administrative images that lists of an external image service must not show to this caller.

    The embedded image service hides such images itself.
    """
    if req.context.is_admin or req.services.conf.image.backend == 'embedded':
        return frozenset()
    with req.services.api_db.reader() as conn:
        return categories.registered_images(conn)


def find_image(req: api_request.Request, image_id: str) -> Image:
    """Return an image that is visible to the caller.

    :raises ImageNotFound: the image does not exist or is hidden
    """
    image = req.services.images.show(req.context, image_id)
    if image['id'] in hidden_images(req):
        raise exception.ImageNotFound(image_id=image_id)
    return image


def bootable_image(req: api_request.Request, image_id: str) -> Image:
    """Return an image that is visible to the caller, and whose data the caller may use.

    :raises ImageNotFound: the image does not exist or is hidden
    :raises PolicyDenied: the caller may not download the image
    """
    image = find_image(req, image_id)
    req.services.images.check_download(req.context, image)
    return image


def check_volume(req: api_request.Request, volume: Volume) -> None:
    """Check that a volume is visible to the caller.

    :raises VolumeNotFound: the volume is attached to an administrative server
    """
    holders = [attachment['instance_uuid'] for attachment in volume['attachments']]
    if holders and not req.context.is_admin:
        with req.services.api_db.reader() as conn:
            if categories.some_administrative(conn, holders):
                raise exception.VolumeNotFound(volume_id=volume['id'])


def find_volume(req: api_request.Request, volume_id: str) -> Volume:
    """Return a volume that is visible to the caller.

    :raises VolumeNotFound: the volume does not exist or is hidden
    """
    volume = req.services.volumes.get(req.context, volume_id)
    check_volume(req, volume)
    return volume


def find_snapshot(req: api_request.Request, snapshot_id: str) -> Snapshot:
    """Return a snapshot that is visible to the caller.

    :raises VolumeSnapshotNotFound: the snapshot does not exist, or its volume is hidden
    """
    snapshot = req.services.volumes.get_snapshot(req.context, snapshot_id)
    if not req.context.is_admin:
        try:
            find_volume(req, snapshot['volume_id'])
        except exception.VolumeNotFound:
            raise exception.VolumeSnapshotNotFound(snapshot_id=snapshot['id']) from None
    return snapshot


def visible_snapshots(req: api_request.Request, snapshots: list[Row]) -> list[Row]:
    """Return those snapshots that belong to volumes visible to the caller."""
    if req.context.is_admin:
        return snapshots
    visible: dict[str, bool] = {}           # {volume: visible}
    for snapshot in snapshots:
        volume_id = snapshot['volume_id']
        if volume_id not in visible:
            try:
                find_volume(req, volume_id)
                visible[volume_id] = True
            except exception.NotFound:
                visible[volume_id] = False
    return [snapshot for snapshot in snapshots if visible[snapshot['volume_id']]]


def visible_volumes(req: api_request.Request, volumes: list[Row]) -> list[Row]:
    """Return those volumes that the caller may see."""
    holders = {attachment['instance_uuid'] for volume in volumes for attachment in volume['attachments']}
    if not holders or req.context.is_admin:
        return volumes
    with req.services.api_db.reader() as conn:
        hidden = categories.administrative_of(conn, list(holders))
    return [volume for volume in volumes
            if not any(attachment['instance_uuid'] in hidden for attachment in volume['attachments'])]


def visible_members(group: Group, req: api_request.Request) -> list[str]:
    """Return those members of a server group (row of db.server_groups) that the caller may see."""
    hidden = () if req.context.is_admin else group['administrative']
    return [uuid for uuid in group['members'] if uuid not in hidden] if hidden else group['members']


# ---- new servers ---------------------------------------------------------------

def of_new(req: api_request.Request, server: server_schemas.ServerValues) -> tuple[str, set[str]]:
    """Complete missing image and flavor references of a new server from its category.

    :returns: (name of the category, set of the keys that were added to ``server``)
    :param server: content of ``server`` in the body; modified
    :raises PolicyDenied: the caller may not use the category
    :raises BadRequest: the category does not exist, or the flavor is missing
    """
    name = server.get(KEY, REGULAR)
    if name != REGULAR:
        req.authorize(CREATE)
    elif _is_vpn(req.services.conf, server):
        name = req.services.conf.instance_cat_vpn
    filled = set() if name == REGULAR else _fill(req, name, server)
    if 'flavorRef' not in server:
        raise exception.BadRequest(f'Instance category {name} has no default flavor, and the request names none.')
    return name, filled


def _is_vpn(conf: cfg.ConfigOpts, server: server_schemas.ServerValues) -> bool:
    return bool(conf.vpn_image_id) and (server.get('imageRef') or '').lower() == conf.vpn_image_id.lower()


def _fill(req: api_request.Request, name: str, server: server_schemas.ServerValues) -> set[str]:
    with req.services.api_db.reader() as conn:
        row = categories.find(conn, name)
    if row is None:
        raise exception.BadRequest(exception.CategoryNotFound.template % {'category': name})
    filled: set[str] = set()
    if 'flavorRef' not in server and row['flavor_id'] is not None:
        server['flavorRef'] = row['flavor_id']
        filled.add('flavorRef')
    if not server.get('imageRef') and not _boots_from_volume(server) and row['image_id'] is not None:
        server['imageRef'] = row['image_id']
        filled.add('imageRef')
    return filled


def _boots_from_volume(server: server_schemas.ServerValues) -> bool:
    return bool(server.get('block_device_mapping')) or any(
        device.get('boot_index') == 0 for device in server.get('block_device_mapping_v2') or ())


def system(req: api_request.Request) -> context.RequestContext:
    """Return an internal administrator context, because the image of a category may be hidden from the caller."""
    return context.admin_context(req.context.request_id)
