"""OpenAPI 3.1 documents of one API at one minor version, generated from its Route rows.

Pure functions that convert rows to a dict. Each API has a subclass of Describer for its differences.
"""
from __future__ import annotations

import functools
import gzip
import hashlib
import http
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import orjson

from nova.json_types import Encodable
from nova.json_types import JsonDocument
from nova.web import faults
from nova.web import json_types
from nova.web import static
from nova.web import versions
from nova.web.request import BaseRequest
from nova.web.request import Response
from nova.web.routes import Route

Document = JsonDocument                      # a part of the OpenAPI document
JSON = 'application/json'
VERSION = {'$ref': '#/components/parameters/version'}
FAULT: JsonDocument = {'$ref': '#/components/schemas/Fault'}
MERGED, SPLIT = 'merged', 'split'
MAX_AGE_S = 3600         # seconds that clients may cache the document, which an upgrade may change
REQUEST_ID = {'type': 'string', 'pattern': '^req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'}

# {string format of this API: standard JSON Schema}. A schema may accept more than the API, but not less.
_FORMATS = {
    'name': {'pattern': r'^\S(.*\S)?$'},
    'name_with_leading_trailing_spaces': {'pattern': r'\S'},
    'az_name': {'pattern': r'^[^:\s]([^:]*[^:\s])?$'},
    'az_name_with_leading_trailing_spaces': {'pattern': r'^[^:]*[^:\s][^:]*$'},
    'digits': {'pattern': '^[0-9]+$'}, 'signed': {'pattern': '^-?[0-9]+$'},
    'printable': {}, 'factor': {}, **{name: json_types.FORMATS[name] for name in ('base64', 'mac-address', 'cidr')},
}


