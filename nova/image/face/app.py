"""The HTTP face of the embedded image service: the Image API v2 as its clients use it.

The middleware before it puts the caller into ``environ['nova.context']``. Paths, codes and documents are those of the
published Image API; an operation is a row of ROUTES.
"""
import contextlib
import logging
import re
import urllib.parse

import orjson
import webob
import webob.exc

from nova import exception
from nova.db.audit import log
from nova.image import fields
from nova.image.embedded import files
from nova.image.embedded import search
from nova.image.face import patch
from nova.image.face import views
from nova.web import json_text

LOG = logging.getLogger(__name__)

MAX_BODY = 1024 * 1024           # bytes of a JSON document
MAX_QUERY = 64 * 1024
DRAIN = 64 * 1024 * 1024         # bytes of a refused upload that are still read, so that the client sees the answer
OCTETS = 'application/octet-stream'
SIZE = re.compile('[0-9]{1,18}')
RANGE = re.compile(r'bytes=(\d{0,18})-(\d{0,18})')


class Application:
    """A WSGI application, to be mounted at /image.

    :param store: nova.image.embedded.service.Store
    """

    def __init__(self, store):
        self.store = store

    def __call__(self, environ, start_response):
        request = webob.Request(environ)
        try:
            response = self._dispatch(request)
        except exception.NovaException as error:
            response = _fault(error)
        except Exception:
            LOG.exception('Unexpected error in the image API')
            response = _fault(exception.NovaException())
        return response(environ, start_response)

    def _dispatch(self, request):
        path = _path(request)
        if path in ('', '/versions', '/v2', '/v2/versions'):
            return _json(views.versions(request.application_url.rstrip('/')), 200 if 'versions' in path else 300)
        allowed = []
        for method, pattern, handler in ROUTES:
            match = pattern.fullmatch(path)
            if match and method == request.method:
                log.named(f'image:{handler.__name__}', route=pattern.pattern.replace('([^/]+)', '{id}'),
                            code=CODES.get(handler, 204), target_type='images',
                            **dict(zip(('target_id', 'target_part'), match.groups())))
                ctx = request.environ.get('nova.context')
                if ctx is None:
                    raise exception.Unauthorized()
                if handler not in OF_NOBODY:
                    ctx.require_project()
                return handler(self.store, request, ctx, *match.groups())
            if match:
                allowed.append(method)
        if allowed:
            response = _fault(exception.MethodNotAllowed())
            response.headers['Allow'] = ', '.join(allowed)
            return response
        raise exception.NotFound()


def _path(request):
    try:
        return request.path_info.rstrip('/')
    except UnicodeDecodeError:
        raise exception.NotFound() from None


# ---- images ------------------------------------------------------------------

def list_images(store, request, ctx):
    query = _query(request)
    wanted = search.parse(query)
    return _json(views.images(store.page(ctx, wanted), query, wanted.limit))


def create_image(store, request, ctx):
    body = _body(request)
    for name, value in body.items():
        fields.check_settable(name, 'create')
        fields.check(name, value)
    tags = body.pop('tags', [])
    columns, properties = fields.split(body)
    row = store.create(ctx, columns, properties, tags)
    response = _json(views.image(row), 201)
    response.location = f'{request.application_url.rstrip("/")}/v2/images/{row["id"]}'
    return response


def show_image(store, request, ctx, image_id):
    return _json(views.image(store.show(ctx, image_id)))


def update_image(store, request, ctx, image_id):
    if request.content_type not in patch.TYPES:
        response = _fault(exception.UnsupportedMediaType(f'The content type must be one of {", ".join(patch.TYPES)}.'))
        response.headers['Accept-Patch'] = ', '.join(patch.TYPES)
        return response
    store.show(ctx, image_id)                    # what is not there is 404 before the body is read
    operations = patch.parse(_document(request), request.content_type)
    return _json(views.image(store.update(ctx, image_id, patch.change(operations))))


def delete_image(store, request, ctx, image_id):
    store.delete(ctx, image_id)
    return _empty()


def deactivate(store, request, ctx, image_id):
    store.set_active(ctx, image_id, False)
    return _empty()


def reactivate(store, request, ctx, image_id):
    store.set_active(ctx, image_id, True)
    return _empty()


# ---- data --------------------------------------------------------------------

