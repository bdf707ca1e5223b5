"""The Route rows against the public facts: methods, paths, versions, codes, rules, bodies and queries."""
import re

import pytest

from nova import policies
from nova.api import app
from nova.api import response_types as answers
from nova.api import versions
from nova.tests.contract import facts

ROUTES = [row for row in app.all_routes() if row.api]


def _key(row):
    return row.method, facts.nameless(row.path), row.action or ''


def _operation(row):
    method, path, action = _key(row)
    return f'{method} {path} {action}'.strip()


def _name(row):
    return f'{row.method} {row.path} {row.action or ""}'.strip()


GROUPS = {}
for _row in ROUTES:
    GROUPS.setdefault(_key(_row), []).append(_row)


def test_newest_version_is_the_facts():
    assert versions.MAX_VERSION == facts.MAX
    assert [minor for minor, _name, _text in versions.HISTORY] == list(range(1, facts.MAX + 1))
    assert len(versions.SINCE) == facts.MAX


@pytest.mark.parametrize('key', GROUPS, ids=' '.join)
def test_row_is_an_operation_of_the_api(key):
    """One operation may be several rows that follow each other; together they cover its versions."""
    if _operation(GROUPS[key][0]) in answers.own():
        return
    fact, rows = facts.routes()[key], sorted(GROUPS[key], key=lambda row: row.since)
    assert rows[0].since == max(facts.minor(fact['min']), 1)
    assert rows[-1].until == facts.minor(fact['max'])
    for before, after in zip(rows, rows[1:]):
        assert before.until + 1 == after.since
    for row in rows:
        assert {str(code) for code in row.errors} >= set(fact['errors'].split())


# The public reference is more exact than the facts: 201 for a tag that is new, 204 for one that was there.
# An attachment is accepted, not made, from 2.101 on.
MORE_EXACT = {('PUT', '/servers/{}/tags/{}', ''), ('POST', '/servers/{}/os-volume_attachments', '')}


def _expected_status(text, version):
    if ':' not in text:
        return int(text)
    since = {facts.minor(pair.split(':')[0]): int(pair.split(':')[1]) for pair in text.split()}
    return since[max(minor for minor in since if minor <= version)]


@pytest.mark.parametrize('row', [row for row in ROUTES if _key(row) not in MORE_EXACT
                                 and _operation(row) not in answers.own()], ids=_name)
def test_success_code_of_each_row_is_the_documented_one(row):
    text = facts.routes()[_key(row)]['success']
    if text == 'removed':
        assert (410 if '410' in facts.routes()[_key(row)]['errors'] else 400) in row.errors
        return
    for version in {row.since, 2 if row.since <= 2 else row.since, row.until or facts.MAX}:
        assert row.code(version) == _expected_status(text, version)


@pytest.mark.parametrize('row', ROUTES, ids=_name)
def test_row_is_guarded_by_known_rules(row):
    known = {rule for rule, *_ in policies.RULES}
    rules = {row.policy, *row.checks} - {None}
    assert rules <= known
    if not row.public and 410 not in row.errors:
        assert rules or row.path.startswith(('/flavors', '/images', '/versions')), 'nobody checks who may do this'


def test_rules_have_the_documented_defaults():
    ours = {rule: check for rule, check, *_ in (*policies.BASE_RULES, *policies.RULES)
            if not rule.startswith(('nova:', 'ec2_api:', 'objectstore:'))}
    assert ours == facts.policies()


def _versions(row, part):
    return facts.boundaries(_operation(row), part, row.since, row.until)


# Where the facts leave the body open: all of it, or the value of the action's key.
OPEN = {'POST /servers/{}/action unlock', 'POST /servers/{}/action migrate'}
# What is not required by the facts, but refused without it where it is read.
STRICTER = re.compile(r'.*\.personality\[\]\.(path|contents)')
PUBLIC = [row for row in ROUTES if 410 not in row.errors and _operation(row) not in answers.own()]


@pytest.mark.parametrize('row', [row for row in PUBLIC if row.body], ids=_name)
def test_body_has_the_documented_fields(row):
    for version in _versions(row, 'request'):
        known = facts.fields_at(_operation(row), 'request', version)
        if not known and _operation(row) in OPEN:
            continue
        ours = facts.schema_paths(row.body.schema(version))
        expected = {name: text.endswith('required') or bool(STRICTER.fullmatch(name))
                    for name, text in known.items() if name[0] != '('}
        assert ours == expected, f'2.{version}'
        assert row.body.is_closed(version) is ('(no other fields)' in known)


@pytest.mark.parametrize('row', PUBLIC, ids=_name)
def test_query_has_the_documented_keys(row):
    for version in _versions(row, 'query'):
        known = facts.fields_at(_operation(row), 'query', version)
        names = {name.removeprefix('.<').removesuffix('>') for name in known if name[-2:] != '[]'} - {
            '(no other fields)'}
        params = row.query.params if row.query else []
        assert {p.name or p.pattern for p in params if p.at(version)} == names, f'2.{version}'
        closed = row.query is not None and row.query.is_closed(version)
        assert closed is ('(no other fields)' in known), f'2.{version}'
