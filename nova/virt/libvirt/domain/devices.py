"""Small devices: watchdog, random numbers, TPM, graphics, pointer, sound, USB, virtiofs; attributes of virtio."""
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as etree

from nova.hardware import guest_options
from nova.virt.libvirt.domain.machine import Hardware
from nova.virt.libvirt.domain.tree import add

ENTROPY = '/dev/urandom'
BALLOON_STATS_S = 10                     # interval of the balloon's memory statistics
RNG_PERIOD_MS = 1000                     # period of hw_rng:rate_bytes if the flavor sets none
TPM_MODEL = {'1.2': 'tpm-tis', '2.0': 'tpm-crb'}
KIB = 1024


def watchdog(devices: etree.Element, hardware: Hardware) -> None:
    """Add the watchdog."""
    action = hardware.settings.get('watchdog_action', 'disabled')
    if action != 'disabled':
        add(devices, 'watchdog', model='i6300esb', action=action)


def rng(devices: etree.Element, hardware: Hardware) -> None:
    if hardware.settings.get('rng_allowed') == guest_options.FALSE:
        return
    element = add(devices, 'rng', model='virtio')
    size = int(hardware.settings.get('rng_rate_bytes', 0))
    if size:
        add(element, 'rate', bytes=size, period=hardware.settings.get('rng_rate_period', RNG_PERIOD_MS))
    add(element, 'backend', ENTROPY, model='random')


def balloon(devices: etree.Element, hardware: Hardware) -> None:
    """Add the balloon, which reports the guest OS's memory statistics for the diagnostics."""
    add(add(devices, 'memballoon', model='virtio'), 'stats', period=BALLOON_STATS_S)


def tpm(devices: etree.Element, hardware: Hardware) -> None:
    version = hardware.settings.get('tpm_version')
    if version:
        usual = 'tpm-tis' if hardware.arch else TPM_MODEL[version]           # tpm-crb is only for x86
        element = add(devices, 'tpm', model=hardware.settings.get('tpm_model', usual))
        add(element, 'backend', type='emulator', version=version)


def video(devices: etree.Element, hardware: Hardware) -> None:
    """Add the video device of the flavor and image; otherwise libvirt adds its default if the guest has graphics."""
    model, ram = hardware.settings.get('video_model'), int(hardware.settings.get('video_ram', 0))
    if model or ram:
        add(add(devices, 'video'), 'model', type=model or 'vga', vram=ram * KIB or None)


def pointer(devices: etree.Element, hardware: Hardware) -> None:
    """Add a tablet if the guest has graphics or requests one; a guest with graphics always has a PS/2 mouse.

    A tablet sends absolute coordinates, so the guest's pointer follows the viewer's. Guest systems without a driver for
    it need hw_pointer_model=ps2mouse.
    """
    model, bus = hardware.settings.get('pointer_model'), hardware.settings.get('input_bus')
    if model != 'ps2mouse' and (model or bus or devices.find('graphics') is not None):
        has_usb = hardware.arch is None or model == 'usbtablet'          # other machines have no USB by default
        add(devices, 'input', type='tablet', bus=bus or ('usb' if has_usb else 'virtio'))


def sound(devices: etree.Element, hardware: Hardware) -> None:
    if 'sound_model' in hardware.settings:
        add(devices, 'sound', model=hardware.settings['sound_model'])


def usb(devices: etree.Element, hardware: Hardware) -> None:
    if 'usb_model' in hardware.settings:
        add(devices, 'controller', type='usb', index=0, model=hardware.settings['usb_model'])


def serial_ports(devices: etree.Element, hardware: Hardware) -> None:
    """Add the requested serial ports that the consoles have not added already."""
    for number in range(len(devices.findall('serial')), hardware.serial_ports):
        add(add(devices, 'serial', type='pty'), 'target', port=number)


ALL = (serial_ports, watchdog, tpm, video, pointer, sound, usb, rng, balloon)

VIRTIO_SCSI = 'virtio-scsi'
# {tag of a device: (path of an element in it, attribute of this element, values of the attribute that mean virtio)}
_VIRTIO = {
    'disk': ('target', 'bus', ('virtio',)),
    'interface': ('model', 'type', ('virtio',)),
    'controller': ('.', 'model', (VIRTIO_SCSI, 'virtio')),
    'input': ('.', 'bus', ('virtio',)),
    'video': ('model', 'type', ('virtio',)),
    'sound': ('.', 'model', ('virtio',)),
    'rng': ('.', 'model', ('virtio',)),
    'memballoon': ('.', 'model', ('virtio',)),
}


def virtio_attributes(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of the element ``driver``; empty if the guest requests none."""
    found = {}
    if settings.get('virtio_packed_ring') == guest_options.TRUE:
        found['packed'] = 'on'
    if settings.get('mem_encryption') == guest_options.TRUE:
        found['iommu'] = 'on'                # the host can access only memory that the guest shares
    return found


def complete_virtio(devices: Iterable[etree.Element], settings: Mapping[str, str]) -> None:
    """Add the virtio attributes to each device that uses virtio."""
    found = virtio_attributes(settings)
    for device in devices if found else ():
        if is_virtio(device):
            driver = device.find('driver')
            if driver is None:
                driver = etree.Element('driver')
                device.insert(0, driver)
            driver.attrib.update(found)


def is_virtio(device: etree.Element) -> bool:
    path, name, values = _VIRTIO.get(device.tag, ('.', '', ()))
    said = device.find(path)
    return device.get('type') == 'virtio-serial' or said is not None and said.get(name) in values


QUEUE = 1024                             # maximum number of queued requests of a guest, as in libvirt's documentation


def filesystems(devices: etree.Element, given: Iterable[Mapping[str, Any]]) -> None:
    """Add the shared file systems (virtiofs).

    :param given: dicts of features/shares.py
    """
    for share in given:
        element = add(devices, 'filesystem', type='mount', accessmode='passthrough')
        add(element, 'driver', type='virtiofs', queue=QUEUE)
        add(element, 'binary', path=share['program'])
        add(element, 'source', dir=share['directory'])
        add(element, 'target', dir=share['tag'])
