"""Traits of the guest options that this host supports, from libvirt's domain capabilities.

https://libvirt.org/formatdomaincaps.html describes the document. Options that the document does not list are supported
by libvirt 9.0 with QEMU 7.2 and by all later versions.
"""
from collections.abc import Iterable
from xml.etree import ElementTree as etree

from nova.hardware import guest_option_rows

VIFS = ('e1000', 'e1000e', 'rtl8139', 'ne2k_pci', 'pcnet', 'vmxnet3')
SOUNDS = ('ac97', 'es1370', 'ich6', 'ich9', 'pcspk', 'sb16', 'usb')
BUSES = ('ide', 'sata', 'scsi', 'usb')
_ALWAYS = (guest_option_rows.ALL_OPTIONS, guest_option_rows.GROWTH, 'COMPUTE_NET_VIRTIO_PACKED',
           'COMPUTE_USB_MODEL_QEMU_XHCI', 'COMPUTE_USB_MODEL_NEC_XHCI', 'COMPUTE_VIOMMU_MODEL_INTEL',
           'COMPUTE_VIOMMU_MODEL_VIRTIO', 'COMPUTE_VIOMMU_MODEL_AUTO')


def of(capabilities: Iterable[etree.Element], virt_type: str) -> frozenset[str]:
    """Return the traits of supported guest options.

    :param capabilities: root elements of the domain capabilities of the machine types pc and q35
    :param virt_type: 'kvm' or 'qemu'
    """
    found = {*_ALWAYS, *_named('NET_VIF_MODEL', VIFS), *_named('SOUND_MODEL', SOUNDS)}
    for root in capabilities:
        found |= _named('GRAPHICS_MODEL', _values(root, './devices/video', 'modelType'))
        found |= _named('STORAGE_BUS', set(BUSES) & _values(root, './devices/disk', 'bus'))
        if 'efi' in _values(root, './os', 'firmware'):
            found.add('COMPUTE_FIRMWARE_UEFI')
        if 'yes' in _values(root, './os/loader', 'secure'):
            found.add('COMPUTE_SECURITY_UEFI_SECURE_BOOT')
        found |= _tpm(root) | _encryption(root)
    if virt_type == 'kvm':               # with qemu, processors always have 40-bit addresses, so there is no choice
        found |= {'COMPUTE_ADDRESS_SPACE_PASSTHROUGH', 'COMPUTE_ADDRESS_SPACE_EMULATED'}
    return frozenset(found)


def graphics(capabilities: Iterable[etree.Element]) -> frozenset[str]:
    """Return the graphics types, for example 'vnc', that every machine type of these domain capabilities supports."""
    found = [_values(root, './devices/graphics', 'type') for root in capabilities]
    return frozenset(set.intersection(*found)) if found else frozenset()


def _named(kind: str, values: Iterable[str]) -> set[str]:
    return {f'COMPUTE_{kind}_{value.upper().replace("-", "_")}' for value in values}


def _values(root: etree.Element, path: str, name: str) -> set[str]:
    """Return the values of an enumeration, or an empty set if libvirt does not support the element."""
    element = root.find(path)
    if element is None or element.get('supported') == 'no':
        return set()
    return {value.text or '' for value in element.findall(f"./enum[@name='{name}']/value")}


def _tpm(root: etree.Element) -> set[str]:
    """Return the TPM traits, or an empty set if swtpm is not installed: libvirt then reports no emulator."""
    if 'emulator' not in _values(root, './devices/tpm', 'backendModel'):
        return set()
    names = {'tpm-tis': 'TIS', 'tpm-crb': 'CRB'}
    models = {names[model] for model in _values(root, './devices/tpm', 'model') if model in names}
    versions = {version.replace('.', '_') for version in _values(root, './devices/tpm', 'backendVersion')}
    return {f'COMPUTE_SECURITY_TPM_{name}' for name in models | versions}


def _encryption(root: etree.Element) -> set[str]:
    sev = root.find('./features/sev')
    if sev is None or sev.get('supported') != 'yes':
        return set()
    with_state = int(sev.findtext('maxESGuests') or 0)
    return {'HW_CPU_X86_AMD_SEV', *(('HW_CPU_X86_AMD_SEV_ES',) if with_state else ())}
