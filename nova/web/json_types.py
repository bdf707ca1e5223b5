"""Short notation for JSON types of response bodies, for the OpenAPI document.

Examples: 'string|null maxLength=255 required', 'string one of UP,DOWN', 'oneOf(string / null)'.
"""
from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Sequence

from nova.json_types import Encodable
from nova.web import json_schema

# Times in responses: ISO 8601, often without a zone. A time without a zone is UTC.
DATE_TIME = {'pattern': r'^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?$',
             'description': 'Date and time of ISO 8601, in UTC.'}
FORMATS = {
    'date-time': DATE_TIME,
    'uuid': {'format': 'uuid'}, 'uri': {'format': 'uri'}, 'url': {'format': 'uri'}, 'ipv4': {'format': 'ipv4'},
    'ipv6': {'format': 'ipv6'}, 'base64': {'contentEncoding': 'base64'},
    'mac-address': {'pattern': '^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$'},
    'cidr': {'pattern': '^[0-9a-fA-F.:]+/[0-9]+$'},
}
_NUMBERS = ('minLength', 'maxLength', 'minimum', 'maximum', 'minItems', 'maxItems')
_WORD = re.compile('(?:^| )(?=(?:pattern |format=|%s|uniqueItems=|const=|one of |required$))'
                   % '|'.join(f'{name}=' for name in _NUMBERS))
_COMBINED = re.compile(r'(?P<key>oneOf|anyOf|allOf)\((?P<parts>.*)\)')
_TYPES = ('string', 'integer', 'number', 'boolean', 'object', 'array', 'null')
_PATH = re.compile(r'<(?P<pattern>.*?)>(?=\.|\[|$)|(?P<item>\[\])|(?P<key>[^.\[\]<]+)')


Schema = json_schema.Schema


def body(fields: dict[str, str], closed: bool = False, forms: dict[str, dict[str, str]] | None = None) -> Schema | None:
    """Build the JSON Schema of a body; None for a body without fields.

    :param fields: {path: type in this notation}: 'servers[].links[].href', '<regular expression>' for variable keys
    :param closed: no additional keys are allowed
    :param forms: {path: {'keys', 'only', 'when'}} of objects with an alternative form
    """
    if not fields:
        return None
    root = _Node()
    for name, text in fields.items():
        root.add(_segments(name), text)
    return root.schema(closed, forms or {})


def typed(text: str) -> dict[str, Encodable]:
    """Build the JSON Schema of a type in this notation, without 'required'."""
    combined = _COMBINED.search(text)
    head, *words = _WORD.split(_COMBINED.sub('', text))
    names = [name for name in head.strip().split('|') if name in _TYPES]
    schema: dict[str, Encodable] = {'type': names[0] if len(names) == 1 else names} if names else {}
    for word in words:
        _apply(schema, word.strip(), names)
    if combined:
        key = 'allOf' if combined['key'] == 'allOf' else 'anyOf'       # not oneOf: alternatives may overlap
        schema[key] = [typed(part) for part in combined['parts'].split(' / ')]
    return schema


def is_required(text: str) -> bool:
    return text.endswith('required')


def _apply(schema: dict[str, Encodable], word: str, names: list[str]) -> None:
    name, _, value = word.partition('=')
    if word.startswith('one of '):
        values: list[Encodable] = []
        schema['enum'] = values
        for text in word.removeprefix('one of ').split(','):
            constant = _constant(text, names)
            values.append(text if constant in values else constant)  # 'one of True,True' means True and 'True'
    elif word.startswith('pattern '):
        schema['pattern'] = portable(word.removeprefix('pattern '))
    elif name == 'format':
        schema.update(FORMATS.get(value, {}))
    elif name == 'const':
        schema['const'] = _constant(value, names)
    elif name in _NUMBERS and not (name == 'maxLength' and names == ['array']):
        schema[name] = int(value)
    elif name == 'uniqueItems':
        schema['uniqueItems'] = value == 'True'


def portable(pattern: str) -> str:
    """Convert a regular expression for other languages: remove needless escapes, and replace \\Z by $."""
    return re.sub(r'\\([@_ ])', r'\1', pattern).replace(r'\Z', '$')


def _constant(text: str, names: list[str]) -> str | int | None:
    if text == 'None' and 'string' not in names or text == 'None' and 'null' in names:
        return None
    if 'boolean' in names and text in ('True', 'False'):
        return text == 'True'
    if 'string' not in names and re.fullmatch(r'-?[0-9]+', text):
        return int(text)
    return text


def _segments(name: str) -> list[dict[str, typing.Any]]:
    return [match.groupdict() for match in _PATH.finditer(name)]


@dataclasses.dataclass
class _Node:
    """A node of a body's schema: its type and its children."""

    text: str = 'object'
    keys: dict[str, _Node] = dataclasses.field(default_factory=dict)
    patterns: dict[str, _Node] = dataclasses.field(default_factory=dict)
    items: _Node | None = None

    def add(self, segments: list[dict[str, typing.Any]], text: str) -> None:
        node = self
        for segment in segments:
            if segment['item']:
                node.items = node.items or _Node('')
                node = node.items
            elif segment['key']:
                node = node.keys.setdefault(segment['key'], _Node(''))
            else:
                node = node.patterns.setdefault(segment['pattern'], _Node(''))
        node.text = text

    def schema(self, closed: bool, forms: dict[str, dict[str, str]], path: str = '') -> Schema:
        """Build the JSON Schema of this node and its children.

        :param closed: no additional keys are allowed
        :param forms: {path: alternative form}
        """
        schema = typed(self.text)
        if self.items is not None:
            schema['items'] = self.items.schema(closed, forms, path + '[]')
        if not self.keys and not self.patterns:
            return schema
        prefix = path + '.' if path else ''
        schema.setdefault('type', 'object')
        if self.keys:
            schema['properties'] = {key: node.schema(closed, forms, prefix + key) for key, node in self.keys.items()}
        if self.patterns:
            schema['patternProperties'] = {
                portable(pattern): node.schema(closed, forms, f'{prefix}<{pattern}>')
                for pattern, node in self.patterns.items()}
        required = [key for key, node in self.keys.items() if is_required(node.text)]
        if closed:
            schema['additionalProperties'] = False
        other = forms.get(path)
        if other is not None:
            names = other['keys'].split(' ')
            least: Schema = {'title': other['when'], 'required': names,
                     'properties': {name: {} for name in names}, **({'additionalProperties': False} if closed else {})}
            full: Schema = {'required': [key for key in required if key not in _only(other)]}
            schema['anyOf'] = [full, least]
        elif required:
            schema['required'] = required
        return schema


def _only(form: dict[str, str]) -> Sequence[str]:
    """Return the keys that objects of this form have and objects of other forms do not."""
    return form['only'].split(' ') if form['only'] else ()
