"""The smallest value that a JSON Schema of ours takes; what operations are asked with when the values do not matter."""

# format: value
FORMATS = {
    'uuid': '11111111-2222-4333-8444-555555555555', 'ipv4': '192.0.2.1', 'ipv6': 'fd00::1', 'cidr': '192.0.2.0/24',
    'mac-address': 'fa:16:3e:00:00:01', 'uri': 'http://example.org/', 'date-time': '2026-01-01T00:00:00Z',
    'base64': 'YQ==', 'regex': 'a', 'digits': '1', 'signed': '1',
}
# pattern: value, where no letters fit
PATTERNS = {'^/[0-9a-f.:]+$': '/24', '^-?[0-9]{1,9}$': '1', '^[0-9]*$': '1', '^-?[0-9]+$': '1',
            r'^[0-9]+(\.[0-9]+)?$': '1'}
# key: value, where more must hold than a schema says
NAMES = {'imageRef': '11111111-2222-4333-8444-555555555555'}


def sample(schema, name=''):
    """A value that fits.

    :param name: the key that it is of
    """
    if name in NAMES:
        return NAMES[name]
    for word in ('const', 'default'):
        if word in schema:
            return schema[word]
    if 'enum' in schema:
        return schema['enum'][0]
    for word in ('anyOf', 'oneOf'):
        if word in schema and 'properties' not in schema:
            return sample({**{key: value for key, value in schema.items() if key != word}, **schema[word][0]})
    kinds = schema.get('type', 'object' if 'properties' in schema else 'null')
    kind = kinds if isinstance(kinds, str) else kinds[0]
    return _MAKERS[kind](schema)


def _object(schema):
    known = schema.get('properties', {})
    wanted = list(schema.get('required', ()))
    wanted += [key for key in known if key not in wanted][:max(0, schema.get('minProperties', 0) - len(wanted))]
    wanted += [key for each in schema.get('anyOf', ())[:1] for key in each.get('required', ()) if key not in wanted]
    return {key: sample(known[key], key) for key in wanted}


def _array(schema):
    first = [sample(each) for each in schema.get('prefixItems', ())]
    return first or [sample(schema.get('items', {})) for _ in range(schema.get('minItems', 0))]


def _string(schema):
    if schema.get('format') in FORMATS:
        return FORMATS[schema['format']]
    return PATTERNS.get(schema.get('pattern')) or 'a' * max(1, schema.get('minLength', 1))


_MAKERS = {'object': _object, 'array': _array, 'string': _string, 'null': lambda schema: None,
           'boolean': lambda schema: True, 'integer': lambda schema: schema.get('minimum', 1),
           'number': lambda schema: schema.get('minimum', 1)}
