"""Hot-plug of CPUs and memory: a running guest can be resized up to the maximum in its flavor.

The extra specs ``hw:max_vcpus`` and ``hw:max_mem_mb`` set the maximum. ADR 0023 explains the design.
"""
from collections.abc import Mapping
import re

from nova import exception
from nova.hardware import guest_option_rows as rows
from nova.hardware import guest_options
from nova.objects import numa
from nova.objects import pci
from nova.objects.flavor import Flavor

VCPUS, MEMORY = 'max_vcpus', 'max_mem_mb'
# MiB: Linux adds memory in aligned blocks of this size (x86: SECTION_SIZE_BITS is 27)
BLOCK_MB = 128
# maximum number of hot-plugged memory modules until the guest restarts; each resize adds one module
SLOTS = 16
# maximum vCPUs of QEMU's PC machines without an IOMMU that has the extended interrupt mode
MAX_VCPUS = 255
# prefix of extra specs that can change while the guest runs
LIMITS = 'quota:disk_'
# fields of a flavor that must not change while the guest runs
_STAYS = ('root_gb', 'ephemeral_gb', 'swap')


def maximum(settings: Mapping[str, str]) -> tuple[int, int]:
    """Return the maximum (vCPUs, MiB of memory) of a running guest, 0 if not set.

    :param settings: guest_options.settings
    """
    return int(settings.get(VCPUS) or 0), int(settings.get(MEMORY) or 0)


def of_specs(specs: Mapping[str, str] | None) -> tuple[int, int]:
    """Return the maximum (vCPUs, MiB of memory) in the extra specs of a flavor, 0 if not set."""
    return maximum({name: (specs or {}).get(f'hw:{name}', '0') for name in (VCPUS, MEMORY)})


def check(flavor: Flavor, properties: Mapping[str, str] | None, topology: numa.GuestTopology | None) -> None:
    """Check that guests of this flavor and image can grow up to the flavor's maximum.

    :param topology: the requested topology
    :raises InvalidInput: the maximum is not usable
    """
    vcpus, memory_mb = of_specs(flavor.get('extra_specs'))
    if not vcpus and not memory_mb:
        return
    other = next((words for words, found in (
        ('a NUMA topology, pinned CPUs or a page size', topology is not None),
        ('PCI devices', bool(pci.requested(flavor))),
        ('encrypted memory', _encrypted(flavor, properties))) if found), None)
    if other:
        raise _refusal(f'hw:{VCPUS} and hw:{MEMORY} cannot be combined with {other}, which cannot change while the '
                       'guest runs. Remove one of them.')
    if vcpus and not flavor['vcpus'] <= vcpus <= MAX_VCPUS:
        raise _refusal(f"hw:{VCPUS} is {vcpus}. It must be from {flavor['vcpus']}, the vCPUs of the flavor, to "
                       f'{MAX_VCPUS}.')
    if memory_mb and (memory_mb < flavor['memory_mb'] or (memory_mb - flavor['memory_mb']) % BLOCK_MB):
        raise _refusal(f"hw:{MEMORY} is {memory_mb}. It must be {flavor['memory_mb']} MiB, the memory of the flavor, "
                       f'plus a multiple of {BLOCK_MB} MiB.')


def while_running(old: Flavor, new: Flavor) -> bool:
    """Tell whether a running guest can be resized from one flavor to another; the caller has checked the new flavor."""
    vcpus, memory_mb = of_specs(old.get('extra_specs'))
    if not vcpus and not memory_mb or pci.requested(old):
        return False
    if _kept(old) != _kept(new):
        return False
    if any((old.get(name) or 0) != (new.get(name) or 0) for name in _STAYS):
        return False
    return all(before == after or most and before < after <= most for before, after, most in (
        (old['vcpus'], new['vcpus'], vcpus), (old['memory_mb'], new['memory_mb'], memory_mb)))


def _kept(flavor: Flavor) -> dict[str, str]:
    """Return the extra specs that must not change while the guest runs: all except the limits of local disks."""
    return {name: value for name, value in (flavor.get('extra_specs') or {}).items() if not name.startswith(LIMITS)}


def limits(flavor: Flavor) -> dict[str, str]:
    """Return the limits of local disks in a flavor, in the form of guest_options.settings.

    :raises InvalidInput: a value is malformed
    """
    return guest_options.settings({name: value for name, value in (flavor.get('extra_specs') or {}).items()
                                   if name.startswith(LIMITS)}, None)


def _encrypted(flavor: Flavor, properties: Mapping[str, str] | None) -> bool:
    values = ((flavor.get('extra_specs') or {}).get('hw:mem_encryption'), (properties or {}).get('hw_mem_encryption'))
    return any(re.fullmatch(rows.TRUE, str(value).strip()) for value in values)


def _refusal(reason: str) -> exception.InvalidInput:
    return exception.InvalidInput(reason=reason)
