#!/usr/bin/env python3
"""Runs tools/test.sh on a blank root of a Debian release, with the release's own Python and packages.

usage: tools/proofs/release.py debian-12|debian-13 [--keep] [arguments of tools/test.sh]      as root

The root is that of tools/debian_root.py. The whole list of long tests runs (NOVA_TEST_TURN=all), unless the caller's
environment says another turn. Needs about 12 GB in TMPDIR.

Prints what tools/test.sh prints, then the release and the seconds that the run took; exits as tools/test.sh does.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import debian_root


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('release', choices=sorted(debian_root.fresh_machine.RELEASES))
    parser.add_argument('--keep', action='store_true', help='keep the root, and print where it is')
    given, arguments = parser.parse_known_args()
    began = time.monotonic()
    with debian_root.entered(given.release, keep=given.keep, environ={'NOVA_TEST_TURN': 'all'}) as run:
        code = run(['./tools/test.sh', *arguments])
        if not arguments:
            code = run(['./tools/test.sh', 'long']) or code
    print(f'{given.release}: {"passed" if code == 0 else f"failed with {code}"} after '
          f'{time.monotonic() - began:.0f} s', flush=True)
    return code


if __name__ == '__main__':
    sys.exit(main())
