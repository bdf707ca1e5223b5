"""Filters of the EC2 API: what a request may cost."""
import time

import pytest

from nova.ec2 import errors
from nova.ec2 import filters

CPU_S = 3                       # of a request with all that is allowed; it takes a fraction


def costly(number):
    """Values that are tried to the end on a text of one letter."""
    return [f'*a*a*a*a*a*a*b{each}*' for each in range(number)]


def request(values):
    """Filters with these values in turn, and one that fits the last tag alone."""
    return [{'Name': 'tag-value', 'Values': [*values[start:start + 199], 'last']}
            for start in range(0, len(values), 199)]


def test_cost_of_ec2_filters_is_bounded():
    """Nine filters with 199 such values took eleven seconds of a processor on ten servers with all their tags."""
    tags = [{'Key': f'k{number:03}', 'Value': 'a' * 255} for number in range(127)]
    items = [{'Tags': [*tags, {'Key': 'z', 'Value': 'last'}]} for _ in range(10)]
    with pytest.raises(errors.Ec2Error) as refused:
        filters.apply(items, request(costly(9 * 199)), {})
    assert refused.value.code == 'FilterLimitExceeded'
    begun = time.process_time()
    assert filters.apply(items, request(costly(filters.MAX_PATTERNS)), {}) == items
    assert time.process_time() - begun < CPU_S


def test_names_without_stars_are_as_many_as_before():
    items = [{'Tags': [{'Key': 'a', 'Value': str(number)}]} for number in range(filters.MAX_VALUES)]
    assert filters.apply(items, [{'Name': 'tag:a', 'Values': [str(number) for number in range(200)]}], {}) == items
    assert len(filters.apply(items, [{'Name': 'tag:a', 'Values': ['1*', '?']}], {})) == 120


@pytest.mark.parametrize('value, matching', [
    (r'\*a\?\\', ['*a?\\']), (r'\**', ['*x', '*a?\\']), (r'\\*', ['\\', '\\*', r'\a']), ('*', None), (r'\a', [r'\a']),
    ('[x]', ['[x]']), ('*\\', ['*a?\\', 'xax\\', '\\']), (r'\[*', [])])
def test_an_escaped_wildcard_is_literal(value, matching):
    names = ['*x', 'x', '*a?\\', 'xax\\', '\\', '\\*', r'\a', '[x]']
    items = [{'Name': name} for name in names]
    found = filters.apply(items, [{'Name': 'name', 'Values': [value]}], {'name': 'Name'})
    assert sorted(item['Name'] for item in found) == sorted(names if matching is None else matching)


def test_escaped_stars_are_not_counted_as_patterns():
    values = [r'\*' * 9 + str(number) for number in range(filters.MAX_PATTERNS + 1)]
    items = [{'Tags': [{'Key': 'a', 'Value': '*' * 9 + '7'}]}]
    assert filters.apply(items, [{'Name': 'tag:a', 'Values': values}], {}) == items


@pytest.mark.parametrize('value, code', [
    ('*' + 'x' * 255, 'InvalidParameterValue'), ('?' + 'x' * 255, 'InvalidParameterValue'), ('?' + 'x' * 254, None),
    ('x' * 250_000, None)])
def test_long_patterns_are_refused(value, code):
    """The compilation of 250 kB held the interpreter for a second, and the cache kept its result."""
    filters_ = [{'Name': 'tag:a', 'Values': [value]}]
    if code is None:
        assert filters.apply([{'Tags': [{'Key': 'a', 'Value': 'b'}]}], filters_, {}) == []
    else:
        with pytest.raises(errors.Ec2Error) as refused:
            filters.apply([], filters_, {})
        assert refused.value.code == code


def test_values_without_wildcards_are_not_compiled():
    items = [{'Tags': [{'Key': 'a', 'Value': '*' + 'x' * 255}]}]
    filters.apply(items, [{'Name': 'tag:a', 'Values': []}], {})
    before = filters._pattern.cache_info().misses
    values = [*map(str, range(199)), r'\*' + 'x' * 255]
    assert filters.apply(items, [{'Name': 'tag:a', 'Values': values}], {}) == items
    assert filters._pattern.cache_info().misses == before


@pytest.mark.parametrize('values', [[f'?{number}' for number in range(51)], ['*a'] * 51])
def test_question_marks_and_repetitions_count_as_patterns(values):
    with pytest.raises(errors.Ec2Error, match='at most 50 values with wildcards'):
        filters.apply([], [{'Name': 'tag:a', 'Values': values}], {})


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


def test_a_page_of_the_items_whose_values_match():
    """A value is a path of names, through lists too, or a function; a name that an item lacks matches no filter."""
    items = [{'Id': 'i-3', 'State': {'Name': 'running'}, 'Disks': [{'Ebs': {'Id': 'v-1'}}, {'Ebs': None}]},
             {'Id': 'i-1', 'State': None, 'Disks': [{'Ebs': {'Id': 'v-2'}}]}, {'Id': 'i-2', 'Disks': []}]
    rows = {'state': 'State.Name', 'disk': 'Disks.Ebs.Id', 'number': lambda item: item['Id'][2:]}

    def chosen(filter_=None, key='Id', **paging):
        given = {'Filters': [{'Name': filter_[0], 'Values': [filter_[1]]}] if filter_ else None, **paging}
        found = filters.answer('Items', items, given, key, rows, least=1)
        return [item['Id'] for item in found['Items']], found['NextToken']
    assert chosen() == (['i-3', 'i-1', 'i-2'], None)
    assert chosen(('state', 'run*')) == (['i-3'], None) and chosen(('disk', 'v-?')) == (['i-3', 'i-1'], None)
    assert chosen(('number', '2')) == (['i-2'], None)
    page, token = chosen(MaxResults=2)
    assert page == ['i-1', 'i-2'] and chosen(MaxResults=2, NextToken=token) == (['i-3'], None)
    page, token = chosen(MaxResults=1, key=lambda item: str(-int(item['Id'][2:]) % 10))
    assert page == ['i-3'] and token
