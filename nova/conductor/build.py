"""Placing and building servers, and deleting those that have no host."""
import logging

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.conductor import state
from nova.db.moves import cell_transfer
from nova.db.placement import claims
from nova.db.servers import history
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.services import services
from nova.objects import faults

LOG = logging.getLogger(__name__)

# A build goes on in these task states; not while it is deleted.
BUILDING_TASKS = (None, states.SCHEDULING, states.BLOCK_DEVICE_MAPPING, states.NETWORKING, states.SPAWNING)


class Builder:
    """The part of the conductor's manager that builds; mixed into it.

    Needs ``self._cell_db``, ``self._api_db``, ``self._conf``, ``self._scheduler``, ``self._compute`` and
    ``self._network``.
    """

    def build_instances(self, ctx, instance_uuids, spec=None):
        self._place_and_send(ctx, instance_uuids, spec)

    def _place_and_send(self, ctx, instance_uuids, spec=None, tried=None):
        """:param tried: the fault of the attempts before, which comes first where no other host will do"""
        specs = self.specs(instance_uuids) if spec is None else {
            uuid: objects.RequestSpec(**{**spec.as_dict(), 'instance_uuid': uuid}) for uuid in instance_uuids}
        uuids = [uuid for uuid in instance_uuids if uuid in specs]      # the others are deleted
        if not uuids:
            return
        try:
            selections = self._scheduler.select_destinations(ctx, spec=specs[uuids[0]], instance_uuids=uuids)
        except exception.Unavailable as error:
            self.wait_for(error, *uuids)
            return
        except exception.NovaException as error:
            LOG.info('Servers %s find no host: %s', ', '.join(uuids), error.message)
            fault = faults.fault(error)
            if tried:
                fault = {**tried, 'message': f'{tried["message"]} {fault["message"]}'[:255],
                         'details': f'{tried["details"]}\n{fault["details"]}'}
            for uuid in uuids:
                self.fail_build(uuid, fault, waiting=True)
            return
        for uuid, chosen in zip(uuids, selections, strict=True):
            if chosen:
                self._send_build(ctx, specs[uuid], chosen[0])

    def _send_build(self, ctx, spec, selection):
        """The message names the server; all the rest comes back when the compute begins.

        It goes to the cell of the host, of whose conductor the server is from now on.
        """
        cell = self._cells.get(selection.cell_uuid)
        home = cell is self._cells.default
        instance = objects.Instance(
            uuid=spec.instance_uuid, project_id=spec.project_id, user_id=spec.user_id, host=selection.host,
            node=selection.node, availability_zone=selection.availability_zone)
        try:
            compute = self._compute if home else cell.rpc.compute
            compute.build_instance(ctx, server=selection.host, instance=instance, spec=spec)
        except exception.Unavailable as error:
            if home:
                self.reschedule_instance(ctx, spec.instance_uuid, selection.host, selection.node, faults.fault(error))
            else:
                self._reschedule_there(ctx, cell, spec.instance_uuid, selection, error)

    def _reschedule_there(self, ctx, cell, instance_uuid, selection, error):
        try:
            cell.rpc.conductor.reschedule_instance(ctx, instance_uuid=instance_uuid, host=selection.host,
                                                   node=selection.node, fault=faults.fault(error))
        except exception.Unavailable:
            self.wait_for(error, instance_uuid)

    def reschedule_instance(self, ctx, instance_uuid, host, node, fault):
        """See interface.py; ``fault['final']``: another host would fail as well."""
        if not self._cell_db.run(_leave_host, instance_uuid, host, node, fault):
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
            LOG.info('Server %s could not be built on %s; attempt %d follows. %s', instance_uuid, host, tried + 1,
                     message)
            self._place_and_send(ctx, [instance_uuid], tried=fault)

    def replace_build(self, ctx, row):
        """A build whose host is down begins anew on another one; its host undoes what it has when it is back.

        The server stays where no other host will do, and where a guest may have volumes that nobody can take from it:
        it is built when its host is back. A host that lives by now keeps it.

        :param row: of the server
        """
        uuid, host, node = row['uuid'], row['host'], row['node']
        spec = self.get_request_spec(ctx, uuid)
        if not self._elsewhere(ctx, spec, row):
            LOG.info('Server %s waits for its host %s, which is down.', uuid, host)
            return
        # before anything else: from now on its host gets no ports for it (network/manager.py)
        self._api_db.run(_note_failure, uuid, host, node)
        fault = faults.fault(exception.HostUnavailable(host=host),
                             'The host went down while the server was being built.')
        if not self._cell_db.run(_leave_host, uuid, host, node, fault, (row['task_state'],),
                                 self._conf.service_down_time):
            LOG.info('Server %s is not being built on %s any more, or %s is back.', uuid, host, host)
            return
        LOG.info('Host %s is down; another one builds server %s.', host, uuid)
        self._network.deallocate_for_instance(ctx, instance_uuid=uuid, host=host)
        self._place_and_send(ctx, [uuid], tried=fault)

    def _elsewhere(self, ctx, spec, row):
        """Whether another host can build this server, and may."""
        if row['task_state'] != states.SCHEDULING and any(
                device.get('destination_type') == 'volume' for device in spec.block_devices or ()):
            return False
        spec.retry_hosts = [*(spec.retry_hosts or []), [row['host'], row['node']]]
        told = self._scheduler.explain(ctx, spec=spec, seeds=[row['uuid']], instance_uuid=None, limit=1, offset=0)
        return any(choice['host'] != row['host'] for choice in told['choices'])

    def fail_build(self, uuid, fault, waiting=False):
        """A server that is being built ends in ERROR, its host and claim given back; False when a delete has won.

        :param waiting: only while it waits for a host: who asks once more finds no room, because it is taken
        """
        fault = {name: fault[name] for name in ('code', 'message', 'details', 'created')}

        def write(conn):
            row = instances.get(conn, uuid)
            claims.free(conn, row)
            instances.update(conn, uuid, {
                'vm_state': states.ERROR, 'task_state': None, 'host': None, 'node': None, 'fault': fault,
                'power_state': states.NOSTATE, 'network_info': [], 'volumes': []},
                expect={'vm_state': states.BUILDING, 'cell_move': None, **(
                    {'task_state': states.SCHEDULING, 'host': None} if waiting else
                    {'task_state': BUILDING_TASKS, 'host': row['host']})})
            instance_actions.finish(conn, uuid, 'conductor_build_instance', error=fault['message'],
                                    traceback=fault['details'])
        try:
            self._cell_db.run(write)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            LOG.info('Server %s was deleted or changed while its build failed.', uuid)
            return False
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [uuid]).get(uuid)
        self.release_volumes(context.admin_context(), uuid, row if row and row['host'] is None else None)
        return True

    def delete_instance(self, ctx, instance_uuid):
        """Delete a server here and now, unless its host lives: then that host does it.

        A host that is down finds the guest when it comes back, asks, and removes it.
        """
        row, deleted, alive = self._to_delete(instance_uuid)
        if row is not None and row['cell_move'] is not None:
            cell_transfer.settle(self._api_db, self._cells, self._cells.default, instance_uuid)
            row, deleted, alive = self._to_delete(instance_uuid)
        if row is None:
            if deleted:
                self._api_db.run(state.forget, [instance_uuid])
            else:
                self._delete_elsewhere(ctx, instance_uuid)
        elif alive:
            try:
                self._compute.terminate_instance(ctx, server=row['host'], instance=objects.Instance.from_row(row))
            except exception.Unavailable as error:
                self.wait_for(error, instance_uuid)
        else:
            try:
                self._deallocate(ctx, instance_uuid, row['host'])
            except exception.Unavailable as error:
                self.wait_for(error, instance_uuid)
                return
            self.instance_destroyed(ctx, instance_uuid, row['host'])

    def _to_delete(self, instance_uuid):
        """(the row or None, whether the history has the server, whether its host is up)."""
        with self._cell_db.reader() as conn:
            try:
                row = instances.get(conn, instance_uuid)
            except exception.InstanceNotFound:
                return None, bool(history.deleted(conn, [instance_uuid])), False
            return row, False, row['host'] is not None and self.host_is_up(conn, row['host'])

    def _delete_elsewhere(self, ctx, instance_uuid):
        """The server has gone to the cell of its host meanwhile: a conductor there deletes it."""
        if len(self._cells.all()) == 1:
            return
        cell = self._cells.mapped(instance_uuid)
        if cell is None or cell is self._cells.default:
            return
        try:
            cell.rpc.conductor.delete_instance(ctx, instance_uuid=instance_uuid)
        except exception.Unavailable as error:
            self.wait_for(error, instance_uuid)

    def _deallocate(self, ctx, instance_uuid, host):
        """Give back the addresses of a server. Where it never had a host, any cell's network service can: the level of
        the API need not have one.
        """
        home = self._cells.default
        if host is not None or home is not self._cells.top or len(self._cells.all()) == 1:
            self._network.deallocate_for_instance(ctx, instance_uuid=instance_uuid, host=None)
            return
        for cell in [*self._cells.all()[1:], home]:
            try:
                cell.rpc.network.deallocate_for_instance(ctx, instance_uuid=instance_uuid, host=None)
                return
            except exception.Unavailable as error:
                last = error
        raise last

    def wait_for(self, error, *uuids):
        """Who is needed does not answer: a reconciler takes these servers' actions up again at its next look.

        It is that of the cell where they are by now: a scheduler whose answer was lost may have given them to another.
        """
        LOG.warning('%d servers wait, first %s: %s', len(uuids), uuids[0], error)
        now = utils.utcnow()
        self._cells.scatter(lambda cell: cell.db.run(instance_actions.hasten, now, uuids))

    def host_is_up(self, conn, host):
        found = services.list(conn, host=host, topic='compute')
        return services.any_up(conn, found, self._conf.service_down_time)


