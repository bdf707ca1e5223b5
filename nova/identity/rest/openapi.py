"""The OpenAPI 3.1 document of the Identity API."""
from __future__ import annotations

import http.client
from collections.abc import Iterator

from nova.identity.rest import resources
from nova.json_types import JsonDocument
from nova.web import openapi
from nova.web.routes import Route
from nova.web.resource import shape

VERSION = resources.version('')['id']


class IdentityDescriber(openapi.Describer):
    """Generator of the document of the Identity API."""

    title = 'Identity API'
    url = '.'
    microversions = False
    fault_fields = {**openapi.Describer.fault_fields, 'title': ('string', 'The reason phrase of the HTTP status.')}
    always, of_bodies, of_parts = (400, 404, 503), (409, 413, 415), ()

    def version_text(self, version: int) -> str:
        return str(VERSION)

    def description(self, version: int) -> str:
        return ('Every operation of the embedded identity service.\n\nGET operations also support HEAD. Lists can be '
                'filtered by the text of a field, too: `name__contains=web`, with `startswith` and `endswith`, and an '
                '`i` before the operator to ignore case. Domains, projects, users, roles, groups, regions, services '
                'and endpoints have the additional attributes that clients store.\n')

    def tag(self, row: Route) -> str:
        return [*row.path.strip('/').split('/'), 'versions'][1]

    def header_names(self, row: Route) -> Iterator[str]:
        if row.path == '/v3/auth/tokens' and row.method != 'POST':
            yield 'subject'

    def header_parameters(self, version: int) -> JsonDocument:
        return {'subject': {'name': 'X-Subject-Token', 'in': 'header', 'required': True,
                            'description': 'The token that the request is about.', 'schema': {'type': 'string'}}}

    def headers(self, version: int) -> JsonDocument:
        return {'x-openstack-request-id': {'description': 'ID of the request.', 'required': True,
                                           'schema': openapi.REQUEST_ID}}

    def fault_body(self, code: int) -> JsonDocument:
        """Return the schema of an error response. The response to a login with too few methods contains a receipt."""
        schema: JsonDocument = shape(error=openapi.FAULT)
        return {'anyOf': [schema, resources.RECEIPT]} if code == http.client.UNAUTHORIZED else schema


DESCRIBER = IdentityDescriber()
