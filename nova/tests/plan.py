"""What a run of the tests consists of: parts, what runs beside what, thread models, and the tests that take long.

This is the one place that decides it. ``nova.tests.runner`` carries it out.
"""
import collections.abc
import csv
import dataclasses
import datetime
import fnmatch
import pathlib
import typing

HERE = pathlib.Path(__file__).parent
TREE = HERE.parents[1]
SUITES = ('pep8', 'unit', 'contract', 'functional', 'integration')
NATIVE, GREEN = {'NOVA_THREAD_MODEL': 'native'}, {'NOVA_THREAD_MODEL': 'eventlet'}
REAL = ('-rsfE', '--durations=15')                 # real parts that are missing are named with the reason


@dataclasses.dataclass(frozen=True)
class Part:
    """Files that processes of pytest take from one queue, or one command.

    :ivar stage: parts of a stage begin when those of earlier stages with tests have ended
    :ivar workers: processes for each core; 0 for one process in all
    :ivar load: cores that one process keeps busy; the sum of those that run is at most the machine's cores
    :ivar alone: nothing runs beside it
    :ivar needs: commands that must have succeeded before
    :ivar codes: exit codes of success, of a command
    """

    name: str
    suite: str
    stage: int
    files: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workers: float = 0
    load: float = 1.0
    alone: bool = False
    network: bool = False               # a network namespace of its own
    environ: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0,)


# Integration: the first row that fits a file says its part. Parts run beside each other, because real servers are
# mostly waited for. What shares the libvirt of this machine, or its bridges together with guests, is in one part.
INTEGRATION: tuple[tuple[str, tuple[str, ...]], ...] = (
    ('namespaces', ('test_libvirt_*_moves.py', 'test_libvirt_live_*.py', 'test_libvirt_hosts.py',
                    'test_network_overlay.py', 'test_network_trunks.py', 'test_network_scopes.py',
                    'test_console_tls.py', 'test_metadata_hops.py')),                               # hosts of their own
    ('moving', ('test_libvirt_moving*.py', 'test_libvirt_killed*.py', 'test_libvirt_exports.py',
                'test_libvirt_locks.py', 'test_libvirt_lost_ports.py')),                            # the same
    ('host', ('test_clients.py', 'test_consoles.py', 'test_crash.py', 'test_libvirt*.py')),
    ('bridges', ('test_network_linux.py',)),
    ('fresh', ('test_fresh_machine.py', 'test_packages.py', 'test_quickstart_upgrade.py')),
    ('clients', ('test_client_suites.py', 'test_osc_plugin.py', 'test_*_clients.py')),
    ('dashboards', ('test_dashboard*.py',)),
    ('fleets', ('test_fleet.py', 'test_faults.py', 'test_failover.py', 'test_rolling_upgrade.py', 'test_systemd.py')),
    ('databases', ('test_*database*.py', 'test_*races.py', 'test_*_on_servers.py', 'test_lost_*.py',
                   'test_placement_proof.py', 'test_round_trips.py', 'test_shared_requests.py')),
    ('services', ('test_ceph*.py', 'test_barbican.py', 'test_ironic.py', 'test_manila.py', 'test_keystone_callers.py',
                  'test_ec2_api_project.py', 'test_exported_moves.py', 'test_volume_*.py', 'test_image_disk.py',
                  'test_injection.py', 'test_bench_disks.py', 'test_placement_service.py', 'test_tls.py')),
    ('brokers', ('test_*.py',)),
)
INTEGRATION_LOAD = 0.3                             # measured: a part keeps a quarter of a core busy
REAL_MORE = 1                                      # parts of integration beside each other: so many more than cores
BESIDE_REAL = 1                                    # other processes beside them, by core: guests need time to boot

# Functional tests run on native threads. These files run on green threads too, because they show what the models do
# differently: listeners, waits, workers, races, queues, tasks that go on while others run.
BOTH = ('test_attacks.py', 'test_cells_cloud.py', 'test_consoles.py', 'test_core_*', 'test_disorder_cloud.py',
        'test_events.py', 'test_growing_cloud.py', 'test_heartbeats.py', 'test_http_*', 'test_interfaces.py',
        'test_live_cloud.py', 'test_moves_cloud.py', 'test_other_actions.py', 'test_outside_services.py',
        'test_overload.py', 'test_prefer_wait.py', 'test_restart.py', 'test_servers_cells.py',
        'test_servers_races.py', 'test_shares_of_projects.py', 'test_tls_listener.py', 'test_volumes.py',
        'test_volumes_races.py', 'test_volumes_recovery.py', 'test_write_batch.py', 'test_lost_replies_cloud.py')
