#!/usr/bin/env python3
"""Write the OpenAPI documents of all APIs into nova/tests/contract/data/openapi, for test_openapi_frozen.py.

    tools/freeze_openapi.py              # at a release, after its tests have passed

From then on an operation or a field that is removed, or accepts or promises less, fails the tests.
"""
import sys

from nova.tests.contract import openapi_changes
from nova.tests.contract import openapi_documents


def main():
    openapi_changes.DIRECTORY.mkdir(exist_ok=True)
    for name, document in openapi_documents.DOCUMENTS.items():
        openapi_changes.freeze(name, document())
        print(openapi_changes.DIRECTORY / f'{name}.json.gz')


if __name__ == '__main__':
    sys.exit(__doc__ if sys.argv[1:] else main())
