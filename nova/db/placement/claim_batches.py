"""Claims for many servers in one transaction with few statements. The results equal those of single claims (claims.py).

This module locks the nodes in the order of their ids, which avoids deadlocks. It then compares the claims with the
locked rows. SQL expressions compute the capacities, as in claims.py.
"""
import functools
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.db.placement.claims import CAPACITIES
from nova.db.placement.claims import RESOURCES
from nova.db.servers.instances import NEXT_GENERATION
from nova.db.tables import cell as t

_c = t.compute_nodes.c
_COUNTS = ('running_vms', *(name + '_used' for name in RESOURCES))
_LOCK = sa.select(
    _c.id, _c.usage_change_number, *[_c[name] for name in (*RESOURCES, *_COUNTS)],
    *[(given * ratio).label(name + '_capacity') for name, (_, given, ratio) in CAPACITIES.items()]).where(
    _c.id.in_(sa.bindparam('ids', expanding=True))).order_by(_c.id).with_for_update()
_TAKE = sa.update(t.compute_nodes).where(_c.id.in_(sa.bindparam('ids', expanding=True))).values(
    {name: _c[name] + sa.bindparam('by_' + name) for name in _COUNTS})
_PLACE = ('host', 'node', 'availability_zone')


class Nodes:
    """Nodes that are locked until the transaction ends, and the claims on them.

    :param ids: ids of the nodes; claims on a deleted node fail
    """

    def __init__(self, conn: sa.Connection, ids: set[int]) -> None:
        self._conn = conn
        self._rows = {row['id']: dict(row) for row in conn.execute(_LOCK, {'ids': sorted(ids)}).mappings()}
        self._taken: dict[Any, Any] = {}

    def take(self, requested: list[tuple[int, dict[str, int]]]) -> bool:
        """Claim resources on several nodes. If a node has no room, claim nothing and return False.

        :param requested: [(id of a node, {resource: amount})]; a node may occur several times
        """
        done: list[tuple[int, dict[str, int]]] = []
        for node, amounts in requested:
            if not self._fits(node, amounts):
                for undone in done:
                    self._add(*undone, -1)
                return False
            self._add(node, amounts, 1)
            done.append((node, amounts))
        return True

    def _fits(self, node: int, amounts: dict[str, int]) -> bool:
        row = self._rows.get(node)
        return row is not None and all(
            row[name + '_used'] + amount <= row[name + '_capacity'] and amount <= row[name]
            for name, amount in amounts.items() if amount)

    def _add(self, node: int, amounts: dict[str, int], sign: int) -> None:
        row, taken = self._rows[node], self._taken.setdefault(node, dict.fromkeys(_COUNTS, 0))
        for name, amount in (('running_vms', 1), *((name + '_used', amount) for name, amount in amounts.items())):
            row[name] += sign * amount
            taken[name] += sign * amount

    def write(self) -> dict[int, dict[str, int]]:
        """Write the usage, with one UPDATE for all nodes with equal amounts; return {id of a node: new usage}."""
        batches: dict[Any, Any] = {}
        number = utils.change_number()
        for node, taken in self._taken.items():
            if taken['running_vms']:
                batches.setdefault(tuple(taken.values()), []).append(node)
        for amounts, ids in batches.items():
            self._conn.execute(_TAKE, {'ids': ids, 'usage_change_number': number,
                                       **{'by_' + name: amount for name, amount in zip(_COUNTS, amounts, strict=True)}})
            for node in ids:
                self._rows[node]['usage_change_number'] = number
        return {node: {name: row[name] for name in ('usage_change_number', *_COUNTS)}
                for node, row in self._rows.items()}


@functools.cache
def _place_of(count: int) -> sa.Update:
    """Return an UPDATE that assigns hosts to ``count`` servers without a host."""
    c = t.instances.c
    uuids = [sa.bindparam(f'uuid_{number}', type_=c.uuid.type) for number in range(count)]
    values = {name: sa.case({uuid: sa.bindparam(f'{name}_{number}', type_=c[name].type)
                             for number, uuid in enumerate(uuids)}, value=c.uuid) for name in _PLACE}
    return sa.update(t.instances).where(
        c.uuid.in_(uuids),
        c.vm_state == sa.bindparam('key_vm_state'), c.task_state == sa.bindparam('key_task_state'),
        c.host.is_(None)).values(values | {'generation': NEXT_GENERATION})


def place(conn: sa.Connection, places: dict[str, dict[str, str | None]], vm_state: str, task_state: str) -> int:
    """Set the host of servers in these states; return the number of changed rows.

    :param places: {uuid: {'host', 'node', 'availability_zone'}}
    """
    parameters = {'key_vm_state': vm_state, 'key_task_state': task_state, 'updated_at': utils.utcnow()}
    for number, (uuid, values) in enumerate(places.items()):
        parameters[f'uuid_{number}'] = uuid
        for name in _PLACE:
            parameters[f'{name}_{number}'] = values[name]
    return conn.execute(_place_of(len(places)), parameters).rowcount
