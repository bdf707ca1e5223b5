"""Reservations: the instances of one RunInstances request.

The reservation ID is stored in the servers' metadata, where the compute API and the guests read it. Users of the
project can change this metadata item; it is used only for display.
"""
from collections.abc import Sequence
import hashlib
import secrets
from typing import Any

from nova import utils
from nova.ec2 import operations
from nova.ec2.server import Server

TOKEN = 'ec2:client-token'               # metadata item: the ClientToken of the request


def begin(req: operations.Request, token: str | None) -> str:
    """Return a new reservation ID; requests with the same ClientToken get the same ID."""
    if not token:
        return 'r-' + secrets.token_hex(9)[:17]
    return 'r-' + hashlib.sha256(f'{req.project_id}\0{token}'.encode()).hexdigest()[:17]


def items(reservation: str, count: int, token: str | None) -> dict[str, str]:
    """Return the metadata items of the servers.

    :param count: maximum number of servers
    """
    return {utils.EC2_RESERVATION: f'{reservation}/{count}', **({TOKEN: token} if token else {})}


def of(server: Server, instance_id: str) -> str:
    """Return the reservation of an instance; a server created through another API is a separate reservation."""
    found = utils.ec2_reservation(server['metadata'])
    return found[0] if found else 'r' + instance_id[1:]


def index_of(server: Server) -> int | None:
    """Return the launch index: 0 for the only instance of a reservation, otherwise None, because no index is stored."""
    found = utils.ec2_reservation(server['metadata'])
    return 0 if found and found[1] == 1 else None


def grouped(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return {reservation: its rows}, in the order of each reservation's first row.

    :param rows: rows with the key ``ReservationId``
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row['ReservationId'], []).append(row)
    return found
