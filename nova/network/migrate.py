"""Plumbing of a server at the host that it is about to move to, while it runs elsewhere."""
from nova.db.networks import ports


class Migrations:
    """The part of the network service's manager for servers that move; mixed into it."""

    def prepare_for_instance(self, context, instance, host):
        """See interface.py."""
        def prepare(conn):
            ports.expect(conn, instance.uuid, host)
            return self._vifs(conn, ports.of_device(conn, instance.uuid))
        vifs = self.api_db.run(prepare)
        if vifs and host == self.host:
            self._refresh()
        return vifs

    def unprepare_for_instance(self, context, instance_uuid, host):
        if self.api_db.run(ports.forget_expected, instance_uuid, host) and host == self.host:
            self._refresh()

    def network_info(self, context, instance_uuid):
        with self.api_db.reader() as conn:
            return self._vifs(conn, ports.of_device(conn, instance_uuid))
