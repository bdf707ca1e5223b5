"""Operations of the Image API: routes and handlers."""
from __future__ import annotations

import contextlib
import re
import typing
from collections.abc import Iterator
from wsgiref.types import WSGIEnvironment

import webob.exc

from nova import exception
from nova.image import fields
from nova.image import resources
from nova.image.embedded import files
from nova.image.embedded import imports
from nova.image.embedded import search
from nova.image.embedded import service
from nova.image.rest import forms
from nova.image.rest import metadefs
from nova.image.rest import patch
from nova.image.rest import tasks
from nova.image.rest import views
from nova.json_types import Json
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.web import bodies
from nova.web import json_text
from nova.web.request import BaseRequest
from nova.web.request import Headers
from nova.web.request import Response
from nova.web.request import Stream
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.db.tables.rows import ImageMembersRow
    from nova.image.embedded.service import Change
    from nova.image.embedded.stored_image import StoredImage
    from nova.image.rest.request import ImageRequest

MAX_BODY = 1024 * 1024           # maximum bytes of a JSON document
# maximum bytes that are read of a refused upload, so that the client receives the response
DRAIN = 64 * 1024 * 1024
OCTETS = 'application/octet-stream'
SIZE_HEADER = 'HTTP_X_OPENSTACK_IMAGE_SIZE'
SIZE = re.compile('[0-9]{1,18}')
RANGE = re.compile(r'\s*bytes=(\d{0,18})-(\d{0,18})\s*', re.ASCII | re.IGNORECASE)


# ---- images ------------------------------------------------------------------

def list_images(req: ImageRequest) -> JsonObject:
    wanted = search.parse(req.query)
    rows = req.store.page(req.context, wanted)
    allowed = {place: req.store.allows(req.context, 'get_image', {'owner': place[0], 'visibility': place[1]})
               for place in {(row['owner'], row['visibility']) for row in rows}}
    return views.images(rows, req.query, wanted.limit, wanted.cut, lambda row: allowed[row['owner'], row['visibility']])


def create_image(req: ImageRequest) -> Response:
    body = _body(req)
    for name, value in body.items():
        resources.check_settable(name, 'create')
        resources.check(name, value)
    tags = typing.cast(list[str], body.pop('tags', []))      # checked above
    columns, properties = fields.split(body)
    row = req.store.create(req.context, columns, properties, tags)
    return Response(views.ANSWER_IMAGE.render(req, row),
                    headers=[('Location', f'{req.root_url.rstrip("/")}/v2/images/{row["id"]}'),
                             (views.IMPORT_METHODS, ','.join(req.store.imports.methods))])


def show_image(req: ImageRequest, image_id: str) -> StoredImage:
    image = req.store.show(req.context, image_id)
    if not req.store.allows(req.context, 'get_image', image):
        raise exception.ImageNotFound(image_id=image_id)
    return image


def update_image(req: ImageRequest, image_id: str) -> StoredImage | Response:
    if req.content_type not in patch.TYPES:
        types = ', '.join(patch.TYPES)
        return _fault_of(415, f'The content type must be one of {types}.', [('Accept-Patch', types)])
    req.store.show(req.context, image_id)                    # raises 404 before the body is read
    operations = patch.parse(_document(req), req.content_type)
    return req.store.update(req.context, image_id, patch.change(operations))


# ---- data --------------------------------------------------------------------

def upload(req: ImageRequest, image_id: str) -> None:
    _receive(req, image_id, 'active')


def stage(req: ImageRequest, image_id: str) -> None:
    if imports.DIRECT not in req.store.imports.methods:
        raise exception.NotFound('This cloud does not stage image data.')
    _receive(req, image_id, resources.STAGED)


