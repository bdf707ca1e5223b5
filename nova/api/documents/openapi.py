"""GET /openapi.json: the OpenAPI document. Public."""
import functools
import gzip
import hashlib

import orjson

from nova.api import app
from nova.api import extensions
from nova.api import openapi
from nova.api import request as api_request
from nova.api import versions
from nova.web.params import Param
from nova.web.params import Query
from nova.web.params import string
from nova.web.request import Response
from nova.web.routes import Route

MAX_AGE_S = 3600         # clients may cache the document for this time; an upgrade changes it

QUERY = Query(Param('microversion', string(1, 20)), closed=1, single=1)


@functools.cache
def _document(minor: int) -> tuple[bytes, str]:
    """Return (compressed document, its entity tag). A document has about 20 KB, so all versions are cached."""
    body = orjson.dumps(openapi.document(extensions.without_conflicts(app.all_routes(), extensions.load()), minor))
    return gzip.compress(body, mtime=0), f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


def show(req: api_request.Request) -> Response:
    """Return the OpenAPI document of a microversion.

    Default: the version of the request below a version path, the newest version at the root.
    """
    wanted = req.query.one('microversion', None if req.segments else 'latest')     # empty at the root
    body, tag = _document(req.version if wanted is None else versions.parse(wanted))
    headers = [('ETag', tag), ('Cache-Control', f'public, max-age={MAX_AGE_S}'),
               ('Vary', f'Accept-Encoding, {versions.VARY}')]
    known = {each.strip() for each in req.environ.get('HTTP_IF_NONE_MATCH', '').split(',')}
    if known & {tag, '*'}:
        return Response(b'', 304, headers)
    if 'gzip' in req.environ.get('HTTP_ACCEPT_ENCODING', ''):
        return Response(body, headers=[*headers, ('Content-Encoding', 'gzip')])
    return Response(gzip.decompress(body), headers=headers)


ROUTES = (
    Route('GET', '/openapi.json', show, public=True, api=False, query=QUERY, errors=(400, 406)),
)
