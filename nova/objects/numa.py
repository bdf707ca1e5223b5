"""Topologies of hosts and guests: NUMA cells with CPUs, memory and pages.

Both are stored and sent as JSON of the form ``{"nova_object.name": …, "nova_object.data": {…}}``. A default value is
omitted unless other readers of this form need the value. ``load_host`` and ``load_guest`` accept text or decoded JSON,
and ignore the keys version and namespace, which other programs write.
"""
import dataclasses
import functools
import re
from typing import Any

from nova import utils
from nova.json_types import JsonObject

NAME, DATA = 'nova_object.name', 'nova_object.data'

# JSON text that this module stores for a HostTopology: start, end, and separator of two cells
_BEGIN, _END = f'{{"{NAME}":"NUMATopology","{DATA}":{{"cells":[', ']}}'
_BETWEEN = re.compile(rf',{{(?="{re.escape(NAME)}":"NUMACell")')


@dataclasses.dataclass(frozen=True)
class Pages:
    """The memory pages of one size in a host cell.

    size_kb    KiB
    total      number of pages
    reserved   pages that guests cannot use
    used       pages of guests
    """

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        return self.total - self.used - self.reserved


@dataclasses.dataclass(frozen=True)
class HostCell:
    """One NUMA node of a host.

    cpuset        CPUs shared by guests
    pcpuset       CPUs reserved for pinning, or None if guests are pinned to unused CPUs of ``cpuset``
    siblings      for each core with several threads, the set of its CPUs
    memory        MiB, large pages included
    cpu_usage     vCPUs of guests on shared CPUs
    memory_usage  MiB of guests
    pinned_cpus   CPUs pinned for guests, and the idle siblings of isolated CPUs
    socket        number of the processor package, or None if unknown
    distances     {cell id: relative distance, 10 for the cell itself}, empty if unknown
    """

    id: int
    cpuset: frozenset[int]
    memory: int
    cpu_usage: int = 0
    memory_usage: int = 0
    pinned_cpus: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    mempages: tuple[Pages, ...] = ()
    pcpuset: frozenset[int] | None = None
    socket: int | None = None
    distances: dict[int, int] = dataclasses.field(default_factory=dict)

    @property
    def cpus(self) -> frozenset[int]:
        """All CPUs for guests."""
        return self.cpuset | (self.pcpuset or frozenset())

    @property
    def pinnable(self) -> frozenset[int]:
        """CPUs for pinning, including CPUs that are already pinned."""
        return self.cpuset if self.pcpuset is None else self.pcpuset


@dataclasses.dataclass(frozen=True)
class HostTopology:
    cells: tuple[HostCell, ...]

    def cell(self, number: int | None) -> HostCell | None:
        """Return the HostCell with this id, or None."""
        return next((cell for cell in self.cells if cell.id == number), None)


@dataclasses.dataclass(frozen=True)
class GuestCell:
    """One NUMA node of a guest; its number in the guest is its position in the topology.

    id            id of the host cell after the placement; before the placement, number of the guest cell
    cpuset        all vCPUs of the cell
    memory        MiB
    pcpuset       pinned vCPUs of the cell
    pagesize      KiB; before the placement also 'small', 'large' or 'any'; None: any
    cpu_topology  {'sockets', 'cores', 'threads'} of the pinned vCPUs
    cpu_pinning   {vCPU: CPU of the host} after the placement
    reserved_cpus CPUs of the host for the emulator's threads
    """

    id: int
    cpuset: frozenset[int]
    memory: int
    pcpuset: frozenset[int] = frozenset()
    pagesize: int | str | None = None
    cpu_topology: dict[str, Any] | None = None
    cpu_pinning: dict[int, int] | None = None
    reserved_cpus: frozenset[int] = frozenset()

    @property
    def shared(self) -> frozenset[int]:
        """The vCPUs that are not pinned."""
        return self.cpuset - self.pcpuset


@dataclasses.dataclass(frozen=True)
class GuestTopology:
    """NUMA nodes of a guest.

    cpu_policy               'dedicated', 'shared', 'mixed'
    cpu_thread_policy        'prefer', 'isolate', 'require'; None: prefer
    emulator_threads_policy  'isolate', 'share'; None: the emulator's threads run on the CPUs of the vCPUs
    realtime                 vCPUs that are scheduled as real-time threads
    """

    cells: tuple[GuestCell, ...]
    instance_uuid: str | None = None
    cpu_policy: str = 'shared'
    cpu_thread_policy: str | None = None
    emulator_threads_policy: str | None = None
    realtime: frozenset[int] = frozenset()


