"""The OpenAPI 3.1 document of the Block Storage API at one microversion."""
from __future__ import annotations

from nova import exception
from nova.web import openapi
from nova.web import versions
from nova.web.routes import Route

MICROVERSIONS = versions.Microversions('volume', 3, 0, 68, other_major=exception.BadRequest)


class VolumeDescriber(openapi.VersionedDescriber):
    """Generator of the OpenAPI documents of the Block Storage API."""

    title = 'Block Storage API'
    url = 'v3'
    known = MICROVERSIONS
    always, of_callers = (400, 404, 406, 503), (401, 403)

    def description(self, version: int) -> str:
        return (f'Every operation of the Block Storage API at microversion {self.version_text(version)}.\n\n'
                'Paths are below the endpoint of the catalog; a project ID may precede them. GET operations also '
                'support HEAD. Request another microversion with `?microversion=3.N`, from 3.0 to '
                f'{self.version_text(MICROVERSIONS.maximum)}.\n')

    def errors_of(self, row: Route) -> set[int]:
        return super().errors_of(row) | (set() if row.method == 'GET' else {409, 413, 415})


DESCRIBER = VolumeDescriber()