class Describer:
    """Generator of the OpenAPI documents of one API.

    :cvar title: name of the API
    :cvar url: URL of the API, relative to the document
    :cvar microversions: whether requests select a minor version
    :cvar always, of_callers, of_bodies, of_parts: error codes of every request, of authenticated requests, of requests
     with a body, and of requests with an ID in the path
    :cvar fault_fields: {field of an error: (JSON type, description)}
    """

    title = ''
    url = ''
    microversions = True
    always: Collection[int] = (400, 503)
    of_callers: Collection[int] = (401, 403)
    of_bodies: Collection[int] = (413,)
    of_parts: Collection[int] = (404,)
    fault_fields: Mapping[str, tuple[str, str]] = {'code': ('integer', 'The HTTP status.'),
                                                   'message': ('string', 'Message for the user.')}

    # ---- what differs between APIs

    def version_text(self, version: int) -> str:
        """Return a minor version as text."""
        raise NotImplementedError

    def description(self, version: int) -> str:
        """Return the description of the API in the document."""
        raise NotImplementedError

    def header_parameters(self, version: int) -> JsonDocument:
        """Return {key: parameter} of the request headers to which operations refer."""
        return {}

    def header_names(self, row: Route) -> Iterator[str]:
        """Yield the keys of ``header_parameters`` for the request headers of an operation."""
        yield from ('version',) if self.microversions else ()

    def headers(self, version: int) -> JsonDocument:
        """Return the response headers that all operations have."""
        return {}

    def more_headers(self, code: int, rows: list[Route], version: int) -> JsonDocument:
        """Return additional response headers for a status code; ``rows`` has a row for each action of the path."""
        return {}

    def fault(self, code: int) -> JsonDocument:
        """Return the response object for an error code."""
        return {'description': phrase(code), 'content': {JSON: {'schema': self.fault_body(code)}}}

    def fault_body(self, code: int) -> JsonDocument:
        """Return the schema of the response body for an error code."""
        return fault_below(faults.BODY_KEYS.get(code, faults.INTERNAL))

    def fault_schema(self) -> JsonDocument:
        """Return the schema Fault: the fields of an error."""
        return {'type': 'object', 'description': 'Why the request was refused or failed.', 'properties': {
                    name: {'type': kind, 'description': text} for name, (kind, text) in self.fault_fields.items()},
                'required': [*self.fault_fields], 'additionalProperties': False}

    def errors_of(self, row: Route) -> set[int]:
        """Return all error codes of a row."""
        codes = {*self.always, *row.errors}
        if not row.public:
            codes.update(self.of_callers)
        if '{' in row.path:
            codes.update(self.of_parts)
        if row.method in ('POST', 'PUT', 'PATCH'):
            codes.update(self.of_bodies)
        return codes

    def meaning(self, row: Route) -> str:
        """Return a sentence about a row: the first line of the handler's docstring, or the name of the operation."""
        documented = (row.handler.__doc__ or '').strip().split('\n')[0] if hasattr(row.handler, '__name__') else ''
        if row.name or not documented:
            documented = row.called.replace('_', ' ').capitalize() + '.'
        return documented

    def tag(self, row: Route) -> str:
        """Return the tag that groups an operation."""
        return row.path.strip('/').partition('/')[0] or 'versions'

    def media_type(self, row: Route) -> str | None:
        """Return the media type of a response that is not JSON, else None."""
        return None

    def body_types(self, row: Route, schema: json_types.Schema) -> dict[str, json_types.Schema]:
        """Return {media type: schema} of a request body.

        :param schema: schema of the row's body
        """
        return {JSON: schema}

    def body_of_answer(self, row: Route, version: int) -> json_types.Schema | None:
        """Return the schema of a successful response, or None if it has no body."""
        return None if row.answer is None else row.answer.schema(version)

    # ---- documents

    @functools.cached_property
    def _encoded(self) -> dict[int, tuple[bytes, str]]:
        return {}

    def response(self, req: BaseRequest, rows: Iterable[Route], version: int = 1, *vary: str) -> Response:
        """Return the response to GET /openapi.json. The document of each version is cached.

        :param rows: see ``document``
        :param vary: request headers that select the version
        """
        if version not in self._encoded:
            self._encoded[version] = encoded(self.document(rows, version))
        return response(req, *self._encoded[version], *vary)

    def document(self, rows: Iterable[Route], version: int, actions: str = MERGED) -> JsonDocument:
        """Build the OpenAPI document.

        :param rows: Route rows; rows outside the API's root are ignored
        :param version: minor version
        :param actions: MERGED: one operation for POST …/action; its body has an alternative for each action. SPLIT: an
         operation for each action, with '#' and the name of the action in the path. Some tools need this, because
         they support only one response of an operation.
        """
        operations: dict[str, dict[str, list[Route]]] = {}
        shown = served(rows, version)
        for row in shown:
            path = nameless(row.path)
            if actions == SPLIT and row.action:
                path += '#' + row.action
            operations.setdefault(path, {}).setdefault(row.method.lower(), []).append(row)
        used = set[int]()
        paths: dict[str, dict[str, Encodable]] = {}
        for path, methods in operations.items():
            first = next(iter(methods.values()))[0]
            named = first.path + path[len(nameless(first.path)):]
            paths[named] = {'parameters': _parts(first.path)} if '{' in path else {}
            for method, same in methods.items():
                paths[named][method] = self._operation(same, first.path, version, used, actions == MERGED)
        return {
            'openapi': '3.1.0',
            'info': {'title': self.title, 'version': self.version_text(version),
                     'description': self.description(version)},
            'servers': [{'url': self.url, 'description': 'The API that serves this document.'}],
            'security': [{'token': []}],
            'tags': [{'name': name} for name in sorted({self.tag(row) for row in shown})],
            'paths': paths,
            'components': {
                'securitySchemes': {'token': {'type': 'apiKey', 'in': 'header', 'name': 'X-Auth-Token',
                                              'description': 'A token of the identity service.'}},
                'parameters': self.header_parameters(version), 'headers': self.headers(version),
                'responses': {str(code): self.fault(code) for code in sorted(used)},
                'schemas': {'Fault': self.fault_schema()},
            },
        }

    def _operation(self, rows: list[Route], path: str, version: int, used: set[int], merge: bool) -> JsonDocument:
        """Build one operation. ``rows`` has a row for each action of the path.

        :param used: set to which the error codes of the operation are added
        :param merge: build one operation for all actions
        """
        row = rows[0]
        merged = merge and row.action is not None
        errors = set().union(*map(self.errors_of, rows))
        used |= errors
        name = re.sub(r'[^a-zA-Z0-9]+', '_', f'{row.method.lower()}{path}').strip('_')
        found: dict[str, Encodable] = {
            'operationId': name if merged or not row.action else f'{name}_{row.action}',
            'tags': [self.tag(row)],
            'summary': 'Run an action.' if merged else self.meaning(row),
            'parameters': [*self._parameters(row, version)],
            'responses': {**self._successes(rows, version),
                          **{str(code): {'$ref': f'#/components/responses/{code}'} for code in sorted(errors)}},
        }
        if row.public:
            found['security'] = []
        if all(410 in each.errors for each in rows):
            found['deprecated'] = True
        body = _body(rows, version)
        if body is not None:
            found['requestBody'] = {'required': True, 'content': {
                name: {'schema': schema} for name, schema in self.body_types(row, body).items()}}
        if merged:
            found['x-openstack-actions'] = {str(each.action): {
                'summary': self.meaning(each), **self._facts_of(each), 'responses': {
                    **{str(code): self.schema(each, code, version) for code in codes_of_success(each, version)},
                    **{str(code): None for code in sorted(self.errors_of(each))}}} for each in rows}
        else:
            found.update({f'x-openstack-{key}': value for key, value in self._facts_of(row).items()})
        return found

    def _facts_of(self, row: Route) -> JsonDocument:
        """Return the x-openstack extensions of a row."""
        found: dict[str, Encodable] = {'min-version': self.version_text(row.since)} if self.microversions else {}
        found['policies'] = [*filter(None, (row.policy, *row.checks))]
        if row.until is not None:
            found['max-version'] = self.version_text(row.until)
        return found

    def _parameters(self, row: Route, version: int) -> Iterator[JsonDocument]:
        for name in self.header_names(row):
            yield {'$ref': f'#/components/parameters/{name}'}
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

    def _successes(self, rows: list[Route], version: int) -> JsonDocument:
        found: dict[int, list[Route]] = {}
        for row in rows:
            for code in codes_of_success(row, version):
                found.setdefault(code, []).append(row)
        return {str(code): self._success(code, same, version) for code, same in sorted(found.items())}

    def _success(self, code: int, rows: list[Route], version: int) -> JsonDocument:
        answer: dict[str, Encodable] = {'description': phrase(code), 'headers': {
            **{name: {'$ref': f'#/components/headers/{name}'} for name in self.headers(version)},
            **self.more_headers(code, rows, version)}}
        bodies = [(row, schema) for row in rows if (schema := self.schema(row, code, version)) is not None]
        if bodies and len(rows) == 1:
            answer['content'] = {name: {'schema': schema} for name, schema in self.answer_types(*bodies[0]).items()}
        elif bodies:
            answer['content'] = {JSON: {'schema': {
                'anyOf': [{'title': row.action, **schema} for row, schema in bodies]}}}
            without = [row.action or '' for row in rows if self.schema(row, code, version) is None]
            if without:
                answer['description'] = f'{phrase(code)}; no body for: {", ".join(without)}'
        return answer

    def answer_types(self, row: Route, schema: json_types.Schema) -> dict[str, json_types.Schema]:
        """Return {media type: schema} of the body of an operation's response."""
        return {self.media_type(row) or JSON: schema}

    def schema(self, row: Route, code: int, version: int) -> json_types.Schema | None:
        """Return the schema of the response body for a success code, or None if there is no body."""
        if code in (204, 304):
            return None
        return {'type': 'string'} if self.media_type(row) else self.body_of_answer(row, version)


