#!/usr/bin/env python3
"""Prints what each daemon has resident when its modules are loaded and its options registered, before it serves.

usage: tools/bench/loaded.py [DAEMON]...

MB of a million bytes, the least of three processes: all that is resident, what no other process shares (files that
are mapped are shared with other daemons of a host), and how many modules there are. The modules are those of
nova/tests/unit/test_loaded_modules.py.
"""
import argparse
import pathlib
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TREE)]

from nova.tests.support import loaded_modules as loaded

PROCESSES = 3
COUNT = """
import pathlib
lines = dict(line.split(':', 1) for line in pathlib.Path('/proc/self/smaps_rollup').read_text().splitlines()[1:])
print(*(int(lines[name].split()[0]) * 1024 for name in ('Rss', 'Anonymous')), len(sys.modules))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('daemons', nargs='*', default=list(loaded.DAEMONS), metavar='DAEMON')
    for daemon in parser.parse_args().daemons:
        modules, _libraries = loaded.DAEMONS[daemon]
        least = min(counted([*loaded.COMMON, *modules]) for _number in range(PROCESSES))
        print(f'{daemon:16} {least[0] / 1e6:6.1f} MB resident, {least[1] / 1e6:6.1f} MB of its own, '
              f'{least[2]:5} modules', flush=True)


def counted(modules):
    """(bytes resident, bytes that no file has, modules) of a process that loads these modules."""
    code = loaded.LOADS.rpartition('found =')[0] + COUNT
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code, *modules], check=True, capture_output=True,
                          text=True, cwd=TREE)
    return tuple(int(word) for word in done.stdout.split())


if __name__ == '__main__':
    main()
