"""Rebuild of a server in place with new disks, or on this host after its former host has failed (evacuation)."""
import logging
import typing

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.compute import build
from nova.compute import disk_clients
from nova.compute import tasks
from nova.compute import volumes
from nova.compute.host import Host
from nova.objects import disk_clients as clients
from nova.objects import faults
from nova.objects.instance import POSTED_PASSWORD
from nova.objects.instance import REIMAGE
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

NOT_PRESERVED = 'a rebuild recreates its ephemeral disk, but preserve_ephemeral requests to keep it'
# Remove the password that the guest has posted to the metadata service: with a new root disk, it posts a new password.
FORGET = {'system_metadata': {POSTED_PASSWORD: None}}


class Rebuild:
    """Rebuilds servers in place: same host, same addresses, new disks."""

    def __init__(self, host: Host, volumes: volumes.Volumes) -> None:
        self._host, self._volumes = host, volumes

    def rebuild_instance(self, ctx: context.RequestContext, instance: objects.Instance, spec: objects.RequestSpec,
                         preserve_ephemeral: bool) -> None:
        self._host.submit(instance, self._rebuild, ctx, instance, spec, preserve_ephemeral, build=True)

    def _rebuild(self, ctx: context.RequestContext, instance: objects.Instance, spec: objects.RequestSpec,
                 preserve_ephemeral: bool) -> None:
        """Rebuild a server. After a crash the task is repeated, because it does not need the old disks."""
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['rebuild'].frame) as task:
            server = task.instance
            with task.harmless():
                if preserve_ephemeral and server.ephemeral_gb:           # an older nova-api lets this request pass
                    raise exception.VirtError(operation='rebuild the server', reason=NOT_PRESERVED)
                host.conductor.check_rebuild(ctx, instance_uuid=server.uuid)
            devices = self._volumes.connect(ctx, server, spec)
            host.driver.destroy(ctx, server, server.network_info, keep_machine=True)
            task.keep()                  # no rollback, because the old disks are gone
            image_id = server.system_metadata.get(REIMAGE)
            task.step(states.REBUILD_SPAWNING, **(FORGET if server.image_id or image_id else {}))
            if image_id:
                host.volumes.reimage_root(ctx, instance_uuid=server.uuid, image_id=image_id)
                devices = self._volumes.connect(ctx, server, spec)
            vifs = host.set_up_networks(ctx, server)
            host.driver.spawn(task.ctx, server, build.spawn_request(host, task, server, spec, vifs, devices,
                                                                    keep_machine=True))
            self._volumes.complete(ctx, server, devices)
            if task.after == states.STOPPED:
                host.driver.power_off(server)
            task.ends(power_state=host.driver.power_state(server), launched_at=utils.utcnow(), network_info=vifs,
                      **({'system_metadata': {REIMAGE: None}} if image_id else {}))


def _was_off(server: objects.Instance, request: dict[str, typing.Any]) -> bool:
    """Return whether the former host had switched the server off and had no interrupted task that could start it.

    :param request: arguments of the evacuation; the previous release does not store ``interrupted_task``
    """
    return (server.vm_state == states.STOPPED and server.power_state == states.SHUTDOWN
            and request.get('interrupted_task', '') is None)