class VersionedDescriber(Describer):
    """Generator for an API with microversions in the header OpenStack-API-Version.

    :cvar known: the microversions of the API
    """

    known: versions.Microversions

    def version_text(self, version: int) -> str:
        return self.known.text(version)

    def header_parameters(self, version: int) -> JsonDocument:
        return {'version': {
            'name': versions.HEADER, 'in': 'header', 'required': version > self.known.minimum,
            'description': f'The microversion; without it {self.version_text(self.known.minimum)} is served.',
            'schema': {'const': f'{self.known.service} {self.version_text(version)}'}}}

    def headers(self, version: int) -> JsonDocument:
        return {
            versions.HEADER: {'description': 'The microversion that was served.', 'required': True,
                              'schema': {'const': f'{self.known.service} {self.version_text(version)}'}},
            'Vary': {'description': 'The headers that select the version.', 'required': True,
                     'schema': {'type': 'string'}}}


def fault_below(key: str) -> JsonDocument:
    """Return the schema of an object that contains only an error below this key."""
    return {'type': 'object', 'properties': {key: FAULT}, 'required': [key], 'additionalProperties': False}


def served(rows: Iterable[Route], version: int) -> list[Route]:
    """Return the rows of the API that are served at a version."""
    return [row for row in rows if row.api and row.at(version)]


