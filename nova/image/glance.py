"""HTTP client of an Image service (Glance v2)."""
from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any, cast, TYPE_CHECKING, TypedDict

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.image import api
from nova.image import fields
from nova.image.embedded import files
from nova.runtime import progress
from nova.runtime import rest_client

if TYPE_CHECKING:
    import requests
    from typing_extensions import Unpack

    from nova.context import RequestContext
    from nova.json_types import Json
    from nova.json_types import JsonObject
    from nova.objects.image import Image
    from nova.objects.image import ImageValues

PATCH_TYPE = 'application/openstack-images-v2.1-json-patch'
SERVICE_TYPE = 'image'            # default service type in the catalog
ERRORS = {400: exception.BadRequest, 409: exception.Conflict, 410: exception.Gone, 413: exception.TooLarge,
          415: exception.UnsupportedMediaType}
TIMES = ('created_at', 'updated_at')


class _Options(TypedDict, total=False):
    """Keyword arguments of a request: see requests.request."""

    json: Json
    params: Sequence[tuple[str, str]]
    data: Iterable[bytes]
    stream: bool


class GlanceImages(api.Images):
    """Thread-safe client.

    :param conf: uses [glance] (see nova.runtime.rest_client) and [image]/max_virtual_size
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self.max_virtual_size = conf.image.max_virtual_size * api.GIB
        self._service = rest_client.Service(conf, 'glance', SERVICE_TYPE, 'Image', ERRORS)
        self._prefix: str | None = None

    def show(self, ctx: RequestContext, image_id: str) -> Image:
        return _image(self._call(ctx, 'GET', f'/images/{_id(image_id)}', image_id).json())

    def list(self, ctx: RequestContext, filters: api.Filters | None = None,
             limit: int | None = None, marker: str | None = None, sort: str | None = None) -> Sequence[Image]:
        params = api.query_pairs(filters, limit, marker, sort)
        body = self._call(ctx, 'GET', '/images', params=params).json()
        return [_image(image) for image in body['images']]

    def create(self, ctx: RequestContext, values: ImageValues) -> Image:
        return _image(self._call(ctx, 'POST', '/images', json=_flat(values)).json())

    def update(self, ctx: RequestContext, image_id: str, values: ImageValues, purge_props: bool = False) -> Image:
        patch: list[Json] = [{'op': 'add', 'path': _pointer(name), 'value': value}
                             for name, value in _flat(values).items()]
        if purge_props and values.get('properties') is not None:
            present = self.show(ctx, image_id)['properties']
            patch += [{'op': 'remove', 'path': _pointer(name)} for name in present.keys() - values['properties'].keys()]
        if not patch:
            return self.show(ctx, image_id)
        return _image(self._call(ctx, 'PATCH', f'/images/{_id(image_id)}', image_id, json=patch,
                                 headers={'Content-Type': PATCH_TYPE}).json())

    def delete(self, ctx: RequestContext, image_id: str) -> None:
        self._call(ctx, 'DELETE', f'/images/{_id(image_id)}', image_id)

    def download(self, ctx: RequestContext, image_id: str, path: str,
                 moved: progress.Moved = progress.ignore) -> None:
        image = self.show(ctx, image_id)
        if image['status'] != 'active':
            raise exception.ImageInactive(image_id=image_id)
        response = self._call(ctx, 'GET', f'/images/{_id(image_id)}/file', image_id, stream=True)
        with response, api.complete_file(path) as (temporary, target):
            received = 0
            for chunk in self._service.stream(response, files.CHUNK):
                received += len(chunk)
                if image['size'] is not None and received > image['size']:
                    break
                target.write(chunk)
                moved(received)
            if image['size'] is not None and received != image['size']:
                raise exception.ImageUnacceptable(image_id=image_id, reason='the length of its data differs '
                                                                           'from its recorded size')
            target.flush()
            files.verify_download(temporary, image, self.max_virtual_size)

    def upload(self, ctx: RequestContext, image_id: str, path: str, disk_format: str,
               container_format: str | None = None, moved: progress.Moved = progress.ignore,
               give: bool = False) -> None:
        api.verify_file(path, disk_format, image_id, self.max_virtual_size)
        api.set_formats(self, ctx, image_id, disk_format, container_format)
        with open(path, 'rb') as file:
            self._call(ctx, 'PUT', f'/images/{_id(image_id)}/file', image_id,
                       data=progress.Reader(file, moved),
                       headers={'Content-Type': 'application/octet-stream'})

    def _call(self, ctx: RequestContext, method: str, path: str, image_id: str | None = None,
              headers: dict[str, str] | None = None, **options: Unpack[_Options]) -> requests.Response:
        response = self._service.request(ctx, method, lambda: self._root() + path,
                                         {'Accept': '*/*', **(headers or {})}, **options)
        if response.status_code < 400:
            return response
        response.close()
        if response.status_code == 404:
            raise exception.ImageNotFound(image_id=image_id)
        raise self._service.refusal(ctx, response.status_code)

    def _root(self) -> str:
        """Return the path prefix, without the version if the endpoint already contains it."""
        if self._prefix is None:
            self._prefix = '' if self._service.endpoint().endswith('/v2') else '/v2'
        return self._prefix


def _id(image_id: str | None) -> str:
    """Check an id before it becomes part of a URL."""
    if image_id is None or not fields.is_uuid(image_id):
        raise exception.ImageNotFound(image_id=str(image_id)[:64])
    return image_id


def _pointer(name: str) -> str:
    return '/' + name.replace('~', '~0').replace('/', '~1')


def _flat(values: ImageValues) -> JsonObject:
    return {**{name: cast('Json', value) for name, value in values.items() if name != 'properties'},
            **(values.get('properties') or {})}


def _image(body: dict[str, Any]) -> Image:
    columns, properties = fields.split(body)
    image: dict[str, Any] = {name: columns.get(name) for name in fields.COLUMNS}
    for name in TIMES:
        if image[name]:
            moment = datetime.datetime.fromisoformat(image[name])
            image[name] = moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment
    image['tags'] = image['tags'] or []
    image['properties'] = {name: value for name, value in properties.items() if isinstance(value, str)}
    return cast('Image', image)
