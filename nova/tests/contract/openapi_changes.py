"""Compare two OpenAPI documents: what a client of the older one can no longer do or read.

Frozen documents are those of the last release, without descriptions, one file for each API and version.
"""
import gzip
import itertools
import json
import pathlib

DIRECTORY = pathlib.Path(__file__).parent / 'data' / 'openapi'
METHODS = ('get', 'post', 'put', 'patch', 'delete', 'head')
TEXTS = ('description', 'summary', 'example', 'examples', 'operationId', 'tags')
UPPER = ('maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties')
LOWER = ('minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties')
ALTERNATIVES = ('oneOf', 'anyOf')
JSON_TYPES = frozenset({'string', 'number', 'integer', 'boolean', 'null', 'object', 'array'})
DEPTH = 40                   # of schemas that refer to themselves


def stripped(document):
    """Return a document without its texts."""
    if isinstance(document, list):
        return [stripped(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {key: stripped(value) for key, value in document.items() if key not in TEXTS or isinstance(value, dict)}


def frozen():
    """Return {name: frozen document}."""
    return {path.name.removesuffix('.json.gz'): json.loads(gzip.decompress(path.read_bytes()))
            for path in sorted(DIRECTORY.glob('*.json.gz'))}


def freeze(name, document):
    text = json.dumps(stripped(document), sort_keys=True, separators=(',', ':'))
    (DIRECTORY / f'{name}.json.gz').write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def narrowed(old, new):
    """Return a sentence for each operation, parameter or field that was removed or accepts or promises less."""
    found = []
    for path, item in old['paths'].items():
        for method in METHODS:
            if method in item:
                here = new['paths'].get(path, {})
                if method not in here:
                    found.append(f'{method.upper()} {path} was removed')
                    continue
                found += _Operation(f'{method.upper()} {path}', old, new).narrowed(
                    _with_parameters(item, method), _with_parameters(here, method))
    return found


def _with_parameters(item, method):
    return {**item[method], 'parameters': [*item.get('parameters', ()), *item[method].get('parameters', ())]}


class _Operation:
    """Comparison of one operation in two documents."""

    def __init__(self, name, old, new):
        self.name, self.old, self.new = name, old, new

    def narrowed(self, old, new):
        yield from self._parameters(old, new)
        bodies = [self._content(each.get('requestBody', {}), document) for each, document in (
            (old, self.old), (new, self.new))]
        yield from self._schema('body', *bodies, sent=True)
        yield from self._answers(old, new, '')
        for action, description in old.get('x-openstack-actions', {}).items():
            if isinstance(description, dict) and 'responses' in description:
                there = new.get('x-openstack-actions', {}).get(action)
                if there is None:
                    yield f'{self.name}: the action {action} was removed'
                else:
                    yield from self._answers(description, there, f'{action} ')

    def _parameters(self, old, new):
        ours, theirs = ({(each['in'], each['name']): each for each in (
            self._resolved(each, document) for each in operation['parameters'])}
            for operation, document in ((old, self.old), (new, self.new)))
        for key, parameter in ours.items():
            if key not in theirs:
                yield f'{self.name}: the parameter {key[1]} was removed'
            else:
                yield from self._schema(key[1], parameter.get('schema'), theirs[key].get('schema'), sent=True)
        for key, parameter in theirs.items():
            if parameter.get('required') and not ours.get(key, {}).get('required') and key[0] != 'path':
                yield f'{self.name}: the parameter {key[1]} is required'

    def _answers(self, old, new, prefix):
        for status, answer in old['responses'].items():
            if status.startswith('2'):
                if status not in new['responses']:
                    yield f'{self.name}: {prefix}{status} is no longer answered'
                    continue
                yield from self._schema(prefix + status, self._content(answer, self.old),
                                        self._content(new['responses'][status], self.new), sent=False)

    def _content(self, answer, document):
        answer = self._resolved(answer, document)
        if 'content' in answer:
            return answer['content'].get('application/json', {}).get('schema')
        return answer if 'type' in answer or 'properties' in answer else None

    @staticmethod
    def _resolved(value, document):
        while isinstance(value, dict) and '$ref' in value:
            target = document
            for part in value['$ref'].removeprefix('#/').split('/'):
                target = target[part.replace('~1', '/').replace('~0', '~')]
            value = target
        return value

    def _schema(self, where, old, new, *, sent, depth=0):
        """Compare schemas of what is sent (it must accept as much) or answered (it must promise as much)."""
        old, new = self._resolved(old, self.old), self._resolved(new, self.new)
        if old == new or old is None or depth > DEPTH:
            return
        if new is None:
            yield f'{self.name}: {where} was removed'
            return
        if not isinstance(old, dict) or not isinstance(new, dict):
            if new is False or not sent and old is False:
                yield f'{self.name}: {where} has another schema'
            return
        wide, narrow = (new, old) if sent else (old, new)
        if missing := _types(narrow) - _types(wide):
            yield f'{self.name}: {where} {"no longer accepts" if sent else "may be"} {", ".join(sorted(missing))}'
        if sent:
            yield from self._bounds(where, old, new)
        yield from self._properties(where, old, new, sent=sent, depth=depth)
        if 'items' in old:
            yield from self._schema(f'{where}[]', old['items'], new.get('items', True), sent=sent, depth=depth + 1)
        for key in ALTERNATIVES:
            if key in old:
                yield from self._alternatives(where, old[key], new.get(key, [new]), sent=sent, depth=depth)

    def _bounds(self, where, old, new):
        values = _values(new)
        if values is not None and (old_values := _values(old)) is not None:
            if missing := [value for value in old_values if value not in values]:
                yield f'{self.name}: {where} no longer accepts {missing}'
        elif values is not None:
            yield f'{self.name}: {where} accepts only {values}'
        for keys, worse in ((UPPER, lambda before, now: now < before), (LOWER, lambda before, now: now > before)):
            for key in keys:
                if key in new and (key not in old or worse(old[key], new[key])):
                    yield f'{self.name}: {where} has the {key} {new[key]} (before: {old.get(key)})'
        if 'pattern' in new and new['pattern'] != old.get('pattern'):
            yield f'{self.name}: {where} has another pattern'
        if new.get('additionalProperties') is False and old.get('additionalProperties', True) is not False:
            yield f'{self.name}: {where} no longer accepts other fields'

    def _properties(self, where, old, new, *, sent, depth):
        there = new.get('properties', {})
        for name, schema in old.get('properties', {}).items():
            if name in there:
                yield from self._schema(f'{where}.{name}', schema, there[name], sent=sent, depth=depth + 1)
            elif not sent or new.get('additionalProperties', True) is False:
                yield f'{self.name}: {where}.{name} was removed'
        before, now = set(old.get('required', ())), set(new.get('required', ()))
        for name in sorted(now - before if sent else before - now):
            if sent or name in there:
                yield f'{self.name}: {where}.{name} is {"" if sent else "no longer "}required'

    def _alternatives(self, where, old, new, *, sent, depth):
        """Each alternative needs one on the other side that is not narrower."""
        for each in old if sent else new:
            candidates = [list(self._schema(where, *((each, other) if sent else (other, each)), sent=sent,
                                            depth=depth + 1)) for other in (new if sent else old)]
            if all(candidates):
                yield from min(candidates, key=len)


def _types(schema):
    if 'type' in schema:
        types = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
        return frozenset(itertools.chain(types, ('integer',) if 'number' in types else ()))
    return JSON_TYPES


def _values(schema):
    return [schema['const']] if 'const' in schema else schema.get('enum')
