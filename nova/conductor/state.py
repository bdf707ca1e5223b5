"""The writes of services that hold no database credentials; each is one transaction with its conditions."""
import logging

from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.conductor import image_grants
from nova.conductor import power_states
from nova.db.cells import rows as cell_rows
from nova.db.moves import cell_steps
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.networks import security_groups
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.placement import pci_devices
from nova.db.servers import block_devices
from nova.db.servers import console_tokens
from nova.db.servers import history
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import mappings
from nova.db.servers import request_specs
from nova.db.services import heartbeats as heartbeats_db
from nova.db.services import services
from nova.image.embedded import unfinished
from nova.objects import pci

LOG = logging.getLogger(__name__)

# A console's port may be another guest's when this one runs anew, or does not run any more.
_NEW_RUNS = frozenset({'compute_reboot_instance', 'compute_rebuild_instance', 'compute_rescue_instance',
                       'compute_unrescue_instance'})


class StateWriter:
    """The part of the conductor's manager that writes for others; mixed into it.

    Needs ``self._cell_db``, ``self._api_db``, ``self._conf``, ``self._power_states`` and image_grants.Granter.
    """

    def update_instance(self, ctx, instance_uuid, values, expect=None):
        return self._cell_db.run(_update, instance_uuid, values, expect)

    def begin_task(self, ctx, instance_uuid, event, owner, deadline_s, values, expect=None):
        def write(conn):
            instance = _update(conn, instance_uuid, values, expect, owner)
            instance.pci_devices = pci.dump(pci_devices.of_instance(conn, instance_uuid, instance.host)
                                            if pci.asked(instance.flavor) else ())
            instance_actions.take(conn, instance_uuid, owner, deadline_s)
            instance.image_grant = self.image_grant(conn, instance, event, owner)
            return instance
        return self._cell_db.run(write)

    def end_task(self, ctx, instance_uuid, event, host, values, expect=None, fault=None, traceback=None):
        if fault is not None:
            values = {**values, 'fault': fault, **self.image_kept(instance_uuid)}

        def write(conn):
            instances.update(conn, instance_uuid, instances.merged(conn, instance_uuid, values), expect)
            instance_actions.finish(conn, instance_uuid, event, host=host, traceback=traceback,
                                    error=fault and fault['message'], beside=False)
            if event in _NEW_RUNS or values.get('power_state', states.RUNNING) not in power_states.WITH_CONSOLE:
                console_tokens.delete(conn, instance_uuid)
        self.once(write, ctx, instance_uuid, event, host, failed=fault is not None)
        if values.get('vm_state') == states.SOFT_DELETED:
            self._api_db.run(mappings.set_queued, instance_uuid, True)

    def once(self, write, ctx, instance_uuid, event, host, failed=False):
        """Run ``write(conn)``, the end of a task; nothing when it was written before and the host was not told.

        :raises InstanceChanged: somebody else has changed the server
        """
        try:
            self._cell_db.run(write)
        except exception.InstanceChanged:
            with self._cell_db.reader() as conn:
                if ctx is None or not instance_actions.was_last(conn, instance_uuid, ctx.request_id, event, host,
                                                                failed):
                    raise
            LOG.info('%s of server %s had ended already.', event, instance_uuid)

    def begin_beside(self, ctx, instance_uuid, host, owner, deadline_s):
        def write(conn):
            row = instances.get(conn, instance_uuid)
            if (row['host'] != host or row['task_state'] == states.DELETING
                    or not instance_actions.take(conn, instance_uuid, owner, deadline_s, ctx.request_id)):
                raise exception.InstanceChanged(instance_id=instance_uuid)
            return objects.Instance.from_row(row)
        return self._cell_db.run(write)

    def end_beside(self, ctx, instance_uuid, event, host, values, error=None, traceback=None):
        def write(conn):
            if 'network_info' in values:
                # the groups of the ports, read by whoever holds the row: the last one sees what is there in the end
                instances.lock(conn, instance_uuid)
                with self._api_db.reader() as api:
                    groups = security_groups.of_devices(api, [instance_uuid]).get(instance_uuid, [])
                values['security_groups'] = [group['name'] for group in groups]
            if values:
                instances.set_where(conn, instance_uuid, values, {'host': host})
            instance_actions.finish(conn, instance_uuid, event, host=host, error=error, traceback=traceback,
                                    request_id=ctx.request_id)
        self._cell_db.run(write)

    def beside_on_host(self, ctx, host):
        with self._cell_db.reader() as conn:
            actions = instance_actions.beside_on_host(conn, host)
            rows = instances.get_many(conn, list({action['instance_uuid'] for action in actions}))
        return [{'instance': objects.Instance.from_row(rows[action['instance_uuid']]),
                 **{name: action[name] for name in ('action', 'arguments', 'request_id', 'project_id', 'user_id')}}
                for action in actions if action['instance_uuid'] in rows]

    def instance_destroyed(self, ctx, instance_uuid, host):
        """See interface.py; does nothing when the row is gone already, or lives on another host."""
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [instance_uuid]).get(instance_uuid)
        if row is not None and row['host'] != host:
            LOG.info('Server %s was not removed: it has left host %s.', instance_uuid, host)
            return
        self._remove_unfinished_images(ctx, instance_uuid)
        self.release_volumes(ctx, instance_uuid, row)
        self.release_shares(ctx, instance_uuid, host)
        self._remove_shelved_image(ctx, row)
        elsewhere = set()

        def write(conn):
            try:
                row, moving = server_migrations.instance_and_moving(conn, instance_uuid)
                claims.free(conn, row)
                instances.destroy(conn, instance_uuid, utils.utcnow(),
                                  expect={'host': host, 'cell_move': (None, cell_steps.COMING)})
                if moving:
                    elsewhere.update(self.drop_moves(conn, instance_uuid) - {host})
            except exception.InstanceNotFound:
                return
            instance_actions.finish(conn, instance_uuid, 'compute_terminate_instance', host=host, action='delete')
        try:
            self._cell_db.run(write)
        except exception.InstanceChanged:
            LOG.info('Server %s was not removed: it has left host %s.', instance_uuid, host)
            return
        for other in elsewhere:
            self._drop_on(ctx, other, instance_uuid)
        if elsewhere:
            self.release_attachments(ctx, instance_uuid)        # those that were for a destination
        self._api_db.run(forget, [instance_uuid])

    def _remove_unfinished_images(self, ctx, uuid):
        """A copy of a server that its deletion overtook gets no data any more."""
        with self._cell_db.reader() as conn:
            image_ids = instance_actions.images_of_open(conn, uuid)
        for image_id in image_ids:
            try:
                unfinished.remove(self._images_of(ctx, uuid, write=[image_id]), image_id)
            except exception.NovaException as error:
                LOG.warning('Image %s of server %s stays without data: %s', image_id, uuid, error)

    def _remove_shelved_image(self, ctx, row):
        """What a server that ends would have been unshelved from: while its row is there, which names it. The answer
        that the row is gone may be lost.
        """
        image_id = row and row['system_metadata'].get(image_grants.SHELVED)
        if image_id:
            try:
                self._images_of(ctx, row['uuid'], write=[image_id]).delete(image_id)
            except exception.ImageNotFound:
                pass
            except exception.NovaException as error:
                LOG.warning('Image %s of server %s stays: %s', image_id, row['uuid'], error)

    def instances_on_host(self, ctx, host):
        with self._cell_db.reader() as conn:
            rows = [row for row in instances.by_host(conn, host) if row['cell_move'] is None]
            actions = instance_actions.open_of_many(conn, [row['uuid'] for row in rows if row['task_state']])
        return [{'instance': objects.Instance.from_row(row), **{
            name: actions.get(row['uuid'], {}).get(name)
            for name in ('arguments', 'request_id', 'project_id', 'user_id')}} for row in rows]

    def stray_guests(self, ctx, host, uuids):
        with self._cell_db.reader() as conn:
            rows = instances.get_many(conn, uuids)
            gone = history.deleted(conn, [uuid for uuid in uuids if uuid not in rows])
            # one that comes or goes: who looks after the move decides about its guest
            moving = {uuid for uuid, move in server_migrations.open_of_many(conn, list(rows)).items()
                      if host in (move['source_compute'], move['dest_compute'])}
            # their disks may be those of the new guest
            moving.update(entry['instance_uuid'] for entry in live_migrations.evacuated_from(conn, host))
        return [uuid for uuid in uuids
                if (uuid in gone or uuid in rows and rows[uuid]['host'] != host) and uuid not in moving]

    def get_request_spec(self, ctx, instance_uuid):
        found = self.specs([instance_uuid])
        if not found:
            raise exception.InstanceNotFound(instance_id=instance_uuid)
        return found[instance_uuid]

    def specs(self, uuids):
        """{instance uuid: RequestSpec} of those that exist, with the password while its action is open."""
        with self._api_db.reader() as conn:
            found = request_specs.get_many(conn, uuids)
        with self._cell_db.reader() as conn:
            arguments = instance_actions.arguments_of_open(conn, list(found))
        for uuid, spec in found.items():
            spec.admin_password = (arguments.get(uuid) or {}).get('admin_password')
        return found

    def get_block_devices(self, ctx, instance_uuid):
        with self._cell_db.reader() as conn:
            return block_devices.by_instance(conn, instance_uuid)

    def report_power_states(self, ctx, host, states):
        """See interface.py; JSON has no integer keys, but uuids are none."""
        self._power_states.report(host, states)

    def report_service(self, ctx, host, binary, topic, version):
        self._heartbeats.resume()
        row = self._cell_db.run(services.report, host, binary, topic, self._service_zone(topic), version)
        return {**{name: row[name] for name in ('uuid', 'disabled', 'forced_down')}, 'versions': self.versions()}

    def register_service(self, ctx, host, binary, topic, version, identity):
        if topic == 'compute':
            self._map_host(host)
        with self._cell_db.reader() as conn:
            row = heartbeats_db.registered(conn, host, binary, version, identity)
        if row is None:
            row = self._cell_db.run(heartbeats_db.register, host, binary, topic, self._service_zone(topic), version,
                                    identity, self._conf.service_down_time)
        return {**{name: row[name] for name in ('uuid', 'disabled', 'forced_down')}, 'versions': self.versions()}

    def service_alive(self, ctx, host, binary, topic, version, identity):
        self._heartbeats.add(host, binary, topic, version, self._service_zone(topic), identity)

    def _map_host(self, host):
        """Let a compute host belong to this cell.

        :raises HostInAnotherCell:
        """
        here = self._cells.default.uuid
        with self._api_db.reader() as conn:
            place = cell_rows.cell_of_host(conn, host)
        place = place or self._api_db.run(cell_rows.map_host, host, here)
        if place != here:
            cell = self._cells.get(place)
            if cell is None:                       # it was deleted
                self._api_db.run(cell_rows.move_host, host, place, here)
            else:
                raise exception.HostInAnotherCell(host=host, cell=cell.name)

    def _service_zone(self, topic):
        return (self._conf.default_availability_zone if topic == 'compute'
                else self._conf.internal_service_availability_zone)

    def report_nodes(self, ctx, host, nodes):
        self._cell_db.run(compute_nodes.report, host, nodes)


def _update(conn, uuid, values, expect, owner=None):
    """The server as it is then, also when a host that was not answered writes the next state of its task again.

    :param owner: who begins a task, None: it goes on with one
    """
    values = instances.merged(conn, uuid, values)
    row = instances.update_where(conn, uuid, values, expect)
    if row is None:
        row = instances.get(conn, uuid)
        mine = (values.get('task_state') and all(row[name] == value for name, value in values.items())
                and row['host'] in (expect or {}).get('host', ()))
        if not mine or owner is not None and not instance_actions.owns(conn, uuid, owner):
            raise exception.InstanceChanged(instance_id=uuid)
    return objects.Instance.from_row(row)


def forget(conn, uuids, cell_uuid=None):
    """Remove what the API database has of servers; their uuids.

    :param cell_uuid: of those alone that are in this cell, still
    """
    if cell_uuid is not None:
        uuids = mappings.lock_in_cell(conn, uuids, cell_uuid)
    mappings.delete_many(conn, uuids)
    request_specs.delete_many(conn, uuids)
    return uuids
