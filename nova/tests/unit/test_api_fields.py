"""Tables of fields, compiled."""
import cProfile
import pstats

from nova.web.fields import ABSENT
from nova.web.fields import Field
from nova.web.fields import Fields

TABLE = Fields(
    Field('id', 'uuid'),
    Field('size', lambda row, view: row['size'] * view.factor, until=4),
    Field('size', 'size', since=5),
    Field('host', 'host', since=2, rule='see_host'),
    Field('note', lambda row, view: row['note'] or ABSENT, since=3, optional=True, columns=('note',)),
)
ROW = {'uuid': 'u', 'size': 2, 'host': 'h', 'note': None}


class Request:
    """What a table asks of a request."""

    factor = 10

    def __init__(self, version, rules=()):
        self.version, self.rules, self.asked = version, rules, []

    def allows(self, rule, target=None):
        self.asked.append(rule)
        return rule in self.rules


def _built(version, rules=(), **changes):
    return TABLE.builder(Request(version, rules))({**ROW, **changes})


def test_field_is_shown_in_its_versions_only():
    assert _built(1) == {'id': 'u', 'size': 20}
    assert _built(4) == {'id': 'u', 'size': 20}
    assert _built(5) == {'id': 'u', 'size': 2}


def test_field_with_a_rule_is_shown_to_callers_who_pass_it():
    assert _built(2) == {'id': 'u', 'size': 20}
    assert _built(2, ('see_host',)) == {'id': 'u', 'size': 20, 'host': 'h'}
    assert _built(1, ('see_host',)) == {'id': 'u', 'size': 20}


def test_absent_optional_field_is_omitted():
    assert 'note' not in _built(3)
    assert _built(3, note='n')['note'] == 'n'


def test_columns_follow_version_and_passed_rules():
    assert TABLE.columns(5) == {'uuid', 'size', 'note'}
    assert TABLE.columns(5, frozenset({'see_host'})) == {'uuid', 'size', 'note', 'host'}


def test_rules_are_asked_once_a_request_not_once_a_row():
    req = Request(5, ('see_host',))
    build = TABLE.builder(req)
    for _ in range(10):
        build(ROW)
    assert req.asked == ['see_host']


def test_simple_fields_cost_no_call_per_row():
    """Forty columns cost no call each: one for the builder, one for the table's function."""
    table = Fields(*(Field(f'f{number}', 'uuid') for number in range(40)))
    build = table.builder(Request(1))
    build(ROW)
    profile = cProfile.Profile()
    profile.runcall(lambda: [build(ROW) for _ in range(100)])
    assert pstats.Stats(profile).total_calls <= 2 * 100 + 10


def test_field_names_need_not_be_identifiers():
    table = Fields(Field("OS-EXT:it's", 'uuid'), Field('a"b\\', lambda row, view: 1))
    assert table.builder(Request(1))(ROW) == {"OS-EXT:it's": 'u', 'a"b\\': 1}