def _receive(req: ImageRequest, image_id: str, status: str) -> None:
    req.store.show(req.context, image_id)
    if req.content_type != OCTETS:
        raise exception.UnsupportedMediaType(f'The content type must be {OCTETS}.')
    length = _declared_length(req.environ)
    if length is not None and length > req.store.files.max_size:
        raise exception.TooLarge(limit=req.store.files.max_size)
    chunks = _received(req.environ, length)
    try:
        req.store.upload(req.context, image_id, chunks, length or 0, status=status)
    except exception.NovaException:
        _drain(chunks)
        raise


def import_image(req: ImageRequest, image_id: str) -> None:
    req.store.show(req.context, image_id)                    # raises 404 before the body is read
    body = _body(req)
    forms.check(forms.IMPORT, body)
    method = typing.cast(dict[str, str], body['method'])     # checked above
    req.store.imports.start(req.context, image_id, req.store.imports.source(method['name'], method.get('uri')))


def _declared_length(environ: WSGIEnvironment) -> int | None:
    """Return the length of the body, or None if unknown (chunked)."""
    stated, length = environ.get(SIZE_HEADER), bodies.length_of(environ)
    if stated is not None and (not SIZE.fullmatch(stated) or length not in (None, int(stated))):
        raise exception.BadRequest('X-OpenStack-Image-Size differs from the size of the data.')
    if length is None and not bodies.is_chunked(environ):
        return 0
    return length


def _received(environ: WSGIEnvironment, length: int | None) -> Iterator[bytes]:
    """Yield the chunks of the body; raises BadRequest if it is truncated."""
    source, received = environ['wsgi.input'], 0
    while length is None or received < length:
        try:
            chunk = source.read(files.CHUNK if length is None else min(files.CHUNK, length - received))
        except (OSError, ValueError):
            raise exception.BadRequest('The connection was closed before all data had arrived.') from None
        if not chunk:
            break
        received += len(chunk)
        yield chunk
    if length is not None and received < length:
        raise exception.BadRequest('The connection was closed before all data had arrived.')
    stated = environ.get(SIZE_HEADER)
    if stated is not None and received != int(stated):
        raise exception.BadRequest('X-OpenStack-Image-Size differs from the size of the data.')


def _drain(chunks: Iterator[bytes]) -> None:
    left = DRAIN
    with contextlib.suppress(exception.NovaException):
        for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                return


def download(req: ImageRequest, image_id: str) -> Response:
    if not req.store.allows(req.context, 'download_image', req.store.show(req.context, image_id)):
        raise exception.PolicyDenied(rule='download_image')
    row, file = req.store.open(req.context, image_id)
    if file is None:
        return Response(None, 204)
    size = row['size'] or 0
    start, end = 0, size
    wanted = RANGE.fullmatch(req.header('Range'))            # other units and several ranges are ignored
    headers = [('Accept-Ranges', 'bytes')]
    if wanted:
        try:
            start, end = _range(wanted, size)
        except ValueError:
            file.close()
            return _fault_of(416, 'The range lies outside the data.', [('Content-Range', f'bytes */{size}')])
        headers.append(('Content-Range', f'bytes {start}-{end - 1}/{size}'))
    elif row['checksum']:
        headers.append(('Content-MD5', row['checksum']))
    body = Stream.of_file(file, start, end - start, OCTETS)
    return Response(body, 206 if wanted else 200, headers)


def _range(match: re.Match[str], size: int) -> tuple[int, int]:
    """Return (first byte, byte after the last) of a Range; raises ValueError if it cannot be satisfied."""
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last or 0)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    if start >= end:
        raise ValueError(match[0])
    return start, end


# ---- tags and members --------------------------------------------------------

def add_tag(req: ImageRequest, image_id: str, tag: str) -> None:
    resources.check('tags', [tag])
    req.store.update(req.context, image_id, lambda image: ({}, image['properties'], [*image['tags'], tag]))


