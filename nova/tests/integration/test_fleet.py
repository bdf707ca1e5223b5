"""Daemons as processes of their own over RabbitMQ and MariaDB: names, credentials, more requests than they can do."""
import collections
import pathlib
import subprocess
import sys
import time

import pytest

from nova.tests.integration import prepared

pytest.importorskip('pymysql')
TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
sys.path[:0] = [str(TOOLS), str(TOOLS / 'bench')]

import fleet as fleet_module
import overload

OPTIONS = '''
[DEFAULT]
report_interval = 1
max_concurrent_builds = 2
[api]
max_waiting_builds = 12
[fake]
delays = spawn:1
'''


@pytest.fixture(scope='module')
def fleet():
    with fleet_module.Fleet(1, OPTIONS) as made:
        made.flavor()
        yield made


def second_compute(fleet):
    """A compute with the first one's name, from another machine as it were; its process."""
    text = fleet_module.COMPUTE.format(state=fleet.directory / 'second')
    path = fleet._file('second', text, 'compute1')
    return subprocess.run([prepared.BIN / 'nova-compute', '--config-file', path], capture_output=True, text=True,
                          timeout=240)


def test_a_compute_has_no_credentials_of_a_database(fleet):
    overload.Overload(fleet).one()
    port = fleet.cell_db.url.port
    assert fleet_module.secrets_of(fleet.processes['compute1'].pid, fleet.password, port) == []
    assert 'connection' in fleet_module.secrets_of(fleet.processes['conductor'].pid, fleet.password, port)


def test_overload_ends_in_refusals_and_all_that_was_accepted_is_built(fleet):
    before, deadline = fleet.states().get('active', 0), time.monotonic() + 120
    test = overload.Overload(fleet)
    answers = collections.Counter()
    while not answers[503] and time.monotonic() < deadline:        # a busy machine asks for less than it should
        answers += test.press(20, 4)[0]
    test.drained(before + answers[202])
    test.one()
    assert test.wrong == []
    assert answers[202] and answers[503], answers


def test_the_second_compute_of_a_name_refuses_to_start(fleet):
    done = second_compute(fleet)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith('nova-compute: nova-compute of host compute1 belongs to another')
    first = fleet.processes.pop('compute1')
    first.kill()
    first.wait()
    assert second_compute(fleet).returncode == 1               # also while the first is away
    fleet.start('compute1', fleet_module.COMPUTE.format(state=fleet.directory / 'compute1'))
    deadline = time.monotonic() + 240
    while 'nova-compute on compute1 serves' not in (fleet.directory / 'compute1.log').read_text():
        assert fleet.processes['compute1'].poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
