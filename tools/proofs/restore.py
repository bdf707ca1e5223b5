#!/usr/bin/env python3
"""Proves that restored databases harm no guest, and that the rows follow the guests when they are settled.

usage: NOVA_TEST_GUEST_DIR=DIRECTORY tools/proofs/restore.py [--rounds 3] [--ignore-generations]       as root

Two hosts with a libvirt each run real guests; one of them writes numbered blocks to a volume that is exported to it.
In each round the databases are copied; then a guest moves, a server is deleted, another one is created, and a volume
is attached. The copy comes back, and everything starts at once. The checker compares the processes of the guests with
those before, and reads the blocks; then the differences are settled, and the rows are compared with the guests
(nova/tests/integration/restored.py).

With --ignore-generations the computes take every row for true. The checker has to find what they do then.

Prints a line for each round, and a line for each violation. Exits with 1 when there is one, or, with
--ignore-generations, when there is none.
"""
import argparse
import pathlib
import sys
import time

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

from nova.tests.integration import restored


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--ignore-generations', action='store_true')
    given = parser.parse_args()
    violations = 0
    for number in range(given.rounds):
        began = time.monotonic()
        with restored.fleet() as fleet:
            found = restored.run(fleet, given.ignore_generations)
        violations += len(found)
        for sentence in found:
            print(f'VIOLATION {sentence}', flush=True)
        print(f'round {number + 1}: {len(found)} violations, {time.monotonic() - began:.0f} s', flush=True)
    return int(bool(violations) != given.ignore_generations)


if __name__ == '__main__':
    sys.exit(main())
