"""Shares of servers: the access of a host, and what their rows say."""
from nova import context
from nova import exception
from nova.db.servers import shares


class Shares:
    """The part of the conductor's manager that works on shares; mixed into it.

    Needs ``self._cell_db`` and ``self._shares`` (nova.share.api.Shares).
    """

    def allow_share(self, ctx, instance_uuid, share_id, host):
        with self._cell_db.reader() as conn:
            mapping = shares.get(conn, instance_uuid, share_id)
        if mapping is None:
            raise exception.InstanceChanged(instance_id=instance_uuid)
        self._shares.allow(context.admin_context(ctx.request_id), share_id, host)
        return mapping

    def share_attached(self, ctx, instance_uuid, share_id, status):
        with self._cell_db.writer() as conn:
            mapping = shares.get(conn, instance_uuid, share_id)
            if mapping is not None:
                shares.update(conn, mapping['uuid'], {'status': status})

    def share_detached(self, ctx, instance_uuid, share_id, host):
        with self._cell_db.reader() as conn:
            mapping = shares.get(conn, instance_uuid, share_id)
        if mapping is not None:
            self._shares.deny(context.admin_context(ctx.request_id), share_id, host)
            self._cell_db.run(shares.delete, mapping['uuid'])

    def release_shares(self, ctx, instance_uuid, host):
        """Give back the shares of a server that ends."""
        with self._cell_db.reader() as conn:
            found = shares.by_instance(conn, instance_uuid)
        for mapping in found:
            self.share_detached(ctx, instance_uuid, mapping['share_id'], host)
