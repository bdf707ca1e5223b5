"""The values that lists are sorted by, and filters that are expressions, against the public facts."""
import re

import pytest

from nova.api import app
from nova.tests.contract import facts

ROUTES = {f'{row.method} {row.path}': row for row in app.all_routes() if row.api and row.method == 'GET'}
LISTS = ('GET /servers', 'GET /servers/detail', 'GET /flavors', 'GET /flavors/detail')


def _schemas(operation, version):
    return {param.name: param.type.schema(version) for param in ROUTES[operation].query.params if param.at(version)}


@pytest.mark.parametrize('operation', LISTS)
def test_sort_keys_are_the_documented_ones(operation):
    for version in facts.boundaries(operation, 'query'):
        known = facts.fields_at(operation, 'query', version)
        text = known.get('sort_key[]') or known['sort_key']
        expected = set(re.search(r'one of (\S+)', text)[1].split(','))
        assert set(_schemas(operation, version)['sort_key']['enum']) == expected, f'2.{version}'


@pytest.mark.parametrize('operation', LISTS[:2])
def test_filters_have_the_documented_formats(operation):
    for version in facts.boundaries(operation, 'query'):
        ours = _schemas(operation, version)
        for name, text in facts.fields_at(operation, 'query', version).items():
            found = re.search(r'format=(\S+)', text)
            if name.endswith('[]') and found:
                assert ours[name[:-2]].get('format') == found[1], f'{name} at 2.{version}'


def test_nothing_else_is_an_expression():
    for version in facts.boundaries('GET /servers', 'query'):
        known = facts.fields_at('GET /servers', 'query', version)
        for name, schema in _schemas('GET /servers', version).items():
            if schema.get('format') == 'regex':
                assert known[f'{name}[]'].endswith('format=regex'), f'{name} at 2.{version}'
