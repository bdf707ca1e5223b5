"""CPU monitors of a host: metrics that the scheduler can weigh.

* cpu.frequency (MHz)
* cpu.user.time, cpu.kernel.time, cpu.idle.time and cpu.iowait.time (ns since boot)
* the same with percent instead of time, and cpu.percent of all but idle and iowait (0 to 100, since the last sample)
"""
import os
from typing import Any

from nova import exception

PARTS = ('user', 'kernel', 'idle', 'iowait')
CPU = 'cpu.virt_driver'
NAMES = (CPU,)


def check(names: list[str]) -> tuple[str, ...]:
    """Return the monitors that ``compute_monitors`` names.

    :raises InvalidOption: a name is not that of a monitor
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


class CpuMonitor:
    """CPU metrics of one host between two samples."""

    def __init__(self) -> None:
        self._last = dict.fromkeys(PARTS, 0)
        self._metrics: list[Any] = []

    def metrics(self, stats: dict[str, int], timestamp: str) -> list[dict[str, Any]]:
        """Return [{'name', 'value', 'source', 'timestamp'}], or the previous metrics if no value has changed.

        :param stats: result of ``local_cpu_stats``
        :param timestamp: current time as text
        """
        passed = {part: stats[part] - self._last[part] for part in PARTS}
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
