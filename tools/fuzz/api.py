#!/usr/bin/env python3
"""Fuzz the compute API of an all-in-one with the fake driver, by its own OpenAPI document.

Prints what was sent and every finding; ends with 1 when there is any. The same seed sends the same requests as far as
the answers are the same.
"""
import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from nova.runtime import concurrency

concurrency.setup()

from nova.api import versions
from nova.tests.functional import cloud
from nova.tests.fuzz import run


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--seconds', type=int, default=600)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--versions', default=','.join(map(versions.text, run.VERSIONS)), metavar='2.1,2.104')
    parser.add_argument('--only', metavar='TEXT', help='operations that have this in their name')
    given = parser.parse_args()
    minors = [versions.parse(text) for text in given.versions.split(',')]
    with tempfile.TemporaryDirectory(prefix='nova-fuzz.') as directory, \
            cloud.running(directory, ['host1', 'host2', 'host3']) as running:
        fuzz = run.Fuzz(running, given.seed, minors, given.only)
        findings = fuzz.run(given.seconds)
    for finding in findings:
        print(finding)
    print(*fuzz.summary(), sep='\n')
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main())
