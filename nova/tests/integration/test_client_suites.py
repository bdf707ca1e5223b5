"""The short form of tools/tempest.py, tools/client_suites.py and tools/clients: unmodified suites and clients."""
import importlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from nova.tests import long_runs
from nova.tests.support.client_suites import TOOLS


# What neighbours of ours prove in less time runs with NOVA_TEST_LONG alone: refusals (contract tests and the fuzzers),
# the same live migrations at older microversions, multi-attached volumes, choices of a host, and buses of rescue disks,
# which a fake driver does not have.
PROVEN = ('negative|LiveMigrationTest|LiveMigrationWithoutHost|LiveMigrationRemoteConsoles|MultiAttach|on_multinodes'
          '|ServerStableDeviceRescueTest')
# Of the rest, classes of an action or two each do not go into short runs.
SHORT = r'servers\.test_(server_actions|attach_inter)|volumes\.test_attach|admin\.test_(live_migration|aggregates)'
TEMPEST = (r'compute\.(servers\.test_(server_actions|server_group|server_rescue|servers|list_servers|attach_inter)'
           r'|volumes\.test_attach|admin\.test_(live_migration|aggregates|servers)|keypairs|flavors)'
           if long_runs.LONG else rf'compute\.(?!.*({PROVEN}))({SHORT})')
# script, its options, tests that must have passed at least
RUNS = (
    ('tempest', ['--only', TEMPEST], 150 if long_runs.LONG else 25),
    ('client_suites', ['--suite', 'openstacksdk'], 14),
    *long_runs.rest([
        # each of its commands takes seconds to start
        ('client_suites', ['--suite', 'novaclient', '--only', 'TestServersBootNovaClient or TestServerGroupClient'], 2),
        # its subjects are those of functional/test_network_*.py, with the unmodified client there
        ('tempest_networks', ['--only', r'network\.(test_(ports|routers|floating)|admin)'], 60)], 0),
)
# script of tools/clients, tests that must have passed at least in its short form
CLIENTS = (('gophercloud', 55), ('terraform', 15), ('ansible', 8))
NOT_RUN = 77               # exit code of a client whose parts are missing
SECONDS = 1200             # on a busy machine
LONG_SECONDS = 5400        # of a whole client that is built first
REQUIRED = bool(os.environ.get('CI')) or long_runs.LONG      # a missing Go is a failure
pytestmark = pytest.mark.timeout(SECONDS + 60)


def _module(name):
    """A script of the tree."""
    if not (TOOLS / f'{name}.py').exists():
        pytest.skip(f'tools/{name}.py is not part of an installed nova')
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))


def _environment(name, path):
    """Skips, with the reason, when the suites are not installed and cannot be fetched."""
    script = _module(name)
    if _module('suites').is_installed(script.DIRECTORY, script.PACKAGES):
        return
    fetched = subprocess.run([sys.executable, '-m', 'pip', '--disable-pip-version-check', 'download', '-q', '--no-deps',
                              '--retries', '1', '-d', path, script.PACKAGES[0]], capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f'{script.PACKAGES[0]} cannot be fetched: {fetched.stderr.strip()[-200:]}')


@pytest.mark.parametrize('script, options, least', RUNS, ids=['tempest', 'openstacksdk', 'novaclient', 'networks'])
def test_client_suite_passes_with_the_expected_number_of_tests(script, options, least, tmp_path):
    _environment(script, tmp_path)
    environ = {**os.environ, 'TMPDIR': str(tmp_path),
               'PATH': f'{pathlib.Path(sys.executable).parent}:{os.environ["PATH"]}'}
    done = subprocess.run([sys.executable, TOOLS / f'{script}.py', *options], env=environ, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout[-6000:]
    assert int(re.search(r'tests: (\d+) passed', done.stdout)[1]) >= least


@pytest.mark.timeout(LONG_SECONDS + 60)
@pytest.mark.parametrize('client, least', CLIENTS, ids=[client for client, _least in CLIENTS])
def test_client_passes_all_but_the_listed_tests(client, least, tmp_path):
    script = TOOLS / 'clients' / f'{client}.py'
    if not script.exists():
        pytest.skip('tools/clients is not part of an installed nova')
    environ = {**os.environ, 'TMPDIR': str(tmp_path),
               'PATH': f'{pathlib.Path(sys.executable).parent}:{os.environ["PATH"]}'}
    options = [] if long_runs.LONG else ['--short', *([] if REQUIRED else ['--cached'])]
    done = subprocess.run([sys.executable, script, *options], env=environ, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LONG_SECONDS)
    if done.returncode == NOT_RUN and not REQUIRED:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout[-6000:]
    assert int(re.search(r'tests: (\d+) passed', done.stdout)[1]) >= least
