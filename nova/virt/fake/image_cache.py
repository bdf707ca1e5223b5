"""Images that were fetched ahead of time: their ids are remembered, nothing is stored."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.virt import driver
from nova.virt.fake import machine

if TYPE_CHECKING:
    from nova.context import RequestContext


class ImageCache(machine.Feature, driver.ImageCache):
    """``cached_images`` has the ids, in the order of their coming."""

    cached_images: list[str]     # what FakeDriver has
    images: driver.ImageSource

    def cache_image(self, context: RequestContext, image_id: str) -> None:
        with self.machine.operation('cache_image'):
            self.images.show(context, image_id)
            if image_id not in self.cached_images:
                self.cached_images.append(image_id)
