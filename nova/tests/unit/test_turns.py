"""Turns of projects at a bounded number of threads."""
import pytest

from nova.runtime import turns


def take(taken, project_id, count):
    return sum([taken.take(project_id, project_id) for _ in range(count)])


@pytest.mark.parametrize('most, of_one', [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (10, 8), (32, 24)])
def test_one_project_does_not_get_all(most, of_one):
    taken = turns.Turns(most)
    assert take(taken, 'a', 100) == of_one
    assert take(taken, 'b', 1) == min(1, most - of_one)


def test_the_more_projects_the_less_each_has():
    taken = turns.Turns(32)
    assert [take(taken, name, 100) for name in 'abcde'] == [24, 6, 1, 1, 0]
    running = {'a': 24, 'b': 6, 'c': 1, 'd': 1}
    for _ in range(200):                             # each ends in its turn
        for name in list(running):
            if running[name]:
                running[name] -= 1
                for work in taken.ended(name):
                    running[work] = running.get(work, 0) + 1
                assert sum(running.values()) <= 32
                assert set(running) == set('abcde') or running.keys() == set('abcd')
    assert not any(taken.forget())


def test_those_that_wait_take_turns():
    taken = turns.Turns(3)
    assert [taken.take('a', name) for name in ('a1', 'a2', 'a3', 'a4')] == [True, True, False, False]
    assert taken.take('b', 'b1') and not taken.take('c', 'c1') and not taken.take('b', 'b2')
    order, running = [], ['a', 'a', 'b']
    while running:
        following = taken.ended(running.pop(0))
        order += following
        running += [work[0] for work in following]
    assert sorted(order) == ['a3', 'a4', 'b2', 'c1'] and order[0] == 'c1'
    assert taken.take('a', 'a5') and taken.take('b', 'b3') and taken.take('c', 'c2')


def test_what_waits_is_forgotten():
    taken = turns.Turns(1)
    assert taken.take('a', 1) and not taken.take('a', 2) and not taken.take('b', 3)
    assert taken.forget() == [2, 3] and taken.ended('a') == []
