"""The OpenAPI 3.1 document of the Image API."""
from __future__ import annotations

from nova.image.rest import forms
from nova.image.rest import patch
from nova.image.rest import views
from nova.json_types import JsonDocument
from nova.web import openapi
from nova.web.resource import Schema
from nova.web.routes import Route

OCTETS = 'application/octet-stream'


class ImageDescriber(openapi.Describer):
    """Generator of the document of the Image API."""

    title = 'Image API'
    url = '.'
    microversions = False
    fault_fields = {'code': ('string', 'The HTTP status with its reason phrase.'),
                    'message': ('string', 'Message for the user.'),
                    'title': ('string', 'The reason phrase of the HTTP status.')}

    def version_text(self, version: int) -> str:
        return views.VERSIONS[0].removeprefix('v')

    def description(self, version: int) -> str:
        return ('Every operation of the Image API. Paths are below the endpoint of the catalog. Properties of an image '
                'are further keys of its document.\n')

    def errors_of(self, row: Route) -> set[int]:
        deleted_meanwhile = {410} if row.body is forms.DATA else set()
        return super().errors_of(row) | deleted_meanwhile

    def tag(self, row: Route) -> str:
        return row.path.split('/')[2]

    def media_type(self, row: Route) -> str | None:
        return OCTETS if row.method == 'GET' and row.path.endswith('/file') else None

    def body_types(self, row: Route, schema: Schema) -> dict[str, Schema]:
        if row.method == 'PATCH':
            return {patch.V21: schema, patch.V20: forms.CHANGES_V20}
        return super().body_types(row, schema) if row.body is not forms.DATA else {OCTETS: schema}

    def more_headers(self, code: int, rows: list[Route], version: int) -> JsonDocument:
        text = {'type': 'string'}
        if code == 201:
            location: JsonDocument = {'description': 'URL of the new resource.', 'required': True, 'schema': text}
            if rows[0].path != '/v2/images':
                return {'Location': location}
            return {'Location': location, views.IMPORT_METHODS: {
                'description': 'Methods to import data into the image.', 'required': True, 'schema': text}}
        return {'Content-Range': {'description': 'The returned range.', 'required': True, 'schema': text}
                } if code == 206 else {}

    def fault_body(self, code: int) -> JsonDocument:
        return openapi.FAULT


DESCRIBER = ImageDescriber()
