"""NUMA cells, CPUs and pages that a flavor and an image request.

The flavor's extra spec ``hw:name`` and the image's property ``hw_name`` have the same meaning. If both are set, the
rules of https://docs.openstack.org/nova/latest/admin/cpu-topologies.html, huge-pages.html, real-time.html and
https://docs.openstack.org/nova/latest/configuration/extra-specs.html apply. Values are checked here, because the API
checks extra specs only since 2.86, and image properties never. Errors are BadRequests that name the key.
"""
import re
from collections.abc import Mapping, Sequence

from nova import exception
from nova.hardware import cpus
from nova.hardware import guest_option_rows as rows
from nova.objects import numa
from nova.objects.flavor import Flavor

CPU_POLICIES = ('dedicated', 'shared', 'mixed')
THREAD_POLICIES = ('prefer', 'isolate', 'require')
EMULATOR_POLICIES = ('isolate', 'share')
PCI_POLICIES = ('required', 'preferred', 'legacy', 'socket')
TRUE = rows.TRUE_WORDS
MAX_NODES = 64                     # maximum guest nodes; QEMU allows 128
DEDICATED = 'resources:PCPU'
_KEYS = ('hw:cpu_', 'hw_cpu_', 'hw:numa_', 'hw_numa_', 'hw:mem_', 'hw_mem_', 'hw:emulator_', 'hw_emulator_', DEDICATED)
_PER_NODE = re.compile(r'hw[:_]numa_(cpus|mem)\.(.*)', re.DOTALL)


class Requested:
    """Values of ``hw:name`` in the flavor and ``hw_name`` in the image as text, or None."""

    def __init__(self, extra_specs: Mapping[str, str] | None, properties: Mapping[str, str] | None) -> None:
        self._specs, self._properties = extra_specs or {}, properties or {}

    def flavor(self, name: str) -> str | None:
        return _text(self._specs.get('hw:' + name))

    def image(self, name: str) -> str | None:
        return _text(self._properties.get('hw_' + name))

    def agreed(self, name: str, choices: Sequence[str], prevails: str | None = None) -> str | None:
        """Return the value on which flavor and image agree.

        :param prevails: a value of the flavor that applies whatever value the image has
        :raises InvalidInput: a value is not in ``choices``, or flavor and image differ
        """
        flavor, image = self.flavor(name), self.image(name)
        for value in (flavor, image):
            if value is not None and value not in choices:
                raise _invalid(f'{name} is {value!r}; it may be {", ".join(choices)}.')
        if flavor and image and flavor not in (image, prevails):
            raise _invalid(f'the image property hw_{name} is {image!r}, but hw:{name} of the flavor is {flavor!r}. '
                           'Set one of them only.')
        return flavor or image

    def flavor_first(self, name: str) -> str | None:
        """Return the value of the flavor, or of the image if the flavor has no value.

        :raises InvalidInput: both have a value: the image must not override the flavor
        """
        flavor, image = self.flavor(name), self.image(name)
        if flavor is not None and image is not None:
            raise _invalid(f'the image property hw_{name} must not override hw:{name} of the flavor. Set one of them '
                           'only.')
        return image if flavor is None else flavor

    def node_keys(self) -> dict[str, set[str]]:
        """Return {'cpus' or 'mem': numbers (as text) of the nodes for which the flavor or image has the key}."""
        found: dict[str, set[str]] = {'cpus': set(), 'mem': set()}
        for key in (*self._specs, *self._properties):
            match = _PER_NODE.match(key)
            if match:
                found[match[1]].add(match[2])
        return found


def _text(value: object) -> str | None:
    text = None if value is None else str(value).strip()
    return text or None


def _invalid(reason: str) -> exception.InvalidInput:
    return exception.InvalidInput(reason=reason)