def _leave_host(conn, uuid, host, node, fault, tasks=BUILDING_TASKS, down_time=None):
    """Free the claim of a build that failed and make the server wait for another host; False when it must not.

    :param tasks: only in one of these task states
    :param down_time: only while its host is down, for so many seconds; None: the host itself has asked for it
    """
    if down_time is not None and not services.host_is_down(conn, host, down_time):
        return False
    try:
        row = instances.get(conn, uuid)
    except exception.InstanceNotFound:
        return False
    mine = (row['host'], row['node']) == (host, node)
    if not mine or row['vm_state'] != states.BUILDING or row['task_state'] not in tasks:
        return False
    claims.free(conn, row)
    instances.update(conn, uuid, {'host': None, 'node': None, 'availability_zone': None, 'network_info': [],
                                  'task_state': states.SCHEDULING},
                     expect={'host': host, 'node': node, 'vm_state': states.BUILDING, 'task_state': tasks})
    instance_actions.add_event(conn, uuid, 'compute_build_instance', host=host, error=fault['message'],
                               traceback=fault['details'])
    return True


def _note_failure(conn, uuid, host, node):
    spec = request_specs.get_many(conn, [uuid]).get(uuid)
    if spec is not None and [host, node] not in (spec.retry_hosts or []):
        spec.retry_hosts = [*(spec.retry_hosts or []), [host, node]]
        request_specs.update(conn, spec)
    return spec
