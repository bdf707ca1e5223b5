"""Shelved servers: offload them from their hosts, and unshelve them."""
import logging
import typing

from nova import exception
from nova import objects
from nova import states
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.events import Events
from nova.conductor.servers.specs import RequestSpecs
from nova.conductor.servers.tasks import Tasks
from nova.conductor.servers.volumes import Volumes
from nova.db.placement import claims
from nova.db.servers import console_tokens
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables.rows import InstancesRow
from nova.objects import faults

LOG = logging.getLogger(__name__)


class Shelving:
    """Offloads and unshelves servers."""

    def __init__(self, services: CellServices, events: Events, specs: RequestSpecs, tasks: Tasks,
                 volumes: Volumes) -> None:
        self._services, self._cell_db = services, services.cell_db
        self._events, self._specs, self._tasks, self._volumes = events, specs, tasks, volumes

    def instance_offloaded(self, ctx: Context, instance_uuid: str, event: str, host: str, task_state: str,
                   fault: faults.Fault | None) -> None:
        """See interface.py."""
        with self._cell_db.reader() as conn:
            here = instances.get(conn, instance_uuid)['host'] == host
        if here:              # False in a repeated call: another host may already use the volumes
            self._disconnect_volumes(ctx, instance_uuid)

        def write(conn: Connection) -> None:
            change = self._events.of(conn, ctx, instance_uuid)
            row = instances.get(conn, instance_uuid)
            claims.free(conn, row)
            values: dict[str, typing.Any] = {
                'vm_state': states.SHELVED_OFFLOADED, 'task_state': None, 'host': None, 'node': None,
                'power_state': states.NOSTATE, 'availability_zone': row['pinned_availability_zone']}
            if fault is not None:
                values['fault'] = fault
            row = instances.update(conn, instance_uuid, values, {
                'host': host, 'node': row['node'], 'task_state': task_state}, returning=bool(change))
            console_tokens.delete(conn, instance_uuid)
            instance_actions.finish(conn, instance_uuid, event, host=host, error=fault['message'] if fault else None,
                                    traceback=fault['details'] if fault else None, background=False)
            if change:
                change.task_ended(row, event, host, fault)
        self._tasks.end_once(write, ctx, instance_uuid, event, host)

    def _disconnect_volumes(self, ctx: Context, instance_uuid: str) -> None:
        """Disconnect the volumes of a server that has no guest any more; a refusal does not prevent the offload.

        A refused volume keeps its attachment. The next host tries again to replace it, and reports the refusal.

        :raises Unavailable:
        """
        try:
            self._volumes.disconnect_volumes(ctx, instance_uuid)
        except exception.Unavailable:
            raise
        except exception.NovaException:
            LOG.warning('Server %s is offloaded with a connected volume.', instance_uuid)

    def unshelve_instance(self, ctx: Context, instance_uuid: str) -> None:
        """See interface.py; a repeated call continues from the state in the row."""
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [instance_uuid]).get(instance_uuid)
            arguments = instance_actions.arguments_of_open(conn, [instance_uuid]).get(instance_uuid) or {}
        if row is None or row['task_state'] != states.UNSHELVING:
            LOG.info('Server %s is not being unshelved any more.', instance_uuid)
            return
        spec = self._specs.get_request_spec(ctx, instance_uuid)
        if (row['host'] is not None and row['vm_state'] == states.SHELVED_OFFLOADED
                and not self._services.host_is_up(row['host'])):
            row = self._leave_dead_host(row)
        if row['host'] is None:
            row = self._place(ctx, row, spec, arguments.get('host'))
            if row is None:
                return
        with self._services.retrying(instance_uuid):
            self._services.compute.unshelve_instance(ctx, server=row['host'], instance=objects.Instance.from_row(row),
                                                     spec=spec)

    def _leave_dead_host(self, row: InstancesRow) -> InstancesRow:
        """Release the dead host of a server that is being unshelved; return the new row.

        If the host is up after all, its task fails at the end because the row has changed, and it removes the guest.
        """
        LOG.warning('Host %s is down: server %s is unshelved on another host.', row['host'], row['uuid'])

        def write(conn: Connection) -> InstancesRow:
            claims.free(conn, row)
            instances.update(conn, row['uuid'], {'host': None, 'node': None}, {
                'host': row['host'], 'node': row['node'], 'task_state': states.UNSHELVING,
                'vm_state': states.SHELVED_OFFLOADED})
            return instances.get(conn, row['uuid'])
        return self._cell_db.run(write)

    def _place(self, ctx: Context, row: InstancesRow, spec: objects.RequestSpec,
               target: str | None) -> InstancesRow | None:
        """Return the row on its new host, or None if no host fits or another request has changed the server.

        :param target: requested host
        """
        uuid = row['uuid']
        try:
            chosen = self._services.scheduler.select_unshelve(ctx, spec=spec, instance_uuid=uuid, target=target)
        except exception.Unavailable as error:
            self._services.retry_soon(error, uuid)
            return None
        except exception.NovaException as error:
            LOG.info('No host found for shelved server %s: %s', uuid, error.message)
            fault = faults.fault(error)
            try:
                self._tasks.end_task(ctx, uuid, 'conductor_unshelve_instance', None, {'task_state': None},
                                     {'task_state': states.UNSHELVING, 'host': None}, fault, fault['details'])
            except (exception.InstanceChanged, exception.InstanceNotFound):
                LOG.info('Shelved server %s was changed or deleted meanwhile.', uuid)
            return None
        if not chosen:
            return None
        with self._cell_db.reader() as conn:
            return instances.get_many(conn, [uuid]).get(uuid)
