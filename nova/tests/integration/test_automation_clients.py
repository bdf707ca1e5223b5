"""The pages of Ansible and Terraform: the unmodified programs run their commands on a cloud with the fake driver.

NOVA_TEST_AUTOMATION names a directory with ``ansible-playbook`` and ``terraform-provider-openstack``. Without it
Ansible is installed from PyPI, and the provider is built from its Go module.
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from nova.tests import documentation
from nova.tests import long_runs
from nova.tests.functional import cloud as clouds
from nova.tests.functional import page_cloud
from nova.tests.support.automation_clients import SECONDS
from nova.tests.support.automation_clients import given
from nova.tests.support.automation_clients import mirrored


TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
ANSIBLE = ('ansible>=11', 'openstacksdk==4.12.0')        # openstack.cloud 2.5.0 fails with 4.22
pytestmark = [pytest.mark.timeout(SECONDS + 300), long_runs.only,
              pytest.mark.skipif(not documentation.PAGES.exists(), reason='the documentation is not installed')]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    directory = tmp_path_factory.mktemp('automation')
    with clouds.running(directory / 'state') as running:
        made = page_cloud.PageCloud(running, directory)
        with contextlib.closing(made.programs):
            yield made


def run(cloud, page, skipped, **environ):
    """Run the commands of a page, except those that match an expression; assert that they do what the page shows."""
    wanted = [each for each in documentation.commands(documentation.read(page)) if not re.match(skipped, each.text)]
    results = cloud.run(page, wanted, 'nova-demo', SECONDS, **environ)
    faults = [f'{result.command.text}\n{result.fault()}\n{result.printed}' for result in results if result.fault()]
    assert faults == [] and len(results) == len(wanted) > 1, '\n'.join(faults)


def test_the_playbook_of_the_page_runs(cloud):
    directory = given() or _installed()
    run(cloud, 'user/ansible', 'pip install ', PATH=f'{directory}:{cloud.bin}:{os.environ["PATH"]}',
        ANSIBLE_LOCALHOST_WARNING='false', ANSIBLE_NOCOLOR='1')


def _installed():
    """The programs of an environment with Ansible; skips, with the reason, if PyPI does not answer."""
    sys.path.insert(0, str(TOOLS))
    try:
        suites = pytest.importorskip('suites', reason='tools are not part of an installed nova')
    finally:
        sys.path.remove(str(TOOLS))
    try:
        return suites.install(pathlib.Path.home() / '.cache/nova-automation', ANSIBLE)
    except subprocess.CalledProcessError as error:
        pytest.skip(f'Ansible cannot be installed: {error}')


@pytest.mark.skipif(shutil.which('terraform') is None, reason='terraform is not installed')
def test_the_configuration_of_the_terraform_page_is_applied_and_destroyed(cloud, tmp_path):
    run(cloud, 'user/terraform', '$^', TF_CLI_CONFIG_FILE=str(mirrored(tmp_path)), CHECKPOINT_DISABLE='1',
        TF_IN_AUTOMATION='1')

