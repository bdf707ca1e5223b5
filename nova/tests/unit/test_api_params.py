"""Parameters: versions, conversion, and what errors say."""
import datetime
import time

import pytest

from nova import exception
from nova.web import params
from nova.web.params import Array
from nova.web.params import Object
from nova.web.params import Param
from nova.web.params import Query
from nova.web.params import Type

BODY = Object(
    Param('server', Object(
        Param('name', params.NAME, required=True),
        Param('count', params.POSITIVE),
        Param('old', params.STRING, until=4),
        Param('new', params.BOOLEAN, since=5, required=True),
        Param('networks', Array(Object(Param('port', params.UUID, since=3), Param('size', params.NON_NEGATIVE)),
                                maxItems=2)),
        Param('adminPass', Type(params.string(max_length=4), secret=True)),
        Param('metadata', params.METADATA),
    ), required=True))


def _refused(body, version=1, schema=BODY, **more):
    with pytest.raises(exception.BadRequest) as caught:
        schema.validate(body, version, **more)
    return caught.value.message


def _server(**values):
    return {'server': {'name': 'a', **values}}


def test_parameters_are_accepted_in_their_versions_only():
    assert BODY.validate(_server(old='x'), 4) == _server(old='x')
    assert "'old' was unexpected" in _refused(_server(old='x', new=True), 5)
    assert "'new' is a required property" in _refused(_server(), 5)
    assert "'new' was unexpected" in _refused(_server(new=True), 4)
    assert "'port' was unexpected" in _refused(_server(networks=[{'port': 'x'}]), 2)


def test_values_are_converted():
    body = BODY.validate(_server(count='7', new='off', networks=[{'size': '5'}, {'size': 6}]), 5)
    assert body == _server(count=7, new=False, networks=[{'size': 5}, {'size': 6}])


def test_relaxed_drops_what_is_unknown():
    given = {'x': 1, **_server(name=' a ', y=2, networks=[{'size': 1, 'z': 3}], metadata={'k': 'v', '/': 'n'})}
    assert BODY.validate(given, 1, relaxed=True) == _server(networks=[{'size': 1}], metadata={'k': 'v'})
    assert 'server.count' in _refused(_server(count='x'), relaxed=True)


@pytest.mark.parametrize('body,message', [
    ({'server': {}}, "Invalid input for field/attribute server. 'name' is a required property."),
    (_server(name='a' * 300), 'Invalid input for field/attribute server.name. Value: ' + 'a' * 80
     + '…. It is longer than 255 characters.'),
    (_server(count=0), 'Invalid input for field/attribute server.count. Value: 0. It is less than the minimum of 1.'),
    (_server(networks=[{}, {}, {}]),
     'Invalid input for field/attribute server.networks. It has more than 2 items.'),
    (_server(networks=[{'size': None}]),
     'Invalid input for field/attribute server.networks.0.size. Value: None. It is not of type integer or string.'),
    (_server(adminPass='secret'),
     'Invalid input for field/attribute server.adminPass. It is longer than 4 characters.')])
def test_validation_messages_name_field_and_reason(body, message):
    assert _refused(body) == message


@pytest.mark.parametrize('value,converted', [(1, 1), ('1', 1), ('2147483647', 2147483647), ('007', 7)])
def test_numeric_strings_are_converted_to_integers(value, converted):
    assert BODY.validate(_server(count=value), 1)['server']['count'] == converted


@pytest.mark.parametrize('value', [0, '0', -1, '-1', 2 ** 31, str(2 ** 31), 1.0, True, None, '', ' 1', '1_0', '٣',
                                   '1' * 5000, [1], {}])
def test_invalid_positive_integer_is_refused(value):
    assert 'server.count' in _refused(_server(count=value))


@pytest.mark.parametrize('value', [1, 0, 'maybe', '', None, [], 'tRUE'])
def test_invalid_boolean_is_refused(value):
    assert 'server.new' in _refused(_server(new=value), 5)


def test_deep_error_names_are_cut():
    assert len(_refused({'server': {'name': 'a', 'x' * 10000: 1}})) < 300


# ---- formats -----------------------------------------------------------------

