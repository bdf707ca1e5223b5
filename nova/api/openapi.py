"""The OpenAPI 3.1 document of the compute API at one microversion, generated from Route rows and response types.

Pure functions: rows in, a dict out. ``GET /openapi.json`` and ``nova-manage api openapi`` show the document.
"""
import http
import re
from collections.abc import Iterable, Iterator
from typing import Any

from nova import policies
from nova.api import faults as api_faults
from nova.api import idempotency
from nova.api import prefer_wait
from nova.api import response_types
from nova.api import versions
from nova.json_types import Json
from nova.web import faults
from nova.web import json_types
from nova.web import preferences
from nova.web.routes import Route

Document = dict[str, Any]
JSON = 'application/json'
VERSION = {'$ref': '#/components/parameters/version'}
MERGED, SPLIT = 'merged', 'split'

_MEANINGS = {rule: meaning for rule, _check, meaning, _operations in policies.RULES}

# Error codes of every request, and of requests with a caller, a body or an ID in the path.
_ALWAYS, _OF_CALLERS, _OF_BODIES, _OF_PARTS = (400, 406, 503), (401, 403, 413, 429), (413, 415), (404,)

# String formats of this API as standard JSON Schema. They never accept less than the API.
_FORMATS = {
    'name': {'pattern': r'^\S(.*\S)?$'},
    'name_with_leading_trailing_spaces': {'pattern': r'\S'},
    'az_name': {'pattern': r'^[^:\s]([^:]*[^:\s])?$'},
    'az_name_with_leading_trailing_spaces': {'pattern': r'^[^:]*[^:\s][^:]*$'},
    'digits': {'pattern': '^[0-9]+$'}, 'signed': {'pattern': '^-?[0-9]+$'},
    'base64': {'contentEncoding': 'base64'}, 'printable': {},
    'mac-address': {'pattern': '^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$'},
    'cidr': {'pattern': '^[0-9a-fA-F.:]+/[0-9]+$'},
}

_DESCRIPTION = """Every operation of the compute API at microversion {version}.

Paths are below the endpoint of the catalog; a project ID may precede them. GET operations also support HEAD.
Operations, parameters and fields of other microversions are omitted: request another microversion with
`?microversion=2.N`, from {oldest} to {newest}.
"""


def document(rows: list[Route], version: int, actions: str = MERGED) -> dict[str, Any]:
    """Build the OpenAPI document.

    :param rows: Route rows; rows outside the API's root are ignored
    :param version: minor version
    :param actions: MERGED: one operation for POST …/action, whose body has one alternative for each action. SPLIT: one
     operation for each action with '#' and its name in the path, for tools that need one response for each operation.
    """
    operations: dict[str, dict[str, list[Route]]] = {}
    for row in served(rows, version):
        path = response_types.nameless(row.path)
        if actions == SPLIT and row.action:
            path += '#' + row.action
        operations.setdefault(path, {}).setdefault(row.method.lower(), []).append(row)
    text, used = versions.text(version), set[int]()
    paths: dict[str, Document] = {}
    for path, methods in operations.items():
        first = next(iter(methods.values()))[0]
        shown = first.path + path[len(response_types.nameless(first.path)):]
        paths[shown] = {'parameters': _parts(first.path)} if '{' in path else {}
        for method, same in methods.items():
            paths[shown][method] = _operation(same, first.path, version, used, actions == MERGED)
    return {
        'openapi': '3.1.0',
        'info': {'title': 'Compute API', 'version': text,
                 'description': _DESCRIPTION.format(version=text, oldest=versions.text(versions.MIN_VERSION),
                                                    newest=versions.text(versions.MAX_VERSION))},
        'servers': [{'url': 'v2.1', 'description': 'The API next to this document.'}],
        'security': [{'token': []}],
        'tags': [{'name': name} for name in sorted({_tag(row) for row in served(rows, version)})],
        'paths': paths,
        'components': {
            'securitySchemes': {'token': {'type': 'apiKey', 'in': 'header', 'name': 'X-Auth-Token',
                                          'description': 'A token of the identity service.'}},
            'parameters': _header_parameters(version), 'headers': _headers(version),
            'responses': {str(code): _fault(code) for code in sorted(used)},
            'schemas': {'Fault': _FAULT},
        },
    }


