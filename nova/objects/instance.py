"""A server in messages between services: the columns of its row."""
import datetime
from typing import Any, TypedDict

from nova.json_types import Json
from nova.objects import base
from nova.objects import pci

# key of the system metadata: the image that a rebuild writes to the root volume
REIMAGE = 'reimage_id'
# key of the system metadata: the encrypted password that the guest has posted to the metadata service
POSTED_PASSWORD = 'password'
# keys of the system metadata of a shelved server: its image, and the time (ISO 8601)
SHELVED_IMAGE, SHELVED_AT = 'shelved_image_id', 'shelved_at'


def shelving_time(value: Json) -> datetime.datetime | None:
    """Return a value of SHELVED_AT as a time (UTC, without a zone), or None if it is not such a time."""
    try:
        moment = datetime.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo else moment


class ServerState(TypedDict):
    """Reply of the conductor about a host's guest: NEEDED, ELSEWHERE, DELETED_FOR_GOOD or UNKNOWN of ``states``."""

    state: str
    generation: int | None


@base.register
class Instance(base.NovaObject):
    VERSION = '1.2'
    ADDED = {'1.1': ('image_grant',), '1.2': ('generation',)}

    uuid: base.Uuid
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
    numa_topology: str | None                 # a GuestTopology of objects.numa
    pci_devices: Any                          # not a column; the conductor adds it at the beginning of a task
    # also added by the conductor: the task's permissions on images, see nova.image.grants
    image_grant: str | None

    @property
    def name(self) -> str:
        """The name of the guest at the hypervisor (``OS-EXT-SRV-ATTR:instance_name``)."""
        return 'instance-' + self.uuid

    def devices(self) -> list[pci.Device]:
        """Return [pci.Device] of the server on its host, as the conductor added them when the task began."""
        return pci.load_devices(self.pci_devices or ()) if self.obj_attr_is_set('pci_devices') else []