def topology(flavor: Flavor, properties: Mapping[str, str] | None) -> numa.GuestTopology | None:
    """Return the requested GuestTopology, not yet pinned, or None.

    A guest without nodes but with pinned CPUs, a page size or real-time CPUs gets one node.
    :param properties: properties of the image
    :raises InvalidInput: values are malformed or contradict each other
    """
    requested, vcpus = Requested(flavor.get('extra_specs'), properties), flavor['vcpus']
    policy = _cpu_policy(requested, flavor)
    threads = requested.agreed('cpu_thread_policy', THREAD_POLICIES)
    emulator = requested.agreed('emulator_threads_policy', EMULATOR_POLICIES)
    if threads and policy == 'shared':
        raise _invalid('cpu_thread_policy needs the cpu_policy dedicated or mixed.')
    if emulator == 'isolate' and policy == 'shared':
        raise _invalid('emulator_threads_policy isolate needs the cpu_policy dedicated or mixed.')
    realtime = _realtime(requested, vcpus, policy, emulator)
    pinned = _pinned(requested, vcpus, policy, realtime)
    pages = _page_size(requested)
    cells = _cells(requested, vcpus, flavor['memory_mb'], needed=bool(pinned or pages))
    if cells is None:
        return None
    return numa.GuestTopology(
        cells=tuple(numa.GuestCell(id=number, cpuset=cpuset, memory=memory, pcpuset=cpuset & pinned, pagesize=pages)
                    for number, (cpuset, memory) in enumerate(cells)),
        cpu_policy=policy, cpu_thread_policy=threads, emulator_threads_policy=emulator, realtime=realtime)


def concerns(flavor: Flavor, properties: Mapping[str, str] | None) -> bool:
    """Tell whether topology() may return a topology: a cheap first check, because most servers request no topology."""
    return any(key.startswith(_KEYS) for key in (*(flavor.get('extra_specs') or ()), *(properties or ())))


def _cpu_policy(requested: Requested, flavor: Flavor) -> str:
    """Return the CPU policy; ``resources:PCPU`` in the flavor also requests the policy dedicated.

    Flavor and image are combined as in the policy matrix of the specification
    https://specs.openstack.org/openstack/nova-specs/specs/victoria/implemented/use-pcpu-vcpu-in-one-instance.html.
    """
    policy = requested.agreed('cpu_policy', CPU_POLICIES, prevails='dedicated')
    dedicated = _text((flavor.get('extra_specs') or {}).get(DEDICATED))
    if dedicated is None:
        return policy or 'shared'
    if policy is not None:
        raise _invalid(f'cpu_policy and {DEDICATED} cannot be combined. Set one of them only.')
    if _positive(DEDICATED, dedicated) != flavor['vcpus']:
        raise _invalid(f"{DEDICATED} is {dedicated}; it must be the flavor's number of vCPUs, {flavor['vcpus']}.")
    return 'dedicated'


def _page_size(requested: Requested) -> int | str | None:
    """Return 'small', 'large', 'any', a number (KiB) or None. A size in the image needs large or any in the flavor."""
    found = []
    for value in (requested.flavor('mem_page_size'), requested.image('mem_page_size')):
        try:
            found.append(value and cpus.page_size(value))
        except ValueError as error:
            raise _invalid(f'mem_page_size: {error}.')
    flavor, image = found
    if image and flavor not in ('large', 'any'):
        raise _invalid(f'the image property hw_mem_page_size is {image!r}, but hw:mem_page_size of the flavor is '
                       f'{flavor!r}. An image may choose a size only if the flavor has large or any.')
    return image or flavor


def pci_policy(flavor: Flavor, properties: Mapping[str, str] | None) -> str | None:
    """Return the NUMA affinity policy of all PCI devices (one of PCI_POLICIES); None: each alias's policy applies."""
    return Requested(flavor['extra_specs'], properties).agreed('pci_numa_affinity_policy', PCI_POLICIES)


def _realtime(requested: Requested, vcpus: int, policy: str, emulator: str | None) -> frozenset[int]:
    """Return the real-time vCPUs, empty if not requested.

    Without an emulator_threads_policy, at least one vCPU must not be real-time. See
    https://docs.openstack.org/nova/latest/admin/real-time.html.
    """
    if (requested.flavor('cpu_realtime') or '').lower() not in TRUE:
        return frozenset()
    if policy == 'shared':
        raise _invalid('cpu_realtime needs the cpu_policy dedicated or mixed.')
    mask = requested.image('cpu_realtime_mask') or requested.flavor('cpu_realtime_mask')
    if mask and requested.flavor('cpu_dedicated_mask'):
        raise _invalid('cpu_dedicated_mask and cpu_realtime_mask cannot be combined. Set one of them only.')
    if mask:
        found = _masked('cpu_realtime_mask', mask, vcpus)
    elif policy == 'mixed' and (dedicated := requested.flavor('cpu_dedicated_mask')):
        found = _masked('cpu_dedicated_mask', dedicated, vcpus)
    else:
        found = _all(vcpus)
    if not found:
        raise _invalid('cpu_realtime_mask excludes all CPUs; keep at least one.')
    if len(found) == vcpus and not emulator:
        raise _invalid('cpu_realtime needs a CPU without real-time priority: exclude one with cpu_realtime_mask, or '
                       'set an emulator_threads_policy.')
    return found


