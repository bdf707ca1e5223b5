"""Records of the Ceph clients that this host's guests use: an evacuation's destination blocks them (fencing)."""
import collections.abc
import contextlib
import logging

from nova import context
from nova import exception
from nova import states
from nova.compute.host import Host
from nova.objects import disk_clients

LOG = logging.getLogger(__name__)

RUNNING = (states.RUNNING, states.POWER_PAUSED)


class DiskClients:
    """Stores the Ceph clients that use a server's disks, as the driver finds them, in the server's system metadata."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._fenced: dict[str, str] = {}        # {server uuid: fenced source host} of evacuations to this host

    def record(self, uuid: str, images: disk_clients.Images, started: bool) -> None:
        """Record the Ceph clients of a guest; see ComputeDriver.watch_disk_clients.

        :raises InstanceChanged, InstanceNotFound: the server is no longer on this host
        """
        fenced = self._fenced.get(uuid)
        known = {} if started else self._known(uuid)
        self._write(uuid, disk_clients.Record(self._host.name, {**known, **images}, fenced))

    def evacuating(self, uuid: str, former: str) -> None:
        """Record that a former host of a server is fenced, until the evacuation to this host has started the guest."""
        self._fenced[uuid] = former
        self._write(uuid, disk_clients.Record(former, {}, former))

    @contextlib.contextmanager
    def evacuation(self, uuid: str) -> collections.abc.Iterator[None]:
        """Context manager of an evacuation to this host. On success the record of the fence is removed."""
        try:
            yield
        except BaseException:
            self._fenced.pop(uuid, None)
            raise
        if self._fenced.pop(uuid, None) is not None:
            with contextlib.suppress(exception.InstanceChanged, exception.InstanceNotFound):  # no longer here
                self.record(uuid, {}, False)

    def complete(self) -> None:
        """Record the Ceph clients of running guests that an older release started without a record."""
        ctx, concerned = context.admin_context(), set(self._host.driver.guests_with_clients())
        if not concerned:
            return
        guests = self._host.driver.guests()
        for entry in self._host.conductor.instances_on_host(ctx, host=self._host.name):
            server = entry['instance']
            if server.uuid not in concerned or guests.get(server.uuid) not in RUNNING:
                continue
            record = disk_clients.read(server.system_metadata)
            if record is None or record.clients_of(self._host.name) is None:
                self._host.queue.submit(server.uuid, self._complete, server.uuid)

    def _complete(self, uuid: str) -> None:
        try:
            found = self._host.driver.open_clients(uuid)
            if found:
                self.record(uuid, found, True)
        except exception.NovaException as error:
            LOG.warning('The clients of the disks of server %s are not recorded: %s', uuid, error)

    def _known(self, uuid: str) -> disk_clients.Images:
        row = self._host.conductor.update_instance(context.admin_context(), instance_uuid=uuid, values={},
                                                   expect={'host': [self._host.name]})
        record = disk_clients.read(row.system_metadata)
        return (record.clients_of(self._host.name) or {}) if record is not None else {}

    def _write(self, uuid: str, record: disk_clients.Record) -> None:
        try:
            self._host.conductor.update_instance(
                context.admin_context(), instance_uuid=uuid, values={'system_metadata': {
                    disk_clients.KEY: record.values()}}, expect={'host': [self._host.name]})
        except exception.HostForbidden as error:             # the server is no longer on this host
            LOG.warning('The clients of the disks of server %s are not recorded: %s', uuid, error)
