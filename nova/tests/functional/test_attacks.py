"""The attacks of nova.tests.attacks on a whole cloud: it holds against every one of them.

With NOVA_TEST_ALTERNATE the second thread model has only those on what differs between the models: how bytes become
requests.
"""
import collections
import os

import pytest
import yaml

from nova.runtime import concurrency
from nova.tests import long_runs
from nova.tests.attacks import stage as stages
from nova.tests.attacks import suite
from nova.tests.functional import cloud as cloud_fixture

WIRE = {'chunks', 'console', 'forwarded', 'host', 'request line', 'smuggling'}
ALL = WIRE | {'anonymous', 'claim', 'dashboard', 'document', 'ec2 isolation', 'ec2 replay', 'ec2 signature', 'image',
              'image reference', 'input', 'isolation', 'listing', 'login', 'neighbour', 'no project', 'path',
              'privilege', 'query', 'reference', 's3 clock', 's3 document', 's3 header', 's3 isolation', 's3 key',
              's3 replay', 's3 signature', 'scope', 'token'}
SECOND = os.environ.get('NOVA_TEST_ALTERNATE') == '1' and concurrency.model() != concurrency.MODELS[0]
# the first of a family, and of the others one in so many; in long runs all of them
FIRST, SHARE = 5, 3
FAMILIES, LEAST = (WIRE, 40) if SECOND else (ALL, 400)            # fewer attacks mean that a family is missing


class Chosen:
    """Whether an attack is made."""

    def __init__(self):
        self._met = collections.Counter()

    def __call__(self, attack):
        if SECOND and attack.family not in WIRE:
            return False
        self._met[attack.family] += 1
        return self._met[attack.family] <= FIRST or bool(long_runs.sample([attack.name], SHARE))


@pytest.fixture(scope='module')
def results(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('attacks'), objectstore__enabled=True) as cloud:
        entry = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-admin']['auth']
        auth = stages.by_password(entry['username'], entry['password'], entry['project_name'])
        with stages.built(cloud.url + '/identity/v3', auth) as stage:
            yield list(suite.run(stage, Chosen()))


def test_all_attacks_are_refused(results):
    broken = [f'{result.attack.family}, {result.attack.name}: {result.broke}' for result in results if result.broke]
    assert not broken, '\n'.join(broken[:50])


def test_no_family_is_missing(results):
    counted = suite.counted(results)
    assert len(results) >= LEAST
    assert set(counted) == FAMILIES
    names = [(result.attack.family, result.attack.name) for result in results]
    assert len(set(names)) == len(names)