def served(rows: Iterable[Route], version: int) -> list[Route]:
    """Return the rows of the API that are served at a version."""
    return [row for row in rows if row.api and row.since <= version and (row.until is None or version <= row.until)]


def operation_of(row: Route) -> str:
    """Return the key of a row in response_types."""
    return f'{row.method} {response_types.nameless(row.path)} {row.action or ""}'.strip()


def codes_of_success(row: Route, version: int) -> tuple[int, ...]:
    """Return the success codes of a row at a version, the default first; empty for a removed operation."""
    if 410 in row.errors:
        return ()
    status = row.status
    if isinstance(status, dict):
        status = status[max(since for since in status if since <= version)]
    return (status, *row.also)


def errors_of(row: Route) -> set[int]:
    """Return all error codes of a row."""
    codes = {*_ALWAYS, *row.errors}
    if not row.public:
        codes.update(_OF_CALLERS)
    if '{' in row.path:
        codes.update(_OF_PARTS)
    if row.method in ('POST', 'PUT', 'PATCH'):
        codes.update(_OF_BODIES)
    if idempotency.applies(row):
        codes.add(409)
    return codes


def meaning(row: Route) -> str:
    """Return a one-sentence description of a row: that of its policy rule, or the handler's docstring."""
    rules = (row.policy, *row.checks)
    found = next((_MEANINGS[rule] for rule in rules if rule in _MEANINGS), None)
    documented = (row.handler.__doc__ or '').strip().split('\n')[0] if hasattr(row.handler, '__name__') else ''
    return found or documented or f'{row.method} {row.path}'


# ---- operations --------------------------------------------------------------

def _operation(rows: list[Route], path: str, version: int, used: set[int], merge: bool) -> Document:
    """Build one operation; several rows are actions of one path.

    :param used: set that receives the error codes of the operation
    :param merge: actions are distinguished by the body
    """
    row = rows[0]
    merged = merge and row.action is not None
    errors = set().union(*map(errors_of, rows))
    used |= errors
    name = re.sub(r'[^a-zA-Z0-9]+', '_', f'{row.method.lower()}{path}').strip('_')
    found: Document = {
        'operationId': name if merged or not row.action else f'{name}_{row.action}',
        'tags': [_tag(row)],
        'summary': 'Run an action.' if merged else meaning(row),
        'parameters': [*_parameters(row, version)],
        'responses': {**_successes(rows, version),
                      **{str(code): {'$ref': f'#/components/responses/{code}'} for code in sorted(errors)}},
    }
    if row.public:
        found['security'] = []
    if all(410 in each.errors for each in rows):
        found['deprecated'] = True
    body = _body(rows, version)
    if body is not None:
        found['requestBody'] = {'required': True, 'content': {JSON: {'schema': body}}}
    if merged:
        found['x-openstack-actions'] = {each.action: {
            'summary': meaning(each), **_facts_of(each), 'responses': {
                **{str(code): _schema(each, code, version) for code in codes_of_success(each, version)},
                **{str(code): None for code in sorted(errors_of(each))}}} for each in rows}
    else:
        found.update({f'x-openstack-{key}': value for key, value in _facts_of(row).items()})
    return found


def _facts_of(row: Route) -> Document:
    """Return the x-openstack extensions of a row."""
    found = {'min-version': versions.text(row.since), 'policies': [*filter(None, (row.policy, *row.checks))]}
    if row.until is not None:
        found['max-version'] = versions.text(row.until)
    return found


def _tag(row: Route) -> str:
    first = row.path.strip('/').partition('/')[0] or 'versions'
    return 'server actions' if row.action and first == 'servers' else first


def _parts(path: str) -> list[Document]:
    return [{'name': name, 'in': 'path', 'required': True, 'schema': {'type': 'string', 'pattern': '^[^/]+$'}}
            for name in re.findall(r'\{(\w+)\}', path)]