# Of these, what both models must be asked for in each test: bytes, connections, processes. Tests of the other files go
# to the two models in turn.
MODELS_OWN = ('test_attacks.py', 'test_consoles.py', 'test_http_*', 'test_outside_services.py', 'test_overload.py',
              'test_restart.py', 'test_shares_of_projects.py', 'test_tls_listener.py')
# Files whose tests start no thread: a request is answered by the thread that sends it, over SQLite, and neither model
# switches there. The fixture `threadless` holds them to it. Tests that need threads have the mark `threads`, and run on
# both models.
THREADLESS = (
    'test_api_requests.py', 'test_api_versions.py', 'test_bulk_action.py', 'test_categories.py', 'test_flavors.py',
    'test_hosts.py', 'test_idempotency.py', 'test_image_proxy.py', 'test_instance_actions.py', 'test_keypairs.py',
    'test_live_api.py', 'test_moves_api.py', 'test_placement_explain.py', 'test_quotas.py', 'test_rate_limits.py',
    'test_servers_actions.py', 'test_servers_create.py', 'test_servers_fuzz.py', 'test_servers_list.py',
    'test_usage.py')


def fits(name: str, patterns: collections.abc.Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def parts(suites: collections.abc.Collection[str], *, bill: bool = False) -> list[Part]:
    """In the order in which they begin, where there is room.

    :param bill: the bill of materials too
    """
    unit, functional, contract, integration, perf = (
        _files(name) for name in ('unit', 'functional', 'contract', 'integration', 'perf'))
    timed = tuple(file for file in perf if file.endswith(('_flood.py', '/test_rpc.py')))
    both = tuple(file for file in functional if fits(file.rpartition('/')[2], (*BOTH, *THREADLESS)))
    counted = tuple(file for file in perf if file not in timed)
    alternate = {'NOVA_TEST_ALTERNATE': '1'}
    found = [
        Part('times', 'contract', 0, timed, alone=True),
        Part('floods, green', 'contract', 0, tuple(file for file in timed if file.endswith('_flood.py')), alone=True,
             environ=GREEN),
        Part('style', 'pep8', 1, command=('tools/check.sh',), load=0.5),
        Part('services-ready', 'integration', 1, command=('tools/test_services.sh', 'services'), load=0.1),
        Part('image', 'integration', 1, command=('tools/test_services.sh', 'image'), load=0.1),
        Part('unit', 'unit', 1, unit, workers=2, load=0.5),
        Part('contract', 'contract', 1, (*contract, *counted), workers=2, load=0.5),
        *(Part(name, 'integration', 1, files, load=INTEGRATION_LOAD, network=name == 'bridges', options=REAL,
               needs=('services-ready', 'image')) for name, files in _integration(integration)),
        Part('functional', 'functional', 1, functional, workers=3, load=0.36, environ={**NATIVE, **alternate}),
        Part('functional, green', 'functional', 1, both, workers=1.5, load=0.36, environ={**GREEN, **alternate}),
    ]
    if bill:           # the first one of its stage: it waits for an index of packages, and would end after all others
        found.insert(2, Part('bill of materials', 'integration', 1, load=0.1,
                             command=('tools/test_services.sh', 'bill')))
    return [part for part in found if part.suite in suites]


def _files(suite: str) -> tuple[str, ...]:
    return tuple(sorted(str(path.relative_to(TREE)) for path in (HERE / suite).glob('test_*.py')))


def _integration(files: collections.abc.Iterable[str]) -> list[tuple[str, tuple[str, ...]]]:
    by_part: dict[str, list[str]] = {}
    for file in files:
        name = next(name for name, patterns in INTEGRATION if fits(file.rpartition('/')[2], patterns))
        by_part.setdefault(name, []).append(file)
    took = durations()
    found = [(name, tuple(names)) for name, names in by_part.items()]
    return sorted(found, key=lambda row: -sum(took.get(file, 0.0) for file in row[1]))


def _rows(path: pathlib.Path) -> list[list[str]]:
    with path.open(newline='') as file:
        rows = csv.reader(file, delimiter='\t', quoting=csv.QUOTE_NONE)
        return [row for row in rows if row and not row[0].startswith('#')]


def durations(path: pathlib.Path = HERE / 'durations.tsv') -> dict[str, float]:
    """Seconds of each file, in all parts together; ``NOVA_TEST_RECORD=FILE tools/test.sh`` writes them."""
    return {row[0]: float(row[1]) for row in _rows(path)} if path.exists() else {}


class Long(typing.NamedTuple):
    name: str                            # a file, a test, one of its parameters, or FILE::only
    seconds: float
    reason: str

    @property
    def file(self) -> str:
        return self.name.partition('::')[0]


def expected(path: pathlib.Path = HERE / 'durations.tsv',
             rows: collections.abc.Iterable[Long] | None = None) -> dict[str, float]:
    """Seconds that each file may take: what it took, or what its long tests take together if that is more."""
    found = durations(path)
    listed: dict[str, float] = {}
    for row in long_tests() if rows is None else rows:
        listed[row.file] = listed.get(row.file, 0.0) + row.seconds
    return {file: max(found.get(file, 0.0), listed.get(file, 0.0)) for file in {*found, *listed}}


class Unstable(typing.NamedTuple):
    name: str
    date: datetime.date
    reason: str


LONG, UNSTABLE = HERE / 'long.tsv', HERE / 'unstable.tsv'
SHARE = 0.1                              # of all tests, that may be outside of an ordinary run
TURNS = 16                               # parts of the list of long tests, of which .ci/run runs one
LARGE_S = 300                            # a row of so many seconds may be in another part than others of its file
# Files of tests with the mark `only` that no part runs: {file: script that a person starts instead}
PROOFS = {
    'nova/tests/integration/test_dependencies.py': 'tools/proofs/dependencies.py',
    'nova/tests/integration/test_ec2_api_project.py': 'tools/ec2/ec2_api_walk.py',
    'nova/tests/integration/test_libvirt_debian_guest.py': 'tools/guest_proof.py',
    'nova/tests/integration/test_terraform_clients.py': 'tools/clients/terraform_aws.py',
}
UNSTABLE_MOST, UNSTABLE_DAYS = 10, 14


def long_tests(path: pathlib.Path = LONG) -> list[Long]:
    return [Long(name, float(seconds), reason) for name, seconds, reason in _rows(path)]


def unstable_tests(path: pathlib.Path = UNSTABLE) -> list[Unstable]:
    return [Unstable(name, datetime.date.fromisoformat(date), reason) for name, date, reason in _rows(path)]


def is_listed(name: str, names: collections.abc.Collection[str], *, only: bool = False) -> bool:
    """Whether a test, its function, class or file is among the names.

    :param only: the test has the mark `only`, for which FILE::only stands
    """
    file, _, rest = name.partition('::')
    test = f'{file}::{rest.partition("[")[0]}' if rest else file
    return (name in names or test in names or file in names or test.rpartition('::')[0] in names or
            only and f'{file}::only' in names)


def turns(rows: collections.abc.Iterable[Long], count: int = TURNS) -> list[list[Long]]:
    """Rows, divided into parts of about the same time; their order decides nothing. Rows of a file stay together."""
    groups: dict[str, list[Long]] = {}
    for row in sorted(rows):
        groups.setdefault(row.name if row.seconds >= LARGE_S else row.file, []).append(row)
    found: list[list[Long]] = [[] for _ in range(count)]
    sums = [0.0] * count
    for seconds, name in sorted((-sum(row.seconds for row in group), name) for name, group in groups.items()):
        number = sums.index(min(sums))
        found[number] += groups[name]
        sums[number] -= seconds
    return found


def faults_of_unstable(rows: collections.abc.Sequence[Unstable], today: datetime.date) -> list[str]:
    """What is wrong with the list of unstable tests; nothing is the usual case."""
    found = [f'{len(rows)} tests are listed; {UNSTABLE_MOST} are the most.'] if len(rows) > UNSTABLE_MOST else []
    for row in rows:
        if (today - row.date).days > UNSTABLE_DAYS:
            found.append(f'{row.name} is listed since {row.date}: mend or delete it after {UNSTABLE_DAYS} days.')
        if not row.reason.strip():
            found.append(f'{row.name} has no reason.')
    return found
