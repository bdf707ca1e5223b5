#!/usr/bin/env python3
"""Write what this release speaks and stores into nova/tests/older_release, for the contract tests.

    tools/freeze_versions.py             # after a row of an interface, or a field of an object or record, was added

<VERSION>.json has interfaces and objects. records.json has the formats of records on disks, in each version.

A release that is tagged is not written again: its successor raises VERSION in nova/rpc/versions.py first.
"""
import sys

from nova.rpc import versions
from nova.tests import older_release
from nova.tests.older_release import manifest
from nova.tests.older_release import records


def main():
    path = older_release.DIRECTORY / f'{versions.VERSION}.json'
    path.write_text(manifest.dump(manifest.current()))
    records.freeze()
    print(path, records.FILE)


if __name__ == '__main__':
    sys.exit(__doc__ if sys.argv[1:] else main())
