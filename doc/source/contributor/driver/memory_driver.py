"""A driver outside of nova's tree: its guests are entries of a dictionary and end with the process."""
from __future__ import annotations

from nova import exception
from nova import states
from nova.virt import driver


class Guests:
    """The guests of one host: {uuid: power state}."""

    def __init__(self):
        self.states = {}

    def set(self, instance, power_state):
        """
        :raises GuestNotFound: the host does not have the guest
        """
        self.get(instance)
        self.states[instance.uuid] = power_state

    def get(self, instance):
        try:
            return self.states[instance.uuid]
        except KeyError:
            raise exception.GuestNotFound(instance_id=instance.uuid) from None


class Pause:
    """The feature ``driver.Pause``."""

    def __init__(self, guests):
        self._guests = guests

    def pause(self, instance):
        self._guests.set(instance, states.POWER_PAUSED)

    def unpause(self, instance):
        self._guests.set(instance, states.RUNNING)


class MemoryDriver(driver.ComputeDriver):
    """The required methods of the contract, and one feature."""

    real_guests = False                  # no network is plumbed for them

    def __init__(self, conf, host, images, inspect_image=None, helper=None):
        super().__init__(conf, host, images, inspect_image, helper)
        self._guests = Guests()
        self.features[driver.Pause] = Pause(self._guests)

    def init_host(self):
        """Nothing remains of an earlier process."""

    def resources(self):
        return [driver.NodeResources(
            node=self.host, vcpus=8, memory_mb=16384, local_gb=100, hypervisor_type='memory', hypervisor_version=1,
            host_ip=self.conf.my_ip, cpu_info={'arch': 'x86_64', 'features': []},
            supported_instances=[['x86_64', 'memory', 'hvm']])]

    def guests(self):
        return dict(self._guests.states)

    def power_state(self, instance):
        return self._guests.get(instance)

    def spawn(self, context, instance, request):
        self._guests.states[instance.uuid] = states.RUNNING
        if request.await_networks is not None:
            request.await_networks()

    def destroy(self, context, instance, network_info, keep_disks=False, keep_machine=False):
        self._guests.states.pop(instance.uuid, None)

    def power_on(self, context, instance, network_info):
        self._guests.states[instance.uuid] = states.RUNNING

    def power_off(self, instance, timeout=0):
        self._guests.set(instance, states.SHUTDOWN)

    def reboot(self, context, instance, network_info, hard):
        self._guests.set(instance, states.RUNNING)

    def console_output(self, instance):
        self._guests.get(instance)
        return b''
