"""Pages of the reference that come from the Route rows, the parameters, the types of responses and the history."""
import http

import rst

from nova import policies
from nova.api import app
from nova.api import response_types
from nova.api import openapi
from nova.api import versions
from nova.web import faults

NEWEST = versions.MAX_VERSION


def pages():
    """{name: lines} of one page a resource, their index, the history of versions and the rules."""
    resources = {}
    for row in app.all_routes():
        if row.api:
            resources.setdefault(row.path.strip('/').partition('/')[0] or 'versions', []).append(row)
    found = {f'api-{name}': _resource(name, rows) for name, rows in resources.items()}
    found['api'] = _index(resources)
    found['microversions'] = _history()
    found['policies'] = _policies()
    return found


def _index(resources):
    lines = [*rst.heading('Operations'),
             'Every operation of the compute API with its versions, rules, codes, parameters and fields. The same for '
             'programs is ``GET /compute/openapi.json?microversion=2.N``.', '', '.. toctree::', '   :maxdepth: 1', '']
    lines += [f'   api-{name}' for name in sorted(resources)]
    return lines


def _resource(name, rows):
    lines = rst.heading(name)
    groups = {}
    for row in rows:
        groups.setdefault(openapi.operation_of(row), []).append(row)
    for same in groups.values():
        lines += _operation(same)
    return lines


def _operation(rows):
    first = rows[0]
    title = f'{first.method} {first.path}' + (f' ({first.action})' if first.action else '')
    lines = rst.heading(title, '-')
    if 410 in first.errors:
        return [*lines, 'Removed for good: the answer is 410.', '']
    lines += [rst.escaped(openapi.meaning(first)), '']
    if openapi.operation_of(first) in response_types.own():
        lines += ['An addition of this product: no other compute API has it.', '']
    span = rst.since(min(row.since for row in rows), max(row.until or NEWEST for row in rows), NEWEST)
    rules = [rule for row in rows for rule in (row.policy, *row.checks) if rule]
    lines += [f':Versions: {span}', f':Rules: {", ".join(map(rst.literal, dict.fromkeys(rules))) or "none"}',
              f':Success: {_successes(rows)}',
              f':Refusals: {", ".join(_code(code) for code in sorted(set().union(*map(openapi.errors_of, rows))))}', '']
    lines += _fields('Query', rows, lambda row, minor: _query(row, minor))
    lines += _fields('Body', rows, lambda row, minor: row.body and flattened(row.body.schema(minor)))
    return lines + _answer(first)


def _successes(rows):
    found = {}
    for row in rows:
        for minor in range(row.since, (row.until or NEWEST) + 1):
            found.setdefault(openapi.codes_of_success(row, minor), []).append(minor)
    return '; '.join(' or '.join(map(str, codes)) + (f' ({rst.since(minors[0], minors[-1], NEWEST)})'
                                                     if len(found) > 1 else '')
                     for codes, minors in found.items())


def _code(code):
    return f'{code} {faults.BODY_KEYS.get(code) or http.HTTPStatus(code).phrase}'


# ---- parameters and fields -----------------------------------------------------

def _query(row, minor):
    if row.query is None:
        return None
    return {param.name or f'<{param.pattern}>': (words(openapi.published(param.type.schema(minor))), param.required)
            for param in row.query.params if param.at(minor)}


def _fields(title, rows, at):
    """A table of parameters with the versions in which each has one form.

    :param at: (row, minor version) -> {name: (type in words, required)}
    """
    spans = {}
    for row in rows:
        for minor in range(row.since, (row.until or NEWEST) + 1):
            for name, form in (at(row, minor) or {}).items():
                last = spans.setdefault(name, [])
                if last and last[-1][0] == form and last[-1][2] == minor - 1:
                    last[-1][2] = minor
                else:
                    last.append([form, minor, minor])
    whole = (min(row.since for row in rows), max(row.until or NEWEST for row in rows))
    table = rst.table(('Name', 'Versions', 'Type', 'Required'), [
        (rst.literal(name), '' if (first, last) == whole else rst.since(first, last, NEWEST), form[0],
         'yes' if form[1] else '')
        for name, found in spans.items() for form, first, last in found], '34 14 44 8')
    return [f'**{title}**', *table] if table else []


def _answer(row):
    operation = openapi.operation_of(row)
    if response_types.media_type(operation):
        return [f'The answer is of type {response_types.media_type(operation)}.', '']
    fields = [fact for fact in response_types.responses().get(operation, ()) if fact['field'][0] != '(']
    table = rst.table(('Name', 'Versions', 'Type', 'Always'), [
        (rst.literal(fact['field']), _since(fact), rst.escaped(fact['type'].removesuffix('required').strip() or 'any'),
         'yes' if fact['type'].endswith('required') else '') for fact in fields], '34 14 44 8')
    lines = ['**Answer**', *table] if table else []
    for fact in response_types.rows('headers'):
        if response_types.nameless(fact['operation']) == operation:
            lines += [f'Header ``{fact["header"]}`` of {fact["status"]} ({_since(fact) or "all versions"}): '
                      f'{fact["meaning"]}', '']
    return lines


