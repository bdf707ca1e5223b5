"""GET /openapi.json: the OpenAPI document. Public."""
import functools

from nova.api import app
from nova.api import extensions
from nova.api import openapi
from nova.api import request as api_request
from nova.api import versions
from nova.web import openapi as web_openapi
from nova.web import params
from nova.web.request import Response
from nova.web.routes import Route

QUERY = params.Query(params.Param('microversion', params.string(1, 20)), closed=1, single=1)


@functools.cache
def _document(minor: int) -> tuple[bytes, str]:
    """Return (compressed document, its entity tag). A document has about 20 KB, so all versions are cached."""
    return web_openapi.encoded(openapi.document(extensions.without_conflicts(app.all_routes(), extensions.load()),
                                                minor))


def show(req: api_request.Request) -> Response:
    """Return the OpenAPI document of a microversion.

    The default is the request's version below a version path, and the newest version at the root.
    """
    wanted = req.query.one('microversion', None if req.segments else 'latest')     # no segments: root
    body, tag = _document(req.version if wanted is None else versions.parse(wanted))
    return web_openapi.response(req, body, tag, versions.VARY)


ROUTES = (
    Route('GET', '/openapi.json', show, public=True, api=False, query=QUERY, errors=(400, 406)),
)