def _parameters(row: Route, version: int) -> Iterator[Document]:
    yield VERSION
    yield {'$ref': '#/components/parameters/request-id'}
    if idempotency.applies(row):
        yield {'$ref': '#/components/parameters/idempotency-key'}
    if prefer_wait.applies(row.method, row.path):
        yield {'$ref': '#/components/parameters/prefer'}
    for param in row.query.params if row.query else ():
        if not param.at(version):
            continue
        schema = published(param.type.schema(version))
        if param.pattern is None:
            yield {'name': param.name, 'in': 'query', 'required': param.required, 'schema': schema}
        else:
            yield {'name': 'others', 'in': 'query', 'style': 'form', 'explode': True,
                   'description': 'Keys that match a pattern.',
                   'schema': {'type': 'object', 'patternProperties': {json_types.portable(param.pattern): schema},
                              'additionalProperties': False}}
    if not (row.query and row.query.is_closed(version)):
        yield {'name': 'ignored', 'in': 'query', 'style': 'form', 'explode': True,
               'description': 'Any other key; it is ignored.',
               'schema': {'type': 'object', 'additionalProperties': {'type': 'string'}}}


def _body(rows: list[Route], version: int) -> json_types.Schema | None:
    """Return the schema of the body, or None if there is no body."""
    forms = [(row, published(row.body.schema(version))) for row in rows if row.body is not None]
    if not forms:
        return None
    if len(forms) == 1:
        return forms[0][1]
    return {'oneOf': [{'title': row.action, **schema} for row, schema in forms]}


def _successes(rows: list[Route], version: int) -> Document:
    found: dict[int, list[Route]] = {}
    for row in rows:
        for code in codes_of_success(row, version):
            found.setdefault(code, []).append(row)
    return {str(code): _success(code, same, version) for code, same in sorted(found.items())}


def _success(code: int, rows: list[Route], version: int) -> Document:
    answer: Document = {'description': http.HTTPStatus(code).phrase,
              'headers': {name: {'$ref': f'#/components/headers/{name}'} for name in _headers(version)}}
    for row in rows:
        for header in response_types.headers(operation_of(row), version):
            if header['status'] == str(code):
                answer['headers'][header['header']] = {
                    'description': header['meaning'], 'required': len(rows) == 1 and header['always'] == 'yes',
                    'schema': {'type': 'string', 'format': 'uri'}}
    if any(map(idempotency.applies, rows)):
        answer['headers']['Idempotency-Replayed'] = {
            'description': 'The stored response of an earlier request.', 'schema': {'const': 'true'}}
    if any(prefer_wait.applies(row.method, row.path) for row in rows):
        answer['headers'][preferences.APPLIED] = {
            'description': 'wait=SECONDS: the response was delayed until the end of the task, at most for this time.',
            'schema': {'type': 'string'}}
    bodies = [(row, schema) for row in rows if (schema := _schema(row, code, version)) is not None]
    if bodies and len(rows) == 1:
        answer['content'] = {_media_type(rows[0]): {'schema': bodies[0][1]}}
    elif bodies:
        answer['content'] = {JSON: {'schema': {'anyOf': [{'title': row.action, **schema} for row, schema in bodies]}}}
        answer['description'] += '; no body for: ' + ', '.join(
            row.action or '' for row in rows if _schema(row, code, version) is None)
    return answer


def _media_type(row: Route) -> str:
    return response_types.media_type(operation_of(row)) or JSON


def _schema(row: Route, code: int, version: int) -> json_types.Schema | None:
    """Return the schema of a response body for a success code, or None if it has no body."""
    if code in (204, 304):
        return None
    if response_types.media_type(operation_of(row)):
        return {'type': 'string'}
    return response_types.body(operation_of(row), version)


# ---- schemas of requests -----------------------------------------------------

def published(schema: json_types.Schema) -> json_types.Schema:
    """Convert a JSON Schema of params: formats of this API become patterns."""
    found: json_types.Schema = {key: _published_value(key, value) for key, value in schema.items()}
    name = found.pop('format', None)
    if name is not None:
        found = {**(_bounded(name) or _FORMATS.get(name, {'format': name})), **found}
    if 'pattern' in found:
        found['pattern'] = json_types.portable(found['pattern'])
    return found


