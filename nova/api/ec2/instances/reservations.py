"""Reservations: the instances of one RunInstances. An item of their servers' metadata says which; the compute API in
the same process takes the id of theirs from it, and guests read that. The project's users can change the item: it
says what this API shows them, and nothing else.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
import hashlib
import secrets
from typing import Any

from nova import utils
from nova.api.ec2 import operations

Server = Mapping[str, Any]


def begin(req: operations.Request, token: str | None) -> str:
    """The id of a new one; that of its first request, where one with the same ClientToken comes again."""
    if not token:
        return 'r-' + secrets.token_hex(9)[:17]
    return 'r-' + hashlib.sha256(f'{req.project_id}\0{token}'.encode()).hexdigest()[:17]


def items(reservation: str, count: int) -> dict[str, str]:
    """The item of metadata that the servers have.

    :param count: of them at most
    """
    return {utils.EC2_RESERVATION: f'{reservation}/{count}'}


def of(server: Server, instance_id: str) -> str:
    """The reservation of an instance; one of its own, where it was made by another API."""
    found = utils.ec2_reservation(server['metadata'])
    return found[0] if found else 'r' + instance_id[1:]


def index_of(server: Server) -> int | None:
    """The place of an instance in its reservation, where it is the only one; None: it is not known here."""
    found = utils.ec2_reservation(server['metadata'])
    return 0 if found and found[1] == 1 else None


def grouped(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """{reservation: its rows}, in the order of the first ones.

    :param rows: with ``ReservationId``
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row['ReservationId'], []).append(row)
    return found