def _pinned(requested: Requested, vcpus: int, policy: str, realtime: frozenset[int]) -> frozenset[int]:
    """Return the pinned vCPUs. With the policy mixed, only the flavor may set their mask."""
    mask = requested.flavor('cpu_dedicated_mask')
    if policy != 'mixed':
        if mask:
            raise _invalid('cpu_dedicated_mask needs the cpu_policy mixed.')
        return _all(vcpus) if policy == 'dedicated' else frozenset()
    if not mask and not realtime:
        raise _invalid('the cpu_policy mixed needs cpu_dedicated_mask or cpu_realtime_mask.')
    pinned = _masked('cpu_dedicated_mask', mask, vcpus) if mask else realtime
    if not 0 < len(pinned) < vcpus:
        raise _invalid('the cpu_policy mixed needs both pinned and shared CPUs. Change the mask.')
    return pinned


def _all(vcpus: int) -> frozenset[int]:
    try:
        return cpus.guest(vcpus)
    except ValueError as error:
        raise _invalid(f'{error}.')


def _masked(name: str, text: str, vcpus: int) -> frozenset[int]:
    try:
        return cpus.mask(text, vcpus)
    except ValueError as error:
        raise _invalid(f'{name}: {error}.')


def _cells(requested: Requested, vcpus: int, memory_mb: int, needed: bool) -> list[tuple[frozenset[int], int]] | None:
    """Return [(vCPUs, MiB)] of the guest's nodes, or None if a guest needs no nodes."""
    text = requested.flavor_first('numa_nodes')
    keys = requested.node_keys()
    if text is None:
        if keys['cpus'] | keys['mem']:
            raise _invalid('numa_cpus and numa_mem need numa_nodes.')
        return [(_all(vcpus), memory_mb)] if needed else None
    everything, nodes = _all(vcpus), _positive('numa_nodes', text)
    if nodes > min(vcpus, MAX_NODES):
        raise _invalid(f'numa_nodes is {nodes}; it may be at most {min(vcpus, MAX_NODES)} for {vcpus} vCPUs.')
    if not keys['cpus'] | keys['mem']:
        return _even(nodes, vcpus, memory_mb)
    names = {str(number) for number in range(nodes)}
    for kind, numbers in keys.items():
        if numbers != names:
            raise _invalid(f'set numa_cpus and numa_mem for all nodes, 0 to {nodes - 1}, or for none; '
                           f'numa_{kind} is set for: {", ".join(sorted(numbers)) or "none"}.')
    return _given(requested, nodes, everything, memory_mb)


def _even(nodes: int, vcpus: int, memory_mb: int) -> list[tuple[frozenset[int], int]]:
    if vcpus % nodes or memory_mb % nodes:
        raise _invalid(f'{vcpus} vCPUs and {memory_mb} MiB cannot be divided evenly among {nodes} nodes; give '
                       'numa_cpus and numa_mem for each.')
    each = vcpus // nodes
    return [(frozenset(range(number * each, (number + 1) * each)), memory_mb // nodes) for number in range(nodes)]


def _given(requested: Requested, nodes: int, everything: frozenset[int],
           memory_mb: int) -> list[tuple[frozenset[int], int]]:
    cells: list[tuple[frozenset[int], int]] = []
    taken: set[int] = set()
    for number in range(nodes):
        name = f'numa_cpus.{number}'
        text = requested.flavor_first(name)
        try:
            cpuset = cpus.parse(text or '')
        except ValueError as error:
            raise _invalid(f'{name}: {error}.')
        memory = _positive(f'numa_mem.{number}', requested.flavor_first(f'numa_mem.{number}') or '')
        if not cpuset:
            raise _invalid(f'{name} names no CPU.')
        if cpuset & taken:
            raise _invalid(f'{name} names CPUs of another node: {cpus.show(cpuset & taken)}.')
        taken |= cpuset
        cells.append((cpuset, memory))
    if taken != everything:
        raise _invalid(f'numa_cpus must name all vCPUs, {cpus.show(everything)}, but names {cpus.show(taken)}.')
    if sum(memory for _, memory in cells) != memory_mb:
        raise _invalid(f'numa_mem adds up to {sum(memory for _, memory in cells)} MiB; it must add up to {memory_mb}, '
                       'the memory of the flavor.')
    return cells


def _positive(name: str, text: str) -> int:
    if not re.fullmatch('0*[1-9][0-9]{0,11}', text):
        raise _invalid(f'{name} is {text!r}; it must be a positive integer.')
    return int(text)
