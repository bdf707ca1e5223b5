"""RPC object of a move of a server: the columns of the move's row that a compute service needs."""
from typing import Any

from nova.objects import base


@base.register
class Migration(base.NovaObject):
    """A move; see db/moves/migrations.py for the statuses and ``claims_swapped``."""

    VERSION = '1.0'

    id: int
    uuid: base.Uuid
    instance_uuid: base.Uuid
    migration_type: str
    status: str
    claims_swapped: bool
    arguments: Any
    source_compute: str | None
    source_node: str | None
    dest_compute: str | None
    dest_node: str | None
    dest_host: str | None
    old_flavor: Any
    new_flavor: Any
