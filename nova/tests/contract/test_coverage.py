"""Nothing is forgotten: every operation of the public facts is served, guarded, and its answer compared with them."""
import importlib
import pkgutil

import pytest

from nova import policies
from nova.api import app
from nova.api import response_types as answers
from nova.api import openapi
from nova.api import versions
from nova.tests import contract
from nova.tests.contract import facts
from nova.tests.functional import servers

ROWS = app.all_routes()
SERVED = {}
for _row in ROWS:
    if _row.api:
        SERVED.setdefault(openapi.operation_of(_row), []).append(_row)

# ---- what is not served --------------------------------------------------------

# first segment of a path: why its operations are not served
NOT_SERVED: dict[str, str] = {}


def _operation(key):
    return ' '.join(key).strip()


def _excused(key):
    return NOT_SERVED.get(key[1].strip('/').partition('/')[0])


def test_every_public_operation_is_served():
    missing = [key for key in facts.routes() if _operation(key) not in SERVED]
    print('Not served:', *(f'{_operation(key)}: {_excused(key) or "?"}' for key in missing), sep='\n    ')
    assert not [_operation(key) for key in missing if not _excused(key)]


def test_served_operations_are_not_listed_as_missing():
    public = {key for key in facts.routes() if facts.routes()[key]['success'] != 'removed'}
    assert not [_operation(key) for key in public if _operation(key) in SERVED and _excused(key)]


def test_served_operations_are_public_or_listed_as_additions():
    public = {_operation(key) for key in facts.routes()}
    assert not SERVED.keys() - public - answers.own() - {'GET /versions'}
    assert not public & answers.own()
    assert answers.own() <= SERVED.keys()


# ---- whose answers are compared with the facts ---------------------------------

# operation: why no list of OPERATIONS has it
COMPARED_ELSEWHERE = {
    'GET /servers': 'test_servers_fields.py', 'GET /servers/detail': 'test_servers_fields.py',
    'GET /servers/{}': 'test_servers_fields.py', 'PUT /servers/{}': 'test_servers_fields.py',
    'POST /servers': 'test_servers_fields.py', 'POST /servers/{}/action rebuild': 'test_servers_fields.py',
    'GET /os-events': 'no JSON; test_events.py',
    **{name: 'test_volumes_answers.py: the same as /servers' for name in SERVED if ' /os-volumes_boot' in name},
}


def _compared():
    """The operations of the OPERATIONS lists of all contract tests."""
    names = set()
    for found in pkgutil.iter_modules(contract.__path__):
        if found.name.startswith('test_') and found.name.endswith('_answers'):
            module = importlib.import_module(f'{contract.__name__}.{found.name}')
            names |= {row[0] if isinstance(row, tuple) else row for row in module.OPERATIONS}
    return {answers.nameless(name) for name in names}


def test_every_answer_with_a_body_is_compared_with_the_facts():
    described = {name for name in SERVED if answers.described(name)}
    missing = sorted(described - _compared() - COMPARED_ELSEWHERE.keys())
    print('Not compared:', *missing, sep='\n    ')
    assert not missing


def test_the_description_of_answers_says_what_the_facts_say():
    """Types of Field rows, and nova/api/response_types/rest.tsv where they say nothing, against data/responses.tsv."""
    wrong = []
    for operation in facts.responses().keys() & SERVED.keys():
        for minor in range(versions.MIN_VERSION, versions.MAX_VERSION + 1):
            expected, described = facts.fields_at(operation, 'response', minor), answers.at(operation, minor)
            wrong += [(operation, minor, field) for field in expected.keys() | described.keys()
                      if expected.get(field) != described.get(field)]
    assert not wrong
    assert answers.own() == facts.own()


def test_lists_of_exceptions_name_served_operations():
    assert not _compared() - SERVED.keys()


# ---- rules -----------------------------------------------------------------------

# A rule that no row names: what it guards is not served, or is decided elsewhere.
UNUSED = {
    'compute:servers:resize:cross_cell': 'no server leaves its cell, whoever asks: the default of the rule is nobody',
    'network:attach_external_network': 'on an external network are servers of its own project, and of those that '
                                       'it is shared with, whoever asks',
}


ASKED_ELSEWHERE = ('ec2_api:', 'objectstore:')             # see test_ec2 and test_objectstore


def test_every_rule_is_asked_somewhere():
    asked = {rule for row in ROWS for rule in (row.policy, *row.checks)}
    unused = [rule for rule, *_ in policies.RULES
              if rule not in asked and rule not in UNUSED and not rule.startswith(ASKED_ELSEWHERE)]
    print('Not asked:', *unused, sep='\n    ')
    assert not unused


# The public rules have none for these: every caller may, of what is the caller's.
WITHOUT_RULE = ('GET /versions', 'GET /flavors', 'GET /images', 'POST /images', 'PUT /images', 'DELETE /images')


def test_every_row_has_a_rule():
    assert not [openapi.operation_of(row) for row in ROWS
                if not (row.policy or row.checks or row.public or 410 in row.errors)
                and not openapi.operation_of(row).startswith(WITHOUT_RULE)]


# ---- versions ----------------------------------------------------------------------

@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('coverage'))
    yield fixture
    fixture.close()


def _path(row):
    """A path to it in which nothing exists."""
    return row.path.translate(str.maketrans('', '', '{}'))


def _outside(rows):
    """The versions next to the range of an operation's rows."""
    since, until = min(row.since for row in rows), max(row.until or versions.MAX_VERSION for row in rows)
    return [minor for minor in (since - 1, until + 1) if versions.MIN_VERSION <= minor <= versions.MAX_VERSION]


def _ask(cloud, row, minor):
    return cloud.admin().request(row.method, _path(row), {row.action or 'x': {}} if row.method != 'GET' else None,
                                 version=versions.text(minor))


BOUNDED = [rows for rows in SERVED.values() if _outside(rows)]


@pytest.mark.parametrize('rows', BOUNDED, ids=lambda rows: openapi.operation_of(rows[0]))
def test_operation_returns_404_outside_its_versions(cloud, rows):
    for minor in _outside(rows):
        answer = _ask(cloud, rows[0], minor)
        assert answer.status == 404 and 'itemNotFound' in answer.json, (minor, answer.body)
        _check_headers(answer, minor)


def _check_headers(answer, minor):
    text = versions.text(minor)
    assert answer.headers['openstack-api-version'] == f'compute {text}'
    assert answer.headers['x-openstack-nova-api-version'] == text
    assert answer.headers['vary'] == 'OpenStack-API-Version, X-OpenStack-Nova-API-Version'
    assert answer.headers['x-openstack-request-id'] == answer.headers['x-compute-request-id']


STREAMS = {name for name in SERVED if answers.media_type(name)}


@pytest.mark.parametrize('name', sorted(SERVED.keys() - STREAMS))
def test_responses_have_the_version_headers(cloud, name):
    """On whatever an operation says: an answer, or that there is no such thing."""
    for row in SERVED[name]:
        for minor in {row.since, row.until or versions.MAX_VERSION}:
            answer = _ask(cloud, row, minor)
            documented = {*openapi.codes_of_success(row, minor), *openapi.errors_of(row)}
            assert answer.status in documented, (minor, answer.status, answer.body)
            _check_headers(answer, minor)


def test_unsupported_microversion_returns_406(cloud):
    answer = cloud.client().get('/servers', version='2.105')
    assert answer.status == 406 and answer.headers['vary']
    assert '2.1' in answer.json['computeFault']['message'] and '2.104' in answer.json['computeFault']['message']
