"""Host properties for virtual machines: guest type, processor, topology, memory."""
import pathlib
from collections.abc import Iterable
from xml.etree import ElementTree as etree

from oslo_config import cfg

from nova import exception
from nova.hardware import guest_option_rows
from nova.hardware import host as hardware_host
from nova.objects import numa
from nova.objects import pci
from nova.virt.libvirt import capabilities
from nova.virt.libvirt import host as hosts
from nova.virt.libvirt.domain import memory
from nova.virt.libvirt.domain import offered
from nova.virt.libvirt.domain import processors


class Platform:
    """Read the properties from libvirt and the configuration: ``discover`` at startup, ``refresh`` at each report.

    :ivar virt_type: 'kvm' or 'qemu'; '' before ``discover``
    :ivar memory_source: constant of domain.memory
    :ivar topology: HostTopology that the configuration leaves to guests; None if libvirt reports none
    :ivar processor: the processor model of guests
    :ivar traits: available guest options
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self.virt_type, self.memory_source = '', memory.ANONYMOUS
        self.topology: numa.HostTopology | None = None
        self.processor, self.traits = processors.Processor(), frozenset[str]()

    def discover(self, hypervisor: hosts.Host) -> tuple[etree.Element, list[etree.Element]]:
        """Read all properties; return libvirt's host capabilities and the domain capabilities of the guest type.

        :raises VirtError: the configuration requires a property that the host lacks
        """
        self.memory_source = memory.source_of(self._conf)
        facts = hypervisor.facts()
        self._read_topology(facts)
        wanted, able = self._conf.libvirt.virt_type, hosts.kvm_offered(facts['capabilities'])
        if wanted == 'kvm' and not able:
            raise exception.VirtError(operation='use KVM', reason='this host does not offer it; '
                                      '[libvirt] virt_type = auto falls back to emulation')
        self.virt_type = 'kvm' if able and wanted != 'qemu' else 'qemu'
        described = hypervisor.domain_capabilities(self.virt_type)
        self._read_traits(described)
        self.processor = processors.choose(self._conf, described)
        return facts['capabilities'], described

    def refresh(self, hypervisor: hosts.Host) -> hosts.Facts:
        """Read topology and traits again: firmware or swtpm may be installed at any time. Return Host.facts()."""
        facts = hypervisor.facts()
        self._read_topology(facts)
        self._read_traits(hypervisor.domain_capabilities(self.virt_type))
        return facts

    def devices(self, hypervisor: hosts.Host) -> list[pci.Device]:
        """Return the PCI and mediated devices that the configuration offers to guests."""
        types = self._conf.devices.enabled_mdev_types
        return [*(hypervisor.pci_devices() if self._conf.pci.device_spec else ()),
                *(hypervisor.mediated_devices(types) if types else ())]

    def configured_traits(self, encrypts: bool) -> list[str]:
        """Return the traits of the host for guest options, including those that the configuration enables.

        :param encrypts: whether local disks can be encrypted
        """
        options = self._conf.image
        verifies = options.certificates_directory or options.certificate_backend == 'barbican'
        return sorted([*self.traits, *(trait for trait, given in (
            (guest_option_rows.TRUSTED_CERTIFICATES, verifies), (guest_option_rows.ENCRYPTION, encrypts),
            (memory.TRAIT, self.memory_source == memory.FILE)) if given)])

    def _read_traits(self, described: Iterable[etree.Element]) -> None:
        self.traits = frozenset(offered.of(described, self.virt_type))

    def _read_topology(self, facts: hosts.Facts) -> None:
        found = hardware_host.configured(capabilities.topology(facts['capabilities']), self._conf)
        self.topology = None if found is None else hardware_host.with_pages(
            found, () if self.memory_source == memory.FILE else _mounted_pages())


def _mounted_pages() -> frozenset[int]:
    mounts, meminfo = (pathlib.Path(f'/proc/{name}').read_text() for name in ('mounts', 'meminfo'))
    return hardware_host.mounted_pages(mounts, meminfo)
