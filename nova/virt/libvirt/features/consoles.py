"""Consoles of guests, and screenshots of their first screen."""
import time

import libvirt
from oslo_config import cfg

from nova import exception
from nova.objects.instance import Instance
from nova.virt import driver
from nova.virt.libvirt import graphics
from nova.virt.libvirt.guests import Guests

SCREENSHOT_S = 15                        # timeout of a screenshot
CHUNK_BYTES = 1 << 18


class Consoles:
    """Features Consoles and Screenshots."""

    def __init__(self, conf: cfg.ConfigOpts, guests: Guests) -> None:
        self._conf, self._storage, self._hypervisor = conf, guests.storage, guests.hypervisor

    def console(self, instance: Instance, kind: str) -> driver.ConsolePlace:
        text = self._hypervisor.guest('find the console', instance.uuid, _running_xml)
        guest = self._storage.load(instance.uuid)
        if text is None or guest is None:
            raise exception.GuestNotFound(instance_id=instance.uuid)
        return graphics.place(text, kind, guest.consoles, self._conf.my_ip)

    def screenshot(self, instance: Instance) -> bytes:
        text = self._hypervisor.guest('find the screen', instance.uuid, _running_xml)
        if text is None:
            raise exception.GuestNotFound(instance_id=instance.uuid)
        if not graphics.has_screen(text):
            raise exception.Unsupported('The server has no screen: its image or its host has no graphics device.')
        return self._hypervisor.run('take a screenshot', _screenshot, instance.uuid)


def _running_xml(domain: libvirt.virDomain) -> str | None:
    """Return the XML of a running domain, None if it is off."""
    return domain.XMLDesc(0) if domain.isActive() else None


def _screenshot(connection: libvirt.virConnect, uuid: str) -> bytes:
    """Take a screenshot of a running domain.

    :raises VirtError: the screenshot is larger than SCREENSHOT_BYTES, or takes longer than SCREENSHOT_S
    """
    until, taken = time.monotonic() + SCREENSHOT_S, bytearray()
    stream = connection.newStream()
    connection.lookupByUUIDString(uuid).screenshot(stream, 0)
    while piece := stream.recv(CHUNK_BYTES):
        taken += piece
        late = time.monotonic() > until
        if late or len(taken) > driver.SCREENSHOT_BYTES:
            stream.abort()
            raise exception.VirtError(operation='take a screenshot', reason='it did not arrive in time'
                                      if late else 'it is too large')
    stream.finish()
    return bytes(taken)
