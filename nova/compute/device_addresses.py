"""Record of a guest's device addresses, which the metadata shows for servers with tagged devices."""
import collections.abc
import logging
import typing

from nova import context
from nova import exception
from nova import objects
from nova.compute.host import Host
from nova.objects import device_addresses

LOG = logging.getLogger(__name__)


def has_tags(devices: collections.abc.Iterable[typing.Mapping[str, typing.Any]]) -> bool:
    """Return whether one of these VIFs or disks (rows of block_device_mappings) has a tag."""
    return any(device.get('tag') for device in devices)


def record(host: Host, ctx: context.RequestContext, server: objects.Instance, tagged: bool = False) -> None:
    """Record the addresses of a guest's devices, after its start or an attachment.

    :param tagged: whether one of its devices has a tag; an existing record is always updated
    """
    known = server.system_metadata if server.obj_attr_is_set('system_metadata') else None
    if not tagged and device_addresses.KEY not in (known or {}):
        return
    try:
        found = device_addresses.limited(host.driver.device_addresses(server))
    except exception.VirtError as error:             # the next start of the guest records the addresses
        LOG.warning('Cannot read the device addresses of server %s: %s', server.uuid, error)
        return
    if not found or found == device_addresses.read(known):
        return
    try:
        host.conductor.update_instance(ctx, instance_uuid=server.uuid, expect={'host': [host.name]},
                                       values={'system_metadata': {device_addresses.KEY: found}})
    except exception.HostForbidden as error:             # a conductor of the previous release refuses this key
        LOG.warning('Cannot record the device addresses of server %s: %s', server.uuid, error)
