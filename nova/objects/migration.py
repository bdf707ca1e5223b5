"""A move of a server, as it travels between services: the columns of its row that a compute needs."""
from __future__ import annotations

from oslo_versionedobjects import fields

from nova.objects import base

_text = fields.StringField
_maybe = {'nullable': True}


@base.register
class Migration(base.NovaObject):
    """See db/moves/migrations.py for the statuses and what ``swapped`` means."""

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

    @property
    def same_host(self) -> bool:
        """Whether the server stays on its host."""
        return self.source_compute == self.dest_compute
