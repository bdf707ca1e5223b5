"""Fetching images before a server needs them."""
import logging

from nova import exception

LOG = logging.getLogger(__name__)


class ImageCache:
    """The part of the compute's manager that does it; mixed into it."""

    def cache_images(self, ctx, image_ids, grant=None):
        for image_id in image_ids:
            self.queue.submit(f'image:{image_id}', self._cache_image, ctx.granted(grant), image_id)

    def _cache_image(self, ctx, image_id):
        """Without an answer, as after a crash or a failure that may pass, the conductor asks again."""
        reason = None
        try:
            self.driver.cache_image(ctx, image_id)
        except (exception.NotFound, exception.BadRequest) as error:
            LOG.warning('Image %s is not fetched ahead of time: %s', image_id, error.message)
            reason = error.message
        self.conductor.image_cached(ctx, host=self.host, image_id=image_id, reason=reason)
