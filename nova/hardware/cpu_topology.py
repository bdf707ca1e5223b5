"""Sockets, cores and threads of a guest.

Source: https://specs.openstack.org/openstack/nova-specs/specs/juno/implemented/virt-driver-vcpu-topology.html. The
flavor sets limits (``hw:cpu_max_sockets``) and preferences (``hw:cpu_sockets``) of sockets, cores and threads. The
image may lower the limits and choose other preferences within them.
"""
import math
from collections.abc import Mapping

from nova import exception
from nova.hardware import architectures
from nova.hardware import cpus
from nova.hardware import growth
from nova.hardware import guest_options
from nova.hardware import guest_request
from nova.hardware import machines
from nova.objects import numa
from nova.objects.flavor import Flavor

PARTS = ('sockets', 'cores', 'threads')
NO_LIMIT = 65536


def choose(vcpus: int, specs: Mapping[str, str] | None, properties: Mapping[str, str] | None,
           topology: numa.GuestTopology | None = None) -> dict[str, int]:
    """Return {'sockets', 'cores', 'threads'} with a product equal to the number of vCPUs, including hot-pluggable ones.

    Within the limits, choose the topology with the most satisfied preferences, then the most sockets, then the most
    cores. Threads of a pinned guest correspond to threads of the host's cores. A guest without pinning has one thread
    for each core unless more are requested.
    :param specs: extra specs of the flavor
    :param topology: the pinned GuestTopology, or None
    :raises InvalidInput: a value is malformed, the image exceeds the flavor's limits, or no such product exists
    """
    requested = guest_request.Requested(specs, properties)
    # count vCPUs that may be hot-plugged later
    vcpus = max(vcpus, growth.of_specs(specs)[0])
    if vcpus > cpus.LIMIT:
        raise exception.InvalidInput(reason=f'{vcpus} vCPUs are more than {cpus.LIMIT}.')
    limits = {part: _limit(requested, part) for part in PARTS}
    preferred = _preferred(requested, limits)
    pinned = _pinned_threads(topology)
    if pinned and pinned <= limits['threads']:
        preferred = {**preferred, 'threads': pinned}
    possible = _possible(vcpus, limits)
    if not possible:
        raise exception.InvalidInput(reason=(
            f'{vcpus} vCPUs cannot be divided into at most {limits["sockets"]} sockets, {limits["cores"]} cores and '
            f'{limits["threads"]} threads. Change the limits, or the vCPUs of the flavor.'))

    def rank(found: dict[str, int]) -> tuple[int, ...]:
        kept = sum(found[part] == preferred[part] for part in PARTS if preferred[part])
        unrequested = not preferred['threads'] and found['threads']
        return (-(pinned == found['threads'] if pinned else 0), -kept, unrequested, -found['sockets'], -found['cores'])
    return min(possible, key=rank)


def check_number(flavor: Flavor, properties: Mapping[str, str] | None) -> None:
    """Check that a guest can have the vCPUs of a flavor: a PC has a maximum, unless it has a special IOMMU.

    Containers, bare metal machines and guests of other architectures do not have this maximum.
    :param properties: properties of the image
    :raises InvalidInput: the flavor has too many vCPUs
    """
    if (flavor['vcpus'] > growth.MAX_VCPUS and machines.wanted(flavor.get('extra_specs')) is None
            and not guest_options.is_container(properties) and architectures.emulated(properties) is None):
        raise exception.InvalidInput(reason=(
            f'the flavor has {flavor["vcpus"]} vCPUs, but virtual machines have at most {growth.MAX_VCPUS}. Select a '
            'smaller flavor. Images of containers need the property hypervisor_type=lxc.'))


def _limit(requested: guest_request.Requested, part: str) -> int:
    flavor, image = (_number(f'cpu_max_{part}', value)
                     for value in (requested.flavor(f'cpu_max_{part}'), requested.image(f'cpu_max_{part}')))
    if image and flavor and image > flavor:
        raise exception.InvalidInput(
            reason=f'the image property hw_cpu_max_{part} is {image}, more than the maximum of the flavor, {flavor}.')
    return image or flavor or NO_LIMIT


def _preferred(requested: guest_request.Requested, limits: dict[str, int]) -> dict[str, int | None]:
    """Return {'sockets', 'cores', 'threads': preferred number or None}: the preferences of the image, or those of the
    flavor if the image has no preferences.
    """
    flavor, image = ({part: _number(f'cpu_{part}', read(f'cpu_{part}')) for part in PARTS}
                     for read in (requested.flavor, requested.image))
    for values, whose in ((flavor, "flavor's hw:"), (image, "image's hw_")):
        for part, value in values.items():
            if value and value > limits[part]:
                raise exception.InvalidInput(reason=(
                    f'the {whose}cpu_{part} {value} exceeds the limit of {limits[part]}.'))
    return image if any(image.values()) else flavor


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) <= NO_LIMIT or len(text) > 12:
        raise exception.InvalidInput(reason=f'{name} is {text!r}; it must be a positive integer.')
    return int(text)


def _pinned_threads(topology: numa.GuestTopology | None) -> int | None:
    """Return a number of threads per core that suits all cells of a pinned guest, or None without pinning."""
    found = [cell.cpu_topology['threads'] for cell in topology.cells if cell.cpu_topology] if topology else []
    return math.gcd(*found) if found else None


def _possible(vcpus: int, limits: dict[str, int]) -> list[dict[str, int]]:
    found = []
    for threads in _divisors(vcpus, limits['threads']):
        for cores in _divisors(vcpus // threads, limits['cores']):
            sockets = vcpus // threads // cores
            if sockets <= limits['sockets']:
                found.append({'sockets': sockets, 'cores': cores, 'threads': threads})
    return found


def _divisors(number: int, most: int) -> list[int]:
    return [value for value in range(1, min(number, most) + 1) if number % value == 0]
