"""Version documents for version discovery. Public."""
import functools

import orjson

from nova import exception
from nova import version
from nova.api import request as api_request
from nova.api import versions
from nova.web.params import Query
from nova.web.request import Response
from nova.web.routes import Route

# (ID, status, path, newest and oldest microversion, time of the last change)
APIS = (
    ('v2.0', 'SUPPORTED', '/v2/', '', '', '2011-01-21T11:33:21Z'),
    ('v2.1', 'CURRENT', '/v2.1/', versions.text(versions.MAX_VERSION), versions.text(versions.MIN_VERSION),
     '2013-07-23T11:33:21Z'),
)
_BY_PATH = {api[2].strip('/'): api for api in APIS} | {api[0]: api for api in APIS}


def _entry(api: tuple[str, ...], host_url: str) -> api_request.Document:
    name, status, path, newest, oldest, updated = api
    return {'id': name, 'status': status, 'version': newest, 'min_version': oldest, 'updated': updated,
            'links': [{'rel': 'self', 'href': host_url + path}]}


@functools.lru_cache(maxsize=256)
def _document(api: tuple[str, ...], host_url: str) -> bytes:
    entry = _entry(api, host_url)
    # The API guide also links a WADL document; the machine-readable description is now the OpenAPI document.
    entry['links'] += [{'rel': 'describedby', 'type': 'text/html', 'href': 'https://docs.openstack.org/'},
                         {'rel': 'describedby', 'type': 'application/json',
                          'href': f'{entry["links"][0]["href"]}openapi.json'}]
    entry['media-types'] = [{'base': 'application/json',
                               'type': f'application/vnd.openstack.compute+json;version={api[0][1:]}'}]
    return orjson.dumps({'version': entry})


def root(req: api_request.Request) -> Response:
    """List all versions of the API, and the version of the product. Browsers get the dashboard from this address."""
    return Response({'versions': [_entry(api, req.host_url) for api in APIS], 'release': version.VERSION},
                    headers=[('Vary', 'Accept')])


def index(req: api_request.Request) -> Response:
    """Show the version of the request's path."""
    return Response(_document(_BY_PATH[req.base_path[1:]], req.host_url))


def show(req: api_request.Request, id: str) -> Response:
    if id not in _BY_PATH:
        raise exception.NotFound()
    return Response(_document(_BY_PATH[id], req.host_url))


ROUTES = (
    Route('GET', '/', root, public=True, api=False),
    Route('GET', '/versions', root, public=True, api=False),
    Route('GET', '/versions/{id}', show, public=True, api=False, errors=(404,)),
    Route('GET', '/', index, public=True, query=Query(), errors=(404,)),
    Route('GET', '/versions/{id}', show, query=Query(), errors=(404,), any_scope=True),
)
