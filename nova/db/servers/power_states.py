"""Power states of many servers."""
from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.db.tables.cell import instances

_ROWS = sa.select(*(instances.c[name] for name in ('uuid', 'host', 'vm_state', 'task_state', 'power_state'))).where(
    instances.c.uuid.in_(sa.bindparam('uuids', expanding=True)))
_LOCKED = _ROWS.order_by(instances.c.uuid).with_for_update()
_SET = sa.update(instances).where(instances.c.uuid.in_(sa.bindparam('uuids', expanding=True)))


def of(conn: sa.Connection, uuids: list[str] | builtins.set[str], lock: bool = False) -> Sequence[Any]:
    """Return rows of the existing servers with 'uuid', 'host', 'vm_state', 'task_state' and 'power_state'.

    :param lock: lock the rows until the transaction ends
    """
    return conn.execute(_LOCKED if lock else _ROWS, {'uuids': list(uuids)}).mappings().all()


def set(conn: sa.Connection, uuids: list[str], vm_state: str, power_state: int) -> None:
    """Set the vm state and the power state of servers that this transaction has locked."""
    conn.execute(_SET, {'uuids': list(uuids), 'vm_state': vm_state, 'power_state': power_state,
                        'updated_at': utils.utcnow()})
