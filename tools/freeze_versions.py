#!/usr/bin/env python3
"""Write what this release speaks into nova/tests/older_release/<VERSION>.json, for the contract tests.

    tools/freeze_versions.py             # after a row of an interface or a field of an object was added, with a version

A release that is tagged is not written again: its successor raises VERSION in nova/rpc/versions.py first.
"""
import sys

from nova.rpc import versions
from nova.tests import older_release
from nova.tests.older_release import manifest


def main():
    path = older_release.DIRECTORY / f'{versions.VERSION}.json'
    path.write_text(manifest.dump(manifest.current()))
    print(path)


if __name__ == '__main__':
    sys.exit(__doc__ if sys.argv[1:] else main())