# ---- stored form -------------------------------------------------------

def dump_host(topology: HostTopology) -> JsonObject:
    """Return a HostTopology as JSON values."""
    return _object('NUMATopology', {'cells': [_host_cell(cell) for cell in topology.cells]})


def load_host(stored: dict[str, Any] | str) -> HostTopology:
    """Parse a HostTopology from text or JSON values."""
    return HostTopology(tuple(_load_host_cell(_data(cell)) for cell in _data(_decoded(stored))['cells']))


def cell_texts(stored: str) -> list[str]:
    """Return the cells of a stored HostTopology as texts for load_cell(), without parsing if possible."""
    if stored.startswith(_BEGIN) and stored.endswith(_END):
        cells = stored[len(_BEGIN):-len(_END)]
        return _BETWEEN.sub('\n{', cells).split('\n') if cells else []
    return [utils.dump_json(cell) for cell in _data(_decoded(stored))['cells']]


def load_cell(text: str) -> HostCell:
    """Parse a HostCell from one of the results of cell_texts()."""
    return _load_host_cell(_data(utils.load_json(text)))


def text_of_host(topology: HostTopology | None) -> str | None:
    """Return the stored text of a HostTopology, or None for None."""
    return None if topology is None else utils.dump_json(dump_host(topology))


def text_of_guest(topology: GuestTopology | None) -> str | None:
    """Return the stored text of a GuestTopology, or None for None."""
    return None if topology is None else utils.dump_json(dump_guest(topology))


def dump_guest(topology: GuestTopology) -> JsonObject:
    """Return a GuestTopology as JSON values."""
    data: dict[str, Any] = {
        'instance_uuid': topology.instance_uuid, 'cells': [_guest_cell(cell) for cell in topology.cells]}
    if topology.cpu_policy != 'shared':
        data['cpu_policy'] = topology.cpu_policy
    for name in ('cpu_thread_policy', 'emulator_threads_policy'):
        if getattr(topology, name) is not None:
            data[name] = getattr(topology, name)
    if topology.realtime:
        data['realtime'] = sorted(topology.realtime)
    return _object('InstanceNUMATopology', data)


def load_guest(stored: str) -> GuestTopology:
    """Parse a GuestTopology from text or JSON values."""
    data = _data(_decoded(stored))
    return GuestTopology(
        cells=tuple(_load_guest_cell(_data(cell)) for cell in data['cells']),
        instance_uuid=data.get('instance_uuid'), cpu_policy=data.get('cpu_policy') or 'shared',
        cpu_thread_policy=data.get('cpu_thread_policy'),
        emulator_threads_policy=data.get('emulator_threads_policy'), realtime=frozenset(data.get('realtime') or ()))


def dedicated(stored: str | None) -> frozenset[int]:
    """Return the pinned vCPUs of a stored GuestTopology, empty for None."""
    return frozenset() if stored is None else frozenset().union(*(cell.pcpuset for cell in load_guest(stored).cells))


def shown(topology: GuestTopology, placed: bool = True) -> dict[str, Any]:
    """Return a GuestTopology in the form of the compute API's ``/servers/{id}/topology`` (2.78).

    :param placed: whether the guest is on a host; otherwise values of a former host are omitted
    """
    sizes = {cell.pagesize for cell in topology.cells if placed}
    size = sizes.pop() if len(sizes) == 1 else None
    return {'nodes': [_shown_cell(cell, placed) for cell in topology.cells],
            'pagesize_kb': size if isinstance(size, int) else None}


def _shown_cell(cell: GuestCell, placed: bool) -> dict[str, Any]:
    found = {'vcpu_set': sorted(cell.cpuset), 'siblings': _sibling_vcpus(cell) if placed else [],
             'memory_mb': cell.memory}
    if placed:
        found['host_node'] = cell.id
        found['cpu_pinning'] = {str(vcpu): cpu for vcpu, cpu in sorted((cell.cpu_pinning or {}).items())}
    return found


