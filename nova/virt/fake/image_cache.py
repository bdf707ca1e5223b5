"""Images that were fetched ahead of time: their ids are remembered, nothing is stored."""
from nova.virt import driver


class ImageCache(driver.ImageCache):
    """``cached_images`` has the ids, in the order of their coming."""

    @property
    def cached_images(self):
        return self.__dict__.setdefault('_cached_images', [])

    def cache_image(self, context, image_id):
        with self._operation('cache_image', None):
            self.images.show(context, image_id)
            if image_id not in self.cached_images:
                self.cached_images.append(image_id)
