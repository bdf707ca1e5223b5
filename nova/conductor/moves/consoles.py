"""Console sessions follow their server to its new host after a live move."""
from __future__ import annotations

import logging
import typing

from nova import context
from nova import exception
from nova import objects
from nova.db.engine import Database
from nova.db.servers import console_tokens
from nova.db.servers import instances
from nova.json_types import JsonObject

LOG = logging.getLogger(__name__)


class Computes(typing.Protocol):
    """RPC client of compute hosts."""

    def get_console(self, ctx: context.RequestContext, *, server: str, instance: objects.Instance,
                    kind: str) -> JsonObject | None: ...


def follow(cell_db: Database, compute: Computes, ctx: context.RequestContext, instance_uuid: str, host: str) -> None:
    """Point the console tokens of a server to its new host. Sessions that cannot follow are closed."""
    with cell_db.reader() as conn:
        types = console_tokens.left_behind(conn, instance_uuid, host)
        row = instances.get(conn, instance_uuid) if types else None
    if row is None:
        return
    instance, places = objects.Instance.from_row(row), {}
    for console_type in sorted(types & console_tokens.KINDS.keys()):
        try:
            place = compute.get_console(ctx, server=host, instance=instance, kind=console_tokens.KINDS[console_type])
        except exception.NovaException as error:
            LOG.info('The %s consoles of server %s end with its move: %s', console_type, instance_uuid, error)
            continue
        if place is not None:
            places[console_type] = {name: value for name, value in place.items() if name != 'password'}
    cell_db.run(console_tokens.follow, instance_uuid, host, places)
