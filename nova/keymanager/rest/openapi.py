"""The OpenAPI 3.1 document of the Key Manager API at one microversion."""
from __future__ import annotations

from nova.json_types import JsonDocument
from nova.keymanager import payloads
from nova.keymanager.rest import forms
from nova.web import openapi
from nova.web import versions
from nova.web.resource import Schema
from nova.web.routes import Route

MICROVERSIONS = versions.Microversions('key-manager', 1, 0, 1)


class KeyManagerDescriber(openapi.VersionedDescriber):
    """Generator of the documents of the Key Manager API."""

    title = 'Key Manager API'
    url = '.'
    known = MICROVERSIONS
    fault_fields = {'code': ('integer', 'The HTTP status.'),
                    'title': ('string', 'The reason phrase of the HTTP status.'),
                    'description': ('string', 'Message for the user.')}
    always, of_callers = (400, 406, 503), (401, 403)

    def description(self, version: int) -> str:
        return (f'Every operation of the Key Manager API at microversion {self.version_text(version)}.\n\n'
                'Paths are below the endpoint of the catalog. GET operations also support HEAD. Request another '
                f'microversion with `?microversion=1.N`, from 1.0 to {self.version_text(MICROVERSIONS.maximum)}.\n')

    def errors_of(self, row: Route) -> set[int]:
        return super().errors_of(row) | (
            {415} if row.method in ('POST', 'PUT', 'PATCH') or row.body is not None else set())

    def tag(self, row: Route) -> str:
        return row.path.split('/')[2]

    def media_type(self, row: Route) -> str | None:
        return '*/*' if row.path.endswith('/payload') else None

    def body_types(self, row: Route, schema: Schema) -> dict[str, Schema]:
        return super().body_types(row, schema) if row.body is not forms.PAYLOAD else dict.fromkeys(
            payloads.TYPES, schema)

    def answer_types(self, row: Route, schema: Schema) -> dict[str, Schema]:
        found = super().answer_types(row, schema)
        if row.called == 'show_secret':                     # old clients request the payload with an Accept header
            found |= dict.fromkeys(payloads.TYPES, {'type': 'string'})
        return found

    def fault_body(self, code: int) -> JsonDocument:
        return openapi.FAULT


DESCRIBER = KeyManagerDescriber()


def fault(code: int, message: str) -> dict[str, str | int]:
    """Return the document of an error."""
    return {'code': code, 'title': openapi.phrase(code), 'description': message}
