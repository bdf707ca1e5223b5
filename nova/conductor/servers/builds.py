"""Builds: place servers on hosts and send the build requests."""
import collections.abc
import logging

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.conductor.events import Events
from nova.conductor.servers.specs import RequestSpecs
from nova.conductor.servers.volumes import Volumes
from nova.db.cells import cells as db_cells
from nova.db.placement import claims
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.services import services as db_services
from nova.objects import faults

LOG = logging.getLogger(__name__)

# Task states of a server that is being built; a request to delete the server sets another task state.
BUILDING_TASKS = (None, states.SCHEDULING, states.BLOCK_DEVICE_MAPPING, states.NETWORKING, states.SPAWNING)


class Builds:
    """Builds servers."""

    def __init__(self, services: CellServices, events: Events, specs: RequestSpecs,
                 volumes: Volumes) -> None:
        self._services, self._conf = services, services.conf
        self._cell_db, self._api_db = services.cell_db, services.api_db
        self._events, self._specs, self._volumes = events, specs, volumes

    def build_instances(self, ctx: Context, instance_uuids: list[str], spec: objects.RequestSpec | None = None) -> None:
        """See interface.py."""
        self._place_and_send(ctx, instance_uuids, spec)

    def _place_and_send(self, ctx: Context, instance_uuids: list[str], spec: objects.RequestSpec | None = None,
                        tried: faults.Fault | None = None) -> None:
        """Place servers and send their builds.

        :param tried: fault of earlier attempts; if no other host fits, the recorded fault begins with this fault
        """
        specs = self._specs.of(instance_uuids) if spec is None else {
            uuid: objects.RequestSpec(**{**spec.as_dict(), 'instance_uuid': uuid}) for uuid in instance_uuids}
        uuids = [uuid for uuid in instance_uuids if uuid in specs]      # servers without a spec were deleted
        if not uuids:
            return
        try:
            selections = self._services.scheduler.select_destinations(ctx, spec=specs[uuids[0]], instance_uuids=uuids)
        except exception.Unavailable as error:
            self._services.retry_soon(error, *uuids)
            return
        except exception.NovaException as error:
            LOG.info('No host found for servers %s: %s', ', '.join(uuids), error.message)
            fault = faults.fault(error)
            if tried:
                fault = {**tried, 'message': f'{tried["message"]} {fault["message"]}'[:255],
                         'details': f'{tried["details"]}\n{fault["details"]}'}
            for uuid in uuids:
                self.fail_build(uuid, fault, waiting=True, has_ports=bool(specs[uuid].retry_hosts))
            return
        for uuid, chosen in zip(uuids, selections, strict=True):
            if chosen:
                self._send_build(ctx, specs[uuid], chosen[0])

    def _send_build(self, ctx: Context, spec: objects.RequestSpec, selection: objects.Selection) -> None:
        """Send a build to the selected host. From now on a conductor of the host's cell continues the build.

        The message contains only parts of the instance; the compute service gets its row when it begins the build.
        """
        services = self._services
        cell = services.cells.get(selection.cell_uuid)
        if cell is None:                 # the server was deleted or is in another cell, which continues the build
            services.retry_soon(exception.Unavailable(
                f'Cell {selection.cell_uuid} of host {selection.host} does not exist any more.'), spec.instance_uuid)
            return
        home = cell is services.cell
        instance = objects.Instance(
            uuid=spec.instance_uuid, project_id=spec.project_id, user_id=spec.user_id, host=selection.host,
            node=selection.node, availability_zone=selection.availability_zone)
        try:
            compute = services.compute if home else cell.rpc.compute
            compute.build_instance(ctx, server=selection.host, instance=instance, spec=spec)
        except exception.Unavailable as error:
            if home:
                self.reschedule_instance(ctx, spec.instance_uuid, selection.host, selection.node, faults.fault(error))
            else:
                self._reschedule_there(ctx, cell, spec.instance_uuid, selection, error)

    def _reschedule_there(self, ctx: Context, cell: db_cells.Cell, instance_uuid: str, selection: objects.Selection,
                          error: exception.Unavailable) -> None:
        try:
            cell.rpc.conductor.reschedule_instance(ctx, instance_uuid=instance_uuid, host=selection.host,
                                                   node=selection.node, fault=faults.fault(error))
        except exception.Unavailable:
            self._services.retry_soon(error, instance_uuid)

    def reschedule_instance(self, ctx: Context, instance_uuid: str, host: str, node: str, fault: faults.Fault) -> None:
        """See interface.py; ``fault['final']`` is true if the build would also fail on another host."""
        if not self._cell_db.run(self._release_host, ctx, instance_uuid, host, node, fault):
            LOG.info('Server %s is not being built on %s any more.', instance_uuid, host)
            return
        spec = self._api_db.run(_note_failure, instance_uuid, host, node)
        if spec is None:
            return
        tried = len(spec.retry_hosts)
        if fault.get('final') or spec.force_host or spec.force_node:
            self.fail_build(instance_uuid, fault)
            return
        message = f'The build was tried on {tried} {"host" if tried == 1 else "hosts"}. {fault["message"]}'
        fault = {**fault, 'message': message[:255]}
        if tried >= self._conf.scheduler.max_attempts:
            self.fail_build(instance_uuid, fault)
        else:
            LOG.info('Cannot build server %s on %s; attempt %d follows. %s', instance_uuid, host, tried + 1,
                     message)
            self._place_and_send(ctx, [instance_uuid], tried=fault)

    def replace_build(self, ctx: Context, row: Row) -> None:
        """Repeat a build on another host, because its host is down. The old host removes its files when it is back.

        The server keeps its host if no other host fits, the host is up again, or the guest may use volumes, which a
        host that is down cannot detach. The host then builds it later.

        :param row: the server's row
        """
        uuid, host, node = row['uuid'], row['host'], row['node']
        spec = self._specs.get_request_spec(ctx, uuid)
        if not self._has_other_host(ctx, spec, row):
            LOG.info('Server %s waits for its host %s, which is down.', uuid, host)
            return
        fault = faults.fault(exception.HostUnavailable(host=host),
                             'The host went down while the server was being built.')
        if not self._cell_db.run(self._release_host, ctx, uuid, host, node, fault, (row['task_state'],),
                                 self._conf.service_down_time):
            LOG.info('Server %s is not being built on %s any more, or %s is back.', uuid, host, host)
            return
        LOG.info('Host %s is down; another host builds server %s.', host, uuid)
        # record the failed host first, so that its late requests for ports are refused (network/allocation.py)
        self._api_db.run(_note_failure, uuid, host, node)
        self._services.network.unbind_ports(ctx, instance_uuid=uuid, host=host)
        self._place_and_send(ctx, [uuid], tried=fault)

    def _has_other_host(self, ctx: Context, spec: objects.RequestSpec, row: Row) -> bool:
        """Return whether another host can and may build this server."""
        if row['task_state'] != states.SCHEDULING and any(
                device.get('destination_type') == 'volume' for device in spec.block_devices or ()):
            return False
        spec = objects.RequestSpec(**{**spec.as_dict(), 'retry_hosts': [
            *(spec.retry_hosts or []), [row['host'], row['node']]]})
        explained = self._services.scheduler.explain(ctx, spec=spec, seeds=[row['uuid']], instance_uuid=None, limit=1,
                                                     offset=0)
        return any(choice['host'] != row['host'] for choice in explained['choices'])

    def fail_build(self, uuid: str, fault: faults.Fault, waiting: bool = False, has_ports: bool = True) -> bool:
        """Set a server with a failed build to ERROR and release its claim and ports; return False if it has changed.

        :param waiting: act only while the server waits for a host, because a repeated request may find no free host
            although the first request has claimed a host
        :param has_ports: whether a host may have allocated ports; a failed build keeps its ports for the next host
        """
        fault = faults.stored(fault)
        spec = self._events.spec(uuid)

        def write(conn: Connection) -> None:
            change = self._events.of(conn, None, uuid)
            row = instances.get(conn, uuid)
            claims.free(conn, row)
            row = instances.update(conn, uuid, {
                'vm_state': states.ERROR, 'task_state': None, 'host': None, 'node': None, 'fault': fault,
                'power_state': states.NOSTATE, 'network_info': [], 'volumes': []},
                expect={'vm_state': states.BUILDING, 'cell_move': None, **(
                    {'task_state': states.SCHEDULING, 'host': None} if waiting else
                    {'task_state': BUILDING_TASKS, 'host': row['host']})}, returning=bool(change))
            instance_actions.finish(conn, uuid, 'conductor_build_instance', error=fault['message'],
                                    traceback=fault['details'])
            if change:
                change.no_host('build_instances', row, fault, spec)
        try:
            self._cell_db.run(write)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            LOG.info('Server %s was deleted or changed while its build failed.', uuid)
            return False
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [uuid]).get(uuid)
        self._volumes.release_volumes(context.admin_context(), uuid, row if row and row['host'] is None else None)
        if has_ports:
            try:
                self._services.network.deallocate_for_instance(context.admin_context(), instance_uuid=uuid, host=None)
            except exception.Unavailable as error:
                LOG.warning('The ports of server %s stay until it is deleted: %s', uuid, error)
        return True

    def _release_host(self, conn: Connection, ctx: Context, uuid: str, host: str, node: str, fault: faults.Fault,
                    tasks: collections.abc.Collection[str | None] = BUILDING_TASKS,
                    down_time: int | None = None) -> bool:
        """Release host and claim of a failed build, so that the server waits for a host; return whether this was done.

        :param tasks: allowed task states
        :param down_time: required downtime of the host in seconds; None: the host itself sent the request
        """
        if down_time is not None and not db_services.host_is_down(conn, host, down_time):
            return False
        try:
            row = instances.get(conn, uuid)
        except exception.InstanceNotFound:
            return False
        mine = (row['host'], row['node']) == (host, node)
        if not mine or row['vm_state'] != states.BUILDING or row['task_state'] not in tasks:
            return False
        change = self._events.of(conn, ctx, uuid)
        claims.free(conn, row)
        left = instances.update(conn, uuid, {
            'host': None, 'node': None, 'availability_zone': None, 'network_info': [], 'task_state': states.SCHEDULING},
            expect={'host': host, 'node': node, 'vm_state': states.BUILDING, 'task_state': tasks},
            returning=bool(change))
        instance_actions.add_event(conn, uuid, 'compute_build_instance', host=host, error=fault['message'],
                                   traceback=fault['details'])
        if change:
            change.states(left)
            # report a failure only if the host had begun the build
            if down_time is None or row['task_state'] == states.SPAWNING:
                change.failure('create', row, host, fault)
        return True


def _note_failure(conn: Connection, uuid: str, host: str, node: str) -> objects.RequestSpec | None:
    spec = request_specs.get_many(conn, [uuid]).get(uuid)
    if spec is not None and [host, node] not in (spec.retry_hosts or []):
        spec.retry_hosts = [*(spec.retry_hosts or []), [host, node]]
        request_specs.update(conn, spec)
    return spec
