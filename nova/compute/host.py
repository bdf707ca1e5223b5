"""Objects that the modules of the compute service share."""
import dataclasses
import threading
import typing

from oslo_config import cfg

from nova import context
from nova import exception
from nova import objects
from nova.compute import clients
from nova.compute.ports.plugging import Plugging
from nova.compute.queue import TaskQueue
from nova.compute.records import Records
from nova.image import granted
from nova.objects import disk_clients
from nova.objects.network_info import Vif
from nova.virt import driver as virt

_Feature = typing.TypeVar('_Feature')
_Args = typing.TypeVarTuple('_Args')


@dataclasses.dataclass(frozen=True)
class Host:
    """One compute host.

    conf          configuration
    name          name of the compute host
    driver        hypervisor driver; the API already refuses operations that the driver does not support, and
                  ``driver_with`` checks again
    conductor     client of the conductors, which retries until a conductor answers
    moves         the object ``conductor``, typed for moves of servers
    volumes       the object ``conductor``, typed for block devices, volumes and shares of servers
    network       client of the network service, with retries
    images        client for the images that a task may use
    queue         task queue: one task at a time for each server
    power_states  {server uuid: power state} that the conductor has stored
    records       local records of the guests
    plugging      waiters for ports that the Networking service must plug
    stopping      event that is set when the service stops
    """

    conf: cfg.ConfigOpts
    name: str
    driver: virt.ComputeDriver
    conductor: clients.Conductor
    moves: clients.Moves
    volumes: clients.BlockDevices
    network: clients.Network
    images: granted.GrantedImages
    queue: TaskQueue
    records: Records
    power_states: dict[str, int] = dataclasses.field(default_factory=dict)
    plugging: Plugging = dataclasses.field(default_factory=Plugging)
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)

    def submit(self, server: objects.Instance, function: typing.Callable[[*_Args], object], *args: *_Args,
               build: bool | str = False) -> None:
        """Queue a task of a server; worker threads are shared fairly between projects. See TaskQueue.submit."""
        # a deleted server may be known only by its uuid
        project_id = server.project_id if server.obj_attr_is_set('project_id') else ''
        self.queue.submit(server.uuid, function, *args, build=build, project_id=project_id)

    def driver_with(self, feature: type[_Feature]) -> _Feature:
        """Return the object of this host's driver that implements a feature.

        :param feature: one of virt.driver.FEATURES
        :raises Unsupported: the driver does not have the feature
        """
        found = self.driver.get_feature(feature)
        if found is None:
            raise exception.Unsupported(f'The driver of host {self.name} does not have the feature '
                                        f'{getattr(feature, "feature", feature.__name__)}.')
        return found

    def forget_fence(self, ctx: context.RequestContext, server: objects.Instance) -> None:
        """After a failed evacuation, remove the record that this host is fenced: it may open the server's disks again.

        :raises InstanceChanged, InstanceNotFound: the server is no longer on this host
        """
        record = disk_clients.read(server.system_metadata) if server.obj_attr_is_set('system_metadata') else None
        if record is not None and record.fenced == self.name:
            self.conductor.update_instance(ctx, instance_uuid=server.uuid, expect={'host': [self.name]},
                                           values={'system_metadata': {disk_clients.KEY: None}})

    def set_up_networks(self, ctx: context.RequestContext, server: objects.Instance) -> list[Vif]:
        """Set up the server's networks on this host; return its VIFs."""
        return self.network.setup_for_instance(ctx, instance=server, host=self.name)
