"""Adopt guests that another program created. The guests keep running, and the paths of their disks do not change.

The driver first writes its record of the guest and then the owner element in libvirt's metadata. If the service stops
between these writes, a repeated call completes the adoption. This service ignores guests without the owner element.
"""
import contextlib
import os

from nova import exception
from nova import states
from nova.context import RequestContext
from nova.hardware import guest_options
from nova.objects.instance import Instance
from nova.virt.driver import SpawnRequest
from nova.virt.libvirt import calls
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import identity
from nova.virt.libvirt.features import adopted
from nova.virt.libvirt.guests import Guests

OPERATION = 'take over the guest'


class Adoption:
    """Feature Adoption, for guests with disks that are files on this host."""

    def __init__(self, guests: Guests) -> None:
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor

    def adopt(self, context: RequestContext, instance: Instance, request: SpawnRequest) -> None:
        uuid, stored = instance.uuid, self._storage
        with self._guests.operation(uuid):
            if stored.load(uuid) is None:
                stored.save(self._made(instance, request))
            self._hypervisor.guest(OPERATION, uuid, calls.mark, identity.OWNER_NAMESPACE,
                                   identity.owner(stored.directory))

    def let_go(self, instance: Instance) -> None:
        if self._storage.load(instance.uuid) is None:       # the adoption was refused, so nothing was changed
            return
        with self._guests.operation(instance.uuid):
            with contextlib.suppress(exception.GuestNotFound):
                self._hypervisor.guest(OPERATION, instance.uuid, calls.mark, identity.OWNER_NAMESPACE, None)
            self._storage.forget(instance.uuid)

    def _made(self, instance: Instance, request: SpawnRequest) -> xml.Guest:
        """Create the record of the guest from its present definition.

        :raises BuildFailed: the guest cannot be adopted
        """
        uuid, hypervisor = instance.uuid, self._hypervisor
        if os.geteuid():
            raise _refusal(uuid, "this service does not own its disks: only a service that runs as root can adopt it")
        text, why = hypervisor.guest(OPERATION, uuid, calls.described)
        found = adopted.read(text, adopted.size)
        if hypervisor.power_state(uuid) not in (states.RUNNING, states.SHUTDOWN):
            why = 'it is neither running nor off'
        if guest_options.encrypts(instance):
            why = why or 'its flavor or its image requests encrypted disks, but its disks are not encrypted'
        why = why or '; '.join(found.refusals) or adopted.misfit(
            found, instance.vcpus, instance.memory_mb, instance.root_gb)
        if why:
            raise _refusal(uuid, why)
        made = self._guests.describe(instance, request, found.disks, {})
        made.adopted = [disk.file for disk in found.disks]
        made.identity.name, made.hardware.machine, made.hardware.vif_model = found.name, found.machine, found.vif_model
        for interface in made.interfaces:
            interface.model = found.vif_model
        self._storage.make_directory(uuid, exist_ok=True)
        return made


def _refusal(uuid: str, reason: str) -> exception.BuildFailed:
    return exception.BuildFailed(instance_id=uuid, reason=reason)
