"""How inputs change: blindly, as texts, as JSON documents, as records of numbers. All of it follows from the Random."""
import collections.abc
import random
import re
import struct

import orjson

INTERESTING = (0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 511, 512, 513, 1023, 4095, 4096,
               65535, 65536, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 63 - 1, 2 ** 63, 2 ** 64 - 1)
WORDS = (b'', b' ', b'\t', b'\0', b'\r', b'\n', b'\r\n', b'\r\n\r\n', b'"', b"'", b',', b';', b':', b'=', b'%', b'%00',
         b'%ff', b'&', b'{', b'}', b'[', b']', b'<', b'>', b'/', b'\\', b'..', b'-', b'+', b'_', b'^', b'*', b'(', b')',
         b'\xff', b'\xc3\x28', b'\xed\xa0\x80', b'\xe2\x80\xae', b'\xef\xbb\xbf', '١٢'.encode(), b'0', b'-1', b'1e999',
         b'NaN', b'null', b'true', b'99999999999999999999', b'0x10', b'1_0', b'::1', b'::ffff:10.0.0.1', b'fe80::1%x',
         b'\\ud800', b'\x85', b'\x0b', b'\x1c')
_VALUES = (None, True, False, 0, -1, 1.5, 2 ** 31, 2 ** 63, 1e308, '', ' ', 'x', 'x' * 300, '\0', '\u202e', '١', [], {},
           [[]], [None], {'': None}, {'x': {'y': 1}}, '0', 'true', '9' * 30, 'a,b:c', 'nova_time', 'nova_object.name')
MOST = 1 << 19               # bytes of what is repeated
_NUMBER = re.compile(rb'[0-9]{1,20}')


def anything(rng: random.Random, data: bytes) -> bytes:
    """Bytes changed without regard to what they mean."""
    changed, place = bytearray(data), rng.randrange(len(data) + 1)
    end = min(len(data), place + rng.choice((1, 2, 4, 8, 64, 1024)))
    kind = rng.randrange(9)
    if kind == 0 and place < len(data):
        changed[place] ^= 1 << rng.randrange(8)
    elif kind == 1 and place < len(data):
        changed[place] = rng.randrange(256)
    elif kind == 2:
        del changed[place:end]
    elif kind == 3:
        changed[place:place] = data[place:end] * rng.choice((1, 2, 16))
    elif kind == 4:
        changed[place:place] = rng.choice(WORDS)
    elif kind == 5:
        changed[place:end] = rng.choice(WORDS)
    elif kind == 6:
        del changed[place:]
    elif kind == 7:
        other = rng.randrange(len(data) + 1)
        changed[place:place] = data[other:other + 32]
    else:
        changed[place:place] = rng.randbytes(rng.choice((1, 3, 17)))
    return bytes(changed)


def texts(rng: random.Random, data: bytes) -> bytes:
    """A word or a number in a text is another one, comes again, or very often."""
    kind = rng.randrange(4)
    numbers = list(_NUMBER.finditer(data)) if kind == 0 else ()
    if numbers:
        found = rng.choice(numbers)
        return data[:found.start()] + b'%d' % rng.choice(INTERESTING) + data[found.end():]
    parts = re.split(rb'([,;:&=\s"<>])', data)
    place = rng.randrange(len(parts))
    if kind == 1:
        parts[place] = rng.choice(WORDS)
    elif kind == 2:
        again = rng.choices(parts, k=2)
        parts[place:place] = again * _times(rng, (1, 1, 2, 100, 2000), sum(map(len, again)))
    else:
        parts[place] *= _times(rng, (2, 40, 4096), len(parts[place]))
    return b''.join(parts)


def _times(rng, choices, size):
    return min(rng.choice(choices), max(1, MOST // max(1, size)))


def document(rng: random.Random, data: bytes) -> bytes:
    """Another value somewhere in a JSON document: of another type, deeper, longer, or under another name."""
    if rng.random() < 0.05:
        depth = rng.choice((2, 30, 33, 500, 1100))
        return b'[' * depth + data + b']' * depth
    try:
        return orjson.dumps(_changed(rng, orjson.loads(data)))[:2 * MOST]
    except (ValueError, TypeError):                    # no document, or one that is too deep to be written
        return texts(rng, data)


def _changed(rng: random.Random, value):
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        rest = {name: item for name, item in value.items() if name != key}
        kind = rng.randrange(8)
        if kind == 0:
            return rest
        if kind == 1:
            return {**rest, rng.choice(('', 'x', '\0', key + 'x', 'nova_time', 'nova_bytes', 'nova_object.name')):
                    value[key]}
        if kind == 2:
            count = _times(rng, (1, 50, 2000), len(orjson.dumps(value[key])))
            return {**value, **{f'{key}{number}': value[key] for number in range(count)}}
        return {**value, key: _changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        place, kind = rng.randrange(len(value)), rng.randrange(8)
        if kind == 0:
            return value[:place] + value[place + 1:]
        if kind == 1:
            return value * _times(rng, (2, 100, 5000), len(orjson.dumps(value)))
        if kind == 2:
            return [*value, *([rng.choice(_VALUES), rng.choice(_VALUES)] * rng.choice((1, 1, 1000)))]
        return [*value[:place], _changed(rng, value[place]), *value[place + 1:]]
    return rng.choice(_VALUES)


def record(*fields: tuple[int, str]) -> collections.abc.Callable[[random.Random, bytes], bytes]:
    """A mutation of numbers at known places.

    :param fields: (offset, format of struct)
    """
    def mutate(rng: random.Random, data: bytes) -> bytes:
        offset, form = rng.choice(fields)
        size = struct.calcsize(form)
        if offset + size > len(data):
            return anything(rng, data)
        number = rng.choice(INTERESTING)
        if rng.random() < 0.4:
            number = struct.unpack_from(form, data, offset)[0] ^ 1 << rng.randrange(8 * size)
        number &= (1 << 8 * size) - 1
        return data[:offset] + struct.pack(form, number) + data[offset + size:]
    return mutate