def nameless(path: str) -> str:
    """Return a path with empty names of parameters, such as /servers/{}."""
    return re.sub(r'\{\w+\}', '{}', path)


def operation_of(row: Route) -> str:
    """Return a key that identifies an operation: method, ``nameless`` path and action."""
    return f'{row.method} {nameless(row.path)} {row.action or ""}'.strip()


def codes_of_success(row: Route, version: int) -> tuple[int, ...]:
    """Return the success codes of a row at a version, default code first; empty for a removed operation."""
    return () if 410 in row.errors else (row.code(version), *row.also)


def phrase(code: int) -> str:
    """Return the reason phrase of a status code."""
    try:
        return http.HTTPStatus(code).phrase
    except ValueError:
        return 'Refused'


def _parts(path: str) -> list[JsonDocument]:
    return [{'name': name, 'in': 'path', 'required': True, 'schema': {'type': 'string', 'pattern': '^[^/]+$'}}
            for name in re.findall(r'\{(\w+)\}', path)]


def _body(rows: Sequence[Route], version: int) -> json_types.Schema | None:
    """Return the schema of the request body, or None if there is none."""
    forms = [(row, published(row.body.schema(version))) for row in rows if row.body is not None]
    if not forms:
        return None
    if len(forms) == 1:
        return forms[0][1]
    return {'oneOf': [{'title': row.action, **schema} for row, schema in forms]}


# ---- schemas of requests -----------------------------------------------------

def published(schema: json_types.Schema) -> json_types.Schema:
    """Convert a JSON Schema of requests for publication: replace formats of this API by patterns."""
    found: dict[str, Encodable] = {key: _published_value(key, value) for key, value in schema.items()}
    name = found.pop('format', None)
    if isinstance(name, str):
        bounds = _bounded(name)
        found = {**(_FORMATS.get(name, {'format': name}) if bounds is None else bounds), **found}
    if 'pattern' in found:
        found['pattern'] = json_types.portable(str(found['pattern']))
    return found


def _bounded(name: str) -> json_types.Schema | None:
    """Return a schema for a format of ``formats.bounded`` (an integer as text), {} if it may be negative, else None."""
    match = re.fullmatch(r'integer from (\S+) to (\S+)', name)
    if match is None or match[1] == 'None' or int(match[1]) < 0:
        return match and {}
    digits = 20 if match[2] == 'None' else len(match[2])
    return {'pattern': r'^0*[1-9][0-9]{0,%d}$' % (digits - 1) if int(match[1]) else r'^0*[0-9]{1,%d}$' % digits}


def _published_value(key: str, value: Encodable) -> Encodable:
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


# ---- over HTTP ---------------------------------------------------------------

def encoded(document: JsonDocument) -> tuple[bytes, str]:
    """Return (compressed document, entity tag)."""
    body = orjson.dumps(document)
    return gzip.compress(body, mtime=0), f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


def response(req: BaseRequest, body: bytes, tag: str, *vary: str) -> Response:
    """Return the response to GET /openapi.json.

    :param body, tag: see ``encoded``
    :param vary: request headers that select the version
    """
    headers = [('ETag', tag), ('Cache-Control', f'public, max-age={MAX_AGE_S}'),
               ('Vary', ', '.join(('Accept-Encoding', *vary)))]
    if static.matches(req.header('If-None-Match'), tag):
        return Response(b'', 304, headers)
    if static.takes_gzip(req.header('Accept-Encoding')):
        return Response(body, headers=[*headers, ('Content-Encoding', 'gzip')])
    return Response(gzip.decompress(body), headers=headers)
