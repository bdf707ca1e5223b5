"""Shelved servers: leaving their hosts, and coming back."""
import logging

from nova import exception
from nova import objects
from nova import states
from nova.db.placement import claims
from nova.db.servers import console_tokens
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.objects import faults

LOG = logging.getLogger(__name__)


class Shelver:
    """The part of the conductor's manager for shelved servers; mixed into it.

    Needs ``self._cell_db``, ``self._scheduler``, ``self._compute`` and what StateWriter has.
    """

    def leave_host(self, ctx, instance_uuid, event, host, task_state, fault):
        """See interface.py."""
        with self._cell_db.reader() as conn:
            here = instances.get(conn, instance_uuid)['host'] == host
        if here:                                  # asked a second time, another host may have the volumes by now
            self.disconnect_volumes(ctx, instance_uuid)

        def write(conn):
            row = instances.get(conn, instance_uuid)
            claims.free(conn, row)
            values = {'vm_state': states.SHELVED_OFFLOADED, 'task_state': None, 'host': None, 'node': None,
                      'power_state': states.NOSTATE, 'availability_zone': row['pinned_availability_zone']}
            if fault is not None:
                values['fault'] = fault
            instances.update(conn, instance_uuid, values,
                             {'host': host, 'node': row['node'], 'task_state': task_state})
            console_tokens.delete(conn, instance_uuid)
            instance_actions.finish(conn, instance_uuid, event, host=host, error=fault and fault['message'],
                                    traceback=fault and fault['details'], beside=False)
        self.once(write, ctx, instance_uuid, event, host)

    def unshelve_instance(self, ctx, instance_uuid):
        """Find a host for a server that has none, and let its host bring it back; again: the same."""
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [instance_uuid]).get(instance_uuid)
            arguments = instance_actions.arguments_of_open(conn, [instance_uuid]).get(instance_uuid) or {}
        if row is None or row['task_state'] != states.UNSHELVING:
            LOG.info('Server %s is not being unshelved any more.', instance_uuid)
            return
        spec = self.get_request_spec(ctx, instance_uuid)
        if row['host'] is not None and row['vm_state'] == states.SHELVED_OFFLOADED and not self._is_alive(row):
            row = self._leave_dead_host(row)
        if row['host'] is None:
            row = self._place_shelved(ctx, row, spec, arguments.get('host'))
            if row is None:
                return
        try:
            self._compute.unshelve_instance(ctx, server=row['host'], instance=objects.Instance.from_row(row),
                                            spec=spec)
        except exception.Unavailable as error:
            self.wait_for(error, instance_uuid)

    def _is_alive(self, row):
        with self._cell_db.reader() as conn:
            return self.host_is_up(conn, row['host'])

    def _leave_dead_host(self, row):
        """The row of a server without the host that died before it could bring the server back.

        Where the host lives after all, its end of the task finds the row changed, and it removes its guest.
        """
        LOG.warning('Host %s is down: server %s is unshelved on another one.', row['host'], row['uuid'])

        def write(conn):
            claims.free(conn, row)
            instances.update(conn, row['uuid'], {'host': None, 'node': None}, {
                'host': row['host'], 'node': row['node'], 'task_state': states.UNSHELVING,
                'vm_state': states.SHELVED_OFFLOADED})
            return instances.get(conn, row['uuid'])
        return self._cell_db.run(write)

    def _place_shelved(self, ctx, row, spec, target):
        """The row on the host that it was given; None when there is none for it, or it was overtaken."""
        uuid = row['uuid']
        try:
            chosen = self._scheduler.select_unshelve(ctx, spec=spec, instance_uuid=uuid, target=target)
        except exception.Unavailable as error:
            self.wait_for(error, uuid)
            return None
        except exception.NovaException as error:
            LOG.info('Shelved server %s finds no host: %s', uuid, error.message)
            fault = faults.fault(error)
            try:
                self.end_task(ctx, uuid, 'conductor_unshelve_instance', None, {'task_state': None},
                              {'task_state': states.UNSHELVING, 'host': None}, fault, fault['details'])
            except (exception.InstanceChanged, exception.InstanceNotFound):
                LOG.info('Shelved server %s was changed or deleted meanwhile.', uuid)
            return None
        if not chosen:
            return None
        with self._cell_db.reader() as conn:
            return instances.get_many(conn, [uuid]).get(uuid)