def upload(store, request, ctx, image_id):
    store.show(ctx, image_id)
    if request.content_type != OCTETS:
        raise exception.UnsupportedMediaType(f'The content type must be {OCTETS}.')
    length = _declared_length(request)
    if length is not None and length > store.files.max_size:
        raise exception.TooLarge(limit=store.files.max_size)
    chunks = _received(request, length)
    try:
        store.upload(ctx, image_id, chunks, length or 0)
    except exception.NovaException:
        _drain(chunks)
        raise
    return _empty()


def _declared_length(request):
    """Bytes that will come, None when the client does not say (chunked)."""
    declared = request.headers.get('X-OpenStack-Image-Size')
    length = request.content_length
    if declared is not None and (not SIZE.fullmatch(declared) or length not in (None, int(declared))):
        raise exception.BadRequest('X-OpenStack-Image-Size is not the size of the data.')
    if length is None and not _is_chunked(request):
        return 0
    return length


def _is_chunked(request):
    return bool(request.environ.get('wsgi.input_terminated')
                or request.headers.get('Transfer-Encoding', '').lower() == 'chunked')


def _received(request, length):
    """The chunks of the body; raises BadRequest when it breaks off."""
    source, received = request.environ['wsgi.input'], 0
    while length is None or received < length:
        try:
            chunk = source.read(files.CHUNK if length is None else min(files.CHUNK, length - received))
        except (OSError, ValueError):
            raise exception.BadRequest('The connection broke off before all data had come.') from None
        if not chunk:
            break
        received += len(chunk)
        yield chunk
    if length is not None and received < length:
        raise exception.BadRequest('The connection broke off before all data had come.')
    declared = request.headers.get('X-OpenStack-Image-Size')
    if declared is not None and received != int(declared):
        raise exception.BadRequest('X-OpenStack-Image-Size is not the size of the data.')


def _drain(chunks):
    left = DRAIN
    with contextlib.suppress(exception.NovaException):
        for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                return


def download(store, request, ctx, image_id):
    row, file = store.open(ctx, image_id)
    if file is None:
        return _empty()
    start, end = 0, row['size']
    wanted = request.headers.get('Range')
    headers = {'Content-Type': OCTETS, 'Accept-Ranges': 'bytes'}
    if wanted:
        try:
            start, end = _range(wanted, row['size'])
        except ValueError:
            file.close()
            return _fault_of(416, 'The range lies outside the data.', {'Content-Range': f'bytes */{row["size"]}'})
        headers['Content-Range'] = f'bytes {start}-{end - 1}/{row["size"]}'
    elif row['checksum']:
        headers['Content-MD5'] = row['checksum']
    file.seek(start)
    response = webob.Response(status=206 if wanted else 200, app_iter=_Body(file, end - start))
    response.headers.update(headers)
    response.content_length = end - start
    return response


def _range(text, size):
    """(first byte, byte after the last) of a Range header with one range; ValueError when it cannot be given."""
    match = RANGE.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError(text)
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    if start >= end:
        raise ValueError(text)
    return start, end


class _Body:
    """The bytes of a file, closed by the server also when the client goes away."""

    def __init__(self, file, length):
        self._file, self._left = file, length

    def __iter__(self):
        return self

    def __next__(self):
        chunk = self._file.read(min(files.CHUNK, self._left))
        if not chunk:
            raise StopIteration
        self._left -= len(chunk)
        return chunk

    def close(self):
        self._file.close()


# ---- tags and members --------------------------------------------------------

def add_tag(store, request, ctx, image_id, tag):
    fields.check('tags', [tag])
    store.update(ctx, image_id, lambda image: ({}, image['properties'], [*image['tags'], tag]))
    return _empty()


def delete_tag(store, request, ctx, image_id, tag):
    def change(image):
        if tag not in image['tags']:
            raise exception.NotFound(f'Image {image_id} has no such tag.')
        return {}, image['properties'], [present for present in image['tags'] if present != tag]
    store.update(ctx, image_id, change)
    return _empty()


def list_tasks(store, request, ctx, image_id):
    """What goes on in the background with an image: here nothing ever does."""
    store.show(ctx, image_id)
    return _json({'tasks': []})


def list_members(store, request, ctx, image_id):
    return _json(views.members(store.members(ctx, image_id)))


def create_member(store, request, ctx, image_id):
    return _json(views.member(store.add_member(ctx, image_id, _body(request).get('member'))))


def show_member(store, request, ctx, image_id, member):
    return _json(views.member(store.members(ctx, image_id, member)[0]))


def update_member(store, request, ctx, image_id, member):
    return _json(views.member(store.update_member(ctx, image_id, member, _body(request).get('status'))))