def _since(fact):
    first, last = response_types.minor(fact['min']), response_types.minor(fact['max'])
    return '' if (first, last) == (1, None) else rst.since(first, last, NEWEST)


def flattened(schema, path=''):
    """{field: (type in words, required)} of a JSON Schema, in the words of response_types."""
    found = {}
    inner = [(f'{path}.{name}' if path else name, item, name in schema.get('required', ()))
             for name, item in schema.get('properties', {}).items()]
    inner += [(f'{path}.<{pattern}>', item, False) for pattern, item in schema.get('patternProperties', {}).items()]
    if isinstance(schema.get('items'), dict):
        inner.append((path + '[]', schema['items'], False))
    for name, item, required in inner:
        found[name] = (words(openapi.published(item)), required)
        found.update(flattened(item, name))
    for form in (*schema.get('oneOf', ()), *schema.get('anyOf', ())):
        found.update(flattened(form, path))
    return found


_LIMITS = (('minLength', 'at least {} characters'), ('maxLength', 'at most {} characters'), ('minimum', 'at least {}'),
           ('maximum', 'at most {}'), ('minItems', 'at least {} items'), ('maxItems', 'at most {} items'),
           ('minProperties', 'at least {} keys'), ('maxProperties', 'at most {} keys'))


def words(schema):
    """The type of a value in words."""
    kinds = schema.get('type', [])
    parts = [' or '.join([kinds] if isinstance(kinds, str) else kinds)]
    if 'enum' in schema:
        parts.append('one of ' + ', '.join(rst.literal(_shown(value)) for value in schema['enum']))
    parts += [text.format(schema[name]) for name, text in _LIMITS if name in schema]
    if 'format' in schema:
        parts.append(schema['format'])
    if 'contentEncoding' in schema:
        parts.append(schema['contentEncoding'])
    if 'pattern' in schema:
        parts.append(rst.literal(schema['pattern']))
    forms = [words(form) for form in (*schema.get('anyOf', ()), *schema.get('oneOf', ()))]
    if forms:
        parts.append(' or '.join(filter(None, forms)))
    return '; '.join(filter(None, parts)) or 'any'


def _shown(value):
    return '""' if value == '' else {True: 'true', False: 'false', None: 'null'}[value] if (
        value is None or isinstance(value, bool)) else value


# ---- history and rules -----------------------------------------------------------

def _history():
    begun, ended = {}, {}
    for row in app.all_routes():
        if row.api and 410 not in row.errors:
            operation = f'``{row.method} {row.path}``' + (f' ({row.action})' if row.action else '')
            begun.setdefault(row.since, []).append((openapi.operation_of(row), operation))
            if row.until is not None:
                ended.setdefault(row.until + 1, []).append((openapi.operation_of(row), operation))
    rows = []
    for minor, name, text in versions.HISTORY:
        lines = [rst.escaped(text) + '.']
        before = {operation for operation, _shown in ended.get(minor, ())}
        after = {operation for operation, _shown in begun.get(minor, ())}
        for title, found, others in (('New', begun, before), ('Gone', ended, after)):
            shown = [text for operation, text in found.get(minor, ()) if operation not in others]
            if shown and minor > 1:
                lines += ['', f'{title}: {", ".join(shown)}.']
        rows.append((f'2.{minor}', rst.literal(name), '\n'.join(lines)))
    return [*rst.heading('Microversions'),
            f'Ask for a version with the header ``{versions.HEADER}: compute 2.N``, or '
            f'``{versions.LEGACY_HEADER}: 2.N``; '
            'without one 2.1 is served.', *rst.table(('Version', 'Behaviour', 'What changes'), rows, '10 28 62')]


def _policies():
    lines = [*rst.heading('Policies'),
             'Rules of each API with their defaults, which its policy file replaces. See :doc:`/admin/policy`.']
    for service in policies.SERVICES:
        lines += [*rst.heading(f'Rules of the {service.name} API', '-'),
                  f'Option: ``[{service.group}] policy_file``. Sample: ``etc/nova/{service.file}.sample``.']
        lines += rst.table(('Rule', 'Default', 'Who'), [
            (rst.literal(rule), rst.literal(check), rst.escaped(meaning)) for rule, check, meaning in service.base])
        lines += rst.table(('Rule', 'Default', 'What it guards'), [
            (rst.literal(rule.name), rst.literal(rule.check or '@'), '\n'.join([rst.escaped(rule.description), '', *(
                f'* ``{method} {path}``' for method, path in rule.operations)]))
            for rule in service.rules], '36 24 40')
    return lines
