"""The HTTP face of the embedded block storage: the Block Storage API v3 as its common clients use it.

The middleware before it puts the caller into ``environ['nova.context']``. An operation is a row of handlers.ROWS.
"""
import logging
import re

import orjson
import webob

from nova import exception
from nova.db.audit import log
from nova.volume.face import handlers
from nova.volume.face import views
from nova.web import json_text

LOG = logging.getLogger(__name__)

MAX_BODY = 256 * 1024           # bytes
MAX_QUERY = 64 * 1024
KEYS = {400: 'badRequest', 401: 'unauthorized', 403: 'forbidden', 404: 'itemNotFound', 405: 'badMethod',
        409: 'conflictingRequest', 413: 'overLimit', 501: 'notImplemented', 503: 'serviceUnavailable'}
FIRST = {row.path[0] for row in handlers.ROWS}
HEADER = 'OpenStack-API-Version'
_VERSION = re.compile('3[.](0|[1-9][0-9]{0,3})')


class Request:
    """What a handler gets.

    trusted          whether the caller is a service or an administrator
    context, store   the caller; nova.volume.embedded.EmbeddedVolumes
    query            {name: last value}
    given            what stands below the key of the body that the row names
    url              where the face is mounted
    path             of this request, for links to the next page
    version          minor of the microversion that it is served at
    """

    def __init__(self, request, store, version):
        self.context, self.store, self.version = request.environ['nova.context'], store, version
        self.trusted = _trusted(self.context)
        self.url, self.path = request.application_url, request.path_url
        self.query, self.given = _query(request), None


class Application:
    """A WSGI application, to be mounted at /volume.

    :param store: nova.volume.embedded.EmbeddedVolumes
    """

    def __init__(self, store):
        self.store = store

    def __call__(self, environ, start_response):
        request, version = webob.Request(environ), 0
        try:
            version = _version(request)
            status, document = self._dispatch(request, version)
        except exception.NovaException as error:
            if error.code >= 500:
                LOG.error('The volume API failed: %s', error)
            status, document = _fault(error)
        except Exception:
            LOG.exception('Unexpected error in the volume API')
            status, document = _fault(exception.NovaException())
        response = webob.Response(status=status)
        if document is None:
            del response.content_type
        else:
            response.content_type, response.body = 'application/json', orjson.dumps(document)
        response.headers[HEADER], response.headers['Vary'] = f'volume 3.{version}', HEADER
        return response(environ, start_response)

    def _dispatch(self, request, version):
        path = _path(request)
        if path in ([], ['v3']):
            if request.method not in ('GET', 'HEAD'):
                raise exception.MethodNotAllowed()
            return 200, {'versions': [views.version(request.application_url)]}
        if path[0] != 'v3':
            raise exception.NotFound()
        context = request.environ.get('nova.context')
        if context is None:
            raise exception.Unauthorized()
        if not context.project_id:
            log.named(f'volume:{request.method.lower()}')
        context.require_project()
        path = path[1:]
        if path[0] not in FIRST:                        # a project id may come first
            if path[0] != context.project_id and not context.is_admin:
                raise exception.NotFound()
            path = path[1:]
        row, parts = _find(request, path)
        log.named('volume:' + row.handler.__name__, code=row.status, target_type=row.path[0],
                    target_id=parts[0] if parts else None, target_part=parts[1] if parts[1:] else None,
                    route='/v3/' + '/'.join('{id}' if part == '*' else part for part in row.path))
        if row.writes and not context.may_write() or row.admin and not _trusted(context):
            raise exception.PolicyDenied(rule='volume:' + row.handler.__name__)
        asked = Request(request, self.store, version)
        if row.body:
            asked.given = handlers.given(_body(request), *row.body)
        if not asked.trusted:
            handlers.check_shown(asked, row, parts)
        return row.status, row.handler(asked, *parts)


def _version(request):
    """The minor of the microversion that a request asks for; 0 when it names none.

    :raises BadRequest: it is none
    :raises NotAcceptable: this service has no such version
    """
    asked = [text.split() for text in request.headers.get(HEADER, '').split(',')]
    asked = [words[1] for words in asked if len(words) == 2 and words[0].lower() == 'volume']
    if not asked:
        return 0
    if asked[0].lower() == 'latest':
        return views.MAX_VERSION
    match = _VERSION.fullmatch(asked[0])
    if not match:
        raise exception.BadRequest(f'API Version String {asked[0][:40]!r} is of invalid format. '
                                   'Must be of format MajorNum.MinorNum.')
    if int(match[1]) > views.MAX_VERSION:
        raise exception.NotAcceptable(f'Version {asked[0]} is not supported by the API. Minimum is 3.0 and maximum '
                                      f'is 3.{views.MAX_VERSION}.')
    return int(match[1])


def _trusted(context):
    return context.is_admin or 'service' in (context.roles or ())


def _find(request, path):
    """(row, values of its open parts) of a request; an action's row is told by the key of its body."""
    fitting = [row for row in handlers.ROWS if len(row.path) == len(path) and all(
        want in (have, '*') for want, have in zip(row.path, path, strict=True))]
    if not fitting:
        raise exception.NotFound()
    fixed = max(sum(part != '*' for part in row.path) for row in fitting)
    fitting = [row for row in fitting if sum(part != '*' for part in row.path) == fixed]
    method = 'GET' if request.method == 'HEAD' else request.method
    rows = [row for row in fitting if row.method == method]
    if not rows:
        raise exception.MethodNotAllowed()
    if rows[0].action:
        body = _body(request)
        rows = [row for row in rows if row.action in body]
        if len(rows) != 1:
            raise exception.BadRequest('There is no such action.')
    return rows[0], [have for want, have in zip(rows[0].path, path, strict=True) if want == '*']


def _fault(error):
    message = error.message if error.code < 500 or error.code == 503 else exception.NovaException.template
    # a quota that is used up is 413 in this API
    code = 413 if isinstance(error, exception.QuotaExceeded) else error.code
    return code, {KEYS.get(code, 'computeFault'): {'code': code, 'message': message}}


def _path(request):
    try:
        return [part for part in request.path_info.split('/') if part]
    except UnicodeDecodeError:
        raise exception.NotFound() from None


def _query(request):
    if len(request.query_string) > MAX_QUERY:
        raise exception.BadRequest('The query is too long.')
    try:
        query = dict(request.GET.items())
    except UnicodeDecodeError:
        raise exception.BadRequest('The query is not UTF-8.') from None
    if any('\0' in text for pair in query.items() for text in pair):
        raise exception.BadRequest('The query has a NUL character.')
    return query


def _body(request):
    if 'nova.volume.body' not in request.environ:
        if (request.content_length or 0) > MAX_BODY:
            raise exception.TooLarge(limit=MAX_BODY)
        text = request.body_file.read(MAX_BODY + 1)
        if len(text) > MAX_BODY:
            raise exception.TooLarge(limit=MAX_BODY)
        try:
            document = json_text.parse(text)
        except ValueError:
            raise exception.BadRequest('Malformed request body: it is not JSON.') from None
        if not isinstance(document, dict) or b'\\u0000' in text:
            raise exception.BadRequest('Malformed request body: it is not an object, or has a NUL character.')
        request.environ['nova.volume.body'] = document
    return request.environ['nova.volume.body']
