"""A move of a server, as sent between services: the columns of its row that a compute service needs."""
from __future__ import annotations

from typing import Any

from oslo_versionedobjects import fields

from nova.objects import base

_text = fields.StringField
_maybe: dict[str, Any] = {'nullable': True}


@base.register
class Migration(base.NovaObject):
    """A move; see db/moves/migrations.py for the statuses and ``swapped``."""

    VERSION = '1.0'

    fields = {
        'id': fields.IntegerField(),
        'uuid': fields.UUIDField(),
        'instance_uuid': fields.UUIDField(),
        'migration_type': _text(),
        'status': _text(),
        'swapped': fields.BooleanField(),
        'arguments': base.JsonField(),
        'source_compute': _text(**_maybe),
        'source_node': _text(**_maybe),
        'dest_compute': _text(**_maybe),
        'dest_node': _text(**_maybe),
        'dest_host': _text(**_maybe),
        'old_flavor': base.JsonField(),
        'new_flavor': base.JsonField(),
    }
    # types of the fields for mypy
    id: int
    uuid: str
    instance_uuid: str
    migration_type: str
    status: str
    swapped: bool
    arguments: Any
    source_compute: str | None
    source_node: str | None
    dest_compute: str | None
    dest_node: str | None
    dest_host: str | None
    old_flavor: Any
    new_flavor: Any
