"""How slow this machine is at the moment, for tests that measure time beside others."""
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

STEP_S = 0.01
WATCH = f"""
import sys, time
before = time.monotonic()
print(0, flush=True)
while True:
    time.sleep({STEP_S})
    now = time.monotonic()
    if now - before > {2 * STEP_S}:
        print(now - before - {STEP_S}, flush=True)
    before = now
"""


def slowness(rounds=5, seconds=0.04):
    """Seconds that pass for a second of processor time; 1 on a machine that does nothing else."""
    found = []
    for _ in range(rounds):
        began, before = time.perf_counter(), time.process_time()
        while time.process_time() - before < seconds:
            pass
        found.append((time.perf_counter() - began) / (time.process_time() - before))
    return max(statistics.median(found), 1.0)


class Stalls:
    """A process beside the measured ones that does nothing but wait: how late it woke up."""

    def __init__(self):
        self._directory = tempfile.TemporaryDirectory()
        self._file = pathlib.Path(self._directory.name, 'late')
        with self._file.open('w') as file:
            self.process = subprocess.Popen([sys.executable, '-S', '-c', WATCH], stdout=file)

    def longest(self):
        """Seconds so far."""
        return max([float(line) for line in self._file.read_text().split()], default=0.0)

    def end(self):
        self.process.kill()
        self.process.wait()
        self._directory.cleanup()
