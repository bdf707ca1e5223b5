"""Request spec: the data to place and build one server, in the first and in later attempts."""
from typing import Any

from nova.objects import base


@base.register
class RequestSpec(base.NovaObject):
    """The spec of one server, stored until the server is deleted.

    requested_networks  None (no request or 'auto'), 'none', or a list of {'network_id', 'port_id',
                        'fixed_ip', 'tag'} with None for unrequested values
    injected_files      [{'path', 'contents'}], contents in base64
    block_devices       rows of block_device_mapping_v2 as normalized by the API
    hints               scheduler hints, each value a list
    force_host, force_node   destination for which most filters are skipped; only administrators may set it
    requested_host, requested_node   destination that the filters check (microversion 2.74)
    retry_hosts         [[host, node]] of failed builds
    category            name of the instance category (db/placement/categories.py); not set by older releases
    adopts              whether the host adopts an existing guest with the server's uuid instead of building a guest
    """

    VERSION = '1.1'
    ADDED = {'1.1': ('adopts',)}

    instance_uuid: base.Uuid
    project_id: str
    user_id: str
    flavor: Any
    image: Any                                # dict with id, status, min_ram, min_disk, properties, …
    availability_zone: str | None
    requested_networks: Any
    security_groups: Any                      # list of names
    injected_files: Any
    admin_password: str | None
    block_devices: Any
    hints: Any
    force_host: str | None
    force_node: str | None
    requested_host: str | None
    requested_node: str | None
    retry_hosts: Any
    num_instances: int
    category: str | None
    adopts: bool

    @property
    def has_no_networks(self) -> bool:
        """Whether the server has no ports. Such a server needs no call of the network service."""
        return self.requested_networks == 'none' or self.requested_networks == []

    @property
    def is_adoption(self) -> bool:
        return self.obj_attr_is_set('adopts') and self.adopts

    @property
    def category_name(self) -> str | None:
        """The instance category, or None in a spec of a release without categories."""
        return self.category if self.obj_attr_is_set('category') else None


@base.register
class Selection(base.NovaObject):
    """A host chosen for a server."""

    VERSION = '1.0'

    cell_uuid: str
    host: str
    node: str
    availability_zone: str | None
