"""Tasks of compute hosts on servers: each write is one transaction, which also checks the state of the server."""
import collections.abc
import logging
import typing

from nova import exception
from nova import objects
from nova import states
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.events import Events
from nova.conductor.hosts import power_states
from nova.conductor.servers.image_grants import ImageGrants
from nova.conductor.servers.rebuilds import Rebuilds
from nova.db.networks import security_groups
from nova.db.placement import pci_devices
from nova.db.servers import console_tokens
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import mappings
from nova.db.servers import port_devices
from nova.db.tables.rows import InstancesRow
from nova.objects import pci
from nova.objects.faults import Fault
from nova.db.types import ColumnValue, ColumnValues

LOG = logging.getLogger(__name__)

Values = dict[str, ColumnValue]
Expect = ColumnValues | None             # {column: its value, or a list of allowed values}

# Tasks that restart or stop a guest and revoke its console tokens, because another guest may get the console's port.
_NEW_RUNS = frozenset({'compute_reboot_instance', 'compute_rebuild_instance', 'compute_rescue_instance',
                       'compute_unrescue_instance'})


class Tasks:
    """Begins and ends tasks of compute hosts; interface.py describes the RPC methods."""

    def __init__(self, services: CellServices, events: Events, grants: ImageGrants,
                 rebuilds: Rebuilds) -> None:
        self._cell_db, self._api_db = services.cell_db, services.api_db
        self._events, self._grants, self._rebuilds = events, grants, rebuilds
        self._groups_are_here = services.conf.network.backend == 'embedded'

    def update_instance(self, ctx: Context | None, instance_uuid: str, values: Values,
                        expect: Expect = None) -> objects.Instance:
        def write(conn: Connection) -> objects.Instance:
            change = self._events.of(conn, ctx, instance_uuid)
            row, changed = _update(conn, instance_uuid, values, expect)
            if change and changed:
                change.stepped(row)
            return objects.Instance.from_row(row)
        return self._cell_db.run(write)

    def begin_task(self, ctx: Context, instance_uuid: str, event: str, owner: str, deadline_s: float, values: Values,
                   expect: Expect = None) -> objects.Instance:
        def write(conn: Connection) -> objects.Instance:
            change = self._events.of(conn, ctx, instance_uuid)
            row, changed = _update(conn, instance_uuid, values, expect, owner)
            instance = _with_devices(conn, row)
            instance_actions.take(conn, instance_uuid, owner, deadline_s)
            instance.image_grant = self._grants.of_task(conn, instance, event, owner)
            if change and changed:
                change.task_begun(row, event, owner)
            return instance
        return self._cell_db.run(write)

    def end_task(self, ctx: Context | None, instance_uuid: str, event: str, host: str | None, values: Values,
                 expect: Expect = None, fault: Fault | None = None, traceback: str | None = None) -> None:
        values = {**values, 'progress': 0}
        if fault is not None:
            values = {**values, 'fault': fault, **self._rebuilds.image_kept(instance_uuid)}

        def write(conn: Connection) -> None:
            change = self._events.of(conn, ctx, instance_uuid)
            row = instances.update(conn, instance_uuid, instances.merged(conn, instance_uuid, values), expect,
                                   returning=bool(change))
            instance_actions.finish(conn, instance_uuid, event, host=host, traceback=traceback,
                                    error=fault['message'] if fault else None, background=False)
            if change:
                change.task_ended(row, event, host, fault)
            if event in _NEW_RUNS or values.get('power_state', states.RUNNING) not in power_states.WITH_CONSOLE:
                console_tokens.delete(conn, instance_uuid)
        self.end_once(write, ctx, instance_uuid, event, host, failed=fault is not None)
        if values.get('vm_state') == states.SOFT_DELETED:
            self._api_db.run(mappings.set_queued, instance_uuid, True)

    def end_once(self, write: collections.abc.Callable[[Connection], None], ctx: Context | None, instance_uuid: str,
                 event: str, host: str | None, failed: bool = False) -> None:
        """Run ``write(conn)``, the end of a task, unless an earlier call has run it and its answer was lost.

        :raises InstanceChanged: another request has changed the server
        """
        try:
            self._cell_db.run(write)
        except exception.InstanceChanged:
            with self._cell_db.reader() as conn:
                if ctx is None or not instance_actions.was_last(conn, instance_uuid, ctx.request_id, event, host,
                                                                failed):
                    raise
            LOG.info('%s of server %s had ended already.', event, instance_uuid)

    # ---- background actions, which do not set the task state of the server

    def begin_background(self, ctx: Context, instance_uuid: str, host: str, owner: str,
                     deadline_s: float) -> objects.Instance:
        def write(conn: Connection) -> objects.Instance:
            change = self._events.of(conn, ctx, instance_uuid)
            row = instances.get(conn, instance_uuid)
            if (row['host'] != host or row['task_state'] == states.DELETING
                    or not instance_actions.take(conn, instance_uuid, owner, deadline_s, ctx.request_id)):
                raise exception.InstanceChanged(instance_id=instance_uuid)
            if change:
                change.background_begun(row, host)
            return _with_devices(conn, row)
        return self._cell_db.run(write)

    def end_background(self, ctx: Context, instance_uuid: str, event: str, host: str, values: Values,
                   error: str | None = None, traceback: str | None = None) -> None:
        def write(conn: Connection) -> None:
            change = self._events.of(conn, ctx, instance_uuid)
            if values.get('network_info') == []:
                values['security_groups'] = []
            elif 'network_info' in values and self._groups_are_here:
                # Lock the row before reading the security groups of the ports, so that the last of several
                # concurrent tasks stores the current groups.
                instances.lock(conn, instance_uuid)
                with self._api_db.reader() as api:
                    groups = security_groups.of_devices(api, [instance_uuid]).get(instance_uuid, [])
                values['security_groups'] = [group['name'] for group in groups]
            if values:
                instances.set_where(conn, instance_uuid, values, {'host': host})
            port_devices.end(conn, instance_uuid, ctx.request_id, event, error is not None)
            instance_actions.finish(conn, instance_uuid, event, host=host, error=error, traceback=traceback,
                                    request_id=ctx.request_id)
            row = event_facts.row(conn, instance_uuid) if change else None
            if change and row is not None:
                change.background_ended(row, host, error, traceback)
        self._cell_db.run(write)

    def release_port_device(self, ctx: Context, instance_uuid: str, host: str, port_id: str) -> None:
        """See interface.py."""
        def write(conn: Connection) -> None:
            row = instances.get(conn, instance_uuid)
            if row['host'] != host:
                raise exception.InstanceChanged(instance_id=instance_uuid)
            port_devices.release(conn, instance_uuid, port_id)
        self._cell_db.run(write)

    def background_on_host(self, ctx: Context | None, host: str) -> list[dict[str, typing.Any]]:
        with self._cell_db.reader() as conn:
            actions = instance_actions.background_on_host(conn, host)
            rows = instances.get_many(conn, list({action['instance_uuid'] for action in actions}))
        return [{'instance': objects.Instance.from_row(rows[action['instance_uuid']]),
                 **{name: action[name] for name in ('action', 'arguments', 'request_id', 'project_id', 'user_id')}}
                for action in actions if action['instance_uuid'] in rows]


def _with_devices(conn: Connection, row: InstancesRow) -> objects.Instance:
    """Return the Instance of a row, with the PCI devices that it has on its host."""
    instance = objects.Instance.from_row(row)
    instance.pci_devices = pci.dump(pci_devices.of_instance(conn, instance.uuid, row['host'])
                                    if row['host'] is not None and pci.requested(instance.flavor) else ())
    return instance


def _update(conn: Connection, uuid: str, values: Values, expect: Expect,
            owner: str | None = None) -> tuple[InstancesRow, bool]:
    """Update a server and return (its row, whether it changed). It does not change if a host repeats a call because the
    answer was lost.

    :param owner: owner of the task that begins, or None to continue a task
    """
    columns = instances.merged(conn, uuid, values)
    changed = instances.update_where(conn, uuid, columns, expect)
    if changed is not None:
        return changed, True
    row = instances.get(conn, uuid)
    hosts: typing.Any = (expect or {}).get('host', ())
    mine = (columns.get('task_state') and all(row.get(name) == value for name, value in columns.items())
            and row['host'] in hosts)
    if not mine or owner is not None and not instance_actions.owns(conn, uuid, owner):
        raise exception.InstanceChanged(instance_id=uuid)
    return row, False
