"""Who may do what: every operation, asked by everybody, answers what the policy says.

The operations are the Route rows, so that a new one is asked, too. A whole cloud runs, and each caller has a token of
its identity service.
"""
import collections

import pytest

from nova.tests import long_runs
from nova.tests.support import rbac
from nova.tests.support.rbac import CALLERS
from nova.tests.support.rbac import ENDS
from nova.tests.support.rbac import OUTSIDE
from nova.tests.support.rbac import ROWS
from nova.tests.support.rbac import _name
from nova.tests.support.rbac import ask
from nova.tests.support.rbac import expected
from nova.tests.support.rbac import owned

deployment = rbac.deployment


ENDING_ACTIONS = {'forceDelete', 'lock', 'unlock'}
def outcome(answer, row, thing):
    """In the words of ``expected``; 'allowed' is all that is no refusal for who asks."""
    code = answer.status_code
    if code in (401, 403):
        return str(code)
    if code == 404 and owned(row) and f'{thing} could not be found.' in answer.text:
        return 'hidden'
    return 'gone' if code == 410 else 'allowed'


def asking(row):
    """Names of those who ask for an operation: half of the callers, and fewer of those outside, in turn; all of them in
    long runs.
    """
    return (*long_runs.turn(_name(row), CALLERS, 2), *long_runs.turn(_name(row), OUTSIDE, 5))


def test_each_caller_sends_many_requests():
    asked = collections.Counter(name for row in ROWS for name in asking(row))
    assert set(asked) == {*CALLERS, *OUTSIDE} and min(asked.values()) > len(ROWS) / 10


@pytest.mark.parametrize('row', ROWS, ids=_name)
def test_everybody_is_answered_as_the_policy_says(deployment, row):
    kind = owned(row)
    ends = (row.method, row.path) in ENDS or row.action in ENDING_ACTIONS
    problems = []
    for name in asking(row):
        wanted = expected(deployment, row, name)
        thing = kind and (deployment.make(kind) if ends and wanted == 'allowed' else deployment.things[kind])
        answer = ask(deployment, row, name, thing)
        got = outcome(answer, row, thing)
        if got != wanted:
            problems.append(f'{name}: {got}, not {wanted}: {answer.status_code} {answer.text[:200]}')
        elif answer.status_code >= 500 and answer.status_code not in row.errors:
            problems.append(f'{name}: {answer.status_code} {answer.text[:200]}')
    assert not problems, '\n'.join(problems)


def test_the_matrix_has_every_kind_of_answer(deployment):
    """It would show nothing if everybody might do everything, or nobody anything."""
    found = {(name, expected(deployment, row, name)) for row in ROWS for name in (*CALLERS, *OUTSIDE)}
    assert {('nobody', '401'), ('reader', '403'), ('reader', 'allowed'), ('member', '403'), ('member', 'allowed'),
            ('manager', '403'), ('manager', 'allowed'), ('service', '403'), ('service', 'allowed'),
            ('stranger', 'hidden'), ('stranger', '403'), ('admin', 'allowed'),
            ('admin elsewhere', 'allowed'), ('credential', 'allowed'), ('credential', '403'),
            ('service for a member', 'allowed')} <= found
    assert {(name, kind) for name in OUTSIDE for kind in ('403', 'allowed')} <= found
