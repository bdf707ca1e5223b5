"""Who asked for what: every operation that is recorded, asked by who may and by who may not, leaves one record."""
import pytest

from nova.api import audit as audited
from nova.tests.functional import cloud as whole
from nova.tests.support import rbac

ROWS = [row for row in rbac.ROWS if audited.has_record(row)]
# Of ROWS whose samples are carried out; the others name what is not there. All that the other contract tests carry out
# is looked up as well: base.Client.audited.
SUCCESSES = 60


@pytest.fixture(scope='module')
def deployment(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('audit'), ['host1', 'host2']) as cloud:
        made = rbac.Deployment(cloud)
        made.succeeded = set()
        yield made


def recorded(deployment, answer, row):
    """The records of one request for one operation."""
    path = (f'/os-audit?all_projects=true&request_id={answer.headers["x-openstack-request-id"]}'
            f'&action={audited.action_of(row)}')
    found = deployment.root.get(path)
    assert found.status_code == 200, found.text
    return found.json()['audit_records']


@pytest.mark.parametrize('row', ROWS, ids=rbac._name)
def test_every_write_leaves_one_record(deployment, row):
    kind = rbac.owned(row)
    # An action leaves its server in another state: each has one of its own.
    changes = (row.method, row.path) in rbac.ENDS or kind == 'server' and row.action is not None
    for name in ('reader', 'admin'):
        allowed = rbac.expected(deployment, row, name) == 'allowed'
        thing = kind and (deployment.make(kind) if changes and allowed else deployment.things[kind])
        answer = rbac.ask(deployment, row, name, thing)
        record, = recorded(deployment, answer, row)
        client, code = deployment.clients[name], answer.status_code
        assert record['outcome'] == (
            'accepted' if code < 400 else 'denied' if code in (401, 403) else 'failed'), (code, record)
        assert record['code'] == code and (record['reason'] is None) == (code < 400), (code, record)
        assert (record['user_id'], record['project_id']) == (client.user_id, client.project_id)
        assert record['method'] == row.method and record['remote_address'] == '127.0.0.1'
        assert record['target_type'] == audited.target_of(row) and set(record['roles']) >= {'reader'}
        if '{' in row.path:
            assert record['target_id'] in answer.request.url, record
        if code < 400:
            deployment.succeeded.add((row.method, row.path, row.action))


def test_enough_audited_writes_succeed(deployment):
    """It would show little if all were refused."""
    print(len(deployment.succeeded), 'of', len(ROWS))
    assert len(deployment.succeeded) >= SUCCESSES