@pytest.mark.parametrize('kind,good,bad', [
    ('uuid', ['70a599e0-31e7-49b7-b260-868f441e862b', '70a599e031e749b7b260868f441e862b'],
     ['x', '', '70a599e0-31e7-49b7-b260-868f441e862', '../70a599e0-31e7-49b7-b260-868f441e862b']),
    ('name', ['a', 'ä 日本', '🚀', 'a\xa0b'], ['', ' a', 'a ', 'a\n', 'a\x00b', 'a\u200bb', 'a\u2028b', '\u3000a']),
    ('az_name', ['nova'], ['nova:host', ' nova']),
    ('ipv4', ['10.0.0.1'], ['10.0.0', '10.0.0.256', '::1', '010.0.0.1', '10.0.0.1/24']),
    ('ipv6', ['::1', 'fd00::1'], ['10.0.0.1', 'fe80::1%eth0', ':::']),
    ('cidr', ['10.0.0.0/8', 'fd00::/64'], ['10.0.0.0', '10.0.0.0/33']),
    ('mac-address', ['fa:16:3e:00:00:01'], ['fa-16-3e-00-00-01', 'fa:16:3e:00:00', 'fa:16:3e:00:00:0g']),
    ('base64', ['', 'YQ==', 'YQ\n=='], ['Y', 'YQ=', 'ä', '!!!!']),
    ('date-time', ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00+02:00', '2026-01-01'], ['x', '', '2026-13-01']),
    ('regex', ['a.*', '^[a]$'], ['(', '*', 'a' * 300]),
])
def test_string_formats_are_validated(kind, good, bad):
    schema = Object(Param('x', params.string(format=kind)))
    for value in good:
        assert schema.validate({'x': value}, 1) == {'x': value}
    for value in bad:
        assert "x. Value: " in _refused({'x': value}, schema=schema), value


# ---- queries -----------------------------------------------------------------

QUERY = Query(Param('limit', params.LIMIT), Param('tag', params.STRING), Param('since', params.DATE_TIME),
              Param('late', params.STRING, since=3), Param(None, params.STRING, pattern='^_'), closed=5, single=7)


def test_query_values_are_validated_and_converted():
    values = QUERY.validate('limit=1&limit=2&tag=a&tag=b&since=2026-01-01T02:00:00%2B02:00&_x=1', 1)
    assert values.one('limit') == 2 and values.many('tag') == ['a', 'b'] and values.one('_x') == '1'
    assert values.one('since') == datetime.datetime(2026, 1, 1)
    assert values.one('nothing', 'd') == 'd' and values.many('nothing') == []


def test_unknown_query_keys_are_refused_from_the_closing_version():
    assert QUERY.validate('late=1&other=1', 2) == {}
    assert QUERY.validate('late=1', 3) == {'late': ['1']}
    with pytest.raises(exception.BadRequest, match="'other' was unexpected"):
        QUERY.validate('other=1', 5)
    assert QUERY.validate('other=1', 5, relaxed=True) == {}
    with pytest.raises(exception.BadRequest, match='only once'):
        QUERY.validate('limit=1&limit=2', 7)


@pytest.mark.parametrize('query', ['limit=x', 'limit=', 'limit=-1', 'since=x', 'tag=%ff', 'tag=%00'])
def test_invalid_query_values_are_refused(query):
    with pytest.raises(exception.BadRequest):
        QUERY.validate(query, 1)


@pytest.mark.parametrize('limits', [{'maxItems': 50}, {}])
def test_equal_items_are_found_in_linear_time(limits):
    """Each item of a list of numbers and texts was compared with each: 1 MiB of them took a core for an hour."""
    schema = Object(Param('x', Type({'type': 'array', 'uniqueItems': True, **limits})))
    items = [item for number in range(20000) for item in (number, str(number))]
    begun = time.thread_time()
    if limits:
        with pytest.raises(exception.BadRequest, match='more than 50 items'):
            schema.validate({'x': items}, 1)
    else:
        schema.validate({'x': items}, 1)
    assert time.thread_time() - begun < 2
    with pytest.raises(exception.BadRequest, match='items that are equal'):
        schema.validate({'x': [1, 'a', {'b': [2], 'c': 1}, True, {'c': 1, 'b': [2]}]}, 1)
    assert schema.validate({'x': [1, True, '1', [], {}]}, 1)


def test_items_of_a_too_long_list_are_not_validated():
    schema = Object(Param('x', Array(params.STRING, maxItems=2)))
    with pytest.raises(exception.BadRequest, match='more than 2 items'):
        schema.validate({'x': [1, 2, 3]}, 1)
    with pytest.raises(exception.BadRequest, match='not of type string'):
        schema.validate({'x': ['a', 2]}, 1)
