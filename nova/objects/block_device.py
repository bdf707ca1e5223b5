"""Block devices and shares of servers, in messages to compute hosts and in drivers."""
from typing import TYPE_CHECKING, NotRequired, TypedDict, TypeGuard

from nova.json_types import JsonObject

if TYPE_CHECKING:
    from typing_extensions import ReadOnly

# Data to connect to a volume, by driver_volume_type. Types that only os-brick supports have further keys.
ConnectionData = TypedDict('ConnectionData', {
    # all types
    'format': str | None, 'access_mode': str | None, 'multiattach': bool, 'encrypted': bool,
    'qos_specs': dict[str, str] | None,
    # local, nbd
    'device_path': str, 'export': str, 'socket': str, 'tls': bool, 'tls_hostname': str | None, 'host': str, 'port': int,
    # rbd; iscsi also uses auth_username, and nfs uses name and export
    'name': str, 'hosts': list[str], 'ports': list[str], 'auth_enabled': bool, 'auth_username': str, 'secret_uuid': str,
    'keyring': str | None,
    # iscsi
    'target_portal': str, 'target_iqn': str, 'target_lun': int, 'auth_method': str | None, 'auth_password': str,
}, total=False)

# Connection of a host to a volume. ``device``: result of os-brick's connect_volume().
Connection = TypedDict('Connection', {
    'driver_volume_type': str | None, 'data': ConnectionData, 'host': NotRequired[str],
    'multiattach': NotRequired[bool], 'device': NotRequired[JsonObject]})

# The columns of block_device_mappings that a host needs
BlockDevice = TypedDict('BlockDevice', {
    'uuid': str, 'source_type': str, 'destination_type': str, 'device_name': str | None, 'device_type': str | None,
    'disk_bus': str | None, 'guest_format': str | None, 'boot_index': int | None, 'attachment_id': str | None,
    'tag': str | None, 'volume_id': 'ReadOnly[str | None]', 'volume_size': 'ReadOnly[int | None]',
    'connection_info': 'ReadOnly[Connection | None]'})


class VolumeDevice(BlockDevice):
    """A volume of a server, with the host's connection to the volume."""

    volume_id: 'ReadOnly[str]'
    volume_size: 'ReadOnly[int]'
    connection_info: 'ReadOnly[Connection]'


# Volume of a guest; attachment_id is None if the virt driver does not know it.
AttachedVolume = TypedDict('AttachedVolume', {'attachment_id': str | None, 'device_name': str | None})
# Attachment of a volume of the embedded block storage
KnownAttachment = TypedDict('KnownAttachment', {'attachment_id': str, 'volume_size': int})
DetachedShare = TypedDict('DetachedShare', {'share_id': str})


class Share(DetachedShare):
    """A row of share_mappings. ``access``: {'user', 'key'} with which the host mounts a CephFS share."""

    tag: str
    protocol: str
    export_location: str
    access: NotRequired[dict[str, str] | None]


def is_volume(device: BlockDevice) -> TypeGuard[VolumeDevice]:
    return device.get('destination_type') == 'volume'
