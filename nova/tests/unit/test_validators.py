"""Validators of JSON values: no conversion of types, exact fields, bounds."""
import pytest

from nova.runtime import validators as v

RECORD = v.record(dict, a=v.number(1, 3), b=v.maybe(v.flag))


@pytest.mark.parametrize(('validator', 'good', 'bad'), [
    (v.text('[a-z]+', 'a word'), ['abc'], ['', 'abc\n', 'A', None, 1, b'abc', ['abc']]),
    (v.number(1, 3), [1, 3], [0, 4, 1.0, True, '1', None]),
    (v.one_of('tcp', 1), ['tcp', 1], [True, 1.0, 'udp', None, ['tcp']]),
    (v.flag, [True, False], [0, 1, 'true', None]),
    (v.maybe(v.flag), [None, True], [0, '']),
    (v.either('', v.address), ['', '10.0.0.1'], [None, 'x', []]),
    (v.items(v.number(1, 3), 2), [[], [1, 2]], [[1, 2, 3], {}, 'ab', None, [4]]),
    (v.row(v.number(1, 3), v.flag), [[1, True]], [[1], [1, True, True], [True, 1], '11', {}]),
    (v.mapping(v.text('[a-z]', 'a key'), v.flag), [{}, {'a': True}], [{'A': True}, {'a': 1}, [], None]),
    (RECORD, [{'a': 1, 'b': None}], [{'a': 1}, {'a': 1, 'b': None, 'c': 1}, {'a': 4, 'b': None}, [], None]),
    (v.address, ['10.0.0.1', 'fd00::1'], ['fe80::1%eth0', '10.0.0.0/8', 167772161, None, '10.0.0.1 ']),
    (v.prefix, ['10.0.0.0/8'], ['fe80::%eth0/64', '10.0.0.0/33', 1, None]),
    (v.interface_address, ['10.0.0.1/8'], ['fe80::1%eth0/64', 'x', None]),
])
def test_only_valid_values_pass(validator, good, bad):
    assert [validator(each) for each in good] == good
    for each in bad:
        with pytest.raises(ValueError):
            validator(each)


def test_addresses_are_normalized():
    assert v.address('FD00:0::1') == 'fd00::1' and v.prefix('10.1.2.3/8') == '10.0.0.0/8'


def test_an_operation_gets_only_its_validated_arguments():
    called = v.operation(lambda **given: given, a=v.number(1, 3), b=v.maybe(v.flag))
    assert called(a=1) == {'a': 1, 'b': None} and called(a=1, b=True) == {'a': 1, 'b': True}
    for bad in ({}, {'a': 4}, {'a': 1, 'c': 1}, {'a': 1, 'b': 'x'}):
        with pytest.raises(ValueError):
            called(**bad)


def test_an_operation_has_the_arguments_of_its_function():
    with pytest.raises(TypeError):
        v.operation(lambda path: path, paths=v.address)


def test_a_secret_is_not_in_the_message():
    with pytest.raises(ValueError) as caught:
        v.text('[0-9]+', 'a key', shown=0)('secret')
    assert 'secret' not in str(caught.value) and 'is not a key' in str(caught.value)


def test_a_long_value_is_cut_in_the_message():
    for validator in (v.text('a', 'a'), v.number(1, 2), v.one_of('a'), v.address):
        with pytest.raises(ValueError) as caught:
            validator('x' * 10_000)
        assert len(str(caught.value)) < 200