def _bounded(name: str) -> json_types.Schema | None:
    """Return the pattern of an integer sent as a string, derived from its bounds; None for other formats."""
    match = re.fullmatch(r'integer from (\S+) to (\S+)', name)
    if match is None or match[1] == 'None' or int(match[1]) < 0:
        return match and {}
    digits = 20 if match[2] == 'None' else len(match[2])
    return {'pattern': r'^0*[1-9][0-9]{0,%d}$' % (digits - 1) if int(match[1]) else r'^0*[0-9]{1,%d}$' % digits}


def _published_value(key: str, value: Json) -> Json:
    if key in ('enum', 'const', 'required'):
        return value
    if isinstance(value, list):
        return [_published_value('', item) for item in value]
    if not isinstance(value, dict):
        return value
    if key in ('properties', 'patternProperties'):
        return {json_types.portable(name) if key == 'patternProperties' else name: _published_value('', inner)
                for name, inner in value.items()}
    return published(value)


# ---- shared components -------------------------------------------------------

_FAULT = {
    'type': 'object', 'description': 'Why the request was refused or failed.',
    'properties': {
        'code': {'type': 'integer', 'description': 'The HTTP status.'},
        'message': {'type': 'string', 'description': 'Message for the user.'},
        'retryAfter': {'type': 'string', 'description': 'When the request may be sent again.'}},
    'required': ['code', 'message'], 'additionalProperties': False,
}
_REQUEST_ID = {'type': 'string', 'pattern': '^req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'}


def _header_parameters(version: int) -> Document:
    return {
        'version': {'name': versions.HEADER, 'in': 'header', 'required': version > versions.MIN_VERSION,
                    'description': f'The microversion; without it {versions.text(versions.MIN_VERSION)} is served.',
                    'schema': {'const': f'compute {versions.text(version)}'}},
        'request-id': {'name': 'X-OpenStack-Request-ID', 'in': 'header', 'schema': _REQUEST_ID,
                       'description': 'Request ID shared by the logs of all services that take part.'},
        'idempotency-key': {
            'name': 'Idempotency-Key', 'in': 'header',
            'schema': {'type': 'string', 'pattern': '^[ -~]+$', 'minLength': 1, 'maxLength': idempotency.MAX_KEY},
            'description': 'A secret of the client. A repeated request with the same key gets the first response.'},
        'prefer': {
            'name': 'Prefer', 'in': 'header', 'schema': {'type': 'string', 'maxLength': 1000},
            'description': f'wait=SECONDS, at most {prefer_wait.MOST_S}: delay the response until the end of the task. '
                           'return=representation on POST /servers: return the body of GET /servers/{id}.'},
    }


def _headers(version: int) -> Document:
    text = {'type': 'string'}
    return {
        versions.HEADER: {'description': 'The microversion that was served.', 'required': True,
                          'schema': {'const': f'compute {versions.text(version)}'}},
        versions.LEGACY_HEADER: {'description': 'The same for older clients.', 'required': True,
                                 'schema': {'const': versions.text(version)}},
        'Vary': {'description': 'The headers that select the version.', 'required': True, 'schema': text},
        'x-openstack-request-id': {'description': 'The ID of this request in the logs.', 'required': True,
                                   'schema': _REQUEST_ID},
        'x-compute-request-id': {'description': 'The same for older clients.', 'required': True,
                                 'schema': _REQUEST_ID},
    }


def _fault(code: int) -> Document:
    """Return the response of an error code. 401 and 406 precede version negotiation and have fewer headers."""
    try:
        phrase = http.HTTPStatus(code).phrase
    except ValueError:
        phrase = 'Refused'
    key = faults.BODY_KEYS.get(code, faults.INTERNAL)
    answer: Document = {'description': phrase, 'content': {JSON: {'schema': {
        'type': 'object', 'properties': {key: {'$ref': '#/components/schemas/Fault'}}, 'required': [key],
        'additionalProperties': False}}}}
    if code not in (401, 406):
        names = ('x-openstack-request-id', 'x-compute-request-id')
        answer['headers'] = {name: {'$ref': f'#/components/headers/{name}'} for name in names}
    if code in api_faults.RETRY_AFTER:
        answer.setdefault('headers', {})['Retry-After'] = {
            'description': 'Seconds after which the request may be sent again.', 'required': True,
            'schema': {'type': 'string', 'pattern': '^[0-9]+$'}}
    return answer
