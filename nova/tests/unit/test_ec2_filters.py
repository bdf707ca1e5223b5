"""Filters of the EC2 API: what a request may cost."""
import time

import pytest

from nova.api.ec2 import errors
from nova.api.ec2 import filters

CPU_S = 3                       # of a request with all that is allowed; it takes a fraction


def costly(number):
    """Values that are tried to the end on a text of one letter."""
    return [f'*a*a*a*a*a*a*b{each}*' for each in range(number)]


def request(values):
    """Filters with these values in turn, and one that fits the last tag alone."""
    return [{'Name': 'tag-value', 'Values': [*values[start:start + 199], 'last']}
            for start in range(0, len(values), 199)]


def test_what_filters_cost_is_bounded():
    """Nine filters with 199 such values took eleven seconds of a processor on ten servers with all their tags."""
    tags = [{'Key': f'k{number:03}', 'Value': 'a' * 255} for number in range(127)]
    items = [{'Tags': [*tags, {'Key': 'z', 'Value': 'last'}]} for _ in range(10)]
    with pytest.raises(errors.Ec2Error) as refused:
        filters.apply(items, request(costly(9 * 199)), {})
    assert refused.value.code == 'FilterLimitExceeded'
    begun = time.process_time()
    assert filters.apply(items, request(costly(filters.MOST_PATTERNS)), {}) == items
    assert time.process_time() - begun < CPU_S


def test_names_without_stars_are_as_many_as_before():
    items = [{'Tags': [{'Key': 'a', 'Value': str(number)}]} for number in range(filters.MOST_VALUES)]
    assert filters.apply(items, [{'Name': 'tag:a', 'Values': [str(number) for number in range(200)]}], {}) == items
    assert len(filters.apply(items, [{'Name': 'tag:a', 'Values': ['1*', '?']}], {})) == 120


def test_items_are_chosen_by_names_in_their_own_order():
    """Key pairs, security groups, types and addresses did it each for themselves."""
    items = [{'name': name} for name in ('a', 'b', 'c')]

    def names(wanted):
        chosen = filters.choose_named(items, 'name', wanted, 'Invalid.NotFound', '{} is not there.')
        return [item['name'] for item in chosen]
    assert names(None) == names([]) == ['a', 'b', 'c'] and names(['c', 'a', 'c']) == ['a', 'c']
    with pytest.raises(errors.Ec2Error) as refused:
        names(['a', 'x' * 300 + '{}'])
    assert refused.value.code == 'Invalid.NotFound' and f"'{'x' * 255}' is not there." in str(refused.value)
