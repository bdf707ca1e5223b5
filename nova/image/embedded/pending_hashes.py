"""Compute the checksums of images that were moved into the store: after the activation, one image at a time.

Moving a file copies no data, so hashing would take longer than the rest of a snapshot. Glance also hashes in the
background if a location was added to an image (``do_secure_hash``). Until they are computed, checksums are null.
"""
import collections
import logging
import threading

from nova.db.engine import Database
from nova.db.images import images as db_images
from nova.image.embedded import files as store_files
from nova.image.embedded import hashing
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)


class PendingHashes:
    """Queue of files to hash, processed by one thread. After a restart, ``recover`` fills the queue again.

    :param db: the API database
    :param files: the store's files
    """

    def __init__(self, db: Database, files: store_files.Files) -> None:
        self._db, self._files = db, files
        self._waiting: collections.deque[tuple[str, str]] = collections.deque()
        self._running = False
        self._lock = threading.Lock()

    def recover(self) -> None:
        """Add the images without checksums to the queue after a restart."""
        with self._db.reader() as conn:
            unhashed = db_images.unhashed(conn)
        for image_id, data_id in unhashed:
            self.add(image_id, data_id)

    def add(self, image_id: str, data_id: str) -> None:
        """Compute the checksums of an active image's file in the background."""
        with self._lock:
            self._waiting.append((image_id, data_id))
            if self._running:
                return
            self._running = True
        try:
            concurrency.spawn('image-hash', self._run)
        except RuntimeError as error:            # no thread can start: the next image or a restart retries
            with self._lock:
                self._running = False
            LOG.warning('Cannot start to compute the checksums of image %s: %s', image_id, error)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                image_id, data_id = self._waiting.popleft()
            try:
                self._hash(image_id, data_id)
            except FileNotFoundError:
                LOG.debug('Image %s was deleted before it was hashed.', image_id)
            except Exception:
                LOG.exception('Cannot compute the checksums of image %s; the service retries at its next start.',
                              image_id)

    def _hash(self, image_id: str, data_id: str) -> None:
        with self._files.open(data_id) as file, hashing.Hashes() as hashes:
            while chunk := concurrency.blocking(file.read, store_files.CHUNK):
                hashes.add(chunk)
            columns = hashes.columns()
        self._db.run(db_images.set_checksums, image_id, data_id, **columns)