def _sibling_vcpus(cell: GuestCell) -> list[list[int]]:
    """Return lists of the cell's vCPUs that are threads of one guest core."""
    threads = (cell.cpu_topology or {}).get('threads', 1)
    vcpus = sorted(cell.cpuset)
    return [vcpus[first:first + threads] for first in range(0, len(vcpus), threads)] if threads > 1 else []


def _object(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {NAME: name, DATA: data}


def _data(value: dict[str, Any]) -> dict[str, Any]:
    return value[DATA]


def _decoded(stored: dict[str, Any] | str) -> dict[str, Any]:
    return utils.load_json(stored) if isinstance(stored, (str, bytes)) else stored


def _host_cell(cell: HostCell) -> dict[str, Any]:
    pages = [{'total': pages.total, 'used': pages.used, 'size_kb': pages.size_kb,
              **({'reserved': pages.reserved} if pages.reserved else {})} for pages in cell.mempages]
    data = {'cpu_usage': cell.cpu_usage, 'memory_usage': cell.memory_usage, 'cpuset': sorted(cell.cpuset),
            'pinned_cpus': sorted(cell.pinned_cpus), 'siblings': sorted(sorted(group) for group in cell.siblings),
            'memory': cell.memory, 'mempages': [_object('NUMAPagesTopology', each) for each in pages], 'id': cell.id}
    if cell.pcpuset is not None:
        data['pcpuset'] = sorted(cell.pcpuset)
    if cell.socket is not None:
        data['socket'] = cell.socket
    if cell.distances:
        data['distances'] = {str(number): distance for number, distance in sorted(cell.distances.items())}
    return _object('NUMACell', data)


@functools.lru_cache(maxsize=1024)
def _siblings(groups: tuple[tuple[int, ...], ...]) -> tuple[frozenset[int], ...]:
    """Return the sets of sibling CPUs of a host, cached: hosts with equal hardware share one object."""
    return tuple(sorted(map(frozenset, groups), key=min))


def _load_host_cell(data: dict[str, Any]) -> HostCell:
    pcpuset = data.get('pcpuset')
    return HostCell(
        id=data['id'], cpuset=frozenset(data['cpuset']), memory=data['memory'], cpu_usage=data['cpu_usage'],
        memory_usage=data['memory_usage'], pinned_cpus=frozenset(data['pinned_cpus']),
        siblings=_siblings(tuple(map(tuple, data['siblings']))),
        mempages=tuple(Pages(each['size_kb'], each['total'], each['used'], each.get('reserved', 0))
                       for each in map(_data, data['mempages'])),
        pcpuset=None if pcpuset is None else frozenset(pcpuset), socket=data.get('socket'),
        distances={int(number): distance for number, distance in (data.get('distances') or {}).items()})


def _guest_cell(cell: GuestCell) -> dict[str, Any]:
    topology = cell.cpu_topology and _object('VirtCPUTopology', dict(cell.cpu_topology))
    pinning = cell.cpu_pinning if not cell.cpu_pinning else {
        str(vcpu): cpu for vcpu, cpu in sorted(cell.cpu_pinning.items())}
    data = {'cpu_topology': topology, 'pagesize': cell.pagesize, 'cpuset': sorted(cell.cpuset),
            'memory': cell.memory, 'cpu_pinning_raw': pinning, 'id': cell.id}
    if cell.pcpuset:
        data['pcpuset'] = sorted(cell.pcpuset)
    if cell.reserved_cpus:
        data['cpuset_reserved'] = sorted(cell.reserved_cpus)
    return _object('InstanceNUMACell', data)


def _load_guest_cell(data: dict[str, Any]) -> GuestCell:
    topology, pinning = data.get('cpu_topology'), data.get('cpu_pinning_raw')
    return GuestCell(
        id=data['id'], cpuset=frozenset(data['cpuset']), memory=data['memory'],
        pcpuset=frozenset(data.get('pcpuset') or ()), pagesize=data.get('pagesize'),
        cpu_topology=topology and dict(_data(topology)),
        cpu_pinning=pinning and {int(vcpu): cpu for vcpu, cpu in pinning.items()},
        reserved_cpus=frozenset(data.get('cpuset_reserved') or ()))
