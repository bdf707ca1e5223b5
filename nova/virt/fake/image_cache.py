"""Images fetched ahead of time: only their ids are stored."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.virt import driver
    from nova.virt.fake.machine import Machine


class ImageCache:
    """Append the ids of images to ``cached_images`` of the machine."""

    def __init__(self, machine: Machine, images: driver.ImageSource) -> None:
        self.machine, self._images = machine, images

    def cache_image(self, context: RequestContext, image_id: str) -> None:
        with self.machine.operation('cache_image'):
            self._images.show(context, image_id)
            if image_id not in self.machine.cached_images:
                self.machine.cached_images.append(image_id)
