"""CPU monitors of a host: metrics that the scheduler can weigh.

* cpu.frequency (MHz)
* cpu.user.time, cpu.kernel.time, cpu.idle.time and cpu.iowait.time (ns since boot)
* cpu.user.percent, …, cpu.iowait.percent, and cpu.percent (user and kernel): % of the time since the last sample
"""
import os
import pathlib
from typing import Any

from nova import exception
from nova.objects.counters import Counters

PARTS = ('user', 'kernel', 'idle', 'iowait')
CPU = 'cpu.virt_driver'
NAMES = (CPU,)
SECTOR = 512                 # bytes, the unit of /sys/block/*/stat


def check(names: list[str]) -> tuple[str, ...]:
    """Return the monitors that ``compute_monitors`` names.

    :raises InvalidOption: no monitor has one of the names
    """
    for name in names:
        if name not in NAMES:
            raise exception.InvalidOption(
                f'compute_monitors: there is no monitor {name}; there are {", ".join(NAMES)}.')
    return tuple(names)


def local_cpu_stats() -> dict[str, int]:
    """Return {'user', 'kernel', 'idle', 'iowait': ns since boot, 'frequency': MHz} of this machine's processors."""
    tick = 1_000_000_000 // os.sysconf('SC_CLK_TCK')
    with open('/proc/stat') as file:
        user, nice, system, idle, iowait, irq, softirq = (int(part) for part in file.readline().split()[1:8])
    frequency = 0
    with open('/proc/cpuinfo') as file:
        for line in file:
            if line.startswith('cpu MHz'):
                frequency = int(float(line.partition(':')[2]))
                break
    return {'user': (user + nice) * tick, 'kernel': (system + irq + softirq) * tick, 'idle': idle * tick,
            'iowait': iowait * tick, 'frequency': frequency}


def local_counters() -> Counters:
    """Return the usage of the CPU, memory, disks and network interfaces of this machine; counters start at boot."""
    cpu = local_cpu_stats()
    with open('/proc/meminfo') as file:
        memory = {name: int(words.split()[0]) for name, _, words in (line.partition(':') for line in file)}
    disks = [[int(word) for word in (path / 'stat').read_text().split()] for path in _devices('/sys/block')]
    reads, sectors_read, writes, sectors_written = (sum(disk[place] for disk in disks) for place in (0, 2, 4, 6))
    ports = _devices('/sys/class/net')
    traffic = [sum(int((port / 'statistics' / name).read_text()) for port in ports)
               for name in ('rx_bytes', 'tx_bytes', 'rx_packets', 'tx_packets')]
    return Counters('', 1024 * (memory['MemTotal'] - memory['MemAvailable']), cpu['user'] + cpu['kernel'],
                    SECTOR * sectors_read, SECTOR * sectors_written, reads, writes, *traffic)


class Usage:
    """Counters of the guests and nodes of a driver. This base class returns only counters of the host."""

    def __init__(self, host: str) -> None:
        self.host = host

    def guests(self) -> dict[str, Counters]:
        """Return {uuid: Counters} of the running guests, if the driver can measure them."""
        return {}

    def nodes(self) -> dict[str, Counters]:
        """Return {node: Counters} of the nodes that the driver can measure."""
        return {self.host: local_counters()}


def _devices(directory: str) -> list[pathlib.Path]:
    """Return the directories of hardware devices, without loop devices, partitions, bridges and taps."""
    return [path.parent for path in pathlib.Path(directory).glob('*/device')]


class CpuMonitor:
    """CPU metrics of one host, calculated from two samples."""

    def __init__(self) -> None:
        self._last = dict.fromkeys(PARTS, 0)
        self._metrics: list[Any] = []

    def metrics(self, stats: dict[str, int], timestamp: str) -> list[dict[str, Any]]:
        """Return [{'name', 'value', 'source', 'timestamp'}], or the previous list if no value has changed.

        :param stats: result of ``local_cpu_stats``
        :param timestamp: current time as text
        """
        passed = {part: stats[part] - self._last[part] for part in PARTS}
        passed['iowait'] = max(0, passed['iowait'])      # iowait may decrease without a reboot: proc_stat(5)
        if sum(passed.values()) <= 0 or min(passed.values()) < 0:        # no time has passed, or the host rebooted
            passed = {part: stats[part] for part in PARTS}
        self._last = {part: stats[part] for part in PARTS}
        total = sum(passed.values()) or 1
        percent = {part: round(100 * passed[part] / total, 1) for part in PARTS}
        values = {'cpu.frequency': stats['frequency'], **{f'cpu.{part}.time': stats[part] for part in PARTS},
                  **{f'cpu.{part}.percent': percent[part] for part in PARTS},
                  'cpu.percent': round(percent['user'] + percent['kernel'], 1)}
        if values != {each['name']: each['value'] for each in self._metrics}:
            self._metrics = [{'name': name, 'value': value, 'source': CPU, 'timestamp': timestamp}
                             for name, value in values.items()]
        return self._metrics
