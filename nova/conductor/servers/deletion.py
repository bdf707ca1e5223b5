"""Deletion of servers."""
from collections.abc import Iterable
import logging

from nova import exception
from nova import objects
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.events import Change
from nova.conductor.events import Events
from nova.conductor.moves.cold import ColdMoves
from nova.conductor.servers.disk_keys import DiskKeys
from nova.conductor.servers.image_grants import ImageGrants
from nova.conductor.servers.shares import Shares
from nova.conductor.servers.volumes import Volumes
from nova.db.moves import cell_steps
from nova.db.moves import cell_transfer
from nova.db.placement import claims
from nova.db.servers import disk_keys
from nova.db.servers import endings
from nova.db.servers import history
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import mappings
from nova.db.servers import request_specs
from nova.db.tables.rows import InstancesRow
from nova.hardware import guest_options
from nova.image.embedded import incomplete
from nova.notify.events import CONDUCTOR
from nova.notify.events import END
from nova.notify.events import START
from nova.objects.instance import SHELVED_IMAGE

LOG = logging.getLogger(__name__)


class Deletion:
    """Deletes servers."""

    def __init__(self, services: CellServices, events: Events, volumes: Volumes, shares: Shares,
                 grants: ImageGrants, moves: ColdMoves, keys: DiskKeys) -> None:
        self._services, self._cell_db, self._api_db = services, services.cell_db, services.api_db
        self._events, self._volumes, self._shares, self._grants = events, volumes, shares, grants
        self._moves, self._keys = moves, keys

    def delete_instance(self, ctx: Context, instance_uuid: str) -> None:
        """Request the deletion from the server's host if the host is up, otherwise delete the server in this conductor.

        A host that is down finds the guest when it is back, asks the conductor, and removes it.
        """
        services = self._services
        row, deleted, up = self._find(instance_uuid)
        if row is not None and row['cell_move'] is not None:
            cell_transfer.settle(self._api_db, services.cells, services.cell, instance_uuid)
            row, deleted, up = self._find(instance_uuid)
        if row is None:
            if deleted:
                self._api_db.run(forget, [instance_uuid])
            else:
                self._delete_in_other_cell(ctx, instance_uuid)
        elif up:
            with services.retrying(instance_uuid):
                services.compute.terminate_instance(ctx, server=row['host'], instance=objects.Instance.from_row(row))
        else:
            try:
                self._deallocate(ctx, instance_uuid, row['host'])
            except exception.Unavailable as error:
                services.retry_soon(error, instance_uuid)
                return
            self.instance_destroyed(ctx, instance_uuid, row['host'])

    def _find(self, instance_uuid: str) -> tuple[InstancesRow | None, bool, bool]:
        """Return (row or None, whether the server is in the history of deleted servers, whether its host is up)."""
        with self._cell_db.reader() as conn:
            try:
                row = instances.get(conn, instance_uuid)
            except exception.InstanceNotFound:
                return None, bool(history.deleted(conn, [instance_uuid])), False
            return row, False, row['host'] is not None and self._services.host_is_up(row['host'], conn)

    def _delete_in_other_cell(self, ctx: Context, instance_uuid: str) -> None:
        """Request the deletion from a conductor of the cell to which the server was moved."""
        cells = self._services.cells
        if len(cells.all()) == 1:
            return
        cell = cells.mapped(instance_uuid)
        if cell is None or cell is cells.default:
            return
        with self._services.retrying(instance_uuid):
            cell.rpc.conductor.delete_instance(ctx, instance_uuid=instance_uuid)

    def _deallocate(self, ctx: Context, instance_uuid: str, host: str | None) -> None:
        """Release the addresses of a server.

        If the server never had a host, the network service of any cell is used, because the default cell may have none.

        :raises Unavailable:
        """
        cells = self._services.cells
        home = cells.default
        if host is not None or home is not cells.top or len(cells.all()) == 1:
            self._services.network.deallocate_for_instance(ctx, instance_uuid=instance_uuid, host=None)
            return
        for cell in [*cells.all()[1:], home]:
            try:
                cell.rpc.network.deallocate_for_instance(ctx, instance_uuid=instance_uuid, host=None)
                return
            except exception.Unavailable as error:
                last = error
        raise last

    def instance_destroyed(self, ctx: Context, instance_uuid: str, host: str | None) -> None:
        """See interface.py; has no effect if the row is gone, or the server is on another host.

        Resources outside of the cell's database are released first, because the row names them.
        """
        more, other_hosts = True, set[str]()

        def write(conn: Connection) -> endings.Ending | None:
            last = endings.read(conn, instance_uuid)
            if last is None:
                return None
            if last.row['host'] != host:
                raise exception.InstanceChanged(instance_id=instance_uuid)
            if more and self._has_more(last):
                return last
            self._destroy(conn, ctx, last, host, other_hosts)
            return None
        try:
            ending = self._cell_db.run(write)
            if ending is not None:
                self._release(ctx, instance_uuid, host, ending)
                more = False
                self._cell_db.run(write)
        except exception.InstanceChanged:
            LOG.info('Server %s was not removed: it has left host %s.', instance_uuid, host)
            return
        for other in other_hosts:
            self._moves.drop_on(ctx, other, instance_uuid)
        if other_hosts:
            self._volumes.release_attachments(ctx, instance_uuid)        # attachments for the destination of a move
        self._api_db.run(forget, [instance_uuid])

    def _destroy(self, conn: Connection, ctx: Context, last: endings.Ending, host: str | None,
                 other_hosts: set[str]) -> None:
        """Move the row to the history and delete dependent rows; add the hosts of unfinished moves to ``other_hosts``.

        :raises InstanceChanged: the server is on another host
        """
        uuid = last.row['uuid']
        change = self._events.of(conn, ctx, uuid)
        if change:
            _record_end_of_guest(change, last.row)
        claims.free(conn, last.row)
        instances.destroy(conn, uuid, utils.utcnow(), expect={'host': host, 'cell_move': (None, cell_steps.INCOMING)},
                          devices=last.devices, shares=last.shares)
        if guest_options.encrypted(last.row['flavor'], last.row['image_properties']):
            disk_keys.delete(conn, uuid)
        if last.moving:
            other_hosts.update(self._moves.end_all(conn, uuid) - {host})
        instance_actions.finish(conn, uuid, 'compute_terminate_instance', host=host, action='delete')
        if change:
            _record_deletion(change, history.get(conn, uuid), host)

    def _has_more(self, ending: endings.Ending) -> bool:
        """Return whether the server has resources that ``_release`` releases."""
        return bool(ending.devices or ending.shares or ending.images or ending.row['system_metadata'].get(SHELVED_IMAGE)
                    or guest_options.encrypted(ending.row['flavor'], ending.row['image_properties']))

    def _release(self, ctx: Context, instance_uuid: str, host: str | None, ending: endings.Ending) -> None:
        """Release resources of a server in other services.

        :raises Unavailable: a service does not answer; the row is kept for a retry
        """
        self._remove_unfinished_images(ctx, instance_uuid, ending.images)
        if ending.devices:
            self._volumes.release_volumes(ctx, instance_uuid, ending.row)
        if ending.shares:
            self._shares.release_shares(ctx, instance_uuid, host)
        self._remove_shelved_image(ctx, ending.row)
        self._keys.destroy_disk_key(ctx, instance_uuid)

    def _remove_unfinished_images(self, ctx: Context, uuid: str, image_ids: Iterable[str]) -> None:
        """Delete the images of snapshots that are unfinished when their server is deleted."""
        for image_id in image_ids:
            try:
                incomplete.remove(self._grants.images_of(ctx, uuid, write=[image_id]), image_id)
            except exception.NovaException as error:
                LOG.warning('Cannot delete the empty image %s of server %s: %s', image_id, uuid, error)

    def _remove_shelved_image(self, ctx: Context, row: InstancesRow) -> None:
        """Delete the shelved image of a server, before the row that names the image is deleted.

        A repeated call finds no image and succeeds.
        """
        image_id = row['system_metadata'].get(SHELVED_IMAGE)
        if image_id:
            try:
                self._grants.images_of(ctx, row['uuid'], write=[image_id]).delete(image_id)
            except exception.ImageNotFound:
                pass
            except exception.NovaException as error:
                LOG.warning('Cannot delete image %s of server %s: %s', image_id, row['uuid'], error)


def forget(conn: Connection, uuids: list[str]) -> None:
    """Remove servers from the API database."""
    mappings.delete_many(conn, uuids)
    request_specs.delete_many(conn, uuids)


def _record_end_of_guest(change: Change, row: InstancesRow) -> None:
    """Record 'shutdown.end' if a host ran the deletion. Otherwise this conductor runs it: record 'delete.start'.
    """
    if change.on_host():
        change.record('shutdown', END, row, row['host'])
    else:
        change.record('delete', START, row, by=CONDUCTOR)


def _record_deletion(change: Change, row: InstancesRow, host: str | None) -> None:
    if change.on_host():
        change.record('delete', END, row, host)
    else:
        change.record('delete', END, row, by=CONDUCTOR)
