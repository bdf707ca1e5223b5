"""The short form of tools/tempest.py, tools/client_suites.py and tools/clients: unmodified suites and clients."""
import importlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from nova.tests import long_runs
from nova.tests.support import waiting
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
# script, tests that must have passed at least in its short form
CLIENTS = (('clients/gophercloud', 55), ('clients/terraform', 15), ('clients/ansible', 8), ('clients/s3', 14),
           ('clients/kubernetes', 9))
SHORT_S = 60               # of a quiet machine, for the short forms of all clients
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
    missing = _run(client, [] if long_runs.LONG else ['--short', *([] if REQUIRED else ['--cached'])], least, tmp_path)
    assert not (missing and REQUIRED), missing
    if missing:
        pytest.skip(missing)


def test_short_forms_of_the_clients_that_are_built_take_a_minute(tmp_path):
    """A run of the test above, or of a script, builds the clients: nothing is fetched here."""
    limit = waiting.Limit(SHORT_S)
    missing = [_run(client, ['--short', '--cached'], least, tmp_path) for client, least in CLIENTS]
    assert not limit.is_over()
    if all(missing):
        pytest.skip('; '.join(missing))


def _run(client, options, least, path):
    """Run a client; return why it did not run, or ''. Assert that it passes, with this number of tests at least."""
    script = TOOLS / f'{client}.py'
    if not script.exists():
        return f'tools/{client}.py is not part of an installed nova'
    environ = {**os.environ, 'TMPDIR': str(path),
               'PATH': f'{pathlib.Path(sys.executable).parent}:{os.environ["PATH"]}'}
    done = subprocess.run([sys.executable, script, *options], env=environ, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LONG_SECONDS)
    if done.returncode == NOT_RUN:
        return done.stdout.strip().splitlines()[-1]
    assert done.returncode == 0, done.stdout[-6000:]
    assert int(re.search(r'tests: (\d+) passed', done.stdout)[1]) >= least
    return ''
