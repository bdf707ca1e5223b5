"""The OpenAPI 3.1 document of the compute API at one microversion, generated from Route rows and response types."""
from collections.abc import Iterator

from nova import policies
from nova.api import faults as api_faults
from nova.api import idempotency
from nova.api import prefer_wait
from nova.api import response_types
from nova.api import versions
from nova.json_types import Encodable
from nova.web import json_schema
from nova.web import json_types
from nova.web import openapi
from nova.web import preferences
from nova.web.openapi import Document
from nova.web.openapi import operation_of
from nova.web.openapi import REQUEST_ID
from nova.web.routes import Route

JSON, VERSION, MERGED, SPLIT = openapi.JSON, openapi.VERSION, openapi.MERGED, openapi.SPLIT
codes_of_success, published, served = openapi.codes_of_success, openapi.published, openapi.served

_MEANINGS = {rule: meaning for rule, _check, meaning, _operations in policies.RULES}

_DESCRIPTION = """Every operation of the compute API at microversion {version}.

Paths are below the endpoint of the catalog; a project ID may precede them. GET operations also support HEAD.
Operations, parameters and fields of other microversions are omitted: request another microversion with
`?microversion=2.N`, from {oldest} to {newest}.
"""


class ComputeDescriber(openapi.Describer):
    """Generator of the OpenAPI documents of the compute API."""

    title = 'Compute API'
    url = 'v2.1'
    always, of_callers, of_bodies, of_parts = (400, 406, 503), (401, 403, 413, 429), (413, 415), (404,)

    def version_text(self, version: int) -> str:
        return versions.text(version)

    def description(self, version: int) -> str:
        return _DESCRIPTION.format(version=versions.text(version), oldest=versions.text(versions.MIN_VERSION),
                                   newest=versions.text(versions.MAX_VERSION))

    def errors_of(self, row: Route) -> set[int]:
        return super().errors_of(row) | ({409} if idempotency.applies(row) else set())

    def meaning(self, row: Route) -> str:
        """Describe a route in one sentence: the description of its policy rule, else its handler's docstring."""
        found = next((_MEANINGS[rule] for rule in (row.policy, *row.checks) if rule in _MEANINGS), None)
        documented = (row.handler.__doc__ or '').strip().split('\n')[0] if hasattr(row.handler, '__name__') else ''
        return found or documented or f'{row.method} {row.path}'

    def tag(self, row: Route) -> str:
        found = super().tag(row)
        return 'server actions' if row.action and found == 'servers' else found

    def media_type(self, row: Route) -> str | None:
        return response_types.media_type(operation_of(row))

    def body_of_answer(self, row: Route, version: int) -> json_types.Schema | None:
        return response_types.body(operation_of(row), version)

    def header_names(self, row: Route) -> Iterator[str]:
        yield from ('version', 'request-id')
        if idempotency.applies(row):
            yield 'idempotency-key'
        if prefer_wait.applies(row.method, row.path):
            yield 'prefer'

    def more_headers(self, code: int, rows: list[Route], version: int) -> Document:
        found: dict[str, Encodable] = {}
        for row in rows:
            for header in response_types.headers(operation_of(row), version):
                if header['status'] == str(code):
                    found[header['header']] = {
                        'description': header['meaning'], 'required': len(rows) == 1 and header['always'] == 'yes',
                        'schema': {'type': 'string', 'format': 'uri'}}
        if any(map(idempotency.applies, rows)):
            found['Idempotency-Replayed'] = {
                'description': 'The stored response of an earlier request.', 'schema': {'const': 'true'}}
        if any(prefer_wait.applies(row.method, row.path) for row in rows):
            found[preferences.APPLIED] = {
                'description': 'wait=SECONDS: the response was delayed until the end of the task, at most for this '
                               'time.', 'schema': {'type': 'string'}}
        return found

    def fault_schema(self) -> Document:
        found = super().fault_schema()
        return {**found, 'properties': {**json_schema.part(found, 'properties'), 'retryAfter': {
            'type': 'string', 'description': 'When the request may be sent again.'}}}

    def fault(self, code: int) -> Document:
        """Return the response of an error code. 401 and 406 are sent before version negotiation, with fewer headers."""
        headers: dict[str, Encodable] = {}
        if code not in (401, 406):
            names = ('x-openstack-request-id', 'x-compute-request-id')
            headers = {name: {'$ref': f'#/components/headers/{name}'} for name in names}
        if code in api_faults.RETRY_AFTER:
            headers['Retry-After'] = {
                'description': 'Seconds after which the request may be sent again.', 'required': True,
                'schema': {'type': 'string', 'pattern': '^[0-9]+$'}}
        return {**super().fault(code), **({'headers': headers} if headers else {})}

    def header_parameters(self, version: int) -> Document:
        return {
            'version': {'name': versions.HEADER, 'in': 'header', 'required': version > versions.MIN_VERSION,
                        'description': f'The microversion; without it {versions.text(versions.MIN_VERSION)} is served.',
                        'schema': {'const': f'compute {versions.text(version)}'}},
            'request-id': {'name': 'X-OpenStack-Request-ID', 'in': 'header', 'schema': REQUEST_ID,
                           'description': 'Request ID shared by the logs of all services that take part.'},
            'idempotency-key': {
                'name': 'Idempotency-Key', 'in': 'header',
                'schema': {'type': 'string', 'pattern': '^[ -~]+$', 'minLength': 1, 'maxLength': idempotency.MAX_KEY},
                'description': 'A secret of the client. A repeated request with the same key gets the first response.'},
            'prefer': {
                'name': 'Prefer', 'in': 'header', 'schema': {'type': 'string', 'maxLength': 1000},
                'description': f'wait=SECONDS, at most {prefer_wait.MAX_WAIT_S}: delay the response until the end of '
                               'the task. return=representation on POST /servers: return the body of '
                               'GET /servers/{id}.'},
        }

    def headers(self, version: int) -> Document:
        text = {'type': 'string'}
        return {
            versions.HEADER: {'description': 'The microversion that was served.', 'required': True,
                              'schema': {'const': f'compute {versions.text(version)}'}},
            versions.LEGACY_HEADER: {'description': 'The served microversion, for older clients.', 'required': True,
                                     'schema': {'const': versions.text(version)}},
            'Vary': {'description': 'The headers that select the version.', 'required': True, 'schema': text},
            'x-openstack-request-id': {'description': 'The ID of this request in the logs.', 'required': True,
                                       'schema': REQUEST_ID},
            'x-compute-request-id': {'description': 'The ID of this request, for older clients.', 'required': True,
                                     'schema': REQUEST_ID},
        }


API = ComputeDescriber()
document, errors_of, meaning = API.document, API.errors_of, API.meaning
