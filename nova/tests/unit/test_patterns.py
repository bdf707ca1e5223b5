"""Regular expressions that check input: a line feed at the end is a part of the text."""
import pytest
from oslo_config import types

from nova import conf as nova_conf
from nova import exception
from nova.web import json_schema
from nova.web import params
from nova.web import resource

CLOSED = {'type': 'object', 'additionalProperties': False, 'patternProperties': {'^[a-z]{1,9}$': {'type': 'string'}}}


@pytest.mark.parametrize(('pattern', 'anchored'), [
    ('^a$', r'^a\Z'), ('^a', '^a'), (r'^a\$', r'^a\$'), (r'^a\Z', r'^a\Z'), ('^(a|b)*$', r'^(a|b)*\Z')])
def test_the_end_of_a_pattern_is_that_of_the_text(pattern, anchored):
    assert json_schema.anchored(pattern) == anchored


@pytest.mark.parametrize(('schema', 'good', 'bad'), [
    ({'type': 'string', 'pattern': '^[a-z]*$'}, 'a', 'a\n'), (CLOSED, {'a': 'b'}, {'a\n': 'b'}),
    (CLOSED, {'a': 'b'}, {'a': 1}), ({'patternProperties': {'^a$': {'type': 'string'}}}, {'a\n': 1}, {'a': 1})])
def test_json_schema_patterns_match_the_whole_text(schema, good, bad):
    validator = json_schema.Validator(schema)
    assert validator.is_valid(good) and not validator.is_valid(bad)


@pytest.mark.parametrize(('body', 'good', 'bad'), [
    (params.Object(params.Param('host', params.HOST)), {'host': 'a'}, {'host': 'a\n'}),
    (params.METADATA, {'a': 'b'}, {'a\n': 'b'})])
def test_patterns_of_compute_bodies_match_the_whole_value(body, good, bad):
    assert body.validate(good, 1) == good
    with pytest.raises(exception.BadRequest):
        body.validate(bad, 1)


def test_patterns_of_volume_bodies_match_the_whole_value():
    given = resource.Body('type', resource.closed(name={'type': 'string', 'pattern': '^[a-z]+$'}))
    assert given.validate({'type': {'name': 'a'}}) == {'name': 'a'}
    with pytest.raises(exception.BadRequest):
        given.validate({'type': {'name': 'a\n'}})


def patterns():
    """{name of an option: its regular expression} of those whose whole value it describes."""
    conf, found = nova_conf.new(files=[]), {}
    for group, options in [('', conf._opts), *((name, group._opts) for name, group in conf._groups.items())]:
        for name, option in options.items():
            kind = option['opt'].type
            kind = kind.item_type if isinstance(kind, types.List) else kind
            regex = getattr(kind, 'regex', None)
            if regex is not None and not regex.pattern.endswith('.+'):
                found[f'{group}.{name}'] = regex.pattern
    return found


def test_patterns_of_options_begin_and_end_with_the_value():
    """oslo.config searches for them: without an anchor a part of the value was enough."""
    found = patterns()
    assert len(found) > 8
    assert [name for name, pattern in found.items() if not pattern.startswith('^') or not pattern.endswith(r'\Z')] == []


@pytest.mark.parametrize(('option', 'value'), [
    ('libvirt__rbd_user', '../nova'), ('libvirt__images_rbd_pool', 'a pool'), ('libvirt__cpu_models', ['a,-b c']),
    ('network__bridge', 'br\n'), ('instance_usage_audit_period', 'every day')])
def test_options_refuse_a_value_of_which_a_part_fits(option, value):
    conf = nova_conf.new(files=[])
    group, _, name = option.rpartition('__')
    with pytest.raises(ValueError):
        conf.set_override(name, value, group or None)