def delete_member(store, request, ctx, image_id, member):
    store.delete_member(ctx, image_id, member)
    return _empty()


# ---- schemas and what the service can do -------------------------------------

def show_schema(store, request, ctx, name):
    if name not in views.SCHEMAS:
        raise exception.NotFound()
    return _json(views.SCHEMAS[name])


def show_import(store, request, ctx):
    return _json(views.IMPORT)


def show_stores(store, request, ctx):
    return _json(views.STORES)


def show_usage(store, request, ctx):
    if not ctx.project_id:
        raise exception.Forbidden('The usage is that of a project: ask with a token of one.')
    return _json(views.usage(store.usage(ctx)))


# ---- requests and responses --------------------------------------------------

def _query(request):
    if len(request.query_string) > MAX_QUERY:
        raise exception.BadRequest('The query string is too long.')
    try:
        return urllib.parse.parse_qsl(request.query_string, keep_blank_values=True, errors='strict',
                                      max_num_fields=search.MAX_FILTERS)
    except ValueError:
        raise exception.BadRequest('The query string cannot be read.') from None


def _document(request):
    length = request.content_length
    if length is None and not _is_chunked(request):
        raise exception.BadRequest('The request must have a body.')
    if (length or 0) > MAX_BODY:
        raise exception.TooLarge(limit=MAX_BODY)
    source = request.environ['wsgi.input']
    try:
        text = source.read(MAX_BODY + 1 if length is None else length)
    except (OSError, ValueError):
        raise exception.BadRequest('The body cannot be read.') from None
    if len(text) > MAX_BODY:
        raise exception.TooLarge(limit=MAX_BODY)
    try:
        return json_text.parse(text)
    except ValueError:
        raise exception.BadRequest('The body is not valid JSON.') from None


def _body(request):
    """The JSON object of the request."""
    if request.content_type not in ('application/json', ''):
        raise exception.UnsupportedMediaType()
    document = _document(request)
    if not isinstance(document, dict):
        raise exception.BadRequest('The body must be a JSON object.')
    return document


def _json(document, status=200):
    return webob.Response(orjson.dumps(document), status=status, content_type='application/json', charset='UTF-8')


def _empty():
    response = webob.Response(status=204)
    del response.content_type
    return response


def _fault(error):
    code = 413 if isinstance(error, exception.QuotaExceeded) else error.code       # as the Image API documents it
    return _fault_of(code, error.message if code < 500 or code == 507 else exception.NovaException.template, {})


def _fault_of(code, message, headers):
    title = webob.exc.status_map[code].title
    response = _json({'message': message, 'code': f'{code} {title}', 'title': title}, code)
    response.headers.update(headers)
    return response


def _routes(*rows):
    """(method, compiled path, handler); {} is one part of the path."""
    return [(method, re.compile(path.replace('{}', '([^/]+)')), handler) for method, path, handler in rows]


# of success of what is written, where it is not 204
CODES = {create_image: 201, update_image: 200, create_member: 200, update_member: 200}
ROUTES = _routes(
    ('GET', '/v2/images', list_images),
    ('POST', '/v2/images', create_image),
    ('GET', '/v2/images/{}', show_image),
    ('PATCH', '/v2/images/{}', update_image),
    ('DELETE', '/v2/images/{}', delete_image),
    ('GET', '/v2/images/{}/file', download),
    ('PUT', '/v2/images/{}/file', upload),
    ('POST', '/v2/images/{}/actions/deactivate', deactivate),
    ('POST', '/v2/images/{}/actions/reactivate', reactivate),
    ('PUT', '/v2/images/{}/tags/{}', add_tag),
    ('DELETE', '/v2/images/{}/tags/{}', delete_tag),
    ('GET', '/v2/images/{}/tasks', list_tasks),
    ('GET', '/v2/images/{}/members', list_members),
    ('POST', '/v2/images/{}/members', create_member),
    ('GET', '/v2/images/{}/members/{}', show_member),
    ('PUT', '/v2/images/{}/members/{}', update_member),
    ('DELETE', '/v2/images/{}/members/{}', delete_member),
    ('GET', '/v2/schemas/{}', show_schema),
    ('GET', '/v2/info/import', show_import),
    ('GET', '/v2/info/stores', show_stores),
    ('GET', '/v2/info/usage', show_usage),
)
# They belong to no project: a token without one may read them.
OF_NOBODY = (show_schema, show_import, show_stores)
