"""The public facts of the compute API, and how schemas and answers compare with them.

They stand in data/*.tsv: operations with their codes, fields of requests and answers, rules with their defaults.
``additions.tsv`` has what this product takes in requests beside them; of two rows of a field its row counts. Of answers
``own.tsv`` has the operations that only this product has, and ``amended.tsv`` the fields where the public facts merge
several forms into one or this product shows more: its rows take the place of all rows of their field. So do those of
``amended-routes.tsv``: the two answer 202 by the API's reference and to clients, such as tempest, that check it.
"""
import csv
import functools
import pathlib
import re

from nova.api import response_types as answers

DATA = pathlib.Path(__file__).parent / 'data'
MAX = 104

minor, nameless = answers.minor, answers.nameless


def _rows(name):
    with open(DATA / f'{name}.tsv', newline='') as file:
        return list(csv.DictReader(file, delimiter='\t', quoting=csv.QUOTE_NONE))


@functools.cache
def routes():
    """{(method, path, action): row}, with the names of path parts taken out."""
    return {(row['method'], nameless(row['path']), row['action'] or ''): row
            for name in ('routes', 'amended-routes') for row in _rows(name)}


@functools.cache
def responses():
    """{operation: [row]} of answers."""
    found = {}
    amended = {(nameless(row['operation']), row['field']) for row in _rows('amended')}
    for name in ('responses', 'amended', 'own'):
        for row in _rows(name):
            operation = nameless(row['operation'])
            if name != 'responses' or (operation, row['field']) not in amended:
                found.setdefault(operation, []).append(row)
    return found


@functools.cache
def own():
    """The operations that only this product has."""
    return {nameless(row['operation']) for row in _rows('own')}


@functools.cache
def fields():
    """{(operation, part): [row]}; 2.0 rows (/v2) are left out."""
    found = {(operation, 'response'): rows for operation, rows in responses().items()}
    for row in (*_rows('requests'), *_rows('additions')):
        if row['max'] != '2.0':
            found.setdefault((nameless(row['operation']), row['part']), []).append(row)
    return found


def fields_at(operation, part, version):
    """{field: type text} of one version."""
    return {row['field']: row['type'] or '' for row in fields().get((operation, part), ())
            if minor(row['min']) <= version <= minor(row['max'], MAX)}


def boundaries(operation, part, since=1, until=None):
    """The versions at which the fields of an operation change, the one before each, the first and the last."""
    until = until or MAX
    found = {since, until}
    for row in fields().get((operation, part), ()):
        found |= {minor(row['min']), minor(row['min']) - 1}
        if row['max']:
            found |= {minor(row['max']), minor(row['max']) + 1}
    return sorted(version for version in found if since <= version <= until)


@functools.cache
def policies():
    """{rule: default check}."""
    return {row['rule']: row['default'] for row in _rows('policies')}


def service_policies(service):
    """{rule: (default, scopes)} of keystone, neutron, cinder, glance or barbican.

    Barbican's newer defaults begin with a condition on its option enforce_new_defaults, which is left out.
    """
    old = 'True:%(enforce_new_defaults)s and '
    return {row['rule']: (re.sub(' +', ' ', row['default']).removeprefix(old),
                          tuple(row['scope'].split(',')) if row['scope'] else ())
            for row in _rows('policies-services') if row['service'] == service}


# ---- answers -----------------------------------------------------------------

_TYPES = {'string': str, 'integer': int, 'number': (int, float), 'boolean': bool, 'object': dict, 'array': list,
          'null': type(None)}


def differences(operation, version, body):
    """What is wrong with an answer's fields, as sentences; an empty list when nothing is."""
    known = fields_at(operation, 'response', version)
    problems = []
    _compare(body, '', known, '(no other fields)' in known, problems)
    return problems


def _child(path, key):
    return f'{path}.{key}' if path else key


_STRUCTURE = frozenset('.[]<')               # of a path


def _compare(value, path, known, closed, problems):
    if isinstance(value, list):
        for item in value:
            _compare(item, path + '[]', known, closed, problems)
        return
    if not isinstance(value, dict):
        return
    prefix = path + '.' if path else ''
    below = {name[len(prefix):]: text for name, text in known.items() if name.startswith(prefix)}
    children = {name: text for name, text in below.items()
                if name and name != '(no other fields)' and not _STRUCTURE.intersection(name)}
    start = path + '.<'
    patterns = [(name, name[len(start):-1]) for name in known
                if name.startswith(start) and name.endswith('>') and '<' not in name[len(start):]]
    for name, text in children.items():
        if text.endswith('required') and name not in value:
            problems.append(f'{prefix}{name} is missing')
    if not children and not patterns:
        return                                   # an object whose inside the facts do not tell
    for name, item in value.items():
        if name in children:
            if not _fits(item, children[name]):
                problems.append(f'{prefix}{name} is {item!r}, not {children[name]}')
            _compare(item, prefix + name, known, closed, problems)
            continue
        pattern = next((full for full, regex in patterns if re.search(regex, name)), None)
        if pattern is not None:
            _compare(item, pattern, known, closed, problems)
        elif closed:
            problems.append(f'{prefix}{name} is unexpected')


def _fits(value, text):
    """Whether a value is of a described type: 'string|null format=date-time required'."""
    kind = text.split(' ')[0]
    if kind not in _TYPES and '|' not in kind:
        return True
    names = [name for name in kind.split('|') if name in _TYPES]
    if isinstance(value, bool) and 'boolean' not in names:
        return False
    if not any(isinstance(value, _TYPES[name]) for name in names):
        return False
    one_of = re.search(r'one of (\S+)', text)
    return not (one_of and isinstance(value, str) and value not in one_of[1].split(','))


# ---- schemas -----------------------------------------------------------------

def schema_paths(schema, path=''):
    """{field: required} of a JSON Schema, in the words of fields.tsv."""
    found = {}
    for name, inner in schema.get('properties', {}).items():
        below = _child(path, name)
        found[below] = name in schema.get('required', ())
        found.update(schema_paths(inner, below))
    for pattern, inner in schema.get('patternProperties', {}).items():
        found[f'{path}.<{pattern}>'] = False
        found.update(schema_paths(inner, f'{path}.<{pattern}>'))
    for form in (*schema.get('oneOf', ()), *schema.get('anyOf', ())):
        found.update(schema_paths(form, path))
    if isinstance(schema.get('items'), dict):
        found[f'{path}[]'] = False
        found.update(schema_paths(schema['items'], f'{path}[]'))
    return found
