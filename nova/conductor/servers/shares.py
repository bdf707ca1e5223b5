"""Shares of servers: give hosts access to them, and update the rows of share mappings."""
from nova import context
from nova.db.tables.rows import ShareMappingsRow
from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.db import engine
from nova.db.placement import compute_nodes
from nova.db.servers import shares


class AllowedShare(ShareMappingsRow):
    """Row of a share mapping; ``access`` has the Ceph credentials of the host, {'user', 'key'}, or is None."""

    access: dict[str, str] | None


class Shares:
    """Manages shares of servers; interface.py describes the RPC methods."""

    def __init__(self, services: CellServices) -> None:
        self._cell_db, self._shares = services.cell_db, services.shares

    def allow_share(self, ctx: Context, instance_uuid: str, share_id: str, host: str) -> AllowedShare:
        with self._cell_db.reader() as conn:
            mapping, address = shares.get(conn, instance_uuid, share_id), _address(conn, host)
        if mapping is None:
            raise exception.InstanceChanged(instance_id=instance_uuid)
        if address is None:
            raise exception.Conflict(f'Host {host} has not reported an address ([DEFAULT] my_ip) yet.')
        access = self._shares.allow(context.admin_context(ctx.request_id), share_id, address, mapping['protocol'])
        return {**mapping, 'access': access}             # the Ceph key in access is returned, but not stored

    def share_attached(self, ctx: Context, instance_uuid: str, share_id: str, status: str) -> None:
        with self._cell_db.writer() as conn:
            mapping = shares.get(conn, instance_uuid, share_id)
            if mapping is not None:
                shares.update(conn, mapping['uuid'], {'status': status})

    def share_detached(self, ctx: Context, instance_uuid: str, share_id: str, host: str | None) -> None:
        with self._cell_db.reader() as conn:
            mapping = shares.get(conn, instance_uuid, share_id)
        if mapping is not None:
            with self._cell_db.reader() as conn:
                shared = host is None or shares.others(conn, instance_uuid, share_id, host)
                address = None if shared or host is None else _address(conn, host)
            if address is not None:
                self._shares.deny(context.admin_context(ctx.request_id), share_id, address,
                                  mapping['protocol'])
            self._cell_db.run(shares.delete, mapping['uuid'])

    def release_shares(self, ctx: Context, instance_uuid: str, host: str | None) -> None:
        """Release the shares of a server that is being deleted."""
        with self._cell_db.reader() as conn:
            found = shares.by_instance(conn, instance_uuid)
        for mapping in found:
            self.share_detached(ctx, instance_uuid, mapping['share_id'], host)


def _address(conn: engine.Connection, host: str) -> str | None:
    """Return the address from which a host mounts shares, or None if it has reported no address."""
    return next((node['host_ip'] for node in compute_nodes.by_host(conn, host) if node['host_ip']), None)
