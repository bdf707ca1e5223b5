"""Conntrack helpers of routers, for protocols that announce further connections, such as active FTP."""
from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, TypedDict

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
from nova.network.rest.parts import Parts

if TYPE_CHECKING:
    from nova.db.tables.rows import RouterConntrackHelpersRow, RoutersRow
    from nova.network.rest.values import ConntrackHelperValues

MAX_HELPERS = 20                # maximum helpers of a router


class Helper(TypedDict):
    """A conntrack helper in a document of the API."""

    id: str
    helper: str
    protocol: str
    port: int


def shown(conn: Connection, idents: list[str]) -> dict[str, list[JsonObject]]:
    """Return {router id: its helpers, as the document of the router shows them}."""
    return {ident: [{name: row[name] for name in ('helper', 'protocol', 'port')} for row in rows]
            for ident, rows in db.helpers(conn, idents).items()}


def _read(conn: Connection, row: RoutersRow) -> list[RouterConntrackHelpersRow]:
    return db.helpers(conn, [row['id']]).get(row['id'], [])


def _lock(conn: Connection, row: RoutersRow) -> RoutersRow:
    return r.found(db_networks.lock(conn, t.routers, row['id']), faults.RouterNotFound(router_id=row['id']))


def _create(conn: Connection, context: RequestContext, row: RoutersRow, values: ConntrackHelperValues) -> Helper:
    known = _read(conn, row)
    if len(known) >= MAX_HELPERS:
        raise exception.BadRequest(f'A router has at most {MAX_HELPERS} conntrack helpers.')
    made: Helper = {'id': str(uuid.uuid4()), 'helper': values['helper'], 'protocol': values['protocol'],
                    'port': values['port']}
    _check(known, made)
    db_networks.insert(conn, t.conntrack_helpers, [{**made, 'router_id': row['id'], 'description': ''}])
    db_networks.update(conn, t.routers, row['id'], {})
    return made


def _update(conn: Connection, context: RequestContext, row: RoutersRow, known: Helper,
            values: ConntrackHelperValues) -> Helper:
    made: Helper = {'id': known['id'], 'helper': values.get('helper', known['helper']),
                    'protocol': values.get('protocol', known['protocol']), 'port': values.get('port', known['port'])}
    _check(_read(conn, row), made)
    db_networks.update(conn, t.conntrack_helpers, known['id'], HELPERS.stored(values))
    db_networks.update(conn, t.routers, row['id'], {})
    return made


def _check(known: list[RouterConntrackHelpersRow], made: Helper) -> None:
    if made['protocol'] not in host_state.HELPERS[made['helper']]:
        raise exception.BadRequest(f"Helper {made['helper']} is not for {made['protocol']}.")
    if any(each['protocol'] == made['protocol'] and each['port'] == made['port'] and each['id'] != made['id']
           for each in known):
        raise exception.BadRequest(f"Port {made['port']} of {made['protocol']} has a conntrack helper already.")


def _delete(conn: Connection, row: RoutersRow, known: Helper) -> None:
    db_networks.delete(conn, t.conntrack_helpers, known['id'])
    db_networks.update(conn, t.routers, row['id'], {})


_VALUES = {'helper': s.TEXT, 'protocol': s.TEXT, 'port': s.NUMBER}
SHOWN = s.array(s.shape(**_VALUES))
HELPERS = Parts('conntrack_helper', 'conntrack_helpers', t.conntrack_helpers, (
    r.Field('id', s.UUID, 'id', 'ID.'),
    r.Field('helper', s.TEXT, 'helper', 'Application protocol that the helper supports.', write=r.BOTH,
            accepts=s.one_of(*host_state.HELPERS), required=True),
    r.Field('protocol', s.one_of('tcp', 'udp'), 'protocol', 'Transport protocol.', write=r.BOTH, required=True),
    r.Field('port', s.NUMBER, 'port', 'Port of the server.', write=r.BOTH, accepts=s.integer(1, 65535), required=True),
), read=_read, lock=_lock, create=_create, update=_update, delete=_delete,
    missing=lambda _row, ident: faults.ConntrackHelperNotFound(id=ident[:60]))
