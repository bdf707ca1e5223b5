"""Images of the embedded store: the backend that implements api.Images."""
from collections.abc import Iterator, Mapping, Sequence
import contextlib
import os
from typing import cast

from nova import exception
from nova.context import RequestContext
from nova.image import api
from nova.image import fields
from nova.image import grants
from nova.image.embedded import files
from nova.image.embedded import search
from nova.image.embedded.service import Change
from nova.image.embedded.service import Store
from nova.image.embedded.stored_image import StoredImage
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.objects.image import Image
from nova.objects.image import ImageValues
from nova.runtime import disk_space
from nova.runtime import progress


class EmbeddedImages(api.Images):
    """Images in the embedded store."""

    in_place = True

    def __init__(self, store: Store) -> None:
        self.store = store

    def show(self, ctx: RequestContext, image_id: str) -> Image:
        image = self.store.show(ctx, image_id)
        if not self._allows(ctx, 'get_image', image):
            raise exception.ImageNotFound(image_id=image_id)
        return _public(image)

    def check_download(self, ctx: RequestContext, image: Image) -> None:
        if image['size'] and not self._allows(ctx, 'download_image', image):
            raise exception.PolicyDenied(rule='download_image')

    def _allows(self, ctx: RequestContext, rule: str, image: StoredImage | Image) -> bool:
        """Check a rule for requests of users; always allow internal requests and requests with an image grant."""
        is_user = bool(ctx.auth_token and ctx.roles) and ctx.image_grant is None
        return not is_user or self.store.allows(ctx, rule, image)

    def list(self, ctx: RequestContext, filters: api.Filters | None = None,
             limit: int | None = None, marker: str | None = None, sort: str | None = None) -> Sequence[Image]:
        wanted = search.parse(api.query_pairs(filters, limit, marker, sort))
        while True:
            rows = self.store.page(ctx, wanted)
            shown = [_public(row) for row in rows if self._allows(ctx, 'get_image', row)]
            if shown or not rows:
                return shown
            # The rules hide the whole page. Continue after its last row; ``after`` works even if that row was deleted.
            wanted.marker, wanted.after = None, rows[-1]

    def create(self, ctx: RequestContext, values: ImageValues) -> Image:
        columns = _columns(values)
        return _public(self.store.create(ctx, columns, values.get('properties'), values.get('tags') or ()))

    def update(self, ctx: RequestContext, image_id: str, values: ImageValues, purge_props: bool = False) -> Image:
        columns = _columns(values)

        def change(image: StoredImage) -> Change:
            properties = values.get('properties')
            if properties is None or not purge_props:
                properties = {**image['properties'], **(properties or {})}
            return columns, properties, values.get('tags', image['tags'])
        return _public(self.store.update(ctx, image_id, change))

    def delete(self, ctx: RequestContext, image_id: str) -> None:
        self.store.delete(ctx, image_id)

    def download(self, ctx: RequestContext, image_id: str, path: str,
                 moved: progress.Moved = progress.ignore) -> None:
        image, source = self.store.open(ctx, image_id)
        if source is None:
            raise exception.ImageInactive(image_id=image_id)
        with source, api.complete_file(path) as (temporary, target):
            files.copy(source, target, moved)
            files.verify_download(temporary, image, self.store.max_virtual_size)

    @contextlib.contextmanager
    def readable(self, ctx: RequestContext, image_id: str, path: str, group: int | None = None) -> Iterator[str]:
        image, source = self.store.open(ctx, image_id)
        if source is None:
            raise exception.ImageInactive(image_id=image_id)
        with source:
            place = self.store.files.path(image['data_id'])
            try:
                api.verify_file(place, image['disk_format'] or '', image['id'], self.store.max_virtual_size)
                if group is not None:
                    self.store.files.grant_read(image['data_id'], group)
            except FileNotFoundError:                # the image was deleted after its file was opened
                raise exception.ImageNotFound(image_id=image_id) from None
            with self.store.digests.checked(image, source):
                yield place

    def upload(self, ctx: RequestContext, image_id: str, path: str, disk_format: str,
               container_format: str | None = None, moved: progress.Moved = progress.ignore,
               give: bool = False) -> None:
        api.set_formats(self, ctx, image_id, disk_format, container_format)
        size = os.path.getsize(path)
        if give and self.store.adopt(ctx, image_id, path):
            moved(size)
            return
        with open(path, 'rb') as file:
            self.store.upload(ctx, image_id, progress.Reader(file, moved), os.fstat(file.fileno()).st_size,
                              disk_space.used_bytes(path))

    def grant(self, grant: grants.Grant) -> str:
        return self.store.sign(grant)


def _columns(values: ImageValues) -> JsonObject:
    return {name: cast('Json', value) for name, value in values.items() if name not in ('properties', 'tags')}


def _public(row: StoredImage) -> Image:
    """Return an image without the columns of the store."""
    columns = cast('Mapping[str, object]', row)          # for the type checker: keys of a TypedDict must be literals
    return cast('Image', {name: columns[name] for name in (*fields.COLUMNS, 'properties') if name in columns})
