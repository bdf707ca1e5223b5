"""Inventory reports of hosts, and queries for the servers of a host."""
import collections.abc
import functools
import typing

from nova import objects
from nova import states
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.db import engine
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.placement import compute_nodes
from nova.db.placement import image_cache
from nova.db.servers import block_devices
from nova.db.servers import history
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.runtime import encrypted_passwords
from nova.objects.instance import ServerState

_NO_ACTION = dict.fromkeys(('arguments', 'request_id', 'project_id', 'user_id'))


class Inventory:
    """Stores inventory reports of hosts; interface.py describes the RPC methods."""

    def __init__(self, services: CellServices) -> None:
        self._cell_db, self._notifier = services.cell_db, services.notifier
        self._passwords = encrypted_passwords.Passwords(services.conf)

    def report_nodes(self, ctx: Context, host: str, nodes: list[dict[str, typing.Any]]) -> None:
        notifier = self._notifier

        def write(conn: Connection) -> None:
            compute_nodes.report(conn, host, nodes)
            measured = [node for node in nodes if node.get('metrics')]
            if not notifier.on or not measured:
                return
            known = {row['node']: row for row in compute_nodes.by_host(conn, host)}
            for node in measured:
                row = {**known[node['node']], **node, 'host': host}
                engine.after_commit(conn, functools.partial(
                    notifier.publish, ctx, 'metrics.update', None, row, host))
        self._cell_db.run(write)

    def image_cached(self, ctx: Context, host: str, image_id: str, reason: str | None) -> None:
        self._cell_db.run(image_cache.done, host, image_id, reason)

    def get_block_devices(self, ctx: Context, instance_uuid: str) -> collections.abc.Sequence[Row]:
        with self._cell_db.reader() as conn:
            return block_devices.by_instance(conn, instance_uuid)

    def instances_on_host(self, ctx: Context | None, host: str) -> list[dict[str, typing.Any]]:
        with self._cell_db.reader() as conn:
            rows = [row for row in instances.by_host(conn, host) if row['cell_move'] is None]
            actions = instance_actions.open_of_many(conn, [row['uuid'] for row in rows if row['task_state']])
        found = []
        for row in rows:
            uuid, action = row['uuid'], dict(actions.get(row['uuid']) or _NO_ACTION)
            action['arguments'] = action['arguments'] and self._passwords.decrypted(action['arguments'], uuid)
            found.append({'instance': objects.Instance.from_row(row), **{name: action[name] for name in _NO_ACTION}})
        return found

    def server_states(self, ctx: Context | None, host: str, uuids: list[str]) -> dict[str, ServerState]:
        """See interface.py."""
        with self._cell_db.reader() as conn:
            # Read instances after moves: if a move ends in between, the row of the instance names the new host already.
            # So a server that has just arrived does not appear to be elsewhere.
            moves = server_migrations.open_of_many(conn, uuids)
            evacuated = live_migrations.list_evacuated(conn, host)
            rows = instances.get_many(conn, uuids)
            gone = history.generations(conn, [uuid for uuid in uuids if uuid not in rows])
        # a host keeps the guests of its open moves until the moves end
        moving = {uuid for uuid, move in moves.items()
                  if uuid in rows and host in (move['source_compute'], move['dest_compute'])}
        # servers evacuated from the host count as moving: their new guests on other hosts may use the same disks
        moving.update(entry['instance_uuid'] for entry in evacuated)

        def state(uuid: str) -> str:
            if uuid in moving or uuid in rows and rows[uuid]['host'] == host:
                return states.NEEDED
            return states.ELSEWHERE if uuid in rows else states.DELETED_FOR_GOOD if uuid in gone else states.UNKNOWN
        return {uuid: {'state': state(uuid), 'generation': rows[uuid]['generation'] if uuid in rows else gone.get(uuid)}
                for uuid in uuids}