class Evacuation:
    """Accepts servers of a failed host. After a failure of this host, removes guests that run elsewhere."""

    def __init__(self, host: Host, volumes: volumes.Volumes, clients: disk_clients.DiskClients) -> None:
        self._host, self._volumes, self._clients = host, volumes, clients

    def evacuate_instance(self, ctx: context.RequestContext, instance: objects.Instance, spec: objects.RequestSpec,
                          migration: objects.Migration) -> None:
        self._host.submit(instance, self._evacuate, ctx, instance, spec, migration, build=True)

    def _evacuate(self, ctx: context.RequestContext, instance: objects.Instance, spec: objects.RequestSpec,
                  migration: objects.Migration) -> None:
        """Evacuate a server to this host. After a crash the task is repeated."""
        host, volumes = self._host, self._volumes

        def give_up(task: tasks.Task, error: Exception) -> None:
            fault = faults.fault(error, details=faults.trace(error))
            host.moves.evacuation_failed(
                ctx, migration_id=migration.id, host=host.name, fault=fault, traceback=fault['details'])

        with self._clients.evacuation(instance.uuid), tasks.task(
                host, ctx, instance, actions.ACTIONS['evacuate'].frame, give_up=give_up) as task:
            server, request = task.instance, migration.arguments
            self._fence(ctx, server, migration)
            if migration.source_compute is not None:
                task.undo(host.network.setup_for_instance, ctx, instance=server, host=migration.source_compute)
            vifs = host.set_up_networks(ctx, server)
            volumes.disconnect(ctx, server)
            task.undo(volumes.disconnect, ctx, server)
            devices = volumes.connect(ctx, server, spec)
            shared = self._disks_are_here(server, migration.source_compute, request['on_shared_storage'])
            task.undo_guest(host.driver.destroy, ctx, server, vifs, keep_disks=shared)
            host.driver.destroy(ctx, server, vifs, keep_disks=shared)
            if shared:
                host.driver.power_on_here(ctx, server, vifs, devices)
            else:
                if server.image_id:
                    task.step(states.REBUILDING, **FORGET)
                host.driver.spawn(task.ctx, server, build.spawn_request(host, task, server, spec, vifs, devices))
            volumes.complete(ctx, server, devices)
            if request['leave_stopped'] or task.after == states.STOPPED:
                host.driver.power_off(server)
                task.ends(vm_state=states.STOPPED)
            task.ends(power_state=host.driver.power_state(server), network_info=vifs)
            task.ends_with(lambda: host.moves.evacuation_finished(
                ctx, migration_id=migration.id, host=host.name, values=task.values))

    def _fence(self, ctx: context.RequestContext, server: objects.Instance, migration: objects.Migration) -> None:
        """Block the former host's access to the server's disks and volumes before this host changes them.

        :raises NotFenced: the former host may still write to them, and no operator has accepted this risk
        """
        source, request = migration.source_compute, migration.arguments
        if source is None:
            return
        record = clients.read(server.system_metadata)
        if record is None or record.fenced != source:            # unless an interrupted attempt has fenced it
            done = self._host.driver.fence(server, virt.FormerHost(
                source, _was_off(server, request),
                self._host.volumes.get_block_devices(ctx, instance_uuid=server.uuid),
                None if record is None else record.clients_of(source),
                request.get('accepted_risk') == clients.TWO_WRITERS))
            if not done:
                return
        self._clients.evacuating(server.uuid, source)

    def _disks_are_here(self, server: objects.Instance, source: str | None, requested: bool | None) -> bool:
        """Return whether this host and the failed host share the storage of the disks.

        :param source: the failed host; the server's row already names this host
        :param requested: value in the request, or None
        :raises VirtError: the request says that the storage is shared, but it is not
        """
        found = source is not None and self._host.driver.has_disks(server, source)
        if requested and not found:
            raise exception.VirtError(operation='evacuate', reason='the disks are not on shared storage')
        return found and requested is not False

    def remove_evacuated_guests(self, ctx: context.RequestContext) -> None:
        """Remove guests of evacuated servers, and stop guests of unfinished evacuations.

        Thus a server never runs on two hosts.
        """
        for entry in self._host.moves.list_evacuated(ctx, host=self._host.name):
            self._host.queue.submit(entry['instance_uuid'], self._clean_up, ctx, entry['id'])

    def clean_up(self) -> None:
        """Run remove_evacuated_guests periodically, in case a message was lost."""
        self.remove_evacuated_guests(context.admin_context())

    def _clean_up(self, ctx: context.RequestContext, migration_id: int) -> None:
        """Clean up after one evacuation; runs in the server's queue.

        The conductor is asked again first: while this waited, a move may have begun that brings the server back.
        """
        host = self._host
        entry = next((each for each in host.moves.list_evacuated(ctx, host=host.name) if each['id'] == migration_id),
                     None)
        if entry is None:
            return
        guest = objects.Instance(uuid=entry['instance_uuid'], network_info=[])
        record = host.records.get(guest.uuid)
        # None: the server is deleted, or the conductor has the previous release, which does not send the generation
        generation = entry.get('generation')
        if record is not None and (record.disputed or generation is not None and generation < record.generation):
            LOG.error('Server %s was evacuated from this host, but its row is or was older than the record of '
                      'its guest here. The guest is not changed.', guest.uuid)
            return
        if not entry['over']:
            if host.driver.guest_state(guest.uuid) not in (None, states.SHUTDOWN):
                LOG.warning('Server %s is being evacuated from this host; its guest here is stopped.', guest.uuid)
                host.driver.power_off(guest)
            return
        if not entry['home']:
            LOG.info('Server %s was evacuated from this host; its guest here is removed.', guest.uuid)
            host.driver.destroy(ctx, guest, [], keep_disks=entry['shared'])
            host.records.forget(guest.uuid)
        host.moves.evacuated_guest_removed(ctx, migration_id=entry['id'], host=host.name)
