"""The short form of tools/proofs/upgrade.py: the previous release, upgraded under load, loses nothing."""
import pytest

from nova.tests.integration import servers
from nova.tests.older_release import rolling
from nova.tests.older_release import tree


def test_a_rolling_upgrade_loses_nothing(tmp_path):
    (tmp_path / 'old').mkdir()
    old = tree.exported(tmp_path / 'old')
    if old is None:
        pytest.skip(f'this clone has no history that reaches {tree.PREVIOUS}; the frozen interface is tested by '
                    'unit/test_upgrade.py' if tree.PREVIOUS else
                    'there is no release before this one: rolling upgrades begin with 1.0')
    with servers.SHARED['mariadb']() as database:
        fleet = rolling.Fleet(tmp_path, servers.virtual_host().url, database, old, computes=2, clients=2)
        try:
            result = fleet.upgrade(servers=2)
        finally:
            fleet.end()
    assert result.failures == []
    assert set(result.servers) == {'before', 'during', 'after'}
    assert 'Messages to conductor use version 1.0' in fleet.log('compute1') + fleet.log('conductor-new')
