"""Conntrack helpers of routers, for protocols that announce further connections, such as active FTP."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import networks as db_networks
from nova.db.networks import routers as db
from nova.db.tables import network as t
from nova.json_types import JsonObject
from nova.network.host import state as host_state
from nova.network.rest import faults
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.network.rest.parts import Part
from nova.network.rest.parts import Parts

if TYPE_CHECKING:
    from nova.db.tables.rows import RoutersRow

MAX_HELPERS = 20                # maximum helpers of a router


def shown(conn: Connection, idents: list[str]) -> dict[str, list[JsonObject]]:
    """Return {router id: its helpers, as the document of the router shows them}."""
    return {ident: [{name: row[name] for name in ('helper', 'protocol', 'port')} for row in rows]
            for ident, rows in db.helpers(conn, idents).items()}


def _lock(conn: Connection, row: RoutersRow) -> RoutersRow:
    return r.found(db_networks.lock(conn, t.routers, row['id']), faults.RouterNotFound(router_id=row['id']))


def _check(conn: Connection, context: RequestContext, row: RoutersRow, part: Part, others: list[Part]) -> None:
    if len(others) >= MAX_HELPERS:
        raise exception.BadRequest(f'A router has at most {MAX_HELPERS} conntrack helpers.')
    if part['protocol'] not in host_state.HELPERS[part['helper']]:
        raise exception.BadRequest(f"Helper {part['helper']} is not for {part['protocol']}.")
    if any(each['protocol'] == part['protocol'] and each['port'] == part['port'] for each in others):
        raise exception.BadRequest(f"Port {part['port']} of {part['protocol']} has a conntrack helper already.")


def _changed(conn: Connection, row: RoutersRow, part: Part, is_deleted: bool) -> None:
    db_networks.update(conn, t.routers, row['id'], {})


_VALUES = {'helper': s.TEXT, 'protocol': s.TEXT, 'port': s.NUMBER}
SHOWN = s.array(s.shape(**_VALUES))
HELPERS = Parts('conntrack_helper', 'conntrack_helpers', t.conntrack_helpers, (
    r.column('id', s.UUID, 'ID.'),
    r.column('helper', s.TEXT, 'Application protocol that the helper supports.', write=r.BOTH,
             accepts=s.one_of(*host_state.HELPERS), required=True),
    r.column('protocol', s.one_of('tcp', 'udp'), 'Transport protocol.', write=r.BOTH, required=True),
    r.column('port', s.NUMBER, 'Port of the server.', write=r.BOTH, accepts=s.integer(1, 65535), required=True),
), of='router_id', order=('protocol', 'port'), lock=_lock, check=_check, changed=_changed,
    missing=lambda _row, ident: faults.ConntrackHelperNotFound(id=ident[:60]))
