"""What tests share with nova/tests/integration/test_automation_clients.py."""
import os
import pathlib
import sys

import pytest

TOOLS = pathlib.Path(__file__).parents[3] / 'tools'
SECONDS = 1800               # on a busy machine: the provider takes minutes to compile


def given():
    """The directory that the caller names, or None."""
    name = os.environ.get('NOVA_TEST_AUTOMATION')
    return pathlib.Path(name) if name else None


def mirrored(directory):
    """The path of Terraform's settings in a directory, for a mirror with the provider of tools/clients/versions.tsv.

    Skips, with the reason, if Go or its module proxy is missing.
    """
    sys.path[:0] = [str(TOOLS), str(TOOLS / 'clients')]
    try:
        import common
        import plans
        import terraform
    finally:
        del sys.path[:2]
    try:
        mirror = terraform.provider(cached=False) if given() is None else terraform.mirror(
            given() / 'terraform-provider-openstack', directory)
    except common.Missing as error:
        pytest.skip(str(error))
    settings = directory / 'terraform.rc'
    settings.write_text(plans.SETTINGS.format(mirror))
    return settings
