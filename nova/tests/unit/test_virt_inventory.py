"""What a host finds out about itself: traits of its processor, and how busy that is."""
import pytest

from nova.virt import monitors
from nova.virt import traits


@pytest.mark.parametrize(('flags', 'found'), [
    (['aes', 'avx2', 'sse4_1', 'pni'], ['AESNI', 'AVX2', 'SSE3', 'SSE41']),       # as the kernel writes them
    (['sse4.1', 'sha-ni', 'pclmuldq'], ['CLMUL', 'SHA', 'SSE41']),                # as libvirt does
    (['neon', ''], []),
])
def test_cpu_flags_become_traits(flags, found):
    assert traits.of(flags, {}) == ['HW_CPU_X86_' + name for name in found]


def test_driver_capabilities_become_traits():
    assert traits.of([], {'extend_volume': True, 'interfaces': False, 'other': True}) == ['COMPUTE_VOLUME_EXTEND']
    everything = traits.of(traits._X86, dict.fromkeys(traits._CAPABILITIES, True))
    assert all(traits.NAME.fullmatch(name) for name in everything)


def test_cpu_flags_and_statistics_of_this_machine_are_read():
    flags, stats = traits.local_flags(), monitors.local_cpu_stats()
    assert flags and all(flag.islower() or flag[0].isdigit() for flag in flags)
    assert stats['user'] > 0 and stats['idle'] > 0 and set(stats) == {*monitors.PARTS, 'frequency'}
    later = monitors.local_cpu_stats()
    assert all(later[part] >= stats[part] for part in ('user', 'kernel'))


def values(metrics):
    return {each['name']: each['value'] for each in metrics}


def test_percents_are_those_since_the_last_look():
    monitor = monitors.CpuMonitor()
    first = {'user': 100, 'kernel': 50, 'idle': 850, 'iowait': 0, 'frequency': 2000}
    assert values(monitor.metrics(first, 't1'))['cpu.percent'] == 15.0
    second = {'user': 190, 'kernel': 50, 'idle': 850, 'iowait': 10, 'frequency': 1800}
    found = monitor.metrics(second, 't2')
    assert values(found)['cpu.user.percent'] == 90.0 and values(found)['cpu.iowait.percent'] == 10.0
    assert values(found)['cpu.percent'] == 90.0 and values(found)['cpu.frequency'] == 1800
    assert {each['timestamp'] for each in found} == {'t2'}
    # the kernel may take back waits for I/O
    third = {'user': 200, 'kernel': 60, 'idle': 930, 'iowait': 5, 'frequency': 1800}
    found = values(monitor.metrics(third, 't3'))
    assert (found['cpu.percent'], found['cpu.idle.percent'], found['cpu.iowait.percent']) == (20.0, 80.0, 0.0)
    # a host that was started again counts from its start
    assert values(monitor.metrics(first, 't4'))['cpu.percent'] == 15.0


def test_unchanged_metrics_keep_their_timestamp():
    monitor = monitors.CpuMonitor()
    stats = {'user': 100, 'kernel': 50, 'idle': 850, 'iowait': 0, 'frequency': 2000}
    first = monitor.metrics(stats, 't1')
    assert monitor.metrics(stats, 't2') == first
    assert {each['timestamp'] for each in first} == {'t1'}


def test_cpu_monitor_without_samples_reports_0_percent():
    nothing = dict.fromkeys((*monitors.PARTS, 'frequency'), 0)
    assert values(monitors.CpuMonitor().metrics(nothing, 't'))['cpu.percent'] == 0