def delete_tag(req: ImageRequest, image_id: str, tag: str) -> None:
    def change(image: StoredImage) -> Change:
        if tag not in image['tags']:
            raise exception.NotFound(f'Image {image_id} has no such tag.')
        return {}, image['properties'], [present for present in image['tags'] if present != tag]
    req.store.update(req.context, image_id, change)


def list_tasks(req: ImageRequest, image_id: str) -> JsonObject:
    """Return the imports of an image; [] if the caller may not change the image, because import messages show URLs."""
    image = show_image(req, image_id)
    found = req.store.imports.tasks(image['id']) if service.may_change(req.context, image) else []
    return {'tasks': [tasks.document(task) for task in found]}


def create_member(req: ImageRequest, image_id: str) -> ImageMembersRow:
    return req.store.add_member(req.context, image_id, _body(req).get('member'))


def update_member(req: ImageRequest, image_id: str, member: str) -> ImageMembersRow:
    return req.store.update_member(req.context, image_id, member, _body(req).get('status'))


# ---- schemas and capabilities -------------------------------------------------

def show_schema(req: ImageRequest, name: str) -> JsonDocument:
    if name not in views.SCHEMAS:
        raise exception.NotFound()
    return views.SCHEMAS[name]


def show_metadef_schema(req: ImageRequest, name: str) -> JsonDocument:
    if name not in metadefs.SCHEMAS:
        raise exception.NotFound()
    return metadefs.SCHEMAS[name]


def create_task(req: ImageRequest) -> Response:
    req.store.policy.authorize(req.context, 'add_task', {'project_id': req.context.project_id})
    return tasks.create_task(req, _body(req))


# ---- requests and responses --------------------------------------------------

def _document(req: BaseRequest) -> Json:
    if bodies.length_of(req.environ) is None and not bodies.is_chunked(req.environ):
        raise exception.BadRequest('The request must have a body.')
    try:
        text = bodies.read(req.environ, MAX_BODY)
    except (OSError, ValueError):
        raise exception.BadRequest('The body cannot be read.') from None
    try:
        return json_text.parse(text)
    except ValueError:
        raise exception.BadRequest('The body is not valid JSON.') from None


def _body(req: BaseRequest) -> JsonObject:
    """Return the JSON object of the request."""
    if req.content_type not in ('application/json', ''):
        raise exception.UnsupportedMediaType()
    document = _document(req)
    if not isinstance(document, dict):
        raise exception.BadRequest('The body must be a JSON object.')
    return document


def _fault_of(code: int, message: str, headers: Headers) -> Response:
    title = webob.exc.status_map[code].title
    return Response({'message': message, 'code': f'{code} {title}', 'title': title}, code, headers)


def fault(code: int, message: str, allow: list[str] | None = None) -> Response:
    """Return the response to an error.

    :param allow: allowed methods for a 405
    """
    return _fault_of(code, message, [('Allow', ', '.join(allow))] if allow else [])


# ---- rows --------------------------------------------------------------------

_IMAGE = '/v2/images/{image_id}'
_TAG, _MEMBERS = _IMAGE + '/tags/{tag}', _IMAGE + '/members'
_MEMBER = _MEMBERS + '/{member}'
_PUBLISHING = tuple(service.PUBLISHING.values())

