"""Block devices and shares of servers, in messages to compute hosts and in drivers."""
from __future__ import annotations

import datetime
from typing import NotRequired, TYPE_CHECKING, TypedDict, TypeGuard

from nova.json_types import JsonObject

if TYPE_CHECKING:
    from typing_extensions import ReadOnly


class ConnectionData(TypedDict, total=False):
    """Access to a volume, by the kind of the connection; volumes of other kinds have further keys.

    format, access_mode, multiattach, encrypted, qos_specs  all kinds
    device_path                                             local
    export, socket, tls, tls_hostname, host, port           nbd
    name, hosts, ports, secret_uuid, keyring                rbd; ``name`` also nfs
    target_portal, target_iqn, target_lun, auth_…           iscsi; ``auth_username`` also rbd
    """

    format: str | None
    access_mode: str | None
    multiattach: bool
    encrypted: bool
    qos_specs: dict[str, str] | None
    device_path: str
    export: str
    socket: str
    tls: bool
    tls_hostname: str | None
    host: str
    port: int
    name: str
    hosts: list[str]
    ports: list[str]
    auth_enabled: bool
    auth_username: str
    auth_password: str
    auth_method: str | None
    secret_uuid: str
    keyring: str | None
    target_portal: str
    target_iqn: str
    target_lun: int


class Connection(TypedDict):
    """How a host reaches a volume. ``device``: result of os-brick."""

    driver_volume_type: str | None
    data: ConnectionData
    host: NotRequired[str]
    multiattach: NotRequired[bool]
    device: NotRequired[JsonObject]


class BlockDevice(TypedDict):
    """A row of block_device_mappings."""

    id: int
    uuid: str
    instance_uuid: str
    created_at: datetime.datetime
    source_type: str
    destination_type: str
    device_name: str | None
    device_type: str | None
    disk_bus: str | None
    guest_format: str | None
    boot_index: int | None
    image_id: str | None
    volume_id: ReadOnly[str | None]
    snapshot_id: str | None
    volume_size: ReadOnly[int | None]
    volume_type: str | None
    attachment_id: str | None
    connection_info: ReadOnly[Connection | None]
    delete_on_termination: bool
    tag: str | None


class VolumeDevice(BlockDevice):
    """A device with a volume that is connected to the host."""

    volume_id: ReadOnly[str]
    volume_size: ReadOnly[int]
    connection_info: ReadOnly[Connection]


def is_volume(device: BlockDevice) -> TypeGuard[VolumeDevice]:
    return device.get('destination_type') == 'volume'


class AttachedVolume(TypedDict):
    """Volume of a guest. ``attachment_id`` is None if the driver does not know it."""

    attachment_id: str | None
    device_name: str | None


class KnownAttachment(TypedDict):
    """Attachment of a volume in a known block storage."""

    attachment_id: str
    volume_size: int


class DetachedShare(TypedDict):
    """The part of a Share that identifies it."""

    share_id: str


class Share(DetachedShare):
    """A row of share_mappings. ``access``: {'user', 'key'} of Ceph for the host."""

    tag: str
    protocol: str
    export_location: str
    access: NotRequired[dict[str, str] | None]
