"""nova.tests.machine measures how slow the machine is."""
import os
import signal
import time

from nova.tests import machine
from nova.tests.support import waiting


def test_slowness_is_wall_clock_by_processor_time(monkeypatch):
    assert 1 <= machine.slowness() < 1000
    real = time.process_time
    began = real()
    monkeypatch.setattr(machine.time, 'process_time', lambda: real() - began)
    monkeypatch.setattr(machine.time, 'perf_counter', lambda: 3 * (real() - began))      # three times as slow
    assert 2.5 < machine.slowness() < 3.5


def test_stall_of_the_machine_is_seen():
    stalls = machine.Stalls()
    try:
        waiting.wait_for(lambda: stalls._file.stat().st_size, 20, 'the watcher')
        os.kill(stalls.process.pid, signal.SIGSTOP)
        time.sleep(0.6)
        os.kill(stalls.process.pid, signal.SIGCONT)
        assert waiting.wait_for(lambda: stalls.longest() >= 0.5 and stalls.longest(), 20, 'the stall') < 20
    finally:
        stalls.end()
