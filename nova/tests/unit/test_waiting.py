"""Limits of waits in tests: nova/tests/support/waiting.py."""
import itertools
import types

import pytest

from nova.tests.support import waiting


@pytest.fixture
def clock(monkeypatch):
    """[seconds]"""
    now = [1000.0]
    monkeypatch.setattr(waiting, 'time', types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def busy(monkeypatch, tmp_path):
    """Files of the kernel that say for how many seconds tasks have waited for a processor."""
    file = tmp_path / 'cpu'

    def write(seconds):
        file.write_text(f'some avg10=0.00 avg300=0.00 total={round(seconds * 1e6)}\nfull avg10=0.00 total=0\n')
    write(1.0)
    monkeypatch.setattr(waiting, 'PRESSURE', (file, tmp_path / 'missing'))
    return write


def test_limit_on_quiet_machine_is_over_after_its_seconds(busy, clock):
    limit = waiting.Limit(20)
    clock[0] += 19
    assert not limit.is_over()
    clock[0] += 2
    assert limit.is_over()


def test_limit_on_busy_machine_lasts_up_to_four_times_as_long(busy, clock):
    limit = waiting.Limit(10)
    busy(100.0)
    clock[0] += 39
    assert not limit.is_over()
    clock[0] += 2
    assert limit.is_over()


def test_machine_that_does_not_count_stalls_is_taken_for_a_busy_one(monkeypatch, tmp_path, clock):
    monkeypatch.setattr(waiting, 'PRESSURE', (tmp_path / 'missing',))
    limit = waiting.Limit(10)
    clock[0] += 39
    assert not limit.is_over()
    clock[0] += 2
    assert limit.is_over()


def test_wait_returns_the_value_and_names_what_did_not_come(busy):
    values = itertools.chain([0, None], itertools.repeat('here'))
    assert waiting.wait_for(lambda: next(values), 5) == 'here'
    with pytest.raises(AssertionError, match='waited 0.01 s for the agent to report'):
        waiting.wait_for(lambda: False, 0.01, 'the agent to report')
