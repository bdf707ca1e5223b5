#!/usr/bin/env python3
"""Fuzz every parser that reads what strangers write, one after another.

Prints what was tried and every finding with its bytes in hexadecimal; ends with 1 when there is any. ``--input HEX``
gives one target those bytes again.
"""
import argparse
import logging
import pathlib
import sys
import tempfile
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from nova.tests.fuzz import engine
from nova.tests.fuzz import targets

PART_S = 60                  # of one target before the next one has its turn, and between two lines of progress


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--seconds', type=float, default=1200, help='all in all, shared by the targets')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', metavar='TARGET', action='append', choices=sorted(targets.TARGETS))
    parser.add_argument('--input', metavar='HEX', type=bytes.fromhex, help='these bytes alone; needs --only')
    given = parser.parse_args()
    if given.input is not None and not given.only:
        parser.error('--input needs --only')
    warnings.simplefilter('ignore')
    logging.disable()
    names = given.only or list(targets.TARGETS)
    with tempfile.TemporaryDirectory(prefix='nova-fuzz.') as directory:
        fuzzes = []
        for name in names:
            place = pathlib.Path(directory, name)
            place.mkdir()
            fuzzes.append(engine.Fuzz(targets.TARGETS[name], str(place), given.seed))
        if given.input is not None:
            for fuzz in fuzzes:
                fuzz.once(given.input)
        else:
            _share(fuzzes, given.seconds)
    findings = [finding for fuzz in fuzzes for finding in fuzz.findings.values()]
    for fuzz in fuzzes:
        print(fuzz.summary())
    print(f'{sum(fuzz.count for fuzz in fuzzes)} inputs, seed {given.seed}, {len(findings)} findings')
    return 1 if findings else 0


def _share(fuzzes: list[engine.Fuzz], seconds: float) -> None:
    """Each target its part of the time, in rounds."""
    end, shown = time.monotonic() + seconds, set()
    while (left := end - time.monotonic()) > 0:
        for fuzz in fuzzes:
            fuzz.run(min(PART_S, left / len(fuzzes)))
            for key, finding in fuzz.findings.items():
                if (fuzz, key) not in shown:
                    shown.add((fuzz, key))
                    print(finding.shown(engine.LARGEST), flush=True)
            print(f'{time.strftime("%H:%M:%S")} {fuzz.summary()}', flush=True)


if __name__ == '__main__':
    sys.exit(main())
