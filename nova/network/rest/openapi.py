"""The OpenAPI 3.1 document of the Networking API."""
from __future__ import annotations

from collections.abc import Iterator

from nova.json_types import JsonDocument
from nova.network.rest import faults
from nova.web import openapi
from nova.web.routes import Route

VERSION = 1              # minor version for all fields, because this API has no microversions
_REVISION = 'revision'


class NetworkDescriber(openapi.Describer):
    """Generator of the document of the Networking API."""

    title = 'Networking API'
    url = 'v2.0'
    microversions = False
    always, of_callers = (400, 404, 503), (401, 403)
    fault_fields = {'type': ('string', 'Kind of the error.'), 'message': ('string', 'Message for the user.'),
                    'detail': ('string', 'Always empty.')}

    def version_text(self, version: int) -> str:
        return '2.0'

    def description(self, version: int) -> str:
        return ('Every operation of the Networking API.\n\nPaths are below the endpoint of the catalog, and may end '
                'with `.json`. GET operations also support HEAD. The parameter `fields` of lists and single resources '
                'selects fields and may be repeated.\n')

    def errors_of(self, row: Route) -> set[int]:
        changes = row.method != 'GET' or row.path.startswith('/auto-allocated-topology')
        return super().errors_of(row) | ({409, 412, 413, 415} if changes else set())

    def header_parameters(self, version: int) -> JsonDocument:
        return {_REVISION: {
            'name': 'If-Match', 'in': 'header', 'required': False,
            'description': 'Revision that the resource must have.',
            'schema': {'type': 'string', 'pattern': '^revision_number=[0-9]{1,18}$'}}}

    def header_names(self, row: Route) -> Iterator[str]:
        yield from (_REVISION,) if row.called.startswith(('update_', 'delete_')) and row.path.endswith('{id}') else ()

    def fault_body(self, code: int) -> JsonDocument:
        return openapi.fault_below(faults.KEY)


DESCRIBER = NetworkDescriber()
