"""A server in messages between services: the columns of its row."""
from __future__ import annotations

import datetime
from typing import Any

from oslo_versionedobjects import fields

from nova.objects import base
from nova.objects import pci

# key of the system metadata: the image for the root volume of a rebuild
REIMAGE = 'reimage_id'
# key of the system metadata: the encrypted password that the guest has posted to the metadata service
POSTED_PASSWORD = 'password'
# keys of the system metadata of a shelved server: its image, and the time (ISO 8601)
SHELVED_IMAGE, SHELVED_AT = 'shelved_image_id', 'shelved_at'

_text = fields.StringField
_maybe: dict[str, Any] = {'nullable': True}


@base.register
class Instance(base.NovaObject):
    VERSION = '1.2'
    ADDED = {'1.1': ('image_grant',), '1.2': ('generation',)}

    fields = {
        'uuid': fields.UUIDField(),
        'project_id': _text(),
        'user_id': _text(),
        'created_at': base.UtcField(),
        'updated_at': base.UtcField(),
        'launched_at': base.UtcField(**_maybe),
        'terminated_at': base.UtcField(**_maybe),
        'vm_state': _text(),
        'task_state': _text(**_maybe),
        'power_state': fields.IntegerField(),
        'progress': fields.IntegerField(),
        'locked': fields.BooleanField(),
        'host': _text(**_maybe),
        'node': _text(**_maybe),
        'generation': fields.IntegerField(),
        'availability_zone': _text(**_maybe),
        'display_name': _text(),
        'hostname': _text(),
        'reservation_id': _text(),
        'launch_index': fields.IntegerField(),
        'image_id': _text(**_maybe),
        'kernel_id': _text(**_maybe),
        'ramdisk_id': _text(**_maybe),
        'root_device_name': _text(**_maybe),
        'key_name': _text(**_maybe),
        'key_data': _text(**_maybe),
        'user_data': _text(**_maybe),
        'config_drive': fields.BooleanField(),
        'disk_config': _text(),
        'metadata': base.JsonField(),
        'flavor_id': _text(),
        'flavor': base.JsonField(),
        'vcpus': fields.IntegerField(),
        'memory_mb': fields.IntegerField(),
        'root_gb': fields.IntegerField(),
        'ephemeral_gb': fields.IntegerField(),
        'image_properties': base.JsonField(),
        'network_info': base.JsonField(),
        'security_groups': base.JsonField(),
        'system_metadata': base.JsonField(),
        'server_group_id': _text(**_maybe),
        'numa_topology': _text(**_maybe),        # a GuestTopology of objects.numa
        'pci_devices': base.JsonField(),         # not a column; the conductor adds it at the beginning of a task
        # also added by the conductor: the task's permissions on images, see nova.image.grants
        'image_grant': _text(**_maybe),
    }
    # types of the fields for mypy
    uuid: str
    project_id: str
    user_id: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    launched_at: datetime.datetime | None
    terminated_at: datetime.datetime | None
    vm_state: str
    task_state: str | None
    power_state: int
    progress: int
    locked: bool
    host: str | None
    node: str | None
    generation: int
    availability_zone: str | None
    display_name: str
    hostname: str
    reservation_id: str
    launch_index: int
    image_id: str | None
    kernel_id: str | None
    ramdisk_id: str | None
    root_device_name: str | None
    key_name: str | None
    key_data: str | None
    user_data: str | None
    config_drive: bool
    disk_config: str
    metadata: Any
    flavor_id: str
    flavor: Any
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int
    image_properties: Any
    network_info: Any
    security_groups: Any
    system_metadata: Any
    server_group_id: str | None
    numa_topology: str | None
    pci_devices: Any
    image_grant: str | None

    @property
    def name(self) -> str:
        """The name of the guest at the hypervisor (``OS-EXT-SRV-ATTR:instance_name``)."""
        return 'instance-' + self.uuid

    def devices(self) -> list[pci.Device]:
        """Return [pci.Device] of the server on its host at the beginning of a task."""
        return pci.load_devices(self.pci_devices or ()) if self.obj_attr_is_set('pci_devices') else []
