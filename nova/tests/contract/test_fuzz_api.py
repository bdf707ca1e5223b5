"""A short fuzzing of the whole API by its own OpenAPI document; tools/fuzz/api.py does it for longer."""
import os

import pytest
import requests

from nova.tests import long_runs
from nova.tests.functional import cloud
from nova.tests.fuzz import run

SECONDS = int(os.environ.get('NOVA_FUZZ_SECONDS', '75' if long_runs.LONG else '15'))
MINORS = run.VERSIONS if long_runs.LONG else (run.VERSIONS[0], run.VERSIONS[-1])
LEAST = 200 * len(MINORS)   # requests; each operation has its turn at each version in any case


@pytest.fixture(scope='module')
def fuzz(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('fuzz'), ['host1', 'host2', 'host3']) as running:
        yield run.Fuzz(running, seed=20, minors=MINORS)


def test_the_document_needs_no_token(fuzz):
    answer = requests.get(fuzz.cloud.url + '/compute/openapi.json', params={'microversion': '2.1'}, timeout=60)
    assert answer.status_code == 200 and answer.json()['info']['version'] == '2.1'
    assert len(answer.content) > 100000 > int(answer.headers['Content-Length'])      # it came compressed


def test_every_answer_is_as_documented(fuzz):
    findings = fuzz.run(SECONDS)
    print(*fuzz.summary(), sep='\n')
    assert not findings, '\n' + '\n'.join(map(str, findings))
    assert fuzz.requests >= LEAST
    assert {label for label, _minor in fuzz.reached} == {operation.label for _minor, operation in fuzz.operations}
    assert len({label for label, _minor in fuzz.succeeded}) > 100
    assert not [code for code in fuzz.statuses if code >= 500 and code != 501]