# streams=True: the handler reads the body, so that it can return 404 first and drain the body of a refused upload
ROUTES = (
    Route('GET', '/v2/images', list_images, 'get_images', ('get_image',), query=forms.ListQuery(),
          answer=views.ANSWER_IMAGES),
    Route('POST', '/v2/images', create_image, None, ('add_image', *_PUBLISHING), status=201, streams=True,
          errors=(409, 415), body=forms.NEW_IMAGE, answer=views.ANSWER_IMAGE),
    Route('GET', _IMAGE, show_image, None, ('get_image',), answer=views.ANSWER_IMAGE),
    Route('PATCH', _IMAGE, update_image, None, ('modify_image', *_PUBLISHING), streams=True, errors=(409, 415),
          body=forms.CHANGES, answer=views.ANSWER_IMAGE),
    Route('DELETE', _IMAGE, lambda req, image_id: req.store.delete(req.context, image_id), None, ('delete_image',),
          status=204, name='delete_image'),
    Route('GET', _IMAGE + '/file', download, None, ('download_image',), also=(204, 206), errors=(416,)),
    Route('PUT', _IMAGE + '/file', upload, None, ('upload_image',), status=204, streams=True,
          errors=(409, 415, 507), body=forms.DATA),
    Route('PUT', _IMAGE + '/stage', stage, None, ('upload_image',), status=204, streams=True,
          errors=(409, 415, 507), body=forms.DATA),
    Route('POST', _IMAGE + '/import', import_image, None, ('upload_image',), status=202, streams=True,
          errors=(409, 415, 503, 507), body=forms.IMPORT),
    Route('POST', _IMAGE + '/actions/deactivate',
          lambda req, image_id: req.store.set_active(req.context, image_id, False), None, ('deactivate',), status=204,
          name='deactivate'),
    Route('POST', _IMAGE + '/actions/reactivate',
          lambda req, image_id: req.store.set_active(req.context, image_id, True), None, ('reactivate',), status=204,
          name='reactivate'),
    Route('PUT', _TAG, add_tag, None, ('modify_image',), status=204),
    Route('DELETE', _TAG, delete_tag, None, ('modify_image',), status=204),
    Route('GET', _IMAGE + '/tasks', list_tasks, None, ('get_image',), answer=views.ANSWER_TASKS),
    Route('GET', _MEMBERS, lambda req, image_id: req.store.members(req.context, image_id), None, ('get_members',),
          answer=views.ANSWER_MEMBERS, name='list_members'),
    Route('POST', _MEMBERS, create_member, None, ('add_member',), streams=True, errors=(409, 415),
          body=forms.NEW_MEMBER, answer=views.ANSWER_MEMBER),
    Route('GET', _MEMBER, lambda req, image_id, member: req.store.members(req.context, image_id, member)[0], None,
          ('get_member',), answer=views.ANSWER_MEMBER, name='show_member'),
    Route('PUT', _MEMBER, update_member, None, ('modify_member', 'get_member'), streams=True, errors=(415,),
          body=forms.MEMBER_STATUS, answer=views.ANSWER_MEMBER),
    Route('DELETE', _MEMBER, lambda req, image_id, member: req.store.delete_member(req.context, image_id, member), None,
          ('delete_member',), status=204, name='delete_member'),
    Route('GET', '/v2/schemas/{name}', show_schema, any_scope=True, answer=views.ANSWER_SCHEMA),
    Route('GET', '/v2/schemas/metadefs/{name}', show_metadef_schema, any_scope=True, answer=views.ANSWER_SCHEMA),
    *metadefs.ROUTES,
    Route('GET', '/v2/tasks', tasks.list_tasks, 'get_tasks', query=forms.TASK_QUERY, answer=views.ANSWER_ALL_TASKS),
    Route('GET', '/v2/tasks/{task_id}', tasks.show_task, 'get_task', answer=views.ANSWER_TASK),
    Route('POST', '/v2/tasks', create_task, 'tasks_api_access', ('add_task', 'add_image', 'upload_image'), status=201,
          streams=True, errors=(409, 415), body=forms.NEW_TASK, answer=views.ANSWER_TASK),
    Route('GET', '/v2/info/import', lambda req: views.import_methods(req.store.imports.methods), any_scope=True,
          answer=views.ANSWER_IMPORT, name='show_import'),
    Route('GET', '/v2/info/stores', lambda req: views.STORES, any_scope=True, answer=views.ANSWER_STORES,
          name='show_stores'),
    Route('GET', '/v2/info/usage', lambda req: views.usage(req.store.usage(req.context)), answer=views.ANSWER_USAGE,
          name='show_usage'),
)
