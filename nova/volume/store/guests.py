"""Notify hosts of guests about changes of attached volumes."""
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.db.cells.cells import Cell
from nova.db.cells.cells import Cells
from nova.db.servers import instances
from nova.hardware import disks


class Guests:
    """Hosts of guests."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    def extended(self, ctx: nova_context.RequestContext, instance_uuid: str, volume_id: str) -> None:
        """Notify the guest's host that a volume was extended."""
        found = self._find(instance_uuid)
        if found is not None:
            cell, server, host = found
            cell.rpc.compute.external_instance_event(ctx, server=host, instance=server, events=[
                {'name': 'volume-extended', 'tag': volume_id, 'status': 'completed'}])

    def copy(self, ctx: nova_context.RequestContext, instance_uuid: str, volume_id: str, snapshot_id: str,
             encrypted: bool, path: str) -> None:
        """Start a point-in-time copy of a guest's volume to a file. The host reports the end to a conductor.

        :param encrypted: the file is LUKS with the volume's key
        :raises InvalidVolume: the server has no host
        """
        found = self._find(instance_uuid)
        if found is None:
            raise exception.InvalidVolume(reason='its server has no host at the moment.')
        cell, server, host = found
        cell.rpc.compute.create_volume_snapshot(ctx, server=host, instance=server, volume_id=volume_id, create_info={
            'snapshot_id': snapshot_id, 'type': disks.COPY, 'new_file': path,
            **({'encrypted': True} if encrypted else {})})

    def _find(self, uuid: str) -> tuple[Cell, objects.Instance, str] | None:
        """Return (cell, server, its host), or None if the server has no host."""
        for cell, row in self._cells.read(lambda conn: instances.get_many(conn, [uuid]).get(uuid))[0]:
            if row is not None and row['host']:
                return cell, objects.Instance.from_row(row), row['host']
        return None
