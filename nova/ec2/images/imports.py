"""Background import of images from bundles. Clients see the image as pending.

The state is stored in properties of the image, so that every process can show it: ``image_location``; ``image_state``
(pending, available or failed); ``image_progress`` in percent; ``image_state_reason``. A running import updates these
properties every minute. If updates stop, the process has ended and the import counts as failed.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import datetime
import logging
import threading
import time
from typing import Any

from nova import exception
from nova import utils
from nova.ec2 import calls
from nova.ec2 import errors
from nova.ec2.bundles import bundles
from nova.ec2.bundles import manifests
from nova.runtime import concurrency
from nova.runtime import fairness
from nova.runtime import queues

LOG = logging.getLogger(__name__)

MAX_IMPORTS = 8                 # maximum waiting and running imports of this process; one project may have half of them
MAX_CONCURRENT = 2                     # maximum running imports; each occupies one CPU
WRITE_INTERVAL_S = 60
UPDATE_TIMEOUT_S = 600                    # seconds without an update after which an import has failed
PROGRESS_STEP = 10                       # minimum progress between two updates, in percent
LOCATION, STATE, PROGRESS, REASON = 'image_location', 'image_state', 'image_progress', 'image_state_reason'
PATCH = 'application/openstack-images-v2.1-json-patch'
LOST = 'The import was interrupted. Register the image again.'


class Imports:
    """The imports of this process."""

    def __init__(self) -> None:
        self._places = fairness.ConcurrencyLimit(queues.EC2_IMPORTS, MAX_IMPORTS)
        self._turns = threading.BoundedSemaphore(MAX_CONCURRENT)

    def start(self, caller: calls.Caller, size: int, make: Callable[[], str], pieces: Iterable[bytes]) -> str:
        """Create an image, start a thread that uploads its data, and return the image ID.

        :param make: creates the image and returns its ID
        :param pieces: the data, ``size`` bytes; errors of this iterator are reported to the user
        :raises Ec2Error: too many imports are running
        """
        project_id = caller.user.project_id
        if not self._places.acquire(project_id):
            raise errors.Ec2Error('RequestLimitExceeded', 'Too many images are being imported. Retry the request '
                                  'after one of them is available.', 503)
        try:
            image_id = make()
            concurrency.spawn('ec2-import', self._work, _Import(caller, image_id, size), iter(pieces), project_id)
        except BaseException:
            self._places.release(project_id)
            raise
        return image_id

    def _work(self, work: _Import, pieces: Iterator[bytes], project_id: str) -> None:
        try:
            while not self._turns.acquire(timeout=WRITE_INTERVAL_S):
                work.write({PROGRESS: '0'})
            try:
                work.run(pieces)
            finally:
                self._turns.release()
        except (errors.Ec2Error, errors.ServiceRefused) as error:
            LOG.info('Dropping the queued import of image %s: %s', work.image_id, error)
        except Exception:
            LOG.exception('Cannot import image %s', work.image_id)
        finally:
            self._places.release(project_id)


class _Import:
    """One import.

    :param size: bytes of the image
    """

    def __init__(self, caller: calls.Caller, image_id: str, size: int) -> None:
        self._caller, self.image_id, self._size = caller, image_id, size

    def write(self, values: dict[str, str]) -> None:
        """Set properties of the image.

        :raises ServiceRefused: the image was deregistered, or the user has lost permission
        """
        self._caller.call('image', 'PATCH', f'/images/{self.image_id}', headers={'Content-Type': PATCH}, body=[
            {'op': 'add', 'path': f'/{name}', 'value': value} for name, value in values.items()])

    def run(self, pieces: Iterator[bytes]) -> None:
        body = calls.Body(self._counted(pieces), self._size)
        try:
            self._caller.call('image', 'PUT', f'/images/{self.image_id}/file', body)
            self.write({STATE: 'available', PROGRESS: '100'})
            LOG.info('Image %s was imported.', self.image_id)
        except (errors.Ec2Error, errors.ServiceRefused) as error:
            self._fail(body.error or error)

    def _fail(self, error: Exception) -> None:
        reason = getattr(error, 'message', None)
        if not isinstance(error, (exception.NovaException, errors.Ec2Error, errors.ServiceRefused)) or not reason:
            LOG.error('Cannot import image %s', self.image_id, exc_info=error)
            reason = 'An internal error has occurred.'
        LOG.warning('Import of image %s failed: %s', self.image_id, reason)
        try:
            self.write({STATE: 'failed', REASON: str(reason)[:255]})
        except (errors.Ec2Error, errors.ServiceRefused) as gone:
            LOG.info('Cannot write the state of image %s, which may have been deleted: %s', self.image_id, gone)

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces, and update the progress of the image."""
        done, shown, wrote = 0, 0, time.monotonic()
        for piece in pieces:
            yield piece
            done += len(piece)
            share = 100 * done // self._size
            if share < 100 and (share >= shown + PROGRESS_STEP or time.monotonic() > wrote + WRITE_INTERVAL_S):
                self.write({PROGRESS: str(share)})
                shown, wrote = share, time.monotonic()
            time.sleep(0)                     # let other green threads run: file I/O and computation never yield


def pieces_of(caller: calls.Caller, bucket: str, folder: str, manifest: manifests.Manifest, key: str, iv: str,
              limit: int, path_of: Callable[[str, str], str]) -> Iterator[bytes]:
    """Yield the data of a bundled image; its parts are objects in the manifest's folder.

    :param folder: prefix of the parts' names
    :param path_of: (bucket, key) -> path of an object
    :raises InvalidInput: the bundle does not match its manifest
    :raises Ec2Error: a part is missing
    """
    def open_part(name: str) -> Iterator[bytes]:
        try:
            yield from caller.read('object', path_of(bucket, folder + name), manifest.bundled_size)
        except errors.ServiceRefused as refused:
            if refused.status != 404:
                raise
            raise errors.Ec2Error('InvalidManifest', f'The part {name} of the image is not in the object store.'
                                  ) from None
    return bundles.unbundle(manifest, key, iv, open_part, limit)


def state_of(image: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return (EC2 state, reason) of an unfinished or failed import; (None, None) if the image's status applies."""
    state = image.get(STATE)
    if image['status'] not in ('queued', 'saving') or state not in ('pending', 'failed'):
        return None, None
    if state == 'failed':
        return 'failed', image.get(REASON)
    changed = datetime.datetime.fromisoformat(image['updated_at']).replace(tzinfo=None)
    if utils.utcnow() - changed > datetime.timedelta(seconds=UPDATE_TIMEOUT_S):
        return 'failed', LOST
    return 'pending', f'The import is in progress: {image.get(PROGRESS) or 0} %.'
