"""What short runs leave to long ones: the same each time, and never all of it."""
import pytest

from nova.tests import long_runs

VALUES = [f'value {number}' for number in range(60)]


@pytest.fixture(params=[False, True], ids=['short', 'long'], autouse=True)
def run(request, monkeypatch):
    monkeypatch.setattr(long_runs, 'LONG', request.param)
    return request.param


def test_the_first_parameters_run_always():
    first, second, pair = long_runs.rest(['a', 'b', ('c', 'd')])
    assert first == 'a' and second.values == ('b',) and pair.values == ('c', 'd')
    assert [mark.name for mark in (*second.marks, *pair.marks)] == ['skipif', 'skipif']
    assert [value for value in long_runs.rest(iter('abc'), 2) if isinstance(value, str)] == ['a', 'b']


def test_a_sample_is_a_share_and_the_same_each_time(run):
    found = long_runs.sample(VALUES, 4)
    assert found == long_runs.sample(VALUES, 4)
    assert found == VALUES if run else 5 < len(found) < 30


def test_turns_cover_each_value_of_each_key(run):
    found = [long_runs.turn(key, 'abc', 3) for key in VALUES]
    assert {len(each) for each in found} == ({3} if run else {1})
    assert {letter for each in found for letter in each} == {'a', 'b', 'c'}
    assert long_runs.turn('x', ['alone'], 5) == ['alone'] and long_runs.turn('x', [], 5) == []
